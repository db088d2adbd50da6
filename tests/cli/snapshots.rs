//! Snapshots that are interrupted, damaged, foreign or missing cost time and nothing else.

use std::io;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use plan_ledger::internals::format::{Codec, NewRecord, SnapshotHeader, SnapshotName};
use plan_ledger::internals::ledger::{
    LedgerCondition, RUN_STREAMS, VerifyLevel, VerifyReport, VerifyRequest,
};
use plan_ledger::internals::sim::{Fault, FaultEffect, Loss, SimDisk};
use plan_ledger::internals::storage::{Access, Storage};
use plan_ledger::log::{FindingClass, Log, LogOptions, SnapshotNote};
use plan_ledger::plan::{PackedRun, Run, RunOverview, StepNumber, StoredRun};
use plan_ledger::{
    BackgroundWork, Command, ContentHash, Environment, ErrorKind, Ledger, LedgerView, Plan,
    Projection, RecordedEvent, RunPolicy, Snapshot, State, Step, state_hash,
};

use crate::disk_trace::{Call, Traced};
use crate::lab::{dir, log_files, options, reader};
use crate::time_travel::{environment, play, snapshot_seqs};

#[path = "../../examples/projection.rs"]
mod example;

fn snap() -> PathBuf {
    dir().join("snap")
}

/// A closed ledger with snapshots at 20, 40 and 60, and its environment, which makes no more.
fn three() -> (SimDisk, Environment) {
    three_of(5)
}

/// The same with another history.
fn three_of(seed: u64) -> (SimDisk, Environment) {
    let disk = SimDisk::new();
    let ledger = Ledger::create(&dir(), &environment(&disk, 20)).unwrap();
    play(&ledger, seed, 65);
    ledger.close().unwrap();
    assert_eq!(snapshot_seqs(&disk), [20, 40, 60]);
    (disk.clone(), quiet(&disk))
}

/// An environment without scheduled snapshots.
pub(crate) fn quiet(disk: &SimDisk) -> Environment {
    Environment { snapshot_every: None, ..environment(disk, 1) }
}

fn files(disk: &SimDisk) -> Vec<PathBuf> {
    disk.files(&snap())
}

/// The expected projection at the last snapshot of [`three`].
fn body_at_60() -> Vec<u8> {
    let (_disk, environment) = three();
    let view = LedgerView::open(&dir(), &environment).unwrap();
    let mut body = Vec::new();
    view.state_at(60).unwrap().encode(&mut body).unwrap();
    body
}

/// The state hash after each record, folded from the start.
pub(crate) fn truth(disk: &SimDisk) -> Vec<ContentHash> {
    let mut state = State::default();
    let mut hashes = vec![state_hash(&state)];
    for record in reader(disk).records(1) {
        let record = record.unwrap();
        let event = plan_ledger::internals::ledger::decode(&record).unwrap();
        let recorded = RecordedEvent { seq: record.seq, time: record.time, event, is_lost: false };
        Projection::apply(&mut state, &recorded);
        hashes.push(state_hash(&state));
    }
    hashes
}

fn place(seq: usize) -> u64 {
    u64::try_from(seq).unwrap()
}

/// The result of opening a ledger: its state hash, the snapshot that it used, its notes.
pub(crate) fn opened(
    disk: &SimDisk,
    environment: &Environment,
) -> (ContentHash, Option<u64>, Vec<String>) {
    // The prefetch thread finds and reports the same.
    let [found, beside] = [BackgroundWork::Inline, BackgroundWork::Thread].map(|background_work| {
        let storage = Arc::new(disk.fork());
        let environment = Environment { storage, background_work, ..environment.clone() };
        let (ledger, report) = Ledger::open_with(&dir(), &environment).unwrap();
        (ledger.state_hash().unwrap(), report.from_snapshot, report.notes)
    });
    assert_eq!(found, beside);
    found
}

/// The result of the most thorough verification.
pub(crate) fn replayed(environment: &Environment) -> VerifyReport {
    let request = VerifyRequest {
        level: VerifyLevel::Replay,
        jobs: NonZeroUsize::MIN,
        expected: None,
        watch: &|_| ControlFlow::Continue(()),
    };
    request.run(&dir(), environment).unwrap()
}

fn put(disk: &SimDisk, path: &Path, bytes: &[u8]) {
    let file = disk.create(path).unwrap();
    file.write_at(bytes, 0).unwrap();
    file.sync().unwrap();
}

/// Goal: a crash during a snapshot, at whatever call and whatever the disk keeps, leaves a
/// ledger without a loss, and a second open changes nothing. The log is not shortened, and no
/// older snapshot is touched.
#[test]
fn h52_h54_a_crash_while_a_snapshot_is_made_costs_nothing() {
    let (disk, environment) = three();
    let (three, older) = (disk.fork(), files(&disk));
    let hashes = truth(&disk);
    let last = hashes.len() - 1;
    let run = |disk: &SimDisk, crash: Option<u64>| {
        let environment = Environment { storage: Arc::new(disk.clone()), ..environment.clone() };
        let (ledger, _) = Ledger::open_with(&dir(), &environment).unwrap();
        let before = disk.calls();
        if let Some(call) = crash {
            disk.crash_at(before + call);
        }
        let made = ledger.snapshot::<State>();
        let calls = disk.calls() - before;
        drop(ledger);
        (made.is_ok(), calls)
    };
    let (is_made, calls) = run(&disk.fork(), None);
    assert!(is_made && calls > 15, "{calls} calls");
    for call in 1..=calls {
        for loss in [Loss::Everything, Loss::Nothing, Loss::Some(call), Loss::Some(call + 1000)] {
            let story = format!("crash at call {call} of {calls}, {loss:?}");
            let disk = disk.fork();
            let (is_made, _) = run(&disk, Some(call));
            assert!(!is_made, "{story}");
            disk.lose_power(loss);
            let environment =
                Environment { storage: Arc::new(disk.clone()), ..environment.clone() };
            let (ledger, report) =
                Ledger::open_with(&dir(), &environment).unwrap_or_else(|e| panic!("{story}: {e}"));
            for (seq, hash) in hashes.iter().enumerate().rev().take(8) {
                let state = ledger.state_at(place(seq)).unwrap();
                assert_eq!(state_hash(&state), *hash, "{story}: record {seq}: {report:?}");
            }
            assert_eq!(ledger.warnings(), Vec::<String>::new(), "{story}");
            for path in &older {
                let kept =
                    disk.read(path).unwrap_or_else(|e| panic!("{story}: {}: {e}", path.display()));
                assert!(kept == three.read(path).unwrap(), "{story}: {}", path.display());
            }
            let (head, log) = (ledger.head(), log_files(&disk));
            ledger.close().unwrap();
            let (ledger, _) = Ledger::open_with(&dir(), &environment).unwrap();
            assert_eq!((ledger.head(), log_files(&disk)), (head, log), "{story}: opened again");
            let made = ledger.snapshot::<State>().unwrap();
            assert!(made.seq >= place(last), "{story}");
            // Unfinished files are gone, too.
            assert!(snapshot_seqs(&disk).contains(&made.seq), "{story}");
        }
    }
}

