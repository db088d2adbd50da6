//! The debugger's view: every record of a run, and what it changed.
//!
//! Invariants:
//! - The changes of all records, one after the other, lead from nothing to the run as it is.
//! - The costs of all steps add up to what the run spent.
//!
//! Left out on purpose: lists that follow from the rest (queues, lanes, timers, what is due).

use std::collections::BTreeMap;

use crate::error::Result;
use crate::log::LogReader;
use crate::plan::{Event, Micros, PlanDiff, Rejection, Run, RunId, State, StepNumber, diff};

use super::books::{Books, StepCost};
use super::history::beginning;
use super::replay::{LedgerView, fold, recorded};
use super::shadow::{Change, Shadow};
use super::streams::RUNS;
use super::{Ledger, snapshots};

/// All that happened to a run.
#[derive(Debug, Clone)]
pub struct Trace {
    /// Its records, in order.
    pub records: Vec<Traced>,
    /// What each step cost.
    pub costs: BTreeMap<StepNumber, StepCost>,
}

/// A record of a run.
#[derive(Debug, Clone)]
pub struct Traced {
    /// Sequence number.
    pub seq: u64,
    /// When.
    pub time: Micros,
    /// What happened.
    pub event: Event,
    /// What that changed in the run.
    pub changes: Vec<Change>,
    /// Of an activation, what differs from the version before.
    pub replan: Option<PlanDiff>,
}

impl Ledger {
    /// All that happened to a run.
    ///
    /// # Errors
    /// `Rejected` if there is no such run; `Pruned` if it began before what is left of the log;
    /// `Corrupt` and `Io`.
    pub fn trace(&self, run: RunId) -> Result<Trace> {
        trace(&self.reader()?, run)
    }
}

impl LedgerView {
    /// All that happened to a run.
    ///
    /// # Errors
    /// As [`Ledger::trace`].
    pub fn trace(&self, run: RunId) -> Result<Trace> {
        trace(self.log(), run)
    }
}

fn trace(reader: &LogReader, id: RunId) -> Result<Trace> {
    let (mut state, first) = before(reader, id)?;
    let mut shadow = Shadow::default();
    let mut books = Books::default();
    let mut records = Vec::new();
    for record in reader.records(first) {
        let record = recorded(&record?)?;
        let event = record.event.as_ref().filter(|event| event.run() == Some(id)).cloned();
        let replan = event.as_ref().and_then(|event| replan(state.runs.get(&id)?, event));
        fold(&mut state, &record);
        let Some(event) = event else { continue };
        books.note(record.seq, &event);
        let changes = state.runs.get(&id).map(|run| shadow.follow(run)).unwrap_or_default();
        records.push(Traced { seq: record.seq, time: record.time, event, changes, replan });
        // Nothing happens to a run that only a summary is left of.
        if !state.runs.contains_key(&id) && state.summaries.contains_key(&id) {
            break;
        }
    }
    if records.is_empty() {
        return Err(Rejection::NoSuchRun.into());
    }
    Ok(Trace { records, costs: books.steps })
}

/// The state before the first record of a run, and the record after that state.
fn before(reader: &LogReader, id: RunId) -> Result<(State, u64)> {
    let (begin, state) = beginning(reader, id)?;
    let first = reader.records_of_stream(u64::from(id.0), RUNS, begin).next().transpose()?;
    match first.map(|record| record.seq) {
        None => Err(Rejection::NoSuchRun.into()),
        Some(first) if first <= begin => Ok((state, begin)),
        Some(first) => Ok((snapshots::project_at::<State>(reader, first - 1)?.value, first)),
    }
}

/// What differs between the version that an event activates and the one before.
fn replan(run: &Run, event: &Event) -> Option<PlanDiff> {
    let Event::PlanActivated(activated) = event else { return None };
    let place = usize::try_from(activated.version).ok()?.checked_sub(1)?;
    Some(diff(run.plan()?, &run.versions.get(place)?.plan))
}
