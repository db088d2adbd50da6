//! Verification of snapshots and blobs by several threads.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Mutex;

use plan_ledger::internals::ledger::{
    BlobCheck, LedgerCondition, VerifyLevel, VerifyPhase, VerifyProgress, VerifyReport,
    VerifyRequest, blob_of, decode, encode,
};
use plan_ledger::internals::sim::SimDisk;
use plan_ledger::log::{FindingClass, Log, SnapshotNote};
use plan_ledger::plan::{BlobOutput, StepEvent, StepRecord};
use plan_ledger::{
    ContentHash, Environment, Event, Json, Ledger, LedgerView, Output, Plan, Projection as _,
    Receipt, RunPolicy, State,
};

use crate::lab::{dir, mix, options, reader};
use crate::snapshots::{quiet, truth};
use crate::time_travel::{environment, play, snapshot_seqs};

/// A closed ledger with a dozen snapshots, most of them deltas, their notes, and blobs.
fn with_snapshots_and_blobs() -> (SimDisk, Environment) {
    let disk = SimDisk::new();
    let environment = Environment { blob_threshold: 100, ..environment(&disk, 100) };
    let ledger = Ledger::create(&dir(), &environment).unwrap();
    play(&ledger, 7, 1_150);
    let steps = [1, 2, 3, 4].map(|number| format!(r#"{{"id": "step {number}"}}"#)).join(",");
    let plan: Plan = serde_json::from_str(&format!(r#"{{"steps": [{steps}]}}"#)).unwrap();
    let run = ledger.start_run("outputs", &plan, RunPolicy::default()).unwrap();
    for letter in ["a", "b", "c", "d"] {
        let task = ledger.dispatch(run, "worker").unwrap().unwrap();
        let output = Json::new(&serde_json::Value::from(letter.repeat(500))).into();
        ledger.record_receipt(task.token, Receipt { output, ..Receipt::default() }).unwrap();
    }
    ledger.close().unwrap();
    assert!(snapshot_seqs(&disk).len() >= 11, "{:?}", snapshot_seqs(&disk));
    let environment = quiet(&disk);
    (disk, environment)
}

fn derived_files(disk: &SimDisk, folder: &str) -> Vec<PathBuf> {
    disk.files(&dir().join(folder))
}

fn checked_files(
    environment: &Environment,
    level: VerifyLevel,
    jobs: usize,
    watch: &(dyn Fn(VerifyProgress) -> ControlFlow<()> + Sync),
) -> VerifyReport {
    let jobs = NonZeroUsize::new(jobs).unwrap();
    VerifyRequest { level, jobs, expected: None, watch }.run(&dir(), environment).unwrap()
}

/// The findings of a verification, which are the same for any number of threads.
fn found(environment: &Environment, level: VerifyLevel) -> VerifyReport {
    let watch = |progress: VerifyProgress| {
        assert!(progress.done <= progress.total, "{progress:?}");
        ControlFlow::Continue(())
    };
    let [one, many] = [1, 4].map(|jobs| checked_files(environment, level, jobs, &watch));
    assert_eq!(one.log.findings, many.log.findings);
    let counted = |report: &VerifyReport| {
        (report.log.counts, report.snapshots, report.notes, report.blobs, report.state)
    };
    assert_eq!(counted(&one), counted(&many));
    assert_eq!(one.condition(), many.condition());
    one
}

/// Snapshot notes about the state at several records; every other one is wrong.
fn append_wrong_notes(disk: &SimDisk, seed: u64) -> Vec<u64> {
    let hashes = truth(disk);
    let last = u64::try_from(hashes.len()).unwrap() - 1;
    let records: Vec<_> = reader(disk).records(1).map(Result::unwrap).collect();
    let (log, _) = Log::open(&dir(), options(disk), u64::MAX / 4).unwrap();
    let mut lies = Vec::new();
    for turn in 0..6 {
        let seq = 1 + mix(seed ^ turn) % last;
        let place = usize::try_from(seq).unwrap();
        let is_lie = turn % 2 == 0;
        let state_hash = hashes[place - usize::from(is_lie)].to_string();
        // Some records change nothing.
        if is_lie && hashes[place - 1] != hashes[place] {
            lies.push(seq);
        }
        let note = SnapshotNote {
            projection: State::NAME.to_owned(),
            version: State::VERSION,
            seq,
            chain: records[place - 1].chain.to_string(),
            state_hash,
        };
        log.append(&[note.record()], u64::MAX / 4).unwrap();
    }
    log.close().unwrap();
    lies.sort_unstable();
    lies
}

/// Goal: all damage beside the log and all wrong notes are reported: the same by one thread and
/// by several, in the same order.
/// Method: 60 ledgers, each with damage to up to three snapshots and blobs, and three wrong
/// notes among right ones.
#[test]
fn parallel_verification_finds_all_damage_beside_the_log() {
    let (healthy, environment) = with_snapshots_and_blobs();
    let whole = found(&environment, VerifyLevel::Replay);
    assert_eq!(
        (whole.condition(), whole.blobs),
        (LedgerCondition::Valid, 4),
        "{:?}",
        whole.log.findings
    );
    assert_eq!(whole.state.unwrap().1, *truth(&healthy).last().unwrap());
    let files = [derived_files(&healthy, "snap"), derived_files(&healthy, "blob")].concat();
    for seed in 0..60 {
        let disk = healthy.fork();
        let lies = append_wrong_notes(&disk, seed);
        let mut hurt = Vec::new();
        for turn in 0..mix(seed) % 4 {
            let dice = mix(seed * 10 + turn);
            let path = &files[usize::try_from(dice % u64::try_from(files.len()).unwrap()).unwrap()];
            let bytes = disk.read(path).unwrap();
            let byte = mix(dice) % u64::try_from(bytes.len()).unwrap();
            let flipped = bytes[usize::try_from(byte).unwrap()] ^ 1 << (dice % 8);
            disk.overwrite(path, byte, &[flipped]).unwrap();
            hurt.push(path.clone());
        }
        let environment = quiet(&disk);
        let (beside, all) =
            (found(&environment, VerifyLevel::Snapshots), found(&environment, VerifyLevel::Replay));
        let is_named = |path: &PathBuf| beside.log.findings.iter().any(|each| each.path == *path);
        // Two flips of one bit cancel out.
        let is_hurt = |path: &&PathBuf| disk.read(path).unwrap() != healthy.read(path).unwrap();
        for path in hurt.iter().filter(is_hurt) {
            assert!(is_named(path), "seed {seed}: {} in {:?}", path.display(), beside.log.findings);
        }
        let rest = &all.log.findings[beside.log.findings.len()..];
        assert_eq!(all.log.findings[..beside.log.findings.len()], beside.log.findings);
        assert_eq!(rest.len(), lies.len(), "seed {seed}: {lies:?}, {rest:?}");
        for (finding, seq) in rest.iter().zip(lies) {
            assert_eq!(finding.class, FindingClass::Damage);
            let what = format!("gives record {seq} the state hash");
            assert!(finding.what.contains(&what), "seed {seed}: {finding:?}");
        }
    }
}

/// Goal: a verification can be stopped while it reads snapshots and folds records, and reports
/// its progress.
#[test]
fn verification_beside_the_log_can_be_stopped() {
    let (_disk, environment) = with_snapshots_and_blobs();
    for (level, jobs) in
        [(VerifyLevel::Snapshots, 1), (VerifyLevel::Snapshots, 3), (VerifyLevel::Replay, 1)]
    {
        let seen = Mutex::new(Vec::new());
        let watch = |progress: VerifyProgress| {
            if progress.phase == VerifyPhase::Log {
                return ControlFlow::Continue(());
            }
            seen.lock().unwrap().push(progress);
            ControlFlow::Break(())
        };
        let report = checked_files(&environment, level, jobs, &watch);
        let seen = seen.into_inner().unwrap();
        assert!((1..=jobs).contains(&seen.len()), "{level:?}, {jobs} jobs: {seen:?}");
        assert!(seen.iter().all(|each| (1..each.total).contains(&each.done)), "{seen:?}");
        assert_eq!(report.condition(), LedgerCondition::Stopped, "{:?}", report.log.findings);
        let checked = usize::try_from(report.snapshots).unwrap();
        assert_eq!(checked, if level == VerifyLevel::Replay { 0 } else { seen.len() });
        assert_eq!(report.state, None);
    }
}

/// Goal: verification counts the same blobs as a survey, which reads the log by itself.
#[test]
fn verification_and_survey_count_the_same_blobs() {
    let (_disk, environment) = with_snapshots_and_blobs();
    let survey = LedgerView::open(&dir(), &environment).unwrap().blobs(BlobCheck::Content).unwrap();
    let named = survey.blobs.iter().filter(|blob| blob.records > 0).count();
    let report = found(&environment, VerifyLevel::Snapshots);
    assert_eq!(usize::try_from(report.blobs).unwrap(), named);
    assert!(named >= 4 && survey.is_complete, "{survey:?}");
}

/// Goal: the length of a blob in a record is not trusted: sums of lengths do not overflow, and
/// the blob is just missing.
#[test]
fn length_of_a_blob_is_not_trusted() {
    let (disk, environment) = with_snapshots_and_blobs();
    let before = found(&environment, VerifyLevel::Replay);
    let log = reader(&disk);
    let events = log.records(1).map(|record| decode(&record.unwrap()).unwrap());
    let mut event = events.flatten().find(|event| blob_of(event).is_some()).unwrap();
    let Event::Step(StepRecord { event: StepEvent::ReceiptRecorded(recorded), .. }) = &mut event
    else {
        panic!("{event:?}")
    };
    let (hash, values) = (ContentHash([7; 32]), Vec::new());
    recorded.receipt.output = Output::Blob(BlobOutput { hash, length: u64::MAX, values });
    let (log, _) = Log::open(&dir(), options(&disk), u64::MAX / 4).unwrap();
    log.append(&[encode(&event)], u64::MAX / 4).unwrap();
    log.close().unwrap();
    let after = found(&environment, VerifyLevel::Replay);
    assert_eq!(after.blobs, before.blobs + 1);
    // The time of the record is ahead of the clock, which is a finding of its own.
    let findings: Vec<_> =
        after.log.findings.iter().filter(|finding| !finding.path.ends_with("HEAD")).collect();
    let [finding] = findings.as_slice() else { panic!("{findings:?}") };
    assert!(finding.what.contains("18446744073709551615 bytes: missing"), "{finding:?}");
}

/// Story: after 79 of 410 power cuts `verify` said that the ledger was damaged, because a snapshot was
/// newer than the position in HEAD, which may be a second old. The next opening took its record over.
/// Method: HEAD is put back to before the record of a snapshot; the ledger is verified before and
/// after it is opened.
#[test]
fn snapshot_after_the_durable_end_is_no_damage() {
    let disk = SimDisk::new();
    let environment = quiet(&disk);
    let ledger = Ledger::create(&dir(), &environment).unwrap();
    play(&ledger, 7, 30);
    let head = disk.read(&dir().join("HEAD")).unwrap();
    play(&ledger, 8, 60);
    let snapshot = ledger.snapshot::<State>().unwrap();
    disk.kill_process();
    drop(ledger);
    disk.overwrite(&dir().join("HEAD"), 0, &head).unwrap();

    let report = found(&environment, VerifyLevel::Snapshots);
    assert!(!report.log.is_damaged(), "{:?}", report.log.findings);
    let is_ahead =
        |finding: &&plan_ledger::log::VerifyFinding| finding.path.starts_with(dir().join("snap"));
    let finding = report.log.findings.iter().find(is_ahead).unwrap();
    assert_eq!(finding.class, FindingClass::Warning, "{finding:?}");
    assert!(finding.what.contains("after the durable end in HEAD"), "{finding:?}");

    let (ledger, opened) = Ledger::open_with(&dir(), &environment).unwrap();
    assert!(opened.last_seq >= snapshot.seq, "{opened:?}");
    ledger.close().unwrap();
    let report = found(&environment, VerifyLevel::Replay);
    assert_eq!(report.condition(), LedgerCondition::Valid, "{:?}", report.log.findings);
}
