//! A night without a person: runners that are killed, workers that hang, fail or hit a limit, and what
//! a person is told. Real processes and real signals; the limits are short.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use plan_ledger::{Run, StepStatus};

use super::command::{Place, ids, start, wait_until};

fn run_of(place: &Place) -> Run {
    place.state().run_named("plan").unwrap().clone()
}

/// The files of the run's attempts with this extension.
fn work_files(place: &Place, extension: &str) -> usize {
    let Ok(entries) = fs::read_dir(place.path(".ledger/work/run-1")) else { return 0 };
    entries
        .filter(|it| it.as_ref().unwrap().path().extension().is_some_and(|it| it == extension))
        .count()
}

// Finished work is never thrown away.

/// The runner is killed while its worker pays. The worker ends well, and the next runner records that:
/// a person is not asked, and nothing is paid twice.
#[test]
fn result_of_a_worker_outlives_its_runner() {
    let place = Place::new();
    place.write("hold", "");
    place.write(
        "plan.yaml",
        "steps:
  - id: pay
    idempotent: no
    outputs: [paid]
    command: 'echo pay >> $TALLY; while [ -e hold ]; do sleep 0.01; done; echo said >&2; echo 12'
  - {id: ship, after: [pay], command: 'echo ship >> $TALLY'}
",
    );
    let runner = start(&mut place.command(&["run", "plan.yaml"]));
    wait_until("the worker is at work", || place.tally() == ["pay"]);
    assert!(runner.kill().was_killed());
    fs::remove_file(place.path("hold")).unwrap();
    wait_until("the worker has ended", || work_files(&place, "exit") == 1);
    let ended = place.ledger("run plan.yaml").code(0);
    ended.complains(&["its worker had ended", "step 1 (pay): accepted"]);
    assert_eq!(place.tally(), ["pay", "ship"]);
    assert_eq!(run_of(&place).variables["paid"].value.to_string(), "12");
    assert_eq!(work_files(&place, "exit"), 0);
}

/// A worker that fails after its runner was killed has failed, and is not asked about.
#[test]
fn failure_after_the_end_of_the_runner_is_recorded() {
    let place = Place::new();
    place.write("hold", "");
    let command = "echo x >> $TALLY; while [ -e hold ]; do sleep 0.01; done; exit 3";
    place.write(
        "plan.yaml",
        format!(
            "steps: [{{id: a, idempotent: no, retry: {{max_attempts: 1}}, command: '{command}'}}]"
        ),
    );
    let runner = start(&mut place.command(&["run", "plan.yaml"]));
    wait_until("the worker is at work", || place.tally() == ["x"]);
    runner.kill();
    fs::remove_file(place.path("hold")).unwrap();
    wait_until("the worker has ended", || work_files(&place, "exit") == 1);
    place.ledger("run plan.yaml").code(1).says(&["failed: step 1 (a): unknown: exit status 3"]);
    assert_eq!(place.tally(), ["x"]);
}

/// A receipt that is complete counts, even if the worker that wrote it still runs.
#[test]
fn complete_receipt_of_a_killed_worker_is_recorded() {
    let place = Place::new();
    let receipt = r#"{"outcome":"succeeded","output":{"done":true}}"#;
    let command =
        "echo x >> $TALLY; echo \"$RECEIPT\" > $LEDGER_RECEIPT; echo y >> $TALLY; sleep 600";
    place.write("plan.yaml", format!("steps: [{{id: a, idempotent: no, command: '{command}'}}]"));
    let runner = start(place.command(&["run", "plan.yaml"]).env("RECEIPT", receipt));
    wait_until("the receipt is written", || place.tally() == ["x", "y"]);
    runner.kill();
    place.ledger("run plan.yaml").code(0).says(&["1 of 1 steps accepted"]);
    assert_eq!(place.tally(), ["x", "y"]);
}

/// Story: a person changed the goal of the step before, and the next run sent the mail again, unasked.
#[test]
fn accepted_step_that_must_not_be_done_twice_is_asked_about() {
    let place = Place::new();
    let write = |goal: &str| {
        let prepare = format!("{{id: prepare, goal: {goal}, command: 'true'}}");
        let send = "{id: send, after: [prepare], idempotent: no, command: 'echo sent >> $TALLY'}";
        // A run that is done takes no other plan.
        let last =
            "{id: last, after: [send], command: 'true', acceptance: [a person looked at it]}";
        place.write("plan.yaml", format!("steps:\n  - {prepare}\n  - {send}\n  - {last}\n"));
    };
    write("one");
    place.ledger("run plan.yaml").code(3);
    assert_eq!(place.tally(), ["sent"]);
    write("two");
    place.ledger("run plan.yaml --replan").code(3).says(&["send"]);
    assert_eq!(place.tally(), ["sent"]);
}