/// Goal: every bit of a snapshot is covered. A flip is found and located, and costs nothing.
/// Method: each bit for the check; one bit of each byte for a reader; a few for a writer.
#[test]
fn flipped_bit_in_a_snapshot_is_detected_and_an_older_one_used() {
    let (disk, environment) = three();
    let hashes = truth(&disk);
    let last = place(hashes.len() - 1);
    let path = files(&disk).pop().unwrap();
    let name = SnapshotName::parse(path.file_name().unwrap().to_str().unwrap()).unwrap();
    let bytes = disk.read(&path).unwrap();
    let view = || LedgerView::open(&dir(), &environment).unwrap();
    assert_eq!(view().check_snapshot(&name).unwrap().seq, 60);
    let reading = view();
    for (at, byte) in bytes.iter().enumerate() {
        for bit in 0..8 {
            disk.overwrite(&path, place(at), &[byte ^ (1 << bit)]).unwrap();
            let error = reading.check_snapshot(&name).unwrap_err();
            let (text, location) = (error.to_string(), error.location());
            assert_eq!(location.path.as_ref(), Some(&path), "byte {at}: {text}");
            // The header's checksum covers the header as a whole, that of the only chunk the rest.
            let block = if at < 512 { 0 } else { 512 };
            assert_eq!(location.offset, Some(block), "byte {at}: {text}");
            if bit == at % 8 {
                let state = reading.state_at(last).unwrap();
                assert_eq!(state_hash(&state), hashes[hashes.len() - 1], "byte {at}");
            }
            if bit == 3 && at % 64 == 5 {
                let (hash, from, notes) = opened(&disk, &environment);
                assert_eq!((hash, from), (hashes[hashes.len() - 1], Some(40)), "byte {at}");
                let is_named = notes[0].contains(path.to_str().unwrap())
                    && notes[0].contains(&format!("offset {block}"));
                assert!(is_named && notes.len() == 1, "{notes:?}");
            }
        }
        disk.overwrite(&path, place(at), &[*byte]).unwrap();
    }
    assert_eq!(opened(&disk, &environment).1, Some(60));
}

/// Goal: a truncated or extended snapshot is not used.
#[test]
fn snapshot_of_a_wrong_length_is_not_used() {
    let (disk, environment) = three();
    let hashes = truth(&disk);
    let path = files(&disk).pop().unwrap();
    let whole = disk.read(&path).unwrap();
    for length in (0..whole.len()).chain([whole.len() + 1, whole.len() + 4096]) {
        disk.set_length(&path, place(length)).unwrap();
        let view = LedgerView::open(&dir(), &environment).unwrap();
        let state = view.state_at(place(hashes.len() - 1)).unwrap();
        assert_eq!(state_hash(&state), hashes[hashes.len() - 1], "{length} bytes");
        if length % 97 == 0 {
            let (_, from, notes) = opened(&disk, &environment);
            assert_eq!((from, notes.len()), (Some(40), 1), "{length} bytes: {notes:?}");
        }
        disk.set_length(&path, place(whole.len())).unwrap();
        disk.overwrite(&path, 0, &whole).unwrap();
    }
    assert_eq!(opened(&disk, &environment).1, Some(60));
}

/// Goal: foreign files in the folder are not used: renamed ones, those of other ledgers, those
/// of records that this log does not have, unfinished ones.
#[test]
fn h53_a_snapshot_that_is_not_of_this_log_is_ignored() {
    let (disk, environment) = three();
    let hashes = truth(&disk);
    let newest = files(&disk).pop().unwrap();
    let bytes = disk.read(&newest).unwrap();
    let header = SnapshotHeader::decode(&bytes).unwrap();
    let with = |change: &dyn Fn(&mut SnapshotHeader)| {
        let mut header = header.clone();
        change(&mut header);
        let bytes = [&header.encode(), &bytes[512..]].concat();
        (snap().join(header.name().to_string()), bytes)
    };
    let renamed =
        |seq| (snap().join(SnapshotName { seq, ..header.name() }.to_string()), bytes.clone());
    let strangers: Vec<(&str, (PathBuf, Vec<u8>))> = vec![
        ("renamed", renamed(62)),
        ("another ledger", with(&|header| header.ledger = [7; 16])),
        ("another genesis", with(&|header| header.genesis = [7; 16])),
        ("newer than the log", with(&|header| header.seq = 9_999)),
        ("another record", with(&|header| header.seq = 61)),
        ("another chain", with(&|header| header.chain.0[31] ^= 1)),
        ("another state", with(&|header| header.state_hash[31] ^= 1)),
        ("another body", with(&|header| header.body_hash[0] ^= 1)),
    ];
    for (story, (path, content)) in strangers {
        let disk = disk.fork();
        // Some of them replace the valid one of the same name.
        if path == newest {
            disk.remove(&path).unwrap();
        }
        put(&disk, &path, &content);
        let expected = if path == newest { 40 } else { 60 };
        let (hash, from, notes) = opened(&disk, &environment);
        assert_eq!((hash, from), (hashes[hashes.len() - 1], Some(expected)), "{story}: {notes:?}");
        // A file whose name no note in the log gives is never read: a crash may leave one.
        let is_named = notes.iter().any(|note| note.contains(path.to_str().unwrap()));
        assert_eq!(is_named, path == newest, "{story}: {notes:?}");
        let view = LedgerView::open(
            &dir(),
            &Environment { storage: Arc::new(disk.clone()), ..environment.clone() },
        )
        .unwrap();
        let name = SnapshotName::parse(path.file_name().unwrap().to_str().unwrap()).unwrap();
        assert!(view.check_snapshot(&name).is_err(), "{story}");
        // The reader of the log does not need the note: an anchor in a store has none.
        if !matches!(story, "another state" | "another body") {
            assert!(reader(&disk).open_snapshot(&name).is_err(), "{story}");
        }
    }
    // An unfinished file is no snapshot, and the next one that is made removes it.
    let temporary = snap().join(format!("{}.tmp", header.name()));
    put(&disk, &temporary, &bytes[..100]);
    put(&disk, &snap().join("notes.txt"), b"mine");
    assert_eq!(opened(&disk, &environment).2, Vec::<String>::new());
    let (ledger, _) = Ledger::open_with(&dir(), &environment).unwrap();
    ledger.snapshot::<State>().unwrap();
    assert!(disk.read(&temporary).is_err());
    assert_eq!(disk.read(&snap().join("notes.txt")).unwrap(), b"mine");
}

