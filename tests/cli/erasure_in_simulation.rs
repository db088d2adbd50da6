//! Goal: an erasure removes every copy of a value, keeps the chain and every state hash, and survives
//! a crash at each of its calls.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use plan_ledger::internals::ledger::{
    EraseTarget, ForkPoint, Note, VerifyLevel, VerifyRequest, decode, erase,
};
use plan_ledger::internals::sim::SimDisk;
use plan_ledger::log::ErasureNote;
use plan_ledger::plan::{Event, StepEvent};
use plan_ledger::{
    ContentHash, Environment, ErrorKind, FailureClass, Ledger, LedgerView, Outcome, Plan, Receipt,
    RunId, RunPolicy, State, Step, StepNumber, state_hash,
};
use plan_ledger_lab::{self as lab, for_each_crash};

/// The bytes that an erasure must remove.
const NEEDLE: &str = "correct-horse-battery-staple";

const RUN: RunId = RunId(1);

fn dir() -> PathBuf {
    PathBuf::from("/l")
}

fn environment(disk: &SimDisk) -> Environment {
    Environment { blob_threshold: 300, ..lab::environment(disk) }
}

fn step(id: &str, outputs: &[&str]) -> Step {
    let outputs = outputs.iter().map(|name| (*name).to_owned()).collect();
    Step { id: id.to_owned(), outputs, ..Step::default() }
}

/// A ledger with the needle in an output, the variables and the fork that it sets, a blob, the
/// details of a failure, a late receipt, a variable that a person set, and a note, among other values
/// and snapshots, in several segments.
fn ledger(disk: &SimDisk) {
    let ledger = Ledger::create(&dir(), &environment(disk)).unwrap();
    let plan = Plan {
        steps: vec![
            step("login", &["token", "user"]),
            step("large", &["name"]),
            step("flaky", &[]),
            step("last", &[]),
        ],
        ..Plan::default()
    };
    let run = ledger.start_run("r", &plan, RunPolicy::default()).unwrap();
    assert_eq!(run, RUN);
    let report = |receipt| {
        let task = ledger.dispatch(run, "w").unwrap().unwrap();
        ledger.record_receipt(task.token, receipt).unwrap()
    };
    let output = |value: serde_json::Value| Receipt { output: value.into(), ..Receipt::default() };
    let task = ledger.dispatch(run, "w").unwrap().unwrap();
    ledger
        .record_receipt(task.token, output(serde_json::json!({ "token": NEEDLE, "user": "ada" })))
        .unwrap();
    ledger.record_receipt(task.token, output(serde_json::json!(["late", NEEDLE]))).unwrap_err();
    ledger.snapshot::<State>().unwrap();
    let text = format!("{NEEDLE} ").repeat(60);
    report(output(serde_json::json!({ "name": "report", "text": text })));
    let payload = serde_json::json!({ "seen": NEEDLE }).into();
    let outcome =
        Outcome::Failed { class: FailureClass::Deterministic, message: "no".to_owned(), payload };
    let log_tail = format!("the password is {NEEDLE}\n").into();
    report(Receipt { outcome, log_tail, ..Receipt::default() });
    ledger.set_variable(run, "mine", NEEDLE, None, "ana").unwrap();
    ledger.set_variable(run, "mine", "harmless", None, "ana").unwrap();
    ledger.set_variable(run, "other", "kept", None, "ana").unwrap();
    ledger.snapshot::<State>().unwrap();
    for number in 0..20_u64 {
        ledger.set_variable(run, "filler", "x".repeat(1020), None, &number.to_string()).unwrap();
    }
    let point = ForkPoint::After(ledger.head().seq);
    ledger.fork(run, point, "fork").unwrap();
    let (by, text) = ("ana".to_owned(), format!("the password is {NEEDLE}"));
    ledger.add_note(&Note { run: Some(run), step: None, by, text }, None).unwrap();
    ledger.snapshot::<State>().unwrap();
    ledger.close().unwrap();
}

