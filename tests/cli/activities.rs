//! Goal: all interfaces give the same answer to how a run stands: `status`, `inspect`, the prime, and the headings of
//! their texts; with and without a runner, with damage, and with several runs.

use std::fs;

use plan_ledger::{Environment, Ledger};
use serde_json::Value;

use crate::command::{Place, start, wait_until};
use crate::random_commands::play;

/// How a run stands, by each interface that says it.
fn answers(place: &Place, run: &str) -> Vec<(&'static str, Value)> {
    let of = |line: &[&str], kind: &str, name: &str| {
        let lines = place.ledger_with(line).lines();
        let mut lines = lines.into_iter().filter(|line| line["type"] == kind);
        let line = lines.find(|line| name.is_empty() || line["name"] == name);
        line.unwrap_or_else(|| panic!("no {kind} of {run}"))["activity"].clone()
    };
    let status = of(&["status", "--run", run, "--json"], "user_view", "");
    let text = status["text"].as_str().unwrap().to_owned();
    let heading = format!("status of run {run} (");
    let said = place.ledger_with(&["status", "--run", run]).out;
    let first = said.lines().find(|line| line.starts_with(&heading)).unwrap_or_default();
    assert!(first.ends_with(&format!("): {text}")), "{first:?} is not {text:?}");
    vec![
        ("status", status),
        ("inspect", of(&["inspect", ".ledger", "--json"], "run", run)),
        ("prime", of(&["prime", run, "--json"], "prime", "")),
    ]
}

fn expect_one_answer(place: &Place, run: &str) -> Value {
    let answers = answers(place, run);
    let (_, first) = &answers[0];
    for (interface, answer) in &answers {
        assert_eq!(answer, first, "{interface} about {run}: {answers:?}");
    }
    first.clone()
}

#[test]
fn interfaces_agree_about_random_runs() {
    for seed in 0..4 {
        let place = Place::new();
        let ledger = Ledger::create(&place.path(".ledger"), &Environment::system()).unwrap();
        play(&ledger, seed, 40 + 20 * seed);
        ledger.close().unwrap();
        let names: Vec<String> = place.state().runs.values().map(|run| run.name.clone()).collect();
        // `inspect` shows some runs in full.
        for name in names.iter().rev().take(4) {
            expect_one_answer(&place, name);
        }
    }
}

#[test]
fn interfaces_agree_about_a_runner_that_is_gone() {
    let place = Place::new();
    place.write("hold", "");
    let command = "while [ -e hold ]; do sleep 0.01; done";
    let steps =
        format!("steps: [{{id: a, command: '{command}'}}, {{id: b, after: [a], command: 'true'}}]");
    place.write("plan.yaml", steps);
    let runner = start(&mut place.command(&["run", "plan.yaml"]));
    wait_until("the step is at work", || place.ledger("status").out.contains("working on: #1 a"));
    assert_eq!(expect_one_answer(&place, "plan")["is"], "working");
    assert!(runner.kill().was_killed());
    let gone = expect_one_answer(&place, "plan");
    assert_eq!((&gone["is"], &gone["start"]), (&"stopped".into(), &"ledger resume".into()));
    assert_eq!(gone["absence"], "no runner is at work");
    fs::remove_file(place.path("hold")).unwrap();
}

/// Story: a person answered on the page; the run stayed as it was, and nothing said that its runner was gone.
#[test]
fn runs_that_wait_for_people_say_that_no_runner_is_at_work() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a, command: 'true', gate: {question: now?}}]");
    place.ledger("run plan.yaml").code(3);
    let stands = expect_one_answer(&place, "plan");
    assert_eq!((&stands["is"], &stands["for_people"]), (&"waiting_for_people".into(), &1.into()));
    assert_eq!(stands["start"], "ledger resume");
    place.ledger("status").code(0).says(&["waiting for a person; no runner is at work"]);
}

/// Nothing is concluded from records that cannot be read.
#[test]
fn damage_makes_the_activity_of_a_run_unknown() {
    let place = Place::planned("steps: [{id: a}, {id: b}]\n");
    let token = place.ledger("claim --worker w --step a").code(0).token();
    place.ledger(&format!("receipt {token} --output done")).code(0);
    let log = place.path(".ledger/log");
    let segment = fs::read_dir(log).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&segment).unwrap();
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[last - 40] ^= 1;
    fs::write(&segment, bytes).unwrap();
    assert_eq!(expect_one_answer(&place, "plan")["is"], "unknown");
}
