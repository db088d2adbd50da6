//! Makes the state's snapshots in the background: a full snapshot at every interval and, between
//! two of them, delta snapshots as long as they are small compared to the records that need not be
//! folded because of them.
//!
//! The writer keeps the state of the last snapshot, and the hashes of those that later ones are based
//! on, so that a snapshot costs the records and the leaves that changed since the last one.
//!
//! Invariants:
//! - An error here becomes a warning. No command fails because of a snapshot, and with
//!   [`BackgroundWork::Thread`] no command waits for one.
//! - A note is returned only after the file of its snapshot is durable.
//! - The thread ends before the scheduler is dropped.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::error::{Error, Result};
use crate::format::SnapshotName;
use crate::log::{BackgroundWork, LogReader, SnapshotNote};
use crate::plan::State;
use crate::storage::Storage;

use crate::ledger::environment::{DEFAULT_SNAPSHOT_INTERVAL, Environment};
use crate::ledger::projection::Projection as _;

use super::intervals::SnapshotIntervals;
use super::kept_states::{Due, KeptStates};
use super::retention::remove_old_snapshots;
use super::store::{SnapshotLock, names};

/// A delta snapshot is skipped while the file of the newest one has more than this many bytes for each
/// record of its span, or since it: about the size of the records themselves.
const WORTHWHILE_BYTES_PER_RECORD: u64 = 512;
/// How many different warnings are kept.
const WARNINGS_MAX: usize = 256;

/// Makes the state's snapshots.
#[derive(Debug)]
pub(crate) struct SnapshotScheduler {
    writer: SnapshotWriter,
    background_work: BackgroundWork,
    trigger: SnapshotTrigger,
    /// The last record for which a snapshot was made or tried.
    tried: u64,
    thread: Option<SnapshotThread>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SnapshotTrigger {
    Interval,
    OnRequest,
}

#[derive(Debug, Clone)]
struct SnapshotWriter {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    intervals: SnapshotIntervals,
    results: Arc<Mutex<SnapshotResults>>,
    lock: SnapshotLock,
    kept: Arc<Mutex<KeptStates>>,
}

/// Notes and warnings that have not been collected.
#[derive(Debug, Default)]
struct SnapshotResults {
    notes: Vec<SnapshotNote>,
    warnings: Vec<String>,
}

impl SnapshotResults {
    /// Keep each warning once: every read of the past encounters the same damaged snapshot.
    fn warn(&mut self, warning: String) {
        if self.warnings.len() < WARNINGS_MAX && !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    fn warn_all(&mut self, errors: &[Error]) {
        for error in errors {
            self.warn(error.to_string());
        }
    }
}

#[derive(Debug)]
struct SnapshotThread {
    storage: Arc<dyn Storage>,
    /// The process in which the thread runs: after `fork` the child process has no such thread.
    process: u32,
    /// Dropped first, which ends the thread.
    queue: Option<Sender<u64>>,
    thread: Option<JoinHandle<()>>,
}

impl SnapshotScheduler {
    /// The scheduler of the ledger in `dir`, with its newest valid snapshot at record `newest`.
    pub(crate) fn new(environment: &Environment, dir: &Path, newest: u64) -> Self {
        let every = environment.snapshot_every.filter(|every| *every > 0);
        let full = every.unwrap_or(DEFAULT_SNAPSHOT_INTERVAL);
        Self {
            writer: SnapshotWriter {
                storage: environment.storage.clone(),
                dir: dir.to_owned(),
                intervals: SnapshotIntervals::new(full),
                results: Arc::default(),
                lock: SnapshotLock::default(),
                kept: Arc::default(),
            },
            background_work: environment.background_work,
            trigger: if every.is_some() {
                SnapshotTrigger::Interval
            } else {
                SnapshotTrigger::OnRequest
            },
            tried: newest,
            thread: None,
        }
    }

    /// Request the snapshots that are due now that the log has reached record `last`: the last full
    /// one and the last delta. If one commit passes several due records, the earlier ones get no
    /// snapshot.
    pub(crate) fn on_commit(&mut self, last: u64) {
        if self.trigger == SnapshotTrigger::Interval {
            let intervals = self.writer.intervals;
            self.request(intervals.last_full_seq(last));
            self.request(intervals.last_due_seq(last));
        }
    }

    fn request(&mut self, seq: u64) {
        if seq <= self.tried {
            return;
        }
        self.tried = seq;
        match self.background_work {
            BackgroundWork::Inline => self.writer.make_or_warn(seq),
            BackgroundWork::Thread => self.enqueue(seq),
        }
    }

