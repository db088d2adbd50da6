//! Goal: the prime is short, says what an agent needs, and never waits for a lock.

use std::fs::File;

use super::command::Place;

const PLAN: &str = "\
title: Release 1.2
budget: {money_micros: 5000000}
steps:
  - {id: build, goal: Build the wheel, acceptance: [it works]}
  - {id: test, goal: Run the tests, owner: tester}
  - {id: publish, goal: Publish it, after: [build, test]}
";

#[test]
fn prime_shows_claims_questions_next_steps_changes_and_budget() {
    let place = Place::planned(PLAN);
    let token = place.ledger("claim --worker w --step build").code(0).token();
    place.ledger("prime").code(0).says(&[
        "run plan (Release 1.2): working on 1 step. 0 of 3 steps are done",
        "Claimed:\n  #1 build: by w",
        "Next:\n  #2 test (for tester): Run the tests",
        "#1 build: attempt 1 dispatched to w",
        "Budget left: $5.00",
    ]);
    place.ledger(&format!("receipt {token} --output done --cost 1.25")).code(0);
    place.ledger("prime plan").code(0).says(&[
        "Waits for a person:\n  step 1 (build) waits for a verdict on: it works\n",
        "Budget left: $3.75",
    ]);
    let line = &place.ledger("prime --json").code(0).lines()[0];
    assert_eq!((&line["run"], &line["ready_count"]), (&"plan".into(), &1.into()));
    place.ledger("prime nothing").code(2).complains(&["no run `nothing`"]);
}

/// What a pause or a request for a new plan holds is not offered as the next work.
#[test]
fn prime_offers_no_step_that_is_held() {
    let place = Place::planned("steps: [{id: a}, {id: b}, {id: c}]\n");
    let offered = || place.ledger("prime --json").code(0).lines()[0]["ready_count"].clone();
    assert_eq!(offered(), 3);
    place.ledger("pause plan").code(0);
    assert_eq!(offered(), 0);
    place.ledger("unpause plan").code(0);
    place.ledger("plan request plan --from b --reason more").code(0);
    assert_eq!(offered(), 2);
    let prime =
        place.ledger("prime").code(0).says(&["#1 a", "#3 c", "a new plan version is needed"]);
    assert!(!prime.out.contains("  #2 b:"), "{}", prime.out);
    place.ledger("plan withdraw plan --reason no").code(0);
    assert_eq!(offered(), 3);
}

/// A step of a runner that is gone is not being worked on.
#[test]
fn prime_tells_of_a_runner_that_is_gone() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a, command: 'true'}, {id: b, command: 'true'}]");
    place.ledger("run plan.yaml --kill-at 2 --max-parallel 1");
    place.ledger("prime").code(0).says(&["#2 b: by process/1, which is gone, lease until "]);
    let line = &place.ledger("prime --json").code(0).lines()[0];
    assert_eq!(line["claimed"][0]["is_gone"], true);
    let place = Place::planned("steps: [{id: a}]\n");
    place.ledger("claim --worker w").code(0);
    assert_eq!(place.ledger("prime --json").code(0).lines()[0]["claimed"][0]["is_gone"], false);
}

#[test]
fn prime_without_a_ledger_is_one_line() {
    let place = Place::new();
    let text = place.ledger("prime").code(0).out;
    assert_eq!(text.lines().count(), 1, "{text}");
    assert_eq!(place.ledger("prime --json").code(0).lines()[0]["run"], serde_json::Value::Null);
    place.ledger("init").code(0);
    place.ledger("prime").code(0).says(&["no run yet"]);
}

#[test]
fn prime_of_several_active_runs_names_them() {
    let place = Place::planned(PLAN);
    place.ledger("plan propose plan.yaml --run again").code(0);
    place.ledger("prime").code(0).says(&["2 runs are active", "plan, again"]);
}

/// A lock holder that hangs made `bd prime` of another tool hang in every session.
#[test]
fn prime_answers_while_a_stopped_process_holds_the_lock() {
    let place = Place::planned(PLAN);
    let server = place.serve();
    server.signal("STOP");
    // A client that waits in the queue locks the folder.
    let folder = File::open(place.path(".ledger")).unwrap();
    folder.lock().unwrap();
    place.ledger("prime").code(0).says(&["#1 build"]);
    server.signal("CONT");
    server.kill();
}

#[test]
fn prime_of_a_damaged_ledger_says_so() {
    let place = Place::planned(PLAN);
    let log = place.path(".ledger/log");
    let segment = std::fs::read_dir(log).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&segment).unwrap();
    let middle = bytes.iter().rposition(|byte| *byte != 0).unwrap() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    place.ledger("prime").code(0).says(&["Damage: "]);
}

/// A new session learns what the plan is for, what may go wrong, and what a person rejected and why. So does the
/// proposer of the next version.
#[test]
fn prime_has_outcome_risks_questions_and_what_a_person_rejected() {
    let place = Place::new();
    let plan = "outcome: Users are on version 2\nrisks: [The cache lies]\nopen_questions: [Who owns billing?]\n\
                extra: {next_action: Open the console}\nsteps: [{id: a, goal: First}]\n";
    place.write("plan.yaml", plan);
    place.ledger("init").code(0);
    place.ledger("plan propose plan.yaml --approval required").code(0);
    place.ledger("plan approve plan --by ana").code(0);
    place.write("plan.yaml", plan.replace("First", "Another way"));
    place.ledger("plan propose plan.yaml").code(0);
    place.ledger_with(&["plan", "reject", "plan", "--note", "too risky"]).code(0);
    place.ledger("prime").code(0).says(&[
        "Outcome:\n  Users are on version 2\n",
        "Rejected by a person:\n  version 2: too risky\n",
        "Next action of the plan:\n  Open the console\n",
        "Risks:\n  The cache lies\n",
        "Open questions:\n  Who owns billing?\n",
    ]);
    place.ledger("inspect plan plan").code(0).says(&["rejected (too risky)"]);
    place.write("plan.yaml", plan.replace("First", "A third way"));
    place.ledger("plan propose plan.yaml").code(0).says(&["version 2 was rejected: too risky"]);
    place.ledger("plan approve plan --by ana").code(0);
    let prime = place.ledger("prime").out;
    assert!(!prime.contains("Rejected by a person"), "the next version is active: {prime}");
}
