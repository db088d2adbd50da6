//! The reasons that block a step.

use plan_ledger::StepNumber;
use plan_ledger::plan::StepReasons;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// A step, and the reasons that block it.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StepReasonsJson<'a> {
    /// Its id, its status, and the reasons.
    #[serde(flatten)]
    of: &'a StepReasons,
    /// Its number.
    step: StepNumber,
}

impl<'a> StepReasonsJson<'a> {
    /// The reasons of a step.
    #[must_use]
    pub fn of((number, of): (&StepNumber, &'a StepReasons)) -> Self {
        Self { of, step: *number }
    }
}
