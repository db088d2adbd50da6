//! The log without plans, in programs that know nothing else of the library. `cargo test` runs these
//! tests with the ledger compiled in, and CI a second time with the log alone:
//! `cargo test -p plan-ledger-log`.
#![expect(clippy::unwrap_used, reason = "a test stops at a fault")]

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use plan_ledger::ErrorKind;
use plan_ledger::log::{
    Batch, Codec, Durability, IS_ALONE, Log, LogItem, LogOptions, LogReader, NewRecord,
    RecordStatus, SegmentSizes, TailVerdict, VerifyOptions, opening_verdict, root, verify,
    wall_clock,
};

#[expect(dead_code, reason = "the tests call `run` with a folder of their own")]
#[path = "../../examples/log.rs"]
mod example;

/// Names the folder for a test that is the process of another test.
const FOLDER: &str = "PLAN_LEDGER_TEST_LOG";

/// Run one of the tests below as a process of its own.
fn process(test: &str, dir: &Path) -> Output {
    let program = std::env::current_exe().unwrap();
    let args = ["--exact", test, "--include-ignored", "--nocapture"];
    Command::new(program).args(args).env(FOLDER, dir).output().unwrap()
}

fn folder_of_process() -> PathBuf {
    std::env::var_os(FOLDER).expect("another test starts this one").into()
}

#[test]
#[ignore = "the process of other tests"]
fn example_process() {
    example::run(&folder_of_process()).unwrap();
}

/// A writer with an acknowledged record and a batch whose bytes are written, but not synced.
#[test]
#[ignore = "the process of other tests"]
fn aborting_writer() {
    let log = Log::create(&folder_of_process(), LogOptions::system(), wall_clock()).unwrap();
    log.append(&[NewRecord::new(1, "acknowledged")], wall_clock()).unwrap();
    let batch = Batch::new(vec![NewRecord::new(1, [0xA5; 4000])], wall_clock());
    let batch = Batch { durability: Durability::Buffered, ..batch };
    let _ticket = log.submit(&batch).unwrap();
    std::process::abort();
}

/// The first segment of a log.
fn segment(dir: &Path) -> PathBuf {
    let entries = fs::read_dir(dir.join("log")).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|end| end == "seg")).min().unwrap()
}

/// Goal: after a crash in the middle of a write, the next opening keeps the acknowledged record, cuts
/// the torn one off, says so, and continues. The program of the example does all of it.
#[test]
fn torn_tail_is_cut_and_the_acknowledged_record_stays() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("orders.log");
    let crash = process("aborting_writer", &dir);
    assert_eq!(crash.status.signal(), Some(6), "{crash:?}");
    // Of the unsynced write, a power loss keeps the first part.
    let path = segment(&dir);
    let mut bytes = fs::read(&path).unwrap();
    let start = bytes.windows(64).position(|bytes| bytes == [0xA5; 64]).unwrap();
    bytes[start + 1000..].fill(0);
    fs::write(&path, bytes).unwrap();
    assert_eq!(opening_verdict(&*LogOptions::system().storage, &dir).unwrap(), TailVerdict::Torn);

    let printed = process("example_process", &dir);
    let text = String::from_utf8(printed.stdout).unwrap();
    assert!(printed.status.success(), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    let has = |start: &str| lines.iter().any(|line| line.starts_with(start));
    assert!(has("torn; cut off: [DiscardedRange { offset: 4"), "{text}");
    // Record 2 is the note that the log made about what it cut off.
    assert!(has("1 0x0001 acknowledged") && has("2 0x8001 {"), "{text}");
    assert!(has("durable: record 4") && has("3 0x0001 order 7"), "{text}");
    assert!(has("4 0x0002 its payment") && has("4 records, damaged: false"), "{text}");
    assert!(!text.contains("\\xa5"), "{text}");

    let again = process("example_process", &dir);
    let text = String::from_utf8(again.stdout).unwrap();
    assert!(text.lines().any(|line| line == "clean; cut off: []"), "{text}");
}

