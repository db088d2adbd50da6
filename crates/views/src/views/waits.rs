//! The waits for the end of a limit, or for hours: of a run's runner before it dispatches ready steps, and of workers
//! in their processes.

use plan_ledger::plan::UtcTime;
use plan_ledger::{Run, StepNumber, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::runner::InsideWait;
use crate::runner::{RunnerWait, waits_of};
use crate::words::moment;

/// Ready steps that the runner of a run does not dispatch before a time, or before an answer.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct WaitJson {
    /// The owner of the steps; null: steps without an owner, or all of the run.
    owner: Option<String>,
    /// The ready steps that wait.
    ready: Vec<StepNumber>,
    /// The reason, for people.
    reason: String,
    /// The second owner: its workers take the steps meanwhile; null if there is none.
    second_owner: Option<String>,
    /// When the wait ends; then one of the steps is tried. Null: when a person answers.
    until: Option<UtcTime>,
    /// Whether all steps of the run wait.
    whole_run: bool,
}

impl WaitJson {
    /// A wait of the runner of a run.
    #[must_use]
    pub fn of(wait: &RunnerWait, run: &Run) -> Self {
        let ready = run.ready().map(|(_, number)| number);
        Self {
            owner: wait.owner.clone(),
            ready: ready.filter(|number| wait.holds(run, *number)).collect(),
            reason: wait.reason.clone(),
            second_owner: wait.second.clone(),
            until: wait.until.map(UtcTime::from),
            whole_run: wait.is_whole_run,
        }
    }

    /// The waits of a run's runner.
    #[must_use]
    pub fn of_run(waits: &[RunnerWait], run: &Run) -> Vec<Self> {
        waits_of(waits, run).map(|wait| Self::of(wait, run)).collect()
    }
}

/// A worker that does not end at a usage limit, but waits in its process.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub(super) struct InsideWaitJson<'a> {
    /// Its step.
    step: StepNumber,
    /// Its wait.
    #[serde(flatten)]
    wait: &'a InsideWait,
}

impl<'a> InsideWaitJson<'a> {
    pub(super) fn of((step, wait): &'a (StepNumber, InsideWait)) -> Self {
        Self { step: *step, wait }
    }
}

/// A wait of the runner of a run, for people.
#[must_use]
pub fn wait_text(wait: &RunnerWait, run: &Run, now: Timestamp) -> String {
    wait.text(u32::try_from(wait.ready_count(run)).unwrap_or(u32::MAX), now)
}

/// The wait of a worker in its process, for people.
#[must_use]
pub fn inside_wait_text(wait: &InsideWait, now: Timestamp) -> String {
    let since = moment(wait.since, now);
    let Some(said) = &wait.said else {
        return format!(
            "has printed nothing since {since}, and may wait for the limit of its owner"
        );
    };
    let until = wait.until.map(|until| format!(", until {}", moment(until, now)));
    let said = said.lines().next().unwrap_or_default();
    let until = until.unwrap_or_default();
    format!("waits inside its process for a limit since {since}{until}: {said}")
}
