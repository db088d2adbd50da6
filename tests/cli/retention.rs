//! Archives and pruning: what a note covers is removed, the rest is complete and folds to the
//! same state.

use std::path::{Path, PathBuf};

use plan_ledger::internals::format::{Codec, NewRecord, SnapshotHeader};
use plan_ledger::internals::ledger::{
    ArchiveReport, FoldOrigin, ImportReport, LedgerCondition, RetentionLimit, SegmentSizes,
    VerifyLevel, VerifyPhase, VerifyProgress, VerifyReport, VerifyRequest, archive, import,
};
use plan_ledger::internals::sim::{
    Fault, FaultAction, FaultEffect, FaultRule, Loss, Operation, OsError, SimDisk,
};
use plan_ledger::internals::storage::{Access, Storage as _};
use plan_ledger::log::{
    Anchor, ArchiveManifest, FindingClass, KIND_RETENTION_NOTE, Log, LogItem, RecordStatus,
};
use plan_ledger::{
    Command, ContentHash, Environment, ErrorKind, FailureClass, Json, Ledger, LedgerView, Outcome,
    Output, Projection, Receipt, RecordedEvent, RunId, RunPolicy, State, state_hash,
};

use crate::backups::unwatched;
use crate::blobs::{large, plan};
use crate::command::{Place, start, wait_until};
use crate::lab::{LOOKS, Restart, at, dir, log_files, options, reader, whole};
use crate::system_calls::shim;
use crate::time_travel::environment;

/// An environment without scheduled snapshots.
fn quiet(disk: &SimDisk) -> Environment {
    Environment { snapshot_every: None, ..environment(disk, 1) }
}

/// A run of one step that has ended.
fn ended_run(ledger: &Ledger, name: &str) {
    let run = started_run(ledger, name);
    let task = ledger.dispatch(run, "worker").unwrap().unwrap();
    ledger.record_receipt(task.token, Receipt::default()).unwrap();
}

fn started_run(ledger: &Ledger, name: &str) -> RunId {
    let plan = serde_json::from_str(r#"{"steps": [{"id": "a"}]}"#).unwrap();
    ledger.start_run(name, &plan, RunPolicy::default()).unwrap()
}

fn cap(limit: u64) -> Command {
    let (limit, by) = (u32::try_from(limit).ok(), "ann".to_owned());
    Command::SetCap { scope: plan_ledger::plan::CapScope::Ledger, limit, by }
}

/// Fence: continue in a new segment after an unacknowledged write.
fn fence(disk: &SimDisk) {
    let ledger = open(disk);
    disk.crash_at(disk.calls() + LOOKS + 3);
    ledger.execute(&cap(7)).unwrap_err();
    disk.kill_process();
    drop(ledger);
    open(disk).close().unwrap();
}

/// Rotate: continue in a new segment after the old one is full and sealed.
fn rotate(disk: &SimDisk) {
    let (log, _) = Log::open(&dir(), options(disk), at(1)).unwrap();
    let filler =
        NewRecord { kind: 0x9000, codec: Codec::Raw, schema: 1, payload: vec![1; 1_046_000] };
    log.append(&[filler], at(1)).unwrap();
    log.close().unwrap();
}

/// A closed ledger of five segments, the first two closed by rotations, the next by fences. The
/// runs of the first three have ended; a later one has not. Two snapshots follow these.
fn five() -> SimDisk {
    let disk = SimDisk::new();
    Ledger::create(&dir(), &quiet(&disk)).unwrap().close().unwrap();
    for number in 0..3 {
        let ledger = open(&disk);
        ended_run(&ledger, &format!("run-{number}"));
        ledger.close().unwrap();
        if number == 0 { rotate(&disk) } else { fence(&disk) }
    }
    let ledger = open(&disk);
    let run = started_run(&ledger, "open");
    ledger.snapshot::<State>().unwrap();
    ledger.set_variable(run, "v", Json::new(&1.into()), None, "ann").unwrap();
    ledger.close().unwrap();
    fence(&disk);
    let ledger = open(&disk);
    ledger.snapshot::<State>().unwrap();
    ledger.execute(&cap(3)).unwrap();
    ledger.close().unwrap();
    assert_eq!(log_files(&disk).len(), 5);
    disk
}

fn open(disk: &SimDisk) -> Ledger {
    Ledger::open_with(&dir(), &quiet(disk)).unwrap().0
}

fn view(disk: &SimDisk) -> LedgerView {
    LedgerView::open(&dir(), &quiet(disk)).unwrap()
}

/// The state hash after each record, folded from the start.
fn truth(disk: &SimDisk) -> Vec<ContentHash> {
    let mut state = State::default();
    let mut hashes = vec![state_hash(&state)];
    for record in reader(disk).records(1) {
        let record = record.unwrap();
        let event = plan_ledger::internals::ledger::decode(&record).unwrap();
        Projection::apply(
            &mut state,
            &RecordedEvent { seq: record.seq, time: record.time, event, is_lost: false },
        );
        hashes.push(state_hash(&state));
    }
    hashes
}

fn place(number: usize) -> u64 {
    u64::try_from(number).unwrap()
}

const LEVELS: [VerifyLevel; 4] =
    [VerifyLevel::Crc, VerifyLevel::Chain, VerifyLevel::Snapshots, VerifyLevel::Replay];

fn verified(disk: &SimDisk, level: VerifyLevel) -> VerifyReport {
    let request = VerifyRequest {
        level,
        jobs: std::num::NonZeroUsize::MIN.saturating_add(2),
        expected: None,
        watch: &|_| std::ops::ControlFlow::Continue(()),
    };
    request.run(&dir(), &quiet(disk)).unwrap()
}

/// Check that verification finds nothing wrong.
fn expect_whole(disk: &SimDisk, levels: &[VerifyLevel], story: &str) {
    for level in levels {
        let report = verified(disk, *level);
        assert_eq!(
            report.condition(),
            LedgerCondition::Valid,
            "{story}: {:?}",
            report.log.findings
        );
        let damage =
            report.log.findings.iter().find(|finding| finding.class != FindingClass::Warning);
        assert!(damage.is_none(), "{story}: {damage:?}");
    }
    let fold = view(disk).fold(u64::MAX).unwrap();
    assert!(fold.damage.is_empty() && fold.unreadable.is_none(), "{story}: {:?}", fold.damage);
}

/// Everything in the log: all of it proven, without a gap.
fn held(disk: &SimDisk) -> Vec<(u64, plan_ledger::internals::format::Chain)> {
    let reader = reader(disk);
    let mut next = reader.first_seq();
    let records = reader.walk(1).map(|item| match item.unwrap() {
        LogItem::Record(record, RecordStatus::Durable) => {
            assert_eq!(record.seq, next, "a gap");
            next += 1;
            (record.seq, record.chain)
        }
        other => panic!("{other:?}"),
    });
    records.collect()
}

/// Goal: after a prune the state is, at every record from the older anchor on, that of a fold
/// from the start: live, in a view, and reopened; pruned records are reported as pruned.
#[test]
fn fold_from_an_anchor_equals_the_fold_from_the_start() {
    let disk = five();
    let hashes = truth(&disk);
    let before = held(&disk);
    let segments = log_files(&disk);
    let plan = view(&disk).preview_prune(RetentionLimit::Record(u64::MAX)).unwrap_err();
    assert_eq!(plan.kind(), ErrorKind::Rejected, "{plan}");
    let plan = view(&disk).preview_prune(RetentionLimit::EndedRuns).unwrap();
    assert!(plan.open_runs.is_empty() && plan.segments.len() >= 2, "{plan:?}");

    let ledger = open(&disk);
    let pruned = ledger.prune(RetentionLimit::EndedRuns, None, "ann").unwrap();
    assert_eq!(pruned.preview, plan, "what was planned is what was done");
    assert_eq!(pruned.removal.segments, plan.segments);
    let left: Vec<_> = log_files(&disk).into_iter().map(|(path, _)| path).collect();
    let expected: Vec<_> = segments[plan.segments.len()..].iter().map(|it| it.0.clone()).collect();
    assert_eq!(left, expected);
    let (last, older) = (plan.last_seq, plan.anchors[0].seq);
    let log = reader(&disk);
    assert_eq!(log.first_seq(), last + 1);
    assert_eq!(log.retention().unwrap().seq, pruned.note_seq);

    for (seq, hash) in hashes.iter().enumerate().map(|(seq, hash)| (place(seq), hash)) {
        let (live, seen) = (ledger.state_at(seq), view(&disk).state_at(seq));
        if seq < older {
            assert_eq!(live.unwrap_err().kind(), ErrorKind::Pruned, "{seq}");
            assert_eq!(seen.unwrap_err().kind(), ErrorKind::Pruned, "{seq}");
        } else {
            assert_eq!(state_hash(&live.unwrap()), *hash, "{seq}");
            assert_eq!(state_hash(&seen.unwrap()), *hash, "{seq}");
            let fold = view(&disk).fold(seq).unwrap();
            assert_eq!((state_hash(&fold.state), fold.origin), (*hash, FoldOrigin::Anchor(older)));
        }
    }
    ledger.close().unwrap();
    expect_whole(&disk, &LEVELS, "pruned");
    assert_eq!(
        verified(&disk, VerifyLevel::Replay).state.unwrap().1,
        open(&disk).state_hash().unwrap()
    );

    // The rest has the same chain, by every way to read it.
    let after = held(&disk);
    let kept = before.len() - usize::try_from(last).unwrap();
    assert_eq!(after[..kept], before[usize::try_from(last).unwrap()..]);
    let mut back: Vec<_> = reader(&disk)
        .records_reverse(u64::MAX)
        .map(|record| record.map(|record| (record.seq, record.chain)).unwrap())
        .collect();
    back.reverse();
    assert_eq!(back, after);
    let notes: Vec<_> = reader(&disk).records_of_kind(KIND_RETENTION_NOTE, last + 1).collect();
    assert_eq!(notes.len(), 1);

    // A pruned record is reported as pruned, by every way to read it.
    for seq in [1, last] {
        let log = reader(&disk);
        let mut follow = log.follow(seq);
        for error in [
            log.record(seq).unwrap_err(),
            log.records(seq).next().unwrap().unwrap_err(),
            log.records_of_kind(1, seq).next().unwrap().unwrap_err(),
            follow.next(std::time::Duration::ZERO).unwrap_err(),
            view(&disk).project::<Count>(last + 3).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Pruned, "{error}");
            let first = format!("begins at record {}", last + 1);
            assert!(error.to_string().contains(&first), "{error}");
        }
    }
    assert_eq!(reader(&disk).record(last + 1).unwrap().unwrap().seq, last + 1);
    assert_eq!(reader(&disk).chain_at(last).unwrap(), Some(plan.chain));
    assert_eq!(reader(&disk).chain_at(last - 1).unwrap(), None);
}

