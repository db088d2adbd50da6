//! `ledger run` as a user sees it: what a run does, prints and returns.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use plan_ledger::{Ending, Run, RunStatus, StepStatus};

use super::command::{Place, ids, json_lines, start, wait_until};

/// A shell command that counts its start outside the ledger.
const COUNTED: &str = r#"echo "+ $LEDGER_STEP $LEDGER_ATTEMPT" >> "$TALLY"; "#;

/// Three steps in a row that count their executions.
fn chain() -> String {
    let step = |id: &str, after: &str| {
        format!("  - id: {id}\n    after: [{after}]\n    command: echo $LEDGER_STEP >> $TALLY\n")
    };
    format!("title: chain\nsteps:\n{}{}{}", step("a", ""), step("b", "a"), step("c", "b"))
}

/// Running a finished run again dispatches nothing and costs nothing.
#[test]
fn finished_run_dispatches_nothing() {
    let place = Place::new();
    place.write("plan.yaml", chain());
    place.ledger("run plan.yaml").code(0).says(&["run plan: done", "3 of 3 steps accepted"]);
    let seq = place.state().seq;
    place.ledger("run plan.yaml").code(0).complains(&["run plan is done"]);
    let ended = place.ledger("run plan.yaml --json").code(0);
    assert_eq!(ended.lines().last().unwrap()["ending"], "done");
    assert_eq!(place.tally(), ["a", "b", "c"]);
    assert_eq!(place.state().seq, seq, "a run that is over grows no more");
}

/// A changed plan file is shown as a difference and used only with `--replan`. Unchanged work is not
/// done again.
#[test]
fn changed_plan_needs_replan() {
    let place = Place::new();
    let first = chain() + "test_criteria: [{text: all is well}]\n";
    place.write("plan.yaml", &first);
    place.ledger("run plan.yaml").code(3).says(&["all is well"]);
    let better = first.replace("after: [b]", "after: [b]\n    goal: better");
    let added = "  - {id: d, command: 'echo d >> $TALLY'}\ntest_criteria";
    place.write("plan.yaml", better.replace("test_criteria", added));
    let before = place.state().seq;
    let choices = ["--replan", "--run NEW"];
    let refused = place.ledger("run plan.yaml").code(6).complains(&choices);
    refused.complains(&["1 step changed: c (goal)", "1 step added: d"]);
    assert_eq!(place.state().seq, before, "a refusal records nothing");

    place.ledger("run plan.yaml --replan --reason because").code(3).says(&["4 of 4 steps"]);
    // The changed step and the new one do not wait for each other.
    let mut tally = place.tally();
    tally.sort_unstable();
    assert_eq!(tally, ["a", "b", "c", "c", "d"], "only what changed and what is new");
    let state = place.state();
    let run = state.run_named("plan").unwrap();
    assert_eq!((run.active, run.versions[1].reason.as_str()), (2, "because"));
    place.ledger("run plan.yaml --replan").code(3);
    assert_eq!(place.state().runs[&run.id].active, 2, "the same plan is no new version");

    place.ledger("accept plan plan --by ana").code(0);
    place.ledger("run plan.yaml --replan").code(0).complains(&["is done"]);
    place.write("plan.yaml", chain());
    for line in ["run plan.yaml", "run plan.yaml --replan"] {
        let refused = place.ledger(line).code(6).complains(&["--run NEW", "1 step removed: d"]);
        assert!(!refused.err.contains("--replan"), "advice that cannot be taken");
    }
    place.ledger("run plan.yaml --run other").code(0).says(&["run other: done", "3 of 3"]);
    assert_eq!(place.tally().len(), 8);
    assert_eq!(place.state().runs.len(), 2);
}

