//! Following a log while it grows: every durable record once and in order, and no other.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use plan_ledger::internals::sim::{Loss, SimDisk};
use plan_ledger::internals::storage::{DiskStorage, Storage};
use plan_ledger::log::{Log, LogFollower, LogOptions, LogReader, LoggedRecord};
use plan_ledger::{ErrorKind, HeadSync};

use super::lab::{at, dir, kill, mix, open, options, options_with, reader, record, whole};

/// All records available now. If a process ended and took its files with it, look again.
fn drain(follow: &mut LogFollower, seen: &mut Vec<LoggedRecord>) {
    loop {
        match follow.next(Duration::ZERO) {
            Ok(Some(record)) => seen.push(record),
            Ok(None) => return,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Io, "{error}"),
        }
    }
}

/// A follower gets every record once and in order, over rotations, fences, killed writers and power
/// failures; none before it is durable, and none that is lost later. Random appends with crashes in
/// between, and a poll after each step; in the end it has exactly the records of the log.
#[test]
fn follower_gets_every_record_once() {
    let mut fences = 0;
    for seed in 1..25_u64 {
        let disk = SimDisk::new();
        let mut log = Log::create(&dir(), options(&disk), at(0)).unwrap();
        let mut seen = Vec::new();
        let mut follow = reader(&disk).follow(1);
        for round in 0..40 {
            let dice = mix(seed << 20 | round);
            let size = if dice.is_multiple_of(5) { 300_000 } else { 200 };
            let batch: Vec<_> = (0..=dice >> 8 & 3).map(|part| record(dice ^ part, size)).collect();
            if ((dice >> 16) & 0xFF) < 32 {
                disk.crash_at(disk.calls() + 1 + (dice >> 24) % 12);
            }
            let result = log.append(&batch, at(round));
            disk.crash_at(u64::MAX);
            if disk.is_down() || result.is_err() {
                if dice >> 32 & 1 == 0 {
                    kill(&disk, log);
                    // The last records of the dead writer, before the log is opened again.
                    drain(&mut follow, &mut seen);
                } else {
                    disk.lose_power(Loss::Some(dice));
                    drop(log);
                }
                log = open(&disk).unwrap().0;
                fences += 1;
            }
            drain(&mut follow, &mut seen);
            assert_eq!(
                seen.last().map_or(0, |last| last.seq),
                log.last_durable().seq,
                "seed {seed}"
            );
        }
        let all = whole(&reader(&disk));
        let place = |record: &LoggedRecord| (record.seq, record.chain, record.payload.clone());
        assert!(seen.iter().map(place).eq(all.iter().map(place)), "seed {seed}");
        // From the middle, and from beyond the end.
        let middle = u64::try_from(all.len()).unwrap() / 2;
        let (mut late, mut found) = (reader(&disk).follow(middle), Vec::new());
        drain(&mut late, &mut found);
        assert!(found == all[usize::try_from(middle).unwrap() - 1..], "seed {seed}");
        let mut later = reader(&disk).follow(log.last_durable().seq + 2);
        log.append(&[record(1, 5), record(2, 5), record(3, 5)], at(99)).unwrap();
        let next = later.next(Duration::ZERO).unwrap().unwrap();
        assert_eq!(next.seq, log.last_durable().seq - 1, "seed {seed}");
    }
    assert!(fences > 50, "{fences}");
}

/// Bytes that were written but are not covered by HEAD are not returned.
#[test]
fn follower_returns_only_durable_records() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    log.append(&[record(1, 10)], at(1)).unwrap();
    let mut follow = reader(&disk).follow(1);
    assert_eq!(follow.next(Duration::ZERO).unwrap().unwrap().seq, 1);
    // The write is done; the sync, and so HEAD, is not.
    disk.crash_at(disk.calls() + 2);
    log.append(&[record(2, 10)], at(1)).unwrap_err();
    kill(&disk, log);
    let mut fresh = reader(&disk).follow(1);
    assert_eq!(fresh.next(Duration::ZERO).unwrap().unwrap().seq, 1);
    assert!(fresh.next(Duration::ZERO).unwrap().is_none());
}

