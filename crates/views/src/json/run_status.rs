//! The status of a run.

use plan_ledger::{Ending, RunStatus};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// The status of a run.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RunStatusJson {
    /// No version of its plan is active yet.
    Proposed,
    /// It is running.
    Running,
    /// It is complete.
    Done,
    /// It cannot complete.
    Failed,
    /// A person or a program cancelled it.
    Cancelled,
    /// A failure rule or an answer aborted it.
    Aborted,
}

impl From<RunStatus> for RunStatusJson {
    fn from(status: RunStatus) -> Self {
        match status {
            RunStatus::Proposed => Self::Proposed,
            RunStatus::Running => Self::Running,
            RunStatus::Ended(Ending::Done) => Self::Done,
            RunStatus::Ended(Ending::Failed) => Self::Failed,
            RunStatus::Ended(Ending::Cancelled) => Self::Cancelled,
            RunStatus::Ended(Ending::Aborted) => Self::Aborted,
        }
    }
}

/// The status of a run as a word.
#[must_use]
pub fn status_word(status: RunStatus) -> &'static str {
    match status.into() {
        RunStatusJson::Proposed => "proposed",
        RunStatusJson::Running => "running",
        RunStatusJson::Done => "done",
        RunStatusJson::Failed => "failed",
        RunStatusJson::Cancelled => "cancelled",
        RunStatusJson::Aborted => "aborted",
    }
}
