//! Runs operations on one ledger on one simulated disk, and keeps its model.
//!
//! Invariants:
//! - The same operations and faults give the same calls of the disk and the same bytes.
//! - The model gets a batch before the engine does, and an acknowledgement immediately. The mark of
//!   a disk is the number of the model at that crash point.

use std::sync::Arc;

use plan_ledger::internals::sim::{SimDisk, dir, environment};
use plan_ledger::internals::storage::Storage;
use plan_ledger::log::{
    Batch, Durability, LogItem, LogReader, LoggedRecord, NewRecord, RecordStatus,
};
use plan_ledger::plan::State;
use plan_ledger::{Error, ErrorKind, Ledger, RetentionLimit};

use super::model::{Guarantee, Model, Violation};
use super::op::Op;
use super::restart::Restart;

/// The records of a ledger.
#[derive(Debug, Default)]
pub(super) struct ReadRecords {
    /// Durable records with a verified chain.
    pub(super) durable: Vec<LoggedRecord>,
    /// Intact records that are not known to be durable, or that follow damage.
    pub(super) others: Vec<LoggedRecord>,
    /// Damage: the first and the last lost record, and a description.
    pub(super) damage: Vec<(u64, u64, String)>,
}

/// Read a ledger from a record on.
pub(super) fn read(storage: &Arc<dyn Storage>, from: u64) -> Result<ReadRecords, Error> {
    let reader = LogReader::open(storage, &dir())?;
    read_all(&reader, from)
}

