//! The list of hazards is complete, and the tests that it names exist; and the tests of hazards
//! that fit nowhere else.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use plan_ledger::internals::format::{Codec, NewRecord};
use plan_ledger::internals::sim::SimDisk;
use plan_ledger::internals::storage::{FilesystemKind, Storage};
use plan_ledger::log::{Log, TailVerdict};
use plan_ledger::{Environment, ErrorKind, Ledger};

use super::lab::{
    End, at, dir, fenced, kill, log_files, open, options, payloads, reader, record, whole,
};

/// Every test function below a folder.
fn tests_below(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            tests_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let mut is_test = false;
            for line in text.lines().map(str::trim) {
                is_test |= line == "#[test]";
                if let Some(name) = line.strip_prefix("fn ").and_then(|rest| rest.split('(').next())
                {
                    if is_test {
                        found.push(name.to_owned());
                    }
                    is_test = false;
                }
            }
        }
    }
}

/// Each hazard is covered by existing tests, or by a sentence.
#[test]
fn every_hazard_is_covered() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut tests = Vec::new();
    tests_below(&root.join("tests"), &mut tests);
    tests_below(&root.join("src"), &mut tests);
    let text = fs::read_to_string(root.join("tests/hazards.md")).unwrap();
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.starts_with("| H"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    let mut problems = Vec::new();
    for (number, row) in (1..).zip(&rows) {
        let [name, _, answer] = row[..] else { panic!("three cells, not {row:?}") };
        assert_eq!(name, format!("H{number}"), "rows in order, none left out");
        let named: Vec<&str> = answer.split('`').skip(1).step_by(2).collect();
        let is_sentence = answer.starts_with("cannot ") && answer.len() > 60;
        if !is_sentence && named.is_empty() {
            problems.push(format!("{name} has no answer: {answer}"));
        }
        let missing = named.iter().filter(|test| !tests.iter().any(|each| each == *test));
        problems.extend(missing.map(|test| format!("{name} names no test: {test}")));
    }
    assert_eq!(rows.len(), 66);
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

/// A flipped bit in an acknowledged payload of zeros is damage, not a torn write, although the
/// frame is full of zero sectors (H12).
#[test]
fn h12_flipped_bit_in_zeros_is_damage() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    let zeros = NewRecord { kind: 1, codec: Codec::Raw, schema: 1, payload: vec![0; 5000] };
    for step in 0..3 {
        log.append(std::slice::from_ref(&zeros), at(step)).unwrap();
    }
    kill(&disk, log);
    let records = whole(&reader(&disk));
    let path = reader(&disk).segments()[0].path.clone();
    for hit in &records {
        for place in (hit.offset..hit.offset + hit.size).step_by(37) {
            let disk = disk.fork();
            let byte = disk.read(&path).unwrap()[usize::try_from(place).unwrap()];
            disk.overwrite(&path, place, &[byte ^ 1]).unwrap();
            let error = open(&disk).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {place}: {error}");
        }
    }
}

/// A segment that is removed under a writer is noticed when the log is opened at the latest: no
/// acknowledged record is lost silently (H26).
#[test]
fn h26_segment_removed_under_writer_is_detected() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    log.append(&[record(1, 100)], at(1)).unwrap();
    let path = reader(&disk).segments()[0].path.clone();
    disk.remove(&path).unwrap();
    let went_on = log.append(&[record(2, 100)], at(2)).is_ok();
    kill(&disk, log);
    let error = open(&disk).unwrap_err();
    assert!(error.is_corrupt(), "after going on ({went_on}): {error}");
    assert!(reader(&disk).records(1).any(|record| record.is_err()), "a reader says it too");
}

/// Opening a ledger on a file system that may lose it warns (H32).
#[test]
fn h32_weak_file_system_is_reported_at_open() {
    let disk = SimDisk::new();
    disk.set_filesystem_kind(FilesystemKind::Overlay);
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let environment = Environment { storage, ..super::golden::deterministic() };
    for _ in 0..2 {
        let (ledger, report) = Ledger::open_or_create(&dir(), &environment).unwrap();
        assert!(report.notes.iter().any(|note| note.contains("container")), "{report}");
        ledger.close().unwrap();
    }
    disk.set_filesystem_kind(FilesystemKind::Local);
    let (_, report) = Ledger::open_or_create(&dir(), &environment).unwrap();
    assert!(report.notes.is_empty(), "{report}");
}

