//! The debugger's view: every record of a run, and what it changed.
//!
//! Invariants:
//! - The changes of all records, one after the other, lead from nothing to the run as it is.
//! - The costs of all steps add up to what the run spent.
//! - Of what is left of a run the same holds from the state on that it begins with.
//!
//! Left out on purpose: lists that follow from the rest (queues, lanes, timers, what is due).

use std::collections::BTreeMap;

use crate::error::{Error, ErrorKind, Result};
use crate::log::LogReader;
use crate::plan::{Event, Micros, PlanDiff, Rejection, Run, RunId, State, StepNumber, diff};

use super::books::{Books, StepCost};
use super::history::{beginning, ground};
use super::replay::{LedgerView, Recorded, fold, recorded};
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

/// What the log still has of what happened to a run.
#[derive(Debug)]
pub struct Remains {
    /// The changes begin with the run as it was after this record: what came before was pruned. 0
    /// where nothing is missing.
    pub after: u64,
    /// Its records, in order.
    pub records: Vec<Traced>,
    /// Why there are no more, where the run may have some.
    pub cut: Option<Error>,
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

    /// What is left of what happened to a run, in a log that was pruned or is damaged.
    ///
    /// # Errors
    /// `Rejected` if there is no such run; `Io`.
    pub fn remains(&self, run: RunId) -> Result<Remains> {
        match remains(self.log(), run) {
            Err(error) if error.is_damage() || error.kind() == ErrorKind::Unsupported => {
                Ok(Remains { after: 0, records: Vec::new(), cut: Some(error) })
            }
            other => other,
        }
    }
}

fn trace(reader: &LogReader, id: RunId) -> Result<Trace> {
    let (begin, state) = beginning(reader, id)?;
    let (state, first) = before(reader, id, (begin, state))?;
    let mut tracer = Tracer::new(id, state);
    tracer.follow(reader, first)?;
    if tracer.records.is_empty() {
        return Err(Rejection::NoSuchRun.into());
    }
    Ok(Trace { records: tracer.records, costs: tracer.books.steps })
}

fn remains(reader: &LogReader, id: RunId) -> Result<Remains> {
    let (begin, state) = ground(reader)?;
    let is_known = state.runs.contains_key(&id) || state.summaries.contains_key(&id);
    let (after, state, first) = if is_known {
        (begin.saturating_sub(1), state, begin)
    } else {
        let (state, first) = before(reader, id, (begin, state))?;
        (0, state, first)
    };
    let mut tracer = Tracer::new(id, state);
    let cut = tracer.follow(reader, first).err();
    Ok(Remains { after, records: tracer.records, cut })
}

/// What follows a run through the log.
struct Tracer {
    id: RunId,
    state: State,
    shadow: Shadow,
    books: Books,
    records: Vec<Traced>,
}

impl Tracer {
    /// One that has seen the run as it is in that state.
    fn new(id: RunId, state: State) -> Self {
        let mut shadow = Shadow::default();
        let run = state.runs.get(&id);
        if let Some(run) = run {
            shadow.follow(run);
        }
        let books = Books::after(run);
        Self { id, state, shadow, books, records: Vec::new() }
    }

    /// Every record from that one on, which is the next after the state.
    fn follow(&mut self, reader: &LogReader, first: u64) -> Result<()> {
        for record in reader.records(first) {
            self.take(&recorded(&record?)?);
            // Nothing happens to a run that only a summary is left of.
            if !self.state.runs.contains_key(&self.id)
                && self.state.summaries.contains_key(&self.id)
            {
                break;
            }
        }
        Ok(())
    }

    fn take(&mut self, record: &Recorded) {
        let event = record.event.as_ref().filter(|event| event.run() == Some(self.id)).cloned();
        let replan = event.as_ref().and_then(|event| replan(self.state.runs.get(&self.id)?, event));
        fold(&mut self.state, record);
        let Some(event) = event else { return };
        self.books.note(record.seq, &event);
        let run = self.state.runs.get(&self.id);
        let changes = run.map(|run| self.shadow.follow(run)).unwrap_or_default();
        self.records.push(Traced { seq: record.seq, time: record.time, event, changes, replan });
    }
}

/// The state before the first record of a run, and the record after that state; from a state, and
/// the record after it, that do not know the run yet.
fn before(reader: &LogReader, id: RunId, (begin, state): (u64, State)) -> Result<(State, u64)> {
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
    Some(diff(&run.plan()?.whole(), &run.versions.get(place)?.plan.whole()))
}
