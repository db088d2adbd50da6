//! A full disk: on a small real file system with real workers, and on a simulated disk at every write.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command as Process;

use std::sync::Arc;

use plan_ledger::internals::sim::{
    FaultAction, FaultEffect, FaultRule, Operation, OsError, SimDisk,
};
use plan_ledger::plan::CapScope;
use plan_ledger::{
    Command, Ending, Environment, ErrorKind, Ledger, Receipt, RunPolicy, RunStatus, StepStatus,
    state_hash,
};

use super::blobs::{large, plan};
use super::command::{Place, Running, ids, report_skipped, start, state_of, wait_until};
use super::golden::deterministic;
use super::lab::mix;

/// A small file system in memory, unmounted on drop.
struct Disk {
    place: Place,
}

impl Disk {
    /// `None` if this user may not mount a file system.
    fn new(size: &str) -> Option<Self> {
        let place = Place::new();
        let folder = place.path("disk");
        std::fs::create_dir(&folder).unwrap();
        if mount(&["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"], &folder) {
            return Some(Self { place });
        }
        report_skipped("no file system can be mounted here");
        None
    }

    fn grow(&self, size: &str) {
        let options = format!("remount,size={size}");
        assert!(mount(&["-o", &options], &self.place.path("disk")));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A mount that stays is not a wrong result.
        let _ = Process::new("umount").arg("-l").arg(self.place.path("disk")).status();
    }
}

fn mount(options: &[&str], folder: &Path) -> bool {
    let output = Process::new("mount").args(options).arg(folder).output();
    output.is_ok_and(|output| output.status.success())
}

/// Steps with outputs of 60 kB each.
fn plan_with_large_outputs(steps: usize) -> String {
    let step = |n| {
        format!(
            "  - {{id: s{n}, command: 'echo $LEDGER_STEP >> $TALLY; \
             head -c 60000 /dev/zero | tr \"\\0\" x'}}\n"
        )
    };
    format!("steps:\n{}", (0..steps).map(step).collect::<String>())
}

/// Story: the disk was full when an external worker was done. The worker ended, and its result was lost,
/// although there was space a moment later.
#[test]
fn external_worker_retries_its_receipt_until_there_is_space() {
    let Some(disk) = Disk::new("2500k") else { return };
    let place = &disk.place;
    place.write("plan.yaml", "steps: [{id: a}]");
    place.ledger("init --ledger disk/ledger").code(0);
    place.ledger("plan propose plan.yaml --ledger disk/ledger").code(0);
    let command = "echo begun >> $TALLY; head -c 9000000 /dev/zero > disk/filler
        head -c 1000000 /dev/zero | tr '\\0' x";
    let words = ["work", "--ledger", "disk/ledger", "--json", "--", "sh", "-c", command];
    let mut worker = start(&mut place.command(&words));
    let is_waiting = |worker: &Running| worker.complained("is not recorded yet");
    wait_until("it cannot report", || is_waiting(&worker) || worker.is_over());
    assert!(is_waiting(&worker), "{:?}", worker.end());
    disk.grow("20M");
    let ended = worker.end().code(0);
    assert_eq!(ended.lines().last().unwrap()["steps"], 1, "{ended:?}");
    assert_eq!(place.tally(), ["begun"]);
}

/// Goal: a full disk stops the run with a clear message and loses nothing that was acknowledged, and the
/// same command continues once there is space.
#[test]
fn run_on_a_full_disk_resumes_when_there_is_space() {
    let Some(disk) = Disk::new("2500k") else { return };
    let place = &disk.place;
    place.write("plan.yaml", plan_with_large_outputs(40));
    let line = "run plan.yaml --ledger disk/ledger --max-parallel 2";
    let ended = place.ledger(line).code(7);
    let ended = ended.complains(&["disk/ledger", "No space left on device"]);
    let ended = ended.says(&["run plan: stopped", "repeat the command"]);
    let accepted = accepted(place);
    // The rejected record may be a claim, and a running step may still find space for its receipt.
    let is_all_kept = place.tally().len() == accepted.len();
    assert!(
        is_all_kept || ended.out.contains("not recorded: the receipt of step"),
        "{}",
        ended.out
    );
    assert!(accepted.len() > 5, "{}", ended.out);
    assert!(ended.out.contains(&format!("  {} of 40 steps accepted", accepted.len())));

    place.ledger(line).code(7).complains(&["No space left on device"]);
    assert!(accepted.is_subset(&self::accepted(place)), "a retry loses nothing");

    let before = place.tally().len();
    let accepted = self::accepted(place);
    disk.grow("64m");
    place.ledger(line).code(0).says(&["40 of 40 steps accepted"]);
    for step in &place.tally()[before..] {
        assert!(!accepted.contains(step), "{step} was accepted and was started again");
    }
}