/// The runner is killed while a worker works, and the next one takes the worker over: it is neither killed nor
/// paid twice, other steps go on beside it, and `status` names it.
#[test]
fn living_worker_of_a_dead_runner_is_taken_over() {
    let place = Place::new();
    let work = "echo long >> $TALLY; while [ ! -e go ]; do sleep 0.05; done; echo 7";
    place.write(
        "plan.yaml",
        format!("steps: [{{id: long, outputs: [n], command: '{work}'}}, {{id: next, after: [long]}}, {{id: beside}}]"),
    );
    let line = ["run", "plan.yaml", "--worker", "echo $LEDGER_STEP >> $TALLY"];
    let runner = start(&mut place.command(&line));
    wait_until("both workers have begun", || {
        let mut begun = place.tally();
        begun.sort();
        begun == ["beside", "long"]
    });
    runner.kill();
    let status = place.ledger("status").says(&["still at work: #1 long", "no time limit"]);
    assert!(status.out.contains("process "), "{}", status.out);
    let resumed = start(&mut place.command(&["resume"]));
    wait_until("the worker is taken over", || {
        resumed.complained("without a time limit: taken over")
    });
    place.write("go", "");
    resumed.end().code(0);
    let (state, mut tally) = (run_of(&place), place.tally());
    tally.sort();
    assert_eq!(tally, ["beside", "long", "next"]);
    assert_eq!(state.variables["n"].value.to_string(), "7");
    assert_eq!(state.account.attempts, 3);
}

/// Other commands than a runner open the ledger after the lease: a result that a worker left is recorded first,
/// and a worker that is still at work keeps its step.
#[test]
fn command_after_the_lease_keeps_what_a_dead_runner_left() {
    let check = |command: &str| {
        let place = Place::new();
        let work = |end: &str| format!("echo $LEDGER_STEP$LEDGER_ATTEMPT >> $TALLY; {end}");
        let wait = work("while [ ! -e go ]; do sleep 0.05; done");
        place.write(
            "plan.yaml",
            format!(
                "defaults: {{lease_seconds: 1}}\nsteps:\n  - {{id: ended, idempotent: no, outputs: [n], \
                 command: '{}'}}\n  - {{id: long, idempotent: no, command: '{wait}'}}\n",
                work("while [ ! -e end ]; do sleep 0.01; done; echo 7")
            ),
        );
        let runner = start(&mut place.command(&["run", "plan.yaml"]));
        wait_until("both workers have begun", || place.tally().len() == 2);
        runner.kill();
        place.write("end", "");
        wait_until("one has ended", || work_files(&place, "exit") == 1);
        std::thread::sleep(std::time::Duration::from_millis(1_200));
        place.ledger(command);
        let run = run_of(&place);
        assert_eq!(ids(&run, StepStatus::Accepted), ["ended"], "{command}");
        assert_eq!(run.variables["n"].value.to_string(), "7");
        assert_eq!(ids(&run, StepStatus::Dispatched), ["long"], "{command}");
        place.write("go", "");
        place.ledger("run plan.yaml").code(0).says(&["2 of 2 steps accepted"]);
        let mut tally = place.tally();
        tally.sort();
        assert_eq!(tally, ["ended1", "long1"], "{command}");
    };
    // Each of them waits for the end of the lease.
    std::thread::scope(|scope| {
        for command in
            ["tick", "claim plan --worker other", "work plan --max 1 -- true", "note hello"]
        {
            scope.spawn(move || check(command));
        }
    });
}

/// A fork begins open steps again. Before those that must not be done twice it is paused, and names them.
#[test]
fn fork_waits_before_what_must_not_be_done_twice() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "steps: [{id: pay, idempotent: no, command: 'echo pay >> $TALLY; kill -9 $$'},
         {id: rest, after: [pay], command: 'echo rest >> $TALLY'}]",
    );
    place.ledger("run plan.yaml").code(3);
    let last = place.state().seq;
    let forked = place.ledger(&format!("fork plan --name again --at {last}")).code(0);
    forked.complains(&["not to be done twice: pay", "run again is paused: skip what was done"]);
    let line =
        place.ledger(&format!("fork plan --name third --at {last} --json")).lines().remove(0);
    assert_eq!(line["begun_before"], serde_json::json!(["pay"]));
    let again = "run plan.yaml --run again";
    place
        .ledger(again)
        .code(3)
        .says(&["begun in run plan and not to be done twice: pay", "ledger unpause"]);
    assert_eq!(place.tally(), ["pay"]);
    place.ledger("skip again pay --reason done").code(0);
    place.ledger("unpause again").code(0);
    place.ledger(again).code(0).says(&["run again: done"]);
    assert_eq!(place.tally(), ["pay", "rest"]);
    // Without such a step a fork is not paused.
    place.write("safe.yaml", "steps: [{id: a, command: 'false'}]");
    place.ledger("run safe.yaml").code(3);
    let last = place.state().seq;
    place.ledger(&format!("fork safe --name safe2 --at {last}")).code(0).says(&["it is open"]);
}

/// With `--kill-orphans` the worker that a dead runner left is killed, and its step is dispatched again.
#[test]
fn living_worker_is_killed_on_request() {
    let place = Place::new();
    let work = "echo $LEDGER_ATTEMPT >> $TALLY; test $LEDGER_ATTEMPT = 2 || sleep 600";
    place.write("plan.yaml", format!("steps: [{{id: a, command: '{work}'}}]"));
    let runner = start(&mut place.command(&["run", "plan.yaml"]));
    wait_until("the worker has begun", || place.tally() == ["1"]);
    runner.kill();
    place.ledger("run plan.yaml --kill-orphans").code(0).complains(&["killed: "]);
    assert_eq!(place.tally(), ["1", "2"]);
}

