//! Goal: every possible end of a process becomes a receipt with the reason, and the runner neither
//! hangs nor kills processes of others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;
use crate::runner::check::Checked;
use plan_ledger::plan::{Neighbours, Secret, Token};
use plan_ledger::{Disposition, ErrorKind, Json, Outcome, Plan, Ruling, Step, StepNumber, Verdict};

/// A test that waits longer than this has found a hang.
const PATIENCE: Duration = Duration::from_secs(120);

struct Bench {
    folder: tempfile::TempDir,
    workers: ProcessWorkers,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let workers = workers(folder.path());
        Self { folder, workers }
    }

    fn start(&mut self, token: u64, step: Step) {
        self.workers.start(&task(token, step)).unwrap();
    }

    fn next(&mut self) -> Report {
        self.workers.next(PATIENCE).expect("a report before patience runs out")
    }

    fn receipt_of(&mut self, command: &str) -> Receipt {
        self.start(7, step(command));
        match self.next() {
            Report::Finished(AttemptToken(7), receipt) => *receipt,
            other => panic!("{other:?}"),
        }
    }

    fn files(&self) -> usize {
        let folder = scratch_folder(self.folder.path(), RunId(1));
        std::fs::read_dir(folder).map_or(0, Iterator::count)
    }
}

fn workers(ledger: &std::path::Path) -> ProcessWorkers {
    let options = ProcessOptions {
        ledger: ledger.to_owned(),
        run: RunId(1),
        worker: Some("echo worker".to_owned()),
    };
    ProcessWorkers::new(options)
}

fn step(command: &str) -> Step {
    Step { id: "build".to_owned(), command: Some(command.to_owned()), ..Step::default() }
}

fn task(token: u64, step: Step) -> Task {
    Task {
        notes: Vec::new(),
        plan_reason: String::new(),
        finished: plan_ledger::Finished::default(),
        ledger: [7; 16],
        run: RunId(1),
        run_name: "test".to_owned(),
        number: StepNumber(3),
        step,
        plan: Arc::new(Plan { title: "a plan".to_owned(), ..Plan::default() }.into()),
        token: Token { seq: AttemptToken(token), secret: Secret([0x9f; 16]) },
        attempt: 2,
        lease_until: 0,
        idempotency_key: "key-7".to_owned(),
        inputs: vec![("rows".to_owned(), Json::from(serde_json::json!(3)))],
        last_failure: Some("it broke".to_owned()),
        failed_criteria: vec![Verdict {
            criterion: 1,
            ruling: Ruling::Fail,
            by: "ann".to_owned(),
            evidence: "no tests".into(),
        }],
        earlier: Vec::new(),
        planned_files: Vec::new(),
        neighbours: Neighbours::default(),
    }
}

fn failure(receipt: &Receipt) -> (FailureClass, &str) {
    match &receipt.outcome {
        Outcome::Failed { class, message, .. } => (*class, message),
        other => panic!("{other:?}"),
    }
}

