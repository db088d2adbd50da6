//! A full run, even if the state has only a summary of it because it ended long ago.
//!
//! Invariant: a run that has ended does not change, so the state at the record that ended it has
//! its final form.

use crate::error::Result;
use crate::ledger::snapshot::load::expect_valid;
use crate::ledger::snapshot::store;
use crate::ledger::view::LedgerView;
use crate::log::LogReader;
use crate::plan::{Rejection, Run, RunId, State};

impl LedgerView {
    /// A full run, as [`crate::Ledger::run`] returns it, after the last durable record.
    ///
    /// # Errors
    /// `Rejected` with `NoSuchRun`; `Corrupt` for damage.
    pub fn run(&self, run: RunId) -> Result<Run> {
        run_of(&self.reader, run)
    }
}

/// A run from a state or, if that has only a summary, from the state at the record that ended the
/// run.
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
    expect_valid(state)?;
    let summary = state.summaries.get(&run).ok_or(Rejection::NoSuchRun)?;
    let mut then = state_at(summary.seq)?;
    // The state at that record still has the full run.
    then.runs.remove(&run).ok_or_else(|| Rejection::NoSuchRun.into())
}

/// A full run, after the last durable record.
///
/// # Errors
/// As [`whole_run`].
pub(crate) fn run_of(reader: &LogReader, id: RunId) -> Result<Run> {
    let state = store::project::<State>(reader, u64::MAX)?.value;
    whole_run(&state, id, |seq| Ok(store::project_at::<State>(reader, seq)?.value))
}