/// The number of the only attempt in flight.
fn first_token(place: &Place) -> u64 {
    place.state().in_flight.keys().next().unwrap().0
}

/// If the supervisor is killed with its runner, the worker is still at work, and nothing takes it over.
#[test]
fn worker_without_its_supervisor_is_named() {
    let place = Place::new();
    let work = "echo $LEDGER_ATTEMPT >> $TALLY; test $LEDGER_ATTEMPT = 2 || sleep 600";
    place.write("plan.yaml", format!("steps: [{{id: a, command: '{work}'}}]"));
    let runner = start(&mut place.command(&["run", "plan.yaml"]));
    wait_until("the worker has begun", || place.tally() == ["1"]);
    let id = || place.read(&format!(".ledger/work/run-1/{}.pid", first_token(&place)));
    wait_until("the runner has noted the process", || id().contains(' '));
    runner.kill();
    place.ledger("status").code(0).says(&["still at work: #1 a, by process/1"]);
    let supervisor = id().split(' ').next().unwrap().to_owned();
    let killed = Command::new("kill").args(["-9", &supervisor]).status().unwrap();
    assert!(killed.success());
    wait_until("its supervisor is gone", || {
        let status = place.ledger("status").code(0).out;
        status.contains("without its supervisor") && status.contains("the next runner kills it")
    });
    place.ledger("run plan.yaml").code(0).complains(&["killed: "]);
    assert_eq!(place.tally(), ["1", "2"]);
}

/// The time limit of a worker holds without its runner, and the next runner records why it ended.
#[test]
fn time_limit_holds_without_the_runner() {
    let place = Place::new();
    let work = "echo x >> $TALLY; (sleep 600; touch late) & sleep 600";
    place.write(
        "plan.yaml",
        format!(
            "steps: [{{id: a, timeout_seconds: 1, retry: {{max_attempts: 1}}, command: '{work}'}}]"
        ),
    );
    let runner = start(&mut place.command(&["run", "plan.yaml"]));
    wait_until("the worker has begun", || place.tally() == ["x"]);
    runner.kill();
    wait_until("the supervisor has ended it", || {
        let work = place.path(".ledger/work/run-1");
        let names = std::fs::read_dir(work).unwrap().map(|it| it.unwrap().file_name());
        names.into_iter().any(|name| name.to_string_lossy().ends_with(".exit"))
    });
    place.ledger("status").says(&["in flight when it stopped"]);
    place.ledger("run plan.yaml").complains(&["timed out after 1 s"]);
    assert_eq!(place.tally(), ["x"]);
}

/// A worker that was taken over is limited and stopped like any other.
#[test]
fn adopted_worker_is_stopped_with_its_runner() {
    let place = Place::new();
    let work = "echo $LEDGER_ATTEMPT >> $TALLY; test $LEDGER_ATTEMPT = 3 || sleep 600";
    let retry = "retry: {max_attempts: 5}";
    place.write("plan.yaml", format!("steps: [{{id: a, {retry}, command: '{work}'}}]"));
    let runner = start(&mut place.command(&["run", "plan.yaml"]));
    wait_until("the worker has begun", || place.tally() == ["1"]);
    runner.kill();
    let silent = start(&mut place.command(&["run", "plan.yaml", "--output-timeout", "1"]));
    wait_until("the second attempt has begun", || place.tally() == ["1", "2"]);
    assert!(silent.complained("no output for 1 s"));
    silent.kill();
    let stopped = start(&mut place.command(&["run", "plan.yaml"]));
    wait_until("it is taken over", || stopped.complained("taken over"));
    stopped.signal("TERM");
    stopped.end();
    place.ledger("run plan.yaml").code(0);
    assert_eq!(place.tally(), ["1", "2", "3"]);
}

/// The runner is killed while its worker pays, and the next one starts while it still does: it takes the worker over
/// even if it is to kill workers, and does not kill what it could only ask a person about.
#[test]
fn worker_of_a_step_that_must_not_be_done_twice_is_waited_for() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "steps: [{id: pay, idempotent: no, outputs: [paid], command: 'echo pay >> $TALLY; while [ ! -e go ]; do sleep 0.02; done; echo 12'}]",
    );
    let runner = start(&mut place.command(&["run", "plan.yaml"]));
    wait_until("the worker is at work", || place.tally() == ["pay"]);
    runner.kill();
    let next = start(&mut place.command(&["run", "plan.yaml", "--kill-orphans"]));
    wait_until("it is taken over", || next.complained("must not be done twice: taken over"));
    place.write("go", "");
    next.end().code(0).complains(&["accepted"]);
    assert_eq!(place.tally(), ["pay"]);
    assert_eq!(run_of(&place).variables["paid"].value.to_string(), "12");
}