/// The newest segment is not read again from its start for each record: the number of disk
/// operations for one more record does not depend on the number of records.
#[test]
fn follower_cost_is_constant_per_record() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    let mut follow = reader(&disk).follow(1);
    let mut costs = Vec::new();
    for number in 0..200 {
        log.append(&[record(number, 3000)], at(number)).unwrap();
        let before = disk.calls();
        assert!(follow.next(Duration::ZERO).unwrap().is_some());
        costs.push(disk.calls() - before);
    }
    assert!(costs[1..].iter().all(|cost| *cost <= costs[1] + 1), "{costs:?}");
}

/// Damage of the next record is an error that names it, repeatedly; so is a missing HEAD.
#[test]
fn follower_reports_damage_repeatedly() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    log.append(&[record(1, 10), record(2, 10), record(3, 10)], at(1)).unwrap();
    kill(&disk, log);
    let hit = whole(&reader(&disk)).remove(1);
    let path = disk.files(&dir().join("log")).remove(0);
    disk.overwrite(&path, hit.offset + 50, b"damage").unwrap();
    let mut follow = reader(&disk).follow(1);
    assert_eq!(follow.next(Duration::ZERO).unwrap().unwrap().seq, 1);
    for _ in 0..3 {
        let error = follow.next(Duration::ZERO).unwrap_err();
        assert_eq!((error.kind(), error.location().offset), (ErrorKind::Corrupt, Some(hit.offset)));
    }
    disk.overwrite(&dir().join("HEAD"), 0, &[0; 8192]).unwrap();
    let error = reader(&disk).follow(1).next(Duration::from_millis(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Ambiguous, "{error}");
}

/// A log of two records, closed.
fn common() -> SimDisk {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    log.append(&[record(1, 100)], at(1)).unwrap();
    log.append(&[record(2, 100)], at(1)).unwrap();
    kill(&disk, log);
    disk
}

/// Append, one commit for each record; then HEAD does not cover the last one, as after a power
/// failure, and the next opening puts a fence before it.
fn fence_before_the_last(disk: &SimDisk, numbers: &[u64]) {
    let (log, _) = open(disk).unwrap();
    let mut head = Vec::new();
    for number in numbers {
        head = disk.read(&dir().join("HEAD")).unwrap();
        log.append(&[record(*number, 100)], at(2)).unwrap();
    }
    kill(disk, log);
    disk.overwrite(&dir().join("HEAD"), 0, &head).unwrap();
    open(disk).unwrap().0.close().unwrap();
}

/// Replace the files of one disk by those of another.
fn replace(disk: &SimDisk, other: &SimDisk) {
    for path in disk.files(&dir()) {
        disk.remove(&path).unwrap();
    }
    for path in other.files(&dir()) {
        let bytes = other.read(&path).unwrap();
        disk.create(&path).unwrap();
        disk.set_length(&path, u64::try_from(bytes.len()).unwrap()).unwrap();
        disk.overwrite(&path, 0, &bytes).unwrap();
    }
}

/// The same result for every call.
fn refuses(follow: &mut LogFollower, kind: ErrorKind, story: &str) {
    for turn in 0..3 {
        match follow.next(Duration::ZERO) {
            Err(error) => assert_eq!(error.kind(), kind, "{story}, {turn}: {error}"),
            Ok(found) => panic!("{story}, {turn}: {found:?}"),
        }
    }
}

/// A follower whose log is replaced reports it, and keeps reporting it. (It reported it once, and
/// then waited forever or returned records of the other log.) The other log is another ledger, or
/// diverged after a common part, so that the difference is in the same segment, before a fence, or
/// after it.
#[test]
fn follower_reports_replaced_log_repeatedly() {
    let base = common();
    let stranger = SimDisk::new();
    let log =
        Log::create(&dir(), options_with(Arc::new(stranger.clone()), 9, HeadSync::Interval), at(0));
    log.unwrap().close().unwrap();
    let same_segment = base.fork();
    let (log, _) = open(&same_segment).unwrap();
    log.append(&[record(11, 100)], at(1)).unwrap();
    kill(&same_segment, log);
    let (before_fence, behind_fence) = (base.fork(), base.fork());
    fence_before_the_last(&before_fence, &[11, 12]);
    fence_before_the_last(&behind_fence, &[11]);
    let others = [
        (stranger, "another ledger"),
        (same_segment, "in the segment"),
        (before_fence, "before a fence"),
        (behind_fence, "behind a fence"),
    ];
    for (other, story) in others {
        let disk = base.fork();
        let (log, _) = open(&disk).unwrap();
        log.append(&[record(10, 100)], at(1)).unwrap();
        let (mut follow, mut seen) = (reader(&disk).follow(1), Vec::new());
        drain(&mut follow, &mut seen);
        assert_eq!(seen.len(), 3, "{story}");
        kill(&disk, log);
        replace(&disk, &other);
        refuses(&mut follow, ErrorKind::Tampered, story);
    }
}

