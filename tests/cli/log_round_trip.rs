//! Appending, rotating, reopening and reading without faults.

use std::path::Path;
use std::sync::Arc;

use plan_ledger::internals::format::PAYLOAD_LENGTH_MAX;
use plan_ledger::internals::sim::SimDisk;
use plan_ledger::internals::storage::{DiskStorage, Storage};
use plan_ledger::log::{
    Batch, Durability, Log, LogItem, LogOptions, LogReader, RecordStatus, SegmentSizes, TailVerdict,
};
use plan_ledger::{ErrorKind, HeadSync};

use super::lab::{
    at, dir, kill, open, options, options_with, payloads, reader, record, segments, whole,
};

/// The appended records are read back, over rotations and reopenings.
#[test]
fn appended_records_are_read_back() {
    let disk = SimDisk::new();
    let mut log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    let mut expected = Vec::new();
    for round in 0..40 {
        let size = if round % 3 == 0 { 90_000 } else { 100 };
        let batch: Vec<_> = (0..=round % 4).map(|part| record(round * 10 + part, size)).collect();
        log.append(&batch, at(round)).unwrap();
        expected.extend(batch.into_iter().map(|record| record.payload));
        if round % 7 == 6 {
            log.close().unwrap();
            let (again, report) = open(&disk).unwrap();
            assert_eq!(report.verdict, TailVerdict::Clean, "{report:?}");
            log = again;
        }
    }
    let reader = log.reader().unwrap();
    assert!(reader.segments().len() > 2);
    assert_eq!(payloads(&whole(&reader)), expected);
}

/// The same appends on any disk, with rotations, large batches and a reopening.
fn write_some(storage: &Arc<dyn Storage>, dir: &Path) -> Vec<Vec<u8>> {
    let mut payloads = Vec::new();
    let options = |seed| options_with(storage.clone(), seed, HeadSync::Interval);
    let mut log = Log::create(dir, options(1), at(0)).unwrap();
    for round in 0..14 {
        let size = if round % 5 == 4 { 700_000 } else { 3 };
        let batch: Vec<_> = (0..=round % 3).map(|part| record(round * 10 + part, size)).collect();
        log.append(&batch, at(round)).unwrap();
        payloads.extend(batch.into_iter().map(|record| record.payload));
        if round == 8 {
            log.close().unwrap();
            log = Log::open(dir, options(2), at(round)).unwrap().0;
        }
    }
    log.close().unwrap();
    payloads
}

/// The same calls and seeds give the same bytes, and the simulated disk behaves like the real one.
#[test]
fn same_seed_gives_same_bytes_on_every_disk() {
    let sim: Arc<dyn Storage> = Arc::new(SimDisk::new());
    write_some(&sim, &dir());
    let disk = SimDisk::new();
    let again: Arc<dyn Storage> = Arc::new(disk.clone());
    let expected = write_some(&again, &dir());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let real: Arc<dyn Storage> = Arc::new(DiskStorage);
    write_some(&real, &path);

    assert_eq!(payloads(&whole(&LogReader::open(&real, &path).unwrap())), expected);
    assert!(LogReader::open(&real, &path).unwrap().segments().len() > 2);
    // The text of LOCK is informational.
    let files: Vec<_> = disk.files(&dir()).into_iter().filter(|f| !f.ends_with("LOCK")).collect();
    assert!(files.len() > 3, "{files:?}");
    for file in &files {
        let bytes = disk.read(file).unwrap();
        let on_disk = std::fs::read(path.join(file.strip_prefix(dir()).unwrap())).unwrap();
        assert!(bytes == on_disk, "{}", file.display());
    }
    let count = |path: &Path| std::fs::read_dir(path).unwrap().count();
    assert_eq!(count(&path) + count(&path.join("log")), files.len() + 2);
}

/// A reader can start at any record and gets all later ones.
#[test]
fn reading_starts_at_any_record() {
    let disk = SimDisk::new();
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    write_some(&storage, &dir());
    let reader = LogReader::open(&storage, &dir()).unwrap();
    let all = whole(&reader);
    for from in 0..all.len() + 3 {
        let first = from.max(1) - 1;
        let found: Vec<_> =
            reader.records(u64::try_from(from).unwrap()).map(Result::unwrap).collect();
        assert!(found == all.get(first..).unwrap_or_default(), "from {from}");
    }
}