/// A projection without a snapshot.
#[derive(Debug, Default)]
struct Count(u64);

impl Projection for Count {
    const NAME: &'static str = "count";
    const VERSION: u32 = 1;

    fn apply(&mut self, _: &RecordedEvent) {
        self.0 += 1;
    }

    fn encode(&self, out: &mut dyn std::io::Write) -> std::io::Result<()> {
        out.write_all(&self.0.to_le_bytes())
    }

    fn decode(input: &mut dyn std::io::Read) -> std::io::Result<Self> {
        let mut bytes = [0; 8];
        input.read_exact(&mut bytes)?;
        Ok(Self(u64::from_le_bytes(bytes)))
    }
}

/// Goal: a crash before any call of a prune, whatever the disk keeps, leaves a ledger that
/// opens, has every record that no note covers, and has the same state. If the note was durable
/// the open finishes the prune; otherwise nothing was pruned.
#[test]
fn interrupted_prune_is_finished_by_the_next_open() {
    let disk = five();
    let hashes = truth(&disk);
    let head = open(&disk.fork()).head();
    let run = |disk: &SimDisk, crash: u64| {
        let ledger = open(disk);
        let before = disk.calls();
        disk.crash_at(before.saturating_add(crash));
        let pruned = ledger.prune(RetentionLimit::EndedRuns, None, "ann");
        let calls = disk.calls() - before;
        drop(ledger);
        (pruned, calls)
    };
    let calm = disk.fork();
    let (pruned, calls) = run(&calm, u64::MAX / 2);
    let plan = pruned.unwrap().preview;
    // What an acknowledged prune removed stays away, also without the opening that would finish it.
    let cut = Restart::Power(Loss::Everything).of(&calm);
    for segment in &plan.segments {
        assert!(cut.read(segment).is_err(), "{} is back", segment.display());
    }
    // Most calls read segments: only a few of those are tried.
    let writes_from = calls - 60;
    let tried = (1..writes_from).step_by(37).chain(writes_from.max(1)..=calls);
    let (mut finished, mut untouched, mut halfway) = (0, 0, 0);
    for crash in tried {
        let power = [Loss::Everything, Loss::Nothing, Loss::Some(crash), Loss::Some(crash + 99)];
        for restart in power.map(Restart::Power).into_iter().chain([Restart::Process]) {
            let story = format!("crash before call {crash} of {calls}, {restart:?}");
            let disk = disk.fork();
            let (pruned, _) = run(&disk, crash);
            assert!(pruned.is_err(), "{story}");
            let disk = restart.of(&disk);
            // Readers see a complete ledger before it is repaired.
            let seen = view(&disk).fold(u64::MAX).unwrap();
            assert!(seen.damage.is_empty() && seen.unreadable.is_none(), "{story}: {seen:?}");
            let first = reader(&disk).first_seq();
            halfway += usize::from(first > 1 && first <= plan.last_seq);
            let opened = Ledger::open_with(&dir(), &quiet(&disk));
            let (ledger, report) = opened.unwrap_or_else(|error| panic!("{story}: {error}"));
            for (seq, hash) in
                hashes.iter().enumerate().skip(usize::try_from(plan.anchors[0].seq).unwrap())
            {
                assert_eq!(
                    state_hash(&ledger.state_at(place(seq)).unwrap()),
                    *hash,
                    "{story}: {seq}"
                );
            }
            assert!(ledger.head().seq >= head.seq, "{story}");
            assert_eq!(ledger.warnings(), Vec::<String>::new(), "{story}");
            ledger.close().unwrap();
            let first = reader(&disk).first_seq();
            let has_note =
                reader(&disk).records_of_kind(KIND_RETENTION_NOTE, first).any(|note| note.is_ok());
            if has_note {
                assert_eq!(first, plan.last_seq + 1, "{story}: {report}");
                finished += 1;
            } else {
                assert_eq!(first, 1, "{story}: {report}");
                untouched += 1;
            }
            expect_whole(&disk, &[VerifyLevel::Replay], &story);
            let before = held(&disk);
            open(&disk).close().unwrap();
            assert_eq!(held(&disk), before, "{story}: opened again");
        }
    }
    assert!(finished > 10 && untouched > 10 && halfway > 1, "{finished} {untouched} {halfway}");
}

/// Goal: a prune that was interrupted after its note continues only if both anchors are still
/// valid; otherwise nothing is removed, and the next open reports it.
#[test]
fn prune_does_not_continue_without_its_anchors() {
    let disk = five();
    let clean = disk.fork();
    let ledger = open(&clean);
    let plan = ledger.prune(RetentionLimit::EndedRuns, None, "ann").unwrap().preview;
    let files = log_files(&disk).len();
    let mut noted = 0;
    for call in disk.calls() + 1..=clean.calls() {
        let disk = disk.fork();
        disk.crash_at(call);
        if let Ok((ledger, _)) = Ledger::open_with(&dir(), &quiet(&disk)) {
            let _ = ledger.prune(RetentionLimit::EndedRuns, None, "ann");
        }
        disk.crash_at(u64::MAX);
        disk.kill_process();
        let is_noted = reader(&disk).records_of_kind(KIND_RETENTION_NOTE, 1).any(|it| it.is_ok());
        if !is_noted || log_files(&disk).len() < files {
            continue;
        }
        for anchor in &plan.anchors {
            let path = dir().join("snap").join(&anchor.file);
            let gone = disk.fork();
            gone.remove(&path).unwrap();
            let damaged = disk.fork();
            damaged.overwrite(&path, 4200, &[0xA5; 8]).unwrap();
            for disk in [gone, damaged] {
                let (ledger, report) = Ledger::open_with(&dir(), &quiet(&disk)).unwrap();
                assert!(!report.notes.is_empty(), "call {call}: {report:?}");
                assert_eq!(log_files(&disk).len(), files, "call {call}");
                assert_eq!(ledger.replay(1).unwrap()[0].seq, 1, "call {call}");
                noted += 1;
            }
        }
    }
    assert!(noted >= 4, "{noted}");
}

/// Goal: a disk call that fails during a prune leaves an unfinished prune and nothing worse:
/// the ledger continues, and a second call finishes it.
#[test]
fn failed_call_during_a_prune_leaves_a_working_ledger() {
    let disk = five();
    let calm = disk.fork();
    let ledger = open(&calm);
    let before = calm.calls();
    let plan = ledger.prune(RetentionLimit::EndedRuns, None, "ann").unwrap().preview;
    let calls = calm.calls() - before;
    let (mut poisoned, mut asked_again) = (0, 0);
    for call in calls - 45..=calls {
        for effect in [FaultEffect::Nothing, FaultEffect::Everything] {
            let disk = disk.fork();
            let ledger = open(&disk);
            let fault =
                Fault { call: disk.calls() + call, kind: std::io::ErrorKind::Other, effect };
            disk.fail_at(fault);
            if ledger.prune(RetentionLimit::EndedRuns, None, "ann").is_ok() {
                continue;
            }
            let again = ledger.prune(RetentionLimit::EndedRuns, None, "ann");
            let is_done = reader(&disk).first_seq() == plan.last_seq + 1;
            match again {
                // The interrupted prune was finished first, and then there was nothing to do.
                Err(error) if error.kind() == ErrorKind::Rejected => assert!(is_done, "{error}"),
                Err(error) => {
                    assert!(
                        matches!(
                            error.kind(),
                            ErrorKind::Poisoned | ErrorKind::OutcomeUnknown | ErrorKind::Fenced
                        ),
                        "{fault:?}: {error}"
                    );
                    poisoned += 1;
                }
                Ok(_) => assert!(is_done, "{fault:?}"),
            }
            asked_again += usize::from(is_done);
            drop(ledger);
            let ledger = open(&disk);
            ledger.close().unwrap();
            expect_whole(&disk, &[VerifyLevel::Replay], &format!("{fault:?}"));
        }
    }
    assert!(poisoned > 2 && asked_again > 10, "{poisoned} {asked_again}");
}

/// Story: a crash can leave a segment without records. Pruning it alone wrote a note about no
/// record, which no reader accepts, and removed the segment: the ledger looked damaged from
/// then on.
#[test]
fn segment_without_records_is_not_pruned_alone() {
    let disk = SimDisk::new();
    Ledger::create(&dir(), &quiet(&disk)).unwrap().close().unwrap();
    fence(&disk);
    let ledger = open(&disk);
    for limit in 1..3 {
        ledger.execute(&cap(limit)).unwrap();
        ledger.snapshot::<State>().unwrap();
    }
    assert_eq!(view(&disk).log().segments().len(), 2);
    let refused = ledger.prune(RetentionLimit::Record(u64::MAX), None, "ann").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Rejected, "{refused}");
    assert!(refused.to_string().contains("no record"), "{refused}");
    ledger.close().unwrap();
    expect_whole(&disk, &LEVELS, "nothing was pruned");

    // Together with the next one, which has records, it is pruned.
    fence(&disk);
    let ledger = open(&disk);
    for limit in 3..5 {
        ledger.execute(&cap(limit)).unwrap();
        ledger.snapshot::<State>().unwrap();
    }
    let pruned = ledger.prune(RetentionLimit::Record(u64::MAX), None, "ann").unwrap();
    assert_eq!((pruned.preview.first_seq, pruned.removal.segments.len()), (1, 2));
    ledger.close().unwrap();
    expect_whole(&disk, &LEVELS, "two were pruned");
}

