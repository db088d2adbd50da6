//! `verify` and `root`: levels, jobs, live ledgers, expectations, exit codes.

use std::fs;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use plan_ledger::internals::format::{Chain, Codec, NewRecord};
use plan_ledger::internals::ledger::{LedgerCondition, VerifyLevel, VerifyRequest};
use plan_ledger::internals::sim::SimDisk;
use plan_ledger::internals::storage::{DiskStorage, Storage};
use plan_ledger::log::{
    ChainCheck, Completion, ExpectationResult, ExpectedChain, FindingClass, Log, LogItem,
    LogOptions, LoggedRecord, SegmentSizes, Verification, VerifyFinding, VerifyOptions, root,
    verify,
};
use plan_ledger::{
    Environment, ErrorKind, HeadSync, Json, Ledger, Plan, Projection as _, Receipt, RunPolicy,
    State,
};
use serde_json::Value;

use super::command::Place;
use super::lab::{
    End, at, dir, fenced, kill, mix, open, options, options_with, reader, record, segments, whole,
};

fn storage(disk: &SimDisk) -> Arc<dyn Storage> {
    Arc::new(disk.clone())
}

fn jobs(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).unwrap()
}

fn found(disk: &SimDisk, number: usize) -> Verification {
    let options = VerifyOptions { jobs: jobs(number), ..VerifyOptions::DEFAULT };
    verify(&storage(disk), &dir(), options).unwrap()
}

/// A log of at least six segments: rotations, and a fence after each of some crashes, one of them
/// with no record before its logical end. Logs of different seeds have the same names and records.
fn long(seed: u64) -> SimDisk {
    let disk = SimDisk::new();
    let options = |turn| options_with(storage(&disk), (seed << 8) + turn, HeadSync::Interval);
    let mut log = Log::create(&dir(), options(0), at(0)).unwrap();
    for number in 0..6 {
        let zeros = vec![0; 700_000];
        let large = NewRecord { kind: 1, codec: Codec::Raw, schema: 1, payload: zeros };
        log.append(&[record(number, 90), record(number + 100, 200)], at(10 * number)).unwrap();
        let before = disk.read(&dir().join("HEAD")).unwrap();
        log.append(&[large], at(10 * number + 1)).unwrap();
        if number % 2 == 1 {
            // HEAD is stale, as after a power failure: a fence rewrites records.
            let head = disk.read(&dir().join("HEAD")).unwrap();
            let head = if number == 3 { before } else { head };
            log.append(&[record(number + 200, 50)], at(10 * number + 2)).unwrap();
            kill(&disk, log);
            disk.overwrite(&dir().join("HEAD"), 0, &head).unwrap();
            log = Log::open(&dir(), options(number), at(10 * number + 3)).unwrap().0;
        }
    }
    log.close().unwrap();
    disk
}

/// Splitting a log into ranges changes nothing: for any damage and any number of jobs, the findings
/// are those of one walk. 300 logs with one to three random faults each: bytes, sectors, whole
/// files moved, removed, copied, truncated, or replaced by those of another ledger.
#[test]
fn ranges_agree_with_one_walk() {
    let (healthy, stranger) = (long(1), long(2));
    assert_eq!(healthy.files(&dir()), stranger.files(&dir()));
    let (files, originals) = (segments(&healthy), whole(&reader(&healthy)));
    assert!(reader(&healthy).segments().len() >= 6);
    let mut damaged = 0;
    for seed in 0..300 {
        let disk = healthy.fork();
        for turn in 0..=mix(seed) % 3 {
            injure(&disk, &stranger, &files, mix(seed * 10 + turn));
        }
        let walked: Vec<VerifyFinding> = reader(&disk)
            .walk(1)
            .filter_map(|item| match item.unwrap() {
                LogItem::Damage(damage) => Some(VerifyFinding::from(damage)),
                _ => None,
            })
            .collect();
        damaged += usize::from(!walked.is_empty());
        let one = found(&disk, 1);
        let many = found(&disk, 3);
        assert_eq!(one.findings, many.findings, "seed {seed}");
        assert_eq!((one.counts, one.last), (many.counts, many.last), "seed {seed}");
        let header_end = |mut finding: VerifyFinding| {
            // A walk does not report the extent of a damaged header.
            if finding.offset == 0 && finding.end == 4096 {
                finding.end = 0;
            }
            finding
        };
        let named = one.findings.into_iter().filter(|each| each.class == FindingClass::Damage);
        let named: Vec<_> =
            named.map(header_end).filter(|each| !each.path.ends_with("HEAD")).collect();
        let walked: Vec<_> = walked.into_iter().map(header_end).collect();
        assert_eq!(named, walked, "seed {seed}");
        let is_named = !walked.is_empty() || one.opening.is_err();
        let is_whole = || whole(&reader(&disk)) == originals;
        assert!(is_named || is_whole(), "seed {seed}: {:?}", one.opening);
    }
    assert!(damaged > 150, "only {damaged} logs were damaged");
}

