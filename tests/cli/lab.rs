//! Shared by the log tests: records, options, and a model of a log.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plan_ledger::internals::format::{Codec, NewRecord};
use plan_ledger::internals::sim::{Loss, SimDisk};
use plan_ledger::internals::storage::Storage;
use plan_ledger::log::{
    Damage, DerivedDamage, KIND_RECOVERY_NOTE, Log, LogItem, LogOptions, LogReader, LoggedRecord,
    RecordStatus, RecoveryReport, UidSource,
};
use plan_ledger::{Error, ErrorKind, HeadSync};

/// The folder of the ledger on the simulated disk.
pub(crate) fn dir() -> PathBuf {
    PathBuf::from("/ledger")
}

/// The calls that a writer makes before each write of records or HEAD to check its ownership: LOCK and
/// HEAD.
pub(crate) const LOOKS: u64 = 2;

/// A seeded random number (splitmix64).
pub(crate) fn mix(seed: u64) -> u64 {
    let mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Options with seeded identifiers.
pub(crate) fn options_with(
    storage: Arc<dyn Storage>,
    seed: u64,
    head_sync: HeadSync,
) -> LogOptions {
    let next = AtomicU64::new(seed << 20);
    let uids = UidSource::new(move || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let mut uid = [0; 16];
        uid[..8].copy_from_slice(&mix(number).to_le_bytes());
        uid[8..].copy_from_slice(&mix(!number).to_le_bytes());
        uid
    });
    let holder = "process 7 on testhost".to_owned();
    LogOptions { holder, head_sync, ..LogOptions::new(storage, uids) }
}

/// Options on a simulated disk. Each use on the same disk gives different identifiers.
pub(crate) fn options(disk: &SimDisk) -> LogOptions {
    options_with(Arc::new(disk.clone()), disk.calls(), HeadSync::Interval)
}

/// A record whose payload depends only on the number, without zero bytes.
pub(crate) fn record(number: u64, size: usize) -> NewRecord {
    let word = mix(number).to_le_bytes();
    let block: Vec<u8> =
        (0..=255).flat_map(|at| word.map(|byte| byte.wrapping_add(at) | 1)).collect();
    let mut payload = block.repeat(size / block.len() + 1);
    payload.truncate(size);
    NewRecord { kind: 1, codec: Codec::Raw, schema: 1, payload }
}

/// The test clock, in microseconds.
pub(crate) fn at(step: u64) -> u64 {
    1_700_000_000_000_000 + step * 300_000
}

/// Open the log on a simulated disk.
pub(crate) fn open(disk: &SimDisk) -> Result<(Log, RecoveryReport), Error> {
    Log::open(&dir(), options(disk), at(1000))
}

/// All records of an intact log: no damage, no gap.
pub(crate) fn whole(reader: &LogReader) -> Vec<LoggedRecord> {
    let mut records: Vec<LoggedRecord> = Vec::new();
    for item in reader.walk(1) {
        match item.unwrap() {
            LogItem::Record(record, RecordStatus::Durable) => {
                assert_eq!(record.seq, u64::try_from(records.len()).unwrap() + 1, "a gap");
                records.push(record);
            }
            other => panic!("unexpected: {other:?}"),
        }
    }
    records
}

/// Payloads of the records, without recovery notes.
pub(crate) fn payloads(records: &[LoggedRecord]) -> Vec<Vec<u8>> {
    let own = records.iter().filter(|record| record.kind != KIND_RECOVERY_NOTE);
    own.map(|record| record.payload.clone()).collect()
}

/// What was requested of a log, and what it acknowledged.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    pub(crate) is_created: bool,
    /// Batches by their payloads, in the order of the appends.
    pub(crate) batches: Vec<Vec<Vec<u8>>>,
    /// How many of them were acknowledged; at most one more was requested.
    pub(crate) acked: usize,
}

impl Model {
    /// Append through the model.
    pub(crate) fn append(
        &mut self,
        log: &Log,
        batch: &[NewRecord],
        step: u64,
    ) -> Result<(), Error> {
        self.batches.push(batch.iter().map(|record| record.payload.clone()).collect());
        match log.append(batch, at(step)) {
            Ok(_) => {
                self.acked += 1;
                Ok(())
            }
            Err(error) => {
                if !matches!(error.kind(), ErrorKind::OutcomeUnknown) {
                    // Rejected: it must never appear.
                    self.batches.pop();
                }
                Err(error)
            }
        }
    }