/// Goal: a pruned log can be pruned again: the fold then begins with an earlier anchor.
#[test]
fn pruned_log_can_be_pruned_again() {
    let disk = five();
    let hashes = truth(&disk);
    let ledger = open(&disk);
    let first = ledger.prune(RetentionLimit::EndedRuns, None, "ann").unwrap();
    assert!(log_files(&disk).len() >= 2);
    let error = ledger.prune(RetentionLimit::Record(u64::MAX), None, "ann").unwrap_err();
    assert!(error.to_string().contains("make a snapshot"), "{error}");
    ledger.close().unwrap();
    for name in ["five", "six"] {
        fence(&disk);
        let ledger = open(&disk);
        ended_run(&ledger, name);
        ledger.close().unwrap();
    }
    fence(&disk);
    let ledger = open(&disk);
    ledger.snapshot::<State>().unwrap();
    ended_run(&ledger, "seven");
    ledger.snapshot::<State>().unwrap();
    let (seq, hash) = (ledger.head().seq, ledger.state_hash().unwrap());
    let second = ledger.prune(RetentionLimit::Record(u64::MAX), None, "bob").unwrap();
    assert_eq!(second.preview.first_seq, first.preview.last_seq + 1);
    assert!(second.preview.last_seq > first.preview.anchors[0].seq);
    assert_eq!(second.preview.open_runs, ["open"]);
    let refused = view(&disk).state_at(first.preview.anchors[0].seq).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Pruned, "{refused}");
    assert_eq!(state_hash(&ledger.state_at(seq).unwrap()), hash);
    let hash = ledger.state_hash().unwrap();
    ledger.close().unwrap();
    expect_whole(&disk, &LEVELS, "pruned twice");
    let (ledger, report) = Ledger::open_with(&dir(), &quiet(&disk)).unwrap();
    assert_eq!((ledger.state_hash().unwrap(), report.notes), (hash, Vec::new()));
    for seq in second.preview.anchors[0].seq..place(hashes.len()) {
        let state = ledger.state_at(seq).unwrap();
        assert_eq!(state_hash(&state), hashes[usize::try_from(seq).unwrap()]);
    }
}

fn snapshots(disk: &SimDisk) -> Vec<PathBuf> {
    disk.files(&dir().join("snap"))
}

/// Goal: retention by a policy needs no snapshots that a person makes.
#[test]
fn missing_snapshots_are_written_before_a_prune() {
    let disk = five();
    for path in snapshots(&disk) {
        disk.remove(&path).unwrap();
    }
    let (ledger, limit) = (open(&disk), RetentionLimit::EndedRuns);
    assert_eq!(ledger.prune(limit, None, "ann").unwrap_err().kind(), ErrorKind::Rejected);
    assert!(view(&disk).prune_needs_snapshots(limit).unwrap());
    ledger.prepare_prune(limit).unwrap();
    assert!(!view(&disk).prune_needs_snapshots(limit).unwrap());
    let count = snapshots(&disk).len();
    ledger.prepare_prune(limit).unwrap();
    assert_eq!(snapshots(&disk).len(), count, "they are written once");
    let pruned = ledger.prune(limit, None, "ann").unwrap();
    let hash = ledger.state_hash().unwrap();
    ledger.close().unwrap();
    assert_eq!(reader(&disk).first_seq(), pruned.preview.last_seq + 1);
    assert_eq!(open(&disk).state_hash().unwrap(), hash);
}

/// The export of a ledger, all of it.
fn exported(disk: &SimDisk, dir: &Path) -> Vec<u8> {
    let mut out = Vec::new();
    let view = LedgerView::open(dir, &quiet(disk)).unwrap();
    view.export(None, None, &|_| None, &mut out).unwrap();
    out
}

/// Import into another folder of the disk.
fn import_copy(disk: &SimDisk, text: &[u8]) -> Result<ImportReport, plan_ledger::Error> {
    let environment = Environment { ids: Environment::system().ids, ..quiet(disk) };
    import(Path::new("/copy"), &mut &*text, &environment)
}

/// Story: the export of a pruned ledger said that it cannot be imported, so a pruned ledger had no
/// backup that works while it is in use.
/// Goal: it is imported with the same chain and the same state at every record, verifies at every
/// level, exports to the same bytes, and continues: it is written, pruned again and exported again.
#[test]
fn export_of_a_pruned_ledger_is_imported() {
    let disk = five();
    let states = truth(&disk);
    let ledger = open(&disk);
    let plan = ledger.prune(RetentionLimit::EndedRuns, None, "ann").unwrap().preview;
    ledger.execute(&cap(4)).unwrap();
    let (head, last_state) = (ledger.head(), state_hash(&ledger.state().unwrap()));
    ledger.close().unwrap();
    let text = exported(&disk, &dir());
    let imported = import_copy(&disk, &text).unwrap();
    assert_eq!((imported.ack.seq, imported.ack.chain), (head.seq, head.chain));
    let again = exported(&disk, Path::new("/copy"));
    let tail =
        |text: &[u8]| text.iter().skip_while(|byte| **byte != b'\n').copied().collect::<Vec<_>>();
    assert!(tail(&text) == tail(&again), "the exports differ");

    let verify_copy = |story: &str| {
        for level in LEVELS {
            let request = VerifyRequest {
                level,
                jobs: std::num::NonZeroUsize::MIN,
                expected: None,
                watch: &|_| std::ops::ControlFlow::Continue(()),
            };
            let report = request.run(Path::new("/copy"), &quiet(&disk)).unwrap();
            assert_eq!(
                report.condition(),
                LedgerCondition::Valid,
                "{story}: {:?}",
                report.log.findings
            );
        }
    };
    verify_copy("imported");
    let copy = LedgerView::open(Path::new("/copy"), &quiet(&disk)).unwrap();
    assert_eq!(copy.log().first_seq(), plan.last_seq + 1);
    let older = copy.log().retention().unwrap().note.anchors[0].seq;
    for seq in older..=place(states.len() - 1) {
        let state = copy.state_at(seq).unwrap();
        assert_eq!(state_hash(&state), states[usize::try_from(seq).unwrap()], "at {seq}");
    }
    assert_eq!(copy.state_at(older - 1).unwrap_err().kind(), ErrorKind::Pruned);

    let environment = Environment { ids: Environment::system().ids, ..quiet(&disk) };
    let (ledger, report) = Ledger::open_with(Path::new("/copy"), &environment).unwrap();
    assert_eq!((report.verdict.as_str(), ledger.head()), ("clean", head));
    assert_eq!(state_hash(&ledger.state().unwrap()), last_state);
    ended_run(&ledger, "after");
    for number in 0..2 {
        ledger.snapshot::<State>().unwrap();
        ledger.execute(&cap(number + 5)).unwrap();
    }
    ledger.close().unwrap();
    verify_copy("written");
}

/// A change of the lines of an export.
type Change<'a> = &'a dyn Fn(&mut Vec<serde_json::Value>);

