//! Blobs: large outputs beside the log.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use plan_ledger::internals::ledger::BlobCheck;
use plan_ledger::internals::sim::{
    FaultAction, FaultEffect, FaultRule, Loss, Operation, OsError, SimDisk, sweep,
};
use plan_ledger::internals::storage::Storage;
use plan_ledger::log::{BlobId, BlobState, LogReader};
use plan_ledger::plan::{BlobOutput, Criterion, StepEvent, Token};
use plan_ledger::{
    ContentHash, Environment, ErrorKind, Event, Json, Ledger, LedgerView, Output, Plan, Receipt,
    Rejection, RunId, RunPolicy, Step, state_hash,
};

use crate::golden::deterministic;
use crate::lab::mix;

fn on_disk(disk: &SimDisk) -> Environment {
    Environment { storage: Arc::new(disk.clone()), ..deterministic() }
}

/// The result of a command line.
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn run_ledger(words: &[&str]) -> CommandOutput {
    let done = Command::new(env!("CARGO_BIN_EXE_ledger")).args(words).output().unwrap();
    CommandOutput {
        code: done.status.code().unwrap_or(-1),
        out: String::from_utf8(done.stdout).unwrap(),
        err: String::from_utf8(done.stderr).unwrap(),
    }
}

fn dir() -> PathBuf {
    PathBuf::from("/ledger")
}

pub(crate) fn plan(count: usize) -> Plan {
    let step = |number| Step { id: format!("s{number}"), ..Step::default() };
    Plan { steps: (0..count).map(step).collect(), ..Plan::default() }
}

/// A text that depends only on a number.
pub(crate) fn large(number: u64, size: usize) -> Json {
    let text: String = format!("{:016x}", mix(number)).repeat(size / 16 + 1);
    Json::new(&serde_json::json!(text[..size]))
}

/// Do the next step with this output, and return the output in its receipt.
pub(crate) fn work(ledger: &Ledger, run: RunId, output: Json) -> Output {
    let task = ledger.dispatch(run, "worker").unwrap().unwrap();
    let receipt = Receipt { output: output.into(), ..Receipt::default() };
    ledger.record_receipt(task.token, receipt).unwrap();
    receipts(&ledger.replay(task.token.seq.0).unwrap()).pop().unwrap()
}

fn receipts(records: &[plan_ledger::RecordedEvent]) -> Vec<Output> {
    let output = |record: &plan_ledger::RecordedEvent| match record.event.as_ref()? {
        Event::Step(record) => match &record.event {
            StepEvent::ReceiptRecorded(event) => Some(event.receipt.output.clone()),
            StepEvent::ReceiptRefused(event) => Some(event.receipt.output.clone()),
            _ => None,
        },
        _ => None,
    };
    records.iter().filter_map(output).collect()
}

fn id(output: &Output) -> BlobId {
    match output {
        Output::Blob(blob) => BlobId { hash: blob.hash.0, length: blob.length },
        Output::Inline(value) => panic!("inline: {} bytes", value.as_str().len()),
    }
}