    fn enqueue(&mut self, seq: u64) {
        if self.thread.is_none() {
            match SnapshotThread::start(self.writer.clone()) {
                Ok(thread) => self.thread = Some(thread),
                Err(error) => {
                    self.warn(format!("cannot start the snapshot thread: {error}"));
                }
            }
        }
        let queue = self.thread.as_ref().and_then(|thread| thread.queue.as_ref());
        // If the thread has ended, it left a warning.
        let _ = queue.map(|queue| queue.send(seq));
    }

    pub(crate) fn intervals(&self) -> SnapshotIntervals {
        self.writer.intervals
    }

    /// The lock that is held while snapshots are written or removed.
    pub(crate) fn snapshot_lock(&self) -> SnapshotLock {
        self.writer.lock.clone()
    }

    /// Notes on snapshots that are durable, each returned once.
    pub(crate) fn take_notes(&self) -> Vec<SnapshotNote> {
        std::mem::take(&mut self.writer.results().notes)
    }

    pub(crate) fn warn(&self, warning: String) {
        self.writer.results().warn(warning);
    }

    pub(crate) fn warn_all(&self, errors: &[Error]) {
        self.writer.results().warn_all(errors);
    }

    /// All warnings so far.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.writer.results().warnings.clone()
    }

    /// Wait for the snapshot in progress, and end the thread.
    pub(crate) fn finish(&mut self) {
        self.thread = None;
    }
}

impl SnapshotWriter {
    fn make_or_warn(&self, seq: u64) {
        let done = catch_unwind(AssertUnwindSafe(|| self.make(seq)));
        let warning = match done {
            Ok(Ok(())) => return,
            Ok(Err(error)) => format!("no snapshot at record {seq}: {error}"),
            Err(_) => format!("no snapshot at record {seq}: the snapshot thread panicked"),
        };
        self.results().warn(warning);
    }

    fn make(&self, seq: u64) -> Result<()> {
        let guard = self.lock.lock();
        let reader = LogReader::open(&self.storage, &self.dir)?;
        let names = names::<State>(&reader)?;
        let newest = names.iter().rev().find(|name| name.seq < seq);
        if !self.intervals.is_full(seq) && !self.is_worthwhile(&reader, seq, newest) {
            return Ok(());
        }
        let at = |base: u64| {
            let is_base =
                move |name: &&SnapshotName| (name.seq, name.version) == (base, State::VERSION);
            names.iter().filter(is_base).cloned()
        };
        let bases: Vec<_> = self.intervals.bases(seq).flat_map(at).collect();
        // The states are valid after a panic, too: a fold that failed left none.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let due = Due { seq, bases: &bases, later_bases: &self.intervals.later_bases(seq) };
        let (note, ignored) = kept.make(&*self.storage, &reader, &due, &guard)?;
        drop(kept);
        let mut results = self.results();
        results.notes.push(note);
        results.warn_all(&ignored);
        drop(results);
        remove_old_snapshots::<State>(&*self.storage, &reader, self.intervals)
    }

    /// Whether another delta at a record is small enough to be useful, according to the size of the
    /// newest snapshot. Large ones follow at larger distances.
    fn is_worthwhile(&self, reader: &LogReader, seq: u64, newest: Option<&SnapshotName>) -> bool {
        newest.filter(|name| self.intervals.is_delta(name.seq)).is_none_or(|name| {
            // A snapshot that cannot be opened does not prevent another one.
            let header = reader.snapshot_folder().header(name).ok().flatten();
            let length = header.and_then(|header| header.file_length()).unwrap_or(0);
            let records = self.intervals.span(name.seq).max(seq.saturating_sub(name.seq));
            length <= WORTHWHILE_BYTES_PER_RECORD.saturating_mul(records)
        })
    }

    fn results(&self) -> MutexGuard<'_, SnapshotResults> {
        // The two lists stay valid after a panic, since each call only appends.
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SnapshotThread {
    fn start(writer: SnapshotWriter) -> std::io::Result<Self> {
        let (queue, requests): (Sender<u64>, Receiver<u64>) = channel();
        let (storage, process) = (writer.storage.clone(), writer.storage.process());
        let work = move || {
            while let Ok(mut seq) = requests.recv() {
                // If several requests are queued, skip the deltas that a newer request replaces.
                while !writer.intervals.is_full(seq)
                    && let Ok(newer) = requests.try_recv()
                {
                    seq = newer;
                }
                writer.make_or_warn(seq);
            }
        };
        let thread = std::thread::Builder::new().name("snapshots".to_owned()).spawn(work)?;
        Ok(Self { storage, process, queue: Some(queue), thread: Some(thread) })
    }
}

impl Drop for SnapshotThread {
    fn drop(&mut self) {
        self.queue = None;
        if self.storage.process() != self.process {
            return;
        }
        // The thread catches panics and turns them into warnings.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