/// Goal: an export whose snapshots are not those of its records is rejected, and nothing is left; a
/// part of a pruned ledger is a part.
#[test]
fn changed_snapshot_in_an_export_is_rejected() {
    let disk = five();
    let ledger = open(&disk);
    ledger.prune(RetentionLimit::EndedRuns, None, "ann").unwrap();
    ledger.execute(&cap(4)).unwrap();
    ledger.close().unwrap();
    let text = String::from_utf8(exported(&disk, &dir())).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(kinds[..6], ["header", "anchor", "data", "anchor", "data", "record"]);
    let with = |change: &dyn Fn(&mut Vec<serde_json::Value>)| {
        let mut lines = lines.clone();
        change(&mut lines);
        lines.iter().map(|line| format!("{line}\n")).collect::<String>()
    };
    let zeros = "0".repeat(64);
    let changes: [(&str, Change<'_>, &str); 8] = [
        (
            "swapped",
            &|it| {
                it.swap(1, 3);
                it.swap(2, 4);
            },
            "the older one first",
        ),
        (
            "one alone",
            &|it| {
                it.drain(3..5);
            },
            "expected a snapshot",
        ),
        (
            "no start",
            &|it| {
                it.drain(1..5);
            },
            "expected a snapshot",
        ),
        (
            "a third one",
            &|it| {
                let third = it[3].clone();
                it.insert(5, third);
            },
            "an unexpected snapshot",
        ),
        ("another state", &|it| it[2] = it[4].clone(), "expected"),
        ("another chain", &|it| it[3]["chain"] = zeros.clone().into(), "another history"),
        ("another segment", &|it| it[0]["first_ordinal"] = 7.into(), "no record says"),
        ("a newer program", &|it| it[1]["version"] = 9.into(), "use a newer"),
    ];
    for (story, change, message) in changes {
        let error = import_copy(&disk, with(change).as_bytes()).unwrap_err();
        assert!(error.to_string().contains(message), "{story}: {error}");
        assert!(disk.files(Path::new("/copy")).is_empty(), "{story}");
        assert_eq!(super::export::drafts(&disk), [""; 0], "{story}");
    }
    // A snapshot that is intact and of another state: its note must name it, and the fold must end in it.
    let forged = with(&|it| {
        it[4] = it[2].clone();
        let (seq, chain, time) =
            (it[3]["seq"].clone(), it[3]["chain"].clone(), it[3]["time"].clone());
        it[3] = it[1].clone();
        it[3]["seq"] = seq;
        it[3]["chain"] = chain;
        it[3]["time"] = time;
    });
    import_copy(&disk, forged.as_bytes()).unwrap_err();
    import_copy(&disk, text.as_bytes()).unwrap();

    let view = view(&disk);
    let (first, last) = (view.log().first_seq(), view.log().head().unwrap().durable_seq);
    let before_note = view.log().retention().unwrap().seq - 1;
    for (from, to) in
        [(Some(first), None), (None, Some(before_note)), (Some(first + 1), Some(last))]
    {
        let mut out = Vec::new();
        view.export(from, to, &|_| None, &mut out).unwrap();
        let error = import(Path::new("/part"), &mut &*out, &quiet(&disk)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfRange, "{from:?} {to:?}: {error}");
    }
    // A damaged anchor ends the export before anything is written.
    let anchor = view.log().retention().unwrap().note.anchors[1].file.clone();
    let anchor = dir().join("snap").join(anchor);
    disk.overwrite(&anchor, 600, b"damaged!").unwrap();
    let mut out = Vec::new();
    let error = view.export(None, None, &|_| None, &mut out).unwrap_err();
    assert_eq!((error.kind(), out.len()), (ErrorKind::Corrupt, 0), "{error}");
    assert!(error.to_string().contains(&format!("ledger export --from {first}")), "{error}");
    view.export(Some(first), None, &|_| None, &mut out).unwrap();
}

/// Goal: the anchors of a pruned log are never removed, however many snapshots follow, and no
/// older snapshot is kept.
#[test]
fn anchors_are_never_removed() {
    let disk = five();
    let ledger = open(&disk);
    ledger.snapshot::<Count>().unwrap();
    let plan = ledger.prune(RetentionLimit::EndedRuns, None, "ann").unwrap().preview;
    for number in 0..6 {
        let run = ledger.state().unwrap().run_named("open").unwrap().id;
        ledger.set_variable(run, "v", Json::new(&number.into()), None, "ann").unwrap();
        ledger.snapshot::<State>().unwrap();
    }
    let names: Vec<_> = snapshots(&disk)
        .iter()
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    for anchor in &plan.anchors {
        assert!(names.contains(&anchor.file), "{names:?}");
    }
    let of_state = names.iter().filter(|name| name.contains("-state-")).count();
    assert_eq!(of_state, 4, "{names:?}");
}

/// Goal: a damaged anchor is damage of the ledger on every level, and named; with one anchor
/// left the ledger works, with none it reports what is missing.
#[test]
fn damaged_anchor_is_corrupt() {
    let disk = five();
    let ledger = open(&disk);
    let plan = ledger.prune(RetentionLimit::EndedRuns, None, "ann").unwrap().preview;
    let hash = ledger.state_hash().unwrap();
    ledger.close().unwrap();
    let file = |number: usize| dir().join("snap").join(&plan.anchors[number].file);
    for number in [0, 1] {
        for is_removed in [false, true] {
            let disk = disk.fork();
            let path = file(number);
            if is_removed {
                disk.remove(&path).unwrap();
            } else {
                let middle = disk.read(&path).unwrap().len() / 2;
                let byte = disk.read(&path).unwrap()[middle];
                disk.overwrite(&path, place(middle), &[byte ^ 4]).unwrap();
            }
            for level in LEVELS {
                let report = verified(&disk, level);
                assert_eq!(report.condition(), LedgerCondition::Damaged, "{number} {level:?}");
                let damage: Vec<_> = report
                    .log
                    .findings
                    .iter()
                    .filter(|it| it.class == FindingClass::Damage)
                    .collect();
                assert_eq!(damage.len(), 1, "{damage:?}");
                assert_eq!(damage[0].path, path);
            }
            let ledger = open(&disk);
            assert_eq!(ledger.state_hash().unwrap(), hash);
            assert!(ledger.collect_blobs().unwrap_err().is_corrupt() || is_removed);
            let fold = view(&disk).fold(u64::MAX).unwrap();
            assert_eq!(state_hash(&fold.state), hash);
        }
    }
    disk.remove(&file(0)).unwrap();
    disk.remove(&file(1)).unwrap();
    for path in snapshots(&disk) {
        disk.remove(&path).unwrap();
    }
    let error = Ledger::open_with(&dir(), &quiet(&disk)).unwrap_err();
    assert!(error.is_corrupt() && error.to_string().contains("no snapshot"), "{error}");
    let fold = view(&disk).fold(u64::MAX).unwrap();
    assert!(matches!(fold.origin, FoldOrigin::Missing(_)) && fold.unreadable.is_some());
    assert!(fold.records > 0 && fold.damage.is_empty());
}

/// Goal: without the note, or with segments missing that no note covers, a log that begins
/// later is damaged.
#[test]
fn segments_without_a_note_are_missing() {
    let disk = five();
    let files = log_files(&disk);
    let lost = disk.fork();
    lost.remove(&files[0].0).unwrap();
    let error = Ledger::open_with(&dir(), &quiet(&lost)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert_eq!(reader(&lost).first_seq(), 1);
    assert!(!view(&lost).fold(u64::MAX).unwrap().damage.is_empty());

    let ledger = open(&disk);
    let plan = ledger.prune(RetentionLimit::EndedRuns, None, "ann").unwrap().preview;
    ledger.close().unwrap();
    let lost = disk.fork();
    lost.remove(&log_files(&disk)[0].0).unwrap();
    let error = Ledger::open_with(&dir(), &quiet(&lost)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    let damage = view(&lost).fold(u64::MAX).unwrap().damage.remove(0);
    assert_eq!(damage.first_seq, plan.last_seq + 1, "{damage:?}");
    assert_eq!(verified(&lost, VerifyLevel::Crc).condition(), LedgerCondition::Damaged);

    // Another first segment than the one that the note names.
    let first = reader(&disk).segments()[0].clone();
    let mut header = first.header.unwrap();
    header.prev_chain.0[7] ^= 1;
    disk.overwrite(&first.path, 0, &header.encode()).unwrap();
    let error = Ledger::open_with(&dir(), &quiet(&disk)).unwrap_err();
    assert!(error.to_string().contains("does not start at the pruned end"), "{error}");
    assert_eq!(verified(&disk, VerifyLevel::Crc).condition(), LedgerCondition::Damaged);
}

/// Goal: a prune that is not allowed is rejected with its reason, and changes nothing.
#[test]
fn invalid_prune_is_rejected() {
    let disk = SimDisk::new();
    let ledger = Ledger::create(&dir(), &quiet(&disk)).unwrap();
    let refused = |ledger: &Ledger, limit, words: &[&str]| {
        let before = (ledger.head(), log_files(&disk), snapshots(&disk));
        let error = ledger.prune(limit, None, "ann").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
        for word in words {
            assert!(error.to_string().contains(word), "{word}: {error}");
        }
        assert_eq!((ledger.head(), log_files(&disk), snapshots(&disk)), before);
    };
    refused(&ledger, RetentionLimit::EndedRuns, &["one segment"]);
    let run = started_run(&ledger, "first");
    ledger.close().unwrap();
    fence(&disk);
    let ledger = open(&disk);
    ended_run(&ledger, "second");
    refused(&ledger, RetentionLimit::EndedRuns, &["run `first` is open", "records 1 to"]);
    refused(&ledger, RetentionLimit::Record(2), &["whole segments", "found 2"]);
    let words = ["two verified snapshots", "found 0", "make a snapshot"];
    refused(&ledger, RetentionLimit::Record(u64::MAX), &words);
    let task = ledger.dispatch(run, "worker").unwrap().unwrap();
    ledger.record_receipt(task.token, Receipt::default()).unwrap();
    ledger.snapshot::<State>().unwrap();
    refused(&ledger, RetentionLimit::EndedRuns, &["two verified snapshots", "found 1"]);
    ended_run(&ledger, "third");
    ledger.snapshot::<State>().unwrap();
    // One of the two is damaged.
    let path = snapshots(&disk).remove(0);
    let byte = disk.read(&path).unwrap()[600];
    disk.overwrite(&path, 600, &[byte ^ 1]).unwrap();
    refused(&ledger, RetentionLimit::EndedRuns, &["found 1", "chunk 0"]);
    disk.overwrite(&path, 600, &[byte]).unwrap();
    ledger.prune(RetentionLimit::EndedRuns, None, "ann").unwrap();
}

/// Goal: an idempotency key that is still compared is not pruned.
#[test]
fn key_inside_the_window_is_not_pruned() {
    let disk = SimDisk::new();
    let ledger = Ledger::create(&dir(), &quiet(&disk)).unwrap();
    let key = plan_ledger::BatchKey::new(b"once").unwrap();
    ledger.execute_once(&key, &cap(9)).unwrap();
    ledger.close().unwrap();
    fence(&disk);
    let ledger = open(&disk);
    ledger.snapshot::<State>().unwrap();
    ended_run(&ledger, "one");
    ledger.snapshot::<State>().unwrap();
    let error = ledger.prune(RetentionLimit::EndedRuns, None, "ann").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
    assert!(error.to_string().contains("record 1 is an idempotency key"), "{error}");
    assert_eq!(ledger.execute_once(&key, &cap(9)).unwrap().ack.seq, 2);
}

/// Put the state of another ledger into the place of a snapshot. Returns the new header.
fn forge(disk: &SimDisk, name: &plan_ledger::internals::format::SnapshotName) -> SnapshotHeader {
    let path = dir().join("snap").join(name.to_string());
    let mut header = SnapshotHeader::decode(&disk.read(&path).unwrap()).unwrap();
    let ledger = Ledger::create(&dir(), &quiet(&SimDisk::new())).unwrap();
    for _ in 0..header.seq {
        let cap = Command::SetCap {
            scope: plan_ledger::plan::CapScope::Ledger,
            limit: Some(u32::try_from(ledger.head().seq + 1).unwrap()),
            by: "eve".to_owned(),
        };
        ledger.execute(&cap).unwrap();
    }
    let state = ledger.state().unwrap();
    assert_eq!(state.seq, header.seq);
    disk.remove(&path).unwrap();
    (header.state_hash, header.body_length) = (state.hash().0, 0);
    let encode = |out: &mut dyn std::io::Write| state.encode(out);
    plan_ledger::log::write_snapshot(disk, &dir(), header, encode).unwrap().0
}

/// Goal: a snapshot that passes every check but differs from a fold of the log does not become
/// an anchor.
#[test]
fn forged_snapshot_is_no_anchor() {
    let disk = five();
    let list = reader(&disk).snapshots().unwrap().names;
    assert_eq!(list.len(), 2);
    let header = forge(&disk, &list[0]);
    let error = view(&disk).preview_prune(RetentionLimit::EndedRuns).unwrap_err();
    assert!(error.to_string().contains("no note in the log names its state"), "{error}");
    crate::snapshots::append_note(&disk, &header);
    let error = view(&disk).preview_prune(RetentionLimit::EndedRuns).unwrap_err();
    assert!(error.to_string().contains("differs from a fold of the log"), "{error}");
}

/// Goal: an export is not imported whose log names a snapshot that passes every check but is not the
/// state that results from the records.
#[test]
fn forged_anchor_is_not_imported() {
    let disk = five();
    let ledger = open(&disk);
    ledger.prune(RetentionLimit::EndedRuns, None, "ann").unwrap();
    ledger.close().unwrap();
    let mut note = reader(&disk).retention().unwrap().note.clone();
    let header = forge(&disk, &note.anchors[1].name().unwrap());
    note.anchors[1] = Anchor::of(&header);
    let (log, _) = Log::open(&dir(), options(&disk), at(901)).unwrap();
    log.append(&[note.record()], at(901)).unwrap();
    log.close().unwrap();
    let error = import_copy(&disk, &exported(&disk, &dir())).unwrap_err();
    assert!(error.to_string().contains("not the state that results"), "{error}");
    assert!(disk.files(Path::new("/copy")).is_empty());
}

/// Goal: an output that only an anchor names is kept and found.
#[test]
fn output_named_only_by_an_anchor_is_kept() {
    let disk = SimDisk::new();
    let environment = Environment { blob_threshold: 100, ..quiet(&disk) };
    let ledger = Ledger::create(&dir(), &environment).unwrap();
    let plan = serde_json::from_str(r#"{"steps": [{"id": "a", "acceptance": ["good"]}]}"#).unwrap();
    let policy = RunPolicy { text: plan_ledger::TextPolicy::Judge, ..RunPolicy::default() };
    let run = ledger.start_run("long", &plan, policy).unwrap();
    let task = ledger.dispatch(run, "worker").unwrap().unwrap();
    let output = Json::new(&"o".repeat(500).into());
    let receipt = Receipt { output: output.clone().into(), ..Receipt::default() };
    ledger.record_receipt(task.token, receipt).unwrap();
    ledger.close().unwrap();
    fence(&disk);
    let ledger = open(&disk);
    for name in ["one", "two"] {
        ended_run(&ledger, name);
        ledger.snapshot::<State>().unwrap();
    }
    let through = ledger.state().unwrap().runs[&run].steps[0].last_seq;
    let plan = ledger.prune(RetentionLimit::Record(u64::MAX), None, "ann").unwrap().preview;
    assert!(plan.last_seq >= through && plan.open_runs == ["long"], "{plan:?}");
    let state = ledger.state().unwrap();
    let kept = state.runs[&run].steps[0].attempt().and_then(|it| it.receipt.as_ref());
    assert_eq!(ledger.collect_blobs().unwrap().blobs, 0);
    assert_eq!(ledger.output(&kept.unwrap().output).unwrap(), output);
    ledger.close().unwrap();
    let survey = view(&disk).blobs(plan_ledger::internals::ledger::BlobCheck::Content).unwrap();
    assert_eq!((survey.blobs.len(), survey.is_complete), (1, true));
    assert!(survey.blobs[0].records > 0, "{survey:?}");
}

/// Goal: a retention note with invalid content covers nothing; a name that is no snapshot's
/// makes no anchor.
#[test]
fn invalid_retention_note_covers_nothing() {
    let disk = five();
    let ledger = open(&disk);
    let plan = ledger.prune(RetentionLimit::EndedRuns, None, "ann").unwrap().preview;
    drop(ledger);
    let good = reader(&disk).retention().unwrap().note.clone();
    let change: [&dyn Fn(&mut plan_ledger::log::RetentionNote); 8] = [
        &|note| note.anchors.truncate(1),
        &|note| note.anchors.swap(0, 1),
        &|note| note.anchors[0].file = "x".to_owned(),
        &|note| note.anchors[1].seq = 1_000_000,
        &|note| note.chain = "0".to_owned(),
        &|note| note.first_seq = 0,
        &|note| note.last_seq = note.anchors[0].seq + 1,
        &|note| note.anchors[0].state_hash.push('0'),
    ];
    for (number, change) in change.into_iter().enumerate() {
        let disk = disk.fork();
        let mut note = good.clone();
        change(&mut note);
        assert!(!note.is_valid(1000) || number == 3);
        let (log, _) = plan_ledger::log::Log::open(&dir(), crate::lab::options(&disk), 9).unwrap();
        log.append(&[note.record()], 1).unwrap();
        log.close().unwrap();
        // The older note still counts, and the invalid one is reported.
        assert_eq!(reader(&disk).first_seq(), plan.last_seq + 1, "{number}");
        let report = verified(&disk, VerifyLevel::Crc);
        let finding = report.log.findings.iter().find(|it| it.what.contains("retention note"));
        assert!(finding.is_some_and(|it| it.class == FindingClass::Damage), "{number}");
    }
}

/// Goal: a note about another log, or with other anchors than the existing ones, removes
/// nothing; nor does one that is not durable yet.
#[test]
fn note_of_another_log_removes_nothing() {
    let disk = five();
    let pruned = disk.fork();
    let ledger = open(&pruned);
    ledger.prune(RetentionLimit::EndedRuns, None, "ann").unwrap();
    drop(ledger);
    let good = reader(&pruned).retention().unwrap().note.clone();
    let mut other = good.clone();
    let digit = if other.chain.starts_with('0') { "1" } else { "0" };
    other.chain.replace_range(..1, digit);
    let filler = NewRecord { kind: 60_000, codec: Codec::Raw, schema: 1, payload: vec![1] };
    let (log, _) = Log::open(&dir(), options(&disk), at(900)).unwrap();
    while log.last_durable().seq <= good.anchors[1].seq {
        log.append(std::slice::from_ref(&filler), at(900)).unwrap();
    }
    let early = plan_ledger::log::LoggedRetentionNote { seq: u64::MAX, note: good.clone() };
    assert_eq!(log.remove_pruned(&early).unwrap_err().kind(), ErrorKind::OutOfRange);
    log.append(&[other.record()], at(900)).unwrap();
    log.close().unwrap();
    let files = disk.files(&dir());
    let (log, report) = Log::open(&dir(), options(&disk), at(901)).unwrap();
    let refused = report.pruned.unwrap_err();
    assert!(refused.contains("no segment starts after it; nothing was removed"), "{refused}");
    assert_eq!(disk.files(&dir()), files);
    log.close().unwrap();

    let view = reader(&pruned);
    let mut unnamed = good.anchors[0].clone();
    unnamed.file = "notes.txt".to_owned();
    let mut changed = good.anchors[0].clone();
    let last = changed.state_hash.pop().unwrap();
    changed.state_hash.push(if last == '0' { '1' } else { '0' });
    for (anchor, words) in
        [(unnamed, "does not name a snapshot"), (changed, "not the one in the retention note")]
    {
        let error = view.check_anchor(&anchor).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains(words), "{error}");
    }
    view.check_anchor(&good.anchors[0]).unwrap();
}

/// Goal: a manifest that is too long, of a newer program, or not canonical is rejected, each
/// with its own message.
#[test]
fn invalid_manifest_is_rejected() {
    let disk = with_outputs();
    let made = archived(&disk, None);
    let folder = PathBuf::from("/unpacked");
    unpack(&disk, &made.manifest, &folder);
    let path = folder.join("ARCHIVE.json");
    let good = String::from_utf8(disk.read(&path).unwrap()).unwrap();
    let newer = good.replace(plan_ledger::log::ARCHIVE_FORMAT, "of the future");
    assert_ne!(newer, good);
    let newer = newer.replacen('{', "{\"new\":1,", 1);
    let cases = [
        (format!("{good} "), ErrorKind::Corrupt, "not canonical"),
        (newer, ErrorKind::Unsupported, "newer"),
        (good[1..].to_owned(), ErrorKind::Corrupt, "not a manifest"),
    ];
    let storage: std::sync::Arc<dyn plan_ledger::internals::storage::Storage> =
        std::sync::Arc::new(disk.clone());
    let open = || plan_ledger::log::LogReader::open(&storage, &folder).map(|_| ());
    open().unwrap();
    for (text, kind, words) in cases {
        disk.set_length(&path, u64::try_from(text.len()).unwrap()).unwrap();
        disk.overwrite(&path, 0, text.as_bytes()).unwrap();
        let error = open().unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    disk.set_length(&path, (256 << 20) + 1).unwrap();
    let error = open().unwrap_err();
    assert!(error.to_string().contains("expected at most"), "{error}");
}

/// The archive's file on the simulated disk.
fn tar() -> PathBuf {
    PathBuf::from("/old.tar")
}

/// An archive that is stopped at any point leaves no file, and one that is not is whole.
#[test]
fn stopped_archive_leaves_no_file() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let pristine = with_outputs();
    let calls = AtomicU64::new(0);
    let count = |_, _| {
        calls.fetch_add(1, Ordering::Relaxed);
        std::ops::ControlFlow::Continue(())
    };
    let whole = archive(&dir(), &tar(), None, &quiet(&pristine.fork()), &count);
    let whole = whole.unwrap().unwrap();
    let calls = calls.into_inner();
    assert!(calls > 10, "{calls}");
    for last in (0..calls).step_by(usize::try_from(calls / 7 + 1).unwrap()).chain([calls - 1]) {
        let disk = pristine.fork();
        let before = disk.files(Path::new("/"));
        let left = AtomicU64::new(last);
        let stop = |done, all| {
            assert!(done <= all);
            match left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            {
                Ok(_) => std::ops::ControlFlow::Continue(()),
                Err(_) => std::ops::ControlFlow::Break(()),
            }
        };
        assert_eq!(archive(&dir(), &tar(), None, &quiet(&disk), &stop).unwrap(), None, "{last}");
        assert_eq!(disk.files(Path::new("/")), before, "{last}");
        assert_eq!(archived(&disk, None), whole, "{last}");
    }
}

fn archived(disk: &SimDisk, through: Option<u64>) -> ArchiveReport {
    archive(&dir(), &tar(), through, &quiet(disk), &unwatched).unwrap().unwrap()
}

/// The verification of an archive in its file; an error if it cannot be opened.
fn verified_file(disk: &SimDisk, level: VerifyLevel) -> Result<VerifyReport, plan_ledger::Error> {
    let inside = quiet(disk).in_archive(&tar())?;
    let watch = &|_| std::ops::ControlFlow::Continue(());
    let jobs = std::num::NonZeroUsize::MIN;
    VerifyRequest { level, jobs, expected: None, watch }.run(&tar(), &inside)
}

/// A ledger with outputs in blobs, one of them missing, and the state that it folds to.
fn with_outputs() -> SimDisk {
    let disk = SimDisk::new();
    let environment = Environment { blob_threshold: 100, ..quiet(&disk) };
    let ledger = Ledger::create(&dir(), &environment).unwrap();
    for name in ["one", "two"] {
        let run = started_run(&ledger, name);
        let task = ledger.dispatch(run, "worker").unwrap().unwrap();
        let output = Json::new(&name.repeat(500).into());
        let receipt = Receipt { output: output.into(), ..Receipt::default() };
        ledger.record_receipt(task.token, receipt).unwrap();
    }
    ledger.close().unwrap();
    let blobs = disk.files(&dir().join("blob"));
    disk.remove(&blobs[1]).unwrap();
    rotate(&disk);
    fence(&disk);
    let ledger = open(&disk);
    started_run(&ledger, "open");
    ledger.close().unwrap();
    disk
}

/// What happens to an output during a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Lost,
    CollectedBlobs,
    /// And the same output is stored again, and named by another record.
    CollectedAndBack,
    /// The record that named it first is pruned; another one names it, too, and it is lost.
    LostThoughNamedAgain,
}

/// Goal: outputs that are pruned and collected during a verification are no damage, even if
/// equal ones are stored again; one that is lost and still named is damage.
#[test]
fn output_pruned_during_verification_is_no_damage() {
    for fate in
        [Fate::Lost, Fate::CollectedBlobs, Fate::CollectedAndBack, Fate::LostThoughNamedAgain]
    {
        let disk = SimDisk::new();
        let environment = Environment { blob_threshold: 100, ..quiet(&disk) };
        let ledger = Ledger::create(&dir(), &environment).unwrap();
        let run = started_run(&ledger, "one");
        // An attempt that failed and was retried: its output is in no state.
        let task = ledger.dispatch(run, "worker").unwrap().unwrap();
        let output: Output = Json::new(&"o".repeat(500).into()).into();
        let (class, message) = (FailureClass::Deterministic, "it broke".to_owned());
        let outcome = Outcome::Failed { class, message, payload: Json::default() };
        let receipt = Receipt { output: output.clone(), outcome, ..Receipt::default() };
        ledger.record_receipt(task.token, receipt).unwrap();
        ledger.execute(&Command::RetryFailed { run, by: "ann".to_owned() }).unwrap();
        let task = ledger.dispatch(run, "worker").unwrap().unwrap();
        ledger.record_receipt(task.token, Receipt::default()).unwrap();
        ledger.close().unwrap();
        fence(&disk);
        let (ledger, _) = Ledger::open_with(&dir(), &environment).unwrap();
        for name in ["two", "three"] {
            ended_run(&ledger, name);
            ledger.snapshot::<State>().unwrap();
        }
        let blob = disk.files(&dir().join("blob")).remove(0);
        let name_again = || {
            let run = started_run(&ledger, "four");
            let task = ledger.dispatch(run, "worker").unwrap().unwrap();
            let receipt = Receipt { output: output.clone(), ..Receipt::default() };
            ledger.record_receipt(task.token, receipt).unwrap();
            assert!(disk.read(&blob).is_ok());
        };
        if fate == Fate::LostThoughNamedAgain {
            name_again();
        }
        let is_lost = matches!(fate, Fate::Lost | Fate::LostThoughNamedAgain);
        let watch = |progress: VerifyProgress| {
            // Snapshots are checked before outputs.
            let is_before = progress.phase == VerifyPhase::Files && reader(&disk).first_seq() == 1;
            if is_before && fate != Fate::Lost {
                ledger.prune(RetentionLimit::EndedRuns, None, "ann").unwrap();
            }
            if is_before && !is_lost {
                assert_eq!(ledger.collect_blobs().unwrap().blobs, 1);
            } else if is_before && disk.read(&blob).is_ok() {
                disk.remove(&blob).unwrap();
            }
            let is_at_the_end =
                progress.phase == VerifyPhase::Files && progress.done == progress.total;
            if is_at_the_end && fate == Fate::CollectedAndBack {
                name_again();
            }
            std::ops::ControlFlow::Continue(())
        };
        let level = VerifyLevel::Snapshots;
        let jobs = std::num::NonZeroUsize::MIN;
        let request = VerifyRequest { level, jobs, expected: None, watch: &watch };
        let report = request.run(&dir(), &environment).unwrap();
        let damage = report.log.findings.iter().filter(|each| each.class == FindingClass::Damage);
        let damaged: Vec<_> = damage.map(|each| &each.path).collect();
        let expected = if is_lost { vec![&blob] } else { vec![] };
        assert_eq!(damaged, expected, "{fate:?}: {:?}", report.log.findings);
    }
}

/// Write every file of an archive into a folder, as `tar -x` does.
fn unpack(disk: &SimDisk, manifest: &ArchiveManifest, to: &Path) {
    let inside = quiet(disk).in_archive(&tar()).unwrap();
    let names = manifest.files.iter().map(|file| file.name.as_str()).chain(["ARCHIVE.json"]);
    for name in names {
        let file = inside.storage.open(&tar().join(name), Access::Read).unwrap();
        let mut bytes = vec![0; usize::try_from(file.length().unwrap()).unwrap()];
        assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
        let path = to.join(name);
        let folders: Vec<_> = path.parent().unwrap().ancestors().collect();
        folders.iter().rev().skip(1).for_each(|folder| disk.create_dir(folder).unwrap());
        disk.create(&path).unwrap().write_at(&bytes, 0).unwrap();
    }
}

/// Goal: an archive holds what was in the ledger, byte for byte; it is verified and read as a
/// file and unpacked, and never written to.
#[test]
fn archive_is_a_readable_ledger() {
    for through in [None, Some(0)] {
        let disk = with_outputs();
        let before = held(&disk);
        let first_end = reader(&disk).segments()[1].header.as_ref().unwrap().prev_last_seq;
        let made = archived(&disk, through.map(|_| first_end));
        let manifest = &made.manifest;
        let segments = if through.is_some() { 1 } else { 2 };
        let logs = manifest.files.iter().filter(|file| file.name.starts_with("log/"));
        assert_eq!(logs.count(), segments);
        assert_eq!((manifest.first_seq, manifest.missing_blobs.len()), (1, 1));
        assert!(
            disk.files(Path::new("/")).iter().all(|path| !path.to_string_lossy().contains(".part"))
        );
        let inside = quiet(&disk).in_archive(&tar()).unwrap();
        let folder = PathBuf::from("/unpacked");
        unpack(&disk, manifest, &folder);
        for (path, environment) in [(tar(), inside), (folder, quiet(&disk))] {
            for level in LEVELS {
                let watch = &|_| std::ops::ControlFlow::Continue(());
                let jobs = std::num::NonZeroUsize::MIN;
                let request = VerifyRequest { level, jobs, expected: None, watch };
                let report = request.run(&path, &environment).unwrap();
                assert_eq!(report.condition(), LedgerCondition::Valid, "{:?}", report.log.findings);
                assert_eq!(report.log.last.unwrap().seq, manifest.last_seq);
            }
            let view = LedgerView::open(&path, &environment).unwrap();
            let fold = view.fold(u64::MAX).unwrap();
            assert!(fold.damage.is_empty() && fold.unacknowledged == 0, "{:?}", fold.damage);
            let state = plan_ledger::LedgerView::open(&dir(), &quiet(&disk)).unwrap();
            let expected = state.state_at(manifest.last_seq).unwrap();
            assert_eq!(state_hash(&fold.state), state_hash(&expected));
            let records = view.log().records(1).map(|it| it.map(|it| (it.seq, it.chain)).unwrap());
            let count = usize::try_from(manifest.last_seq).unwrap();
            assert_eq!(records.collect::<Vec<_>>(), before[..count]);
            let error = Ledger::open_with(&path, &environment).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
        }
    }
}

/// Goal: every byte of an archive is covered: of its manifest, of tar's own headers and
/// padding, of HEAD, of dead bytes in a segment, of a blob.
/// Method: bytes at a distance that is no power of two, and all around every boundary.
#[test]
fn every_flipped_byte_of_an_archive_is_detected() {
    let disk = with_outputs();
    archived(&disk, None);
    let length = place(disk.read(&tar()).unwrap().len());
    let step = (length / 150) | 1;
    let spread = (0..length).step_by(usize::try_from(step).unwrap());
    let edges = (0..2600).step_by(13).chain(length - 1100..length).step_by(7);
    let blocks = (0..length).step_by(512 * 1023).flat_map(|at| [at, at + 156, at + 511]);
    let mut noticed = 0;
    for at in spread.chain(edges).chain(blocks).filter(|at| *at < length) {
        let byte = {
            let mut byte = [0];
            disk.open(&tar(), Access::Read).unwrap().read_at(&mut byte, at).unwrap();
            byte[0]
        };
        disk.overwrite(&tar(), at, &[byte ^ (1 << (at % 8))]).unwrap();
        let is_noticed = match verified_file(&disk, VerifyLevel::Chain) {
            Ok(report) => report.condition() == LedgerCondition::Damaged,
            Err(error) => error.is_corrupt() || error.kind() == ErrorKind::Unsupported,
        };
        assert!(is_noticed, "byte {at} of {length}");
        noticed += 1;
        disk.overwrite(&tar(), at, &[byte]).unwrap();
    }
    assert!(noticed > 300, "{noticed}");
    let report = verified_file(&disk, VerifyLevel::Replay).unwrap();
    assert_eq!(report.condition(), LedgerCondition::Valid);
    // Truncated, or extended.
    let whole = disk.read(&tar()).unwrap();
    for length in [300, 511, 512, 5000, whole.len() - 1024, whole.len() - 1, whole.len() + 512] {
        disk.set_length(&tar(), place(length)).unwrap();
        let error = verified_file(&disk, VerifyLevel::Crc).unwrap_err();
        assert!(error.is_corrupt(), "{length}: {error}");
        disk.set_length(&tar(), place(whole.len())).unwrap();
        disk.overwrite(&tar(), 0, &whole).unwrap();
    }
}

/// Goal: an archive of a pruned log begins where the log does; its records can be read.
#[test]
fn pruned_log_is_archived_from_its_first_record() {
    let disk = five();
    let first = reader(&disk).segments()[1].header.as_ref().unwrap().prev_last_seq;
    let ledger = open(&disk);
    let plan = ledger.prune(RetentionLimit::Record(first), None, "ann").unwrap().preview;
    drop(ledger);
    assert_eq!(plan.segments.len(), 1);
    let made = archived(&disk, None);
    assert_eq!(made.manifest.first_seq, first + 1);
    assert_eq!(made.manifest.chain_before, plan.chain.to_string());
    let report = verified_file(&disk, VerifyLevel::Replay).unwrap();
    assert_eq!((report.condition(), report.state), (LedgerCondition::Valid, None));
    let inside = quiet(&disk).in_archive(&tar()).unwrap();
    let fold = LedgerView::open(&tar(), &inside).unwrap().fold(u64::MAX).unwrap();
    assert!(matches!(fold.origin, FoldOrigin::Missing(_)) && fold.unreadable.is_none());
    assert_eq!(fold.last.unwrap().seq, made.manifest.last_seq);
}

/// Goal: a crash while an archive is made leaves no archive, or a complete one; the ledger is
/// unchanged, and the next try succeeds.
#[test]
fn crash_during_an_archive_leaves_none_or_a_complete_one() {
    let disk = five();
    let before = crate::lab::log_digest(&disk);
    let calm = disk.fork();
    let start = calm.calls();
    archived(&calm, None);
    let calls = calm.calls() - start;
    let tried = (1..calls - 30).step_by(29).chain(calls - 30..=calls);
    let (mut made, mut none) = (0, 0);
    for crash in tried {
        for loss in [Loss::Everything, Loss::Nothing, Loss::Some(crash)] {
            let disk = disk.fork();
            disk.crash_at(disk.calls() + crash);
            archive(&dir(), &tar(), None, &quiet(&disk), &unwatched).unwrap_err();
            let disk = Restart::Power(loss).of(&disk);
            if disk.read(&tar()).is_ok() {
                let report = verified_file(&disk, VerifyLevel::Chain).unwrap();
                assert_eq!(report.condition(), LedgerCondition::Valid, "{crash} {loss:?}");
                made += 1;
            } else {
                archived(&disk, None);
                none += 1;
            }
            assert_eq!(crate::lab::log_digest(&disk), before, "{crash} {loss:?}");
        }
    }
    assert!(made > 0 && none > 50, "{made} {none}");
}

/// A ledger on the real disk that was not pruned yet; `five` as files.
fn on_disk() -> Place {
    let (disk, place) = (five(), Place::new());
    for path in disk.files(&dir()) {
        let to = place.path("l").join(path.strip_prefix(dir()).unwrap());
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::write(to, disk.read(&path).unwrap()).unwrap();
    }
    place
}

/// Goal: a prune up to a record keeps every segment that has a later one.
#[test]
fn prune_up_to_a_record_keeps_what_is_behind_it() {
    let place = on_disk();
    let ended = place.ledger("prune l --ended --json").code(0).lines().remove(0);
    let limit = ended["last_seq"].as_u64().unwrap() - 1;
    let line = format!("prune l --through {limit} --json");
    let plan = place.ledger(&line).code(0).lines().remove(0);
    let last = plan["last_seq"].as_u64().unwrap();
    assert!((1..=limit).contains(&last), "{plan}");
    let pruned = place.ledger(&format!("{line} --yes")).code(0).lines().remove(0);
    assert_eq!((&pruned["first_seq"], &pruned["last_seq"]), (&1.into(), &last.into()), "{pruned}");
    let next = place.ledger("inspect l records --limit 1 --json").code(0).lines().remove(0);
    assert_eq!(next["seq"], last + 1, "{next}");
}

/// Goal: the commands plan without a change, and execute the plan with --yes.
#[test]
fn commands_plan_first_and_execute_with_yes() {
    let place = on_disk();
    let before = place.snapshot();
    let plan = place.ledger("prune l --ended --json").code(0).lines().remove(0);
    assert_eq!((&plan["type"], &plan["first_seq"]), (&"prune_plan".into(), &1.into()));
    place
        .ledger("prune l --ended")
        .code(0)
        .says(&["would prune: records 1 to", "from these snapshots"]);
    place.ledger("archive l --to old.tar --prune").code(0).says(&["would prune: records 1 to"]);
    assert!(place.snapshot() == before, "a plan wrote something");

    let said = place.ledger("archive l --to old.tar --prune --yes --by ana --json").code(0).lines();
    let types: Vec<_> = said.iter().map(|line| line["type"].clone()).collect();
    assert_eq!(types, ["archive", "pruned"]);
    for field in ["last_seq", "chain", "anchors"] {
        assert_eq!(said[1][field], plan[field], "{field}");
    }
    assert_eq!(said[0]["chain"], plan["chain"]);
    place.ledger("verify l --level replay").code(0).says(&["ledger l: whole"]);
    place.ledger("verify old.tar --level replay").code(0).says(&["whole", "opening  refused"]);
    place.ledger("inspect old.tar").code(0).says(&["run run-0", "a read-only archive"]);
    place.ledger("inspect old.tar records --to 2 --json").code(0);
    let last = plan["last_seq"].as_u64().unwrap();
    let words =
        [format!("records 1 to {last} were pruned, most recently by ana"), "old.tar".to_owned()];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    place.ledger("inspect l").code(0).says(&words);
    place.ledger("inspect l records").code(0).says(&words);
    place.ledger("inspect l step run-0 #1").code(0);
    let root = place.ledger("root old.tar").code(0).out;
    assert_eq!(root.trim(), format!("{last}:{}", plan["chain"].as_str().unwrap()));
    place.ledger(&format!("verify l --expect-head {}", root.trim())).code(0);
    let earlier = format!("{}:{}", last - 1, plan["chain"].as_str().unwrap());
    place.ledger(&format!("verify l --expect-head {earlier}")).code(4).says(&["was pruned"]);

    let export = place.ledger("export l").code(0);
    assert!(export.err.contains("the export has the state after them"), "{}", export.err);
    assert!(export.out.starts_with("{\"type\":\"header\""));
    place.write("whole.jsonl", &export.out);
    place.ledger("import whole.jsonl --ledger copy").code(0).says(&["copy: "]);
    place.ledger("verify copy --level replay").code(0);
    assert_eq!(place.ledger("root copy").code(0).out, place.ledger("root l").code(0).out);
    let part = place.ledger(&format!("export l --from {}", last + 1)).code(0);
    let part = part.complains(&["it cannot be imported"]);
    place.write("part.jsonl", &part.out);
    place
        .ledger("import part.jsonl --ledger new")
        .code(2)
        .complains(&["expected an export from record 1"]);
    place.ledger("export l --from 1").code(2).complains(&["begins at record"]);
    place.ledger("recover l --export new").code(6).complains(&["begins at record"]);
    place.ledger("snapshot l").code(0);

    // The system's own tool unpacks it, and the unpacked ledger is verified.
    let done = std::process::Command::new("tar")
        .args(["-xf", "../old.tar"])
        .current_dir({
            std::fs::create_dir(place.path("un")).unwrap();
            place.path("un")
        })
        .status();
    match done {
        Ok(status) => {
            assert!(status.success());
            place.ledger("verify un --level replay").code(0).says(&["ledger un: whole"]);
            place.ledger("snapshot un").code(6).complains(&["an archive"]);
        }
        Err(_) => crate::command::report_skipped("tar is not installed"),
    }
}

/// Goal: while a server has the lock, it executes prune and collection: the same commands, the
/// same answers.
#[test]
fn server_executes_prune_and_collection() {
    let place = on_disk();
    let holder = start(&mut place.command(&["serve", "--ledger", "l"]));
    wait_until("it serves", || holder.said("serving"));
    let plan = place.ledger("prune l --ended --json").code(0).lines().remove(0);
    let said = place.ledger("archive l --to old.tar --prune --yes --by ana --json").code(0).lines();
    let types: Vec<_> = said.iter().map(|line| line["type"].clone()).collect();
    assert_eq!(types, ["archive", "pruned"]);
    assert_eq!(said[1]["last_seq"], plan["last_seq"]);
    place.ledger("prune l --ended --yes").code(6).complains(&["no segment can be removed"]);
    let blobs = place.ledger("blobs l --collect --json").code(0).lines();
    assert_eq!(blobs.last().unwrap()["collected"]["blobs"], 0);
    place.ledger("blobs l --collect").code(0).says(&["removed 0 blobs, 0 B; 0 unfinished"]);
    holder.signal("TERM");
    holder.end().code(0);
    place.ledger("verify l --level replay").code(0).says(&["ledger l: whole"]);
    place.ledger("verify old.tar --level replay").code(0).says(&["whole"]);
}

/// Goal: usage errors and rejections have their own exit codes, and change nothing.
#[test]
fn usage_errors_and_rejections_have_their_exit_codes() {
    let place = on_disk();
    place.write("text.tar", "no tar file at all");
    place.write("there.tar", "");
    let before = place.snapshot();
    for (line, code, words) in [
        ("prune l", 2, vec!["--through", "--ended"]),
        ("prune l --ended --through 3", 2, vec!["cannot be used with"]),
        ("prune l --through 0", 2, vec!["0"]),
        ("prune l --through 1", 6, vec!["whole segments"]),
        ("prune nowhere --ended", 2, vec!["no ledger at"]),
        ("archive l", 2, vec!["--to"]),
        ("archive l --to x.tar --yes", 2, vec!["--prune"]),
        ("archive l --to there.tar", 2, vec!["there.tar", "choose another name"]),
        ("archive l --to no/such/folder.tar", 7, vec!["folder.tar"]),
        ("archive nowhere --to x.tar", 2, vec!["no ledger at"]),
        ("archive l --to x.tar --through 1", 6, vec!["whole segments"]),
        ("verify text.tar", 2, vec!["text.tar", "not an archive"]),
        ("inspect there.tar", 2, vec!["there.tar", "not an archive"]),
        ("prune there.tar --ended", 2, vec!["no ledger at"]),
    ] {
        place.ledger(line).code(code).complains(&words);
    }
    assert!(place.snapshot() == before, "a refusal wrote something");
}

/// Goal: a follower that a prune overtakes is told so, and sees no damage; one that is ahead of
/// it continues.
#[test]
fn follower_overtaken_by_a_prune_is_told() {
    let disk = five();
    let log = reader(&disk);
    let zero = std::time::Duration::ZERO;
    let (mut behind, mut ahead) = (log.follow(1), log.follow(log.head().unwrap().durable_seq));
    assert_eq!(behind.next(zero).unwrap().unwrap().seq, 1);
    assert!(ahead.next(zero).unwrap().is_some());
    let ledger = open(&disk);
    let pruned = ledger.prune(RetentionLimit::EndedRuns, None, "ann").unwrap();
    let mut last = 1;
    let error = loop {
        match behind.next(zero) {
            Ok(record) => last = record.unwrap().seq,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Pruned, "{error}");
    // It may read the segment that it has open to the end.
    assert!(last <= pruned.preview.last_seq, "{last}");
    assert_eq!(ahead.next(zero).unwrap().unwrap().seq, pruned.note_seq);
}

/// Goal: a concurrent prune is no damage to readers: they see the log before it or after it, or
/// are told that a file was removed.
#[test]
fn readers_during_a_prune_see_no_damage() {
    let place = on_disk();
    let dir = place.path("l");
    let environment = Environment { snapshot_every: None, ..Environment::system() };
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let (mut looks, mut pruned) = (0, 0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let _is_over = super::inspect::SetOnDrop(&is_over);
            let mut count = 0;
            for round in 0..3 {
                let (ledger, _) = Ledger::open_with(&dir, &environment).unwrap();
                let run = ledger.state().unwrap().run_named("open").unwrap().id;
                // Enough for another segment, and two snapshots in it.
                fill(&ledger, run, 1_200_000 << round);
                for _ in 0..2 {
                    fill(&ledger, run, 10);
                    ledger.snapshot::<State>().unwrap();
                }
                count += usize::from(
                    ledger.prune(RetentionLimit::Record(u64::MAX), None, "ann").is_ok(),
                );
                ledger.close().unwrap();
            }
            count
        });
        while !is_over.load(std::sync::atomic::Ordering::SeqCst) || looks == 0 {
            let request = VerifyRequest {
                level: VerifyLevel::Chain,
                jobs: std::num::NonZeroUsize::MIN,
                expected: None,
                watch: &|_| std::ops::ControlFlow::Continue(()),
            };
            match request.run(&dir, &environment) {
                Ok(report) => {
                    assert_eq!(
                        report.condition(),
                        LedgerCondition::Valid,
                        "{:?}",
                        report.log.findings
                    );
                    looks += 1;
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Io, "{error}"),
            }
        }
        pruned = writer.join().unwrap();
    });
    assert!(pruned > 0 && looks > 0, "{pruned} prunes, {looks} looks");
}