/// Steps that the file marks as done are counted and not done again, except with `--fresh`.
#[test]
fn done_marks_are_taken_over_unless_fresh() {
    let place = Place::new();
    place.write(
        "tasks.json",
        r#"{"tasks": [
            {"id": 1, "title": "one", "status": "done", "dependencies": []},
            {"id": 2, "title": "two", "status": "done", "dependencies": [1]},
            {"id": 3, "title": "three", "status": "pending", "dependencies": [2]},
            {"id": 4, "title": "four", "status": "cancelled", "dependencies": []}]}"#,
    );
    let worker = ["run", "tasks.json", "--worker", "echo $LEDGER_STEP >> $TALLY"];
    let ended = place.ledger_with(&worker).code(0);
    ended.says(&["3 of 4 steps accepted, 1 skipped; 2 were already done in the plan file"]);
    assert_eq!(place.tally(), ["3"]);
    let fresh = [&worker[..], &["--run", "fresh", "--fresh"]].concat();
    place.ledger_with(&fresh).code(0).says(&["4 of 4 steps accepted\n"]);
    let mut executed = place.tally()[1..].to_vec();
    executed.sort();
    assert_eq!(executed, ["1", "2", "3", "4"]);
}

/// A failing step uses all its attempts and its failure is reported; other steps continue, and
/// `--retry-failed` continues the run once the cause is gone.
#[test]
fn failures_are_retried_and_reported() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "steps:
  - {id: bad, command: 'echo $LEDGER_ATTEMPT >> $TALLY; echo the reason >&2; test -e repaired'}
  - {id: next, after: [bad], command: 'true'}
  - {id: apart, command: 'true'}
",
    );
    let ended = place.ledger("run plan.yaml --on-unknown retry").code(1);
    ended.says(&[
        "1 of 3 steps accepted, 1 failed",
        "step 1 (bad)",
        "the reason",
        "--retry-failed",
    ]);
    assert_eq!(place.tally(), ["1", "2", "3"]);
    place.ledger("run plan.yaml").code(1).complains(&["has failed", "--retry-failed"]);
    assert_eq!(place.tally().len(), 3, "a failed run dispatches nothing by itself");
    place.ledger("run plan.yaml --retry-failed").code(1).says(&["1 failed"]);
    place.write("repaired", "");
    place.ledger("run plan.yaml --retry-failed").code(0).says(&["3 of 3 steps accepted"]);
    assert_eq!(place.tally().last().unwrap(), "7");
    place.ledger("run plan.yaml --retry-failed").code(0).complains(&["is done"]);
}

/// Text criteria wait for a person, and the summary has the command to run. A worker cannot judge its
/// own work.
#[test]
fn text_criteria_wait_for_a_person() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "steps:
  - {id: draft, command: echo text, acceptance: [{text: it reads well}]}
  - {id: print, after: [draft], command: 'echo printed >> $TALLY'}
test_criteria: [{text: the reader is happy}]
",
    );
    let waits = ["step 1 (draft) waits for a verdict on: it reads well"];
    let typed = ["ledger accept plan draft"];
    place.ledger("run plan.yaml").code(3).says(&waits).says(&typed);
    place.ledger("run plan.yaml").code(3).says(&waits);
    let json = place.ledger("run plan.yaml --json").code(3).lines();
    assert_eq!(json.last().unwrap()["waiting_for"][0]["step"], "draft");
    place.ledger("accept plan draft --by process/1").code(6);
    place.ledger("accept plan unknown --by ana").code(2).complains(&["unknown"]);
    place.ledger("accept other draft --by ana").code(2).complains(&["other", "plan"]);
    place.ledger("reject plan draft --by ana").code(0);
    place.ledger("run plan.yaml").code(3).says(&waits).says(&["2 attempts in total"]);
    place.ledger("accept plan draft --by ana").code(0).says(&["accepted"]);
    place.ledger("accept plan draft --by ana").code(6).complains(&["nothing to judge"]);
    let plan = place.ledger("run plan.yaml").code(3);
    plan.says(&["the plan waits", "the reader is happy", "ledger accept plan plan"]);
    place.ledger("accept plan plan --by ana").code(0).says(&["run plan is done"]);
    place.ledger("run plan.yaml").code(0).complains(&["is done"]);
    assert_eq!(place.tally(), ["printed"]);
}

