//! A valid ledger with patched bytes: reading, verifying and opening never panic, every served record
//! was written, and readers, `verify` and the next writer report every missing acknowledged record.
#![cfg_attr(fuzzing, no_main)]

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use plan_ledger::internals::format::{Codec, NewRecord};
use plan_ledger::log::{Batch, Durability, FindingClass, Log, LogItem, LogOptions, LogReader, LoggedRecord, RecordStatus, UidSource, VerifyFinding, VerifyOptions, verify};
use plan_ledger::internals::sim::SimDisk;
use plan_ledger::internals::storage::{Access, Storage};

const DIR: &str = "fuzz.ledger";

fn options(disk: &SimDisk, first: u64) -> LogOptions {
    let next = AtomicU64::new(first);
    let uid = move || u128::from(next.fetch_add(1, Ordering::Relaxed)).to_le_bytes();
    LogOptions::new(Arc::new(disk.clone()), UidSource::new(uid))
}

fn record(fill: u8, size: usize) -> NewRecord {
    NewRecord { kind: 0x8FFF, codec: Codec::Raw, schema: 1, payload: vec![fill; size] }
}

/// A ledger, its records and its files. It is created once; each input gets a fork of its disk.
struct Specimen {
    disk: SimDisk,
    records: Vec<LoggedRecord>,
    files: Vec<PathBuf>,
}

/// Three segments: one sealed by a rotation, one that ends in a crash, and the newest. The newest
/// segment is the first file, and HEAD the second.
fn make() -> Specimen {
    let (disk, dir) = (SimDisk::new(), Path::new(DIR));
    let log = Log::create(dir, options(&disk, 1), 1).expect("a new log");
    let append = |log: &Log, fill: u8, size: usize| {
        log.append(&[record(fill, size)], u64::from(fill)).expect("an append");
    };
    (1..=4).for_each(|fill| append(&log, fill, 40 * usize::from(fill)));
    let batch = [record(5, 10), record(6, 600), record(7, 0)];
    log.append(&batch, 7).expect("an append");
    append(&log, 0, 1_044_000);
    append(&log, 9, 90);
    // Written but not synced, then the process ends: the next opening fences.
    let durability = Durability::Buffered;
    let batch = Batch { durability, ..Batch::new(vec![record(10, 100)], 10) };
    let _ticket = log.submit(&batch).expect("a place");
    disk.kill_process();
    drop(log);
    let (log, _) = Log::open(dir, options(&disk, 100), 11).expect("a crash is no damage");
    (12..=16).for_each(|fill| append(&log, fill, 30 * usize::from(fill)));
    log.close().expect("a clean close");
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let reader = LogReader::open(&storage, dir).expect("a whole ledger");
    let records: Vec<_> = reader.records(1).map(|record| record.expect("it is whole")).collect();
    let segments = reader.segments().into_iter().rev().map(|segment| segment.path);
    let mut files: Vec<_> = segments.collect();
    assert_eq!(files.len(), 3, "one was sealed, one was fenced");
    files.insert(1, dir.join("HEAD"));
    Specimen { disk, records, files }
}

static SPECIMEN: LazyLock<Specimen> = LazyLock::new(make);

/// Patches: a file number, an offset of two bytes, and a value to XOR. If the highest bit of the number is
/// set, the offset counts from the end of the file, where index and footer are.
fn damage(disk: &SimDisk, data: &[u8]) {
    for patch in data.chunks_exact(4).take(64) {
        let path = &SPECIMEN.files[usize::from(patch[0] & 0x7F) % SPECIMEN.files.len()];
        let mut offset = u64::from(u16::from_le_bytes([patch[1], patch[2]]));
        let file = disk.open(path, Access::Read).expect("it is there");
        let length = file.length().expect("it can be measured");
        if patch[0] & 0x80 != 0 {
            offset = length.saturating_sub(1 + offset);
        }
        let mut byte = [0];
        if file.read_at(&mut byte, offset).is_ok_and(|count| count == 1) {
            disk.overwrite(path, offset, &[byte[0] ^ patch[3]]).expect("a file that is there");
        }
    }
}