/// Story: a worker had paid when the disk was full. Its complete output was deleted by the next runner, and
/// a person was asked what had happened.
#[test]
fn result_is_kept_until_there_is_space() {
    let Some(disk) = Disk::new("2500k") else { return };
    let place = &disk.place;
    let command = "echo pay >> $TALLY; head -c 700000 /dev/urandom | base64 -w0
        cat /dev/zero > disk/filler 2> /dev/null; true";
    place.write("pay.sh", command);
    place.write("plan.yaml", "steps: [{id: pay, idempotent: no, command: sh pay.sh}]");
    let line = "run plan.yaml --ledger disk/ledger";
    let ended = place.ledger(line).code(7);
    ended.says(&["not recorded: the receipt of step 1 (pay)", "the next run records it"]);
    // It is still full.
    place.ledger(line).code(7);
    std::fs::remove_file(place.path("disk/filler")).unwrap();
    disk.grow("20M");
    place.ledger(line).code(0).says(&["1 of 1 steps accepted"]);
    assert_eq!(place.tally(), ["pay"]);
}

/// A disk that is full for a while costs a night no more than that while.
#[test]
fn run_continues_alone_when_there_is_room() {
    let Some(disk) = Disk::new("30m") else { return };
    let place = &disk.place;
    let plan = "steps: [{id: a, command: 'echo a >> $TALLY; head -c 99000000 /dev/zero > disk/filler'}, {id: b, \
                after: [a], command: 'echo b >> $TALLY'}]\ndefaults: {retry: {max_attempts: 2}}";
    place.write("plan.yaml", plan);
    let line = ["run", "plan.yaml", "--ledger", "disk/ledger", "--min-free", "10"];
    let run = start(&mut place.command(&line));
    wait_until("it waits for room", || run.complained("no step starts until there is room: "));
    assert_eq!(place.tally(), ["a"]);
    disk.grow("300m");
    let ended = run.end().code(0);
    ended.complains(&["the disk has room again: the run continues"]).says(&["2 of 2 steps"]);
    assert_eq!(place.tally(), ["a", "a", "b"]);
}

/// A worker that must not be repeated and fails on a full disk may have done its work: an exit status
/// other than 0 says nothing then.
#[test]
fn failure_on_a_full_disk_has_an_unknown_outcome() {
    let Some(disk) = Disk::new("2500k") else { return };
    let place = &disk.place;
    let command = "echo pay >> $TALLY; head -c 9000000 /dev/zero";
    place.write("plan.yaml", format!("steps: [{{id: pay, idempotent: no, command: '{command}'}}]"));
    let line = "run plan.yaml --ledger disk/ledger";
    place.ledger(line);
    disk.grow("20M");
    place.ledger(line).code(3).says(&["the outcome of step 1 (pay) is unknown"]);
    assert_eq!(place.tally(), ["pay"]);
}

/// Story: a worker failed because the disk was full. The failure counted as unknown, so a person was asked
/// about a step that needed nothing but space.
#[test]
fn failure_on_a_full_disk_is_repeated_without_a_person() {
    let Some(disk) = Disk::new("2500k") else { return };
    let place = &disk.place;
    let command = "echo begun >> $TALLY; test -e roomy || head -c 9000000 /dev/zero";
    place.write("plan.yaml", format!("steps: [{{id: a, command: '{command}'}}]"));
    let line = "run plan.yaml --ledger disk/ledger";
    place.ledger(line);
    place.write("roomy", "");
    disk.grow("20M");
    place.ledger(line).code(0).says(&["1 of 1 steps accepted"]);
}

/// Story: one worker filled the disk for a moment, and another one failed by that. When the second one had
/// ended, there was room again, and a person was asked about it.
#[test]
fn failure_by_a_disk_that_has_room_again_is_one_of_a_full_disk() {
    let Some(disk) = Disk::new("2500k") else { return };
    let place = &disk.place;
    let fill = "cat /dev/zero > disk/filler; code=$?; rm disk/filler; exit $code";
    place.write(
        "agent.sh",
        format!("echo $LEDGER_STEP >> $TALLY; [ $LEDGER_ATTEMPT = 2 ] || {{ {fill}; }}"),
    );
    place.write(
        "plan.yaml",
        "steps:
  - {id: build, command: sh agent.sh}
  - {id: pay, after: [build], idempotent: no, command: sh agent.sh}
",
    );
    let ended = place.ledger("run plan.yaml --ledger disk/ledger").code(3);
    ended.says(&["the outcome of step 2 (pay) is unknown"]);
    assert_eq!(place.tally(), ["build", "build", "pay"]);
}

