//! The past of an open ledger: its state, or any projection, at any record; snapshots of them.
//!
//! Invariant: whatever becomes of a snapshot, commands and what they returned are not touched.

use std::sync::{Arc, MutexGuard, PoisonError};

use crate::error::Result;
use crate::log::{Batch, Durability, SnapshotNote};
use crate::plan::State;

use super::Ledger;
use super::execute::Freshness;
use super::ladder::Ladder;
use super::projection::Projection;
use super::snapshots::{self, Snapshot};

impl Ledger {
    /// The state after record `seq`: the newest good snapshot at or before it, and the records
    /// since.
    ///
    /// # Errors
    /// `OutOfRange` beyond the last durable record.
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
        self.ladder().warn_of(&projected.ignored);
        Ok(projected.value)
    }

    /// Make a snapshot of a projection after the last record, durably, and note it in the log.
    /// Kept are all at multiples of [`Environment::snapshot_every`] and the newest two.
    ///
    /// # Errors
    /// `OutOfRange` before the first record; `DiskFull` and `Io`. The ledger is as it was.
    pub fn snapshot<P: Projection>(&self) -> Result<Snapshot> {
        let last = self.log.ack().seq;
        let reader = self.log.reader()?;
        let storage = &*self.environment.storage;
        let (snapshot, note, ignored) = snapshots::make::<P>(storage, &reader, last)?;
        let spacing = {
            let ladder = self.ladder();
            ladder.warn_of(&ignored);
            ladder.spacing()
        };
        self.note(&note)?;
        snapshots::thin_out::<P>(storage, &reader, spacing)?;
        Ok(snapshot)
    }

    /// What went wrong without harm since the ledger was opened: snapshots that could not be used
    /// or made.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.ladder().warnings()
    }

    /// Have the snapshot made that is due, if one is.
    pub(super) fn climb(&self) {
        self.ladder().reach(self.log.ack().seq);
        self.note_all();
    }

    /// Note the snapshots that were made.
    pub(super) fn note_all(&self) {
        let notes = self.ladder().take_notes();
        for note in notes {
            if let Err(error) = self.note(&note) {
                let warning = format!("the snapshot at record {} has no note: {error}", note.seq);
                self.ladder().warn(warning);
            }
        }
    }

    fn note(&self, note: &SnapshotNote) -> Result<()> {
        let ticket = {
            let mut shared = self.lock();
            shared.refresh(&self.log)?;
            let time = self.environment.clock.now().max(self.log.time());
            let (durability, expected_seq, key) = (Durability::Sync, None, None);
            let batch = Batch { records: vec![note.record()], time, durability, expected_seq, key };
            let ticket = self.log.submit(&batch)?;
            Arc::make_mut(&mut shared.state).pass(ticket.last_seq(), time);
            ticket
        };
        let waited = self.log.wait(ticket);
        if waited.is_err() {
            self.lock().freshness = Freshness::Stale;
        }
        waited.map(drop)
    }

    pub(super) fn ladder(&self) -> MutexGuard<'_, Ladder> {
        // Whatever a thread that panicked left undone costs a snapshot and nothing else.
        self.ladder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
