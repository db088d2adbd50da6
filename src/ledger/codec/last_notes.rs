//! The notes that a worker gets: the last ones about its run and about the whole ledger.
//!
//! Invariants:
//! - The notes are read from the log once for each ledger that is opened, at the first dispatch; later ones are
//!   added as they are written.
//! - Pruned, erased and damaged notes are left out. They never prevent a dispatch.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::kind::Kind;
use super::note::Note;
use crate::log::LogReader;
use crate::plan::RunId;

/// The most notes in a task.
const TASK_NOTES_MAX: usize = 12;

/// The most notes that are remembered.
const REMEMBERED: usize = 1024;

/// The last notes of a ledger by their records; `None` until they are read.
#[derive(Debug, Default)]
pub(crate) struct NotesCache(Mutex<Option<Notes>>);

type Notes = BTreeMap<u64, Note>;

impl NotesCache {
    /// The notes of a log that ends at this record; without a record there are none.
    pub(crate) fn of_log(last_seq: u64) -> Self {
        Self(Mutex::new((last_seq == 0).then(Notes::new)))
    }

    /// Adds a note that was written.
    pub(crate) fn add(&self, seq: u64, note: &Note) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = known.as_mut() else { return };
        known.insert(seq, note.clone());
        if known.len() > REMEMBERED {
            known.pop_first();
        }
    }

    /// The last notes about a run and about the whole ledger, oldest first.
    pub(crate) fn of_run<'a>(
        &self,
        run: RunId,
        log: impl FnOnce() -> Option<&'a LogReader>,
    ) -> Vec<Note> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_none() {
            *known = log().map(read);
        }
        let notes = known.iter().flat_map(|notes| notes.values().rev());
        let of_run = notes.filter(|note| note.run.is_none_or(|about| about == run));
        let mut last: Vec<Note> = of_run.take(TASK_NOTES_MAX).cloned().collect();
        last.reverse();
        last
    }
}

/// The last notes of a log, up to the first damage.
fn read(log: &LogReader) -> Notes {
    let records = log.records_of_kind(Kind::Note.number(), log.first_seq()).map_while(Result::ok);
    let mut notes = Notes::new();
    for record in records {
        notes.extend(Note::in_record(&record).map(|note| (record.seq, note)));
        if notes.len() > REMEMBERED {
            notes.pop_first();
        }
    }
    notes
}
