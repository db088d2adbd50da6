//! Repeated output of the workers of attempts in flight.

use plan_ledger::{AttemptToken, Run, RunId, StepNumber};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::runner::RepeatingAttempt;
use crate::words::StepName;

/// An attempt with a worker that prints the same lines over and over.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RepeatJson<'a> {
    /// The last one of the lines.
    line: &'a str,
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

impl<'a> From<&'a RepeatingAttempt> for RepeatJson<'a> {
    fn from(attempt: &'a RepeatingAttempt) -> Self {
        let RepeatingAttempt { run, step, token, repeat } = attempt;
        Self {
            line: &repeat.line,
            lines: repeat.lines,
            run: *run,
            step: *step,
            text: format!("prints {repeat}"),
            times: repeat.times,
            token: *token,
        }
    }
}

/// Repeated output, for people.
#[must_use]
pub fn repeated_text(run: &Run, attempt: &RepeatingAttempt) -> String {
    format!("{} prints {}", StepName::of(run, attempt.step), attempt.repeat)
}
