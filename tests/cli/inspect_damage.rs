//! `ledger inspect` over randomly damaged ledgers: flipped bits, truncated, zeroed, missing, swapped and
//! foreign files.
//!
//! Method: the fixture is a ledger with sealed, fenced and active segments, snapshots and blobs on a
//! simulated disk, which counts every change. Each round damages a fork of it, runs every command on
//! it in this process, and then opens it.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plan_ledger::internals::sim::{SimDisk, sweep};
use plan_ledger::log::{LogItem, TailVerdict};
use plan_ledger::{Environment, ErrorKind, Ledger};
use serde_json::Value;

use crate::command::json_lines;
use crate::file_tampering::{Specimen, digest, on_disk, put, specimen};
use crate::lab::{dir, open, reader, segments};

const SEED: u64 = 37;

/// Seeded random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let limit = u64::try_from(limit.max(1)).unwrap();
        usize::try_from((z ^ (z >> 31)) % limit).unwrap()
    }

    /// An offset in a file: near its start half of the time, where most structure is.
    fn offset(&mut self, length: usize) -> usize {
        let near = length.min(16 * 1024);
        if self.below(2) == 0 { self.below(near) } else { self.below(length) }
    }
}

fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap()
}

/// Damage a file. Returns a description.
fn damage(random: &mut Random, disk: &SimDisk, files: &[PathBuf]) -> String {
    // The text in LOCK is for people only.
    let files: Vec<_> = files.iter().filter(|path| !path.ends_with("LOCK")).collect();
    let path = files[random.below(files.len())];
    let other = files[random.below(files.len())];
    let bytes = disk.read(path).unwrap_or_default();
    let at = random.offset(bytes.len());
    let name = path.display();
    match random.below(10) {
        0..=3 if at < bytes.len() => {
            let bit = 1 << random.below(8);
            disk.overwrite(path, wide(at), &[bytes[at] ^ bit]).unwrap();
            format!("bit {bit:#04x} of byte {at} of {name}")
        }
        4 if at < bytes.len() => {
            disk.set_length(path, wide(at)).unwrap();
            format!("{name} truncated at {at}")
        }
        5 if at < bytes.len() => {
            let at = at / 512 * 512;
            let count = (bytes.len() - at).min(512);
            disk.overwrite(path, wide(at), &vec![0; count]).unwrap();
            format!("sector {at} of {name} is zero")
        }
        6 => {
            let _ = plan_ledger::internals::storage::Storage::remove(disk, path);
            format!("{name} removed")
        }
        7 => {
            let (one, two) = (bytes, disk.read(other).unwrap_or_default());
            put(disk, path, &two);
            put(disk, other, &one);
            format!("{name} and {} swapped", other.display())
        }
        8 => {
            let unknown = path.with_file_name("stranger \u{1b}[2J.seg");
            put(disk, &unknown, &bytes);
            format!("an unknown file next to {name}")
        }
        _ => {
            if disk.read(path).is_err() {
                put(disk, path, &[]);
            }
            let junk: Vec<_> = (0_u8..=255).cycle().take(random.below(2_000)).collect();
            disk.overwrite(path, wide(at), &junk).unwrap();
            format!("{} bytes of junk at {at} of {name}", junk.len())
        }
    }
}

/// Run a command. Returns its exit code and output.
fn inspect(environment: &Environment, words: &[&str], what: &str) -> (u8, String) {
    let mut out = Vec::new();
    let folder = dir();
    let words: Vec<&str> =
        [folder.to_str().unwrap()].into_iter().chain(words.iter().copied()).collect();
    let (code, error) = plan_ledger_cli::inspect(&words, environment, &mut out);
    let out = String::from_utf8(out).unwrap();
    let is_obeyed = |c: char| c.is_control() && c != '\n';
    assert!(!out.contains(is_obeyed), "{what}: {words:?}: {out:?}");
    assert!([0, 2, 4, 6].contains(&code), "{what}: {words:?}: {code}: {error}");
    if words.contains(&"--json") {
        // Two commands of their own are reached in the same way.
        let command = words.get(1).filter(|word| ["verify", "blobs"].contains(*word));
        let args: Vec<_> = command
            .or(Some(&"inspect"))
            .into_iter()
            .chain(&words)
            .map(|word| (*word).to_owned())
            .collect();
        json_lines(&args, &out);
    }
    (code, out)
}