/// Everything that holds the needle.
fn targets() -> Vec<EraseTarget> {
    vec![
        EraseTarget::Output(RUN, StepNumber(1)),
        EraseTarget::Output(RUN, StepNumber(2)),
        EraseTarget::Output(RUN, StepNumber(3)),
        EraseTarget::Variable(RUN, "mine".to_owned()),
    ]
}

fn all_targets(disk: &SimDisk) -> Vec<EraseTarget> {
    let view = LedgerView::open(&dir(), &environment(disk)).unwrap();
    let records = view.log().records(1).map(Result::unwrap);
    let notes = records.filter(|record| Note::in_record(record).is_some());
    targets().into_iter().chain(notes.map(|note| EraseTarget::Record(note.seq))).collect()
}

/// The files that contain some bytes.
fn files_with(disk: &SimDisk, bytes: &[u8]) -> Vec<PathBuf> {
    let contains = |path: &PathBuf| {
        disk.read(path).unwrap().windows(bytes.len()).any(|window| window == bytes)
    };
    disk.files(Path::new("/l")).into_iter().filter(contains).collect()
}

/// The state hash after each record: of a fold from the start and, after every `step`th record, from
/// the newest snapshot.
fn hashes_at(disk: &SimDisk, step: u64) -> BTreeMap<u64, (ContentHash, ContentHash)> {
    let view = LedgerView::open(&dir(), &environment(disk)).unwrap();
    let mut hashes = BTreeMap::new();
    view.fold_with(u64::MAX, &mut |fold, _| {
        let seq = fold.state.seq;
        let hash = state_hash(&fold.state);
        let from_snapshot =
            seq.is_multiple_of(step).then(|| state_hash(&view.state_at(seq).unwrap()));
        hashes.insert(seq, (hash, from_snapshot.unwrap_or(hash)));
        ControlFlow::Continue(())
    })
    .unwrap();
    hashes
}

fn hashes(disk: &SimDisk) -> BTreeMap<u64, (ContentHash, ContentHash)> {
    hashes_at(disk, 1)
}

fn expect_whole(disk: &SimDisk) {
    let request = VerifyRequest {
        level: VerifyLevel::Replay,
        jobs: NonZeroUsize::MIN,
        expected: None,
        watch: &|_| ControlFlow::Continue(()),
    };
    let report = request.run(&dir(), &environment(disk)).unwrap();
    assert_eq!(report.log.findings.iter().map(|it| &it.what).collect::<Vec<_>>(), [""; 0]);
}

fn reopen(disk: &SimDisk) -> Ledger {
    Ledger::open_with(&dir(), &environment(disk)).unwrap().0
}