#[test]
fn output_is_json_or_text_and_standard_error_is_kept() {
    let mut bench = Bench::new();
    let receipt = bench.receipt_of(r#"echo careful >&2; echo '{"rows": 3}'"#);
    assert_eq!(receipt.outcome, Outcome::Succeeded);
    assert_eq!(receipt.output.inline().unwrap().as_str(), r#"{"rows":3}"#);
    assert_eq!(receipt.log_tail, "careful\n");
    assert_eq!(
        bench.receipt_of("printf 'no\\377json'").output.inline().unwrap().as_str(),
        "\"no\u{fffd}json\""
    );
}

#[test]
fn step_without_a_command_uses_the_default_command() {
    let mut bench = Bench::new();
    bench.start(7, Step { id: "x".to_owned(), ..Step::default() });
    let Report::Finished(_, receipt) = bench.next() else { panic!() };
    assert_eq!(receipt.output.inline().unwrap().as_str(), "\"worker\"");
}

#[test]
fn worker_input_is_complete() {
    let mut bench = Bench::new();
    let receipt = bench.receipt_of("cat");
    let input = receipt.output.inline().unwrap().value();
    assert_eq!(input["schema"], 1);
    assert_eq!(input["run"], "test");
    assert_eq!(input["plan"]["title"], "a plan");
    assert_eq!(input["step"]["id"], "build");
    assert_eq!(input["number"], 3);
    assert_eq!(input["attempt"], 2);
    assert_eq!(input["token"], format!("7-{}", "9f".repeat(16)));
    assert_eq!(input["inputs"]["rows"], 3);
    assert_eq!(input["idempotency_key"], "key-7");
    assert_eq!(input["last_failure"], "it broke");
    let failed = serde_json::json!([{"criterion": 1, "by": "ann", "evidence": "no tests"}]);
    assert_eq!(input["failed_criteria"], failed);
    let variables = "echo $LEDGER_RUN $LEDGER_STEP $LEDGER_STEP_NUMBER $LEDGER_ATTEMPT \
                     $LEDGER_TOKEN $LEDGER_IDEMPOTENCY_KEY";
    assert_eq!(
        bench.receipt_of(variables).output.inline().unwrap().as_str(),
        format!("\"test build 3 2 7-{} key-7\"", "9f".repeat(16))
    );
}

#[test]
fn exit_statuses_and_signals_map_to_failure_classes() {
    let mut bench = Bench::new();
    let mut of = |command: &str| {
        let receipt = bench.receipt_of(command);
        let (class, message) = failure(&receipt);
        (class, message.to_owned())
    };
    let (class, message) = of("echo one >&2; echo 'the reason' >&2; exit 3");
    assert_eq!((class, message.as_str()), (FailureClass::Unknown, "exit status 3: the reason"));
    assert_eq!(of("exit 75"), (FailureClass::Transient, "exit status 75".to_owned()));
    assert_eq!(of("kill -9 $$"), (FailureClass::Transient, "killed by signal 9".to_owned()));
    assert_eq!(of("/no/such/program").0, FailureClass::Deterministic);
    assert_eq!(of("echo \0").0, FailureClass::Deterministic);
}

#[test]
fn output_over_the_limit_is_cut_and_kept() {
    let mut bench = Bench::new();
    let receipt = bench.receipt_of("head -c 9000000 /dev/zero | tr '\\0' x");
    assert_eq!(receipt.outcome, Outcome::Succeeded);
    let output = receipt.output.inline().unwrap().value();
    assert_eq!(output.as_str().map(str::len), Some(64 << 10));
    let kept = std::fs::metadata(&receipt.artifacts[0].path).unwrap();
    assert_eq!(kept.len(), 9_000_000);
    assert!(receipt.log_tail.contains("runner: its output has 9000000 bytes"), "{receipt:?}");
    // Standard error may have any length; only its end is kept.
    let receipt = bench.receipt_of("head -c 9000000 /dev/zero >&2; echo end >&2; echo fine");
    assert_eq!(receipt.output.inline().unwrap().as_str(), "\"fine\"");
    assert_eq!(receipt.log_tail.len(), 4096);
    assert!(receipt.log_tail.ends_with("end\n"));
}

#[test]
fn receipt_file_takes_precedence_and_garbage_fails() {
    let mut bench = Bench::new();
    let command = r#"echo '{"outcome":"succeeded","output":{"a":1},"cost":{"tokens":5}}' \
        > "$LEDGER_RECEIPT"; echo ignored; exit 1"#;
    let receipt = bench.receipt_of(command);
    assert_eq!(receipt.outcome, Outcome::Succeeded);
    assert_eq!(receipt.output.inline().unwrap().as_str(), r#"{"a":1}"#);
    assert_eq!(receipt.cost.tokens, 5);
    // An agent may write it correctly the next time; its output is kept.
    let receipt = bench.receipt_of("echo rubbish > \"$LEDGER_RECEIPT\"; echo said");
    let (class, message) = failure(&receipt);
    assert_eq!(class, FailureClass::Transient);
    assert!(message.contains("LEDGER_RECEIPT"), "{message}");
    assert_eq!(receipt.output.inline().unwrap().as_str(), "\"said\"");
    // A partial receipt of a killed worker is ignored: the failure is the signal.
    let receipt = bench.receipt_of("printf '{\"outc' > \"$LEDGER_RECEIPT\"; kill -9 $$");
    assert_eq!(failure(&receipt).0, FailureClass::Transient);
}

#[test]
fn receipt_of_an_earlier_attempt_is_ignored() {
    let mut bench = Bench::new();
    bench.receipt_of(r#"echo '{"outcome":"succeeded"}' > "$LEDGER_RECEIPT""#);
    assert_eq!(failure(&bench.receipt_of("exit 4")).1, "exit status 4");
}

#[test]
fn timed_out_worker_is_ended_with_its_children() {
    let mut bench = Bench::new();
    let started = Instant::now();
    let command = "sleep 600 & echo $! > \"$LEDGER_DIR/child\"; wait";
    bench.start(7, Step { timeout_seconds: Some(3), ..step(command) });
    let Report::Finished(_, receipt) = bench.next() else { panic!() };
    assert_eq!(failure(&receipt), (FailureClass::Transient, "timed out after 3 s"));
    assert!(receipt.duration >= 3_000_000);
    assert!(started.elapsed() < PATIENCE);
    let child = std::fs::read_to_string(bench.folder.path().join("child")).unwrap();
    let stat = format!("/proc/{}/stat", child.trim());
    let gone = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
    while !gone() {
        assert!(started.elapsed() < PATIENCE, "the child of an ended worker lives on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn grandchild_with_open_output_does_not_hang_the_runner() {
    let mut bench = Bench::new();
    let started = Instant::now();
    let receipt = bench.receipt_of("sleep 30 & echo $! > \"$LEDGER_DIR/child\"; echo done");
    assert_eq!(receipt.output.inline().unwrap().as_str(), "\"done\"");
    assert!(started.elapsed() < Duration::from_secs(10));
}

/// A worker may exit and leave processes in its group or outside, with its output open or closed.
/// They are ended, and the receipt names them.
#[test]
fn orphans_of_a_worker_are_ended_and_named() {
    // Each process creates its file before its worker exits, and is a single process by then.
    let there = "sh -c ': > $LEDGER_DIR/up; exec sleep 600'";
    let left = [
        format!("{there} &"),
        format!("setsid {there} &"),
        format!("(setsid {there} </dev/null >/dev/null 2>&1 &)"),
        format!("env -i LEDGER_DIR=$LEDGER_DIR {there} &"),
    ];
    let until_up = "while ! test -e $LEDGER_DIR/up; do sleep 0.01; done";
    for command in left {
        let mut bench = Bench::new();
        let receipt = bench.receipt_of(&format!("{command}\n{until_up}; echo done"));
        assert_eq!(receipt.output.inline().unwrap().as_str(), "\"done\"");
        let note = "runner: left 1 process running, which was killed: s";
        assert!(receipt.log_tail.contains(note), "{command}: {receipt:?}");
        let note = bench.workers.notes().pop().unwrap();
        assert_eq!(note.token, Some(AttemptToken(7)));
        let work = scratch_folder(bench.folder.path(), RunId(1));
        let alive = orphans::end(|other| other.path.starts_with(&work), None);
        assert!(alive.is_empty(), "{command}: {alive:?}");
    }
    // A process that clears the variable and leaves the group may keep running.
    let mut bench = Bench::new();
    let command =
        format!("env -u LEDGER_WORK setsid {there} >/dev/null 2>&1 & echo $!; {until_up}");
    let receipt = bench.receipt_of(&command);
    let pid = receipt.output.inline().unwrap().value().to_string();
    assert_eq!(receipt.log_tail, "");
    assert!(std::process::Command::new("kill").arg(pid).status().unwrap().success());
}

/// Regression: a worker's daemon that had closed its standard error outlived the runner unnoticed,
/// because the next runner looked only for processes with the lock.
#[test]
fn daemon_of_a_dead_runner_is_found_without_its_lock() {
    let bench = Bench::new();
    let Bench { folder, mut workers } = bench;
    let command = "(setsid sh -c ': > $LEDGER_DIR/up; exec sleep 600' \
                   </dev/null >/dev/null 2>&1 &); kill -9 $$";
    workers.start(&task(7, step(command))).unwrap();
    let patience = Instant::now() + PATIENCE;
    while !folder.path().join("up").exists() {
        assert!(Instant::now() < patience);
        std::thread::sleep(Duration::from_millis(5));
    }
    std::mem::forget(workers);
    let mut next = self::workers(folder.path());
    next.confirm_dead().unwrap();
    let notes = next.notes();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert_eq!(notes[0].token, Some(AttemptToken(7)));
    assert!(notes[0].text.starts_with("left 1 process running"), "{notes:?}");
    next.forget_left().unwrap();
    next.confirm_dead().unwrap();
    assert!(next.notes().is_empty());
}

#[test]
fn many_at_once_all_report() {
    let mut bench = Bench::new();
    for token in 1..=20 {
        bench.start(token, step("echo $LEDGER_TOKEN"));
    }
    let mut tokens = Vec::new();
    for _ in 0..20 {
        let Report::Finished(token, receipt) = bench.next() else { panic!() };
        let text = receipt.output.inline().unwrap().as_str().to_owned();
        assert!(text.contains(&format!("{token}-9f9f")), "{text}");
        bench.workers.settled(token);
        tokens.push(token.0);
    }
    tokens.sort_unstable();
    assert_eq!(tokens, (1..=20).collect::<Vec<u64>>());
    assert!(bench.workers.next(Duration::ZERO).is_none());
    assert_eq!(bench.files(), 0);
}

#[test]
fn stop_all_ends_and_reports_every_worker() {
    let mut bench = Bench::new();
    bench.start(1, step("sleep 600"));
    bench.workers.check(&check("sleep 600", Some(5))).unwrap();
    bench.workers.stop_all();
    let mut reports = [bench.next(), bench.next()];
    reports.sort_by_key(|report| matches!(report, Report::Checked(_)));
    assert_eq!(reports[0], Report::Stopped(AttemptToken(1)));
    assert!(matches!(&reports[1], Report::Checked(Checked { ruling: None, .. })));
}

/// Goal: once the fence is closed, no worker starts, and those that are ended have no result; one that had ended by
/// itself keeps it.
#[test]
fn closed_fence_stops_workers() {
    let mut bench = Bench::new();
    let fence = Fence::default();
    bench.workers = workers(bench.folder.path()).shared(fence.clone());
    bench.start(7, step("echo done"));
    let until = Instant::now() + PATIENCE;
    while bench.workers.scratch.is_at_work("7") {
        assert!(Instant::now() < until, "it did not end");
        std::thread::sleep(Duration::from_millis(10));
    }
    bench.start(8, step("exec sleep 600"));
    fence.close();
    orphans::end(|job| job.path.starts_with(bench.folder.path()), None);
    let mut reports = vec![bench.next(), bench.next()];
    reports.sort_by_key(|report| matches!(report, Report::Stopped(_)));
    match reports.as_slice() {
        [Report::Finished(AttemptToken(7), receipt), Report::Stopped(AttemptToken(8))] => {
            assert_eq!(receipt.outcome, Outcome::Succeeded);
        }
        other => panic!("{other:?}"),
    }
    let refused = bench.workers.start(&task(9, step("echo 9"))).unwrap_err();
    assert!(
        matches!(refused, StartFailure::BeforeStart(error) if error.kind() == ErrorKind::Fenced)
    );
}

/// Goal: where machines share a ledger, an attempt without files here may be at work elsewhere, and one with files is not.
#[test]
fn attempt_without_files_may_be_elsewhere() {
    let mut bench = Bench::new();
    bench.start(7, step("exec sleep 600"));
    // Its runner is killed.
    std::mem::forget(std::mem::replace(&mut bench.workers, workers(bench.folder.path())));
    for (is_shared, expected) in [(true, [false, true]), (false, [false, false])] {
        let next = workers(bench.folder.path());
        let mut next = if is_shared { next.shared(Fence::default()) } else { next };
        next.confirm_dead().unwrap();
        let found = [7, 8].map(|token| next.may_be_elsewhere(AttemptToken(token)));
        assert_eq!(found, expected);
        std::mem::forget(next);
    }
}

fn check(command: &str, timeout_seconds: Option<u32>) -> Check {
    Check {
        subject: Subject::Attempt(AttemptToken(7)),
        criterion: 0,
        command: command.to_owned(),
        answer: CheckAnswer::Status,
        environment: vec![("LEDGER_STEP".to_owned(), "build".to_owned())],
        output: Json::from(serde_json::json!({ "rows": 3 })),
        timeout_seconds,
    }
}

#[test]
fn checks_judge_by_exit_status_and_receive_the_output() {
    let mut bench = Bench::new();
    let mut judged = |command: &str, timeout_seconds| {
        bench.workers.check(&check(command, timeout_seconds)).unwrap();
        match bench.next() {
            Report::Checked(Checked { ruling, evidence, .. }) => (ruling.unwrap(), evidence),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        judged("cat; echo \" $LEDGER_STEP\" >&2", None),
        (Ruling::Pass, "exit status 0\n{\"rows\":3} build".to_owned())
    );
    assert_eq!(judged("exit 2", None), (Ruling::Fail, "exit status 2".to_owned()));
    assert_eq!(judged("sleep 600", Some(1)), (Ruling::Fail, "timed out after 1 s".to_owned()));
    assert_eq!(bench.files(), 0);
}

#[test]
fn orphan_of_a_dead_runner_is_ended() {
    let bench = Bench::new();
    let Bench { folder, mut workers } = bench;
    let command = "trap '' TERM; touch \"$LEDGER_DIR/up\"; (setsid sleep 600 &) ; sleep 600";
    workers.start(&task(7, step(command))).unwrap();
    let patience = Instant::now() + PATIENCE;
    while !folder.path().join("up").exists() {
        assert!(Instant::now() < patience);
        std::thread::sleep(Duration::from_millis(5));
    }
    // A killed runner releases nothing and ends no process.
    std::mem::forget(workers);
    let mut next = self::workers(folder.path());
    next.confirm_dead().unwrap();
    assert_eq!(next.left_attempts(), [AttemptToken(7)]);
    assert_eq!(next.left_receipt(AttemptToken(7), Idempotence::No, &[]), None);
    next.forget_left().unwrap();
    assert_eq!(std::fs::read_dir(scratch_folder(folder.path(), RunId(1))).unwrap().count(), 0);
}

#[test]
fn missing_room_for_files_is_a_machine_error() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("work"), "in the way").unwrap();
    let error = workers(folder.path()).start(&task(7, step("true"))).unwrap_err().into_error();
    assert_eq!(error.kind(), ErrorKind::Io);
}

/// Regression: while the runner hashed an artifact of many gigabytes, it recorded no receipts,
/// enforced no time limits and renewed no leases.
#[test]
fn large_artifact_does_not_delay_other_reports() {
    let mut bench = Bench::new();
    let large = bench.folder.path().join("large");
    let file = std::fs::File::create(&large).unwrap();
    file.set_len(4 << 30).unwrap();
    let receipt = format!(r#"{{"outcome":"succeeded","artifacts":[{{"path":{large:?}}}]}}"#);
    bench.start(7, step(&format!("echo '{receipt}' > $LEDGER_RECEIPT")));
    // The receipt of the first worker is being processed when the second worker starts.
    assert_eq!(bench.workers.next(Duration::from_millis(500)), None);
    bench.start(8, step("true"));
    assert!(matches!(bench.next(), Report::Finished(AttemptToken(8), _)));
    // Cut the artifact short, so that its hash is finished soon.
    file.set_len(0).unwrap();
    let Report::Finished(AttemptToken(7), receipt) = bench.next() else { panic!("the other one") };
    assert_eq!(receipt.artifacts[0].hash.len(), 64);
}

/// Regression: a worker or a check that wrote without end filled the disk until its time limit, if
/// it had one. It is now ended at the output limit with a clear message; output up to the limit is
/// accepted.
#[test]
fn endless_output_is_ended_at_the_limit() {
    const LIMIT: usize = 100_000;
    let mut bench = Bench::new();
    bench.workers.stream_length_max = u64::try_from(LIMIT).unwrap();
    for endless in ["yes", "yes >&2", "yes & wait", "head -c 100001 /dev/zero; sleep 600"] {
        let receipt = bench.receipt_of(endless);
        let (class, message) = failure(&receipt);
        assert_eq!(class, FailureClass::Deterministic, "{endless}");
        assert!(message.starts_with("wrote more than 100000 bytes to its standard"), "{message}");
        assert_eq!(receipt.disposition, None);
    }
    let receipt = bench.receipt_of("head -c 100000 /dev/zero; sleep 0.3");
    assert_eq!(receipt.outcome, Outcome::Succeeded);
    let once = Step { idempotent: Some(Idempotence::No), ..step("yes") };
    bench.start(7, once);
    let Report::Finished(_, receipt) = bench.next() else { panic!() };
    assert_eq!(receipt.disposition, Some(Disposition::Unknown));
    bench.workers.check(&check("yes", None)).unwrap();
    let Report::Checked(checked) = bench.next() else { panic!() };
    assert_eq!(checked.ruling, Some(Ruling::Fail));
    assert!(checked.evidence.starts_with("wrote more than"), "{checked:?}");
}
