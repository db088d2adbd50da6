//! Repeated output of the workers of attempts in flight.

use plan_ledger::Run;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::runner::RepeatingAttempt;
use crate::words::StepName;

/// An attempt with a worker that prints the same lines over and over.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RepeatJson<'a> {
    /// The attempt, and what its worker prints.
    #[serde(flatten)]
    attempt: &'a RepeatingAttempt,
    /// The repetition, for people.
    text: String,
}

impl<'a> From<&'a RepeatingAttempt> for RepeatJson<'a> {
    fn from(attempt: &'a RepeatingAttempt) -> Self {
        Self { attempt, text: format!("prints {}", attempt.repeat) }
    }
}

/// Repeated output, for people.
#[must_use]
pub fn repeated_text(run: &Run, attempt: &RepeatingAttempt) -> String {
    format!("{} prints {}", StepName::of(run, attempt.step), attempt.repeat)
}
