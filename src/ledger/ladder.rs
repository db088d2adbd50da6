//! When snapshots of the state are made: at every rung, beside the work, never in its way.
//!
//! Invariants:
//! - Whatever goes wrong here is a warning. No command waits for a snapshot (with
//!   [`Housekeeping::Thread`]) and none fails because of one.
//! - A note is handed out only after its file is durable.
//! - The thread ends before this does.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::error::{Error, Result};
use crate::log::{Housekeeping, LogReader, SnapshotNote};
use crate::plan::State;
use crate::storage::Storage;

use super::environment::Environment;
use super::snapshots::{RUNG, make, thin_out};

/// Makes the state's snapshots.
#[derive(Debug)]
pub(super) struct Ladder {
    maker: Maker,
    housekeeping: Housekeeping,
    every: Option<u64>,
    /// The last rung that there is a snapshot of, or that one was tried for.
    tried: u64,
    worker: Option<Worker>,
}

#[derive(Debug, Clone)]
struct Maker {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    spacing: u64,
    outbox: Arc<Mutex<Outbox>>,
    keeping: Keeping,
}

/// Held while snapshots are removed, or become anchors.
pub(super) type Keeping = Arc<Mutex<()>>;

/// What was made, and what went wrong, until somebody asks.
#[derive(Debug, Default)]
struct Outbox {
    notes: Vec<SnapshotNote>,
    warnings: Vec<String>,
}

#[derive(Debug)]
struct Worker {
    storage: Arc<dyn Storage>,
    /// The process that the thread runs in: a fork has no such thread.
    process: u32,
    /// Dropped first: then the thread comes to its end.
    rungs: Option<Sender<u64>>,
    thread: Option<JoinHandle<()>>,
}

impl Ladder {
    /// The ladder of the ledger in `dir`, whose newest good snapshot is at `newest`.
    pub(super) fn new(environment: &Environment, dir: &Path, newest: u64) -> Self {
        let every = environment.snapshot_every.filter(|every| *every > 0);
        Self {
            maker: Maker {
                storage: environment.storage.clone(),
                dir: dir.to_owned(),
                spacing: every.unwrap_or(RUNG),
                outbox: Arc::default(),
                keeping: Keeping::default(),
            },
            housekeeping: environment.housekeeping,
            every,
            tried: newest,
            worker: None,
        }
    }

    /// The log has got as far as record `last`: make a snapshot if that is past a rung.
    pub(super) fn reach(&mut self, last: u64) {
        let Some(rung) = self.every.map(|every| last - last % every) else { return };
        if rung <= self.tried {
            return;
        }
        self.tried = rung;
        match self.housekeeping {
            Housekeeping::Inline => self.maker.make_or_warn(rung),
            Housekeeping::Thread => self.hand_over(rung),
        }
    }

    fn hand_over(&mut self, rung: u64) {
        if self.worker.is_none() {
            match Worker::start(self.maker.clone()) {
                Ok(worker) => self.worker = Some(worker),
                Err(error) => {
                    self.warn(format!("no thread for snapshots could be started: {error}"));
                }
            }
        }
        let rungs = self.worker.as_ref().and_then(|worker| worker.rungs.as_ref());
        // A thread that is gone has left a warning.
        let _ = rungs.map(|rungs| rungs.send(rung));
    }

    /// The spacing of what is kept for good.
    pub(super) fn spacing(&self) -> u64 {
        self.maker.spacing
    }

    /// What is held while snapshots are removed.
    pub(super) fn keeping(&self) -> Keeping {
        self.maker.keeping.clone()
    }

    /// Notes on snapshots that are durable, each handed out once.
    pub(super) fn take_notes(&self) -> Vec<SnapshotNote> {
        std::mem::take(&mut self.maker.outbox().notes)
    }

    /// Keep a warning for who asks.
    pub(super) fn warn(&self, warning: String) {
        self.maker.outbox().warnings.push(warning);
    }

    /// Keep what was wrong with snapshots.
    pub(super) fn warn_of(&self, errors: &[Error]) {
        self.maker.outbox().warnings.extend(errors.iter().map(Error::to_string));
    }

    /// All warnings so far.
    pub(super) fn warnings(&self) -> Vec<String> {
        self.maker.outbox().warnings.clone()
    }

    /// Wait for what is being made.
    pub(super) fn finish(&mut self) {
        self.worker = None;
    }
}

impl Maker {
    fn make_or_warn(&self, rung: u64) {
        let done = catch_unwind(AssertUnwindSafe(|| self.make(rung)));
        let warning = match done {
            Ok(Ok(())) => return,
            Ok(Err(error)) => format!("no snapshot at record {rung}: {error}"),
            Err(_) => format!("no snapshot at record {rung}: making it panicked"),
        };
        self.outbox().warnings.push(warning);
    }

    fn make(&self, rung: u64) -> Result<()> {
        let reader = LogReader::open(&self.storage, &self.dir)?;
        let (_, note, ignored) = make::<State>(&*self.storage, &reader, rung)?;
        let mut outbox = self.outbox();
        outbox.notes.push(note);
        outbox.warnings.extend(ignored.iter().map(Error::to_string));
        drop(outbox);
        let _keeping = self.keeping.lock().unwrap_or_else(PoisonError::into_inner);
        let reader = LogReader::open(&self.storage, &self.dir)?;
        thin_out::<State>(&*self.storage, &reader, self.spacing)
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        // Two lists that only grow: a panic between two calls leaves them usable.
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Worker {
    fn start(maker: Maker) -> std::io::Result<Self> {
        let (rungs, asked): (Sender<u64>, Receiver<u64>) = channel();
        let (storage, process) = (maker.storage.clone(), maker.storage.process());
        let work = move || asked.iter().for_each(|rung| maker.make_or_warn(rung));
        let thread = std::thread::Builder::new().name("snapshots".to_owned()).spawn(work)?;
        Ok(Self { storage, process, rungs: Some(rungs), thread: Some(thread) })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.rungs = None;
        if self.storage.process() != self.process {
            return;
        }
        // Panics are caught where they happen, and left as warnings.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
