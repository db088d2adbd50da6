//! The changes between two records: each field, its old and new value, and the records that changed
//! it.
//!
//! Invariants:
//! - Applying the changes to the state at the first record gives the state at the second, except
//!   for fields that are not compared. A field that was changed and changed back is not reported.
//! - Every change names the records that changed the field, oldest first.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::ledger::projection::{apply_owned_record, decode_record};
use crate::ledger::snapshot::store::{self, out_of_range};
use crate::ledger::view::LedgerView;
use crate::plan::{RunId, State};

use super::run_diff::{ComparedRun, ValueChange, differences, ledger_fields};

/// A field that changed between two records, and the records that changed it.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangedField {
    /// The run of the field; `None` for a ledger-wide field.
    pub run: Option<RunId>,
    /// Its old and new value.
    pub change: ValueChange,
    /// The records that changed it, or a part of it.
    pub by: Vec<u64>,
}

#[doc(hidden)]
impl LedgerView {
    /// The fields that changed between two records, in the order of runs and fields; and the state after
    /// the second.
    ///
    /// # Errors
    /// `OutOfRange` if one of the records does not exist, or the second comes first; as
    /// [`LedgerView::state_at`]; `Corrupt` for damage between the two.
    pub fn changes(&self, from: u64, to: u64) -> Result<(Vec<ChangedField>, State)> {
        if from > to {
            let message = format!("expected a record from {from} on, found {to}");
            return Err(Error::new(ErrorKind::OutOfRange, message));
        }
        let mut state = match from {
            0 => State::default(),
            _ => store::project_at::<State>(&self.reader, from)?.value,
        };
        let mut tracker = ChangeTracker::new(&state);
        for record in self.reader.records_to(from.saturating_add(1), to) {
            let record = decode_record(&record?)?;
            let run = record.event.as_ref().and_then(crate::plan::Event::run);
            if let Some(run) = run {
                tracker.begin(&state, run);
            }
            apply_owned_record(&mut state, record);
            tracker.update(&state, run, state.seq);
        }
        if state.seq < to {
            return Err(out_of_range(&self.reader, state.seq, to));
        }
        Ok((tracker.finish(&state), state))
    }
}

/// Collects the changes, record by record.
#[derive(Debug, Default)]
struct ChangeTracker {
    first: Value,
    last: Value,
    runs: BTreeMap<RunId, RunEnds>,
    /// The records that changed each field, or a part of it.
    touched: BTreeMap<Option<RunId>, BTreeMap<Vec<String>, Vec<u64>>>,
}

/// A run before its first record in the range, and after its last one so far.
#[derive(Debug)]
struct RunEnds {
    first: ComparedRun,
    last: ComparedRun,
}

impl ChangeTracker {
    fn new(state: &State) -> Self {
        let fields = ledger_fields(state);
        Self { first: fields.clone(), last: fields, ..Self::default() }
    }

    /// Keep a copy of a run before its first record in the range.
    fn begin(&mut self, state: &State, run: RunId) {
        self.runs.entry(run).or_insert_with(|| {
            let mut compared = ComparedRun::default();
            state.runs.get(&run).map(|run| compared.update(run));
            RunEnds { first: compared.clone(), last: compared }
        });
    }

    fn update(&mut self, state: &State, run: Option<RunId>, seq: u64) {
        let fields = ledger_fields(state);
        for change in differences(&self.last, &fields) {
            self.touch(None, change, seq);
        }
        self.last = fields;
        let of_run = run.and_then(|id| Some((self.runs.get_mut(&id)?, state.runs.get(&id)?)));
        let changes = of_run.map(|(ends, run)| ends.last.update(run)).unwrap_or_default();
        for change in changes {
            self.touch(run, change, seq);
        }
    }

    fn touch(&mut self, run: Option<RunId>, change: ValueChange, seq: u64) {
        self.touched.entry(run).or_default().entry(change.path).or_default().push(seq);
    }

    /// The fields that differ between the first and the last state.
    fn finish(mut self, state: &State) -> Vec<ChangedField> {
        let of_ledger = differences(&self.first, &self.last).into_iter();
        let mut found: Vec<_> = of_ledger.map(|change| (None, change)).collect();
        for (id, ends) in &mut self.runs {
            let of_run = state.runs.get(id).map(|run| ends.first.update(run));
            found.extend(of_run.into_iter().flatten().map(|change| (Some(*id), change)));
        }
        let changed = found.into_iter().map(|(run, change)| {
            let by = self.by(run, &change.path);
            ChangedField { run, change, by }
        });
        changed.collect()
    }

    /// The records that changed a field, a part of it, or the field that contains it.
    fn by(&self, run: Option<RunId>, path: &[String]) -> Vec<u64> {
        let touched = self.touched.get(&run).into_iter().flatten();
        let of_field =
            touched.filter(|(other, _)| other.starts_with(path) || path.starts_with(other));
        let seqs: BTreeSet<u64> = of_field.flat_map(|(_, seqs)| seqs.iter().copied()).collect();
        seqs.into_iter().collect()
    }
}