/// Goal: a plan can have outputs that are far larger than a record or the state.
/// Method: Steps of 1 MiB each, on disk.
#[test]
fn sweep_plan_with_a_mebibyte_per_step_reaches_no_limit() {
    let count = sweep(40, 200, 1000);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ledger");
    let ledger = Ledger::create(&path, &Environment::system()).unwrap();
    let run = ledger.start_run("large", &plan(count), RunPolicy::default()).unwrap();
    // The values are generated again for the comparison, to save memory.
    let value = |number: usize| large(u64::try_from(number).unwrap(), 1 << 20);
    let outputs: Vec<_> = (0..count).map(|number| work(&ledger, run, value(number))).collect();
    let ids: Vec<_> = outputs.iter().map(id).collect();
    let view = LedgerView::open(&path, &Environment::system()).unwrap();
    let log: u64 = view.log().segments().iter().map(|segment| segment.length).sum();
    assert!(log < 4 << 20, "the log has {log} bytes");
    let survey = view.blobs(BlobCheck::Content).unwrap();
    assert_eq!(survey.blobs.len(), count);
    assert!(survey.blobs.iter().all(|blob| blob.state == BlobState::Intact && blob.records == 1));
    for (number, output) in outputs.iter().enumerate().take(3) {
        assert_eq!(ledger.output(output).unwrap(), value(number));
        assert_eq!(view.output(output).unwrap(), value(number));
    }
    // One is damaged and one missing: everything continues, and names them.
    let path_of = |id: &BlobId| view.log().blobs().path(id);
    let mut bytes = std::fs::read(path_of(&ids[1])).unwrap();
    bytes[77] ^= 1;
    std::fs::write(path_of(&ids[1]), bytes).unwrap();
    std::fs::remove_file(path_of(&ids[2])).unwrap();
    let hash = ledger.state_hash().unwrap();
    ledger.close().unwrap();
    let (ledger, report) = Ledger::open_with(&path, &Environment::system()).unwrap();
    assert_eq!((report.verdict.as_str(), ledger.state_hash().unwrap()), ("clean", hash));
    for (place, what) in [(1, "found blake3"), (2, "found no such file")] {
        let error = ledger.output(&outputs[place]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert_eq!(error.location().path, Some(path_of(&ids[place])));
        let text = error.to_string();
        assert!(text.contains(what) && text.contains(&ids[place].hex()), "{text}");
    }
    drop(ledger);
    let path = path.to_str().unwrap();
    for (step, state) in [("#1", "ok"), ("#2", "damaged"), ("#3", "missing")] {
        let ended = run_ledger(&["inspect", path, "step", "large", step]);
        assert_eq!(ended.code, 0, "{}", ended.err);
        assert!(ended.out.contains("1.0 MiB in blob "), "{}", ended.out);
        assert!(ended.out.contains(state), "{step}: {}", ended.out);
    }
    let whole = run_ledger(&["inspect", path, "step", "large", "#1", "--full"]);
    assert!(whole.out.contains(&value(0).as_str()[1..1000]));
    let ended = run_ledger(&["blobs", path, "--check"]);
    assert_eq!(ended.code, 4, "{}", ended.out);
    assert!(
        ended.err.contains(&ids[1].hex()) && ended.err.contains(&ids[2].hex()),
        "{}",
        ended.err
    );
}

/// Goal: the values that a fold needs stay in the record; equal outputs are one file; the
/// threshold is exact; inline and blob outputs fold to the same variables.
#[test]
fn declared_outputs_stay_inline_and_equal_outputs_share_a_file() {
    let disk = SimDisk::new();
    let environment = Environment { blob_threshold: 100, ..on_disk(&disk) };
    let ledger = Ledger::create(&dir(), &environment).unwrap();
    let outputs = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let steps = [&["x"][..], &["x"], &["x", "y"], &[], &[], &[]];
    let step = |(number, names): (usize, &&[&str])| Step {
        id: format!("s{number}"),
        outputs: outputs(names),
        ..Step::default()
    };
    let plan = Plan { steps: steps.iter().enumerate().map(step).collect(), ..Plan::default() };
    let run = ledger.start_run("r", &plan, RunPolicy::default()).unwrap();
    let value = |name: &str| ledger.state().unwrap().runs[&run].variables[name].value.clone();

    let rest = "r".repeat(200);
    // The declared output is the whole output: a blob would save nothing.
    let whole = Json::new(&serde_json::json!(rest));
    assert_eq!(work(&ledger, run, whole.clone()), Output::Inline(whole.clone()));
    assert_eq!(value("x"), whole);
    let part = Json::new(&serde_json::json!({"x": 7, "rest": rest}));
    let Output::Blob(blob) = work(&ledger, run, part.clone()) else { panic!("inline") };
    assert_eq!(blob.values, [("x".to_owned(), Json::new(&serde_json::json!(7)))]);
    assert_eq!(value("x").as_str(), "7");
    assert_eq!(id(&work(&ledger, run, part.clone())), BlobId::of(part.as_str().as_bytes()));
    assert!(!ledger.state().unwrap().runs[&run].variables.contains_key("y"));

    let exact = Json::new(&serde_json::json!("e".repeat(98)));
    assert_eq!(work(&ledger, run, exact.clone()), Output::Inline(exact));
    let more = Json::new(&serde_json::json!("e".repeat(99)));
    let one = id(&work(&ledger, run, more.clone()));
    let before = disk.files(&dir().join("blob")).len();
    assert_eq!(id(&work(&ledger, run, more)), one);
    assert_eq!(disk.files(&dir().join("blob")).len(), before, "a second file");
    let state = ledger.state_at(ledger.head().seq).unwrap();
    assert_eq!(state_hash(&state), ledger.state_hash().unwrap());
}

/// Goal: whatever disk call a crash interrupts and whatever a power loss takes, a readable
/// record names an existing blob; left-overs are collected.
#[test]
fn record_never_names_a_blob_that_a_crash_can_take() {
    let prepared = SimDisk::new();
    let environment = |disk: &SimDisk| Environment { blob_threshold: 10, ..on_disk(disk) };
    let ledger = Ledger::create(&dir(), &environment(&prepared)).unwrap();
    let run = ledger.start_run("r", &plan(3), RunPolicy::default()).unwrap();
    ledger.close().unwrap();
    prepared.lose_power(Loss::Nothing);

    let story = |disk: &SimDisk| -> Option<()> {
        let (ledger, _) = Ledger::open_with(&dir(), &environment(disk)).ok()?;
        for number in [1, 1, 2] {
            let task = ledger.dispatch(run, "w").ok()??;
            let receipt = Receipt { output: large(number, 3000).into(), ..Receipt::default() };
            ledger.record_receipt(task.token, receipt).ok()?;
        }
        Some(())
    };
    let clean = prepared.fork();
    story(&clean).unwrap();
    let mut seen = 0;
    for call in prepared.calls() + 1..=clean.calls() {
        for loss in [None, Some(Loss::Everything), Some(Loss::Some(call)), Some(Loss::Some(!call))]
        {
            let disk = prepared.fork();
            disk.crash_at(call);
            story(&disk);
            disk.crash_at(u64::MAX);
            match loss {
                None => disk.kill_process(),
                Some(loss) => disk.lose_power(loss),
            }
            let (ledger, _) = Ledger::open_with(&dir(), &environment(&disk)).unwrap();
            for output in receipts(&ledger.replay(1).unwrap()) {
                assert_eq!(id(&output).length, 3002);
                ledger.output(&output).unwrap_or_else(|error| panic!("{call} {loss:?}: {error}"));
                seen += 1;
            }
            assert!(
                disk.files(&dir().join("blob")).iter().all(|path| !path.ends_with(".tmp")),
                "{call}: something unfinished is left"
            );
            ledger.collect_blobs().unwrap();
            drop(ledger);
            let view = LedgerView::open(&dir(), &environment(&disk)).unwrap();
            let survey = view.blobs(BlobCheck::Content).unwrap();
            let is_good = |blob: &plan_ledger::internals::ledger::BlobUse| {
                blob.records > 0 && blob.state == BlobState::Intact
            };
            assert!(survey.blobs.iter().all(is_good), "{call}: {survey:?}");
        }
    }
    assert!(seen > 100, "{seen}");
}

/// Goal: a killed process may leave a blob in the page cache that no sync will write. The next
/// process that stores the same bytes makes it durable before it names it.
#[test]
fn blob_of_a_killed_process_is_synced_before_it_is_named() {
    let prepared = SimDisk::new();
    let environment = |disk: &SimDisk| Environment { blob_threshold: 10, ..on_disk(disk) };
    let ledger = Ledger::create(&dir(), &environment(&prepared)).unwrap();
    let run = ledger.start_run("r", &plan(1), RunPolicy::default()).unwrap();
    let token = ledger.dispatch(run, "w").unwrap().unwrap().token;
    ledger.close().unwrap();
    prepared.lose_power(Loss::Nothing);
    let receipt = || Receipt { output: large(1, 3000).into(), ..Receipt::default() };
    let calm = prepared.fork();
    let (ledger, _) = Ledger::open_with(&dir(), &environment(&calm)).unwrap();
    ledger.record_receipt(token, receipt()).unwrap();
    let (mut adopted, calls) = (0, calm.calls());
    for call in prepared.calls() + 1..=calls {
        let disk = prepared.fork();
        disk.crash_at(call);
        let opened = Ledger::open_with(&dir(), &environment(&disk));
        let _ = opened.map(|(ledger, _)| ledger.record_receipt(token, receipt()));
        disk.crash_at(u64::MAX);
        disk.kill_process();
        let is_there = !disk.files(&dir().join("blob")).is_empty();
        let (ledger, _) = Ledger::open_with(&dir(), &environment(&disk)).unwrap();
        let Ok(_) = ledger.record_receipt(token, receipt()) else { continue };
        adopted += u64::from(is_there);
        disk.lose_power(Loss::Everything);
        drop(ledger);
        let (ledger, _) = Ledger::open_with(&dir(), &environment(&disk)).unwrap();
        let recorded = receipts(&ledger.replay(1).unwrap()).pop().expect("it was acknowledged");
        ledger.output(&recorded).unwrap_or_else(|error| panic!("call {call}: {error}"));
    }
    assert!(adopted > 1, "{adopted}");
}

/// Goal: a full disk rejects the receipt, frees the space that it took, and the ledger
/// continues.
#[test]
fn full_disk_rejects_an_output_and_poisons_nothing() {
    let disk = SimDisk::new();
    let ledger = Ledger::create(&dir(), &on_disk(&disk)).unwrap();
    let run = ledger.start_run("r", &plan(1), RunPolicy::default()).unwrap();
    let task = ledger.dispatch(run, "w").unwrap().unwrap();
    let used: usize = disk.files(&dir()).iter().map(|path| disk.read(path).unwrap().len()).sum();
    disk.set_capacity(u64::try_from(used).unwrap() + 50_000);
    let output = large(1, 100_000);
    let receipt = Receipt { output: output.clone().into(), ..Receipt::default() };
    let error = ledger.record_receipt(task.token, receipt.clone()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
    assert!(disk.files(&dir().join("blob")).is_empty());
    disk.set_capacity(u64::MAX);
    ledger.record_receipt(task.token, receipt).unwrap();
    let recorded = receipts(&ledger.replay(1).unwrap()).pop().unwrap();
    assert_eq!(ledger.output(&recorded).unwrap(), output);
}

/// Goal: wrong bytes under a blob's name are replaced when the right ones are stored, and never
/// accepted instead of them; a caller cannot name a blob that does not exist.
#[test]
fn damaged_blob_is_rewritten_and_missing_blob_cannot_be_named() {
    let disk = SimDisk::new();
    let ledger = Ledger::create(&dir(), &on_disk(&disk)).unwrap();
    let run = ledger.start_run("r", &plan(3), RunPolicy::default()).unwrap();
    let output = work(&ledger, run, large(1, 100_000));
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let path = LogReader::open(&storage, &dir()).unwrap().blobs().path(&id(&output));
    disk.overwrite(&path, 5, b"x").unwrap();
    ledger.output(&output).unwrap_err();
    work(&ledger, run, large(1, 100_000));
    assert_eq!(ledger.output(&output).unwrap(), large(1, 100_000));

    let before = ledger.head();
    let task = ledger.dispatch(run, "w").unwrap().unwrap();
    let named = |output| Receipt { output, ..Receipt::default() };
    disk.overwrite(&path, 5, b"y").unwrap();
    let error = ledger.record_receipt(task.token, named(output.clone())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert_eq!(ledger.head().seq, before.seq + 1, "only the dispatch");
    ledger
        .record_receipt(task.token, Receipt { output: large(1, 100_000).into(), ..named(output) })
        .unwrap();
}

/// Story: a receipt that named a missing output was answered with damage of the ledger,
/// although no record had ever named that output.
#[test]
fn receipt_of_a_missing_output_is_rejected() {
    let disk = SimDisk::new();
    let ledger = Ledger::create(&dir(), &on_disk(&disk)).unwrap();
    let run = ledger.start_run("r", &plan(2), RunPolicy::default()).unwrap();
    let output = work(&ledger, run, large(1, 100_000));
    let Output::Blob(blob) = &output else { panic!("inline") };
    let task = ledger.dispatch(run, "w").unwrap().unwrap();
    let before = ledger.head();
    let missing = BlobOutput { hash: ContentHash([7; 32]), ..blob.clone() };
    let shorter = BlobOutput { length: blob.length - 1, ..blob.clone() };
    for named in [missing, shorter] {
        let refused = Rejection::NoSuchOutput(named.hash);
        let receipt = Receipt { output: Output::Blob(named), ..Receipt::default() };
        let error = ledger.record_receipt(task.token, receipt).unwrap_err();
        assert_eq!((error.kind(), error.rejection()), (ErrorKind::Rejected, Some(&refused)));
    }
    assert_eq!(ledger.head(), before);
    ledger.record_receipt(task.token, Receipt { output, ..Receipt::default() }).unwrap();
}

/// Goal: a check reads an output from its blob; if the blob is missing, the criterion fails and
/// names it.
#[test]
fn check_reads_a_blob_and_fails_if_it_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let check = |name: &str, worker: &str, criteria: &[&str]| {
        let plan = Plan {
            steps: vec![Step {
                id: "one".to_owned(),
                command: Some(worker.to_owned()),
                acceptance: criteria
                    .iter()
                    .map(|text| Criterion::Command((*text).into()))
                    .collect(),
                ..Step::default()
            }],
            ..Plan::default()
        };
        let file = folder.path().join(format!("{name}.json"));
        std::fs::write(&file, serde_json::to_string(&plan).unwrap()).unwrap();
        let dir = folder.path().join(format!("{name}.ledger"));
        let (file, dir) = (file.to_str().unwrap().to_owned(), dir.to_str().unwrap().to_owned());
        (run_ledger(&["run", &file, "--ledger", &dir]), dir)
    };
    let worker = "head -c 300000 /dev/zero | tr '\\0' x";
    let (ended, dir) = check("there", worker, &["test \"$(wc -c)\" = 300002"]);
    assert_eq!(ended.code, 0, "{}{}", ended.out, ended.err);
    assert!(Path::new(&dir).join("blob").is_dir());
    let (ended, _) = check("gone", worker, &["rm -r \"$LEDGER_DIR/blob\"", "true"]);
    assert_eq!(ended.code, 1, "{}{}", ended.out, ended.err);
    assert!(ended.out.contains("blob missing or damaged"), "{}", ended.out);
}

/// Goal: collecting removes the unnamed blobs and nothing else, and nothing in a damaged
/// ledger.
#[test]
fn collecting_removes_only_unnamed_blobs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ledger");
    let ledger = Ledger::create(&path, &Environment::system()).unwrap();
    let run = ledger.start_run("r", &plan(2), RunPolicy::default()).unwrap();
    let kept = id(&work(&ledger, run, large(1, 100_000)));
    let output = work(&ledger, run, large(2, 100_000));
    ledger.close().unwrap();
    let orphan = BlobId::of(b"orphan");
    let place = path.join("blob").join(&orphan.hex()[..2]);
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join(orphan.hex()), "orphan").unwrap();
    std::fs::write(place.join("notes.txt"), "mine").unwrap();
    let dir = path.to_str().unwrap();
    let ended = run_ledger(&["blobs", dir]);
    assert!(ended.out.contains("1 not referenced by any record"), "{}", ended.out);
    let ended = run_ledger(&["blobs", dir, "--collect", "--json"]);
    assert_eq!(ended.code, 0, "{}", ended.err);
    let last = super::command::json_lines(&["blobs".to_owned()], &ended.out).pop().unwrap();
    assert_eq!(last["collected"], serde_json::json!({"blobs": 1, "bytes": 6, "unfinished": 0}));
    assert_eq!((&last["named"], &last["unknown_files"]), (&2.into(), &1.into()));
    let view = LedgerView::open(&path, &Environment::system()).unwrap();
    assert_eq!(view.log().blobs().check(&kept), BlobState::Intact);
    view.output(&output).unwrap();

    // A flipped byte in a record: the blob that it named is unknown now.
    let segment = view.log().segments().remove(0).path;
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[4096 + 60] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    std::fs::write(place.join(orphan.hex()), "orphan").unwrap();
    assert_eq!(run_ledger(&["blobs", dir, "--collect"]).code, 4);
    assert!(place.join(orphan.hex()).exists());
}