/// A worker that must not be killed keeps no other step from being done again.
#[test]
fn other_workers_are_killed_and_replaced_beside_one_that_is_kept() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "steps:
  - {id: pay, idempotent: no, command: 'echo pay >> $TALLY; while [ ! -e paid ]; do sleep 0.05; done'}
  - {id: slow, command: 'echo slow $LEDGER_ATTEMPT >> $TALLY; test $LEDGER_ATTEMPT = 2 || sleep 600'}
  - {id: next, after: [slow], command: 'echo next >> $TALLY'}",
    );
    let runner = start(&mut place.command(&["run", "plan.yaml", "--max-parallel", "2"]));
    wait_until("both workers are at work", || place.tally().len() == 2);
    runner.kill();
    let args = ["run", "plan.yaml", "--max-parallel", "2", "--kill-orphans"];
    let next = start(&mut place.command(&args));
    wait_until("the other steps are done", || place.tally().contains(&"next".to_owned()));
    place.write("paid", "");
    next.end().code(0).complains(&["must not be done twice: taken over", "killed: "]);
    let mut done = place.tally();
    done.sort();
    assert_eq!(done, ["next", "pay", "slow 1", "slow 2"]);
}

/// A runner leaves the workers of another run of the same ledger alone.
#[test]
fn worker_of_another_run_goes_on() {
    let place = Place::new();
    place.write(
        "long.yaml",
        "steps: [{id: a, command: 'echo long >> $TALLY; while [ ! -e over ]; do sleep 0.05; done'}]",
    );
    place.write("short.yaml", "steps: [{id: a, command: 'echo short >> $TALLY'}]");
    let runner = start(&mut place.command(&["run", "long.yaml"]));
    wait_until("the worker has begun", || place.tally() == ["long"]);
    runner.kill();
    place.ledger("run short.yaml --kill-orphans").code(0);
    place.write("over", "");
    place.ledger("run long.yaml").code(0);
    assert_eq!(place.tally(), ["long", "short"]);
}

/// A worker that was killed with its runner has no result: the outcome is unknown.
#[test]
fn worker_that_was_killed_with_its_runner_has_no_result() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "steps: [{id: a, idempotent: no, timeout_seconds: 2, command: 'echo x >> $TALLY; echo half; sleep 600'}]",
    );
    let runner = start(&mut place.command(&["run", "plan.yaml"]));
    wait_until("the worker is at work", || place.tally() == ["x"]);
    runner.kill();
    place.ledger("run plan.yaml").code(3).says(&["the outcome of step 1 (a) is unknown"]);
    assert_eq!(ids(&run_of(&place), StepStatus::OutcomeUnknown), ["a"]);
    assert_eq!(place.tally(), ["x"]);
}

#[test]
fn long_output_is_cut_and_kept() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "steps: [{id: a, changes: [src], outputs: [text], command: 'head -c 9000000 /dev/zero | tr \"\\0\" x'}]",
    );
    let ended = place.ledger("run plan.yaml").code(0);
    let ended = ended.says(&["1 of 1 steps accepted", "has 9000000 bytes"]);
    let text = run_of(&place).variables["text"].value.value();
    assert_eq!(text.as_str().unwrap(), "x".repeat(64 << 10));
    let kept: Vec<_> =
        fs::read_dir(place.path(".ledger/work/run-1/outputs")).unwrap().flatten().collect();
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].metadata().unwrap().len(), 9_000_000);
    let shown = place.ledger("inspect .ledger step plan a --full").code(0);
    let path = kept[0].path().display().to_string();
    shown.says(&[&path, "runner: its output has 9000000 bytes"]);
    assert!(!ended.out.contains("outside"), "{}", ended.out);
}

/// A worker that ends its supervisor fails its own step, and neither its runner nor another step.
#[test]
fn worker_that_kills_its_parent_fails_only_its_step() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "steps:
  - {id: poison, command: 'echo x >> $TALLY; kill -9 $PPID; sleep 600', retry: {max_attempts: 2}}
  - {id: rest, command: 'echo rest >> $TALLY'}
",
    );
    let ended = place.ledger("run plan.yaml --max-parallel 1").code(1);
    ended
        .says(&["failed: step 1 (poison): transient: killed by signal 9", "1 of 2 steps accepted"]);
    assert_eq!(place.tally(), ["x", "x", "rest"]);
}

// Waiting instead of failing.

/// A worker says when to try again, by a line or in its receipt; the plan's backoff is shorter.
#[test]
fn worker_says_when_to_try_again() {
    let runs = [
        "echo 'retry-after: 2' >&2; exit 75".to_owned(),
        r#"echo '{"outcome":"failed","class":"transient","message":"limit","retry_after_seconds":2}' > $LEDGER_RECEIPT"#
            .to_owned(),
    ]
    .map(|say| {
        let place = Place::new();
        place.write("say.sh", format!("echo x >> $TALLY; if [ $LEDGER_ATTEMPT = 1 ]; then {say}; fi"));
        place.write("plan.yaml", "steps: [{id: a, command: sh say.sh, retry: {max_attempts: 2}}]");
        (say, Instant::now(), start(&mut place.command(&["run", "plan.yaml"])), place)
    });
    for (say, started, run, place) in runs {
        run.end().code(0).complains(&["waiting until", "step 1 (a) is retried then"]);
        assert!(started.elapsed() >= Duration::from_secs(2), "{say}");
        assert_eq!(place.tally(), ["x", "x"]);
    }
}

