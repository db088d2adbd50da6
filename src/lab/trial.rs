//! One ledger on one simulated disk, and what was asked of it.
//!
//! Invariants:
//! - The same operations and failures give the same calls of the disk and the same bytes.
//! - The model is told of a batch before the engine is, and of an answer at once; the disk's mark
//!   is the number of the model that was true when a picture was taken.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, ErrorKind};
use crate::format::{HeadSync, NewRecord, Uid};
use crate::ledger::{
    Clock, Environment, Housekeeping, IdSource, Ledger, OnAmbiguous, RetentionLimit, SegmentSizes,
};
use crate::log::{Batch, Durability, Item, LogReader, LoggedRecord, Proof};
use crate::plan::State;
use crate::sim::{Random, SimDisk};
use crate::storage::Storage;

use super::model::{Model, Promise, Violation};
use super::op::{Op, SEGMENT};
use super::restart::Restart;

/// The ledger's folder on the simulated disk.
#[must_use]
pub fn dir() -> PathBuf {
    PathBuf::from("/lab.ledger")
}

/// Where times and identifiers come from: numbers that only the disk's content decides.
#[derive(Debug)]
struct Counter(AtomicU64);

impl Clock for Counter {
    fn now(&self) -> u64 {
        1_700_000_000_000_000 + 300_000 * self.0.fetch_add(1, Ordering::Relaxed)
    }
}

impl IdSource for Counter {
    fn next_id(&self) -> Uid {
        let mut random = Random(self.0.fetch_add(1, Ordering::Relaxed));
        let mut id = [0; 16];
        let bytes = [random.next(), random.next()].map(u64::to_le_bytes).concat();
        id.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        id
    }
}

/// An environment on a simulated disk: small segments, no threads, and times and identifiers that
/// only the disk's content decides, whatever led to it: what is done next on disks that look the same is
/// the same. So the clock is set back at each start.
#[must_use]
pub fn environment(disk: &SimDisk) -> Environment {
    let start = disk.digest().first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    Environment {
        storage: Arc::new(disk.clone()),
        clock: Arc::new(Counter(AtomicU64::new(0))),
        ids: Arc::new(Counter(AtomicU64::new(start))),
        holder: "process 7 on lab".to_owned(),
        head_sync: HeadSync::Interval,
        housekeeping: Housekeeping::Inline,
        on_ambiguous: OnAmbiguous::Refuse,
        blob_threshold: 64 << 10,
        snapshot_every: None,
        segments: SegmentSizes { first: SEGMENT, largest: SEGMENT },
    }
}

/// What reading a ledger gave.
#[derive(Debug, Default)]
pub(super) struct Read {
    /// Durable records that follow from those before them.
    pub(super) proven: Vec<LoggedRecord>,
    /// Intact ones beyond what is known to be durable, or behind damage.
    pub(super) others: Vec<LoggedRecord>,
    /// Damage, in words, with the records that it costs.
    pub(super) damage: Vec<(u64, u64, String)>,
}

/// Read all of a ledger from a record on.
pub(super) fn read(storage: &Arc<dyn Storage>, from: u64) -> Result<Read, Error> {
    let reader = LogReader::open(storage, &dir())?;
    read_all(&reader, from)
}

pub(super) fn read_all(reader: &LogReader, from: u64) -> Result<Read, Error> {
    let mut read = Read::default();
    for item in reader.walk(from) {
        match item? {
            Item::Record(record, Proof::Proven) => read.proven.push(record),
            Item::Record(record, _) => read.others.push(record),
            Item::Damage(damage) => {
                let words = format!("{}: {}", damage.path.display(), damage.what);
                read.damage.push((damage.first_seq, damage.last_seq, words));
            }
            Item::Derived(damage) => read.damage.push((1, 0, format!("{damage:?}"))),
            Item::OpenEnd { .. } => {}
        }
    }
    Ok(read)
}

/// Whether what is done to the disk may make the engine's calls fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weather {
    Calm,
    /// Calls fail, within the contract.
    Failing,
    /// The same, and what a write did may end inside of a sector: the engine may ask.
    Tearing,
    /// The device breaks the contract.
    Lying,
}

/// A ledger in the laboratory.
#[derive(Debug)]
pub(super) struct Trial {
    pub(super) disk: SimDisk,
    pub(super) model: Model,
    /// Every model that was true since the last film began.
    pub(super) models: Vec<Model>,
    pub(super) weather: Weather,
    ledger: Option<Ledger>,
    /// How many operations were begun.
    place: u64,
}

