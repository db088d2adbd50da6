//! Copies, exports, archives and salvages of ledgers with faults: every fault is reported, and
//! no only copy is removed.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use plan_ledger::internals::format::{Codec, NewRecord};
use plan_ledger::internals::ledger::{ArchiveReport, RetentionLimit, archive, salvage};
use plan_ledger::internals::sim::{Fault, FaultEffect, SimDisk, sweep};
use plan_ledger::internals::storage::Storage as _;
use plan_ledger::log::{Batch, KIND_GAP, Log};
use plan_ledger::{
    BatchKey, Cost, Environment, Error, ErrorKind, Json, Ledger, LedgerView, LostCause, Plan,
    Receipt, RunId, RunPolicy, State, StepNumber,
};

use crate::blobs::{large, plan, work};
use crate::command::Place;
use crate::lab::{LOOKS, at, dir, log_digest, log_files, options, reader, record};
use crate::time_travel::environment;

fn quiet(disk: &SimDisk) -> Environment {
    Environment { snapshot_every: None, ..environment(disk, 1) }
}

fn open(disk: &SimDisk) -> Ledger {
    Ledger::open_with(&dir(), &quiet(disk)).unwrap().0
}

fn view(disk: &SimDisk) -> LedgerView {
    LedgerView::open(&dir(), &quiet(disk)).unwrap()
}

fn head_path() -> PathBuf {
    dir().join("HEAD")
}

/// All files in the ledger's folder, as a backup copies them.
fn copy_of(disk: &SimDisk) -> Vec<(PathBuf, Vec<u8>)> {
    let files = disk.files(&dir()).into_iter();
    files.map(|path| (path.clone(), disk.read(&path).unwrap())).collect()
}

/// Write a copy over the files in place, as `cp` does.
fn put_back(disk: &SimDisk, copy: &[(PathBuf, Vec<u8>)]) {
    for (path, bytes) in copy {
        disk.set_length(path, 0).unwrap();
        disk.set_length(path, u64::try_from(bytes.len()).unwrap()).unwrap();
        disk.overwrite(path, 0, bytes).unwrap();
    }
}

fn refuses(disk: &SimDisk, log: &Log, story: &str) {
    let before = log_digest(disk);
    for _ in 0..2 {
        let error = log.append(&[record(6, 20)], at(9)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Fenced, "{story}: {error}");
        assert!(error.to_string().contains("HEAD"), "{story}: {error}");
    }
    assert_eq!(log_digest(disk), before, "{story}: something was written");
}

/// Story: a backup was copied over a ledger that was being served. The server continued in the
/// old files, and acknowledged records that the next open did not find.
#[test]
fn copy_over_a_writers_files_stops_the_writer() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    log.append(&[record(1, 10)], at(0)).unwrap();
    let of_before = copy_of(&disk);
    log.close().unwrap();
    let (log, _) = Log::open(&dir(), options(&disk), at(1)).unwrap();
    log.append(&[record(2, 10)], at(1)).unwrap();
    let of_now = copy_of(&disk);
    for number in 0..3 {
        log.append(&[record(number, 10)], at(2)).unwrap();
    }
    drop(log);

    let (mut emptied, mut foreign) = (of_now.clone(), of_now.clone());
    for (_, bytes) in emptied.iter_mut().filter(|(path, _)| *path == head_path()) {
        bytes.clear();
    }
    let another = SimDisk::new();
    let other = Environment { ids: Environment::system().ids, ..quiet(&another) };
    Ledger::create(&dir(), &other).unwrap().close().unwrap();
    for (_, bytes) in foreign.iter_mut().filter(|(path, _)| *path == head_path()) {
        bytes.clone_from(&another.read(&head_path()).unwrap());
    }
    for (story, copy) in [
        ("of an earlier opening", Some(&of_before)),
        ("of the opening before", Some(&of_now)),
        ("of the same opening", None),
        ("of which HEAD is not written yet", Some(&emptied)),
        ("of another ledger", Some(&foreign)),
    ] {
        let disk = SimDisk::new();
        disk.create_dir(&dir()).unwrap();
        disk.create_dir(&dir().join("log")).unwrap();
        for (path, bytes) in &of_now {
            disk.create(path).unwrap().write_at(bytes, 0).unwrap();
        }
        let (log, _) = Log::open(&dir(), options(&disk), at(3)).unwrap();
        let mut own = Vec::new();
        for number in 0..4 {
            log.append(&[record(number, 10)], at(4 + 2_000_000 * number)).unwrap();
            own.push(copy_of(&disk));
        }
        let copy = copy.unwrap_or(&own[1]);
        put_back(&disk, copy);
        refuses(&disk, &log, story);
    }
}