/// A non-idempotent step whose attempt was lost is dispatched again only after a person answers; both
/// answers continue the run.
#[test]
fn unknown_outcome_waits_for_an_answer() {
    for (answer, executions) in [("landed", 1), ("did-not-happen", 2)] {
        let place = Place::new();
        place.write(
            "plan.yaml",
            "steps:
  - id: mail
    idempotent: 'no'
    timeout_seconds: 1
    command: 'echo x >> $TALLY; test $LEDGER_ATTEMPT = 2 || sleep 60'
  - {id: end, after: [mail], command: 'true'}
",
        );
        let running = start(&mut place.command(&["run", "plan.yaml"]));
        wait_until("the mail is being sent", || !place.tally().is_empty());
        assert!(running.kill().was_killed());
        let waits =
            ["the outcome of step 1 (mail) is unknown", "ledger answer plan mail did-not-happen"];
        place.ledger("run plan.yaml").code(3).says(&waits);
        place.ledger("run plan.yaml").code(3).says(&waits);
        assert_eq!(place.tally().len(), 1, "it is not dispatched again before the answer");
        let answers =
            ["`ledger answer plan mail landed`", "`ledger answer plan mail did-not-happen`"];
        for line in ["retry mail", "retry"] {
            place.ledger(line).code(6).complains(&answers);
        }
        place.ledger(&format!("answer plan mail {answer} --by ana")).code(0);
        let ready = if executions == 2 { "mail" } else { "end" };
        assert_eq!(ids(place.state().run_named("plan").unwrap(), StepStatus::Ready), [ready]);
        place.ledger(&format!("answer plan mail {answer} --by ana")).code(6);
        place.ledger("run plan.yaml").code(0).says(&["2 of 2 steps accepted"]);
        assert_eq!(place.tally().len(), executions, "{answer}");
    }
}

/// The tightest cap holds, measured outside the ledger.
#[test]
fn caps_are_never_exceeded() {
    let most = |place: &Place| {
        let tally = place.tally();
        let running = tally.iter().scan(0_i32, |running, line| {
            *running += if line.starts_with('+') { 1 } else { -1 };
            Some(*running)
        });
        (tally.len(), running.max().unwrap())
    };
    let steps: String = (0..16).map(|n| format!("  - {{id: s{n}, owner: o{}}}\n", n % 2)).collect();
    // No worker ends before the expected number runs at once, and each runs a while longer.
    let worker = |expected: i32| {
        let wait = format!("while test $(grep -c + $TALLY) -lt {expected}; do sleep 0.01; done");
        format!("{COUNTED} {wait}; sleep 0.06; echo \"-\" >> $TALLY")
    };
    let run = |place: &Place, expected| {
        let worker = worker(expected);
        place
            .ledger_with(&["run", "plan.yaml", "--max-parallel", "8", "--worker", &worker])
            .code(0);
    };
    for (caps, expected) in
        [("caps: {run: 2}", 2), ("caps: {owners: {o0: 1, o1: 2}}", 3), ("caps: {run: 50}", 8)]
    {
        let place = Place::new();
        place.write("plan.yaml", format!("{caps}\nsteps:\n{steps}"));
        run(&place, expected);
        assert_eq!(most(&place), (32, expected), "{caps}");
    }
    let place = Place::new();
    place.write("tiny.yaml", "steps: [{id: only, command: 'true'}]");
    place.ledger("run tiny.yaml").code(0);
    place.write("plan.yaml", format!("steps:\n{steps}"));
    place.ledger("cap --global 3").code(0).says(&["at most 3"]);
    run(&place, 3);
    assert_eq!(most(&place), (32, 3), "a cap that was set by a command");
}

/// The first Ctrl-C waits for running workers and loses nothing; the second one ends them.
#[test]
fn first_interrupt_drains_and_second_kills() {
    const WAIT: &str = "while ! test -e open; do sleep 0.01; done; echo done";
    let place = Place::new();
    let step = |n| format!("  - {{id: s{n}, command: '{COUNTED} {WAIT}'}}\n");
    place.write("plan.yaml", format!("steps:\n{}", (0..6).map(step).collect::<String>()));
    let run = ["run", "plan.yaml", "--max-parallel", "2"];

    let running = start(&mut place.command(&run));
    wait_until("two workers run", || place.tally().len() == 2);
    running.signal("INT");
    wait_until("it drains", || running.complained("stopping: no more"));
    place.write("open", "");
    let ended = running.end().code(3);
    let ended =
        ended.complains(&["stopping: no more steps are dispatched; 2 still running: Ctrl-C again"]);
    ended.says(&[
        "run plan: interrupted",
        "2 of 6 steps accepted",
        "repeat the command to continue",
    ]);
    assert_eq!(place.tally().len(), 2);
    assert!(place.state().in_flight.is_empty());

    std::fs::remove_file(place.path("open")).unwrap();
    let running = start(&mut place.command(&run));
    wait_until("two more workers run", || place.tally().len() == 4);
    running.signal("INT");
    // Two signals that arrive at once count as one.
    wait_until("it drains", || running.complained("stopping: no more"));
    running.signal("TERM");
    running.end().code(3).says(&["2 of 6 steps accepted", "2 lost"]);
    assert!(place.state().in_flight.is_empty());

    place.write("open", "");
    place.ledger_with(&run).code(0).says(&["6 of 6 steps accepted", "8 attempts in total"]);
    assert_eq!(place.tally().len(), 8);
}