type Step = Result<(), Violation>;

impl Trial {
    pub(super) fn new(disk: SimDisk, weather: Weather) -> Self {
        let (model, models) = (Model::default(), Vec::new());
        let mut trial = Self { disk, model, models, weather, ledger: None, place: 0 };
        trial.publish();
        trial
    }

    /// From now on pictures are taken.
    pub(super) fn begin_film(&mut self) {
        self.models.clear();
        self.publish();
        self.disk.begin_film();
    }

    /// What is true now.
    fn publish(&mut self) {
        self.disk.set_mark(u64::try_from(self.models.len()).unwrap_or(u64::MAX));
        self.models.push(self.model.clone());
    }

    /// Make the ledger.
    pub(super) fn create(&mut self) -> Step {
        match Ledger::create(&dir(), &environment(&self.disk)) {
            Ok(ledger) => {
                self.ledger = Some(ledger);
                self.model.is_created = true;
                self.publish();
                Ok(())
            }
            Err(error) => self.failed(&error),
        }
    }

    /// An operation failed: on a calm disk it must not.
    fn failed(&mut self, error: &Error) -> Step {
        let is_right = match self.weather {
            Weather::Calm => false,
            Weather::Failing => is_of_the_machine(error.kind()),
            Weather::Tearing => {
                is_of_the_machine(error.kind()) || error.kind() == ErrorKind::Ambiguous
            }
            // Whatever it says: it refused.
            Weather::Lying => {
                self.ledger = None;
                true
            }
        };
        let refuses = self.ledger.as_ref().is_some_and(|it| it.log().expect_healthy().is_err());
        if refuses || self.disk.is_down() {
            self.ledger = None;
        }
        if is_right || self.disk.is_down() {
            return Ok(());
        }
        Err(Violation::new(Promise::ErrorKinds, format!("unexpected: {error}")))
    }

    /// Do one operation. `Ok` also if the disk failed, and the engine said so as it should.
    pub(super) fn take(&mut self, op: Op) -> Step {
        self.place += 1;
        if self.ledger.is_none() && op != Op::Reopen && op != Op::Kill {
            self.open()?;
        }
        let (batches, place) = (op.batches(self.place), self.place);
        match op {
            Op::Append | Op::Batch | Op::Rotate => {
                batches.iter().try_for_each(|batch| self.append(batch))
            }
            Op::Flush => self.flush(batches),
            Op::Snapshot => self.snapshot(),
            Op::Prune => self.prune(place),
            Op::Reopen => {
                if let Some(ledger) = self.ledger.take()
                    && let Err(error) = ledger.close()
                {
                    self.failed(&error)?;
                }
                self.open()
            }
            Op::Kill => {
                self.disk.kill_process();
                self.ledger = None;
                self.open()
            }
        }
    }

    pub(super) fn open(&mut self) -> Step {
        if self.disk.is_down() {
            return Ok(());
        }
        self.ledger = None;
        if !self.model.is_created {
            return self.create();
        }
        match Ledger::open(&dir(), &environment(&self.disk)) {
            Ok((ledger, _)) => {
                self.ledger = Some(ledger);
                self.acknowledge()
            }
            Err(error) => self.failed(&error),
        }
    }

    /// The machine comes up again, and nobody has opened the ledger yet.
    pub(super) fn restart(&mut self, restart: Restart) {
        self.ledger = None;
        self.disk = restart.of(&self.disk);
        self.disk.forget_story();
    }

    /// A batch is about to be asked for, if there is anybody to ask.
    fn ask(&mut self, batch: &[NewRecord]) {
        if self.ledger.is_some() {
            self.model.pending.push(batch.to_vec());
            self.publish();
        }
    }

    fn append(&mut self, batch: &[NewRecord]) -> Step {
        self.ask(batch);
        let Some(ledger) = &self.ledger else { return Ok(()) };
        let time = environment(&self.disk).clock.now();
        match ledger.log().append(batch, time) {
            Ok(_) => self.acknowledge(),
            Err(error) => self.refused(&error),
        }
    }

    /// A batch was not acknowledged: it may be there only if that is not known.
    fn refused(&mut self, error: &Error) -> Step {
        if self.disk.is_down() {
            // Nobody is left to ask.
        } else if error.kind() == ErrorKind::OutcomeUnknown {
            self.expect_poison()?;
        } else {
            self.model.pending.pop();
            self.publish();
        }
        self.failed(error)
    }