/// Goal: no snapshot at all, and an unreadable folder, cost only time.
#[test]
fn log_without_snapshots_is_folded_from_the_start() {
    let (disk, environment) = three();
    let hashes = truth(&disk);
    let calls = disk.fork().calls();
    for path in files(&disk) {
        disk.remove(&path).unwrap();
    }
    let (hash, from, notes) = opened(&disk, &environment);
    assert_eq!((hash, from, notes), (hashes[hashes.len() - 1], None, Vec::new()));
    // Any disk call of a read of the past may fail: the answer is right, or an error.
    let (disk, environment) = three();
    let view = LedgerView::open(&dir(), &environment).unwrap();
    let before = disk.calls();
    view.state_at(63).unwrap();
    let span = disk.calls() - before;
    assert!(span > 3 && calls > 0);
    for _ in 0..span {
        for call in 1..=span {
            let (kind, effect) = (io::ErrorKind::Other, FaultEffect::Nothing);
            disk.fail_at(Fault { call: disk.calls() + call, kind, effect });
            if let Ok(state) = view.state_at(63) {
                assert_eq!(state_hash(&state), hashes[63], "call {call}");
            }
            // Clear what is left of the fault plan.
            let _ = (0..span * 3).try_for_each(|_| disk.list(&snap()).map(|_| ()));
        }
    }
}

/// Goal: a snapshot that a snapshot note contradicts is not used.
#[test]
fn snapshot_contradicted_by_a_note_is_not_used() {
    let (disk, environment) = three();
    let newest = files(&disk).pop().unwrap();
    let header = SnapshotHeader::decode(&disk.read(&newest).unwrap()).unwrap();
    let agreed = SnapshotNote::of(&header);
    let lie = SnapshotNote { state_hash: "00".repeat(32), ..agreed.clone() };
    let about = [
        (agreed.clone(), Some(60)),
        (lie.clone(), Some(40)),
        (SnapshotNote { version: State::VERSION + 1, ..lie.clone() }, Some(60)),
        (SnapshotNote { seq: 59, ..lie.clone() }, Some(60)),
        (SnapshotNote { chain: "11".repeat(32), ..agreed }, Some(40)),
    ];
    for (note, expected) in about {
        let disk = disk.fork();
        let options = crate::lab::options(&disk);
        let (log, _) = plan_ledger::log::Log::open(&dir(), options, 1).unwrap();
        log.append(&[note.record()], 1).unwrap();
        log.close().unwrap();
        let (hash, from, notes) = opened(&disk, &environment);
        assert_eq!(Some(&hash), truth(&disk).last());
        assert_eq!(from, expected, "{note:?}");
        assert_eq!(notes.len(), usize::from(expected == Some(40)), "{notes:?}");
    }
}

/// Goal: a full or failing disk costs a snapshot and nothing else, and the next interval has
/// its snapshot again.
#[test]
fn failed_snapshot_is_made_at_the_next_interval() {
    let disk = SimDisk::new();
    let environment = environment(&disk, 100);
    let ledger = Ledger::create(&dir(), &environment).unwrap();
    play(&ledger, 6, 70);
    // Space for the log, which exists already, and for no new file.
    let used: usize = disk.files(&dir()).iter().map(|path| disk.read(path).unwrap().len()).sum();
    disk.set_capacity(place(used) + 300);
    play(&ledger, 7, 110);
    assert_eq!(snapshot_seqs(&disk), [0; 0]);
    let warnings = ledger.warnings();
    assert!(warnings[0].starts_with("no snapshot at record 100: "), "{warnings:?}");
    disk.set_capacity(u64::MAX);
    play(&ledger, 8, 150);
    assert_eq!(snapshot_seqs(&disk), [0; 0], "not before the next seq");
    play(&ledger, 9, 210);
    assert_eq!((snapshot_seqs(&disk), ledger.warnings()), (vec![200], warnings));
    ledger.close().unwrap();
    assert_eq!(opened(&disk, &environment).1, Some(200));
}

/// Goal: full snapshots are kept permanently, and the newest two of each projection.
#[test]
fn old_snapshots_between_intervals_are_removed() {
    let disk = SimDisk::new();
    let ledger = Ledger::create(&dir(), &environment(&disk, 50)).unwrap();
    for records in [10, 20, 30, 60, 70] {
        play(&ledger, records, records);
        ledger.snapshot::<State>().unwrap();
        ledger.snapshot::<Count>().unwrap();
    }
    let list = reader(&disk).snapshots().unwrap();
    let of = |name: &str| {
        let ours = list.names.iter().filter(|each| each.projection == name);
        ours.map(|each| each.seq).collect::<Vec<_>>()
    };
    let (states, counts) = (of("state"), of("count"));
    assert!(states.len() == 3 && states.contains(&50), "{states:?}");
    assert_eq!(counts.len(), 2, "{counts:?}");
    let end = ledger.head().seq;
    assert_eq!(ledger.project::<Count>(end).unwrap().0, end);
    assert_eq!(ledger.project::<Count>(17).unwrap().0, 17);
}

/// Story: a log grew past a full interval and a delta interval at once, because it was killed
/// while the full snapshot was made, and then had no full snapshot there permanently.
#[test]
fn full_snapshot_is_not_skipped_for_a_later_delta() {
    let disk = SimDisk::new();
    let environment = environment(&disk, 65_536);
    Ledger::create(&dir(), &environment).unwrap().close().unwrap();
    append_unknown(&disk, 65_536 + 16_384);
    let (ledger, _) = Ledger::open_with(&dir(), &environment).unwrap();
    let scope = plan_ledger::plan::CapScope::Ledger;
    let command = plan_ledger::Command::SetCap { scope, limit: Some(1), by: "ann".to_owned() };
    ledger.execute(&command).unwrap();
    drop(ledger);
    assert_eq!(snapshot_seqs(&disk), [65_536, 65_536 + 16_384]);
}

/// Goal: a handle that is open for months keeps each warning once.
/// Story: each time travel that met a damaged snapshot added a warning; a service with a
/// thousand of them had a thousand warnings, and kept them all.
#[test]
fn damaged_snapshot_is_warned_about_once() {
    let (disk, environment) = three();
    let (ledger, _) = Ledger::open_with(&dir(), &environment).unwrap();
    for path in files(&disk) {
        disk.overwrite(&path, 520, &[0xFF]).unwrap();
    }
    let looked = || (0..10).for_each(|_| drop(ledger.state_at(60).unwrap()));
    looked();
    let once = ledger.warnings();
    looked();
    assert!(!once.is_empty());
    assert_eq!(ledger.warnings(), once);
    assert!(once.iter().enumerate().all(|(at, text)| !once[..at].contains(text)), "{once:?}");
}

/// Story: a snapshot on request failed beside a scheduled one, or made it fail: a writer
/// removes unfinished files, and removed the file of the other.
#[test]
fn concurrent_snapshots_do_not_remove_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let environment = Environment { snapshot_every: Some(3), ..Environment::system() };
    let ledger = Ledger::create(&folder.path().join("l"), &environment).unwrap();
    play(&ledger, 4, 40);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..30).for_each(|_| drop(ledger.snapshot::<State>().unwrap())));
        }
    });
    let warnings = ledger.warnings();
    assert!(warnings.is_empty(), "{warnings:?}");
    ledger.close().unwrap();
}