fn original(record: &LoggedRecord) {
    let place = usize::try_from(record.seq - 1).expect("few records");
    assert_eq!(Some(record), SPECIMEN.records.get(place), "a record that was never written");
}

/// The records that the damage may lose. If HEAD is damaged as well, only the newest segment proves the
/// end of the log, and damage there may lose all later records.
fn named(path: &Path, missing: RangeInclusive<u64>, has_head: bool) -> RangeInclusive<u64> {
    if has_head || path != SPECIMEN.files[0] { missing } else { *missing.start()..=u64::MAX }
}

/// The missing records that no range reports.
fn unnamed(served: &[u64], named: &[RangeInclusive<u64>]) -> Vec<u64> {
    let all = SPECIMEN.records.iter().map(|record| record.seq);
    let is_missing = |seq: &u64| !served.contains(seq);
    all.filter(is_missing).filter(|seq| !named.iter().any(|range| range.contains(seq))).collect()
}

fn check(data: &[u8]) {
    let (disk, dir) = (SPECIMEN.disk.fork(), Path::new(DIR));
    damage(&disk, data);
    let head = |disk: &SimDisk| disk.read(&SPECIMEN.files[1]).expect("it is there");
    let has_head = head(&disk) == head(&SPECIMEN.disk);
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let (mut served, mut lost, mut is_open) = (Vec::new(), Vec::new(), false);
    let reader = LogReader::open(&storage, dir).expect("a folder that is a ledger's");
    for item in reader.walk(1) {
        match item.expect("no I/O error") {
            LogItem::Record(record, status) => {
                original(&record);
                is_open |= status == RecordStatus::Unacknowledged;
                served.push(record.seq);
            }
            LogItem::Damage(damage) => {
                lost.push(named(&damage.path, damage.first_seq..=damage.last_seq, has_head));
            }
            LogItem::DerivedDamage(_) => {}
            LogItem::OpenEnd { .. } => is_open = true,
        }
    }
    let silent = unnamed(&served, &lost);
    assert!(silent.is_empty() || is_open, "{silent:?} are missing and not reported");

    let examine = |record: &LoggedRecord<&[u8]>| {
        original(&record.clone().into_owned());
        None
    };
    let found =
        verify(&storage, dir, VerifyOptions { check_record: &examine, ..VerifyOptions::DEFAULT })
            .expect("a folder that is a ledger's");
    let is_harmless = |class| matches!(class, FindingClass::Warning | FindingClass::RecordedLoss);
    let damages = found.findings.iter().filter(|finding| !is_harmless(finding.class));
    let of = |finding: &VerifyFinding| {
        let first = SPECIMEN.records.iter().find(|record| record.segment == 2).map(|it| it.seq);
        let nothing = first.map(|first| first..=first - 1);
        Some(named(&finding.path, finding.missing.clone().or(nothing)?, has_head))
    };
    let lost: Vec<_> = damages.filter_map(of).collect();
    let silent = unnamed(&served, &lost);
    assert!(silent.is_empty() || is_open || found.is_damaged(), "verify is silent on {silent:?}");

    match Log::open(dir, options(&disk, 200), 99) {
        Ok((log, _)) => {
            // Opening reads only the newest segment; readers check the others.
            let lost = unnamed(&served, &[]);
            let mut own = SPECIMEN.records.iter().filter(|record| record.segment == 2);
            assert!(
                own.all(|own| !lost.contains(&own.seq)),
                "the writer continues without {lost:?}"
            );
            assert!(found.opening.is_ok(), "{:?}", found.opening);
            let last = log.last_durable().seq;
            assert!(last >= SPECIMEN.records.last().expect("there are records").seq);
        }
        Err(_) => assert!(found.opening.is_err(), "{:?}", found.findings),
    }
}

plan_ledger_fuzz::target!(check);