fn injure(disk: &SimDisk, stranger: &SimDisk, files: &[(PathBuf, u64)], seed: u64) {
    let pick = |salt: u64| {
        let place = mix(seed ^ salt) % u64::try_from(files.len()).unwrap();
        &files[usize::try_from(place).unwrap()]
    };
    let (path, used) = pick(1);
    // Another fault may have removed the file.
    let Ok(bytes) = disk.read(path) else { return };
    let byte = mix(seed ^ 2) % used;
    match mix(seed ^ 3) % 9 {
        // The file of the same name of another ledger.
        8 => {
            let bytes = stranger.read(path).unwrap();
            disk.set_length(path, 0).unwrap();
            disk.overwrite(path, 0, &bytes).unwrap();
        }
        0 => disk.overwrite(path, byte / 512 * 512, &[0; 512]).unwrap(),
        1 => disk.set_length(path, byte).unwrap(),
        2 => disk.remove(path).unwrap(),
        3 => {
            let (other, _) = pick(4);
            if disk.set_length(other, 0).is_ok() {
                disk.overwrite(other, 0, &bytes).unwrap();
            }
        }
        4 => disk.overwrite(path, byte % 4096, &[0x5A; 3]).unwrap(),
        _ => disk.overwrite(path, byte, &[0xA5, 0x5A]).unwrap(),
    }
}

/// Three segments, two of them sealed; batches of one to four records of about 4 KiB, so that a
/// piece may begin inside a batch.
fn large() -> SimDisk {
    let disk = SimDisk::new();
    let segments = SegmentSizes { first: 1 << 20, largest: 2 << 20 };
    let log = Log::create(&dir(), LogOptions { segments, ..options(&disk) }, at(0)).unwrap();
    for turn in 0..440 {
        let batch: Vec<_> = (0..=mix(turn) % 4).map(|n| record(turn * 4 + n, 4000)).collect();
        log.append(&batch, at(turn)).unwrap();
    }
    log.close().unwrap();
    assert_eq!(reader(&disk).segments().len(), 3);
    disk
}

/// Overwrite bytes anywhere; every third time in an index or a footer.
fn injure_any(disk: &SimDisk, files: &[(PathBuf, u64)], seed: u64) {
    let count = u64::try_from(files.len()).unwrap();
    let (path, _) = &files[usize::try_from(mix(seed) % count).unwrap()];
    let length = u64::try_from(disk.read(path).unwrap().len()).unwrap();
    let from = if mix(seed ^ 1).is_multiple_of(3) { length.saturating_sub(12_000) } else { 0 };
    let offset = from + mix(seed ^ 2) % (length - from);
    let size = [512, 1, 2, 16_000][usize::try_from(mix(seed ^ 3) % 4).unwrap()];
    let size = size.min(usize::try_from(length - offset).unwrap());
    let byte = [0, 1, 0xA5, 0x77][usize::try_from(mix(seed ^ 3) % 4).unwrap()];
    disk.overwrite(path, offset, &vec![byte; size]).unwrap();
}

/// Several threads on one segment find what one walk finds, whatever is damaged, including the
/// index that determines their pieces. 120 logs with up to three random faults each.
#[test]
fn pieces_agree_with_one_walk() {
    let healthy = large();
    let files = segments(&healthy);
    let (mut damaged, mut derived) = (0, 0);
    for seed in 0..120 {
        let disk = healthy.fork();
        for turn in 0..mix(seed) % 4 {
            injure_any(&disk, &files, seed * 10 + turn);
        }
        let (one, many) = (found(&disk, 1), found(&disk, 3));
        assert_eq!(one.findings, many.findings, "seed {seed}");
        assert_eq!((one.counts, one.last), (many.counts, many.last), "seed {seed}");
        damaged += usize::from(one.count(FindingClass::Damage) > 0);
        derived += usize::from(one.count(FindingClass::DerivedDamage) > 0);
    }
    assert!(damaged > 50 && derived > 20, "{damaged} damaged, {derived} indexes");
}