    /// After a failed write or sync nothing more is taken.
    fn expect_poison(&self) -> Step {
        let Some(ledger) = &self.ledger else { return Ok(()) };
        let again = ledger.log().append(&Op::Append.batches(0).concat(), 0);
        match again {
            Err(error) if matches!(error.kind(), ErrorKind::Poisoned | ErrorKind::Fenced) => Ok(()),
            other => {
                let what = format!("an append after an unknown outcome: {other:?}");
                Err(Violation::new(Promise::PoisonHolds, what))
            }
        }
    }

    fn flush(&mut self, batches: Vec<Vec<NewRecord>>) -> Step {
        let mut durability = Durability::Sync;
        for records in batches {
            self.ask(&records);
            let Some(ledger) = &self.ledger else { return Ok(()) };
            let time = environment(&self.disk).clock.now();
            let batch = Batch { durability, ..Batch::new(records, time) };
            if let Err(error) = ledger.log().submit(&batch) {
                return self.refused(&error);
            }
            durability = Durability::Buffered;
        }
        let Some(ledger) = &self.ledger else { return Ok(()) };
        match ledger.log().flush() {
            Ok(_) => self.acknowledge(),
            Err(error) => self.refused(&error),
        }
    }

    fn snapshot(&mut self) -> Step {
        let Some(ledger) = &self.ledger else { return Ok(()) };
        match ledger.snapshot::<State>() {
            Ok(_) => self.acknowledge(),
            Err(error) if error.kind() == ErrorKind::OutOfRange => Ok(()),
            Err(error) => self.failed(&error),
        }
    }

    fn prune(&mut self, place: u64) -> Step {
        self.snapshot()?;
        self.snapshot()?;
        let Some(ledger) = &self.ledger else { return Ok(()) };
        let last = ledger.head().seq;
        self.model.pruned = self.model.pruned.max(last);
        self.publish();
        let Some(ledger) = &self.ledger else { return Ok(()) };
        match ledger.prune(RetentionLimit::Record(last), None, &format!("lab {place}")) {
            Ok(_) => self.acknowledge(),
            Err(error) if error.kind() == ErrorKind::Rejected => Ok(()),
            Err(error) => self.failed(&error),
        }
    }

    /// What was asked for is acknowledged: look at it, as somebody who only reads, on a copy of
    /// the disk so that the looking is no part of the history.
    fn acknowledge(&mut self) -> Step {
        let copy = self.disk.fork();
        copy.calm();
        if copy.is_down() {
            // It stopped after the answer, in something that nobody waits for.
            copy.kill_process();
        }
        let storage: Arc<dyn Storage> = Arc::new(copy);
        if self.weather == Weather::Lying {
            return self.acknowledge_lies(&storage);
        }
        let found = read(&storage, 1).map_err(|error| {
            Violation::new(
                Promise::AckedKept,
                format!("cannot read what was acknowledged: {error}"),
            )
        })?;
        if let Some((_, _, damage)) = found.damage.first() {
            return Err(Violation::new(Promise::AckedKept, format!("damage: {damage}")));
        }
        self.model.check(&found.proven)?;
        let head = self.ledger.as_ref().map_or(0, |ledger| ledger.head().seq);
        let last = found.proven.last().map_or(0, |record| record.seq);
        if head != last {
            let what = format!("acknowledged up to record {head}, readers see {last}");
            return Err(Violation::new(Promise::AckedKept, what));
        }
        self.model.adopt(found.proven);
        self.publish();
        Ok(())
    }
}

impl Trial {
    /// On a device that lies, what is acknowledged may be gone at once; what is there counts, and
    /// nothing that is made up.
    fn acknowledge_lies(&mut self, storage: &Arc<dyn Storage>) -> Step {
        let Ok(found) = read(storage, 1) else { return Ok(()) };
        self.model.check_known(found.proven.iter().chain(&found.others))?;
        if found.damage.is_empty() && self.model.check(&found.proven).is_ok() {
            self.model.adopt(found.proven);
            self.publish();
        }
        Ok(())
    }
}

/// Whether that is what a failing disk makes of a request.
fn is_of_the_machine(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Io
            | ErrorKind::DiskFull
            | ErrorKind::OutcomeUnknown
            | ErrorKind::Poisoned
            // HEAD could not be read, so that nobody knows whose the ledger is.
            | ErrorKind::Fenced
    )
}