/// A follower that cannot reach the next record reports it as long as that is so, and continues
/// afterwards. (It reported it once, and then waited forever.)
#[test]
fn follower_recovers_when_missing_file_returns() {
    let disk = common();
    let (mut follow, mut seen) = (reader(&disk).follow(1), Vec::new());
    drain(&mut follow, &mut seen);
    fence_before_the_last(&disk, &[3, 4]);
    fence_before_the_last(&disk, &[5, 6]);
    let whole_disk = disk.fork();
    let paths = disk.files(&dir().join("log"));
    assert_eq!(paths.len(), 3);
    for path in &paths[1..] {
        disk.remove(path).unwrap();
        for _ in 0..3 {
            let error = loop {
                match follow.next(Duration::ZERO) {
                    Ok(found) => seen.push(found.expect("a record or an error")),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            assert!(error.to_string().contains("missing"), "{error}");
        }
        let bytes = whole_disk.read(path).unwrap();
        disk.create(path).unwrap();
        disk.set_length(path, u64::try_from(bytes.len()).unwrap()).unwrap();
        disk.overwrite(path, 0, &bytes).unwrap();
    }
    drain(&mut follow, &mut seen);
    assert!(seen == whole(&reader(&disk)));

    for path in disk.files(&dir()) {
        disk.remove(&path).unwrap();
    }
    let mut late = reader(&whole_disk).follow(1);
    replace(&whole_disk, &disk);
    refuses(&mut late, ErrorKind::NotALedger, "a folder without anything in it");
}

/// Records that a segment's successor excludes are missing, not skipped; an unreadable first
/// segment is damage; and a record that HEAD has not reached is waited for.
#[test]
fn follower_reports_missing_records() {
    let disk = common();
    let (mut follow, mut seen) = (reader(&disk).follow(1), Vec::new());
    drain(&mut follow, &mut seen);
    let behind = seen[1].offset + seen[1].size;
    let old_head = disk.read(&dir().join("HEAD")).unwrap();
    fence_before_the_last(&disk, &[3, 4]);
    let good = disk.fork();
    let successor = reader(&disk).segments().remove(1);
    let mut header = successor.header.unwrap();
    header.prev_data_end = behind;
    disk.overwrite(&successor.path, 0, &header.encode()).unwrap();
    refuses(&mut follow, ErrorKind::Corrupt, "a successor that cuts off a record");

    let disk = good.fork();
    let head = disk.read(&dir().join("HEAD")).unwrap();
    disk.overwrite(&dir().join("HEAD"), 0, &old_head).unwrap();
    let mut late = reader(&disk).follow(4);
    assert!(late.next(Duration::ZERO).unwrap().is_none(), "HEAD does not prove it yet");
    disk.overwrite(&dir().join("HEAD"), 0, &head).unwrap();
    assert_eq!(late.next(Duration::ZERO).unwrap().unwrap().seq, 4);

    disk.overwrite(&disk.files(&dir().join("log"))[0], 0, &[0xA5; 4096]).unwrap();
    // Its surroundings tell what was in it.
    assert_eq!(reader(&disk).follow(1).next(Duration::ZERO).unwrap().unwrap().seq, 1);
}

/// Regression: a follower whose HEAD or folder was removed kept reporting that there is nothing
/// new.
#[test]
fn follower_reports_removed_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("real.ledger");
    let log = Log::create(&path, on_disk(1), at(0)).unwrap();
    log.append(&[record(1, 10)], at(1)).unwrap();
    let mut follow = follow_on_disk(&path);
    assert_eq!(follow.next(Duration::ZERO).unwrap().unwrap().seq, 1);
    assert!(follow.next(Duration::ZERO).unwrap().is_none());

    let (head, aside) = (path.join("HEAD"), folder.path().join("aside"));
    std::fs::rename(&head, &aside).unwrap();
    for timeout in [Duration::ZERO, Duration::MAX] {
        let error = follow.next(timeout).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Ambiguous, "{error}");
        assert!(error.to_string().contains("HEAD"), "{error}");
    }
    std::fs::rename(&aside, &head).unwrap();
    log.append(&[record(2, 10)], at(2)).unwrap();
    assert_eq!(follow.next(Duration::ZERO).unwrap().unwrap().seq, 2, "it goes on");

    std::fs::rename(&path, &aside).unwrap();
    for timeout in [Duration::ZERO, Duration::MAX] {
        let error = follow.next(timeout).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotALedger, "{error}");
        assert!(error.to_string().contains("there is no such folder"), "{error}");
    }
}