/// A ledger on a simulated disk, with a step in flight, and the receipt of its worker.
fn with_a_claim(disk: &SimDisk) -> (Ledger, Token, Receipt) {
    let environment = Environment { blob_threshold: 10, ..on_disk(disk) };
    let ledger = Ledger::create(&dir(), &environment).unwrap();
    let run = ledger.start_run("r", &plan(1), RunPolicy::default()).unwrap();
    let token = ledger.dispatch(run, "w").unwrap().unwrap().token;
    (ledger, token, Receipt { output: large(1, 3000).into(), ..Receipt::default() })
}

/// Check that the outputs that records name exist after a power loss.
fn expect_outputs(disk: &SimDisk, count: usize) {
    disk.kill_process();
    disk.lose_power(Loss::Everything);
    let (ledger, _) = Ledger::open_with(&dir(), &on_disk(disk)).unwrap();
    let outputs = receipts(&ledger.replay(1).unwrap());
    assert_eq!(outputs.len(), count);
    for output in outputs {
        ledger.output(&output).unwrap();
    }
}

fn failing_sync(disk: &SimDisk, path: PathBuf) {
    let failure = FaultAction::Error(OsError::Io, FaultEffect::Nothing);
    disk.inject(FaultRule::next(failure).of(Operation::Sync).on(path));
}

