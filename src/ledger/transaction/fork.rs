//! Forks: a run that begins with the state that another run had at some record.
//!
//! Invariant: a fork copies its parent from the log, never from records that are not durable.

use crate::error::{Error, ErrorKind, Result};
use crate::ledger::history::run::whole_run;
use crate::ledger::history::step_events::step_event;
use crate::log::{LogReader, LoggedRecord};
use crate::plan::{Command, ContentHash, Rejection, Run, RunId, State, StepEvent, StepNumber};

use super::engine::Engine;
use super::time_travel::project;

/// The record of the parent at which a fork begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForkPoint {
    /// After this record.
    After(u64),
    /// Before this step was dispatched for the first time; after the last record if it never was.
    Before(StepNumber),
}

/// A full run of an open ledger; see [`crate::Ledger::run`].
pub(crate) fn current_run(engine: &Engine, run: RunId) -> Result<Run> {
    whole_run(&*engine.state()?, run, |seq| project::<State>(engine, seq))
}

/// The command that forks a run.
pub(crate) fn fork_command(
    engine: &Engine,
    parent: RunId,
    point: ForkPoint,
    (name, by): (&str, &str),
) -> Result<Command> {
    let at_seq = fork_seq(engine, parent, point)?;
    let state = project::<State>(engine, at_seq)?;
    let parent = whole_run(&state, parent, |seq| project::<State>(engine, seq))?;
    let chain = engine.reader()?.chain_at(at_seq)?.ok_or_else(|| no_record(at_seq))?;
    let (parent, chain) = (Box::new(parent), ContentHash(chain.0));
    Ok(Command::ForkRun { name: name.to_owned(), parent, at_seq, chain, by: by.to_owned() })
}

/// The record after which a fork begins.
fn fork_seq(engine: &Engine, parent: RunId, point: ForkPoint) -> Result<u64> {
    let step = match point {
        ForkPoint::After(seq) => return Ok(seq),
        ForkPoint::Before(step) => step,
    };
    // Read the run before creating the reader, so that the reader has all of its records.
    let (run, last) = (current_run(engine, parent)?, engine.log.last_durable().seq);
    let dispatched = first_dispatch(&engine.reader()?, &run, step)?;
    Ok(dispatched.map_or(last, |seq| seq.saturating_sub(1)))
}

/// The record that dispatched a step for the first time, found by following the links from each
/// event of the step to the previous one.
fn first_dispatch(reader: &LogReader, run: &Run, step: StepNumber) -> Result<Option<u64>> {
    let mut seq = run.step(step).ok_or(Rejection::NoSuchStep(step))?.last_seq;
    let mut first = None;
    while seq != 0 {
        let (previous, event) = step_event(&durable_record(reader, seq)?)?;
        if matches!(event, StepEvent::Dispatched(_)) {
            first = Some(seq);
        }
        seq = previous;
    }
    Ok(first)
}

fn durable_record(reader: &LogReader, seq: u64) -> Result<LoggedRecord> {
    let found = reader.records(seq).next().transpose()?;
    found.filter(|record| record.seq == seq).ok_or_else(|| no_record(seq))
}

fn no_record(seq: u64) -> Error {
    let message = format!("expected a durable record, found none with number {seq}");
    Error::new(ErrorKind::OutOfRange, message)
}
