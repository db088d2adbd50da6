//! The status of an attempt's step, as answers about attempts report it.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::{AttemptToken, State, StepStatus};

use crate::protocol::Failure;

use super::find::{StepOfRun, attempt_of, run_status};

/// The status of an attempt's step and run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct AttemptStatus {
    /// The step.
    #[serde(flatten)]
    pub step: StepOfRun,
    /// The number of the attempt's token.
    pub token: u64,
    /// The status of the step.
    pub status: StepStatus,
    /// The status of the run.
    pub run_status: String,
}

impl AttemptStatus {
    pub(super) fn of(state: &State, token: AttemptToken) -> Result<Self, Failure> {
        let (run, number, step) = attempt_of(state, token)?;
        Ok(Self {
            step: StepOfRun::new(run, number),
            token: token.0,
            status: step.status,
            run_status: run_status(run),
        })
    }
}
