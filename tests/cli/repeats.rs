//! Workers that print the same lines over and over: that is noted, and they are ended only if the plan or the
//! command line says so. Real processes that print until they may end.

use plan_ledger::{FailureClass, StepStatus};
use serde_json::Value;

use super::command::{Place, start, wait_until};

/// A worker that prints two lines over and over, with another time each time, until it may end. Its output comes
/// first: a new line at the end, seen before the process is gone, would end the repetition.
const LOOP: &str = "echo '\"done\"'; n=10; while test ! -e go; do n=$((n % 50 + 10))
    echo \"2026-11-29 12:00:$n connecting\" >&2; echo 'no route to host' >&2; sleep 0.01; done";

/// What is said about it.
const NOTE: &str = "prints the same 2 lines ";

fn first_line(place: &Place, command: &str) -> Value {
    place.ledger(command).code(0).lines().remove(0)
}

/// The class and the message of the failures of step a, in order.
fn failures(place: &Place) -> Vec<(String, String)> {
    let lines = place.ledger("inspect step a --json").code(0).lines();
    let failed = lines.iter().filter(|line| line["type"] == "attempt");
    let outcomes = failed.map(|line| &line["receipt"]["outcome"]);
    let outcomes = outcomes.filter(|outcome| outcome["is"] == "failed");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    outcomes.map(|outcome| (text(&outcome["class"]), text(&outcome["message"]))).collect()
}

#[test]
fn repeated_lines_are_noted_and_end_nothing() {
    let place = Place::new();
    place.write("agent.sh", LOOP);
    place.write("plan.yaml", "steps: [{id: a}, {id: b, after: [a], command: 'true'}]");
    let runner = start(&mut place.command(&["run", "plan.yaml", "--worker", "sh agent.sh"]));
    wait_until("the status names it", || place.ledger("status").out.contains(NOTE));
    wait_until("the live lines name it", || runner.complained(NOTE));
    let text = ["warning: step 1 (a) prints the same 2 lines", "times in a row: no route to host"];
    place.ledger("status").code(0).says(&text);
    place.ledger("inspect why a").code(0).says(&text);
    // A step that waits for it names it, too.
    place.ledger("inspect why b").code(0).says(&text);
    place.ledger("inspect step a").code(0).says(&["prints the same 2 lines"]);
    for command in ["status --json", "inspect why a --json"] {
        let repeats = &first_line(&place, command)["repeats"];
        assert_eq!(repeats.as_array().unwrap().len(), 1, "{command}: {repeats}");
        let found = &repeats[0];
        assert_eq!((&found["step"], &found["lines"]), (&1.into(), &2.into()), "{command}");
        assert_eq!(found["line"], "no route to host", "{command}");
        assert!(found["times"].as_u64().unwrap() >= 20, "{command}");
    }
    place.write("go", "");
    let ended = runner.end().code(0);
    assert_eq!(ended.err.matches(NOTE).count(), 1, "it is noted once: {}", ended.err);
    place.ledger("inspect step a --full").says(&["runner: it printed the same 2 lines"]);
    assert!(!place.ledger("status").out.contains(NOTE), "it is over");
    assert_eq!(first_line(&place, "status --json")["repeats"], Value::Array(Vec::new()));
}

/// Progress on one stream beside the same line on the other, and lines with a counter, are no repetition.
#[test]
fn new_lines_are_not_noted() {
    let place = Place::new();
    let worker = "for n in $(seq 300); do echo waiting >&2; echo \"row $n\"; sleep 0.002; done";
    place.write("agent.sh", worker);
    place.write("plan.yaml", "steps: [{id: a}]");
    let words = ["run", "plan.yaml", "--worker", "sh agent.sh", "--repeat-limit", "60"];
    let ended = place.ledger_with(&words).code(0);
    assert!(!ended.err.contains("prints the same"), "{}", ended.err);
}

