//! The writer of a ledger. It decides and applies commands under a lock and waits for the sync
//! outside of the lock, so that concurrent commands share syncs.
//!
//! A transaction goes through three steps: `submit` decides its commands on the state, applies their
//! events and assigns their sequence numbers; the log's group commit syncs them;
//! `Submitted::wait` returns once they are durable.
//!
//! Invariants:
//! - No result is returned before its own records and all records that it depends on are durable.
//!   This includes rejections.
//! - The state is ahead of the durable records by exactly the submitted ones. If a write fails, the
//!   state is folded again from the log before it is used.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{ClockAnchor, NewRecord};
use crate::ledger::blobs::OutputStore;
use crate::ledger::codec::last_notes::NotesCache;
use crate::ledger::environment::{Environment, ledger_time};
use crate::ledger::history::finished_cache::FinishedCache;
use crate::ledger::snapshot::scheduler::SnapshotScheduler;
use crate::ledger::snapshot::store;
use crate::log::{Ack, Batch, BatchKey, Durability, Log, LogReader, Ticket};
use crate::plan::{Event, State, Timestamp};

use super::planned_files::PlannedFilesCache;
use super::repeated_receipt::RecentReceipts;
use super::state_cache::StateCache;

/// An open ledger.
#[derive(Debug)]
pub(crate) struct Engine {
    /// Dropped first, so that a snapshot in progress ends while the ledger is still locked.
    scheduler: Mutex<SnapshotScheduler>,
    pub(crate) log: Log,
    shared: Mutex<SharedState>,
    pub(crate) environment: Environment,
    pub(crate) outputs: OutputStore,
    pub(crate) planned_files: PlannedFilesCache,
    pub(super) receipts: RecentReceipts,
    pub(super) finished: FinishedCache,
    pub(crate) notes: NotesCache,
    /// Held by the thread that records due events.
    pub(super) ticking: Mutex<()>,
    /// The ledger's time when it was opened.
    clock: Option<ClockAnchor>,
}

/// The data that all threads of a ledger share, besides its log.
#[derive(Debug)]
pub(crate) struct SharedState {
    /// The writer's own state; readers get copies.
    pub(crate) state: State,
    cache: StateCache,
    pub(super) freshness: Freshness,
    /// Whether consequences of earlier commands did not fit into their batches. A tick is then due.
    pub(super) has_backlog: bool,
}

/// Whether the state in memory is the fold of the submitted records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Freshness {
    Current,
    /// The state contains events that are not in the log, or a fold did not finish.
    Stale,
    /// The log accepts no more records, and the state is the fold of the durable ones.
    Final,
}

impl SharedState {
    /// `state` is the fold of all records.
    fn new(state: State) -> Self {
        let freshness = Freshness::Current;
        let has_backlog = !state.runs.unsettled().is_empty();
        Self { state, cache: StateCache::default(), freshness, has_backlog }
    }

    /// Fold the state again if it is stale.
    pub(crate) fn refresh(&mut self, log: &Log) -> Result<()> {
        if self.freshness == Freshness::Stale {
            // A reader sees only durable records. If the flush fails, no further records become
            // durable.
            let flushed = log.flush();
            let projected = store::project::<State>(&log.reader()?, u64::MAX)?;
            self.state = projected.value;
            self.cache.clear();
            self.freshness = if flushed.is_ok() { Freshness::Current } else { Freshness::Final };
        }
        Ok(())
    }

    /// Add the records of a batch to the cache: the record of its key, if any, and its events.
    pub(super) fn cache_records(&mut self, key: Option<u64>, events: &[(u64, Event)]) {
        let time = self.state.time;
        if let Some(seq) = key {
            self.cache.add_record(seq, time, None);
        }
        for (seq, event) in events {
            self.cache.add_record(*seq, time, Some(event));
        }
    }

    /// A copy of the state, which must not be stale.
    fn copy(&mut self) -> Arc<State> {
        self.cache.get(&self.state)
    }
}

impl Engine {
    /// `state` is the fold of all records of the log.
    pub(crate) fn new(
        log: Log,
        environment: &Environment,
        scheduler: SnapshotScheduler,
        state: State,
    ) -> Self {
        Self {
            outputs: OutputStore::new(log.blobs()),
            scheduler: Mutex::new(scheduler),
            notes: NotesCache::of_log(state.seq),
            shared: Mutex::new(SharedState::new(state)),
            environment: environment.clone(),
            planned_files: PlannedFilesCache::default(),
            receipts: RecentReceipts::default(),
            finished: FinishedCache::default(),
            ticking: Mutex::new(()),
            clock: log.clock(),
            log,
        }
    }

    /// Whether a tick has something to record.
    pub(crate) fn is_tick_due(&self) -> Result<bool> {
        let shared = self.lock()?;
        let now = self.now();
        Ok(shared.has_backlog || shared.state.next_due().is_some_and(|due| due <= now))
    }