fn on_disk(seed: u64) -> LogOptions {
    options_with(Arc::new(DiskStorage), seed, HeadSync::Interval)
}

fn follow_on_disk(path: &Path) -> LogFollower {
    let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
    LogReader::open(&storage, path).unwrap().follow(1)
}

/// The same with a writer in another thread, on a real disk, with blocking waits.
#[test]
fn follower_on_real_disk_sees_every_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("real.ledger");
    let log = Log::create(&path, on_disk(1), at(0)).unwrap();
    let mut follow = follow_on_disk(&path);
    let records = std::thread::scope(|scope| {
        let reading = scope.spawn(move || {
            let mut records = Vec::new();
            while records.len() < 450 {
                records.extend(follow.next(Duration::from_secs(60)).unwrap());
            }
            records
        });
        for round in 0..150 {
            let batch = [record(round, 30), record(round, 20_000), record(round, 700)];
            log.append(&batch, at(round)).unwrap();
        }
        reading.join().unwrap()
    });
    assert!(records == whole(&log.reader().unwrap()));
    assert!(log.reader().unwrap().segments().len() > 2);
}

const CHILD: &str = "LEDGER_TEST_FOLLOWED_FOLDER";

/// Not a test: the child process of the next one, until it is killed.
#[test]
fn child_that_appends() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let (log, _) =
        Log::open(Path::new(&path), on_disk(u64::from(std::process::id())), at(5)).unwrap();
    for round in 0.. {
        log.append(&[record(round, 9000), record(round, 100)], at(round)).unwrap();
    }
}

/// A follower of another process's log gets every record once, while the writers are killed one
/// after the other.
#[test]
fn follower_survives_killed_writers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("real.ledger");
    drop(Log::create(&path, on_disk(1), at(0)).unwrap());
    let mut follow = follow_on_disk(&path);
    let mut records: Vec<LoggedRecord> = Vec::new();
    for round in 1..5 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "follow::child_that_appends"])
            .env(CHILD, &path)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while records.len() < round * 70 {
            records.extend(follow.next(Duration::from_secs(60)).unwrap());
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let (log, _) = Log::open(&path, on_disk(2), at(9)).unwrap();
    while let Some(record) = follow.next(Duration::ZERO).unwrap() {
        records.push(record);
    }
    let place = |record: &LoggedRecord| (record.seq, record.chain, record.payload.clone());
    assert!(records.iter().map(place).eq(whole(&log.reader().unwrap()).iter().map(place)));
}

/// Regression: a first batch that is larger than the first segment replaces its file. A follower and a reader that were
/// opened before find the batch.
#[test]
fn follower_survives_a_longer_first_segment() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    let before = reader(&disk);
    let mut follow = before.follow(1);
    assert!(follow.next(Duration::ZERO).unwrap().is_none());
    for round in 0..3 {
        let size = if round == 0 { 3 << 20 } else { 200 };
        log.append(&[record(round, size)], at(round)).unwrap();
        let found = follow.next(Duration::ZERO).unwrap().unwrap();
        assert_eq!(found.seq, round + 1);
    }
    // What the first reader knows has no record, and no damage.
    assert_eq!(whole(&before).len(), 0);
    assert_eq!(whole(&reader(&disk)).len(), 3);
    assert_eq!(log.close().unwrap(), ());
}
