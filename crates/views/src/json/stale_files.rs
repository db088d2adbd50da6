//! Files of steps that changed since their plan was made.

use plan_ledger::StepNumber;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// A step with files that changed since the plan was made.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StaleFilesJson {
    /// Their paths.
    files: Vec<String>,
    /// The step.
    step: StepNumber,
}

impl StaleFilesJson {
    /// Steps and their files.
    #[must_use]
    pub fn of(stale: Option<Vec<(StepNumber, Vec<String>)>>) -> Option<Vec<Self>> {
        let json = |(step, files)| Self { files, step };
        stale.map(|stale| stale.into_iter().map(json).collect())
    }
}