fn verdict(lines: &str) -> Option<(Value, Value)> {
    let last: Value = serde_json::from_str(lines.lines().last()?).unwrap();
    let opening = &last["health"]["opening"];
    Some((opening["verdict"].clone(), opening["refusal"].clone()))
}

/// Run every command, once as text and once as JSON.
fn inspect_all(environment: &Environment, random: &mut Random, what: &str) -> (u8, String) {
    let seq = (1 + random.below(40)).to_string();
    let offset = random.offset(1 << 20).to_string();
    let segment = random.below(5).to_string();
    let all: [&[&str]; 12] = [
        &["records"],
        &["records", "--reverse", "--limit", "5"],
        &["records", "--run", "r", "--kind", "accepted"],
        &["records", &seq, "--hex"],
        &["segments"],
        &["head"],
        &["snapshots"],
        &["explain"],
        &["explain", &offset],
        &["explain", &offset, "--segment", &segment],
        &["verify", "--level", "snapshots", "--jobs", "1"],
        &["step", "r", "#1"],
    ];
    for words in all {
        inspect(environment, words, what);
        inspect(environment, &[words, &["--json"]].concat(), what);
    }
    inspect(environment, &["export", "--format", "otlp"], what);
    inspect(environment, &[], what);
    // The text form goes to standard error.
    inspect(environment, &["blobs", "--check", "--json"], what);
    inspect(environment, &["--json"], what)
}

/// Story: when one segment was copied over another one, the map assigned all records to the first or the
/// last file of that ordinal.
/// Goal: every readable record is in a region of records of the file that it was read from.
/// Method: every pair of segments.
#[test]
fn map_assigns_records_to_the_file_they_were_read_from() {
    let specimen = specimen();
    let all = segments(&specimen.disk);
    let pairs = all.iter().flat_map(|from| all.iter().map(move |to| (&from.0, &to.0)));
    for (from, to) in pairs.filter(|(from, to)| from != to) {
        let disk = specimen.disk.fork();
        let bytes = disk.read(from).unwrap();
        disk.set_length(to, wide(bytes.len())).unwrap();
        disk.overwrite(to, 0, &bytes).unwrap();
        let what = format!("{} over {}", from.display(), to.display());
        let (_, out) = inspect(&on_disk(&disk), &["explain", "--json"], &what);
        let lines = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let regions: Vec<Value> = lines.filter(|line| line["type"] == "region").collect();
        let is_of_records = |region: &&Value| {
            ["records", "after_damage", "unacknowledged"]
                .contains(&region["class"].as_str().unwrap())
        };
        let mut count = 0;
        for item in reader(&disk).walk(1) {
            let LogItem::Record(record, _) = item.unwrap() else { continue };
            count += 1;
            let has = |region: &Value| {
                let [first, last] = ["first_seq", "last_seq"].map(|name| region[name].as_u64());
                region["segment"] == record.segment
                    && region["path"] != to.display().to_string()
                    && (first..=last).contains(&Some(record.seq))
            };
            let is_there = regions.iter().filter(is_of_records).any(has);
            assert!(is_there, "{what}: record {}: {regions:#?}", record.seq);
        }
        assert!(count > 5, "{what}: {count} records");
    }
}

/// The result of opening a damaged ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    Opened,
    Refused,
    NoLedger,
}