/// While a limit lasts, no other step of the same worker is tried.
#[test]
fn limit_of_a_worker_holds_its_other_steps() {
    let place = Place::new();
    // The limit ends before the time that the first attempt names, on any machine.
    place.write(
        "agent.sh",
        "echo $LEDGER_STEP $LEDGER_ATTEMPT >> $TALLY
        now=$(date +%s%N)
        [ -e end ] || echo $((now + 1500000000)) > end
        [ $now -ge $(cat end) ] || { echo 'retry-after: 2' >&2; exit 75; }",
    );
    place.write("plan.yaml", "steps: [{id: a}, {id: b}, {id: c}]");
    let words = ["run", "plan.yaml", "--worker", "sh agent.sh", "--max-parallel", "1"];
    place.ledger_with(&words).code(0);
    let mut tally = place.tally();
    assert_eq!(tally.remove(0), "a 1");
    tally.sort();
    assert_eq!(tally, ["a 2", "b 1", "c 1"]);
}

/// A usage limit that the worker does not explain used up every attempt of every step within a second.
#[test]
fn workers_that_fail_at_once_pause_the_run() {
    let place = Place::new();
    let steps: Vec<String> = (0..40).map(|n| format!("{{id: s{n}}}")).collect();
    place.write(
        "plan.yaml",
        format!("defaults: {{retry: {{max_attempts: 9}}}}\nsteps: [{}]", steps.join(", ")),
    );
    let worker = "echo $LEDGER_STEP >> $TALLY; echo not logged in >&2; exit 1";
    let words = [
        "run",
        "plan.yaml",
        "--worker",
        worker,
        "--on-unknown",
        "retry",
        "--limit-waits",
        "1s,1s,1s",
        "--notify",
        "echo \"$LEDGER_EVENT: $LEDGER_MESSAGE\" >> notified",
    ];
    let reason = "paused by its runner: the next worker failed within 5 s, too: exit status 1: not logged in";
    place.ledger_with(&words).code(3).says(&["run plan: waiting", reason, "ledger unpause plan"]);
    assert!((6..=10).contains(&place.tally().len()), "{:?}", place.tally());
    let notified = place.read("notified");
    let events: Vec<&str> =
        notified.lines().filter_map(|line| line.split_once(": steps")).map(|it| it.0).collect();
    assert_eq!(events, ["held"], "{notified}");
    assert!(notified.contains("3 workers in a row failed within 5 s"), "{notified}");
    assert_eq!(ids(&run_of(&place), StepStatus::Failed), Vec::<String>::new());
    place.ledger("status").code(0).says(&[reason]);
    place.ledger("inspect .ledger why plan s39").code(0).says(&["not logged in"]);
    let before = place.tally();
    place.ledger_with(&words).code(3);
    assert_eq!(place.tally(), before, "a paused run dispatches nothing");
    place.ledger("unpause").code(0);
    place.ledger_with(&["run", "plan.yaml", "--worker", "true"]).code(0);
}

/// One step that fails again and again is its own problem.
#[test]
fn single_step_that_fails_at_once_pauses_nothing() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a, retry: {max_attempts: 5}}, {id: b, after: [a]}]");
    place.ledger_with(&["run", "plan.yaml", "--worker", "exit 1"]).code(1);
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a}, {id: b}, {id: c}]");
    let words = [
        "run",
        "plan.yaml",
        "--worker",
        "exit 1",
        "--max-quick-failures",
        "0",
        "--on-unknown",
        "retry",
    ];
    place.ledger_with(&words).code(1).says(&["3 failed"]);
}

#[test]
fn misspelt_worker_is_an_error_before_the_first_dispatch() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a}]");
    place.write("agent.sh", "true");
    for (worker, problem) in [
        ("no-such-agent --fast", "no-such-agent: there is no such program"),
        ("./none.sh", "./none.sh: there is no such file"),
        ("./agent.sh", "./agent.sh: it is not executable"),
    ] {
        let ended = place.ledger_with(&["run", "plan.yaml", "--worker", worker]).code(2);
        ended.complains(&["the worker cannot be started", problem]);
        assert!(!place.path(".ledger").exists());
    }
    let place = Place::planned("steps: [{id: a}]");
    place.ledger("work -- no-such-agent").code(2).complains(&["no-such-agent: there is no such"]);
    assert_eq!(run_of(&place).account.attempts, 0);
}

/// Story: a disk that was full for a minute paused the run, and nothing happened until the morning.
#[test]
fn nearly_full_disk_delays_the_run() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a, command: 'echo x >> $TALLY'}]");
    let words = ["run", "plan.yaml", "--min-free", "1000000000"];
    let run = start(&mut place.command(&words));
    let reason = "no step starts until there is room: the disk of ";
    wait_until("it waits for room", || run.complained(reason));
    let held = ["the runner waits until 2", ", 1 ready step: the disk of ", " MB (--min-free)"];
    wait_until("others are told", || place.ledger("status").out.contains(held[0]));
    place.ledger("status").code(0).says(&held);
    run.signal("TERM");
    let ended = run.end().code(3);
    assert_eq!(ended.err.matches(reason).count(), 1, "{}", ended.err);
    assert!(!ended.err.contains("waiting until"), "{}", ended.err);
    assert_eq!(place.tally(), Vec::<String>::new());
    place.ledger("run plan.yaml --min-free 0").code(0);
}

// Limits and signals.