/// No output and no end of a worker harms a run.
#[test]
fn misbehaving_workers_fail_only_their_step() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        r#"defaults: {retry: {max_attempts: 2}}
steps:
  - {id: binary, command: 'head -c 300000 /dev/urandom', outputs: [binary]}
  - {id: large, command: 'head -c 1048576 /dev/zero | tr "\\0" x'}
  - {id: nul, command: 'head -c 1000 /dev/zero; head -c 200000 /dev/urandom >&2'}
  - {id: not-utf8, command: 'printf "\\377\\376 {\"a\": "'}
  - {id: escapes, command: 'printf "\\033[31mred\\033[0m \\r\\n\\r"'}
  - {id: surrogate, command: 'printf "{\"a\": \"\\\\ud800\"}"'}
  - {id: number, command: 'echo 1e999'}
  - {id: deep, command: 'head -c 100000 /dev/zero | tr "\\0" "["'}
  - {id: closed, command: 'exec >&- 2>&-; true'}
  - {id: orphan, command: 'sleep 30 & echo left one behind'}
"#,
    );
    place.ledger("run plan.yaml --max-parallel 8").code(0).says(&["10 of 10 steps accepted"]);
    place.ledger("run plan.yaml").code(0);

    let place = Place::new();
    let bad = [
        ("killed", "kill -9 $$", "killed by signal 9"),
        ("missing", "no-such-program-xyz", "exit status 127"),
        ("garbage", "echo garbage > $LEDGER_RECEIPT", "LEDGER_RECEIPT is not a receipt"),
        ("bytes", "head -c 99 /dev/urandom > $LEDGER_RECEIPT", "LEDGER_RECEIPT is not a receipt"),
        ("word", r#"echo "{\"outcome\": \"fine\"}" > $LEDGER_RECEIPT"#, "unknown variant `fine`"),
        ("field", r#"echo "{\"outcome\": \"failed\", \"z\": 1}" > $LEDGER_RECEIPT"#, "`z`"),
        ("empty", ": > $LEDGER_RECEIPT", "LEDGER_RECEIPT is not a receipt"),
        ("folder", "mkdir $LEDGER_RECEIPT", "LEDGER_RECEIPT is not a receipt"),
        // Opening a pipe without a writer would block the runner and its time-outs.
        ("pipe", "mkfifo $LEDGER_RECEIPT", "not a regular file"),
        ("device", "ln -s /dev/zero $LEDGER_RECEIPT", "not a regular file"),
        ("slow", "sleep 50", "timed out after 1 s"),
    ];
    let steps: String = bad
        .iter()
        .map(|(id, command, _)| {
            let seconds = if *id == "slow" { 1 } else { 600 };
            format!("  - {{id: {id}, timeout_seconds: {seconds}, command: '{command}'}}\n")
        })
        .collect();
    place.write("plan.yaml", format!("defaults: {{retry: {{max_attempts: 1}}}}\nsteps:\n{steps}"));
    let ended = place.ledger("run plan.yaml --max-parallel 8 --json").code(1);
    let lines = ended.lines();
    let failures = lines.last().unwrap()["failures"].as_array().unwrap();
    assert_eq!(failures.len(), bad.len());
    for (failure, (id, _, words)) in failures.iter().zip(bad) {
        assert_eq!(failure["step"], id);
        assert!(failure["message"].as_str().unwrap().contains(words), "{failure}");
    }
}

/// A receipt file of a worker is recorded as it is.
#[test]
fn receipt_file_is_recorded() {
    let place = Place::new();
    place.write(
        "good.json",
        r#"{"outcome": "succeeded", "output": {"a": 1}, "variables": {"v": [1, 2]},
            "artifacts": [{"path": "x"}], "side_effects": ["mail"],
            "cost": {"money_micros": 1500000, "tokens": 12}}"#,
    );
    place.write("bad.json", r#"{"outcome": "failed", "class": "deterministic", "message": "no"}"#);
    place.write(
        "plan.yaml",
        "steps:
  - {id: good, command: 'cp good.json $LEDGER_RECEIPT; exit 9'}
  - {id: bad, command: 'cp bad.json $LEDGER_RECEIPT'}
",
    );
    let ended = place.ledger("run plan.yaml").code(1);
    ended.says(&[
        "1 of 2 steps accepted",
        "step 2 (bad): deterministic: no",
        "cost $1.50 and 12 tokens",
    ]);
    let state = place.state();
    let run = state.run_named("plan").unwrap();
    assert_eq!(run.variables["v"].value.as_str(), "[1,2]");
    let state_of_run = run.execution_state(0);
    assert_eq!(state_of_run.side_effects_committed.keys().collect::<Vec<_>>(), ["mail"]);
    assert_eq!(run.step_named("bad").and_then(|step| run.step(step)).unwrap().attempts, 1);
}

/// Outputs become inputs of later steps, and the hand-off matches its published format.
#[test]
fn outputs_become_inputs_of_the_next_step() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        r#"title: relay
goal: pass it on
steps:
  - {id: first, outputs: [x, y], command: 'echo "{\"x\": {\"deep\": [1, \"e\"]}, \"y\": 2}"'}
  - id: second
    after: [first]
    inputs: [x, y, unset]
    command: cat > hand-off.json; env > environment; test $LEDGER_ATTEMPT = 2 || exit 75
"#,
    );
    place.ledger("run plan.yaml").code(0).says(&["2 of 2 steps accepted", "1 to be retried"]);
    let text = place.read("hand-off.json");
    let hand_off: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(text.ends_with('\n'));
    assert_eq!(hand_off["schema"], 1);
    assert_eq!(hand_off["run"], "plan");
    assert_eq!(hand_off["plan"]["goal"], "pass it on");
    assert_eq!(hand_off["step"]["id"], "second");
    assert_eq!(hand_off["number"], 2);
    assert_eq!(hand_off["attempt"], 2);
    assert_eq!(hand_off["inputs"]["x"]["deep"][1], "e");
    assert_eq!(hand_off["inputs"]["y"], 2);
    assert!(hand_off["inputs"]["unset"].is_null());
    assert!(hand_off["last_failure"].as_str().unwrap().contains("exit status 75"), "{text}");
    let environment = place.read("environment");
    for line in ["LEDGER_RUN=plan", "LEDGER_STEP=second", "LEDGER_STEP_NUMBER=2"] {
        assert!(environment.lines().any(|each| each == line), "{line}\n{environment}");
    }
    let token = format!("LEDGER_TOKEN={}", hand_off["token"].as_str().unwrap());
    assert!(environment.lines().any(|each| each == token));
}

