//! The trace of a run: all records, each with its changes.
//!
//! Invariants:
//! - Applying the changes of all records in order leads from an empty run to its current state.
//! - The costs of all steps and helpers add up to the spending of the run.
//! - For a partial trace, both statements hold relative to the state with which it begins.

use std::collections::BTreeMap;

use crate::error::{Error, ErrorKind, Result};
use crate::ledger::codec::streams::RUN_STREAMS;
use crate::ledger::projection::{RecordedEvent, apply_record, decode_record};
use crate::ledger::snapshot::store;
use crate::ledger::view::LedgerView;
use crate::log::LogReader;
use crate::plan::{Event, PlanDiff, Rejection, Run, RunId, State, StepNumber, Timestamp, diff};

use super::cost::{CostReport, StepCost};
use super::lineage::{complete_from, foldable_from};
use super::run_diff::{ComparedRun, ValueChange};

/// All records of a run, each with its changes.
#[derive(Debug, Clone)]
pub struct Trace {
    /// Its records, in order.
    pub records: Vec<TracedRecord>,
    pub costs: BTreeMap<StepNumber, StepCost>,
}

/// The trace of a run in a log that was pruned or is damaged.
#[derive(Debug)]
pub struct PartialTrace {
    /// The last record before the trace: earlier records were pruned, and the changes are relative
    /// to the state after it. 0 if no record is missing.
    pub after: u64,
    /// Its records, in order.
    pub records: Vec<TracedRecord>,
    /// The error that ended the trace early, if the run may have more records.
    pub cut: Option<Error>,
}

/// A record of a run with its changes.
#[derive(Debug, Clone)]
pub struct TracedRecord {
    /// Sequence number.
    pub seq: u64,
    pub time: Timestamp,
    pub event: Event,
    /// The changes in the run.
    pub changes: Vec<ValueChange>,
    /// For an activation, the difference from the previous version.
    pub replan: Option<PlanDiff>,
}

#[doc(hidden)]
impl LedgerView {
    /// Every record of a run, with the fields that it changed.
    ///
    /// # Errors
    /// As [`crate::Ledger::trace`].
    pub fn trace(&self, id: RunId) -> Result<Trace> {
        let (begin, state) = complete_from(&self.reader, id)?;
        let (state, first) = state_before(&self.reader, id, begin, state)?;
        let mut tracer = Tracer::new(id, state);
        tracer.follow(&self.reader, first)?;
        if tracer.records.is_empty() {
            return Err(Rejection::NoSuchRun.into());
        }
        Ok(Trace { records: tracer.records, costs: tracer.costs.steps })
    }

    /// The trace of a run in a log that was pruned or is damaged.
    ///
    /// # Errors
    /// `Rejected` if there is no such run; `Io`.
    pub fn partial_trace(&self, id: RunId) -> Result<PartialTrace> {
        match trace_rest(&self.reader, id) {
            Err(error) if error.is_corrupt() || error.kind() == ErrorKind::Unsupported => {
                Ok(PartialTrace { after: 0, records: Vec::new(), cut: Some(error) })
            }
            other => other,
        }
    }
}

fn trace_rest(reader: &LogReader, id: RunId) -> Result<PartialTrace> {
    let (begin, state) = foldable_from(reader)?;
    let is_known = state.runs.contains_key(&id) || state.summaries.contains_key(&id);
    let (after, state, first) = if is_known {
        (begin.saturating_sub(1), state, begin)
    } else {
        let (state, first) = state_before(reader, id, begin, state)?;
        (0, state, first)
    };
    let mut tracer = Tracer::new(id, state);
    let cut = tracer.follow(reader, first).err();
    Ok(PartialTrace { after, records: tracer.records, cut })
}

struct Tracer {
    id: RunId,
    state: State,
    diff: ComparedRun,
    costs: CostReport,
    records: Vec<TracedRecord>,
}

impl Tracer {
    /// A tracer that begins with the run in this state.
    fn new(id: RunId, state: State) -> Self {
        let mut diff = ComparedRun::default();
        let run = state.runs.get(&id);
        if let Some(run) = run {
            diff.update(run);
        }
        let costs = CostReport::starting_from(run);
        Self { id, state, diff, costs, records: Vec::new() }
    }

    /// Trace every record from `first` on, which is the record after the state.
    fn follow(&mut self, reader: &LogReader, first: u64) -> Result<()> {
        for record in reader.records(first) {
            self.add(&decode_record(&record?)?);
            // A run that is only kept as a summary no longer changes.
            if !self.state.runs.contains_key(&self.id)
                && self.state.summaries.contains_key(&self.id)
            {
                break;
            }
        }
        Ok(())
    }

    fn add(&mut self, record: &RecordedEvent) {
        let event = record.event.as_ref().filter(|event| event.run() == Some(self.id)).cloned();
        let replan = event.as_ref().and_then(|event| replan(self.state.runs.get(&self.id)?, event));
        apply_record(&mut self.state, record);
        let Some(event) = event else { return };
        self.costs.add(record.seq, &event);
        let run = self.state.runs.get(&self.id);
        let changes = run.map(|run| self.diff.update(run)).unwrap_or_default();
        let (seq, time) = (record.seq, record.time);
        self.records.push(TracedRecord { seq, time, event, changes, replan });
    }
}

/// The state before the first record of a run, and the record after that state. `state` is an earlier
/// state without the run, and `begin` the record after it.
fn state_before(reader: &LogReader, id: RunId, begin: u64, state: State) -> Result<(State, u64)> {
    let first = reader.records_of_stream(u64::from(id.0), RUN_STREAMS, begin).next().transpose()?;
    match first.map(|record| record.seq) {
        None => Err(Rejection::NoSuchRun.into()),
        Some(first) if first <= begin => Ok((state, begin)),
        Some(first) => Ok((store::project_at::<State>(reader, first - 1)?.value, first)),
    }
}

/// The difference between the version that an event activates and the previous one.
fn replan(run: &Run, event: &Event) -> Option<PlanDiff> {
    let Event::PlanActivated(activated) = event else { return None };
    let place = usize::try_from(activated.version).ok()?.checked_sub(1)?;
    Some(diff(&run.plan()?.decode(), &run.versions.get(place)?.plan.decode()))
}