#[test]
fn silent_worker_is_ended() {
    let place = Place::new();
    let spin = "for n in 1 2 3 4 5 6 7; do echo $n; sleep 0.2; done";
    place.write(
        "plan.yaml",
        format!(
            "defaults: {{retry: {{max_attempts: 1}}}}
steps: [{{id: silent, command: sleep 600}}, {{id: speaks, command: '{spin}'}}]"
        ),
    );
    let ended = place.ledger("run plan.yaml --output-timeout 1").code(1);
    ended
        .says(&["step 1 (silent): transient: stopped: no output for 1 s", "1 of 2 steps accepted"]);
}

#[test]
fn worker_without_progress_is_ended() {
    let place = Place::new();
    let spin = "for n in 1 2 3 4 5 6 7 8 9; do echo $n; sleep 0.2; done";
    let works = "for n in 1 2 3 4 5 6 7 8 9; do echo $n > b; sleep 0.2; done";
    place.write(
        "plan.yaml",
        format!(
            "defaults: {{retry: {{max_attempts: 1}}}}
steps:
  - {{id: spins, changes: [a], command: '{spin}; sleep 600'}}
  - {{id: works, changes: [b], command: '{works}'}}
"
        ),
    );
    let ended = place.ledger("run plan.yaml --progress-timeout 1").code(1);
    ended.says(&[
        "step 1 (spins): transient: stopped: no progress for 1 s",
        "1 of 2 steps accepted",
    ]);
}

/// A worker is told that it must stop, and has time to end.
#[test]
fn workers_are_told_to_stop() {
    let place = Place::new();
    let command = "trap \"echo told >> $TALLY; exit 0\" TERM; echo up >> $TALLY
      while :; do sleep 0.02; done";
    place.write("plan.yaml", format!("steps:\n  - id: a\n    command: |\n      {command}\n"));
    let runner = start(&mut place.command(&["run", "plan.yaml"]));
    wait_until("the worker is up", || place.tally() == ["up"]);
    runner.signal("TERM");
    // The worker says that it is done.
    runner.end().code(0);
    assert_eq!(place.tally(), ["up", "told"]);
}

/// A worker that does not end when it is told to is killed after the grace period.
#[test]
fn worker_that_ignores_a_stop_is_killed() {
    let place = Place::new();
    let command = "trap \"echo told >> $TALLY\" TERM; echo up >> $TALLY
      while :; do sleep 0.02; done";
    place.write("plan.yaml", format!("steps:\n  - id: a\n    command: |\n      {command}\n"));
    let runner = start(&mut place.command(&["run", "plan.yaml", "--grace", "0.5"]));
    wait_until("the worker is up", || place.tally() == ["up"]);
    let told = Instant::now();
    runner.signal("TERM");
    runner.end().code(3).says(&["run plan: interrupted"]);
    assert!(told.elapsed() >= Duration::from_millis(500));
    assert_eq!(place.tally(), ["up", "told"]);
}

/// A worker has a session of its own, so it has no terminal to ask on; its input ends after the task.
#[test]
fn worker_has_no_terminal() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "steps: [{id: a, command: 'wc -l; cut -d\" \" -f6,7 /proc/self/stat >> $TALLY'}]",
    );
    place.ledger("run plan.yaml").code(0);
    let own = fs::read_to_string("/proc/self/stat").unwrap();
    let own = own.rsplit_once(')').unwrap().1.split_whitespace().nth(3).unwrap().to_owned();
    let tally = place.tally();
    let (session, terminal) = tally[0].split_once(' ').unwrap();
    assert_ne!(session, own);
    assert_eq!(terminal, "0");
}

// Telling a person.

#[test]
fn person_is_told_about_the_budget_and_the_end() {
    let place = Place::new();
    let steps: Vec<String> = (0..5).map(|n| format!("{{id: s{n}, command: 'true'}}")).collect();
    place.write("plan.yaml", format!("budget: {{attempts: 5}}\nsteps: [{}]", steps.join(", ")));
    let notify =
        "echo \"$LEDGER_EVENT $LEDGER_RUN\" >> notified; echo \"$LEDGER_MESSAGE\" > message";
    let words = ["run", "plan.yaml", "--max-parallel", "1", "--notify", notify];
    place.ledger_with(&words).code(0).complains(&["80 % of the run's attempt budget is used"]);
    assert_eq!(place.read("notified"), "budget plan\ndone plan\n");

    place.write("ask.yaml", "steps: [{id: a, command: 'true', acceptance: [It is good]}]");
    let words = ["run", "ask.yaml", "--text", "judge", "--notify", notify];
    place.ledger_with(&words).code(3);
    assert!(place.read("notified").ends_with("waiting ask\n"), "{}", place.read("notified"));
    assert!(place.read("message").contains("It is good"), "{}", place.read("message"));
}

/// A step that takes its runner down with it each time is not dispatched for ever.
#[test]
fn step_that_is_always_lost_becomes_a_dead_letter() {
    let place = Place::planned(
        "steps: [{id: poison, command: 'echo x >> $TALLY'}, {id: rest, command: 'true'}]",
    );
    for _ in 0..10 {
        let task = place.ledger("claim --worker me --step poison --json").code(0).lines().remove(0);
        place.ledger(&format!("release {} --begun", task["token"].as_str().unwrap())).code(0);
    }
    let ended = place.ledger("run plan.yaml").code(1);
    ended.says(&[
        "failed: step 1 (poison): deterministic: its last 10 attempts were lost",
        "1 of 2",
    ]);
    place.ledger("status").code(0).says(&["its last 10 attempts were lost"]);
    assert_eq!(place.tally(), Vec::<String>::new());
    place.ledger("retry plan poison").code(0);
    place.ledger("work -- true").code(0);
    assert_eq!(place.tally(), ["x"]);
}