    /// Check that these are the acknowledged batches, and possibly one complete further batch.
    pub(crate) fn check(&self, found: &[Vec<u8>], story: &str) {
        let may = |count: usize| self.batches[..count].concat() == found;
        assert!(
            (self.acked..=self.batches.len()).any(may),
            "{story}: {} batches acknowledged, {} requested, found {} records",
            self.acked,
            self.batches.len(),
            found.len()
        );
    }
}

/// Kill the process while it has the log open.
pub(crate) fn kill(disk: &SimDisk, log: Log) {
    disk.kill_process();
    drop(log);
}

/// How a machine restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Restart {
    Process,
    Power(Loss),
}

impl Restart {
    pub(crate) fn of(self, disk: &SimDisk) -> SimDisk {
        let disk = disk.fork();
        // Cancel a planned crash that did not happen.
        disk.crash_at(u64::MAX);
        match self {
            Self::Process => disk.kill_process(),
            Self::Power(loss) => disk.lose_power(loss),
        }
        disk
    }
}

/// Names and lengths of the files in `log/`.
pub(crate) fn log_files(disk: &SimDisk) -> Vec<(PathBuf, usize)> {
    let files = disk.files(&dir().join("log"));
    files.into_iter().map(|path| (path.clone(), disk.read(&path).unwrap().len())).collect()
}

/// Hash of all files except LOCK.
pub(crate) fn log_digest(disk: &SimDisk) -> [u8; 32] {
    let mut all = Vec::new();
    for path in disk.files(&dir()).into_iter().filter(|path| !path.ends_with("LOCK")) {
        all.extend_from_slice(path.to_string_lossy().as_bytes());
        all.extend_from_slice(&plan_ledger::internals::format::content_hash(
            &disk.read(&path).unwrap(),
        ));
    }
    plan_ledger::internals::format::content_hash(&all)
}

/// How the last writer of a log ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Closed,
    Killed,
}

/// A log of three segments, created by two fences, and its acknowledged payloads.
pub(crate) fn fenced(end: End) -> (SimDisk, Vec<Vec<u8>>) {
    let (disk, mut model) = (SimDisk::new(), Model::default());
    let mut log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    for round in 0..3 {
        let number = round * 10;
        model.append(&log, &[record(number, 30)], 4 * number).unwrap();
        model.append(&log, &[record(number + 1, 700), record(number + 2, 5)], 4 * number).unwrap();
        model.append(&log, &[record(number + 3, 200)], 4 * number + 1).unwrap();
        if round < 2 {
            // Crash after the write and the sync, before HEAD.
            disk.crash_at(disk.calls() + LOOKS + 3);
            model.append(&log, &[record(number + 4, 90)], 4 * number).unwrap_err();
            drop(log);
            disk.kill_process();
            log = open(&disk).unwrap().0;
            model.acked = model.batches.len();
        }
    }
    match end {
        End::Closed => log.close().unwrap(),
        End::Killed => kill(&disk, log),
    }
    disk.lose_power(Loss::Nothing);
    (disk, model.batches.into_iter().flatten().collect())
}

/// The segments of an intact log, and the logical end of each.
pub(crate) fn segments(disk: &SimDisk) -> Vec<(PathBuf, u64)> {
    let reader = reader(disk);
    let all = reader.segments();
    let next = all.iter().skip(1).map(|each| each.header.as_ref().unwrap().prev_data_end);
    let ends = next.chain([reader.head().unwrap().data_end]);
    all.iter().map(|each| each.path.clone()).zip(ends).collect()
}

/// A reader that takes no lock.
pub(crate) fn reader(disk: &SimDisk) -> LogReader {
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    LogReader::open(&storage, &dir()).unwrap()
}

/// Everything that a reader reports about a log.
pub(crate) struct Survey {
    pub(crate) records: BTreeMap<u64, LoggedRecord>,
    pub(crate) damages: Vec<Damage>,
    pub(crate) derived: Vec<DerivedDamage>,
    pub(crate) has_open_end: bool,
}