/// Story: a writer does not mistake its own HEAD for an older copy, also if HEAD is synced
/// rarely or its sync fails.
#[test]
fn writer_recognizes_its_own_head() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    for number in 0..40 {
        log.append(&[record(number, 100)], at(number)).unwrap();
    }
    log.close().unwrap();
    let calls = disk.calls();
    for call in 0..60 {
        let disk = disk.fork();
        let (log, _) = Log::open(&dir(), options(&disk), at(50)).unwrap();
        let (kind, effect) = (std::io::ErrorKind::Other, FaultEffect::Nothing);
        disk.fail_at(Fault { call: calls + 20 + call, kind, effect });
        for number in 0..5 {
            if let Err(error) = log.append(&[record(number, 100)], at(60 + number)) {
                assert!(!error.to_string().contains("stale"), "{call}: {error}");
                break;
            }
        }
    }
}

fn exported(disk: &SimDisk, to: Option<u64>) -> (String, Result<Option<(u64, u64)>, Error>) {
    let mut out = Vec::new();
    let done = view(disk).export(None, to, &|_| None, &mut out);
    let behind = done.map(|done| done.unexported.map(|behind| (behind.first, behind.last)));
    (String::from_utf8(out).unwrap(), behind)
}

fn records_in(text: &str) -> u64 {
    let records = text.lines().filter(|line| line.starts_with("{\"type\":\"record\""));
    records.map(|_| 1).sum()
}

/// Story: a ledger without HEAD was exported as complete, without the records of its newest
/// segment; the import was empty.
#[test]
fn export_without_head_is_an_error() {
    let disk = SimDisk::new();
    let ledger = Ledger::create(&dir(), &quiet(&disk)).unwrap();
    let run = ledger.start_run("r", &plan(3), RunPolicy::default()).unwrap();
    ledger.set_variable(run, "v", Json::default(), None, "me").unwrap();
    let last = ledger.head().seq;
    ledger.close().unwrap();
    let (whole, done) = exported(&disk, None);
    assert_eq!((records_in(&whole), done.unwrap()), (last, None));

    disk.remove(&head_path()).unwrap();
    for to in [None, Some(last)] {
        let (text, done) = exported(&disk, to);
        let error = done.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Ambiguous, "{error}");
        assert!(
            error.to_string().contains(&format!("complete records 1 to {last} are left out")),
            "{error}"
        );
        assert_eq!((records_in(&text), text.contains("\"type\":\"end\"")), (0, false));
    }
}

/// Story: an older HEAD was restored, and the export omitted acknowledged records. A later
/// record proves that they were acknowledged. Unacknowledged records are reported, and are no error.
#[test]
fn export_with_a_stale_head_is_an_error_if_a_record_proves_it() {
    let disk = SimDisk::new();
    let ledger = Ledger::create(&dir(), &quiet(&disk)).unwrap();
    let run = ledger.start_run("r", &plan(3), RunPolicy::default()).unwrap();
    let mut heads = Vec::new();
    for number in 0..3 {
        heads.push((ledger.head().seq, disk.read(&head_path()).unwrap()));
        ledger.set_variable(run, "v", Json::new(&number.into()), None, "me").unwrap();
    }
    let last = ledger.head().seq;
    disk.kill_process();
    drop(ledger);
    let (older, bytes) = &heads[0];
    disk.overwrite(&head_path(), 0, bytes).unwrap();
    let (text, done) = exported(&disk, None);
    let error = done.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Ambiguous, "{error}");
    let left = format!("complete records {} to {last} are left out", older + 1);
    assert!(error.to_string().contains(&left), "{error}");
    assert_eq!(records_in(&text), *older);

    // For the last record alone it is unknown: it may be that of a killed writer.
    let (newer, bytes) = &heads[2];
    disk.overwrite(&head_path(), 0, bytes).unwrap();
    let (text, done) = exported(&disk, None);
    assert_eq!(done.unwrap(), Some((newer + 1, last)));
    assert_eq!(records_in(&text), *newer);

    // The next open recovers all of them.
    disk.overwrite(&head_path(), 0, &heads[0].1).unwrap();
    open(&disk).close().unwrap();
    let (text, done) = exported(&disk, None);
    assert_eq!(done.unwrap(), None);
    assert!(records_in(&text) > last);
}

