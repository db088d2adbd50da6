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
use crate::format::SnapshotName;
use crate::log::{Housekeeping, LogReader, SnapshotNote};
use crate::plan::State;
use crate::storage::Storage;

use super::environment::Environment;
use super::projection::Projection as _;
use super::snapshots::{Care, Keeping, RUNG, make, names};
use super::spacing::Spacing;
use super::thin_out::thin_out;

/// A snapshot at a step may have so many bytes for each record of its reach, for another to be made at
/// the next one: about as much as the records themselves.
const WORTH: u64 = 512;
/// So many different warnings are kept; whoever has that many learns no more from another one.
const WARNINGS_MAX: usize = 256;

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

impl Outbox {
    /// Keep a warning once: a snapshot that is damaged is come upon by every look at the past.
    fn warn(&mut self, warning: String) {
        if self.warnings.len() < WARNINGS_MAX && !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    fn warn_of(&mut self, errors: &[Error]) {
        for error in errors {
            self.warn(error.to_string());
        }
    }
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
                spacing: Spacing::of(rungs),
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
        if self.making == Making::Due {
            let spacing = self.maker.spacing;
            self.reach_step(spacing.rung_before(last));
            self.reach_step(spacing.step_before(last));
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
        self.maker.outbox().warn(warning);
    }

    /// Keep what was wrong with snapshots.
    pub(super) fn warn_of(&self, errors: &[Error]) {
        self.maker.outbox().warn_of(errors);
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
        self.outbox().warn(warning);
    }

    fn make(&self, seq: u64) -> Result<()> {
        let kept = self.keeping.keep();
        let reader = LogReader::open(&self.storage, &self.dir)?;
        let names = names::<State>(&reader)?;
        let newest = names.iter().rev().find(|name| name.seq < seq);
        if !self.spacing.is_rung(seq) && self.is_waste(&reader, newest) {
            return Ok(());
        }
        let at = |base: u64| {
            let is_it =
                move |name: &&SnapshotName| (name.seq, name.version) == (base, State::VERSION);
            names.iter().filter(is_it).cloned()
        };
        let bases: Vec<_> = self.spacing.bases(seq).flat_map(at).collect();
        // Unpacking every run would take the time and the room of all that ever happened.
        let due = (seq, Care::Lazy);
        let (_, note, ignored) = make::<State>(&*self.storage, &reader, due, &bases, &kept)?;
        let mut outbox = self.outbox();
        outbox.notes.push(note);
        outbox.warn_of(&ignored);
        drop(outbox);
        thin_out::<State>(&*self.storage, &reader, self.spacing)
    }

    /// Whether another step is not worth its snapshot, since that of the newest one was not.
    fn is_waste(&self, reader: &LogReader, newest: Option<&SnapshotName>) -> bool {
        newest.filter(|name| self.spacing.is_between(name.seq)).is_some_and(|name| {
            // One that cannot be opened does not stand in the way of another.
            let header = reader.snapshot_folder().header(name).ok().flatten();
            let length = header.and_then(|header| header.file_length()).unwrap_or(0);
            length > WORTH.saturating_mul(self.spacing.reach(name.seq))
        })
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        // Two lists that only grow: a panic between two calls leaves them usable.
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Worker {
    fn start(maker: Maker) -> std::io::Result<Self> {
        let (asked, todo): (Sender<u64>, Receiver<u64>) = channel();
        let (storage, process) = (maker.storage.clone(), maker.storage.process());
        let work = move || {
            while let Ok(mut seq) = todo.recv() {
                // Who is behind makes the newest: nobody waits for steps that were passed meanwhile.
                while !maker.spacing.is_rung(seq)
                    && let Ok(newer) = todo.try_recv()
                {
                    seq = newer;
                }
                maker.make_or_warn(seq);
            }
        };
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