/// Damage a fork of the fixture, inspect it, and open it.
fn round(specimen: &Specimen, round: u64) -> Opening {
    // Each round has its own random numbers, so that it can be repeated alone.
    let mut random = Random(SEED ^ round.rotate_left(32));
    let disk = specimen.disk.fork();
    let mut what = format!("seed {SEED}, round {round}");
    for _ in 0..=random.below(2) {
        what = format!("{what}: {}", damage(&mut random, &disk, &specimen.files));
    }
    let environment = on_disk(&disk);
    let (before, changes) = (digest(&disk), disk.changes());
    let summary = inspect_all(&environment, &mut random, &what);
    assert_eq!(disk.changes(), changes, "{what}: a command wrote to the disk");
    assert!(digest(&disk) == before, "{what}: a command changed the disk");
    let reported = verdict(&summary.1);
    let opening = match open(&disk.fork()) {
        Err(error) if error.kind() == ErrorKind::NotALedger => {
            assert_eq!(reported, None, "{what}");
            Opening::NoLedger
        }
        Err(error) => {
            // The view that shows what can be read does not name itself.
            let hint = "; nothing was changed; intact records can be read";
            let expected = Some(("refused".into(), error.to_string().replace(hint, "").into()));
            assert_eq!(reported, expected, "{what}");
            Opening::Refused
        }
        Ok((_, report)) => {
            let word = match report.verdict {
                TailVerdict::Clean => "clean",
                TailVerdict::Unacknowledged => "unacknowledged_tail",
                _ => "torn",
            };
            assert_eq!(reported, Some((word.into(), Value::Null)), "{what}: {report:?}");
            Opening::Opened
        }
    };
    if let Err(error) = Ledger::open_with(&dir(), &environment) {
        let code = if error.kind() == ErrorKind::NotALedger { 2 } else { 4 };
        assert_eq!(summary.0, code, "{what}: {error}\n{}", summary.1);
    }
    opening
}

/// Goal: every command ends on any damaged ledger, without a panic and without a write, and reports the
/// verdict or the error with which the engine then opens it.
#[test]
fn sweep_damaged_ledgers_are_inspected_to_the_end() {
    let rounds = sweep(12, 30, 1000);
    let specimen = specimen();
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let next = AtomicU64::new(0);
    let work = || -> Vec<Opening> {
        std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < rounds))
            .map(|at| round(&specimen, at))
            .collect()
    };
    let openings: Vec<Opening> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let count = |opening| openings.iter().filter(|each| **each == opening).count();
    let (opened, refused) = (count(Opening::Opened), count(Opening::Refused));
    assert!(
        opened * 10 > openings.len() && refused * 10 > openings.len(),
        "{opened} opened, {refused} refused: the damage is too weak or too strong"
    );
}

/// Goal: a HEAD that names a superseded segment is reported before the ledger is opened.
#[test]
fn head_that_contradicts_a_later_segment_is_reported() {
    let specimen = specimen();
    let (disk, environment) = (&specimen.disk, on_disk(&specimen.disk));
    let head: &Path = &dir().join("HEAD");
    let mut view = plan_ledger::internals::format::HeadSlots::decode(&disk.read(head).unwrap());
    let segments = plan_ledger::LedgerView::open(&dir(), &environment).unwrap().log().segments();
    let before = &segments[segments.len() - 2].header.as_ref().unwrap().clone();
    for slot in view.slots.iter_mut().flatten() {
        (slot.ordinal, slot.segment) = (before.ordinal, before.segment);
    }
    let bytes: Vec<u8> = view
        .slots
        .iter()
        .flatten()
        .flat_map(plan_ledger::internals::format::Head::encode)
        .collect();
    put(disk, head, &bytes);
    let refused = Ledger::open_with(&dir(), &environment).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Tampered, "{refused}");
    let verdict =
        plan_ledger::log::opening_verdict(&*Arc::clone(&environment.storage), &dir()).unwrap_err();
    assert_eq!(verdict.to_string(), refused.to_string());
    assert_eq!(inspect(&environment, &[], "a contradicting HEAD").0, 4);
}