/// Whole numbers up to 64 bits keep all their digits in outputs and variables: 2^53 + 1 is not rounded.
#[test]
fn whole_numbers_keep_all_digits() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        r#"steps:
  - {id: first, outputs: [order, huge], command: 'echo "{\"order\": 1234567890123456789, \"huge\": 98765432109876543210}"'}
  - {id: second, after: [first], inputs: [order, huge, m], preconditions: ['order == 1234567890123456789'], command: cat > told}
  - {id: other, command: 'true', gate: {question: 'Go?'}}
"#,
    );
    place.ledger("init").code(0);
    place.ledger("plan propose plan.yaml").code(0);
    place.ledger("set m 9007199254740993").code(0);
    place.ledger("set m 98765432109876543210").code(2).complains(&["more than 64 bits"]);
    place.ledger("run plan.yaml").code(3);
    let inputs = r#""inputs":{"huge":"98765432109876543210","m":9007199254740993,"order":1234567890123456789}"#;
    assert!(place.read("told").contains(inputs), "{}", place.read("told"));
    place.ledger("get m").code(0).says(&["9007199254740993"]);
    let variables = place.ledger("inspect .ledger variables plan").code(0);
    variables.says(&["1234567890123456789"]);
    place.ledger("verify .ledger --level replay").code(0);
}