fn fill(ledger: &Ledger, run: RunId, length: usize) {
    let value = Json::new(&"x".repeat(length).into());
    ledger.set_variable(run, "large", value, None, "ann").unwrap();
}

/// Goal: the history of a partly pruned run is an error that says so, never a part of the
/// history; a run that began later is complete.
#[test]
fn pruned_history_is_rejected_and_a_later_one_is_complete() {
    let disk = five();
    let ledger = open(&disk);
    let [one, two] = ["later", "latest"].map(|name| started_run(&ledger, name));
    let whole = ledger.trace(one).unwrap();
    ledger.prune(RetentionLimit::EndedRuns, None, "ann").unwrap();
    for (one, other) in [(RunId(1), two), (one, RunId(1))] {
        let kind = ledger.compare(one, other).unwrap_err().kind();
        assert_eq!(kind, ErrorKind::Pruned);
    }
    let error = ledger.trace(RunId(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Pruned, "{error}");
    assert_eq!(format!("{:?}", ledger.trace(one).unwrap()), format!("{whole:?}"));
    assert_eq!(ledger.compare(one, two).unwrap().runs, [one, two]);
    let unknown = ledger.trace(RunId(99)).unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::Rejected);
}

/// Story: `export` and `verify` beside a prune failed because a file was gone.
/// Method: a reader has read the records of a segment when a prune removes it; and a verification is
/// overtaken by a prune in each of its phases.
#[test]
fn readers_beside_a_prune_go_on() {
    let pristine = five();
    let last = reader(&pristine).segments()[0].path.clone();
    let count = whole(&reader(&pristine)).len();
    let disk = pristine.fork();
    let view = reader(&disk);
    let second = view.segments()[1].header.as_ref().unwrap().base_seq;
    let mut found = 0;
    for item in view.walk(1) {
        let LogItem::Record(record, _) = item.unwrap() else { panic!("damage") };
        found += 1;
        if record.seq + 1 == second {
            disk.remove(&last).unwrap();
        }
    }
    assert_eq!(found, count);

    for nth in 0..12 {
        for level in LEVELS {
            let disk = pristine.fork();
            let looks = std::sync::atomic::AtomicU32::new(0);
            let watch = |_: VerifyProgress| {
                if looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == nth {
                    let ledger = open(&disk);
                    ledger.prune(RetentionLimit::EndedRuns, None, "ann").unwrap();
                    ledger.close().unwrap();
                }
                std::ops::ControlFlow::Continue(())
            };
            let jobs = std::num::NonZeroUsize::MIN;
            let request = VerifyRequest { level, jobs, expected: None, watch: &watch };
            let report = request.run(&dir(), &quiet(&disk));
            assert!(report.is_ok(), "look {nth}, {level:?}: {report:?}");
        }
    }
}