/// Goal: a handle whose last write failed collects nothing: only the next open finds out
/// whether the record that names an output is in the log.
/// Story: the output of a receipt whose sync failed was named by no durable record, and
/// removed; the next open found the receipt in the log and recovered it.
#[test]
fn poisoned_handle_collects_nothing() {
    let disk = SimDisk::new();
    let (ledger, token, receipt) = with_a_claim(&disk);
    failing_sync(&disk, disk.files(&dir().join("log")).pop().unwrap());
    let error = ledger.record_receipt(token, receipt).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    assert_eq!(ledger.collect_blobs().unwrap_err().kind(), ErrorKind::Poisoned);
    drop(ledger);
    disk.kill_process();
    let (ledger, report) = Ledger::open_with(&dir(), &on_disk(&disk)).unwrap();
    assert_ne!(report.verdict, "clean");
    drop(ledger);
    expect_outputs(&disk, 1);
}

/// Goal: a handle that lost the right to write collects nothing: the next writer may have
/// stored a blob that no record names yet.
#[test]
fn fenced_handle_collects_nothing() {
    let disk = SimDisk::new();
    let (old, ..) = with_a_claim(&disk);
    disk.remove(&dir().join("LOCK")).unwrap();
    let (new, _) = crate::lab::open(&disk).unwrap();
    let store = new.blobs();
    let id = store.put(b"an output that is about to be named").unwrap();
    assert_eq!(old.collect_blobs().unwrap_err().kind(), ErrorKind::Fenced);
    assert_eq!(store.reader().check(&id), BlobState::Intact);
}

/// Goal: a failed sync of a blob is not repeated: its bytes are written again.
/// Story: a file restored from a copy was to be named. Its sync failed, was repeated with the
/// receipt, and "succeeded"; a power loss then took the acknowledged output.
#[test]
fn blob_is_rewritten_after_a_failed_sync() {
    let disk = SimDisk::new();
    let (ledger, token, receipt) = with_a_claim(&disk);
    let Output::Inline(value) = &receipt.output else { panic!("it is inline") };
    let id = BlobId::of(value.as_str().as_bytes());
    let folder = dir().join("blob").join(&id.hex()[..2]);
    disk.create_dir(&dir().join("blob")).unwrap();
    disk.create_dir(&folder).unwrap();
    let path = folder.join(id.hex());
    disk.create(&path).unwrap().write_at(value.as_str().as_bytes(), 0).unwrap();
    failing_sync(&disk, path);
    assert_eq!(ledger.record_receipt(token, receipt.clone()).unwrap_err().kind(), ErrorKind::Io);
    ledger.record_receipt(token, receipt).unwrap();
    drop(ledger);
    expect_outputs(&disk, 1);
}