/// Goal: damage of an acknowledged record is never taken for the end of the log. Writing is refused and
/// changes nothing, reading reports the record and continues, and a root from before finds a log that
/// was replaced.
#[test]
fn damaged_record_is_refused_and_the_others_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("orders.log");
    let options = LogOptions::system();
    let log = Log::create(&dir, options.clone(), wall_clock()).unwrap();
    for text in ["first", "second", "third"] {
        log.append(&[NewRecord::new(1, text)], wall_clock()).unwrap();
    }
    log.close().unwrap();
    let last = root(&options.storage, &dir).unwrap();
    assert_eq!(last.seq, 3);

    let path = segment(&dir);
    let mut bytes = fs::read(&path).unwrap();
    let place = bytes.windows(6).position(|bytes| bytes == b"second").unwrap();
    bytes[place] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let error = Log::open(&dir, options.clone(), wall_clock()).unwrap_err();
    assert_eq!((error.kind(), error.location().seq), (ErrorKind::Corrupt, Some(2)), "{error}");
    assert_eq!(fs::read(&path).unwrap(), bytes);

    let reader = LogReader::open(&options.storage, &dir).unwrap();
    let mut seen = Vec::new();
    for item in reader.walk(1) {
        seen.push(match item.unwrap() {
            LogItem::Record(record, RecordStatus::Durable) => format!("{} durable", record.seq),
            LogItem::Record(record, status) => format!("{} {status:?}", record.seq),
            LogItem::Damage(damage) => format!("{} to {}", damage.first_seq, damage.last_seq),
            other => format!("{other:?}"),
        });
    }
    assert_eq!(seen, ["1 durable", "2 to 2", "3 AfterDamage"]);
    let found = verify(&options.storage, &dir, VerifyOptions::DEFAULT).unwrap();
    assert!(found.is_damaged());
    assert_eq!(found.findings[0].missing, Some(2..=2));
}

/// Goal: a record that the format forbids is refused before anything is written, so that a mistake of a
/// caller never looks like damage later.
#[test]
fn record_that_the_format_forbids_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("orders.log");
    let log = Log::create(&dir, LogOptions::system(), wall_clock()).unwrap();
    let sound = NewRecord::new(1, "sound");
    for odd in [
        NewRecord { kind: 0, ..sound.clone() },
        NewRecord { schema: 0, ..sound.clone() },
        NewRecord { codec: Codec::Detached, ..sound.clone() },
    ] {
        let error = log.append(&[sound.clone(), odd], wall_clock()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unencodable, "{error}");
    }
    assert_eq!(log.append(&[sound], wall_clock()).unwrap().seq, 1);
}

/// Goal: a log alone refuses what only a ledger can interpret, instead of reading it wrongly.
#[test]
fn parts_of_a_ledger_are_refused_by_a_log_alone() {
    let folder = tempfile::tempdir().unwrap();
    let small = SegmentSizes { first: 8192, largest: 8192 };
    let options = LogOptions { segments: small, ..LogOptions::system() };
    let new = |name: &str| {
        let dir = folder.path().join(name);
        let log = Log::create(&dir, options.clone(), wall_clock()).unwrap();
        for _ in 0..3 {
            log.append(&[NewRecord::new(1, [0xA5; 3000])], wall_clock()).unwrap();
        }
        log.close().unwrap();
        dir
    };
    let read = |dir: &Path| LogReader::open(&options.storage, dir).err().map(|error| error.kind());
    let alone = IS_ALONE.then_some(ErrorKind::Unsupported);
    assert_eq!(read(&new("whole")), None);
    for (name, of_ledger) in
        [("ERASING", None), ("STORE.json", None), ("ARCHIVE.json", Some(ErrorKind::Corrupt))]
    {
        let dir = new(name);
        fs::write(dir.join(name), "{}").unwrap();
        assert_eq!(read(&dir), alone.or(of_ledger), "{name}");
        let error = Log::open(&dir, options.clone(), wall_clock()).err();
        assert!(!IS_ALONE || error.is_some(), "{name}");
    }
    let pruned = new("pruned");
    fs::remove_file(segment(&pruned)).unwrap();
    assert_eq!(read(&pruned), alone);
    let error = Log::open(&pruned, options.clone(), wall_clock()).unwrap_err();
    assert_eq!(error.kind(), alone.unwrap_or(ErrorKind::Corrupt), "{error}");
}