/// Goal: with --json, the summary contains each receipt that could not be recorded, with its output.
#[test]
fn full_disk_is_reported_as_json() {
    let Some(disk) = Disk::new("2500k") else { return };
    disk.place.write("plan.yaml", plan_with_large_outputs(40));
    let line = "run plan.yaml --ledger disk/ledger --max-parallel 2 --json";
    let lines = disk.place.ledger(line).code(7).lines();
    let summary = lines.last().unwrap();
    assert_eq!(summary["outcome"], "stopped");
    assert_eq!(summary["exit_code"], 7);
    assert!(summary["error"].as_str().unwrap().contains("No space left"), "{summary}");
    let unrecorded = summary["unrecorded"].as_array().unwrap();
    // The rejected record may be a claim, and a running step may still find space for its receipt.
    let is_all_kept = disk.place.tally().len() == accepted(&disk.place).len();
    assert!(is_all_kept || !unrecorded.is_empty(), "{summary}");
    for lost in unrecorded {
        // A worker whose output did not fit on the disk reports a failure.
        let is_whole = lost["output"].as_str().unwrap().len() == 60_000;
        assert!(is_whole || lost["outcome"] == "failed", "{lost}");
    }
}

/// Story: exporting a plan to a full disk left an empty file, and later the same command was rejected
/// because of it.
#[test]
fn plan_export_on_a_full_disk_leaves_no_file() {
    let Some(disk) = Disk::new("4k") else { return };
    let place = &disk.place;
    let steps: String = (0..400).map(|n| format!("  - {{id: s{n}, goal: do it}}\n")).collect();
    place.write("plan.yaml", format!("steps:\n{steps}"));
    let line = "plan export plan.yaml -o disk/plan.json";
    place.ledger(line).code(7).complains(&["disk/plan.json", "No space left on device"]);
    assert_eq!(std::fs::read_dir(place.path("disk")).unwrap().count(), 0);
    disk.grow("1m");
    place.ledger(line).code(0);
}

/// Goal: creating a ledger on a full disk leaves no files, and the same command works once there is space.
#[test]
fn ledger_creation_on_a_full_disk_leaves_no_files() {
    for size in ["4k", "64k", "512k", "1028k"] {
        let Some(disk) = Disk::new(size) else { return };
        let place = &disk.place;
        place.write("plan.yaml", "steps: [{id: one, command: 'echo x >> $TALLY'}]");
        let line = "run plan.yaml --ledger disk/ledger";
        for _ in 0..2 {
            for line in [line, "init --ledger disk/ledger"] {
                place.ledger(line).code(7).complains(&["No space left on device"]);
                let left: Vec<_> = std::fs::read_dir(place.path("disk")).unwrap().collect();
                assert!(left.is_empty(), "{line}, {size}: {left:?}");
            }
        }
        assert!(place.tally().is_empty());
        disk.grow("8m");
        place.ledger(line).code(0).says(&["1 of 1 steps accepted"]);
        assert_eq!(place.tally().len(), 1);
    }
}

fn accepted(place: &Place) -> BTreeSet<String> {
    let state = state_of(&place.path("disk/ledger"));
    ids(state.run_named("plan").unwrap(), StepStatus::Accepted).into_iter().collect()
}

/// Goal: a disk that is full at any one write or creation of a file only delays a run: whatever the write
/// was for, the run resumes once there is space, completes every step, and repeats no accepted step.
/// Method: the n-th call fails with ENOSPC, for every n, without and with a partial effect; the harness
/// opens the ledger again where it must.
#[test]
fn full_disk_at_any_write_only_delays_a_run() {
    let disk = SimDisk::new();
    assert_eq!(run_to_end(&disk, "without faults"), 0);
    let of = |operation| {
        let rule = FaultRule::next(FaultAction::Slow(std::time::Duration::from_nanos(1)));
        rule.of(operation).always()
    };
    let mut failures = 0;
    for operation in [Operation::Write, Operation::Create] {
        let counted = SimDisk::new();
        counted.inject(of(operation));
        run_to_end(&counted, "counted");
        let count = u64::try_from(counted.injected().len()).unwrap();
        assert!(count > 0, "{operation} is never called");
        for nth in 1..=count {
            for effect in [FaultEffect::Nothing, FaultEffect::Part(nth)] {
                let disk = SimDisk::new();
                let action = FaultAction::Error(OsError::NoSpace, effect);
                disk.inject(FaultRule::next(action).of(operation).nth(nth));
                failures += run_to_end(&disk, &format!("{operation} {nth}, {effect:?}"));
            }
        }
    }
    assert!(failures > 100, "too few failures: {failures}");
}

