//! The past of an open ledger: its state, or any projection, at any record; snapshots of them.
//!
//! Invariant: whatever becomes of a snapshot, commands and what they returned are not touched.

use std::sync::{MutexGuard, PoisonError};

use crate::error::{ErrorKind, Result};
use crate::format::NewRecord;
use crate::log::{Ack, Batch, BatchKey, Durability, Ticket};
use crate::plan::State;

use super::Ledger;
use super::execute::{Freshness, Shared};
use super::ladder::Ladder;
use super::projection::Projection;
use super::snapshots::{self, Care, Snapshot};
use super::thin_out::thin_out;

impl Ledger {
    /// The state after record `seq`: the newest good snapshot at or before it, and the records
    /// since.
    ///
    /// # Errors
    /// `OutOfRange` beyond the last durable record; `Pruned` before what the log can be folded from.
    pub fn state_at(&self, seq: u64) -> Result<State> {
        self.project(seq)
    }

    /// Any projection after record `seq`.
    ///
    /// # Errors
    /// As [`Ledger::state_at`].
    pub fn project<P: Projection>(&self, seq: u64) -> Result<P> {
        let reader = self.log.reader()?;
        let projected = snapshots::project_at::<P>(&reader, seq)?;
        if !projected.ignored.is_empty() {
            self.log.expect_own_process()?;
            self.ladder().warn_of(&projected.ignored);
        }
        Ok(projected.value)
    }

    /// Make a snapshot of a projection after the last record, durably, and note it in the log; one at
    /// a time: it waits for one that is being made.
    /// Kept are those that [`super::Environment::snapshot_every`] says, and the newest two.
    ///
    /// # Errors
    /// `OutOfRange` before the first record; `Unencodable` with what the projection says; `DiskFull` and
    /// `Io`. The ledger is as it was.
    pub fn snapshot<P: Projection>(&self) -> Result<Snapshot> {
        self.log.expect_own_process()?;
        let storage = &*self.environment.storage;
        let (spacing, keeping) = {
            let ladder = self.ladder();
            (ladder.spacing(), ladder.keeping())
        };
        let kept = keeping.keep();
        let (last, reader) = (self.log.ack().seq, self.log.reader()?);
        let (snapshot, note, ignored) =
            snapshots::make::<P>(storage, &reader, (last, Care::Whole), &[], &kept)?;
        // Whoever makes what is due may hold the ladder, and wait for this.
        drop(kept);
        self.ladder().warn_of(&ignored);
        self.note(note.record(), None)?;
        let _kept = keeping.keep();
        thin_out::<P>(storage, &self.log.reader()?, spacing)?;
        Ok(snapshot)
    }

    /// What went wrong without harm since the ledger was opened: snapshots that could not be used
    /// or made. Each is there once, and the first 256 are kept.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.ladder().warnings()
    }

    /// Have the snapshot made that is due when the log has got as far as record `last`.
    pub(super) fn climb(&self, last: u64) {
        self.ladder().reach(last);
        self.note_all();
    }

    /// Note the snapshots that were made.
    pub(super) fn note_all(&self) {
        // The ladder is free again while a note waits for the disk.
        let notes = self.ladder().take_notes();
        for note in notes {
            if let Err(error) = self.note(note.record(), None) {
                let seq = note.seq;
                self.ladder().warn(format!("the snapshot at record {seq} has no note: {error}"));
            }
        }
    }

    /// Add a record that changes no state, durably; under a key, once.
    pub(super) fn note(&self, note: NewRecord, key: Option<&BatchKey>) -> Result<Ack> {
        let begun = self.submit_note(&mut *self.lock()?, note, key);
        let waited = self.log.wait(begun?);
        if waited.is_err() {
            self.mark_stale();
        }
        waited
    }

    /// Give the note its place in the log, and pass it in the state.
    fn submit_note(
        &self,
        shared: &mut Shared,
        note: NewRecord,
        key: Option<&BatchKey>,
    ) -> Result<Ticket> {
        if let Some(landed) = key.map(|key| self.log.landed(key)).transpose()?.flatten() {
            return Ok(landed);
        }
        let mut batch = Batch {
            records: vec![note],
            time: 0,
            durability: Durability::Sync,
            expected_seq: None,
            key: key.cloned(),
        };
        loop {
            self.log.expect_good()?;
            shared.refresh(&self.log)?;
            let time = self.now();
            let expected = self.log.last_submitted().seq + 1;
            (batch.time, batch.expected_seq) = (time, Some(expected));
            match self.log.submit(&batch) {
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    shared.freshness = Freshness::Stale;
                }
                Err(error) => return Err(error),
                Ok(ticket) => {
                    for seq in ticket.first_seq()..=ticket.last_seq() {
                        shared.state.pass(seq, time);
                        shared.copies.note(seq, time, None);
                    }
                    return Ok(ticket);
                }
            }
        }
    }

    pub(super) fn ladder(&self) -> MutexGuard<'_, Ladder> {
        // Whatever a thread that panicked left undone costs a snapshot and nothing else.
        self.ladder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
