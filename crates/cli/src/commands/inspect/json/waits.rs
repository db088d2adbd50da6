//! The waits of a run's runner before it dispatches ready steps: for the end of a limit, or for its
//! hours.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::{Run, StepNumber};

use crate::commands::inspect::ledger_at::LedgerAt;
use crate::commands::inspect::text::waits::inside_wait_of;
use crate::json::TimeJson;
use plan_ledger_views::{RunnerWait, waits_of};

/// Ready steps that the runner of a run does not dispatch before a time, or before an answer.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct WaitJson {
    /// The owner of the steps; null: steps without an owner, or all of the run.
    owner: Option<String>,
    /// The ready steps that wait.
    ready: Vec<StepNumber>,
    /// The reason, for people.
    reason: String,
    /// The second owner: its workers take the steps meanwhile; null if there is none.
    second_owner: Option<String>,
    /// When the wait ends; then one of the steps is tried. Null: when a person answers.
    until: Option<TimeJson>,
    /// Whether all steps of the run wait.
    whole_run: bool,
}

impl WaitJson {
    pub(crate) fn of(wait: &RunnerWait, run: &Run) -> Self {
        let ready = run.ready().map(|(_, number)| number);
        Self {
            owner: wait.owner.clone(),
            ready: ready.filter(|number| wait.holds(run, *number)).collect(),
            reason: wait.reason.clone(),
            second_owner: wait.second.clone(),
            until: wait.until.map(TimeJson::from),
            whole_run: wait.is_whole_run,
        }
    }

    /// The waits of a run's runner.
    pub(crate) fn of_run(waits: &[RunnerWait], run: &Run) -> Vec<Self> {
        waits_of(waits, run).map(|wait| Self::of(wait, run)).collect()
    }
}

/// A worker that does not end at a usage limit, but waits in its process.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct InsideWaitJson {
    /// Its output, for people; null: none. The worker has printed nothing for long, and its owner
    /// is at a limit.
    said: Option<String>,
    /// Since when.
    since: TimeJson,
    /// Its step.
    step: StepNumber,
    /// Until when; null if it does not say so.
    until: Option<TimeJson>,
}

impl InsideWaitJson {
    /// The workers of a run that wait in their processes.
    pub(crate) fn of_run(ledger: &LedgerAt<'_>, run: &Run) -> Vec<Self> {
        let in_flight = ledger.state.in_flight.values();
        let dispatched = in_flight.filter(|(of, _)| *of == run.id).map(|(_, step)| *step);
        let wait = |step| {
            let wait = inside_wait_of(ledger.present_dir()?, &ledger.waits, run, step)?;
            let (since, until) = (wait.since.into(), wait.until.map(TimeJson::from));
            Some(Self { said: wait.said, since, step, until })
        };
        dispatched.filter_map(wait).collect()
    }
}