/// Goal: the commands end with the exit code of damage, and leave no file that looks complete.
#[test]
fn export_commands_report_a_missing_head() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: one, command: 'true'}]");
    place.ledger("run plan.yaml").code(0);
    std::fs::remove_file(place.path(".ledger/HEAD")).unwrap();
    for line in ["export", "export -o x.jsonl"] {
        place.ledger(line).code(4).complains(&["HEAD is missing", "complete records"]);
    }
    assert!(!place.path("x.jsonl").exists());
}

fn ended_run(ledger: &Ledger, name: &str, output: Json) {
    let run = ledger.start_run(name, &plan(1), RunPolicy::default()).unwrap();
    work(ledger, run, output);
}

/// Rotate: continue in a new segment after the old one is full.
fn rotate(disk: &SimDisk) {
    let (log, _) = Log::open(&dir(), options(disk), at(1)).unwrap();
    log.append(&[filler(1_046_000)], at(1)).unwrap();
    log.close().unwrap();
}

/// Fence: continue in a new segment after an unacknowledged write.
fn fence(disk: &SimDisk) {
    let ledger = open(disk);
    disk.crash_at(disk.calls() + LOOKS + 3);
    let (scope, by) = (plan_ledger::plan::CapScope::Ledger, "ann".to_owned());
    ledger.execute(&plan_ledger::Command::SetCap { scope, limit: Some(7), by }).unwrap_err();
    disk.kill_process();
    drop(ledger);
    open(disk).close().unwrap();
}

fn filler(size: usize) -> NewRecord {
    NewRecord { kind: 0x9000, codec: Codec::Raw, schema: 1, payload: vec![1; size] }
}

/// A ledger in which two runs with large outputs can be archived and pruned: two snapshots
/// follow them.
fn prunable() -> SimDisk {
    let disk = SimDisk::new();
    Ledger::create(&dir(), &quiet(&disk)).unwrap().close().unwrap();
    for number in 0..2 {
        let ledger = open(&disk);
        ended_run(&ledger, &format!("run-{number}"), large(number, 200_000));
        ledger.close().unwrap();
        rotate(&disk);
    }
    fence(&disk);
    for number in 0..2 {
        let ledger = open(&disk);
        ledger.start_run(&format!("open-{number}"), &plan(1), RunPolicy::default()).unwrap();
        ledger.snapshot::<State>().unwrap();
        ledger.close().unwrap();
    }
    assert_eq!(disk.files(&dir().join("blob")).len(), 2);
    disk
}