/// Every copy goes, in segments, snapshots and blobs; what was not named stays; and every state has
/// the hash that it had.
#[test]
fn erased_value_is_gone_and_every_state_hash_stays() {
    let disk = SimDisk::new();
    ledger(&disk);
    let (before, head) = (hashes(&disk), reopen(&disk).head());
    assert!(before.values().all(|(start, snapshot)| start == snapshot));
    assert!(files_with(&disk, NEEDLE.as_bytes()).len() > 3, "log, snapshots, blob");
    let report = erase(&dir(), &environment(&disk), &all_targets(&disk), "ana").unwrap();
    assert_eq!(files_with(&disk, NEEDLE.as_bytes()), Vec::<PathBuf>::new());
    assert!(!files_with(&disk, b"harmless").is_empty() || report.preview.records.len() > 8);
    assert!(!files_with(&disk, b"kept").is_empty());
    assert_eq!((report.preview.blobs.len(), report.files.blobs.len()), (1, 1));
    assert!(!report.files.snapshots.is_empty() && !report.files.segments.is_empty());
    expect_whole(&disk);

    let after = hashes(&disk);
    for (seq, hash) in &before {
        assert_eq!(after[seq], *hash, "record {seq}");
    }
    let view = LedgerView::open(&dir(), &environment(&disk)).unwrap();
    let at_head = view.log().records(head.seq).next().unwrap().unwrap();
    assert_eq!(at_head.chain, head.chain, "the chain before the erasure");
    // The live state, and snapshots that are made later.
    let ledger = reopen(&disk);
    let state = ledger.state().unwrap();
    for name in ["token", "user"] {
        let value = &state.runs[&RUN].variables[name].value;
        assert!(value.as_str().starts_with(r#"{"erased":""#), "{name}: {value}");
        assert_eq!(state.runs[&RunId(2)].variables[name].value, *value, "in the fork");
    }
    assert_eq!(state.runs[&RUN].variables["other"].value, "kept".into());
    ledger.set_variable(RUN, "later", 1_u64, None, "ana").unwrap();
    ledger.snapshot::<State>().unwrap();
    let live = ledger.state_hash().unwrap();
    ledger.close().unwrap();
    assert!(hashes(&disk).values().all(|(start, snapshot)| start == snapshot));
    assert!(hashes(&disk).values().any(|(start, _)| *start == live));
    assert_eq!(files_with(&disk, NEEDLE.as_bytes()), Vec::<PathBuf>::new());
    expect_whole(&disk);
}

/// A value that was made from an erased one, or that it was made from, goes with it; others stay.
#[test]
fn values_of_one_receipt_are_erased_together() {
    let disk = SimDisk::new();
    ledger(&disk);
    let target = EraseTarget::Variable(RUN, "token".to_owned());
    erase(&dir(), &environment(&disk), std::slice::from_ref(&target), "ana").unwrap();
    let view = LedgerView::open(&dir(), &environment(&disk)).unwrap();
    let state = view.state_at(view.fold(u64::MAX).unwrap().state.seq).unwrap();
    let run = &state.runs[&RUN];
    assert!(run.variables["user"].value.erased_digest().is_some(), "of the same receipt");
    assert!(run.variables["name"].value.erased_digest().is_none());
    let again = erase(&dir(), &environment(&disk), &[target], "ana").unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Rejected, "{again}");
    let step = EraseTarget::Output(RUN, StepNumber(4));
    let none = erase(&dir(), &environment(&disk), &[step], "ana").unwrap_err();
    assert!(none.to_string().contains("has no receipt with a value"), "{none}");
    expect_whole(&disk);
}

/// The end of a worker's error output is erased with its receipt, also if nothing else is in it, and is
/// marked where it is shown. What stays says why.
#[test]
fn error_output_is_erased() {
    let disk = SimDisk::new();
    let ledger = Ledger::create(&dir(), &environment(&disk)).unwrap();
    let steps = vec![step("one", &[])];
    ledger.start_run("r", &Plan { steps, ..Plan::default() }, RunPolicy::default()).unwrap();
    let task = ledger.dispatch(RUN, "w").unwrap().unwrap();
    let log_tail = format!("{NEEDLE}\n").into();
    ledger.record_receipt(task.token, Receipt { log_tail, ..Receipt::default() }).unwrap();
    ledger.snapshot::<State>().unwrap();
    ledger.close().unwrap();
    let before = hashes(&disk);
    let view = LedgerView::open(&dir(), &environment(&disk)).unwrap();
    let first = |kind: u16| {
        let mut records = view.log().records(1).map(Result::unwrap);
        records.find(|record| record.kind == kind).unwrap().seq
    };
    let (receipt, plan, start) = (first(35), first(2), first(1));
    let target = EraseTarget::Record(receipt);
    erase(&dir(), &environment(&disk), std::slice::from_ref(&target), "ana").unwrap();
    assert_eq!(files_with(&disk, NEEDLE.as_bytes()), Vec::<PathBuf>::new());
    let after = hashes(&disk);
    assert!(before.iter().all(|(seq, hash)| after[seq] == *hash));
    expect_whole(&disk);
    let view = LedgerView::open(&dir(), &environment(&disk)).unwrap();
    let record = view.log().records(receipt).next().unwrap().unwrap();
    let Some(Event::Step(step)) = decode(&record).unwrap() else { panic!("it is of a step") };
    let StepEvent::ReceiptRecorded(recorded) = step.event else { panic!("it is a receipt") };
    let shown = recorded.receipt.log_tail.to_string();
    assert!(shown.starts_with("(erased ") && shown.len() == 73, "{shown}");
    for (seq, why) in [
        (receipt, "(receipt_recorded) were erased before"),
        (plan, "(plan_proposed) has a plan, which the replay of later records needs"),
        (start, "(run_started) has names and texts that later records depend on or quote"),
        (999, "the log has no record 999"),
    ] {
        let kept = erase(&dir(), &environment(&disk), &[EraseTarget::Record(seq)], "ana");
        let kept = kept.unwrap_err();
        assert_eq!(kept.kind(), ErrorKind::Rejected);
        assert!(kept.to_string().contains(why), "{seq}: {kept}");
    }
}

/// A crash at any change that an erasure makes to the disk: the next opening completes it, or nothing
/// was erased.
#[test]
fn crash_at_each_call_completes_or_undoes_the_erasure() {
    let disk = SimDisk::new();
    ledger(&disk);
    let (before, targets) = (hashes(&disk), all_targets(&disk));
    disk.start_recording();
    erase(&dir(), &environment(&disk), &targets, "ana").unwrap();
    let points = disk.stop_recording();
    let (done, undone) =
        (std::sync::atomic::AtomicUsize::new(0), std::sync::atomic::AtomicUsize::new(0));
    let recover = |_: &lab::Crash, disk: &SimDisk| {
        // A reader serves every record, whatever is half done.
        let view = LedgerView::open(&dir(), &environment(disk)).unwrap();
        let fold = view.fold(u64::MAX).unwrap();
        let known = before.get(&fold.state.seq).map(|(hash, _)| *hash);
        if known.is_some_and(|known| known != state_hash(&fold.state)) {
            return Err("a reader folds another state".to_owned());
        }
        reopen(disk).close().unwrap();
        let view = LedgerView::open(&dir(), &environment(disk)).unwrap();
        let noted =
            view.log().records(1).any(|it| ErasureNote::from_record(&it.unwrap()).is_some());
        let left = files_with(disk, NEEDLE.as_bytes());
        if noted != left.is_empty() {
            return Err(format!("a note: {noted}, and the value is in {left:?}"));
        }
        let counter = if noted { &done } else { &undone };
        counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if disk.files(&dir()).iter().any(|path| path.ends_with("ERASING")) {
            return Err("the marker is still there".to_owned());
        }
        let after = hashes_at(disk, 25);
        if let Some((seq, _)) = before.iter().find(|(seq, hash)| after.get(seq) != Some(*hash)) {
            return Err(format!("record {seq} has another state"));
        }
        expect_whole(disk);
        Ok(())
    };
    let jobs = NonZeroUsize::new(2).unwrap();
    let counts = for_each_crash(&points, 5, jobs, recover, |_| ControlFlow::Continue(())).unwrap();
    assert!(counts.points > 20, "{counts:?}");
    assert!(done.into_inner() > 0 && undone.into_inner() > 0);
}

/// Zeros over a value that no note names are damage, and so is another value.
#[test]
fn value_that_no_note_erases_is_damage() {
    let disk = SimDisk::new();
    ledger(&disk);
    let bytes_before: Vec<_> = disk
        .files(&dir())
        .into_iter()
        .map(|path| (path.clone(), disk.read(&path).unwrap()))
        .collect();
    let fork = disk.fork();
    let target = EraseTarget::Variable(RUN, "mine".to_owned());
    let report = erase(&dir(), &environment(&fork), &[target], "ana").unwrap();
    // The segment with the zeros in the ledger without the note.
    let segment = &report.files.segments[0];
    let erased = fork.read(segment).unwrap();
    let (path, old) = bytes_before.iter().find(|(path, _)| path == segment).unwrap();
    if erased.len() != old.len() {
        disk.set_length(path, u64::try_from(erased.len()).unwrap()).unwrap();
    }
    disk.overwrite(path, 0, &erased).unwrap();
    let request = VerifyRequest {
        level: VerifyLevel::Chain,
        jobs: NonZeroUsize::MIN,
        expected: None,
        watch: &|_| ControlFlow::Continue(()),
    };
    let found = request.run(&dir(), &environment(&disk)).unwrap();
    let texts: Vec<_> = found.log.findings.iter().map(|finding| finding.what.as_str()).collect();
    assert!(
        texts.iter().any(|text| text.contains("no record says that it was erased")),
        "{texts:?}"
    );
    let events = LedgerView::open(&dir(), &environment(&disk)).unwrap();
    let erased = events.log().records(1).filter_map(|it| decode(&it.unwrap()).unwrap());
    let is_marker = |event: &Event| match event {
        Event::VariableSet(set) => set.value.erased_digest().is_some(),
        _ => false,
    };
    assert_eq!(erased.filter(is_marker).count(), 2, "both values of the variable");
}

/// Goal: a value whose record was written again after a fence is also gone from the bytes before the
/// fence.
#[test]
fn copy_before_a_fence_is_erased() {
    let unacknowledged = "wrong-horse";
    let copied = (2..12).find_map(|call| {
        let disk = SimDisk::new();
        ledger(&disk);
        let open = reopen(&disk);
        disk.crash_at(disk.calls() + crate::lab::LOOKS + call);
        // It may also have been written completely: then there is no copy.
        let _ = open.set_variable(RUN, "mine", unacknowledged, None, "ana");
        disk.kill_process();
        drop(open);
        reopen(&disk).close().unwrap();
        (files_with(&disk, unacknowledged.as_bytes()).len() == 2).then_some(disk)
    });
    let disk = copied.expect("some crash leaves a copy on both sides of a fence");
    // The segment before the fence has other values to erase, or only the copy.
    let view = LedgerView::open(&dir(), &environment(&disk)).unwrap();
    let mut records = view.log().records(1).map(Result::unwrap);
    let needle = unacknowledged.as_bytes();
    let is_copied = |payload: &[u8]| payload.windows(needle.len()).any(|window| window == needle);
    let after = records.find(|record| is_copied(&record.payload)).unwrap().seq;
    for targets in [all_targets(&disk), vec![EraseTarget::Record(after)]] {
        let disk = disk.fork();
        erase(&dir(), &environment(&disk), &targets, "ana").unwrap();
        assert_eq!(files_with(&disk, needle), Vec::<PathBuf>::new(), "{targets:?}");
        expect_whole(&disk);
    }
}

/// Goal: the values of every receipt that names an erased blob go with it: the output is the same, so they
/// would reveal it.
#[test]
fn values_that_came_with_the_same_blob_are_erased() {
    let disk = SimDisk::new();
    let ledger = Ledger::create(&dir(), &environment(&disk)).unwrap();
    let steps = vec![step("one", &["name"]), step("two", &["alias"]), step("last", &[])];
    let run = ledger.start_run("r", &Plan { steps, ..Plan::default() }, RunPolicy::default());
    assert_eq!(run.unwrap(), RUN);
    let text = "long ".repeat(100);
    let same = serde_json::json!({ "name": NEEDLE, "alias": NEEDLE, "text": text });
    for _ in 0..2 {
        let task = ledger.dispatch(RUN, "w").unwrap().unwrap();
        let receipt =
            Receipt { output: plan_ledger::Json::new(&same).into(), ..Receipt::default() };
        ledger.record_receipt(task.token, receipt).unwrap();
    }
    ledger.close().unwrap();
    let target = EraseTarget::Output(RUN, StepNumber(1));
    let report = erase(&dir(), &environment(&disk), &[target], "ana").unwrap();
    assert_eq!(report.preview.blobs.len(), 1);
    assert_eq!(files_with(&disk, NEEDLE.as_bytes()), Vec::<PathBuf>::new());
    expect_whole(&disk);
}