/// A valid index that names wrong records changes nothing but where pieces begin.
#[test]
fn wrong_index_hides_nothing_from_threads() {
    let healthy = large();
    let whole = found(&healthy, 1);
    let path = &segments(&healthy)[0].0;
    let bytes = healthy.read(path).unwrap();
    let index = bytes.windows(8).rposition(|bytes| bytes == b"PLINDEX\n").unwrap();
    for entry in (1..60).step_by(4) {
        for (field, change) in [(0, 1), (8, 64), (8, 4096)] {
            let place = index + 64 + entry * 16 + field;
            let said = u64::from_le_bytes(bytes[place..place + 8].try_into().unwrap());
            for lie in [said - change, said + change] {
                let disk = healthy.fork();
                disk.overwrite(path, u64::try_from(place).unwrap(), &lie.to_le_bytes()).unwrap();
                let many = found(&disk, 4);
                assert_eq!((many.counts, many.last), (whole.counts, whole.last));
                assert_eq!(many.findings, found(&disk, 1).findings);
                assert_eq!(many.count(FindingClass::Damage), 0);
            }
        }
    }
}

/// Several threads that are asked to stop report what they found, even if pieces in between were
/// not read.
#[test]
fn what_was_found_before_a_stop_is_told() {
    let disk = large();
    disk.overwrite(&segments(&disk)[0].0, 700_000, &[0x77; 100]).unwrap();
    let damage = found(&disk, 1).findings;
    assert_eq!(damage.len(), 1);
    // How many bytes are read before a stop, and which piece comes first, depends on the threads. The last
    // stop waits until the damage is passed.
    let stops = (0..4 << 20).step_by(1 << 17).map(Some).chain([None]);
    for bytes in stops {
        // A thread at the record after the damage has passed it.
        let is_past = AtomicBool::new(false);
        let watch = |done, total| {
            assert!(done <= total, "{done} of {total}");
            let stop = bytes.map_or_else(|| is_past.load(Ordering::Relaxed), |bytes| done >= bytes);
            if stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let examine = |record: &LoggedRecord<&[u8]>| {
            if record.segment == 0 && record.offset == damage[0].end {
                is_past.store(true, Ordering::Relaxed);
            }
            None
        };
        let options = VerifyOptions {
            jobs: jobs(3),
            progress: &watch,
            check_record: &examine,
            ..VerifyOptions::DEFAULT
        };
        let all = verify(&storage(&disk), &dir(), options).unwrap();
        let is_named = all.findings.contains(&damage[0]);
        assert!(is_named || !is_past.into_inner(), "{bytes:?}: {:?}", all.findings);
        let is_stopped = all.completion == Completion::Stopped;
        assert!(is_stopped || all.findings == damage, "{bytes:?}: {:?}", all.findings);
        assert!(is_stopped || bytes.is_some_and(|bytes| bytes > 0), "{bytes:?}");
        assert!(is_named || bytes.is_some(), "{:?}", all.findings);
    }
}

/// The level `crc` finds every damaged byte and every wrong boundary, and omits only the links;
/// `chain` finds a forged record with valid checksums.
#[test]
fn links_are_trusted_only_on_request() {
    let (disk, _) = fenced(End::Closed);
    let trusting = VerifyOptions { chain_check: ChainCheck::Trust, ..VerifyOptions::DEFAULT };
    let look = |disk: &SimDisk, options| verify(&storage(disk), &dir(), options).unwrap();
    assert!(look(&disk, trusting).findings.is_empty());
    let (path, _) = segments(&disk).remove(0);
    // Another chain value with valid checksums, as an editor of the file would write.
    let records = whole(&reader(&disk));
    let first = &records[0];
    let mut bytes = disk.read(&path).unwrap();
    let start = usize::try_from(first.offset).unwrap();
    let end = start + usize::try_from(first.size).unwrap();
    let uid: [u8; 16] = bytes[40..56].try_into().unwrap();
    bytes[start + 48] ^= 1;
    let mut seed = crc32fast::Hasher::new();
    seed.update(&uid);
    seed.update(&first.offset.to_le_bytes());
    let seed = seed.finalize();
    let crc = |range: std::ops::Range<usize>, bytes: &[u8]| {
        let mut hasher = crc32fast::Hasher::new_with_initial(seed);
        hasher.update(&bytes[range]);
        hasher.finalize().to_le_bytes()
    };
    let body = crc(start + 48..end, &bytes);
    bytes[start + 40..start + 44].copy_from_slice(&body);
    let head = crc(start..start + 44, &bytes);
    bytes[start + 44..start + 48].copy_from_slice(&head);
    disk.overwrite(&path, 0, &bytes).unwrap();
    assert!(look(&disk, trusting).findings.is_empty());
    let chained = look(&disk, VerifyOptions::DEFAULT);
    assert_eq!(chained.count(FindingClass::Damage), 1, "{chained:#?}");
    assert_eq!((chained.findings[0].offset, &chained.findings[0].path), (first.offset, &path));
}

/// A time that goes back from one segment to the next is damage, whatever the state in HEAD.
/// Regression: with a possibly active writer findings were checked again one segment at a time, so
/// a fault between two segments was dropped.
#[test]
fn time_going_back_between_segments_is_damage_in_live_log() {
    let disk = SimDisk::new();
    let sizes = SegmentSizes { first: 8192, largest: 8192 };
    let log = Log::create(&dir(), LogOptions { segments: sizes, ..options(&disk) }, at(0)).unwrap();
    for number in 0..60 {
        log.append(&[record(number, 300)], at(number)).unwrap();
    }
    let open = disk.fork();
    log.close().unwrap();
    for (disk, what) in [(disk, "closed"), (open, "open")] {
        let segment = reader(&disk).segments().remove(2);
        let mut bytes = disk.read(&segment.path).unwrap();
        bytes[4096 + 16..4096 + 24].copy_from_slice(&5_u64.to_le_bytes());
        let mut seed = crc32fast::Hasher::new();
        seed.update(&segment.header.unwrap().segment);
        seed.update(&4096_u64.to_le_bytes());
        let mut hasher = crc32fast::Hasher::new_with_initial(seed.finalize());
        hasher.update(&bytes[4096..4096 + 44]);
        bytes[4096 + 44..4096 + 48].copy_from_slice(&hasher.finalize().to_le_bytes());
        disk.overwrite(&segment.path, 0, &bytes).unwrap();
        let trusting = VerifyOptions { chain_check: ChainCheck::Trust, ..VerifyOptions::DEFAULT };
        let found = verify(&storage(&disk), &dir(), trusting).unwrap().findings;
        let is_named = found.iter().any(|it| {
            it.class == FindingClass::Damage
                && it.path == segment.path
                && it.what.contains("time is before")
        });
        assert!(is_named, "{what}: {found:?}");
    }
}

/// A root stays valid permanently; another, an edited or a shortened ledger does not match it.
#[test]
fn kept_root_is_compared_with_the_log() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    let kept = root(&storage(&disk), &dir()).unwrap();
    assert_eq!((kept.seq, kept.chain), (0, Chain::GENESIS));
    let mut roots = vec![kept];
    for number in 0..20 {
        let ack = log.append(&[record(number, 50)], at(number)).unwrap();
        let root = root(&storage(&disk), &dir()).unwrap();
        assert_eq!(root, ack, "while a writer has it open");
        roots.push(root);
    }
    log.close().unwrap();
    let judge = |disk: &SimDisk, seq: Option<u64>, chain| {
        let expected = Some(ExpectedChain { seq, chain });
        let options = VerifyOptions { expected, jobs: jobs(2), ..VerifyOptions::DEFAULT };
        verify(&storage(disk), &dir(), options).unwrap().expectation.unwrap()
    };
    for kept in &roots {
        let met = ExpectationResult::Met { seq: kept.seq };
        assert_eq!(judge(&disk, Some(kept.seq), kept.chain), met);
        assert_eq!(judge(&disk, None, kept.chain), met);
    }
    let last = roots[20];
    let differs = ExpectationResult::Differs { seq: 20, found: last.chain };
    assert_eq!(judge(&disk, Some(20), roots[19].chain), differs);
    let missing = ExpectationResult::Missing { last: 20 };
    assert_eq!(judge(&disk, Some(21), last.chain), missing);
    assert_eq!(judge(&disk, None, Chain([1; 32])), missing);
    // Another history of the same length is another ledger.
    let other = SimDisk::new();
    let log =
        Log::create(&dir(), options_with(storage(&other), 7, HeadSync::Interval), at(0)).unwrap();
    for number in 0..20 {
        log.append(&[record(number, 50)], at(number)).unwrap();
    }
    log.close().unwrap();
    assert!(matches!(
        judge(&other, Some(20), last.chain),
        ExpectationResult::Differs { seq: 20, .. }
    ));
}

