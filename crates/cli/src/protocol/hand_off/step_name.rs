//! The name of a step in messages.

use std::fmt;

use plan_ledger::{Run, StepNumber, Task};

/// The number and the id of a step.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepName {
    pub number: StepNumber,
    /// The step's id in the plan.
    pub id: String,
}

impl StepName {
    /// The name of a dispatched step.
    pub(crate) fn of_task(task: &Task) -> Self {
        Self { number: task.number, id: task.step.id.clone() }
    }

    /// The name of a step of a run.
    #[must_use]
    pub fn of(run: &Run, number: StepNumber) -> Self {
        let id = run.step(number).map_or_else(String::new, |step| step.id().to_owned());
        Self { number, id }
    }
}

impl fmt::Display for StepName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {} ({})", self.number, self.id)
    }
}