/// The same for a prune that removes a file after the log was listed and before the file is opened: here
/// that call says that the file is gone.
#[test]
fn file_that_is_gone_when_it_is_opened_restarts_a_verification() {
    let pristine = five();
    let paths: Vec<PathBuf> =
        reader(&pristine).segments().iter().map(|it| it.path.clone()).collect();
    let request = VerifyRequest {
        level: VerifyLevel::Chain,
        jobs: std::num::NonZeroUsize::MIN,
        expected: None,
        watch: &|_| std::ops::ControlFlow::Continue(()),
    };
    let undisturbed = request.run(&dir(), &quiet(&pristine)).unwrap();
    let mut struck = 0;
    for path in &paths {
        for nth in 1..8 {
            let disk = pristine.fork();
            let gone = OsError::Other(std::io::ErrorKind::NotFound);
            let rule = FaultRule::next(FaultAction::Error(gone, FaultEffect::Nothing));
            disk.inject(rule.of(Operation::Open).on(path.clone()).nth(nth));
            let report = request.run(&dir(), &quiet(&disk));
            let report = report.unwrap_or_else(|error| panic!("{} {nth}: {error}", path.display()));
            assert_eq!(report.log.counts, undisturbed.log.counts, "{} {nth}", path.display());
            struck += usize::from(disk.pending_rules() == 0);
        }
    }
    assert!(struck > 0);
}

