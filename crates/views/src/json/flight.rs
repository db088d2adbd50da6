//! Attempts that workers have.

use plan_ledger::plan::{Attempt, AttemptSummary};
use plan_ledger::{AttemptToken, Cost, Run, StepNumber, StepState};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::time::TimeJson;

/// An attempt that a worker has.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct FlightJson<'a> {
    /// The number of the attempt at its step, from 1.
    attempt: u32,
    /// The id of the step.
    id: Option<&'a str>,
    /// The end of its lease.
    lease_until: TimeJson,
    /// How many attempts the retry policy of the step allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    /// The cost that is reserved for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    reserved: Option<Cost>,
    /// The time of its dispatch.
    since: TimeJson,
    /// The number of the step.
    step: StepNumber,
    /// Its token.
    token: AttemptToken,
    /// Its worker.
    worker: &'a str,
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
}

impl<'a> From<&'a AttemptSummary> for FlightJson<'a> {
    fn from(flight: &'a AttemptSummary) -> Self {
        let AttemptSummary { step, id, token, attempt, max_attempts, worker, .. } = flight;
        let AttemptSummary { dispatched, lease_until, reserved, .. } = flight;
        Self {
            attempt: *attempt,
            id: Some(id),
            lease_until: (*lease_until).into(),
            max_attempts: Some(*max_attempts),
            reserved: Some(*reserved),
            since: (*dispatched).into(),
            step: *step,
            token: *token,
            worker,
        }
    }
}