/// Dropping a handle loses no acknowledged record, even if every operation of the drop fails (H40).
#[test]
fn h40_dropping_a_handle_loses_nothing() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    for step in 0..5 {
        log.append(&[record(step, 200)], at(step)).unwrap();
    }
    disk.crash_at(disk.calls() + 1);
    drop(log);
    disk.lose_power(plan_ledger::internals::sim::Loss::Everything);
    let (log, report) = open(&disk).unwrap();
    assert_eq!(payloads(&whole(&log.reader().unwrap())).len(), 5);
    assert_ne!(report.verdict, TailVerdict::Torn, "{report:?}");
}

/// A fence changes no byte of its predecessor (H50).
#[test]
fn h50_fence_changes_no_byte_of_predecessor() {
    let (disk, _) = fenced(End::Killed);
    let path = reader(&disk).segments().last().unwrap().path.clone();
    let head = reader(&disk).head().cloned().unwrap();
    // A write of which some sectors arrived.
    disk.overwrite(&path, head.data_end, &[0xA5; 512]).unwrap();
    disk.overwrite(&path, head.data_end + 1024, &[0x5A; 300]).unwrap();
    let before: Vec<_> =
        log_files(&disk).into_iter().map(|(path, _)| (disk.read(&path).unwrap(), path)).collect();
    let environment = plan_ledger::log::LogOptions {
        on_ambiguous: plan_ledger::OnAmbiguous::Fence,
        ..options(&disk)
    };
    let opened = Log::open(&dir(), environment, at(900));
    for (bytes, path) in before {
        assert_eq!(disk.read(&path).unwrap(), bytes, "{} changed", path.display());
    }
    drop(opened);
}

/// A slot of HEAD that was invalid when a ledger was opened never becomes valid with its old content, even if only bytes
/// were damaged that every record has, and a power failure restores just these.
/// Garbage in the magic of every copy of the newer slot; a power failure before every operation of opening and
/// appending, after which each single unsynced change survives in turn, or the magic alone; then the log opens.
#[test]
fn invalidated_head_slot_never_becomes_valid_again() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    for step in 0..4 {
        log.append(&[record(step, 300)], at(4 * step)).unwrap();
    }
    log.close().unwrap();
    disk.lose_power(plan_ledger::internals::sim::Loss::Nothing);
    let (newest, _) = reader(&disk).head_slots().newest().unwrap();
    let slot = if newest == 0 { 0 } else { 4096 };
    let magics = |disk: &SimDisk, byte: u8| {
        for copy in (0..4096).step_by(512) {
            disk.overwrite(&dir().join("HEAD"), slot + copy, &[byte]).unwrap();
        }
    };
    magics(&disk, 0xA5);
    let lost = disk.read(&dir().join("HEAD")).unwrap();
    assert_ne!(reader(&disk).head_slots().newest().unwrap().0, newest, "the other one counts");
    let calls = |disk: &SimDisk| {
        let (log, _) = open(disk)?;
        log.append(&[record(9, 100)], at(50)).map(drop)?;
        log.close()
    };
    let whole_run = disk.fork();
    calls(&whole_run).unwrap();
    let mut losses = 0;
    for call in disk.calls() + 1..=whole_run.calls() {
        let crashed = disk.fork();
        crashed.crash_at(call);
        let _ = calls(&crashed);
        let torn = crashed.fork();
        torn.lose_power(plan_ledger::internals::sim::Loss::Everything);
        if torn.read(&dir().join("HEAD")).unwrap() == lost {
            // Until the slot is whole again, nothing else is written to it.
            let written = crashed.fork();
            written.lose_power(plan_ledger::internals::sim::Loss::Nothing);
            let records = reader(&written).head_slots().slots.clone();
            let [one, other] = records.map(|slot| slot.map(|head| head.generation));
            assert!(one.is_none() || other.is_none() || one == other, "call {call}");
        }
        for survivor in 0..crashed.unsynced().min(64) {
            let disk = crashed.fork();
            disk.lose_power(plan_ledger::internals::sim::Loss::AllBut(1 << survivor));
            let opened = open(&disk);
            let (log, _) = opened.unwrap_or_else(|error| panic!("call {call}: {error}"));
            assert!(payloads(&whole(&log.reader().unwrap())).len() >= 4, "call {call}");
            losses += 1;
        }
    }
    assert!(losses > 20, "{losses}");
}

/// Preallocated space that was not used is freed when a segment is sealed (H29).
#[test]
fn h29_sealing_frees_unused_space() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    log.append(&[record(1, 300_000)], at(1)).unwrap();
    let before = log_files(&disk).iter().map(|(_, length)| *length).sum::<usize>();
    assert_eq!(before, 1 << 20, "the first segment has its full length");
    log.append(&[record(2, 900_000)], at(2)).unwrap();
    let first = log_files(&disk)[0].1;
    assert!((300_000..320_000).contains(&first), "sealed, it has {first} bytes");
}