/// An archive that is not stopped.
pub(crate) fn unwatched(_: u64, _: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn archived(disk: &SimDisk) -> Result<ArchiveReport, Error> {
    archive(&dir(), Path::new("/old.tar"), None, &quiet(disk), &unwatched).map(Option::unwrap)
}

/// Story: while no file could be opened, an archive was made without the outputs, as if they
/// were missing; a prune and a garbage collection then removed the only copies.
#[test]
fn sweep_unreadable_output_is_not_archived_as_missing() {
    let pristine = prunable();
    let clean = pristine.fork();
    assert!(archived(&clean).unwrap().manifest.missing_blobs.is_empty());
    let mut failed = 0;
    for call in (pristine.calls() + 1..=clean.calls()).step_by(sweep(5, 1, 1)) {
        let disk = pristine.fork();
        let (kind, effect) = (std::io::ErrorKind::Other, FaultEffect::Nothing);
        disk.fail_at(Fault { call, kind, effect });
        match archived(&disk) {
            Ok(made) => assert!(made.manifest.missing_blobs.is_empty(), "{call}"),
            Err(_) => failed += 1,
        }
    }
    assert!(failed > sweep(4, 20, 20), "{failed}");
}

/// Story: a prune after an archive removed records whose outputs were not in the archive. The
/// rest of a damaged output may be all there is.
#[test]
fn incomplete_archive_is_not_pruned() {
    let (disk, place) = (prunable(), Place::new());
    let blob = disk.files(&dir().join("blob")).remove(0);
    disk.set_length(&blob, 100_000).unwrap();
    for (path, bytes) in copy_of(&disk) {
        let to = place.path("l").join(path.strip_prefix(dir()).unwrap());
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::write(to, bytes).unwrap();
    }
    let before = std::fs::read_dir(place.path("l/log")).unwrap().count();
    let words = ["nothing was pruned: an output is missing or damaged", "prune --through"];
    place.ledger("archive l --to old.tar --prune --yes").code(6).complains(&words);
    assert_eq!(std::fs::read_dir(place.path("l/log")).unwrap().count(), before);
    place.ledger("inspect old.tar").code(0);
    place.ledger("prune l --ended --yes").code(0);
}

/// Story: `--to old.tar` removed an unrelated `old.tar.tmp`.
#[test]
fn archive_removes_no_unrelated_file() {
    let disk = prunable();
    for name in ["/old.tar.tmp", "/old.tar.7-0.part"] {
        disk.create(Path::new(name)).unwrap().write_at(b"years of work", 0).unwrap();
    }
    archived(&disk).unwrap();
    for name in ["/old.tar.tmp", "/old.tar.7-0.part"] {
        assert_eq!(disk.read(Path::new(name)).unwrap(), b"years of work", "{name}");
    }
    let left = disk.files(Path::new("/"));
    assert_eq!(left.iter().filter(|path| path.starts_with("/old.tar")).count(), 1);
    let parts = left.iter().filter(|path| path.to_string_lossy().ends_with(".part"));
    assert_eq!(parts.count(), 1, "{left:?}");
}

fn salvaged(disk: &SimDisk) -> Result<plan_ledger::internals::ledger::SalvageReport, Error> {
    salvage(&dir(), Path::new("/rescued"), &quiet(disk))
}

/// Story: the retention note of a log was damaged, and the rest was salvaged as if the pruned
/// records were lost: a ledger with another state, without any warning.
#[test]
fn pruned_log_with_a_damaged_note_is_not_salvaged() {
    let disk = prunable();
    let ledger = open(&disk);
    ledger.prune(RetentionLimit::EndedRuns, None, "ann").unwrap();
    ledger.close().unwrap();
    let seq = reader(&disk).retention().unwrap().seq;
    let note = reader(&disk).record(seq).unwrap().unwrap();
    let path = log_files(&disk).pop().unwrap().0;
    // In its payload, and in the kind in its header.
    for (at, word) in
        [(50, format!("its retention note, record {seq} (")), (1, format!("record {seq}"))]
    {
        let disk = disk.fork();
        let byte = disk.read(&path).unwrap()[usize::try_from(note.offset + at).unwrap()];
        disk.overwrite(&path, note.offset + at, &[byte ^ 1]).unwrap();
        let error = salvaged(&disk).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
        assert!(error.to_string().contains(&word), "{at}: {error}");
        assert!(disk.files(Path::new("/rescued")).is_empty());
        let error = Ledger::open_with(&dir(), &quiet(&disk)).unwrap_err();
        assert!(error.to_string().contains("no readable retention note"), "{error}");
    }

    // A log whose first segment is lost is salvaged.
    let disk = prunable();
    disk.remove(&log_files(&disk)[0].0).unwrap();
    assert!(salvaged(&disk).unwrap().lost > 0);
}

/// Story: a record of a batch was lost, but its key was salvaged: a request under that key was
/// answered as done.
#[test]
fn key_of_an_incomplete_batch_is_not_salvaged() {
    let disk = SimDisk::new();
    Ledger::create(&dir(), &quiet(&disk)).unwrap().close().unwrap();
    let (log, _) = Log::open(&dir(), options(&disk), at(1)).unwrap();
    let keys = ["cut", "whole"].map(|name| BatchKey::new(name.as_bytes()).unwrap());
    for key in &keys {
        let batch = Batch::new(vec![filler(100), filler(200)], at(2));
        let ticket = log.submit(&Batch { key: Some(key.clone()), ..batch }).unwrap();
        log.wait(ticket).unwrap();
    }
    log.close().unwrap();
    let second = reader(&disk).records(3).next().unwrap().unwrap();
    assert_eq!(second.batch_left, 0);
    disk.overwrite(&log_files(&disk)[0].0, second.offset + 60, &[7]).unwrap();

    let done = salvaged(&disk).unwrap();
    assert_eq!((done.records, done.lost, done.unbatched), (4, 2, 1));
    let of_key = &done.ranges[0];
    assert!(of_key.0 == 1 && of_key.1.what.contains("the key of a batch"), "{of_key:?}");
    let options = options(&disk);
    let (log, _) = Log::open(Path::new("/rescued"), options, at(3)).unwrap();
    let [cut, whole] = keys.map(|key| log.recent_ticket(&key).unwrap().is_some());
    assert_eq!((cut, whole), (false, true));
    let first = log.reader().unwrap().record(1).unwrap().unwrap();
    assert_eq!(first.kind, KIND_GAP);
}

fn costly() -> Plan {
    let text = r#"{"steps": [{"id": "a", "cost_estimate": {"tokens": 500}},
                             {"id": "b", "cost_estimate": {"tokens": 30}}]}"#;
    serde_json::from_str(text).unwrap()
}