/// A part of the newest segment that readers have scanned is not scanned again, however the log has
/// grown and whatever else they read meanwhile. A second scan would find damage.
#[test]
fn scanned_segment_is_not_scanned_again() {
    let disk = SimDisk::new();
    let sizes = SegmentSizes { first: 128 << 10, largest: 128 << 10 };
    let log = Log::create(&dir(), LogOptions { segments: sizes, ..options(&disk) }, at(0)).unwrap();
    let mut last = 0;
    let mut append = || {
        last += 1;
        assert_eq!(log.append(&[record(last, 2000)], at(last)).unwrap().seq, last);
        last
    };
    // More segments than are cached, and a part of another one.
    while segments(&disk).len() < 12 {
        append();
    }
    let first = append();
    let look = |seq| log.reader().unwrap().record(seq).unwrap().unwrap();
    for (some, from) in [(20, first), (20, first + 20)] {
        for seq in from..from + some {
            assert_eq!(append(), seq + 1);
            assert_eq!(look(seq).payload, record(seq, 2000).payload);
        }
        let damaged = look(from + 5);
        for seq in (1..first).step_by(7) {
            assert_eq!(look(seq).payload, record(seq, 2000).payload);
        }
        let newest = segments(&disk).pop().unwrap().0;
        disk.overwrite(&newest, damaged.offset + 100, &[0xEE; 3]).unwrap();
        let reader = log.reader().unwrap();
        let read: Vec<_> = reader.records(from + some - 1).map(Result::unwrap).collect();
        assert_eq!(read.len(), 2, "from {from}");
    }
    let stranger = reader(&disk);
    assert!(stranger.records(first + 40).any(|record| record.is_err()), "there is no damage");
}

/// Records that readers saw before they were acknowledged are not damage afterwards, and records
/// that cannot be proven acknowledged are not scanned for each read.
#[test]
fn resume_points_cover_unacknowledged_records() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    log.append(&[record(1, 2000)], at(1)).unwrap();
    for number in 2..=300 {
        let batch = Batch::new(vec![record(number, 2000)], at(number));
        let _ = log.submit(&Batch { durability: Durability::Buffered, ..batch }).unwrap();
    }
    assert_eq!(log.reader().unwrap().record(300).unwrap(), None, "it is acknowledged");
    assert_eq!(log.flush().unwrap().seq, 300);
    for from in [2, 150, 300, 301] {
        let reader = log.reader().unwrap();
        let read: Vec<_> = reader.records(from).map(Result::unwrap).collect();
        assert!(read.iter().map(|record| record.seq).eq(from..=300), "from {from}");
        assert!(
            reader
                .walk(from)
                .all(|item| matches!(item, Ok(LogItem::Record(_, RecordStatus::Durable))))
        );
    }
    kill(&disk, log);
    let chains: Vec<_> = whole(&reader(&disk)).into_iter().map(|record| record.chain).collect();
    disk.remove(&dir().join("HEAD")).unwrap();
    let reader = reader(&disk);
    let before = disk.calls();
    for (seq, chain) in (1..).zip(chains) {
        assert_eq!(reader.chain_at(seq).unwrap(), Some(chain), "{seq}");
    }
    let calls = disk.calls() - before;
    assert!(calls < 3 * 300, "{calls} calls");
}

/// The limits of payloads and batches are exact, and a refused batch leaves no trace.
#[test]
fn limits_are_exact_and_refusals_leave_no_trace() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    let limit = usize::try_from(PAYLOAD_LENGTH_MAX).unwrap();
    let before = disk.changes();
    let error = log.append(&[record(1, 5), record(2, limit + 1)], at(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    let error = log.append(&vec![record(1, 0); 65_536], at(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    assert_eq!(log.append(&[], at(1)).unwrap().seq, 0);
    assert_eq!(disk.changes(), before);

    assert_eq!(log.append(&[record(3, 5), record(4, limit)], at(1)).unwrap().seq, 2);
    assert_eq!(log.append(&vec![record(5, 0); 65_535], at(1)).unwrap().seq, 65_537);
    kill(&disk, log);
    let (log, report) = open(&disk).unwrap();
    assert_eq!(report.verdict, TailVerdict::Clean);
    let found = whole(&log.reader().unwrap());
    assert_eq!((found.len(), found[1].payload.len()), (65_537, limit));
}

/// Time never goes back, whatever the clock shows, and any clock is accepted.
#[test]
fn time_never_goes_back() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), 500).unwrap();
    for time in [7, 900, 0, u64::MAX, 3] {
        log.append(&[record(1, 5)], time).unwrap();
    }
    kill(&disk, log);
    let (log, _) = Log::open(&dir(), options(&disk), 4).unwrap();
    log.append(&[record(1, 5)], 4).unwrap();
    let times: Vec<_> = whole(&log.reader().unwrap()).iter().map(|record| record.time).collect();
    assert_eq!(times, [500, 900, 900, u64::MAX, u64::MAX, u64::MAX]);
}