    /// Whether consequences of earlier commands are not recorded yet.
    pub(crate) fn has_backlog(&self) -> Result<bool> {
        Ok(self.lock()?.has_backlog)
    }

    /// Wait until a batch is durable.
    pub(crate) fn wait_durable(&self, ticket: Ticket) -> Result<Ack> {
        mutant!(AnswerBeforeDurable => return Ok(self.log.last_durable()));
        match self.log.wait(ticket) {
            Ok(ack) => {
                self.scheduler().on_commit(ack.seq);
                self.append_snapshot_notes();
                Ok(ack)
            }
            Err(error) => {
                self.mark_stale();
                Err(error)
            }
        }
    }

    /// Wait until everything submitted so far is durable.
    ///
    /// # Errors
    /// The write errors of [`crate::Ledger::execute`].
    pub(crate) fn flush(&self) -> Result<()> {
        self.log.flush().map(drop).map_err(|error| self.write_failed(error))
    }

    /// The error for a caller that wrote nothing itself, after another caller's write failed.
    fn write_failed(&self, error: Error) -> Error {
        self.mark_stale();
        match error.kind() {
            ErrorKind::OutcomeUnknown => error.as_kind(ErrorKind::Poisoned),
            _ => error,
        }
    }

    /// The ledger's time, which all decisions use. It advances with the boot clock, and is never before
    /// the last submitted record: an expired lease stays expired, and a valid one stays valid, if the
    /// wall clock jumps.
    pub(crate) fn now(&self) -> Timestamp {
        let last = self.log.last_submitted_time();
        ledger_time(&*self.environment.clock, self.clock, last)
    }

    /// See [`crate::Ledger::state`].
    pub(crate) fn state(&self) -> Result<Arc<State>> {
        let state = {
            let mut shared = self.lock()?;
            shared.refresh(&self.log)?;
            shared.copy()
        };
        if self.log.flush().is_ok() {
            return Ok(state);
        }
        let mut shared = self.lock()?;
        if shared.freshness != Freshness::Final {
            shared.freshness = Freshness::Stale;
            shared.refresh(&self.log)?;
        }
        Ok(shared.copy())
    }

    pub(crate) fn reader(&self) -> Result<LogReader> {
        self.log.reader()
    }

    /// The shared state. A forked process gets an error, since the threads of its parent could hold
    /// the lock.
    ///
    /// # Errors
    /// `Fenced` in a forked process.
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, SharedState>> {
        self.log.check_process()?;
        // A thread that panicked left the state marked as stale, so it is folded again.
        Ok(self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Mark the state as stale, so that it is folded again before the next use.
    fn mark_stale(&self) {
        // In a forked process the state is not used, so the error is ignored.
        if let Ok(mut shared) = self.lock() {
            shared.freshness = Freshness::Stale;
        }
    }

    pub(crate) fn scheduler(&self) -> MutexGuard<'_, SnapshotScheduler> {
        // A thread that panicked here can at most have skipped a snapshot.
        self.scheduler.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        self.scheduler().warnings()
    }

    /// Append the notes of snapshots that were made.
    fn append_snapshot_notes(&self) {
        // Do not hold the scheduler's lock while a note waits for the disk.
        let notes = self.scheduler().take_notes();
        for note in notes {
            if let Err(error) = self.append_note(note.record(), None) {
                let seq = note.seq;
                self.scheduler().warn(format!("the snapshot at record {seq} has no note: {error}"));
            }
        }
    }

    /// Append a record that changes no state, and wait until it is durable; once per key.
    pub(crate) fn append_note(&self, note: NewRecord, key: Option<&BatchKey>) -> Result<Ack> {
        let submitted = self.submit_note(&mut *self.lock()?, note, key);
        let waited = self.log.wait(submitted?);
        if waited.is_err() {
            self.mark_stale();
        }
        waited
    }

    fn submit_note(
        &self,
        shared: &mut SharedState,
        note: NewRecord,
        key: Option<&BatchKey>,
    ) -> Result<Ticket> {
        if let Some(earlier) = key.map(|key| self.log.recent_ticket(key)).transpose()?.flatten() {
            return Ok(earlier);
        }
        let mut batch = Batch {
            records: vec![note],
            time: 0,
            durability: Durability::Sync,
            expected_seq: None,
            key: key.cloned(),
        };
        loop {
            self.log.check_status()?;
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
                        shared.state.skip_record(seq, time);
                        shared.cache.add_record(seq, time, None);
                    }
                    return Ok(ticket);
                }
            }
        }
    }

    /// See [`crate::Ledger::close`].
    pub(crate) fn close(self) -> Result<()> {
        self.log.check_process()?;
        self.scheduler().finish();
        self.append_snapshot_notes();
        self.log.close()
    }
}
