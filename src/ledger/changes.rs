//! What changed between two records: which field, from what to what, and by which records.
//!
//! Invariants:
//! - The changes, put into the state at the first record, give the state at the second, as far as
//!   they are told: what came and went again in between is no change.
//! - Every change names the records that touched the field, oldest first.
//!
//! Left out on purpose: lists that follow from the rest, as in [`super::Trace`].

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::plan::{RunId, State};

use super::replay::{LedgerView, fold_in, recorded};
use super::shadow::{Change, Shadow, differences, whole};
use super::snapshots::beyond;

/// A field that is another one after some records, and which of them touched it.
#[derive(Debug, Clone, PartialEq)]
pub struct Changed {
    /// The run whose field it is; `None`: of the ledger as a whole.
    pub run: Option<RunId>,
    /// From what to what.
    pub change: Change,
    /// The records.
    pub by: Vec<u64>,
}

impl LedgerView {
    /// What changed from after the one record to after the other, in the order of runs and
    /// fields; and the state after the other.
    ///
    /// # Errors
    /// `OutOfRange` if there is no such record, or the second is before the first; what
    /// [`LedgerView::state_at`] says of the first; `Corrupt` for damage between the two.
    pub fn changes(&self, from: u64, to: u64) -> Result<(Vec<Changed>, State)> {
        if from > to {
            let message = format!("expected a record from {from} on, found {to}");
            return Err(Error::new(ErrorKind::OutOfRange, message));
        }
        let mut state = if from == 0 { State::default() } else { self.state_at(from)? };
        let mut notes = Notes::of(&state);
        for record in self.log().records_to(from.saturating_add(1), to) {
            let record = recorded(&record?)?;
            let run = record.event.as_ref().and_then(crate::plan::Event::run);
            if let Some(run) = run {
                notes.begin(&state, run);
            }
            fold_in(&mut state, record);
            notes.follow(&state, run, state.seq);
        }
        if state.seq < to {
            return Err(beyond(self.log(), state.seq, to));
        }
        Ok((notes.changed(&state), state))
    }
}

/// What was seen to change so far.
#[derive(Debug, Default)]
struct Notes {
    first: Value,
    head: Value,
    runs: BTreeMap<RunId, Shadows>,
    /// The records that touched a field, or something in it.
    touched: BTreeMap<Option<RunId>, BTreeMap<Vec<String>, Vec<u64>>>,
}

/// A run before the first record about it, and after the last so far.
#[derive(Debug)]
struct Shadows {
    first: Shadow,
    last: Shadow,
}

impl Notes {
    fn of(state: &State) -> Self {
        let head = whole(state);
        Self { first: head.clone(), head, ..Self::default() }
    }

    /// How a run stands before its first record.
    fn begin(&mut self, state: &State, run: RunId) {
        self.runs.entry(run).or_insert_with(|| {
            let mut shadow = Shadow::default();
            state.runs.get(&run).map(|run| shadow.follow(run));
            Shadows { first: shadow.clone(), last: shadow }
        });
    }

    fn follow(&mut self, state: &State, run: Option<RunId>, seq: u64) {
        let head = whole(state);
        for change in differences(&self.head, &head) {
            self.touch(None, change, seq);
        }
        self.head = head;
        let of_run = run.and_then(|id| Some((self.runs.get_mut(&id)?, state.runs.get(&id)?)));
        let changes = of_run.map(|(shadows, run)| shadows.last.follow(run)).unwrap_or_default();
        for change in changes {
            self.touch(run, change, seq);
        }
    }

    fn touch(&mut self, run: Option<RunId>, change: Change, seq: u64) {
        self.touched.entry(run).or_default().entry(change.path).or_default().push(seq);
    }

    /// What is another thing in the end.
    fn changed(mut self, state: &State) -> Vec<Changed> {
        let whole = differences(&self.first, &self.head).into_iter();
        let mut found: Vec<_> = whole.map(|change| (None, change)).collect();
        for (id, shadows) in &mut self.runs {
            let of_run = state.runs.get(id).map(|run| shadows.first.follow(run));
            found.extend(of_run.into_iter().flatten().map(|change| (Some(*id), change)));
        }
        let changed = found.into_iter().map(|(run, change)| {
            let by = self.by(run, &change.path);
            Changed { run, change, by }
        });
        changed.collect()
    }

    /// The records that touched a field, something in it, or what it is a part of.
    fn by(&self, run: Option<RunId>, path: &[String]) -> Vec<u64> {
        let touched = self.touched.get(&run).into_iter().flatten();
        let of_field =
            touched.filter(|(other, _)| other.starts_with(path) || path.starts_with(other));
        let seqs: BTreeSet<u64> = of_field.flat_map(|(_, seqs)| seqs.iter().copied()).collect();
        seqs.into_iter().collect()
    }
}
