//! What the runner of a run waits for before it dispatches ready steps: the end of a limit, or its hours.

use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::{Run, StepNumber};

use crate::commands::inspect::text::waits::waits_of;
use crate::json::TimeJson;
use crate::runner::RunWait;

/// Ready steps that the runner of a run does not dispatch before a time.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WaitJson {
    /// Whose steps; null: those without an owner, or all of the run.
    owner: Option<String>,
    /// The ready steps that wait.
    ready: Vec<StepNumber>,
    /// The reason, for people.
    reason: String,
    /// When the wait ends; then one of the steps is tried.
    until: TimeJson,
    /// Whether all steps of the run wait.
    whole_run: bool,
}

impl WaitJson {
    pub(crate) fn of(wait: &RunWait, run: &Run) -> Self {
        let ready = run.ready().map(|(_, number)| number);
        Self {
            owner: wait.owner.clone(),
            ready: ready.filter(|number| wait.holds(run, *number)).collect(),
            reason: wait.reason.clone(),
            until: wait.until.into(),
            whole_run: wait.is_whole_run,
        }
    }

    /// What the runner of a run waits for.
    pub(crate) fn of_run(waits: &[RunWait], run: &Run) -> Vec<Self> {
        waits_of(waits, run).map(|wait| Self::of(wait, run)).collect()
    }
}
