//! The name of a step in messages.

use std::fmt;

use plan_ledger::plan::CompactStep;
use plan_ledger::{Run, StepNumber, Task};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// The number and the id of a step.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StepName {
    /// The number of the step.
    pub number: StepNumber,
    /// The id of the step.
    #[serde(rename = "step")]
    pub id: String,
}

impl StepName {
    /// The name of a dispatched step.
    #[must_use]
    pub fn of_task(task: &Task) -> Self {
        Self { number: task.number, id: task.step.id.clone() }
    }

    /// The name of a step of a run.
    #[must_use]
    pub fn of(run: &Run, number: StepNumber) -> Self {
        let id = run.step(number).map_or_else(String::new, |step| step.id().to_owned());
        Self { number, id }
    }

    /// The step in few words: `#37 build`.
    #[must_use]
    pub fn short(&self) -> String {
        format!("#{} {}", self.number, self.id)
    }

    /// The step as an argument of a command: its id, or its number if the id looks like an option or a number, or
    /// is too long to type.
    #[must_use]
    pub fn argument(&self) -> String {
        let is_id = !self.id.starts_with(['-', '#']) && self.id.chars().count() <= TYPED_MAX;
        if is_id { self.id.clone() } else { format!("#{}", self.number) }
    }
}

/// The longest id in a command, in characters.
const TYPED_MAX: usize = 40;

impl fmt::Display for StepName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {} ({})", self.number, self.id)
    }
}

/// A step's number and id: `#37 build`.
#[must_use]
pub fn step_name(run: &Run, number: StepNumber) -> String {
    match run.step(number) {
        Some(step) => format!("#{number} {}", step.id()),
        None => format!("#{number}"),
    }
}

/// The definition of a step in the newest version that has it, and that version's number.
#[must_use]
pub fn text_of(run: &Run, number: StepNumber) -> Option<(u32, CompactStep<'_>)> {
    if let Some(step) = run.plan_step(number) {
        return Some((run.active, step));
    }
    run.numbered_versions().rev().find_map(|(of, version)| {
        let step = version.numbers.iter().position(|each| *each == number)?;
        Some((of, version.plan.step(step)?))
    })
}

/// The title of a step, or its goal; empty if it has none.
#[must_use]
pub fn step_title(run: &Run, number: StepNumber) -> String {
    let plan = text_of(run, number).map(|(_, step)| step);
    let title =
        plan.and_then(|step| [step.title(), step.goal()].into_iter().find(|text| !text.is_empty()));
    title.map_or_else(String::new, str::to_owned)
}

/// The first line of the step's title or goal, or its id.
#[must_use]
pub fn title_line(run: &Run, number: StepNumber) -> String {
    let stated = run.plan_step(number).and_then(|step| {
        let mut lines = step.title().lines().chain(step.goal().lines()).map(str::trim);
        lines.find(|line| !line.is_empty()).map(str::to_owned)
    });
    stated.unwrap_or_else(|| StepName::of(run, number).id)
}
