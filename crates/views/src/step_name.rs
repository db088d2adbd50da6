//! The name of a step in messages.

use std::fmt;

use plan_ledger::{Run, StepNumber, Task};

/// The number and the id of a step.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepName {
    /// The step number.
    pub number: StepNumber,
    /// The step's id in the plan.
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
