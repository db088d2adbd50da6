//! Log operations on a simulated disk with injected faults: calls that fail with a partial effect, kills,
//! and power losses. After each opening, all acknowledged records exist, each batch exists completely or
//! not at all, no record exists that was not requested, and records that were returned once stay.
#![cfg_attr(fuzzing, no_main)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plan_ledger::internals::format::{Codec, NewRecord};
use plan_ledger::log::{Batch, Durability, KIND_RECOVERY_NOTE, Log, LogOptions, LoggedRecord, UidSource, VerifyOptions, verify};
use plan_ledger::internals::sim::{
    FaultAction, FaultEffect, FaultRule, InjectedFault, Loss, Operation, OsError, SimDisk,
};
use plan_ledger::internals::storage::Storage;
use plan_ledger::{Error, ErrorKind, HeadSync};
use plan_ledger_fuzz::Fields;

const DIR: &str = "ops.ledger";
/// More operations find nothing new.
const OPERATIONS_MAX: usize = 24;

/// The log, its model, and the disk.
struct Story {
    disk: SimDisk,
    mode: HeadSync,
    log: Option<Log>,
    /// Requested batches, by their payloads.
    batches: Vec<Vec<Vec<u8>>>,
    /// How many of them were acknowledged.
    acked: usize,
    /// Whether the ledger was created.
    is_made: bool,
    time: u64,
    uid: Arc<AtomicU64>,
}

impl Story {
    fn options(&self) -> LogOptions {
        let uid = self.uid.clone();
        let next = move || u128::from(uid.fetch_add(1, Ordering::Relaxed)).to_le_bytes();
        let storage: Arc<dyn Storage> = Arc::new(self.disk.clone());
        LogOptions { head_sync: self.mode, ..LogOptions::new(storage, UidSource::new(next)) }
    }

    /// Open or create the log, and check its records. Each injected fault applies once, so that opening
    /// succeeds in the end.
    fn open(&mut self) {
        for _ in 0..64 {
            let earlier = self.disk.injected().len();
            let opened = Log::open(Path::new(DIR), self.options(), self.time).map(|(log, _)| log);
            let opened = match opened {
                Err(error) if error.kind() == ErrorKind::NotALedger => {
                    assert!(!self.is_made, "the ledger is gone");
                    Log::create(Path::new(DIR), self.options(), self.time)
                }
                opened => opened,
            };
            match opened {
                Ok(log) => {
                    self.is_made = true;
                    self.take(&log);
                    self.log = Some(log);
                    return;
                }
                Err(error) => {
                    assert!(
                        is_of_the_disk(&error) || self.is_unreadable(earlier),
                        "refused: {error}, after {:#?}",
                        self.disk.injected()
                    );
                    self.disk.kill_process();
                }
            }
        }
        panic!("it never opens");
    }

    /// Whether reads failed twice since `earlier` faults had been injected. A range that cannot be read twice
    /// counts as unreadable: the engine leaves it to a person, and goes on when the disk reads it again.
    fn is_unreadable(&self, earlier: usize) -> bool {
        let is_read = |fault: &&InjectedFault| fault.operation == Some(Operation::Read);
        self.disk.injected()[earlier..].iter().filter(is_read).count() > 1
    }

    /// Compare the records with the model, and adopt them: they were returned.
    fn take(&mut self, log: &Log) {
        let found = (0..64).find_map(|_| {
            let earlier = self.disk.injected().len();
            match payloads(log) {
                Ok(found) => Some(found),
                // Injected faults may apply to this reader.
                Err(error) if is_of_the_disk(&error) || self.is_unreadable(earlier) => None,
                Err(error) => panic!("what was opened cannot be read: {error}"),
            }
        });
        let found = found.expect("it can be read in the end");
        let is_same = |count: &usize| self.batches[..*count].concat() == found;
        let count = (self.acked..=self.batches.len()).find(is_same);
        let count = count.unwrap_or_else(|| {
            let (acked, asked) = (self.acked, self.batches.len());
            panic!("{acked} acknowledged, {asked} asked for, found {} records", found.len())
        });
        self.batches.truncate(count);
        self.acked = count;
    }

