//! A complete run, also one that ended so long ago that the state has only a summary of it.
//!
//! Invariant: a run that has ended does not change, so the state at the record that ended it shows it
//! as it is.

use crate::error::Result;
use crate::ledger::snapshot::load::expect_sound;
use crate::ledger::snapshot::store;
use crate::log::LogReader;
use crate::plan::{Rejection, Run, RunId, State};

/// A run of a state, or of the state at the record that ended it.
///
/// # Errors
/// `Rejected` with `NoSuchRun`; those of `state_at`.
pub(crate) fn whole_run(
    state: &State,
    run: RunId,
    state_at: impl FnOnce(u64) -> Result<State>,
) -> Result<Run> {
    if let Some(run) = state.runs.get(&run) {
        return Ok(run.clone());
    }
    expect_sound(state)?;
    let summary = state.summaries.get(&run).ok_or(Rejection::NoSuchRun)?;
    let mut then = state_at(summary.seq)?;
    // The run that ended last is still complete.
    then.runs.remove(&run).ok_or_else(|| Rejection::NoSuchRun.into())
}

/// A complete run, after the last durable record.
///
/// # Errors
/// As [`whole_run`].
pub(crate) fn run_of(reader: &LogReader, id: RunId) -> Result<Run> {
    let state = store::project::<State>(reader, u64::MAX)?.value;
    whole_run(&state, id, |seq| Ok(store::project_at::<State>(reader, seq)?.value))
}
