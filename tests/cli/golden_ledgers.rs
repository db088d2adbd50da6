//! Golden ledgers: intact, torn, corrupt, fenced, of a future version. Their bytes are fixed,
//! and so is the output of the commands on each.
//! | `format/golden/NAME/ledger.hex` has the bytes that are not zero; `inspect.txt`,
//! `inspect.jsonl`, `verify.txt` and `verify.jsonl` have the output of the commands and their
//! exit codes. `UPDATE_GOLDEN=1` regenerates all of them.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plan_ledger::internals::format::{Codec, NewRecord, Uid, content_hash};
use plan_ledger::internals::ledger::{IdSource, RetentionLimit};
use plan_ledger::internals::sim::SimDisk;
use plan_ledger::internals::storage::Storage;
use plan_ledger::log::Log;
use plan_ledger::{Environment, HeadSync, Json, Ledger, Plan, Receipt, RunPolicy, State};

use super::command::Place;
use super::golden::{Ticking, deterministic, parse};
use super::lab::{dir, kill, mix, options_with, reader, record, whole};

/// Identifiers that depend only on the start.
#[derive(Debug)]
struct Mixed(AtomicU64);

impl IdSource for Mixed {
    fn next_id(&self) -> Uid {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        let mut id = [0; 16];
        id[..8].copy_from_slice(&mix(number).to_le_bytes());
        id[8..].copy_from_slice(&mix(!number).to_le_bytes());
        id
    }
}

const START: u64 = 1_700_000_000_000_000;

/// The same environment in every run; `session` distinguishes the opens of one ledger.
fn environment(disk: &SimDisk, session: u64) -> Environment {
    Environment {
        storage: Arc::new(disk.clone()),
        clock: Arc::new(Ticking(AtomicU64::new(START + session * 1_000_000))),
        ids: Arc::new(Mixed(AtomicU64::new(session << 20))),
        ..deterministic()
    }
}

fn open_log(disk: &SimDisk, session: u64) -> Log {
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let options = options_with(storage, session, HeadSync::Interval);
    Log::open(&dir(), options, START + session * 1_000_000).unwrap().0
}