/// If the last durable record is unknown, no root is printed.
#[test]
fn damaged_ledger_has_no_root() {
    let (disk, _) = fenced(End::Killed);
    let ack = root(&storage(&disk), &dir()).unwrap();
    let (path, used) = segments(&disk).pop().unwrap();
    let damaged = disk.fork();
    damaged.overwrite(&path, used - 70, &[0x77; 8]).unwrap();
    let error = root(&storage(&damaged), &dir()).unwrap_err();
    assert_eq!((error.kind(), error.location().seq), (ErrorKind::Corrupt, Some(ack.seq)));
    for copy in (0..8192).step_by(512) {
        disk.overwrite(&dir().join("HEAD"), copy + 20, &[9]).unwrap();
    }
    assert_eq!(root(&storage(&disk), &dir()).unwrap_err().kind(), ErrorKind::Ambiguous);
}

/// If asked to stop, it stops and reports that it is incomplete; the reported progress never
/// exceeds the total.
#[test]
fn verification_stops_on_request() {
    let disk = long(1);
    let calls = AtomicU64::new(0);
    let watch = |done, total| {
        assert!(done <= total, "{done} of {total}");
        calls.fetch_add(1, Ordering::Relaxed);
        ControlFlow::Break(())
    };
    let expected = Some(ExpectedChain { seq: None, chain: Chain([7; 32]) });
    let options = VerifyOptions { progress: &watch, expected, ..VerifyOptions::DEFAULT };
    let stopped = verify(&storage(&disk), &dir(), options).unwrap();
    assert_eq!(stopped.completion, Completion::Stopped);
    assert_eq!(calls.into_inner(), 1);
    assert_eq!(stopped.expectation, None, "not to have met it yet says nothing");
    assert!(stopped.counts.records < whole(&reader(&disk)).len().try_into().unwrap());
}