pub(crate) fn survey(disk: &SimDisk) -> Survey {
    survey_of(&reader(disk))
}

pub(crate) fn survey_of(reader: &LogReader) -> Survey {
    let mut survey = Survey {
        records: BTreeMap::new(),
        damages: Vec::new(),
        derived: Vec::new(),
        has_open_end: false,
    };
    for item in reader.walk(1) {
        match item.unwrap() {
            LogItem::Record(record, _) => {
                let seq = record.seq;
                let before = survey.records.insert(seq, record);
                assert!(before.is_none(), "record {seq} twice");
            }
            LogItem::Damage(damage) => survey.damages.push(damage),
            LogItem::DerivedDamage(damage) => survey.derived.push(damage),
            LogItem::OpenEnd { .. } => survey.has_open_end = true,
        }
    }
    survey
}

impl std::fmt::Debug for Survey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seqs: Vec<u64> = self.records.keys().copied().collect();
        write!(f, "records {seqs:?}, {:#?}, open end: {}", self.damages, self.has_open_end)
    }
}

impl Survey {
    /// Check that every missing record is in a reported range, and that all others are correct.
    pub(crate) fn check(&self, expected: &[Vec<u8>], story: &str) {
        let is_named =
            |seq| self.damages.iter().any(|each| (each.first_seq..=each.last_seq).contains(&seq));
        let mut left = expected.iter();
        let last = self.records.keys().last().copied().unwrap_or(0);
        let named = self.damages.iter().map(|each| each.last_seq).max().unwrap_or(0);
        for seq in 1..=last.max(named) {
            match self.records.get(&seq) {
                Some(record) if record.kind == KIND_RECOVERY_NOTE => {}
                Some(record) => {
                    // A reported range may contain notes as well: later records must be in order.
                    let found = left.any(|payload| *payload == record.payload);
                    assert!(found, "{story}: record {seq} was never acknowledged");
                }
                None => assert!(is_named(seq), "{story}: record {seq} is missing and not reported"),
            }
        }
        if self.damages.is_empty() {
            let served = self.records.values().filter(|each| each.kind != KIND_RECOVERY_NOTE);
            let served: Vec<_> = served.map(|record| record.payload.clone()).collect();
            assert_eq!(served, expected, "{story}: silent loss");
        }
    }
}

/// After any history: the log opens, contains what the model requires, keeps it over an immediate power
/// loss, does not change when it is opened again, and accepts appends.
pub(crate) fn settle(disk: &SimDisk, model: &Model, story: &str) {
    let (log, report) = match open(disk) {
        Ok(opened) => opened,
        Err(error) if !model.is_created && error.kind() == ErrorKind::NotALedger => {
            let log = Log::create(&dir(), options(disk), at(1001));
            assert!(log.is_ok(), "{story}: cannot create it again: {log:?}");
            return;
        }
        Err(error) => panic!("{story}: refused: {error}"),
    };
    let found = whole(&log.reader().unwrap());
    model.check(&payloads(&found), &format!("{story}: {report:?}"));
    assert_eq!(log.last_durable().seq, u64::try_from(found.len()).unwrap(), "{story}");
    let files = log_files(disk);
    let ack = log.last_durable();
    kill(disk, log);
    disk.lose_power(Loss::Everything);
    let head = reader(disk).head().cloned().unwrap();
    assert_eq!((head.durable_seq, head.chain), (ack.seq, ack.chain), "{story}: HEAD is stale");

    let (log, again) = open(disk).unwrap_or_else(|error| panic!("{story}: again: {error}"));
    assert_eq!(whole(&log.reader().unwrap()), found, "{story}: lost what was returned: {again:?}");
    assert_eq!(log_files(disk), files, "{story}: opening again added to the log: {again:?}");
    let ack = log.append(&[record(999, 40)], at(1002)).unwrap();
    assert_eq!(ack.seq, u64::try_from(found.len()).unwrap() + 1, "{story}");
    log.close().unwrap();
    let (log, report) = open(disk).unwrap();
    assert_eq!(report.verdict, plan_ledger::log::TailVerdict::Clean, "{story}: {report:?}");
    assert_eq!(whole(&log.reader().unwrap()).len(), found.len() + 1, "{story}");
}