/// One run of two steps, one of them done; closed.
fn small() -> SimDisk {
    let disk = SimDisk::new();
    let ledger = Ledger::create(&dir(), &environment(&disk, 0)).unwrap();
    let plan: Plan =
        serde_json::from_str(r#"{"steps": [{"id": "one"}, {"id": "two", "after": ["one"]}]}"#)
            .unwrap();
    let run = ledger.start_run("demo", &plan, RunPolicy::default()).unwrap();
    let task = ledger.dispatch(run, "worker").unwrap().unwrap();
    let output = Json::new(&serde_json::json!(42));
    ledger
        .record_receipt(task.token, Receipt { output: output.into(), ..Receipt::default() })
        .unwrap();
    ledger.close().unwrap();
    disk
}

fn raw(kind: u16, payload: Vec<u8>) -> NewRecord {
    NewRecord { kind, codec: Codec::Raw, schema: 1, payload }
}

/// A snapshot, its note, and two segments, the first closed by a rotation and sealed, since the
/// next record is too large for it. That record and the one after it have unknown kinds that
/// may be skipped.
fn good() -> SimDisk {
    let disk = small();
    let (ledger, _) = Ledger::open_with(&dir(), &environment(&disk, 3)).unwrap();
    ledger.snapshot::<State>().unwrap();
    ledger.close().unwrap();
    let log = open_log(&disk, 5);
    log.append(&[raw(0x9000, vec![0; 1_045_000])], START + 6_000_000).unwrap();
    log.append(&[raw(0x9001, b"may be skipped".to_vec())], START + 7_000_000).unwrap();
    log.close().unwrap();
    disk
}

/// A write of which one sector is missing.
fn torn() -> SimDisk {
    let disk = small();
    let log = open_log(&disk, 5);
    kill(&disk, log);
    let whole_write = disk.fork();
    let log = open_log(&whole_write, 6);
    log.append(&[record(1, 3000)], START + 7_000_000).unwrap();
    kill(&whole_write, log);
    let frame = whole(&reader(&whole_write)).pop().unwrap();
    let path = reader(&whole_write).segments().remove(0).path;
    let bytes = whole_write.read(&path).unwrap();
    let from = usize::try_from(frame.offset).unwrap();
    let mut bytes = bytes[from..from + usize::try_from(frame.size).unwrap()].to_vec();
    let sector = 2048 - from % 512;
    bytes[sector..sector + 512].fill(0);
    disk.overwrite(&path, frame.offset, &bytes).unwrap();
    disk
}

/// The torn ledger, opened again: a fence closes the torn end off, and the run continues.
fn fenced() -> SimDisk {
    let disk = torn();
    let (ledger, _) = Ledger::open_with(&dir(), &environment(&disk, 8)).unwrap();
    let run = ledger.state().unwrap().run_named("demo").unwrap().id;
    ledger.dispatch(run, "worker").unwrap().unwrap();
    ledger.close().unwrap();
    disk
}

/// The good ledger with one bit of the payload of record 3 flipped.
fn corrupt() -> SimDisk {
    let disk = good();
    let hit = whole(&reader(&disk)).remove(2);
    let path = reader(&disk).segments().remove(0).path;
    let byte = disk.read(&path).unwrap()[usize::try_from(hit.offset).unwrap() + 50];
    disk.overwrite(&path, hit.offset + 50, &[byte ^ 0x10]).unwrap();
    disk
}

/// The small ledger with another field in its segment header, and the right checksums.
fn with_field(offset: usize, field: &[u8]) -> SimDisk {
    let disk = small();
    let path = reader(&disk).segments().remove(0).path;
    let mut header = disk.read(&path).unwrap()[..4096].to_vec();
    header[offset..offset + field.len()].copy_from_slice(field);
    let hash = content_hash(&header[..4060]);
    header[4060..4092].copy_from_slice(&hash);
    let crc = crc32fast::hash(&header[..4092]);
    header[4092..].copy_from_slice(&crc.to_le_bytes());
    disk.overwrite(&path, 0, &header).unwrap();
    disk
}

/// The small ledger with a record of a kind that must not be skipped.
fn future_kind() -> SimDisk {
    let disk = small();
    let log = open_log(&disk, 5);
    log.append(&[raw(0x0777, b"must not be skipped".to_vec())], START + 6_000_000).unwrap();
    log.close().unwrap();
    disk
}

/// The good ledger with its first segment pruned; two snapshots replace it.
fn pruned() -> SimDisk {
    let disk = good();
    let (ledger, _) = Ledger::open_with(&dir(), &environment(&disk, 9)).unwrap();
    ledger.snapshot::<State>().unwrap();
    let run = ledger.state().unwrap().run_named("demo").unwrap().id;
    ledger.dispatch(run, "worker").unwrap().unwrap();
    ledger.snapshot::<State>().unwrap();
    ledger.prune(RetentionLimit::Record(11), None, "ann").unwrap();
    ledger.close().unwrap();
    disk
}

/// The good ledger after another dispatch, with a delta snapshot at its end.
fn based() -> SimDisk {
    let disk = good();
    let environment = environment(&disk, 9);
    let (ledger, _) = Ledger::open_with(&dir(), &environment).unwrap();
    let run = ledger.state().unwrap().run_named("demo").unwrap().id;
    ledger.dispatch(run, "worker").unwrap().unwrap();
    ledger.close().unwrap();
    let names = reader(&disk).snapshots().unwrap().names;
    crate::delta_snapshots::write(
        &disk,
        &environment,
        &names[0],
        reader(&disk).head().unwrap().durable_seq,
    );
    disk
}

/// A golden ledger: its folder, its description, and how it is made.
type Golden = (&'static str, &'static str, fn() -> SimDisk);

const GOLDEN: [Golden; 10] = [
    ("good", "a sealed segment, a snapshot, kinds that may be skipped", good),
    ("torn", "a write that a power loss cut short, never acknowledged", torn),
    ("fenced", "the torn one, opened again", fenced),
    ("corrupt", "the good one with one bit of the payload of record 3 flipped", corrupt),
    ("based", "the good one, and a snapshot that is based on its first one", based),
    ("pruned", "the good one without its first segment; two snapshots stand for it", pruned),
    ("future-major", "format_major 2", || with_field(8, &[2, 0])),
    ("future-incompat", "an incompat flag that no program knows", || with_field(12, &[1])),
    ("future-ro-compat", "an ro_compat flag that no program knows", || with_field(16, &[1])),
    ("future-kind", "a record of a kind that must not be skipped", future_kind),
];

fn folder(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("format/golden").join(name)
}

fn is_update() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

/// All bytes that are not zero, in rows of 32.
fn annotate(disk: &SimDisk, what: &str) -> String {
    let mut text = format!("# {what}. `offset  bytes`; everything that is not shown is zero.\n");
    let files = disk.files(&dir()).into_iter().filter(|path| !path.ends_with("LOCK"));
    for path in files {
        let bytes = disk.read(&path).unwrap();
        let name = path.strip_prefix(dir()).unwrap().display();
        writeln!(text, "\nfile {name} {}", bytes.len()).unwrap();
        for (row, chunk) in bytes.chunks(32).enumerate() {
            if chunk.iter().any(|byte| *byte != 0) {
                let hex: String = chunk.iter().map(|byte| format!("{byte:02x}")).collect();
                writeln!(text, "{:08x}  {hex}", row * 32).unwrap();
            }
        }
    }
    text
}

/// Goal: the same calls always give the same bytes.
#[test]
fn golden_ledgers_keep_their_bytes() {
    for (name, what, make) in GOLDEN {
        let text = annotate(&make(), what);
        let path = folder(name).join("ledger.hex");
        if is_update() {
            fs::create_dir_all(folder(name)).unwrap();
            fs::write(&path, &text).unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap();
        assert!(
            kept == text,
            "the bytes of the golden ledger `{name}` are not what the program writes: change \
             `format/` first, then run with UPDATE_GOLDEN=1"
        );
    }
}

/// A line with at most two spaces in a row, its indentation kept.
fn narrow(line: &str) -> String {
    let inner = line.trim_start();
    let mut narrow = inner.to_owned();
    while narrow.contains("   ") {
        narrow = narrow.replace("   ", "  ");
    }
    " ".repeat(line.len() - inner.len()) + &narrow
}

/// The output of a command with its exit code; relative times are replaced.
fn said(place: &Place, line: &str) -> String {
    let ended = place.ledger(line);
    let code = ended.status.code().unwrap();
    if line.ends_with("--json") {
        // Each line is checked against the published schema.
        ended.lines();
    }
    let mut text = String::new();
    let mut rest = ended.out.as_str();
    while let Some((before, behind)) = rest.split_once('(') {
        text += before;
        let inside = behind.split_once(')').filter(|(inside, _)| inside.ends_with(" ago"));
        if let Some((_, behind)) = inside {
            text += "(some time ago)";
            rest = behind;
        } else {
            text.push('(');
            rest = behind;
        }
    }
    text += rest;
    // Column widths depend on the content.
    let text: String = text.lines().map(|line| narrow(line) + "\n").collect();
    assert_eq!(ended.err, "", "{line}");
    format!("{text}exit code {code}\n")
}

/// Goal: the commands print the recorded output for each golden ledger, and change nothing.
#[test]
fn golden_ledgers_have_the_recorded_output() {
    for (name, what, make) in GOLDEN {
        let place = Place::new();
        let ledger = place.path(name);
        fs::create_dir_all(ledger.join("log")).unwrap();
        let hex = if is_update() {
            annotate(&make(), what)
        } else {
            fs::read_to_string(folder(name).join("ledger.hex")).unwrap()
        };
        for (file, bytes) in parse(&hex) {
            fs::create_dir_all(ledger.join(&file).parent().unwrap()).unwrap();
            fs::write(ledger.join(file), bytes).unwrap();
        }
        let before = place.snapshot();
        for (file, line) in [
            ("inspect.txt", format!("inspect {name}")),
            ("inspect.jsonl", format!("inspect {name} --json")),
            ("verify.txt", format!("verify {name} --level replay --jobs 2")),
            ("verify.jsonl", format!("verify {name} --level replay --json")),
        ] {
            let said = said(&place, &line);
            let path = folder(name).join(file);
            if is_update() {
                fs::write(&path, &said).unwrap();
            }
            assert_eq!(fs::read_to_string(&path).unwrap(), said, "{line}");
        }
        assert!(place.snapshot() == before, "{name}: something was written");
    }
}

/// Goal: a ledger of a newer writer is never written to, by its major or by a flag; one with a
/// record that must not be skipped is not folded past it.
#[test]
fn ledgers_of_a_future_version_are_not_written_to() {
    for (name, _, make) in GOLDEN.into_iter().filter(|golden| golden.0.starts_with("future")) {
        let disk = make();
        let before = super::lab::log_digest(&disk);
        let error = Ledger::open_with(&dir(), &environment(&disk, 9)).unwrap_err();
        assert_eq!(error.kind(), plan_ledger::ErrorKind::Unsupported, "{name}: {error}");
        if name != "future-kind" {
            assert_eq!(super::lab::log_digest(&disk), before, "{name}");
        }
    }
}