/// An active writer is not damage. One thread appends, rotates and reopens on a real disk while
/// another one verifies, with one job and with several.
#[test]
fn active_writer_is_not_damage() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("live.ledger");
    let disk: Arc<dyn Storage> = Arc::new(DiskStorage);
    let options = |seed| options_with(disk.clone(), seed, HeadSync::Interval);
    Log::create(&dir, options(1), at(0)).unwrap().close().unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _is_over = super::inspect::SetOnDrop(&is_over);
            for round in 0..6 {
                let (log, _) = Log::open(&dir, options(round + 2), at(round)).unwrap();
                for number in 0..60 {
                    let batch = [record(number, 9_000), record(number + 1, 200)];
                    log.append(&batch, at(round)).unwrap();
                }
                log.close().unwrap();
            }
        });
        let mut looks = 0;
        while !is_over.load(Ordering::Relaxed) || looks == 0 {
            looks += 1;
            let options = VerifyOptions { jobs: jobs(1 + looks % 3), ..VerifyOptions::DEFAULT };
            let found = verify(&disk, &dir, options).unwrap();
            assert!(!found.is_damaged(), "look {looks}: {found:#?}");
        }
    });
    let found = verify(&disk, &dir, VerifyOptions::DEFAULT).unwrap();
    assert_eq!((found.counts.records, found.findings), (720, Vec::new()));
}

fn ledger(dir: &Path) -> Environment {
    let environment = Environment::system();
    let ledger = Ledger::create(dir, &environment).unwrap();
    let plan: Plan = serde_json::from_str(r#"{"steps": [{"id": "one"}, {"id": "two"}]}"#).unwrap();
    let run = ledger.start_run("demo", &plan, RunPolicy::default()).unwrap();
    ledger.dispatch(run, "worker").unwrap().unwrap();
    ledger.close().unwrap();
    environment
}

fn request(level: VerifyLevel) -> VerifyRequest<'static> {
    VerifyRequest { level, jobs: jobs(1), expected: None, watch: &|_| ControlFlow::Continue(()) }
}

