//! Runs that are no longer in the hot state, and runs that begin as another one was.
//!
//! Invariants:
//! - A run that has ended does not change: the state at the record that ended it shows it as it
//!   was, however long ago that is.
//! - A fork takes its parent from the log, never from what is not durable.
//!
//! Left out on purpose: comparing two runs.

use crate::error::{Error, ErrorKind, Result};
use crate::log::{LogReader, LoggedRecord};
use crate::plan::{
    Command, ContentHash, Event, Rejection, Run, RunId, State, StepEvent, StepNumber, StepRecord,
};

use super::{Ledger, LedgerView, codec, expect_sound, snapshots};

/// Where a run leaves the other one that it is forked from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForkPoint {
    /// After that record.
    After(u64),
    /// Before that step was dealt for the first time; now, if it never was.
    Before(StepNumber),
}

impl Ledger {
    /// A run, whole: as it stands, or, if it ended so long ago that only a summary of it is left
    /// in the state, as it stood when it ended. It is a copy.
    ///
    /// # Errors
    /// `Rejected` with `NoSuchRun`; what [`Ledger::state_at`] says of a damaged log.
    pub fn run(&self, run: RunId) -> Result<Run> {
        whole(&*self.state()?, run, |seq| self.state_at(seq))
    }

    /// Begin a run of that name as another one was: the same plan versions, the same accepted
    /// work and variables. What was in flight or asked then begins anew, and what the other one
    /// had spent does not count against the budget of this one.
    ///
    /// # Errors
    /// `OutOfRange` beyond the last durable record; `Rejected` with `NoSuchRun`, also if there was
    /// none at that record, `NoSuchStep`, `RunExists`, or `NoActivePlan`.
    pub fn fork(&self, parent: RunId, point: ForkPoint, name: &str) -> Result<RunId> {
        let commit = self.execute(&self.fork_command(parent, point, name)?)?;
        let started = commit.events.iter().find_map(|(_, event)| match event {
            Event::RunStarted(started) => Some(started.run),
            _ => None,
        });
        Ok(started.expect("a fork that was not refused was started"))
    }

    /// The command that forks a run.
    #[doc(hidden)]
    pub fn fork_command(&self, parent: RunId, point: ForkPoint, name: &str) -> Result<Command> {
        let at_seq = self.place_of(parent, point)?;
        let parent = Box::new(whole(&self.state_at(at_seq)?, parent, |seq| self.state_at(seq))?);
        let chain = self.reader()?.chain_at(at_seq)?.ok_or_else(|| no_record(at_seq))?;
        let chain = ContentHash(chain.0);
        Ok(Command::ForkRun { name: name.to_owned(), parent, at_seq, chain })
    }

    /// The record after which a fork leaves its parent.
    fn place_of(&self, parent: RunId, point: ForkPoint) -> Result<u64> {
        let step = match point {
            ForkPoint::After(seq) => return Ok(seq),
            ForkPoint::Before(step) => step,
        };
        // The run first: a reader sees what was durable when it was made, and so all of it.
        let (run, last) = (self.run(parent)?, self.head().seq);
        let dealt = first_dealt(&self.reader()?, &run, step)?;
        Ok(dealt.map_or(last, |seq| seq.saturating_sub(1)))
    }
}

impl LedgerView {
    /// A run, whole, as [`Ledger::run`] shows it, after the last durable record.
    ///
    /// # Errors
    /// `Rejected` with `NoSuchRun`; `Corrupt` for damage.
    pub fn run(&self, run: RunId) -> Result<Run> {
        let state = snapshots::project::<State>(self.log(), u64::MAX)?.value;
        whole(&state, run, |seq| self.state_at(seq))
    }
}

/// A run of a state, or of the state at the record that ended it.
pub(super) fn whole(
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
    // The newest run that has ended is whole.
    then.runs.remove(&run).ok_or_else(|| Rejection::NoSuchRun.into())
}

/// The record that dealt a step for the first time: the step's records name each the one before.
fn first_dealt(reader: &LogReader, run: &Run, step: StepNumber) -> Result<Option<u64>> {
    let mut seq = run.step(step).ok_or(Rejection::NoSuchStep(step))?.last_seq;
    let mut first = None;
    while seq != 0 {
        let Some(Event::Step(StepRecord { previous, event, .. })) =
            codec::decode(&record(reader, seq)?)?
        else {
            let message = "expected an event of a step, as the next one of that step says";
            return Err(Error::new(ErrorKind::Corrupt, message).at_seq(seq));
        };
        if matches!(event, StepEvent::Dispatched(_)) {
            first = Some(seq);
        }
        seq = previous.min(seq - 1);
    }
    Ok(first)
}

/// A durable record.
fn record(reader: &LogReader, seq: u64) -> Result<LoggedRecord> {
    let found = reader.records(seq).next().transpose()?;
    found.filter(|record| record.seq == seq).ok_or_else(|| no_record(seq))
}

fn no_record(seq: u64) -> Error {
    let message = format!("expected a durable record, found none with number {seq}");
    Error::new(ErrorKind::OutOfRange, message)
}