/// A second runner is rejected with the name of the lock holder and disturbs nothing, with one exit code
/// of `run` and `resume`; other commands are served by the first runner.
#[test]
fn second_runner_is_rejected_with_the_lock_holder() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "steps: [{id: long, command: 'echo x >> $TALLY; while ! test -e open; do sleep 0.01; done'}]",
    );
    let running = start(&mut place.command(&["run", "plan.yaml"]));
    wait_until("the first runner works", || !place.tally().is_empty());
    let holder = format!("process {}", running.id());
    for line in ["run plan.yaml", "run plan.yaml --run other"] {
        place.ledger(line).code(5).complains(&["locked by another process", &holder]);
    }
    let at_work = format!("a runner is at work: {holder}");
    place.ledger("resume").code(5).complains(&[&at_work, "ledger status"]);
    assert_eq!(place.ledger("resume --json").code(5).lines()[0]["kind"], "locked");
    place.ledger("status").code(0).says(&["working on: #1 long"]);
    assert_eq!(place.ledger("status --json").code(0).lines()[0]["runner_at_work"], true);
    // The first runner carries out other requests.
    place.ledger("accept plan long --by ana").code(6).complains(&["the step is dispatched"]);
    place.ledger("set colour blue").code(0);
    place.ledger("set plan colour -1 --if-version 1").code(0);
    place.ledger("get colour").code(0).says(&["-1"]);
    place.ledger("set none colour -1").code(2).complains(&["no run `none`"]);
    place.write("open", "");
    running.end().code(0);
    assert_eq!(place.tally().len(), 1);
}

/// Of several runners that start at once without a ledger, one creates it and runs; the others find it
/// locked, or the run done.
#[test]
fn concurrent_runners_create_one_ledger() {
    for _ in 0..5 {
        let place = Place::new();
        place.write("plan.yaml", "steps: [{id: one, command: 'echo x >> $TALLY; sleep 0.05'}]");
        let all: Vec<_> =
            (0..4).map(|_| start(&mut place.command(&["run", "plan.yaml"]))).collect();
        let ended: Vec<_> = all.into_iter().map(super::command::Running::end).collect();
        assert!(ended.iter().all(|it| matches!(it.status.code(), Some(0 | 5))), "{ended:#?}");
        assert!(ended.iter().any(|it| it.status.code() == Some(0)), "{ended:#?}");
        assert_eq!(place.tally().len(), 1);
        place.ledger("run plan.yaml").code(0).complains(&["is done"]);
    }
}

/// A reader that closes the output stops nothing, and output that is not a terminal is plain text.
#[test]
fn closed_output_does_not_stop_the_run() {
    for options in ["", "--json"] {
        let place = Place::new();
        place.write("plan.yaml", chain());
        let binary = env!("CARGO_BIN_EXE_ledger");
        let script = format!("{binary} run plan.yaml {options} | true; exit ${{PIPESTATUS[0]}}");
        let mut command = std::process::Command::new("bash");
        let folder = place.path("");
        command.args(["-c", &script]).current_dir(&folder).env("TALLY", place.path("tally"));
        let ended = start(&mut command).end().code(0);
        assert!(!ended.err.contains("panicked"), "{}", ended.err);
        assert_eq!(place.tally().len(), 3);
    }
    for (variable, options) in [("NO_COLOR", ""), ("CLICOLOR_FORCE", ""), ("NO_COLOR", "--quiet")] {
        let place = Place::new();
        place.write("plan.yaml", chain());
        let args: Vec<&str> =
            ["run", "plan.yaml", options].into_iter().filter(|it| !it.is_empty()).collect();
        let ended = start(place.command(&args).env(variable, "1")).end().code(0);
        assert!(!ended.out.contains('\u{1b}') && !ended.err.contains('\u{1b}'), "{ended:?}");
        assert!(!ended.err.contains('\r'), "{ended:?}");
        assert_eq!(ended.err.is_empty(), options == "--quiet");
    }
}