/// Goal: there is a snapshot at each delta interval while snapshots are small, and the disk is
/// not filled with large ones: of those between full snapshots the newest two are kept.
/// Method: records of unknown kinds are skipped, so a long log is made quickly.
#[test]
fn small_deltas_are_kept_and_of_large_ones_the_newest_two() {
    let quarters: Vec<u64> = (1..=6).map(|quarter| quarter * 16_384).collect();
    let (small, large) = (kept_after_each_quarter(10), kept_after_each_quarter(3 << 20));
    assert_eq!((small.len(), large.len()), (6, 6));
    for (count, (small, large)) in (1..).zip(small.into_iter().zip(large)) {
        assert_eq!(small, quarters[..count]);
        let recent = count.saturating_sub(2);
        let stays = |(at, seq): &(usize, &u64)| *at >= recent || **seq == 65_536;
        let expected = quarters[..count].iter().enumerate().filter(stays);
        assert_eq!(large, expected.map(|(_, seq)| *seq).collect::<Vec<_>>());
    }
}

/// The snapshots of a ledger with a variable of this many incompressible bytes, each time it was opened
/// after one of six quarters of a full interval.
fn kept_after_each_quarter(bytes: u64) -> Vec<Vec<u64>> {
    let disk = SimDisk::new();
    let environment = Environment { blob_threshold: usize::MAX, ..environment(&disk, 65_536) };
    let ledger = Ledger::create(&dir(), &environment).unwrap();
    let plan = serde_json::from_str(r#"{"steps": [{"id": "a"}]}"#).unwrap();
    let run = ledger.start_run("one", &plan, plan_ledger::RunPolicy::default()).unwrap();
    let mut rng = crate::rng::Rng(bytes);
    let noise: String = (0..bytes / 16).map(|_| format!("{:016x}", rng.below(u64::MAX))).collect();
    let value = plan_ledger::Json::new(&noise.into());
    ledger.set_variable(run, "noise", value, None, "ann").unwrap();
    ledger.close().unwrap();
    let kept = |quarter: u64| {
        let last = reader(&disk).head().unwrap().durable_seq;
        append_unknown(&disk, quarter * 16_384 - last);
        let (ledger, _) = Ledger::open_with(&dir(), &environment).unwrap();
        let (limit, by) = (u32::try_from(quarter).ok(), "ann".to_owned());
        let scope = plan_ledger::plan::CapScope::Ledger;
        ledger.execute(&plan_ledger::Command::SetCap { scope, limit, by }).unwrap();
        snapshot_seqs(&disk)
    };
    (1..=6).map(kept).collect()
}

/// Append this many records of a kind that may be skipped.
/// Append the note about a snapshot.
pub(crate) fn append_note(disk: &SimDisk, header: &SnapshotHeader) {
    let (log, _) = Log::open(&dir(), options(disk), header.time).unwrap();
    log.append(&[SnapshotNote::of(header).record()], header.time).unwrap();
    log.close().unwrap();
}

pub(crate) fn append_unknown(disk: &SimDisk, mut count: u64) {
    let options = LogOptions { stream_rule: RUN_STREAMS, ..options(disk) };
    let (log, _) = Log::open(&dir(), options, 0).unwrap();
    while count > 0 {
        let some = count.min(1000);
        let unknown = NewRecord { kind: 0x9000, codec: Codec::Raw, schema: 1, payload: Vec::new() };
        log.append(&vec![unknown; usize::try_from(some).unwrap()], 0).unwrap();
        count -= some;
    }
    log.close().unwrap();
}

/// Counts records.
#[derive(Debug, Default)]
struct Count(u64);

impl Projection for Count {
    const NAME: &'static str = "count";
    const VERSION: u32 = 3;

    fn apply(&mut self, _: &RecordedEvent) {
        self.0 += 1;
    }

    fn encode(&self, out: &mut dyn io::Write) -> io::Result<()> {
        out.write_all(&self.0.to_le_bytes())
    }

    fn decode(input: &mut dyn io::Read) -> io::Result<Self> {
        let mut bytes = [0; 8];
        input.read_exact(&mut bytes)?;
        Ok(Self(u64::from_le_bytes(bytes)))
    }
}

/// A projection with a body of any length.
#[derive(Debug, Default, PartialEq)]
struct Long(Vec<u8>);

impl Projection for Long {
    const NAME: &'static str = "long";
    const VERSION: u32 = 1;

    fn apply(&mut self, recorded: &RecordedEvent) {
        let mut rng = crate::rng::Rng(recorded.seq);
        // Some of it compresses well, some does not.
        let mask =
            if (recorded.seq / 11).is_multiple_of(2) { 0x0101_0101_0101_0101 } else { u64::MAX };
        for _ in 0..12_500 {
            self.0.extend_from_slice(&(rng.below(u64::MAX) & mask).to_le_bytes());
        }
    }

    fn encode(&self, out: &mut dyn io::Write) -> io::Result<()> {
        out.write_all(&self.0)
    }

    fn decode(input: &mut dyn io::Read) -> io::Result<Self> {
        let mut bytes = Vec::new();
        input.read_to_end(&mut bytes)?;
        Ok(Self(bytes))
    }
}

/// Make a snapshot of the state after the last record, and write it again: under another
/// version, with its body changed by `change`, and all checksums corrected.
fn make_and_change(
    ledger: &Ledger,
    environment: &Environment,
    dir: &Path,
    version: u32,
    change: impl Fn(&mut Vec<u8>),
) -> Snapshot {
    let mut made = ledger.snapshot::<State>().unwrap();
    let view = LedgerView::open(dir, environment).unwrap();
    let name = SnapshotName::parse(made.path.file_name().unwrap().to_str().unwrap()).unwrap();
    let header = view.check_snapshot(&name).unwrap();
    let mut body = Vec::new();
    view.state_at(made.seq).unwrap().encode(&mut body).unwrap();
    change(&mut body);
    let header = SnapshotHeader { version, body_length: 0, ..header };
    environment.storage.remove(&made.path).unwrap();
    let write = |out: &mut dyn io::Write| out.write_all(&body);
    made.path =
        plan_ledger::log::write_snapshot(&*environment.storage, dir, header, write).unwrap().1;
    made
}

/// Make a snapshot in which the last byte of the last run is changed.
pub(crate) fn make_forged(ledger: &Ledger, environment: &Environment, dir: &Path) -> Snapshot {
    make_and_change(ledger, environment, dir, State::VERSION, |body| {
        *body.last_mut().unwrap() ^= 1;
    })
}

/// Goal: snapshots of another version of the state are ignored: the ledger opens without an
/// error or a warning, with the same state, and the files are left as they are.
#[test]
fn snapshots_of_another_version_are_ignored() {
    let (disk, environment) = three();
    let (ledger, _) = Ledger::open_with(&dir(), &environment).unwrap();
    let older = make_and_change(&ledger, &environment, &dir(), State::VERSION + 1, |body| {
        *body = b"what another version wrote".to_vec();
    });
    let hash = ledger.state_hash().unwrap();
    ledger.close().unwrap();
    assert!(older.seq > 60, "it would be the newest");
    assert_eq!(opened(&disk, &environment), (hash, Some(60), Vec::new()));

    for path in files(&disk).into_iter().filter(|path| *path != older.path) {
        disk.remove(&path).unwrap();
    }
    assert_eq!(opened(&disk, &environment), (hash, None, Vec::new()));
    let view = LedgerView::open(&dir(), &environment).unwrap();
    let then = truth(&disk)[usize::try_from(older.seq).unwrap()];
    assert_eq!(state_hash(&view.state_at(older.seq).unwrap()), then);
    let report = replayed(&environment);
    assert_eq!((report.condition(), report.snapshots), (LedgerCondition::Valid, 1), "{report:?}");
    // The ledger continues: the next snapshot has this version, beside the old one.
    let (ledger, _) = Ledger::open_with(&dir(), &environment).unwrap();
    let made = ledger.snapshot::<State>().unwrap();
    assert_eq!(ledger.warnings(), Vec::<String>::new());
    ledger.close().unwrap();
    assert_eq!(opened(&disk, &environment).1, Some(made.seq));
    assert!(files(&disk).contains(&older.path));
}

/// Story: a state of another course of events, with valid checksums and the chain value of this log, was
/// put into the folder of snapshots. It decided what was dispatched, and verification of the log against
/// a root that was kept elsewhere confirmed it.
/// Method: the state of another ledger at the same record, newest of all; then a note about another
/// state.
#[test]
fn snapshot_without_a_note_in_the_log_is_never_used() {
    let (disk, environment) = three();
    let (other, other_environment) = three_of(6);
    let foreign = LedgerView::open(&dir(), &other_environment).unwrap().state_at(63).unwrap();
    drop(other);
    let view = LedgerView::open(&dir(), &environment).unwrap();
    let (truth, record) = (truth(&disk), reader(&disk).record(63).unwrap().unwrap());
    let at = |seq: u64| truth[usize::try_from(seq).unwrap()];
    let last = reader(&disk).head().unwrap().durable_seq;
    let genuine = view.log().snapshots().unwrap().names.remove(2);
    let header = SnapshotHeader {
        seq: 63,
        time: record.time,
        chain: record.chain,
        state_hash: state_hash(&foreign).0,
        body_length: 0,
        base: None,
        ..view.check_snapshot(&genuine).unwrap()
    };
    assert_ne!(header.state_hash, at(63).0);
    let write = |out: &mut dyn io::Write| foreign.encode(out);
    let written = plan_ledger::log::write_snapshot(&disk, &dir(), header, write).unwrap();
    let (hash, from, notes) = opened(&disk, &environment);
    assert_eq!((hash, from), (at(last), Some(60)));
    assert!(notes.is_empty(), "a crash may have left it: {notes:?}");
    let view = LedgerView::open(&dir(), &environment).unwrap();
    for seq in 60..=last {
        assert_eq!(state_hash(&view.state_at(seq).unwrap()), at(seq), "{seq}");
    }
    let report = replayed(&environment);
    let found: Vec<_> = report.log.findings.iter().filter(|it| it.path == written.1).collect();
    assert!(found.iter().any(|it| it.class == FindingClass::Warning), "{found:?}");

    // A genuine one whose note did not become durable is not used either.
    disk.remove(&written.1).unwrap();
    let (ledger, _) = Ledger::open_with(&dir(), &environment).unwrap();
    let seq = ledger.head().seq;
    let made = ledger.snapshot::<State>().unwrap();
    assert_eq!(made.seq, seq);
    ledger.close().unwrap();
    assert_eq!(opened(&disk, &environment).1, Some(seq));
    let name = made.path.file_name().unwrap();
    let (bare, environment) = three();
    bare.create(&snap().join(name)).unwrap().write_at(&disk.read(&made.path).unwrap(), 0).unwrap();
    assert_eq!(opened(&bare, &environment).1, Some(60));
}

/// Goal: a run whose bytes in a snapshot do not have its hash has no effect, although the bytes
/// are only checked when the run is used.
/// Method: make a snapshot in which every checksum except the run's is right, use the run in
/// every way, and remove the snapshot.
#[test]
fn run_with_a_wrong_hash_is_never_used() {
    let (disk, environment) = three();
    let (ledger, _) = Ledger::open_with(&dir(), &environment).unwrap();
    let forged = make_forged(&ledger, &environment, &dir());
    let (hash, seq) = (ledger.state_hash().unwrap(), ledger.state().unwrap().seq);
    let run = *ledger.state().unwrap().runs.keys().last().unwrap();
    ledger.close().unwrap();

    let (ledger, report) = Ledger::open_with(&dir(), &environment).unwrap();
    assert_eq!((ledger.state_hash().unwrap(), report.from_snapshot), (hash, Some(forged.seq)));
    let refused = ledger.pause(run, "me", "").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
    assert!(refused.to_string().contains("nothing was written; remove the files"), "{refused}");
    assert_eq!(ledger.state().unwrap().seq, seq);
    drop(ledger);

    // A view folds from an older snapshot.
    let view = LedgerView::open(&dir(), &environment).unwrap();
    let found = view.log().snapshots().unwrap().names;
    let name = found.iter().find(|name| name.seq == forged.seq).unwrap();
    assert_eq!(view.check_snapshot(name).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_ne!(replayed(&environment).condition(), LedgerCondition::Valid);

    disk.remove(&forged.path).unwrap();
    let (ledger, report) = Ledger::open_with(&dir(), &environment).unwrap();
    assert_eq!((ledger.state_hash().unwrap(), report.from_snapshot), (hash, Some(60)));
    let paused = ledger.pause(run, "me", "");
    assert!(!matches!(paused.map_err(|error| error.kind()), Err(ErrorKind::Corrupt)));
}

/// A body of a state in which the last byte of a leaf of the newest run is changed.
fn with_changed_leaf(body: &[u8]) -> Vec<u8> {
    let state = State::decode(&mut &body[..]).unwrap();
    let mut runs = state.runs.stored().filter_map(|(_, form)| match form {
        StoredRun::Packed(packed) => packed.leaves.first(),
        StoredRun::Unpacked(_) => None,
    });
    let leaf = &runs.next_back().unwrap().bytes;
    let at = body.windows(leaf.len()).position(|window| *window == **leaf).unwrap();
    let mut changed = body.to_vec();
    changed[at + leaf.len() - 1] ^= 1;
    changed
}

/// Goal: a leaf whose bytes do not have its hash ends the command before anything is decided, is never
/// copied, and never reads as steps that are absent.
#[test]
fn leaf_with_a_wrong_hash_is_never_used() {
    let (disk, environment) = three();
    let (ledger, _) = Ledger::open_with(&dir(), &environment).unwrap();
    let forged = make_and_change(&ledger, &environment, &dir(), State::VERSION, |body| {
        *body = with_changed_leaf(body);
    });
    let (hash, seq) = (ledger.state_hash().unwrap(), ledger.state().unwrap().seq);
    let run = *ledger.state().unwrap().runs.keys().last().unwrap();
    ledger.close().unwrap();
    let (ledger, report) = Ledger::open_with(&dir(), &environment).unwrap();
    assert_eq!(report.from_snapshot, Some(forged.seq));
    // The run needs no leaf, and a step needs its own.
    assert_eq!(ledger.state().unwrap().runs[&run].id, run);
    let (by, step) = ("me".to_owned(), StepNumber(1));
    let skip = Command::Skip { run, step, by, reason: String::new() };
    let refused = ledger.execute(&skip).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
    assert!(refused.to_string().contains("a leaf of its steps"), "{refused}");
    assert_eq!(ledger.head().seq, seq);
    drop(ledger);
    assert_ne!(replayed(&environment).condition(), LedgerCondition::Valid);
    disk.remove(&forged.path).unwrap();
    assert_eq!(opened(&disk, &environment), (hash, Some(60), Vec::new()));

    let changed = with_changed_leaf(&body_at_60());
    let state = State::decode(&mut changed.as_slice()).unwrap();
    let error = state.encode(&mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("do not have its hash"), "{error}");
}

/// Goal: an audit computes the hashes of states from their values. The hash of a leaf that was kept too
/// long would be in the note of a later snapshot.
#[test]
fn changed_leaf_is_found_by_an_audit() {
    let (_disk, environment) = three();
    let view = LedgerView::open(&dir(), &environment).unwrap();
    let statuses = |seq| {
        let state = view.state_at(seq).unwrap();
        let of_run = |run: &Run| run.steps.iter().map(|step| step.last_seq).collect::<Vec<_>>();
        state.runs.values().map(of_run).collect::<Vec<_>>()
    };
    assert_ne!(statuses(20), statuses(40));
    assert_ne!(statuses(40), statuses(60));
    let report = replayed(&environment);
    assert_eq!(report.condition(), LedgerCondition::Valid, "{report:?}");
}

/// Goal: a scheduled snapshot does not copy a run's bytes if they do not have the run's hash,
/// even if the run was never used.
#[test]
fn run_with_a_wrong_hash_is_not_copied_to_a_new_snapshot() {
    let mut body = body_at_60();
    let again = |body: &[u8]| {
        let mut copy = Vec::new();
        State::decode(&mut &body[..]).unwrap().encode(&mut copy).map(|()| copy)
    };
    assert_eq!(again(&body).unwrap(), body);
    *body.last_mut().unwrap() ^= 1;
    let error = again(&body).unwrap_err();
    assert!(error.to_string().contains("do not have its hash"), "{error}");
}

/// Goal: the overview of a run in a snapshot is compared with the run when the run is used.
#[test]
fn run_overview_is_compared_with_the_run() {
    let body = body_at_60();
    let mut state = State::decode(&mut body.as_slice()).unwrap();
    let packed = state.runs.stored().find_map(|(id, form)| match form {
        StoredRun::Packed(packed) => Some((id, Arc::clone(packed))),
        StoredRun::Unpacked(_) => None,
    });
    let (id, packed) = packed.unwrap();
    let with = |overview: RunOverview| {
        let (bytes, hash, unpack) = (packed.bytes.clone(), packed.hash, packed.unpack);
        let (plans, leaves) = (packed.plans.clone(), packed.leaves.clone());
        Arc::new(PackedRun { overview, hash, bytes, plans, leaves, unpack })
    };
    state.runs.insert_packed(id, with(packed.overview.clone()));
    assert!(state.runs.get(&id).is_some() && state.runs.fault().is_none());
    let attempts = packed.overview.attempts + 1;
    state.runs.insert_packed(id, with(RunOverview { attempts, ..packed.overview.clone() }));
    assert!(state.runs.get(&id).is_none());
    assert!(state.runs.fault().is_some_and(|fault| fault.contains("its overview differs")));
}

/// A projection that cannot be encoded.
#[derive(Debug, Default)]
struct Unencodable;

impl Projection for Unencodable {
    const NAME: &'static str = "unencodable";
    const VERSION: u32 = 1;

    fn apply(&mut self, _: &RecordedEvent) {}

    fn encode(&self, out: &mut dyn io::Write) -> io::Result<()> {
        out.write_all(b"half of it")?;
        Err(io::Error::other("a key that is no text"))
    }

    fn decode(_: &mut dyn io::Read) -> io::Result<Self> {
        Ok(Self)
    }
}

/// Story: a projection that could not be encoded, for whatever reason, was reported as too
/// large.
#[test]
fn projection_that_cannot_be_encoded_is_reported_as_such() {
    let (disk, environment) = three();
    let (ledger, _) = Ledger::open_with(&dir(), &environment).unwrap();
    let before = (ledger.head(), files(&disk));
    let error = ledger.snapshot::<Unencodable>().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unencodable, "{error}");
    assert!(error.to_string().contains("encode the snapshot: a key that is no text"), "{error}");
    assert_eq!((ledger.head(), files(&disk)), before);
}

/// Goal: bodies of several chunks, full and not, round-trip, and damage is located to its
/// chunk.
#[test]
fn bodies_of_many_chunks_are_checked_chunk_by_chunk() {
    let (disk, environment) = three();
    let (ledger, _) = Ledger::open_with(&dir(), &environment).unwrap();
    let made = ledger.snapshot::<Long>().unwrap();
    let view = LedgerView::open(&dir(), &environment).unwrap();
    let expected = ledger.project::<Long>(made.seq).unwrap();
    assert_eq!(place(expected.0.len()), made.seq * 100_000);
    let name = SnapshotName::parse(made.path.file_name().unwrap().to_str().unwrap()).unwrap();
    view.check_snapshot(&name).unwrap();
    let bytes = disk.read(&made.path).unwrap();
    let chunks = chunks(&bytes);
    let packed = chunks.iter().filter(|chunk| chunk.len() < 1 << 20).count();
    assert!(chunks.len() >= 5 && packed >= 2 && packed < chunks.len(), "{chunks:?}");
    for chunk in &chunks {
        // In its length, in its data, in its checksum.
        for at in [chunk.start, chunk.start + 2, chunk.start + 77, chunk.end - 1] {
            disk.overwrite(&made.path, place(at), &[bytes[at] ^ 0x10]).unwrap();
            let error = view.check_snapshot(&name).unwrap_err();
            assert_eq!(error.location().offset, Some(place(chunk.start)), "byte {at}: {error}");
            assert_eq!(view.project::<Long>(made.seq).unwrap(), expected);
            disk.overwrite(&made.path, place(at), &[bytes[at]]).unwrap();
        }
    }
    // Two swapped chunks are both invalid.
    let swapped = [&bytes[chunks[1].clone()], &bytes[chunks[0].clone()]].concat();
    disk.overwrite(&made.path, 512, &swapped).unwrap();
    assert_eq!(view.check_snapshot(&name).unwrap_err().location().offset, Some(512));
}

/// The offsets of the chunks of a snapshot's file.
fn chunks(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    let mut start = 512;
    while start < bytes.len() {
        let length = u32::from_le_bytes(bytes[start..start + 4].try_into().unwrap());
        let end = start + 4 + usize::try_from(length).unwrap() + 4;
        found.push(start..end);
        start = end;
    }
    assert_eq!(start, bytes.len());
    found
}

/// Goal: damage before a valid snapshot is reported, and the state after it is still complete.
#[test]
fn fold_resumes_from_a_snapshot_after_damage() {
    let (disk, environment) = three();
    let hashes = truth(&disk);
    let records: Vec<_> = reader(&disk).records(1).map(Result::unwrap).collect();
    let (segment, _) = crate::lab::segments(&disk).remove(0);
    for (seq, expected) in [(3, Some(20)), (39, Some(40)), (40, Some(60)), (62, None)] {
        let disk = disk.fork();
        let environment = Environment { storage: Arc::new(disk.clone()), ..environment.clone() };
        disk.overwrite(&segment, records[seq - 1].offset + 50, &[0xEE; 3]).unwrap();
        let view = LedgerView::open(&dir(), &environment).unwrap();
        let fold = view.fold(u64::MAX).unwrap();
        assert_eq!(fold.damage.len(), 1, "{seq}: {:?}", fold.damage);
        assert_eq!(fold.from_snapshot, expected, "{seq}: {:?}", fold.ignored_snapshots);
        let whole = if expected.is_some() { hashes.len() - 1 } else { seq - 1 };
        assert_eq!(state_hash(&fold.state), hashes[whole], "{seq}");
        let behind = if expected.is_some() { 0 } else { hashes.len() - 1 - seq };
        assert_eq!(fold.after_damage, place(behind), "{seq}");
        assert_eq!(place(hashes.len() - 2), fold.records, "{seq}");
        // Without the snapshots there is no state after the damage.
        for path in files(&disk) {
            disk.remove(&path).unwrap();
        }
        let fold = LedgerView::open(&dir(), &environment).unwrap().fold(u64::MAX).unwrap();
        assert_eq!((fold.from_snapshot, state_hash(&fold.state)), (None, hashes[seq - 1]));
    }
}

/// Goal: opening reads the records after the snapshot, and not the segments before.
#[test]
fn opening_reads_nothing_before_the_snapshot() {
    let disk = SimDisk::new();
    let ledger = Ledger::create(&dir(), &quiet(&disk)).unwrap();
    let policy = plan_ledger::RunPolicy::default();
    let run = ledger.start_run(
        "large",
        &serde_json::from_str(r#"{"steps": [{"id": "a"}]}"#).unwrap(),
        policy,
    );
    let run = run.unwrap();
    for number in 0..15 {
        let value = plan_ledger::Json::new(&vec![number; 40_000].into());
        ledger.set_variable(run, "large", value, None, "ann").unwrap();
    }
    let made = ledger.snapshot::<State>().unwrap();
    play(&ledger, 11, 60);
    let hash = ledger.state_hash().unwrap();
    ledger.close().unwrap();
    let segments = crate::lab::segments(&disk);
    assert!(segments.len() > 1, "one segment only");
    // Reading this would be noticed.
    disk.overwrite(&segments[0].0, 4096 + 50, &[0xEE; 3]).unwrap();
    let (found, from, _) = opened(&disk, &quiet(&disk));
    assert_eq!((found, from), (hash, Some(made.seq)));
}

/// Goal: bytes with valid checksums that encode no state are rejected: by decoding, by the
/// state hash, or when a run is used. No other state is ever accepted, and there is no panic.
#[test]
fn forged_bodies_are_rejected() {
    let (disk, environment) = three();
    let view = LedgerView::open(&dir(), &environment).unwrap();
    let mut body = Vec::new();
    let state = view.state_at(60).unwrap();
    state.encode(&mut body).unwrap();
    let taken = |body: &[u8]| {
        let read = State::decode(&mut &*body).ok().filter(|read| read.hash() == state.hash());
        read.filter(|read| read.validate().is_none())
    };
    let whole = format!("{state:?}");
    assert_eq!(taken(&body).map(|read| format!("{read:?}")), Some(whole.clone()));
    let mut refused = 0;
    for length in 0..body.len() {
        assert!(State::decode(&mut &body[..length]).is_err(), "cut at {length}");
    }
    for at in 0..body.len() {
        for value in [body[at] ^ 1, body[at] ^ 0x80, 0xFD, 0xFF] {
            let mut forged = body.clone();
            forged[at] = value;
            match taken(&forged) {
                Some(read) => assert_eq!(format!("{read:?}"), whole, "{value} at {at}"),
                None => refused += 1,
            }
        }
    }
    assert!(refused > body.len() * 2, "{refused} of {}", body.len() * 4);
    drop(disk.open(&files(&disk)[0], Access::Read).unwrap());
}

/// Goal: the example runs.
#[test]
fn projection_example_runs() {
    example::main().unwrap();
}

/// Goal: `ledger snapshot` reports what it made, and the ledger opens from it.
#[test]
fn snapshot_command_makes_a_snapshot() {
    let place = crate::command::Place::new();
    let dir = place.path("l");
    let ledger = Ledger::create(&dir, &Environment::system()).unwrap();
    play(&ledger, 12, 30);
    let (seq, hash) = (ledger.head().seq, ledger.state_hash().unwrap());
    ledger.close().unwrap();
    let said = place.ledger_with(&["snapshot", "l", "--json"]).code(0);
    let value: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((&value["seq"], &value["type"]), (&seq.into(), &"snapshot".into()));
    assert_eq!(value["state_hash"], hash.to_string());
    assert!(place.path(value["file"].as_str().unwrap()).is_file());
    let said = place.ledger_with(&["snapshot", "l"]).code(0);
    assert!(said.out.starts_with(&format!("record {}: state ", seq + 1)), "{}", said.out);
    let (_, report) = Ledger::open_with(&dir, &Environment::system()).unwrap();
    assert_eq!(report.from_snapshot, Some(seq + 1));
    place.ledger_with(&["snapshot", "nowhere"]).code(2);
}

/// The content of each record, in order.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen(Vec<(u64, u64)>);

impl Projection for Seen {
    const NAME: &'static str = "seen";
    const VERSION: u32 = 1;

    fn apply(&mut self, recorded: &RecordedEvent) {
        self.0.push((recorded.seq, recorded.time));
    }

    fn encode(&self, _: &mut dyn io::Write) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn decode(_: &mut dyn io::Read) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Goal: each record is folded once, in order, up to the requested one, and damage after it has
/// no effect.
/// Story: the state before record 4,000 was refused when that record was damaged.
#[test]
fn damage_after_the_requested_record_has_no_effect() {
    const RECORDS: u64 = 5_000;
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), 1).unwrap();
    for time in 1..=RECORDS / 100 {
        let record = |n: u8| NewRecord {
            kind: 0x9000,
            codec: Codec::Raw,
            schema: 1,
            payload: vec![n; usize::from(n)],
        };
        let records: Vec<_> = (1..=100).map(record).collect();
        log.append(&records, time).unwrap();
    }
    log.close().unwrap();
    let all: Vec<_> = reader(&disk)
        .records(1)
        .map(|record| record.unwrap())
        .map(|it| (it.seq, it.time))
        .collect();
    let open = || LedgerView::open(&dir(), &quiet(&disk)).unwrap();
    let whole = open();
    for seq in [1, 2, 63, 64, 65, 66, 129, 1_024, 3_333, RECORDS] {
        let seen: Seen = whole.project(seq).unwrap();
        assert_eq!(seen.0, all[..usize::try_from(seq).unwrap()], "up to {seq}");
    }
    let beyond = whole.project::<Seen>(RECORDS + 1).unwrap_err();
    assert_eq!(beyond.kind(), ErrorKind::OutOfRange);

    let broken = reader(&disk).records(4_000).next().unwrap().unwrap();
    disk.overwrite(&log_files(&disk)[0].0, broken.offset + 60, &[0xFF]).unwrap();
    let damaged = open();
    assert_eq!(damaged.project::<Seen>(3_999).unwrap().0, all[..3_999]);
    let fold = damaged.fold(3_999).unwrap();
    assert_eq!((fold.state.seq, fold.damage.len()), (3_999, 0));
    assert_eq!(damaged.changes(3_990, 3_999).unwrap().1.seq, 3_999);
    for seq in [4_000, 4_500, RECORDS] {
        let error = damaged.project::<Seen>(seq).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "up to {seq}");
        assert_eq!(error.location().seq, Some(4_000), "up to {seq}");
    }
}

