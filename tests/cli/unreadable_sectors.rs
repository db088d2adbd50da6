//! Sectors that stay unreadable: each costs the records in it and nothing else, wherever it is.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plan_ledger::ErrorKind;
use plan_ledger::internals::format::HEAD_SLOT_SIZE;
use plan_ledger::internals::ledger::salvage;
use plan_ledger::internals::sim::{
    FaultAction, FaultEffect, FaultRule, Operation, OsError, SimDisk, sweep,
};
use plan_ledger::internals::storage::{SectorRead, Storage, StorageFile, read_sectors};
use plan_ledger::log::{
    BlobState, Diagnosis, EvidenceBit, FindingClass, Log, LogReader, TailVerdict, Verification,
    VerifyOptions, verify,
};
use plan_ledger::plan::Json;
use plan_ledger::{Environment, Ledger, LedgerView, RunPolicy, state_hash};

use crate::blobs::{large, plan, work};
use crate::lab::{
    End, Model, Survey, at, dir, fenced, kill, log_digest, open, options, reader, record, survey,
    survey_of,
};
use crate::sealed_segments::rotated;
use crate::time_travel::environment;

const SECTOR: u64 = 512;
const HEADER: u64 = 4096;

/// The place of each record of an intact log: its file and bytes.
fn places(reader: &LogReader) -> Vec<(u64, PathBuf, Range<u64>)> {
    let segments = reader.segments();
    let place = |record: plan_ledger::log::LoggedRecord| {
        let is_own = |each: &&plan_ledger::log::SegmentSummary| {
            each.header.as_ref().unwrap().ordinal == record.segment
        };
        let path = segments.iter().find(is_own).unwrap().path.clone();
        (record.seq, path, record.offset..record.offset + record.size)
    };
    survey_of(reader).records.into_values().map(place).collect()
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// The sectors of a file that hold anything but zeros, and some of the others.
fn sectors(disk: &SimDisk, path: &Path) -> Vec<Range<u64>> {
    let bytes = disk.read(path).unwrap();
    let zeros = [0; 512];
    let (mut blank, mut all) = (0, Vec::new());
    for (number, sector) in (0..).zip(bytes.chunks(512)) {
        let is_blank = zeros.starts_with(sector);
        blank += u64::from(is_blank);
        if !is_blank || blank % 97 == 1 {
            all.push(number * SECTOR..(number + 1) * SECTOR);
        }
    }
    let step = sweep(all.len() / 60 + 1, all.len() / 400 + 1, 1);
    all.into_iter().step_by(step).collect()
}

fn verified(disk: &SimDisk) -> Verification {
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    verify(&storage, &dir(), VerifyOptions::DEFAULT).unwrap()
}

/// Everything but the lost records is served, and each lost one is named with the place.
fn check_served(
    seen: &Survey,
    all: &[(u64, PathBuf, Range<u64>)],
    lost: &BTreeSet<u64>,
    story: &str,
) {
    for (seq, path, bytes) in all {
        assert_eq!(seen.records.contains_key(seq), !lost.contains(seq), "{story}: record {seq}");
        let is_named = seen.damages.iter().any(|damage| {
            let is_near = damage.offset <= bytes.start || damage.offset < HEADER;
            damage.path == *path && is_near && (damage.first_seq..=damage.last_seq).contains(seq)
        });
        assert_eq!(is_named, lost.contains(seq), "{story}: record {seq}: {:?}", seen.damages);
    }
}

/// Story: one unreadable sector ended every command, wherever it was, and killed the server, which
/// maps sealed segments. A flipped bit in the same place cost one record.
/// Method: each sector of a log's files in turn is unreadable, permanently; readers, verification and
/// the writer look at it.
#[test]
fn sweep_unreadable_sector_costs_only_its_records() {
    let logs = [
        ("sealed", rotated().0),
        ("closed", fenced(End::Closed).0),
        ("killed", fenced(End::Killed).0),
    ];
    let mut tried = 0;
    for (name, pristine) in logs {
        let all = places(&reader(&pristine));
        let segments = reader(&pristine).segments();
        let head = dir().join("HEAD");
        for path in pristine.files(&dir().join("log")).into_iter().chain([head.clone()]) {
            let is_head = path == head;
            for bad in sectors(&pristine, &path) {
                let story = format!("{name}, {} {bad:?}", path.display());
                tried += 1;
                let disk = pristine.fork();
                disk.make_unreadable(&path, bad.clone()).unwrap();
                // A lost header costs no record: a footer has a copy of it, or HEAD and the segments
                // beside it tell its content.
                let lost: BTreeSet<u64> = all
                    .iter()
                    .filter(|(_, file, bytes)| *file == path && overlap(bytes, &bad))
                    .map(|(seq, ..)| *seq)
                    .collect();
                let seen = survey(&disk);
                check_served(&seen, &all, &lost, &story);
                let verified = verified(&disk);
                let is_reported = |class: FindingClass| {
                    verified.findings.iter().any(|each| {
                        each.class == class
                            && each.path == path
                            && (overlap(&(each.offset..each.end.max(each.offset + 1)), &bad)
                                || each.offset < bad.end)
                    })
                };
                if !lost.is_empty() || is_head || bad.start < HEADER {
                    assert!(is_reported(FindingClass::Damage), "{story}: {:?}", verified.findings);
                } else if !seen.derived.is_empty() {
                    assert!(is_reported(FindingClass::DerivedDamage), "{story}");
                }
                match open(&disk) {
                    Ok((log, _)) => {
                        // The writer maps sealed segments.
                        let seen = survey_of(&log.reader().unwrap());
                        check_served(&seen, &all, &lost, &story);
                        let kinds = log.reader().unwrap();
                        for item in kinds.walk_of_kind(7, 1) {
                            item.unwrap_or_else(|error| panic!("{story}: {error}"));
                        }
                        kill(&disk, log);
                    }
                    Err(error) => {
                        assert!(error.is_corrupt(), "{story}: {error}");
                        assert!(error.location().path.is_some(), "{story}: {error}");
                        let is_active = path == segments.last().unwrap().path;
                        assert!(is_active || is_head || bad.start < HEADER, "{story}: {error}");
                    }
                }
            }
        }
    }
    println!("measured: unreadable ranges: {tried} sectors of logs");
}

/// A ledger with sealed segments, blobs and snapshots.
fn story() -> SimDisk {
    let disk = SimDisk::new();
    let ledger = Ledger::create(&dir(), &environment(&disk, 40)).unwrap();
    let run = ledger.start_run("r", &plan(40), RunPolicy::default()).unwrap();
    for number in 0..20 {
        work(&ledger, run, large(number % 3, 66_000));
        ledger.set_variable(run, "large", large(number, 60_000), None, "me").unwrap();
        work(&ledger, run, Json::default());
    }
    ledger.close().unwrap();
    disk
}

fn on(disk: &SimDisk) -> Environment {
    Environment { snapshot_every: None, ..environment(disk, 1) }
}

/// Story: `recover --export` could not help at all, or lost hundreds of records where a sector holds a
/// handful. The state ended before the first segment whose header was lost, and `status` said that no run was
/// known, although every record could be read.
/// Method: sectors of every file of a ledger in turn are unreadable; it is salvaged, and opened for
/// reading and writing.
#[test]
fn sweep_ledger_with_unreadable_sector_is_salvaged() {
    let pristine = story();
    let all = places(&reader(&pristine));
    let last = all.last().unwrap().0;
    let segments = reader(&pristine).segments();
    assert!(segments.len() > 1);
    let files = pristine.files(&dir());
    assert!(
        ["blob", "snap"]
            .iter()
            .all(|name| { files.iter().any(|path| path.starts_with(dir().join(name))) })
    );
    let blobs = reader(&pristine).blobs().list().unwrap().blobs;
    let whole = LedgerView::open(&dir(), &on(&pristine)).unwrap().fold(u64::MAX).unwrap();
    let intact = state_hash(&whole.state);
    let mut tried = 0;
    for path in files {
        let step = sweep(97, 29, 1);
        for bad in sectors(&pristine, &path).into_iter().step_by(step) {
            tried += 1;
            let story = format!("{} {bad:?}", path.display());
            let disk = pristine.fork();
            disk.make_unreadable(&path, bad.clone()).unwrap();
            let lost = all.iter().filter(|(_, file, bytes)| *file == path && overlap(bytes, &bad));
            let lost = u64::try_from(lost.count()).unwrap();
            for blob in &blobs {
                let state = reader(&disk).blobs().check(&blob.id);
                let got = reader(&disk).blobs().get(&blob.id);
                if blob.path == path {
                    assert!(matches!(state, BlobState::Unreadable(_)), "{story}: {state}");
                    assert_eq!(got.unwrap_err().kind(), ErrorKind::Corrupt, "{story}");
                } else {
                    assert_eq!((state, got.is_ok()), (BlobState::Intact, true), "{story}");
                }
            }
            let before = log_digest(&disk);
            let rescued = Path::new("/rescued");
            let done = salvage(&dir(), rescued, &on(&disk)).unwrap();
            // Notes about snapshots are not salvaged.
            let notes = all.iter().filter(|(seq, ..)| {
                let record = reader(&pristine).record(*seq).unwrap().unwrap();
                record.kind == plan_ledger::log::KIND_SNAPSHOT_NOTE
            });
            let notes = u64::try_from(notes.count()).unwrap();
            assert!(done.lost <= lost + notes, "{story}: {done:?}");
            assert_eq!(done.records + done.lost, last, "{story}: {done:?}");
            assert!(log_digest(&disk) == before, "{story}: changed");
            let view = LedgerView::open(&dir(), &on(&disk)).unwrap();
            if lost == 0 {
                assert_eq!(view.state_at(last).unwrap().seq, last, "{story}");
                let fold = view.fold(u64::MAX).unwrap();
                let found = (state_hash(&fold.state), fold.after_damage);
                assert_eq!(found, (intact, 0), "{story}: {:?}", fold.damage);
                if !path.starts_with(dir().join("blob")) {
                    let exported = view.export(None, None, &|_| None, &mut std::io::sink());
                    assert_eq!(exported.unwrap().last_seq, last, "{story}");
                }
            }
            match Ledger::open_with(&dir(), &on(&disk)) {
                Ok((ledger, _)) => assert_eq!(ledger.head().seq, last, "{story}"),
                Err(error) => assert!(error.is_corrupt(), "{story}: {error}"),
            }
        }
    }
    println!("measured: unreadable ranges: {tried} sectors of ledgers with blobs and snapshots");
}

/// Story: an unreadable sector looked like one that was never written, and so the record in it like a
/// torn write.
/// Method: a record that HEAD does not cover has an unreadable sector; whether it was acknowledged is
/// unknown.
#[test]
fn unreadable_record_is_not_a_torn_write() {
    let (disk, mut model) = (SimDisk::new(), Model::default());
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    model.is_created = true;
    model.append(&log, &[record(1, 700)], 1).unwrap();
    let head = disk.read(&dir().join("HEAD")).unwrap();
    model.append(&log, &[record(2, 3000)], 1).unwrap();
    kill(&disk, log);
    disk.overwrite(&dir().join("HEAD"), 0, &head).unwrap();
    let (_, path, bytes) = places(&reader(&disk)).pop().unwrap();
    for bad in [bytes.start + 600..bytes.start + 601, bytes.end - 1..bytes.end] {
        let disk = disk.fork();
        disk.make_unreadable(&path, bad).unwrap();
        let found = Diagnosis::of(&disk, &dir()).unwrap();
        assert!(found.evidence.has(EvidenceBit::ReadError), "{:?}", found.evidence);
        assert!(!found.evidence.has(EvidenceBit::ZerosToEnd), "{:?}", found.evidence);
        assert_eq!(found.row.verdict, TailVerdict::Ambiguous, "{:?}", found.evidence);
        assert_eq!(open(&disk).unwrap_err().kind(), ErrorKind::Ambiguous);
    }
    // In the zeros after the last record.
    let end = bytes.end.next_multiple_of(4096) + 4096;
    disk.make_unreadable(&path, end..end + 1).unwrap();
    assert_eq!(Diagnosis::of(&disk, &dir()).unwrap().row.verdict, TailVerdict::Ambiguous);
    let verified = verified(&disk);
    let named = verified.findings.iter().find(|each| each.class == FindingClass::Damage).unwrap();
    assert_eq!((named.offset, named.end, &named.missing), (end, end + SECTOR, &None));
}

/// Each read fails once, and each from then on: an error that passes costs nothing, and one that
/// stays is damage with a place.
#[test]
fn sweep_each_read_fails_once_and_permanently() {
    let (pristine, payloads) = fenced(End::Closed);
    let calm = pristine.fork();
    let nothing = FaultAction::Slow(std::time::Duration::from_nanos(1));
    calm.inject(FaultRule::next(nothing).of(Operation::Read).always());
    let whole = survey(&calm);
    let reads = u64::try_from(calm.injected().len()).unwrap();
    for nth in 1..=reads {
        let failure = FaultAction::Error(OsError::Io, FaultEffect::Nothing);
        let rule = FaultRule::next(failure).of(Operation::Read).nth(nth);
        let disk = pristine.fork();
        disk.inject(rule.clone());
        let seen = survey(&disk);
        assert!(seen.records == whole.records && seen.damages.is_empty(), "{nth}: {seen:?}");
        let disk = pristine.fork();
        disk.inject(rule.always());
        let seen = survey(&disk);
        seen.check(&payloads, &format!("from read {nth} on"));
        assert!(!seen.damages.is_empty() || seen.records == whole.records, "{nth}: {seen:?}");
        assert!(verified(&disk).is_damaged(), "{nth}");
    }
    println!("measured: unreadable ranges: {reads} reads that fail once, and from then on");
}

/// One slot of HEAD is enough for readers, the writer and a later check of its ownership.
#[test]
fn writer_goes_on_with_one_readable_slot_of_head() {
    let slot = u64::try_from(HEAD_SLOT_SIZE).unwrap();
    for start in [0, slot] {
        let (disk, mut model) = (SimDisk::new(), Model::default());
        let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
        model.is_created = true;
        for number in 0..4 {
            model.append(&log, &[record(number, 100)], 1).unwrap();
        }
        disk.make_unreadable(&dir().join("HEAD"), start..start + slot).unwrap();
        for number in 4..8 {
            model.append(&log, &[record(number, 100)], 1).unwrap();
        }
        log.close().unwrap();
        assert_eq!(survey(&disk).records.len(), 8);
        assert_eq!(reader(&disk).head_slots().slots.iter().flatten().count(), 1);
    }
}

/// A disk with one file, and the bytes of the file.
fn file() -> (SimDisk, Vec<u8>, Box<dyn StorageFile>) {
    let disk = SimDisk::new();
    let file = disk.create(Path::new("/file")).unwrap();
    let bytes: Vec<u8> = (0..10_000_u32).map(|at| u8::try_from(at % 251).unwrap() + 1).collect();
    file.write_at(&bytes, 0).unwrap();
    (disk, bytes, file)
}

/// Unreadable sectors cost their own bytes, whatever part of the file is read.
#[test]
fn neighbours_of_unreadable_sectors_are_read() {
    let (disk, bytes, file) = file();
    for range in [600..601, 4096..4608, 4608..5120, 9_990..9_991] {
        disk.make_unreadable(Path::new("/file"), range).unwrap();
    }
    for (offset, count) in [(0, 20_000), (100, 9_000), (700, 200), (4_000, 1_200), (9_900, 50)] {
        let mut buffer = vec![7; count];
        let read = read_sectors(&*file, &mut buffer, u64::try_from(offset).unwrap()).unwrap();
        assert_eq!(read.count, count.min(10_000 - offset), "{offset}");
        for (at, byte) in (offset..).zip(&buffer[..read.count]) {
            let is_bad = matches!(at, 512..1024 | 4096..5120 | 9728..);
            assert_eq!(*byte, if is_bad { 0 } else { bytes[at] }, "byte {at}");
            let place = u64::try_from(at).unwrap();
            let is_named = read.unreadable.iter().any(|range| range.contains(&place));
            assert_eq!(is_named, is_bad, "byte {at}: {:?}", read.unreadable);
        }
    }
    let read = read_sectors(&*file, &mut [0; 10_000], 0).unwrap();
    assert_eq!(read.unreadable, [512..1024, 4096..5120, 9728..10_000]);
    let error = read.complete().unwrap_err();
    assert_eq!(error.to_string(), "the storage cannot read bytes 512 to 1024");
}

/// An error that passes costs nothing; one that is not about the medium is returned.
#[test]
fn passing_error_costs_nothing() {
    let (disk, bytes, file) = file();
    let failure = |error| FaultAction::Error(error, FaultEffect::Nothing);
    disk.inject(FaultRule::next(failure(OsError::Io)).of(Operation::Read));
    let mut buffer = vec![0; 10_000];
    let read = read_sectors(&*file, &mut buffer, 0).unwrap();
    assert_eq!((read, &buffer), (SectorRead { count: 10_000, unreadable: Vec::new() }, &bytes));
    let refused = OsError::Other(std::io::ErrorKind::PermissionDenied);
    disk.inject(FaultRule::next(failure(refused)).of(Operation::Read));
    let error = read_sectors(&*file, &mut buffer, 0).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
}

/// The writer maps sealed segments. A page of the map that cannot be read would end the process with
/// SIGBUS; the pages are proven before they are used, and the rest of the segment is read instead.
#[test]
fn writer_reads_around_an_unreadable_page_of_a_mapped_segment() {
    let pristine = rotated().0;
    let all = places(&reader(&pristine));
    let sealed = reader(&pristine).segments()[0].path.clone();
    let bad: Vec<_> = all.iter().filter(|(_, path, _)| *path == sealed).step_by(3).collect();
    assert!(bad.len() > 2);
    for (seq, _, bytes) in bad {
        let disk = pristine.fork();
        disk.make_unreadable(&sealed, bytes.start..bytes.start + 1).unwrap();
        let (log, _) = open(&disk).unwrap();
        let seen = survey_of(&log.reader().unwrap());
        assert!(!seen.records.contains_key(seq), "record {seq}");
        let last = all.last().unwrap().0;
        assert!(seen.records.contains_key(&last) && !seen.damages.is_empty(), "record {seq}");
        kill(&disk, log);
    }
}