/// Every line of `--json` is JSON, and the summary agrees with the ledger.
#[test]
fn json_lines_are_json_and_end_with_the_summary() {
    let place = Place::new();
    place.write("plan.yaml", chain());
    let lines = place.ledger("run plan.yaml --json").code(0).lines();
    assert_eq!(lines.first().unwrap()["type"], "opened");
    let summary = lines.last().unwrap();
    assert_eq!(summary["type"], "summary");
    assert_eq!(summary["accepted"], 3);
    let state = place.state();
    assert_eq!(summary["seq"], state.seq);
    assert_eq!(summary["state_hash"], plan_ledger::state_hash(&state).to_string());
    let run = state.run_named("plan").unwrap();
    assert_eq!(run.status, RunStatus::Ended(Ending::Done));
    assert_eq!(ids(run, StepStatus::Accepted), ["a", "b", "c"]);
}

/// A terminal that closes drains the run, unless the run ignores SIGHUP.
#[test]
fn hang_up_drains_unless_ignored() {
    const WORK: &str = "echo x >> $TALLY; while ! test -e open; do sleep 0.01; done";
    // The process that runs this test may ignore SIGHUP and pass that on.
    let cases = [("exec env --default-signal=HUP", 3, 1), ("trap '' HUP; exec", 0, 2)];
    for (prefix, code, executed) in cases {
        let place = Place::new();
        let steps = format!("steps:\n  - {{id: a, command: '{WORK}'}}\n  - {{id: b, after: [a], ");
        place.write("plan.yaml", steps + "command: 'echo y >> $TALLY'}\n");
        let script = format!("{prefix} {} run plan.yaml", env!("CARGO_BIN_EXE_ledger"));
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &script]).current_dir(place.path("")).env("TALLY", place.path("tally"));
        let running = start(&mut shell);
        wait_until("a worker runs", || !place.tally().is_empty());
        running.signal("HUP");
        std::thread::sleep(Duration::from_millis(150));
        place.write("open", "");
        running.end().code(code);
        assert_eq!(place.tally().len(), executed);
        assert!(place.state().in_flight.is_empty());
        place.ledger("run plan.yaml").code(0);
    }
}

/// Control characters that a worker prints are escaped in messages.
#[test]
fn control_characters_of_workers_are_escaped() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        r#"steps:
  - id: red
    title: "bell \a"
    retry: {max_attempts: 1}
    command: 'printf "\033[31mred\033[0m \r\n" >&2; exit 1'
  - {id: judged, retry: {max_attempts: 1}, command: 'true', acceptance: [{command: 'printf "\033]0;x\a\nmore"; false'}]}
"#,
    );
    let ended = place.ledger("run plan.yaml").code(1);
    ended.complains(&["31mred"]).says(&["31mred", "criterion 1 (", "failed: step 2 (judged)"]);
    let ended = place.ledger("run plan.yaml --retry-failed").code(1);
    for text in [&ended.out, &ended.err] {
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
    }
    assert_eq!(ended.out.lines().filter(|line| line.contains("failed: ")).count(), 2);
    assert!(!ended.out.contains("\nmore"), "one line for one failure: {}", ended.out);
}

/// Standard output that is full is an error.
#[test]
fn full_output_is_an_error() {
    for options in ["", "--json"] {
        let place = Place::new();
        place.write("plan.yaml", chain());
        let binary = env!("CARGO_BIN_EXE_ledger");
        let script = format!("exec {binary} run plan.yaml {options} > /dev/full");
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &script]).current_dir(place.path("")).env("TALLY", place.path("tally"));
        start(&mut shell).end().code(7).complains(&["cannot write to standard output"]);
        assert_eq!(place.tally().len(), 3, "the work was done all the same");
        place.ledger("run plan.yaml").code(0).complains(&["is done"]);
    }
}