pub(super) fn read_all(reader: &LogReader, from: u64) -> Result<ReadRecords, Error> {
    let mut read = ReadRecords::default();
    for item in reader.walk(from) {
        match item? {
            LogItem::Record(record, RecordStatus::Durable) => read.durable.push(record),
            LogItem::Record(record, _) => read.others.push(record),
            LogItem::Damage(damage) => {
                let text = format!("{}: {}", damage.path.display(), damage.what);
                read.damage.push((damage.first_seq, damage.last_seq, text));
            }
            LogItem::DerivedDamage(damage) => read.damage.push((1, 0, format!("{damage:?}"))),
            LogItem::OpenEnd { .. } => {}
        }
    }
    Ok(read)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DiskFaults {
    None,
    /// Calls fail, within the contract.
    Failing,
    /// Calls fail, and a write may end inside a sector: the engine may report an ambiguous end.
    Tearing,
    /// The device breaks the contract.
    Lying,
}

/// A ledger in the laboratory.
#[derive(Debug)]
pub(super) struct Trial {
    pub(super) disk: SimDisk,
    pub(super) model: Model,
    /// The models since the recording started.
    pub(super) models: Vec<Model>,
    pub(super) faults: DiskFaults,
    ledger: Option<Ledger>,
    /// Whether the disk failed while the ledger was created: it may have its name already.
    has_failed_creation: bool,
    /// The number of operations.
    number: u64,
}

type Step = Result<(), Violation>;

impl Trial {
    pub(super) fn new(disk: SimDisk, faults: DiskFaults) -> Self {
        let (model, models) = (Model::default(), Vec::new());
        let (ledger, has_failed_creation, number) = (None, false, 0);
        let mut trial = Self { disk, model, models, faults, ledger, has_failed_creation, number };
        trial.publish();
        trial
    }

    /// Start recording crash points.
    pub(super) fn start_recording(&mut self) {
        self.models.clear();
        self.publish();
        self.disk.start_recording();
    }

    /// Add the current model, and mark the disk with its number.
    fn publish(&mut self) {
        self.disk.set_mark(u64::try_from(self.models.len()).unwrap_or(u64::MAX));
        self.models.push(self.model.clone());
    }

    /// Create the ledger.
    pub(super) fn create(&mut self) -> Step {
        match Ledger::create(&dir(), &environment(&self.disk)) {
            Ok(ledger) => {
                self.ledger = Some(ledger);
                self.model.is_created = true;
                self.publish();
                Ok(())
            }
            // An earlier creation failed after the ledger had its name: it is there, and not acknowledged.
            Err(error) if error.kind() == ErrorKind::NotALedger && self.has_failed_creation => {
                Ok(())
            }
            Err(error) => {
                self.failed(&error)?;
                self.has_failed_creation = true;
                Ok(())
            }
        }
    }

    /// An operation failed, which is a violation if no fault was injected.
    fn failed(&mut self, error: &Error) -> Step {
        let is_right = match self.faults {
            DiskFaults::None => false,
            DiskFaults::Failing => is_disk_error(error.kind()),
            DiskFaults::Tearing => {
                is_disk_error(error.kind()) || error.kind() == ErrorKind::Ambiguous
            }
            // Every error counts as a refusal.
            DiskFaults::Lying => {
                self.ledger = None;
                true
            }
        };
        let refuses = self.ledger.as_ref().is_some_and(|it| it.log().check_status().is_err());
        if refuses || self.disk.is_down() {
            self.ledger = None;
        }
        if is_right || self.disk.is_down() {
            return Ok(());
        }
        Err(Violation::new(Guarantee::ErrorKinds, format!("unexpected: {error}")))
    }

    /// Run one operation. The result is also `Ok` if the disk failed and the engine reported the
    /// failure correctly.
    pub(super) fn run(&mut self, op: Op) -> Step {
        self.number += 1;
        if self.ledger.is_none() && op != Op::Reopen && op != Op::Kill {
            self.open()?;
        }
        let (batches, number) = (op.batches(self.number), self.number);
        match op {
            Op::Append | Op::Batch | Op::Rotate => {
                batches.iter().try_for_each(|batch| self.append(batch))
            }
            Op::Flush => self.flush(batches),
            Op::Snapshot => self.snapshot(),
            Op::Prune => self.prune(number),
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
        match Ledger::open_with(&dir(), &environment(&self.disk)) {
            Ok((ledger, _)) => {
                self.ledger = Some(ledger);
                self.acknowledge()
            }
            Err(error) => self.failed(&error),
        }
    }

    /// Restart the machine. The ledger stays closed.
    pub(super) fn restart(&mut self, restart: Restart) {
        self.ledger = None;
        self.disk = restart.of(&self.disk);
        self.disk.clear_history();
    }

    /// Add a batch that is about to be requested to the model, if the ledger is open.
    fn request(&mut self, batch: &[NewRecord]) {
        if self.ledger.is_some() {
            self.model.pending.push(batch.to_vec());
            self.publish();
        }
    }

    fn append(&mut self, batch: &[NewRecord]) -> Step {
        self.request(batch);
        let Some(ledger) = &self.ledger else { return Ok(()) };
        let time = environment(&self.disk).clock.now();
        match ledger.log().append(batch, time) {
            Ok(_) => self.acknowledge(),
            Err(error) => self.rejected(&error),
        }
    }

    /// A batch was not acknowledged: it may exist only if its outcome is unknown.
    fn rejected(&mut self, error: &Error) -> Step {
        if self.disk.is_down() {
            // The machine is down: the outcome is unknown.
        } else if error.kind() == ErrorKind::OutcomeUnknown {
            self.expect_poison()?;
        } else {
            self.model.pending.pop();
            self.publish();
        }
        self.failed(error)
    }

    /// After a failed write or sync the writer must reject appends.
    fn expect_poison(&self) -> Step {
        let Some(ledger) = &self.ledger else { return Ok(()) };
        let again = ledger.log().append(&Op::Append.batches(0).concat(), 0);
        match again {
            Err(error) if matches!(error.kind(), ErrorKind::Poisoned | ErrorKind::Fenced) => Ok(()),
            other => {
                let what = format!("an append after an unknown outcome: {other:?}");
                Err(Violation::new(Guarantee::PoisonHolds, what))
            }
        }
    }

    fn flush(&mut self, batches: Vec<Vec<NewRecord>>) -> Step {
        let mut durability = Durability::Sync;
        for records in batches {
            self.request(&records);
            let Some(ledger) = &self.ledger else { return Ok(()) };
            let time = environment(&self.disk).clock.now();
            let batch = Batch { durability, ..Batch::new(records, time) };
            if let Err(error) = ledger.log().submit(&batch) {
                return self.rejected(&error);
            }
            durability = Durability::Buffered;
        }
        let Some(ledger) = &self.ledger else { return Ok(()) };
        match ledger.log().flush() {
            Ok(_) => self.acknowledge(),
            Err(error) => self.rejected(&error),
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

    fn prune(&mut self, number: u64) -> Step {
        self.snapshot()?;
        self.snapshot()?;
        let Some(ledger) = &self.ledger else { return Ok(()) };
        let last = ledger.head().seq;
        self.model.pruned = self.model.pruned.max(last);
        self.publish();
        let Some(ledger) = &self.ledger else { return Ok(()) };
        match ledger.prune(RetentionLimit::Record(last), None, &format!("lab {number}")) {
            Ok(_) => self.acknowledge(),
            Err(error) if error.kind() == ErrorKind::Rejected => Ok(()),
            Err(error) => self.failed(&error),
        }
    }

    /// Check the acknowledged records with a reader. It reads a copy of the disk, so that its calls
    /// do not count.
    fn acknowledge(&mut self) -> Step {
        let copy = self.disk.fork();
        copy.clear_faults();
        if copy.is_down() {
            // The machine stopped after the acknowledgement, in background work.
            copy.kill_process();
        }
        let storage: Arc<dyn Storage> = Arc::new(copy);
        if self.faults == DiskFaults::Lying {
            return self.acknowledge_on_lying_disk(&storage);
        }
        let found = read(&storage, 1).map_err(|error| {
            Violation::new(
                Guarantee::AckedKept,
                format!("cannot read acknowledged records: {error}"),
            )
        })?;
        if let Some((_, _, damage)) = found.damage.first() {
            return Err(Violation::new(Guarantee::AckedKept, format!("damage: {damage}")));
        }
        self.model.check(&found.durable)?;
        let head = self.ledger.as_ref().map_or(0, |ledger| ledger.head().seq);
        let last = found.durable.last().map_or(0, |record| record.seq);
        if head != last {
            let what = format!("acknowledged up to record {head}, readers see {last}");
            return Err(Violation::new(Guarantee::AckedKept, what));
        }
        self.model.adopt(found.durable);
        self.publish();
        Ok(())
    }
}

impl Trial {
    /// On a lying device, acknowledged records may be lost at once. The model adopts the existing
    /// records; each of them must have been requested.
    fn acknowledge_on_lying_disk(&mut self, storage: &Arc<dyn Storage>) -> Step {
        let Ok(found) = read(storage, 1) else { return Ok(()) };
        self.model.check_known(found.durable.iter().chain(&found.others))?;
        if found.damage.is_empty() && self.model.check(&found.durable).is_ok() {
            self.model.adopt(found.durable);
            self.publish();
        }
        Ok(())
    }
}

/// Whether a failing disk explains an error.
fn is_disk_error(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Io
            | ErrorKind::DiskFull
            | ErrorKind::OutcomeUnknown
            | ErrorKind::Poisoned
            // HEAD is unreadable, so that the writer cannot prove its ownership.
            | ErrorKind::Fenced
    )
}
