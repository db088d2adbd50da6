//! The waits of a run's runner before it dispatches ready steps, for people.

use std::path::Path;

use plan_ledger::{Run, StepNumber, Timestamp};

use crate::commands::inspect::text::units::moment;
use crate::output::escape_control;
use crate::runner::{InsideWait, inside_wait};
use plan_ledger_views::{RunnerWait, waits_of};

/// The waits of a runner, for people.
pub(crate) fn wait_text(wait: &RunnerWait, run: &Run, now: Timestamp) -> String {
    let ready = u32::try_from(wait.ready_count(run)).unwrap_or(u32::MAX);
    escape_control(&wait.text(ready, now))
}

/// The wait of the worker of a step in its process, for the end of a usage limit, in the ledger of that folder.
pub(crate) fn inside_wait_of(
    dir: &Path,
    waits: &[RunnerWait],
    run: &Run,
    number: StepNumber,
) -> Option<InsideWait> {
    let step = run.step(number)?;
    let owner = step.owner_at_work().map(str::to_owned);
    let is_limited =
        waits_of(waits, run).any(|wait| wait.is_limit && !wait.is_whole_run && wait.owner == owner);
    inside_wait(dir, run.id, step.attempt()?.token, is_limited)
}

/// The wait of a worker in its process, for people.
pub(crate) fn inside_wait_text(wait: &InsideWait, now: Timestamp) -> String {
    let since = moment(wait.since, now);
    let Some(said) = &wait.said else {
        return format!(
            "has printed nothing since {since}, and may wait for the limit of its owner"
        );
    };
    let until = wait.until.map(|until| format!(", until {}", moment(until, now)));
    let said = escape_control(said.lines().next().unwrap_or_default());
    let until = until.unwrap_or_default();
    format!("waits inside its process for a limit since {since}{until}: {said}")
}