/// Reports the largest number of instances at one time.
struct Single(());

static ALIVE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

impl Default for Single {
    fn default() -> Self {
        MOST.fetch_max(ALIVE.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        Self(())
    }
}

impl Drop for Single {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Projection for Single {
    const NAME: &'static str = "single";
    const VERSION: u32 = 1;

    fn apply(&mut self, _: &RecordedEvent) {
        // Gives other threads the time to enter.
        for _ in 0..1_000 {
            if ALIVE.load(Ordering::SeqCst) > 1 {
                return;
            }
            std::thread::yield_now();
        }
    }

    fn encode(&self, _: &mut dyn io::Write) -> io::Result<()> {
        Ok(())
    }

    fn decode(_: &mut dyn io::Read) -> io::Result<Self> {
        Ok(Self::default())
    }
}

/// Goal: concurrent requests for snapshots are served one after the other.
/// Story: two at once left neither of two processors to commands, and the slowest commands took
/// several times as long.
#[test]
fn snapshots_are_made_one_at_a_time() {
    let (_, environment) = three();
    let (ledger, _) = Ledger::open_with(&dir(), &environment).unwrap();
    std::thread::scope(|scope| {
        let made = [(); 3].map(|()| scope.spawn(|| ledger.snapshot::<Single>()));
        for made in made {
            made.join().unwrap().unwrap();
        }
    });
    assert_eq!((MOST.load(Ordering::SeqCst), ALIVE.load(Ordering::SeqCst)), (1, 0));
}

/// Goal: opening reads the newest snapshot once, on a thread of its own while the log is
/// recovered; with inline background work there is no such thread.
#[test]
fn newest_snapshot_is_prefetched_during_recovery() {
    let readers: Arc<Mutex<Vec<Option<String>>>> = Arc::default();
    let seen = readers.clone();
    let storage = Arc::new(Traced::watched(move |call| {
        if let Call::Open(path, _) = call
            && path.extension().is_some_and(|it| it == "snap")
        {
            let name = std::thread::current().name().map(str::to_owned);
            seen.lock().unwrap().push(name);
        }
    }));
    let inline = Environment { storage, ..quiet(&SimDisk::new()) };
    let ledger = Ledger::create(&dir(), &inline).unwrap();
    play(&ledger, 5, 65);
    ledger.snapshot::<State>().unwrap();
    ledger.close().unwrap();
    let own = std::thread::current().name().map(str::to_owned);
    let beside = Some("newest-snapshot".to_owned());
    for (background_work, reader) in
        [(BackgroundWork::Inline, own), (BackgroundWork::Thread, beside)]
    {
        readers.lock().unwrap().clear();
        let environment = Environment { background_work, ..inline.clone() };
        let (_, report) = Ledger::open_with(&dir(), &environment).unwrap();
        assert!(report.from_snapshot.is_some());
        assert_eq!(*readers.lock().unwrap(), [reader]);
    }
}

/// Goal: many reads of the past list the snapshots once, and stay correct when snapshots are
/// removed, damaged or added.
#[test]
fn snapshot_list_is_cached() {
    let lists: Arc<Mutex<usize>> = Arc::default();
    let counted = lists.clone();
    let traced = Traced::watched(move |call| {
        *counted.lock().unwrap() += usize::from(*call == Call::List(snap()));
    });
    let disk = traced.disk.clone();
    let storage = Arc::new(traced);
    let ledger =
        Ledger::create(&dir(), &Environment { storage: storage.clone(), ..environment(&disk, 20) });
    play(ledger.as_ref().unwrap(), 5, 65);
    ledger.unwrap().close().unwrap();
    let hashes = truth(&disk);
    let quiet = Environment { storage, ..quiet(&disk) };
    let view = LedgerView::open(&dir(), &quiet).unwrap();
    let look = |seq: usize, expected: usize| {
        let before = *lists.lock().unwrap();
        assert_eq!(state_hash(&view.state_at(place(seq)).unwrap()), hashes[seq], "record {seq}");
        assert_eq!(*lists.lock().unwrap() - before, expected, "record {seq}");
    };
    look(65, 1);
    (20..hashes.len()).for_each(|seq| look(seq, 0));
    // Before the first snapshot, a cached list cannot prove that there is none.
    look(10, 1);
    let newest = files(&disk).pop().unwrap();
    let bytes = disk.read(&newest).unwrap();
    disk.remove(&newest).unwrap();
    look(65, 1);
    look(65, 0);
    disk.create(&newest).unwrap().write_at(&bytes, 0).unwrap();
    look(65, 0);
    disk.overwrite(&files(&disk)[1], 600, &[!bytes[600]]).unwrap();
    look(50, 1);
    look(50, 1);
    look(65, 0);
}

/// Goal: numbers with many digits round-trip exactly. The fast parser gets the last digit of
/// almost one in ten wrong: then the text of a plan in a snapshot does not have its hash.
#[test]
fn plan_with_long_numbers_round_trips_in_a_snapshot() {
    let numbers = [90.422_252_909_423_83, 42.215_889_504_792_884, 19.243_053_591_130_522];
    let disk = SimDisk::new();
    let environment = quiet(&disk);
    let ledger = Ledger::create(&dir(), &environment).unwrap();
    let mut step = Step { id: "a".into(), goal: "g".into(), ..Step::default() };
    step.extra.insert("of step".into(), serde_json::json!(numbers));
    let mut plan = Plan { title: "t".into(), steps: vec![step], ..Plan::default() };
    plan.extra.insert("of plan".into(), serde_json::json!(numbers));
    let run = ledger.start_run("run", &plan, RunPolicy::default()).unwrap();
    ledger.snapshot::<State>().unwrap();
    let before = ledger.state_hash().unwrap();
    ledger.close().unwrap();
    let (hash, from, notes) = opened(&disk, &environment);
    assert!((hash, from.is_some(), notes.is_empty()) == (before, true, true));
    let (ledger, _) = Ledger::open_with(&dir(), &environment).unwrap();
    let state = ledger.state().unwrap();
    assert_eq!(state.validate(), None);
    assert_eq!(*state.runs[&run].versions[0].plan, plan);
    assert_eq!(replayed(&environment).condition(), LedgerCondition::Valid);
}