/// The commands that a summary suggests work for every step id.
#[test]
fn suggested_commands_work_for_every_step_id() {
    let place = Place::new();
    let ids = ["plan", "a b'c", "--help", "-", "37", "#2"];
    let step = |id: &&str| {
        format!("  - {{id: \"{id}\", command: 'true', acceptance: [{{text: good}}]}}\n")
    };
    let steps: String = ids.iter().map(step).collect();
    place.write("my plan.yaml", format!("steps:\n{steps}test_criteria: [{{text: all good}}]\n"));
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_ledger")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let run = ["run", "my plan.yaml", "--ledger", "a ledger"];
    for waiting in [ids.len(), 1] {
        let ended = place.ledger_with(&run).code(3);
        let typed: Vec<&str> =
            ended.out.lines().map(str::trim).filter(|it| it.starts_with("ledger accept")).collect();
        assert_eq!(typed.len(), waiting, "{}", ended.out);
        for line in typed {
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", line]).current_dir(place.path("")).env("PATH", &path);
            start(&mut shell).end().code(0);
        }
    }
    place.ledger_with(&run).code(0).complains(&["is done"]);
}

/// A program that does not read its lines must not stall time-outs, leases and dispatch; it gets all
/// lines later.
#[test]
fn slow_reader_does_not_stall_the_run() {
    // More than a pipe holds.
    let titled =
        |n: u32| format!("  - {{id: s{n}, title: '{}', command: 'true'}}\n", "t".repeat(4000));
    let quick: String = (0..40).map(titled).collect();
    let plan = format!(
        "caps: {{run: 1}}\nsteps:\n{quick}  - {{id: slow, command: sleep 600, timeout_seconds: 1, \
         retry: {{max_attempts: 1}}}}\n"
    );
    let place = Place::new();
    place.write("plan.yaml", plan);
    place.ledger("init").code(0);
    let mut command = place.command(&["run", "plan.yaml", "--json"]);
    let mut run = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the run is over", || {
        let is_over = |run: &Run| run.status == RunStatus::Ended(Ending::Failed);
        place.state().run_named("plan").is_some_and(is_over)
    });
    let mut lines = String::new();
    run.stdout.take().unwrap().read_to_string(&mut lines).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(1));
    let lines = json_lines(&["run".to_owned()], &lines);
    let of = |kind: &str| lines.iter().filter(|line| line["type"] == kind).count();
    assert_eq!((of("dispatched"), of("receipt"), of("summary")), (41, 41, 1));
    assert_eq!(lines.last().unwrap()["type"], "summary");
    assert_eq!(lines[lines.len() - 2]["message"], "timed out after 1 s");
}

/// The summary counts the attempts of all steps, also of those that a later plan version removed.
#[test]
fn summary_counts_attempts_of_removed_steps() {
    let place = Place::new();
    let once = "retry: {max_attempts: 1}";
    let first = format!(
        "steps:\n  - {{id: a, command: 'true'}}\n  - {{id: b, command: 'false', {once}}}\n"
    );
    place.write("plan.yaml", first);
    place.ledger("run plan.yaml").code(1);
    place.write("plan.yaml", "steps: [{id: c, command: 'true'}]");
    let ended = place.ledger("run plan.yaml --replan --json").code(0);
    let counted = place.state().run_named("plan").unwrap().account.attempts;
    assert_eq!(counted, 3);
    assert_eq!(ended.lines().last().unwrap()["attempts"], counted);
}

/// A file that exceeds `ulimit -f` is reported like a full disk instead of killing the runner with
/// SIGXFSZ; workers still get the signal.
#[test]
fn file_size_limit_is_an_error() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "steps: [{id: a, command: 'kill -s XFSZ $$', retry: {max_attempts: 1}}]",
    );
    place.ledger("run plan.yaml --ledger ample").code(1).complains(&["killed by signal 25"]);
    let program = env!("CARGO_BIN_EXE_ledger");
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -f 8; exec \"$0\" run plan.yaml"]).arg(program);
    let ended = start(shell.current_dir(place.path("")).stdin(Stdio::null()));
    ended.end().code(7).complains(&["File too large"]);
}

/// The workers that a runner left are ended by the command that cancels their run.
#[test]
fn cancel_ends_the_workers_of_a_runner_that_is_gone() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a, command: 'echo $$ > pid; sleep 600; touch late'}]");
    let running = start(&mut place.command(&["run", "plan.yaml"]));
    wait_until("the worker is at work", || !place.read("pid").is_empty());
    running.kill();
    let pid = place.read("pid").trim().to_owned();
    let lives = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
    };
    assert!(lives());
    place.ledger("cancel plan").code(0).complains(&["the last runner left", "killed: "]);
    wait_until("the worker is gone", || !lives());
}
