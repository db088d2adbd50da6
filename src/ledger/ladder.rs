//! When snapshots of the state are made: at every rung, beside the work, never in its way. Between
//! two rungs there are steps, whose snapshots are made for whoever opens the ledger next, as long as
//! they are small beside the records that they spare.
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
use super::snapshots::{Care, Keeping, RUNG, make, newest_length};
use super::thin_out::{Spacing, thin_out};

/// Steps are no closer than this, in records.
const STEP_MIN: u64 = 16_384;
/// There are so many steps to a rung.
const STEPS: u64 = 4;
/// So long may a snapshot's body be, in bytes, for another to be made at the next step: about as
/// much as the records between the two.
const SMALL: u64 = 8 << 20;

/// Makes the state's snapshots.
#[derive(Debug)]
pub(super) struct Ladder {
    maker: Maker,
    housekeeping: Housekeeping,
    making: Making,
    /// The last step that there is a snapshot of, or that one was tried for.
    tried: u64,
    worker: Option<Worker>,
}

/// Whether snapshots are made by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Making {
    Due,
    OnRequest,
}

#[derive(Debug, Clone)]
struct Maker {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    spacing: Spacing,
    outbox: Arc<Mutex<Outbox>>,
    keeping: Keeping,
}

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
    asked: Option<Sender<u64>>,
    thread: Option<JoinHandle<()>>,
}

impl Ladder {
    /// The ladder of the ledger in `dir`, whose newest good snapshot is at `newest`.
    pub(super) fn new(environment: &Environment, dir: &Path, newest: u64) -> Self {
        let every = environment.snapshot_every.filter(|every| *every > 0);
        let rungs = every.unwrap_or(RUNG);
        Self {
            maker: Maker {
                storage: environment.storage.clone(),
                dir: dir.to_owned(),
                spacing: Spacing { rungs, steps: step(rungs) },
                outbox: Arc::default(),
                keeping: Keeping::default(),
            },
            housekeeping: environment.housekeeping,
            making: if every.is_some() { Making::Due } else { Making::OnRequest },
            tried: newest,
            worker: None,
        }
    }

    /// The log has got as far as record `last`: make the snapshots that are due, that of the last
    /// rung and that of the last step. A log that grew by a lot at once passes over others.
    pub(super) fn reach(&mut self, last: u64) {
        let Spacing { rungs, steps } = self.maker.spacing;
        if self.making == Making::Due {
            self.reach_step(last - last % rungs);
            self.reach_step(last - last % steps);
        }
    }

    fn reach_step(&mut self, seq: u64) {
        if seq <= self.tried {
            return;
        }
        self.tried = seq;
        match self.housekeeping {
            Housekeeping::Inline => self.maker.make_or_warn(seq),
            Housekeeping::Thread => self.hand_over(seq),
        }
    }

    fn hand_over(&mut self, seq: u64) {
        if self.worker.is_none() {
            match Worker::start(self.maker.clone()) {
                Ok(worker) => self.worker = Some(worker),
                Err(error) => {
                    self.warn(format!("no thread for snapshots could be started: {error}"));
                }
            }
        }
        let asked = self.worker.as_ref().and_then(|worker| worker.asked.as_ref());
        // A thread that is gone has left a warning.
        let _ = asked.map(|asked| asked.send(seq));
    }

    /// The spacing of what is kept for good.
    pub(super) fn spacing(&self) -> Spacing {
        self.maker.spacing
    }

    /// What is held while snapshots are written or removed.
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
    fn make_or_warn(&self, seq: u64) {
        let done = catch_unwind(AssertUnwindSafe(|| self.make(seq)));
        let warning = match done {
            Ok(Ok(())) => return,
            Ok(Err(error)) => format!("no snapshot at record {seq}: {error}"),
            Err(_) => format!("no snapshot at record {seq}: making it panicked"),
        };
        self.outbox().warnings.push(warning);
    }

    fn make(&self, seq: u64) -> Result<()> {
        let reader = LogReader::open(&self.storage, &self.dir)?;
        let is_rung = seq.is_multiple_of(self.spacing.rungs);
        if !is_rung && newest_length::<State>(&reader).is_some_and(|length| length > SMALL) {
            return Ok(());
        }
        // Unpacking every run would take the time and the room of all that ever happened.
        let due = (seq, Care::Lazy);
        let (_, note, ignored) = make::<State>(&*self.storage, &reader, due, &self.keeping)?;
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

/// The steps between rungs that are so far apart.
fn step(spacing: u64) -> u64 {
    let step = spacing / STEPS;
    if step >= STEP_MIN && spacing.is_multiple_of(STEPS) { step } else { spacing }
}

impl Worker {
    fn start(maker: Maker) -> std::io::Result<Self> {
        let (asked, todo): (Sender<u64>, Receiver<u64>) = channel();
        let (storage, process) = (maker.storage.clone(), maker.storage.process());
        let work = move || todo.iter().for_each(|seq| maker.make_or_warn(seq));
        let thread = std::thread::Builder::new().name("snapshots".to_owned()).spawn(work)?;
        Ok(Self { storage, process, asked: Some(asked), thread: Some(thread) })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.asked = None;
        if self.storage.process() != self.process {
            return;
        }
        // Panics are caught where they happen, and left as warnings.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever asks for snapshots closer than steps are gets what they ask for, and no more.
    #[test]
    fn there_are_steps_between_rungs_that_are_far_apart() {
        assert_eq!(step(RUNG), STEP_MIN);
        assert_eq!(step(1 << 20), 1 << 18);
        for spacing in [1, 50, 16_384, 65_535, 65_537] {
            assert_eq!(step(spacing), spacing);
        }
    }
}