// Claims of processes that are gone.

/// The lease of a killed worker lasts for an hour. The next worker gets the step at once, and what the
/// first one left running is ended.
#[test]
fn claim_of_a_killed_worker_is_released_at_once() {
    let place = Place::planned("steps: [{id: a, lease_seconds: 3600}]");
    let command = "echo $LEDGER_WORKER $$ >> $TALLY; [ $LEDGER_WORKER = w2 ] || sleep 600";
    let work = |name| place.command(&["work", "--worker", name, "--", "sh", "-c", command]);
    let first = start(&mut work("w1"));
    wait_until("the first one is at work", || place.tally().len() == 1);
    first.kill();
    let ended = start(&mut work("w2")).end().code(0);
    ended.complains(&["is released: the process that claimed it, ", " is gone; it left "]);
    let tally = place.tally();
    assert!(tally.len() == 2 && tally[1].starts_with("w2 "), "{tally:?}");
    let pid = tally[0].split_once(' ').unwrap().1;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "{stat}");
}

/// The result of a worker whose `ledger work` was killed is recorded by the next one, or by a runner.
#[test]
fn result_of_a_killed_worker_process_is_recorded() {
    for next in ["work --worker w2 -- true", "run plan.yaml"] {
        let place = Place::planned(
            "steps: [{id: a, idempotent: no, lease_seconds: 3600, command: \
             'echo x >> $TALLY; while [ -e hold ]; do sleep 0.01; done; echo over >> $TALLY'}]",
        );
        place.write("hold", "");
        let first = start(&mut place.command(&["work", "--worker", "w1", "--", "true"]));
        wait_until("the first one is at work", || place.tally() == ["x"]);
        first.kill();
        fs::remove_file(place.path("hold")).unwrap();
        wait_until("its command has ended", || place.tally() == ["x", "over"]);
        // Its supervisor writes the record after that.
        std::thread::sleep(Duration::from_millis(300));
        place.ledger(next).code(0);
        assert_eq!(place.tally(), ["x", "over"], "{next}");
        assert_eq!(ids(&run_of(&place), StepStatus::Accepted), ["a"], "{next}");
    }
}

#[test]
fn claim_with_a_process_is_free_when_the_process_is_gone() {
    let place = Place::planned("steps: [{id: a, lease_seconds: 3600}]");
    let mut sleeper = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
    place.ledger(&format!("claim --worker w1 --pid {}", sleeper.id())).code(0);
    place.ledger("claim --worker w2").code(3).complains(&["is claimed by w1"]);
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    place.ledger("claim --worker w2").code(0);
    place.ledger("inspect step a").code(0).says(&["the process that claimed it, ", ", is gone"]);
}

#[test]
fn waiting_claim_names_the_worker() {
    let place = Place::planned("steps: [{id: a, lease_seconds: 3600}]");
    place.ledger("claim --worker w1").code(0);
    let ended = place.ledger("claim --worker w2 --wait 0.3").code(3);
    ended.complains(&["waiting: step 1 (a) is claimed by w1 until ", "to take over a step"]);
}

/// Story: a runner looked for claims of processes that are gone only when it started: it waited for the
/// lease of a worker that was killed later, for an hour.
/// Goal: a runner at work takes such a step over within seconds, while its own worker is at work and while
/// it waits for a delay; and one that waits for people without the lock.
#[test]
fn runner_takes_over_claims_of_workers_that_are_killed_later() {
    let plan = "defaults: {lease_seconds: 3600}
steps:
  - {id: a, command: 'echo a >> $TALLY; test -e b-over || sleep 600'}
  - {id: b, command: 'echo b >> $TALLY; until test -e go; do sleep 0.05; done'}
  - {id: ask, gate: {question: 'May it go on?'}, command: 'true'}";
    for wait in [&[][..], &["--wait"]] {
        let place = Place::planned(plan);
        let words = ["work", "--worker", "w1", "--max", "1", "--", "true"];
        let worker = start(&mut place.command(&words));
        wait_until("the worker is at work", || place.tally() == ["a"]);
        let words: Vec<&str> = ["run", "plan.yaml"].iter().chain(wait).copied().collect();
        let runner = start(&mut place.command(&words));
        wait_until("the runner is at work", || place.tally() == ["a", "b"]);
        if !wait.is_empty() {
            place.write("go", "");
            wait_until("the runner waits", || ids(&run_of(&place), StepStatus::Accepted) == ["b"]);
        }
        place.write("b-over", "");
        worker.kill();
        wait_until("the step is taken over", || place.tally() == ["a", "b", "a"]);
        place.write("go", "");
        if wait.is_empty() {
            let ended = runner.end().code(3);
            ended.says(&["attempt ", " is released: the process that claimed it, "]);
        } else {
            wait_until("both are accepted", || {
                ids(&run_of(&place), StepStatus::Accepted) == ["a", "b"]
            });
            runner.kill();
        }
    }
}