/// The level `replay` folds to the same state as opening the ledger.
#[test]
fn replay_reaches_the_live_state() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("a.ledger");
    let environment = ledger(&dir);
    let report = request(VerifyLevel::Replay).run(&dir, &environment).unwrap();
    assert_eq!(report.condition(), LedgerCondition::Valid);
    let (live, _) = Ledger::open_with(&dir, &environment).unwrap();
    assert_eq!(report.state, Some((live.head().seq, live.state_hash().unwrap())));
}

/// A snapshot note is compared with the log: its chain from the level `snapshots` on, its state
/// hash at the level `replay`.
#[test]
fn snapshot_notes_are_compared_with_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Storage> = Arc::new(DiskStorage);
    let right = {
        let dir = folder.path().join("right.ledger");
        let environment = ledger(&dir);
        let report = request(VerifyLevel::Replay).run(&dir, &environment).unwrap();
        let chain = report.log.last.unwrap().chain.to_string();
        (report.state.unwrap().0, chain, report.state.unwrap().1.to_string())
    };
    let zeros = "0".repeat(64);
    let cases = [
        (right.1.clone(), right.2.clone(), [0, 0]),
        (zeros.clone(), right.2.clone(), [1, 1]),
        (right.1.clone(), zeros.clone(), [0, 1]),
        ("no hash".to_owned(), String::new(), [1, 2]),
    ];
    for (chain, state_hash, expected) in cases {
        let dir = folder.path().join("right.ledger");
        let copy = folder.path().join("copy.ledger");
        let _ = fs::remove_dir_all(&copy);
        copy_dir(&dir, &copy);
        let (log, _) =
            Log::open(&copy, options_with(disk.clone(), 5, HeadSync::Interval), at(0)).unwrap();
        let note = serde_json::json!({
            "projection": State::NAME, "version": State::VERSION, "seq": right.0, "chain": chain,
            "state_hash": state_hash,
        });
        let payload = note.to_string().into_bytes();
        let kind = plan_ledger::log::KIND_SNAPSHOT_NOTE;
        log.append(&[NewRecord { kind, codec: Codec::Json, schema: 1, payload }], at(1)).unwrap();
        log.close().unwrap();
        for (level, expected) in
            [VerifyLevel::Snapshots, VerifyLevel::Replay].into_iter().zip(expected)
        {
            let report = request(level).run(&copy, &Environment::system()).unwrap();
            assert_eq!(report.notes, 1);
            let count = report.log.count(FindingClass::Damage);
            assert_eq!(count, expected, "{level:?} {note}: {:#?}", report.log.findings);
        }
    }
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// A missing or damaged blob is damage, and the state is folded all the same.
#[test]
fn lost_blob_is_corrupt() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("a.ledger");
    let environment = Environment { blob_threshold: 100, ..Environment::system() };
    let ledger = Ledger::create(&dir, &environment).unwrap();
    let plan: Plan = serde_json::from_str(r#"{"steps": [{"id": "one"}, {"id": "two"}]}"#).unwrap();
    let run = ledger.start_run("demo", &plan, RunPolicy::default()).unwrap();
    for letter in ["a", "b"] {
        let task = ledger.dispatch(run, "worker").unwrap().unwrap();
        let output = Json::new(&Value::from(letter.repeat(500))).into();
        ledger.record_receipt(task.token, Receipt { output, ..Receipt::default() }).unwrap();
    }
    ledger.close().unwrap();
    let look = |level| request(level).run(&dir, &environment).unwrap();
    let whole = look(VerifyLevel::Replay);
    assert_eq!((whole.blobs, whole.condition()), (2, LedgerCondition::Valid));
    let mut blobs: Vec<PathBuf> = Vec::new();
    for inner in fs::read_dir(dir.join("blob")).unwrap() {
        for file in fs::read_dir(inner.unwrap().path()).unwrap() {
            blobs.push(file.unwrap().path());
        }
    }
    fs::remove_file(&blobs[0]).unwrap();
    fs::write(&blobs[1], "x".repeat(502)).unwrap();
    assert_eq!(
        look(VerifyLevel::Chain).condition(),
        LedgerCondition::Valid,
        "no records were checked"
    );
    let found = look(VerifyLevel::Replay);
    let mut named: Vec<_> = found.log.findings.iter().map(|each| each.path.clone()).collect();
    named.sort();
    blobs.sort();
    assert_eq!((named, found.condition()), (blobs, LedgerCondition::Damaged));
    assert_eq!(found.state, whole.state);
}