/// Story: an attempt was dispatched before a prune and lost after it. Its 500 tokens were in
/// the run's sum, and in the row of no step.
#[test]
fn attempt_from_before_a_prune_is_charged_to_its_step() {
    let disk = SimDisk::new();
    let ledger = Ledger::create(&dir(), &quiet(&disk)).unwrap();
    let run = ledger.start_run("r", &costly(), RunPolicy::default()).unwrap();
    let [lost, done] = [(); 2].map(|()| ledger.dispatch(run, "w").unwrap().unwrap().token);
    ledger.close().unwrap();
    rotate(&disk);
    let ledger = open(&disk);
    let pruned = reader(&disk).segments()[1].header.as_ref().unwrap().prev_last_seq;
    for number in 0..2 {
        ledger.set_variable(run, "v", Json::new(&number.into()), None, "ann").unwrap();
        ledger.snapshot::<State>().unwrap();
    }
    ledger.prune(RetentionLimit::Record(pruned), None, "ann").unwrap();
    ledger.report_lost(lost, LostCause::RunnerDied, "gone").unwrap();
    let cost = Cost { tokens: 40, ..Cost::default() };
    ledger.record_receipt(done, Receipt { cost, ..Receipt::default() }).unwrap();
    let spent = ledger.state().unwrap().runs[&run].account.spent;
    ledger.close().unwrap();
    let history = view(&disk).run_history(run, u64::MAX).unwrap();
    assert_eq!(history.since, pruned + 1);
    let costs = history.costs();
    assert_eq!(costs[&StepNumber(1)].spent.tokens, 500);
    assert_eq!(costs[&StepNumber(1)].estimated.tokens, 500);
    let sum: u64 = costs.values().map(|cost| cost.spent.tokens).sum();
    assert_eq!(sum, spent.tokens);
}

/// Story: after the first prune `inspect metrics` failed, also for runs that began later.
#[test]
fn run_that_began_after_a_prune_has_metrics() {
    let disk = prunable();
    let ledger = open(&disk);
    ledger.prune(RetentionLimit::EndedRuns, None, "ann").unwrap();
    let run = ledger.start_run("later", &plan(2), RunPolicy::default()).unwrap();
    let task = ledger.dispatch(run, "w").unwrap().unwrap();
    ledger.record_receipt(task.token, Receipt::default()).unwrap();
    let found = ledger.metrics(run).unwrap();
    assert_eq!(found.replan_frequency.of, ledger.state().unwrap().runs[&run].account.attempts);
    assert_eq!(view(&disk).metrics(run).unwrap(), found);
    let error = ledger.metrics(RunId(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Pruned, "{error}");
    assert_eq!(ledger.metrics(RunId(99)).unwrap_err().kind(), ErrorKind::Rejected);
}