    fn append(&mut self, batch: Vec<NewRecord>, durability: Durability) {
        let Some(log) = &self.log else { return };
        self.batches.push(batch.iter().map(|record| record.payload.clone()).collect());
        let submitted = log.submit(&Batch { durability, ..Batch::new(batch, self.time) });
        let done = match (submitted, durability) {
            (Ok(ticket), Durability::Sync) => log.wait(ticket).map(|_| true),
            (submitted, _) => submitted.map(|_| false),
        };
        match done {
            Ok(true) => self.acked = self.batches.len(),
            Ok(false) => {}
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&mut self, error: &Error) {
        match error.kind() {
            // The batch may exist or not.
            ErrorKind::OutcomeUnknown => self.leave(),
            // No record of the batch may ever appear.
            ErrorKind::Io | ErrorKind::DiskFull => drop(self.batches.pop()),
            ErrorKind::Fenced | ErrorKind::Poisoned => {
                self.batches.pop();
                self.leave();
            }
            _ => panic!("no such answer: {error}"),
        }
    }

    fn leave(&mut self) {
        self.disk.kill_process();
        self.log = None;
    }

    fn flush(&mut self) {
        let Some(log) = &self.log else { return };
        match log.flush() {
            Ok(_) => self.acked = self.batches.len(),
            Err(error) => {
                assert!(is_of_the_disk(&error) || is_an_end(&error), "{error}");
                self.leave();
            }
        }
    }

    fn close(&mut self) {
        let Some(log) = self.log.take() else { return };
        match log.close() {
            Ok(()) => self.acked = self.batches.len(),
            Err(error) => {
                assert!(is_of_the_disk(&error) || is_an_end(&error), "{error}");
                self.disk.kill_process();
            }
        }
    }

    fn act(&mut self, fields: &mut Fields<'_>) {
        self.time += u64::from(fields.u8()) * 10_000;
        match fields.u8() % 16 {
            0..=4 => {
                let batch = vec![record(fields)];
                self.append(batch, Durability::Sync);
            }
            5 | 6 => {
                let batch = (0..2 + fields.u8() % 4).map(|_| record(fields)).collect();
                self.append(batch, Durability::Sync);
            }
            7 | 8 => {
                let batch = vec![record(fields)];
                self.append(batch, Durability::Buffered);
            }
            9 => self.flush(),
            10 => self.close(),
            11 => self.leave(),
            12 | 13 => {
                self.leave();
                let loss = fields.pick(&[Loss::Everything, Loss::Nothing, Loss::Some(0)]);
                let seed = fields.u16().into();
                let loss = if loss == Loss::Some(0) { Loss::Some(seed) } else { loss };
                self.disk.lose_power(loss);
            }
            _ => self.disk.inject(rule(fields)),
        }
        if self.log.is_none() {
            self.open();
        }
    }
}

/// The records of the log, without recovery notes.
fn payloads(log: &Log) -> Result<Vec<Vec<u8>>, Error> {
    let reader = log.reader()?;
    let own = |record: &Result<LoggedRecord, Error>| {
        record.as_ref().map_or(true, |record| record.kind != KIND_RECOVERY_NOTE)
    };
    reader.records(1).filter(own).map(|record| record.map(|record| record.payload)).collect()
}

fn record(fields: &mut Fields<'_>) -> NewRecord {
    let unit = fields.pick(&[1, 1, 16, 256, 4096]);
    let (size, fill) = (usize::from(fields.u8()) * unit, fields.u8());
    NewRecord { kind: 0x8FFF, codec: Codec::Raw, schema: 1, payload: vec![fill; size] }
}

/// One of the next calls fails once, with a partial effect. A failed write leaves complete sectors: a
/// torn sector cannot be distinguished from bit rot, and the engine would refuse it.
fn rule(fields: &mut Fields<'_>) -> FaultRule {
    let error = fields.pick(&[OsError::Io, OsError::NoSpace, OsError::Quota]);
    let part = fields.u8();
    let effect = fields.pick(&[
        FaultEffect::Nothing,
        FaultEffect::Everything,
        FaultEffect::Part(part.into()),
        FaultEffect::Revert,
    ]);
    FaultRule::next(FaultAction::Error(error, effect)).nth(1 + u64::from(fields.u8() % 64))
}

fn is_of_the_disk(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::DiskFull)
}

fn is_an_end(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::OutcomeUnknown | ErrorKind::Poisoned | ErrorKind::Fenced)
}

fn check(data: &[u8]) {
    let fields = &mut Fields(data);
    let mode = fields.pick(&[HeadSync::Interval, HeadSync::EveryCommit]);
    let (uid, disk) = (Arc::new(AtomicU64::new(1)), SimDisk::new());
    let (batches, acked, is_made) = (Vec::new(), 0, false);
    let mut story = Story { disk, mode, log: None, batches, acked, is_made, time: 1, uid };
    story.open();
    for _ in 0..OPERATIONS_MAX {
        if fields.0.is_empty() {
            break;
        }
        story.act(fields);
    }
    // At the end, two power losses: returned records still exist.
    for _ in 0..2 {
        story.leave();
        story.disk.lose_power(Loss::Everything);
        story.open();
    }
    let storage: Arc<dyn Storage> = Arc::new(story.disk.clone());
    let struck = || story.disk.injected().len();
    let before = struck();
    let found = verify(&storage, Path::new(DIR), VerifyOptions::DEFAULT);
    // A pending rule may have applied to the last read.
    if struck() == before {
        let found = found.expect("a ledger that can be read");
        assert!(!found.is_damaged(), "{:?}", found.findings);
    }
}

plan_ledger_fuzz::target!(check);