/// The commands: exit codes and output, and that nothing is written.
#[test]
fn verify_commands_report_findings() {
    let place = Place::new();
    ledger(&place.path("a.ledger"));
    let root = place.ledger("root a.ledger").code(0).out.trim().to_owned();
    let (seq, chain) = root.split_once(':').unwrap();
    let json = place.ledger("root a.ledger --json").code(0).lines().remove(0);
    assert_eq!((json["seq"].to_string().as_str(), json["chain"].as_str()), (seq, Some(chain)));

    let before = place.snapshot();
    for level in ["crc", "chain", "snapshots", "replay"] {
        let line = format!("verify a.ledger --level {level} --jobs 2");
        let said = place.ledger(&line).code(0).out;
        assert!(said.contains("ledger a.ledger: whole") && said.contains(&root), "{said}");
    }
    let said = place.ledger(&format!("verify a.ledger --expect-head {root}")).code(0).out;
    assert!(said.contains("as expected"), "{said}");
    let zeros = "0".repeat(64);
    let said = place.ledger(&format!("verify a.ledger --expect-head {seq}:{zeros}")).code(4).out;
    assert!(
        said.contains(chain) && said.contains(&zeros) && said.contains("not as expected"),
        "{said}"
    );
    place.ledger("verify a.ledger --expect-head 12").code(2);
    place.ledger(&format!("verify a.ledger --level crc --expect-head {root}")).code(2);
    place.ledger("verify nowhere").code(2);
    assert!(place.snapshot() == before, "verifying has written something");

    let segment = fs::read_dir(place.path("a.ledger/log")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&segment).unwrap();
    bytes[4096 + 50] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let said = place.ledger("verify a.ledger").code(4).out;
    assert!(said.contains("bytes 4096 to") && said.contains("record 1 is missing"), "{said}");
    let lines = place.ledger("verify a.ledger --json").code(4).lines();
    let types: Vec<_> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["damage", "summary"]);
    assert_eq!(
        (lines[0]["offset"].as_u64(), lines[0]["first_seq"].as_u64()),
        (Some(4096), Some(1))
    );
    assert_eq!(lines[1]["condition"], "damaged");
    place.ledger("root a.ledger").code(4);
}

/// Unreadable bytes cost only their records, and the rest is verified.
#[test]
fn read_error_is_a_finding() {
    let disk = long(1);
    let calls = disk.calls();
    let mut named = 0;
    let clean = found(&disk, 1);
    assert!(clean.findings.is_empty());
    for call in (calls + 1..calls + 400).step_by(3) {
        let disk = disk.fork();
        let kind = std::io::ErrorKind::Other;
        let effect = plan_ledger::internals::sim::FaultEffect::Nothing;
        disk.fail_at(plan_ledger::internals::sim::Fault { call, kind, effect });
        match verify(&storage(&disk), &dir(), VerifyOptions::DEFAULT) {
            Ok(found) => {
                let is_whole = found.findings.is_empty();
                assert!(found.counts.records == clean.counts.records || !is_whole, "call {call}");
                named += usize::from(!is_whole);
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Io, "call {call}: {error}"),
        }
    }
    assert!(named > 0);
    kill(&disk, open(&disk).unwrap().0);
}

type Harm<'a> = &'a dyn Fn(&SimDisk);

/// A HEAD that is missing, has another length, or has no valid slot is reported as damage, and the
/// rest is verified.
#[test]
fn invalid_head_is_reported() {
    let (whole_disk, payloads) = fenced(End::Closed);
    let head = dir().join("HEAD");
    let length = u64::try_from(whole_disk.read(&head).unwrap().len()).unwrap();
    let cases: [(&str, Harm<'_>); 4] = [
        ("missing", &|disk| disk.remove(&head).unwrap()),
        ("half", &|disk| disk.set_length(&head, length / 2).unwrap()),
        ("longer", &|disk| disk.set_length(&head, length + 1).unwrap()),
        ("zeros", &|disk| disk.overwrite(&head, 0, &[0; 8192]).unwrap()),
    ];
    for (story, harm) in cases {
        let disk = whole_disk.fork();
        harm(&disk);
        let found = found(&disk, 1);
        let of_head =
            |each: &&VerifyFinding| each.class == FindingClass::Damage && each.path == head;
        assert!(found.findings.iter().any(|each| of_head(&each)), "{story}: {:?}", found.findings);
        assert!(found.counts.records >= u64::try_from(payloads.len()).unwrap(), "{story}");
    }
}