#[test]
fn repeat_limit_of_the_command_line_ends_the_attempt() {
    let place = Place::new();
    place.write("agent.sh", format!("test $LEDGER_ATTEMPT -gt 1 || {{ {LOOP}; }}"));
    place.write("plan.yaml", "steps: [{id: a, retry: {max_attempts: 2}}]");
    let words = ["run", "plan.yaml", "--worker", "sh agent.sh", "--repeat-limit", "30"];
    let ended = place.ledger_with(&words).code(0);
    let message = "stopped: printed the same 2 lines 30 times in a row";
    ended.complains(&[&format!("failed: {message}")]);
    assert_eq!(failures(&place), [("transient".to_owned(), message.to_owned())]);
    place
        .ledger("run plan.yaml --run other --repeat-limit 1")
        .code(2)
        .complains(&["expected at least 2"]);
}

/// The limit of a step comes before that of the plan's defaults, and both before the option.
#[test]
fn repeat_limit_of_the_plan_ends_the_attempt() {
    for (plan, option, times) in [
        ("steps: [{id: a, repeat_limit: 25, retry: {max_attempts: 1}}]", "100000", 25),
        (
            "defaults: {repeat_limit: 4}\nsteps: [{id: a, repeat_limit: 26, retry: {max_attempts: 1}}]",
            "3",
            26,
        ),
        ("defaults: {repeat_limit: 27, retry: {max_attempts: 1}}\nsteps: [{id: a}]", "3", 27),
    ] {
        let place = Place::new();
        place.write("agent.sh", LOOP);
        place.write("plan.yaml", plan);
        let words = ["run", "plan.yaml", "--worker", "sh agent.sh", "--repeat-limit", option];
        place.ledger_with(&words).code(1);
        let (class, message) = failures(&place).remove(0);
        let expected = format!("stopped: printed the same 2 lines {times} times in a row");
        assert_eq!((class.as_str(), message), ("transient", expected), "{plan}");
    }
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a, repeat_limit: 1}]");
    place.ledger("plan lint plan.yaml").code(2).says(&["repeat_limit", "expected 2 or more"]);
}

/// After it an `idempotent: no` step is in doubt, as after the other limits.
#[test]
fn repeat_limit_leaves_an_unknown_outcome_of_a_step_that_must_not_be_repeated() {
    let place = Place::new();
    place.write("agent.sh", LOOP);
    place.write("plan.yaml", "steps: [{id: a, idempotent: no, repeat_limit: 25}]");
    place.ledger_with(&["run", "plan.yaml", "--worker", "sh agent.sh"]).code(3);
    let state = place.state();
    assert_eq!(state.run_named("plan").unwrap().steps[0].status, StepStatus::OutcomeUnknown);
}

#[test]
fn worker_of_a_claim_is_noted_and_ended_alike() {
    let place = Place::planned("steps: [{id: a, retry: {max_attempts: 1}}]");
    place.write("agent.sh", LOOP);
    let words = ["work", "--max", "1", "--repeat-limit", "200", "--", "sh", "agent.sh"];
    let worker = start(&mut place.command(&words));
    wait_until("the status names it", || place.ledger("status").out.contains(NOTE));
    wait_until("the worker says so", || worker.complained("step a: prints the same 2 lines"));
    worker.end();
    let message = "stopped: printed the same 2 lines 200 times in a row".to_owned();
    assert_eq!(failures(&place), [("transient".to_owned(), message)]);
}

/// The next runner notes and ends the worker that it takes over.
#[test]
fn adopted_worker_that_repeats_is_noted_and_ended() {
    let place = Place::new();
    place.write("agent.sh", LOOP);
    place.write("plan.yaml", "steps: [{id: a, retry: {max_attempts: 1}}]");
    let words = ["run", "plan.yaml", "--worker", "sh agent.sh"];
    let runner = start(&mut place.command(&words));
    wait_until("it is noted", || runner.complained(NOTE));
    runner.kill();
    let words = [&words[..], &["--repeat-limit", "300"]].concat();
    let next = start(&mut place.command(&words));
    wait_until("it is noted again", || next.complained(NOTE));
    next.end().code(1);
    let state = place.state();
    let step = state.run_named("plan").unwrap().steps[0].clone();
    let (class, message) = step.last_failure().unwrap();
    assert_eq!(*class, FailureClass::Transient);
    assert_eq!(message, "stopped: printed the same 2 lines 300 times in a row");
    assert_eq!(step.attempts, 1, "it was taken over");
}