/// Goal: `status`, `next` and `inspect` name the claim of a process that is gone, and the command that takes
/// it over.
#[test]
fn status_names_claims_of_processes_that_are_gone() {
    let place = Place::planned("steps: [{id: a, lease_seconds: 3600}, {id: b}]");
    let mut sleeper = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
    place.ledger(&format!("claim --worker w1 --pid {}", sleeper.id())).code(0);
    place.ledger("status").code(0).says(&["working on: #1 a, by w1"]);
    let claimed = place.ledger("status --json").code(0).lines().remove(0);
    assert_eq!(claimed["dead_claims"], serde_json::json!([]));
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    let gone = format!("process {}", sleeper.id());
    let status = place.ledger("status").code(0).says(&[
        "its worker is gone: #1 a, by w1, begun ",
        &format!("s ago, {gone}"),
        "#1 a is claimed by w1 since ",
        &format!(", and {gone} is gone: the next `ledger run`, `work` or `claim` takes it over"),
        "ledger claim ",
    ]);
    assert!(!status.out.contains("working on"), "{status:?}");
    place.ledger("inspect").code(0).says(&[&format!("{gone} is gone")]);
    let line = place.ledger("status --json").code(0).lines().remove(0);
    let dead = &line["dead_claims"][0];
    assert_eq!((&dead["step"], &dead["worker"]), (&1.into(), &"w1".into()), "{line}");
    assert_eq!(dead["process"], sleeper.id());
    let next = place.ledger("next --json").code(0).lines().remove(0);
    let claim = "ledger claim plan";
    assert_eq!((&next["action"], &next["command"]), (&"take_over".into(), &claim.into()));
    place.ledger("work --worker w2 -- true").code(0);
    let line = place.ledger("status --json").code(0).lines().remove(0);
    assert_eq!(line["dead_claims"], serde_json::json!([]));
}

// The guards of `ledger work` are those of the runner.

#[test]
fn workers_that_fail_at_once_pause_the_run_of_ledger_work() {
    let steps: Vec<String> =
        (0..12).map(|n| format!("{{id: s{n}, retry: {{max_attempts: 1}}}}")).collect();
    let place = Place::planned(&format!("steps: [{}]", steps.join(", ")));
    let command = "echo $LEDGER_STEP >> $TALLY; echo not logged in >&2; exit 1";
    let work = |more: &[&str]| {
        let words: Vec<&str> =
            ["work"].iter().chain(more).chain(&["--", "sh", "-c", command]).copied().collect();
        start(&mut place.command(&words)).end()
    };
    let reason = "3 workers in a row failed within 5 s, the last with: exit status 1: not logged \
                  in";
    work(&[]).code(3).complains(&["run plan is paused: ", reason]);
    assert_eq!(place.tally(), ["s0", "s1", "s2"]);
    let paused = format!("paused by its runner: {reason}");
    place.ledger("status").code(0).says(&[&paused, "ledger unpause"]);
    work(&[]).code(3);
    assert_eq!(place.tally().len(), 3, "a paused run dispatches nothing");
    place.ledger("unpause").code(0);
    work(&["plan", "--max-quick-failures", "0", "--max", "4"]).code(0);
    assert_eq!(place.tally().len(), 7);
}

#[test]
fn nearly_full_disk_delays_ledger_work() {
    for run in [&[][..], &["plan"]] {
        let place = Place::planned("steps: [{id: a, command: 'echo x >> $TALLY'}]");
        let words: Vec<&str> = ["work"]
            .iter()
            .chain(run)
            .chain(&["--min-free", "1000000000", "--", "true"])
            .copied()
            .collect();
        let ended = start(&mut place.command(&words)).end().code(3);
        ended.complains(&["nothing is claimed: the disk of ", " MB left, less than 1000000000 MB"]);
        assert!(!place.ledger("status").code(0).out.contains("paused"), "{words:?}");
        assert_eq!(place.tally(), Vec::<String>::new());
        place.ledger("work --min-free 0 -- true").code(0);
        assert_eq!(place.tally(), ["x"]);
    }
}

/// A worker that says when to try again is not started for another step before, and steps with a command
/// of their own wait, too, as in a runner.
#[test]
fn limit_of_a_worker_holds_its_claims() {
    let place = Place::planned("steps: [{id: a}, {id: b}]");
    let command = "date +%s%N >> $TALLY
        [ -e limited ] || { touch limited; echo 'retry-after: 2' >&2; exit 75; }";
    let work = |more: &[&str]| {
        let words: Vec<&str> =
            ["work"].iter().chain(more).chain(&["--", "sh", "-c", command]).copied().collect();
        start(&mut place.command(&words)).end()
    };
    work(&[])
        .code(3)
        .complains(&["nothing is claimed before ", "a worker asked to try again at that time"]);
    assert_eq!(place.tally().len(), 1);
    std::fs::remove_file(place.path("limited")).unwrap();
    // Another process does not know it; it learns from its own command.
    work(&["--wait"]).code(0);
    let times: Vec<u64> = place.tally().iter().map(|it| it.parse().unwrap()).collect();
    assert!(times.len() >= 4, "{times:?}");
    assert!(times[2] - times[1] >= 1_900_000_000, "{times:?}");
}
