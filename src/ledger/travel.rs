//! The past of an open ledger: its state, or any projection, at any record; snapshots of them.
//!
//! Invariant: whatever becomes of a snapshot, commands and what they returned are not touched.

use std::sync::{Arc, MutexGuard, PoisonError};

use crate::error::Result;
use crate::log::SnapshotNote;
use crate::plan::State;

use super::ladder::Ladder;
use super::projection::Projection;
use super::snapshots::{self, Snapshot};
use super::{Ledger, Shared};

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
        let reader = self.lock().log.reader()?;
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
        let (reader, last) = {
            let shared = self.lock();
            (shared.log.reader()?, shared.log.ack().seq)
        };
        let storage = &*self.environment.storage;
        let (snapshot, note, ignored) = snapshots::make::<P>(storage, &reader, last)?;
        let spacing = {
            let ladder = self.ladder();
            ladder.warn_of(&ignored);
            ladder.spacing()
        };
        self.note(&mut self.lock(), &note)?;
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
    pub(super) fn climb(&self, shared: &mut Shared) {
        self.ladder().reach(shared.log.ack().seq);
        self.note_all(shared);
    }

    /// Note the snapshots that were made.
    pub(super) fn note_all(&self, shared: &mut Shared) {
        let ladder = self.ladder();
        for note in ladder.take_notes() {
            if let Err(error) = self.note(shared, &note) {
                ladder.warn(format!("the snapshot at record {} has no note: {error}", note.seq));
            }
        }
    }

    fn note(&self, shared: &mut Shared, note: &SnapshotNote) -> Result<()> {
        let now = self.environment.clock.now().max(shared.log.time());
        let ack = shared.log.append(&[note.record()], now)?;
        Arc::make_mut(&mut shared.state).pass(ack.seq, now);
        Ok(())
    }

    pub(super) fn ladder(&self) -> MutexGuard<'_, Ladder> {
        // Whatever a thread that panicked left undone costs a snapshot and nothing else.
        self.ladder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
