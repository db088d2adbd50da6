//! Attempts that workers have.

use plan_ledger::plan::{Attempt, UtcTime};
use plan_ledger::{AttemptToken, Cost, Run, StepNumber, StepState};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// An attempt that a worker has.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct FlightJson<'a> {
    /// The number of the attempt at its step, from 1.
    pub(crate) attempt: u32,
    /// The id of the step.
    pub(crate) id: Option<&'a str>,
    /// The end of its lease.
    pub(crate) lease_until: UtcTime,
    /// How many attempts the retry policy of the step allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_attempts: Option<u32>,
    /// The cost that is reserved for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reserved: Option<Cost>,
    /// The time of its dispatch.
    pub(crate) since: UtcTime,
    /// The number of the step.
    pub(crate) step: StepNumber,
    /// Its token.
    pub(crate) token: AttemptToken,
    /// Its worker.
    pub(crate) worker: &'a str,
}

impl<'a> FlightJson<'a> {
    /// The attempt in flight of a step, which is one of so many.
    #[must_use]
    pub fn of(run: &'a Run, number: StepNumber, attempts: u32, attempt: &'a Attempt) -> Self {
        Self {
            attempt: attempts,
            id: run.step(number).map(StepState::id),
            lease_until: attempt.lease_until.into(),
            max_attempts: None,
            reserved: None,
            since: attempt.dispatched.into(),
            step: number,
            token: attempt.token,
            worker: &attempt.worker,
        }
    }

    /// The same with the attempts that are allowed, and the cost that is reserved.
    #[must_use]
    pub fn with_limits(self, run: &Run, attempt: &Attempt) -> Self {
        let max_attempts = Some(run.attempts_allowed(self.step));
        Self { max_attempts, reserved: Some(attempt.reserved), ..self }
    }
}