/// A run of eight steps, one of them with an output that becomes a blob, and a snapshot. Returns the
/// number of attempts that failed for lack of space.
fn run_to_end(disk: &SimDisk, story: &str) -> usize {
    let environment = Environment { storage: Arc::new(disk.clone()), ..deterministic() };
    let (mut failures, mut accepted) = (0, BTreeSet::new());
    for _ in 0..8 {
        let ended = attempt(disk, &environment, &mut accepted, story);
        match ended {
            Ok(()) => return failures,
            Err(error) => {
                let kind = error.kind();
                let is_expected = matches!(
                    kind,
                    ErrorKind::DiskFull | ErrorKind::OutcomeUnknown | ErrorKind::Poisoned
                );
                assert!(is_expected, "{story}: {kind:?}: {error}");
                failures += 1;
                disk.kill_process();
            }
        }
    }
    panic!("{story}: it never ends");
}

fn attempt(
    disk: &SimDisk,
    environment: &Environment,
    accepted: &mut BTreeSet<u32>,
    story: &str,
) -> Result<(), plan_ledger::Error> {
    let (ledger, _) = Ledger::open_or_create(Path::new("full.ledger"), environment)?;
    let run = match ledger.state().unwrap().run_named("full") {
        Some(run) => run.id,
        None => ledger.start_run("full", &plan(8), RunPolicy::default())?,
    };
    // Attempts of an earlier process are lost: their steps may run twice.
    for token in ledger.state().unwrap().in_flight.keys() {
        ledger.report_lost(*token, plan_ledger::LostCause::RunnerDied, "the process ended")?;
    }
    while let Some(task) = ledger.dispatch(run, "worker")? {
        assert!(!accepted.contains(&task.number.0), "{story}: step {} again", task.number);
        let size = if task.number.0 == 3 { 100_000 } else { 40 };
        let output = large(task.number.0.into(), size).into();
        ledger.record_receipt(task.token, Receipt { output, ..Receipt::default() })?;
        accepted.insert(task.number.0);
        if task.number.0 == 5 {
            ledger.snapshot::<plan_ledger::State>()?;
        }
    }
    let state = ledger.state().unwrap();
    assert_eq!(state.runs[&run].status, RunStatus::Ended(Ending::Done), "{story}");
    let replayed = ledger.state_at(ledger.head().seq)?;
    assert_eq!(state_hash(&replayed), state_hash(&state), "{story}");
    ledger.close()?;
    assert!(!disk.is_down());
    Ok(())
}

/// Story: after a crash on a full disk no command could open the ledger, so none could make room.
/// Method: an unproven tail, and no room at all; then the files that the message names are deleted.
#[test]
fn crash_on_a_disk_without_any_room_has_a_way_out() {
    let disk = SimDisk::new();
    let dir = Path::new("full.ledger");
    let environment = Environment {
        storage: Arc::new(disk.clone()),
        snapshot_every: None,
        blob_threshold: usize::MAX,
        ..deterministic()
    };
    let ledger = Ledger::create(dir, &environment).unwrap();
    let run = ledger.start_run("r", &plan(4), RunPolicy::default()).unwrap();
    // It takes as much space in a snapshot, too.
    let noise: String = (0..8_000).map(|number| format!("{:016x}", mix(number))).collect();
    ledger.set_variable(run, "noise", serde_json::json!(noise), None, "me").unwrap();
    ledger.snapshot::<plan_ledger::State>().unwrap();
    let head = disk.read(&dir.join("HEAD")).unwrap();
    let cap = |limit| Command::SetCap {
        scope: CapScope::Ledger,
        limit: Some(limit),
        by: "me".to_owned(),
    };
    let last = ledger.execute(&cap(3)).unwrap().ack.seq;
    disk.kill_process();
    drop(ledger);
    disk.overwrite(&dir.join("HEAD"), 0, &head).unwrap();
    let used: usize = disk.files(dir).iter().map(|path| disk.read(path).unwrap().len()).sum();
    disk.set_capacity(u64::try_from(used).unwrap());
    let error = Ledger::open_with(dir, &environment).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
    assert!(error.to_string().contains("files in `snap` may be deleted"), "{error}");
    let storage = &environment.storage;
    for path in disk.files(&dir.join("snap")) {
        storage.remove(&path).unwrap();
    }
    storage.sync_dir(&dir.join("snap")).unwrap();
    let (ledger, report) = Ledger::open_with(dir, &environment).unwrap();
    assert_eq!(report.verdict, "unacknowledged_tail");
    assert!(report.last_seq > last, "{report:?}");
    ledger.execute(&cap(4)).unwrap();
    ledger.close().unwrap();
}