/// Story: two of 861 exports beside a prune ended with an error about a file that was gone.
/// Method: the n-th segment that the program opens is gone, once; the export begins again, and is that
/// of an undisturbed one.
#[test]
fn segment_that_is_gone_restarts_an_export() {
    let place = Place::new();
    let Some(library) = shim(&place, "unreliable") else { return };
    let dir = place.path("x.ledger");
    // Each value has a segment of its own.
    let segments = SegmentSizes { first: 8 << 10, largest: 8 << 10 };
    let environment = Environment { segments, ..Environment::system() };
    let ledger = Ledger::create(&dir, &environment).unwrap();
    let run = ledger.start_run("r", &plan(4), RunPolicy::default()).unwrap();
    for number in 0..4 {
        ledger.set_variable(run, "large", large(number, 6_000), None, "me").unwrap();
    }
    ledger.close().unwrap();
    place.ledger("export x.ledger -o undisturbed").code(0);
    let mut injected = 0;
    for nth in 1..=12 {
        let mut command = place.command(&["export", "x.ledger", "-o", &format!("out-{nth}")]);
        command.env("LD_PRELOAD", &library).env("UNRELIABLE_LOG", place.path("injected"));
        command.env("UNRELIABLE_CALL", "open").env("UNRELIABLE_HOW", "gone");
        start(command.env("UNRELIABLE_NTH", nth.to_string())).end().code(0);
        assert!(place.read(&format!("out-{nth}")) == place.read("undisturbed"), "{nth}");
        injected = place.read("injected").len();
    }
    assert!(injected > 6, "{injected}");
}
