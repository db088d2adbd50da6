//! Repeated output of the workers of attempts in flight.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::{AttemptToken, RunId, StepNumber};

use crate::runner::RepeatingAttempt;

/// An attempt with a worker that prints the same lines over and over.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct RepeatJson {
    /// The last one of the lines.
    line: String,
    /// The number of different lines.
    lines: u64,
    /// The run.
    run: RunId,
    /// The step.
    step: StepNumber,
    /// The repetition, for people.
    text: String,
    /// How often in a row the lines were printed.
    times: u64,
    /// The token of the attempt.
    token: AttemptToken,
}

impl RepeatJson {
    pub(crate) fn of(attempt: &RepeatingAttempt) -> Self {
        let RepeatingAttempt { run, step, token, repeat } = attempt;
        Self {
            line: repeat.line.clone(),
            lines: repeat.lines,
            run: *run,
            step: *step,
            text: format!("prints {repeat}"),
            times: repeat.times,
            token: *token,
        }
    }
}
