//! `ledger drill` over the example plans and over plans of other tools.

use std::path::PathBuf;

use plan_ledger::internals::sim::sweep;

use super::command::{Ended, Place, report_skipped};

const PLANS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/plans/");

/// Plans of other tools, which are not part of the repository.
pub(crate) fn shared_plan(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("PLAN_LEDGER_PLANS").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/plans")),
        PathBuf::from,
    );
    let path = folder.join(name);
    if path.is_file() {
        return Some(path);
    }
    report_skipped(&format!("{} is missing; PLAN_LEDGER_PLANS names its folder", path.display()));
    None
}

fn drill(place: &Place, plan: &str, more: &[&str]) -> Ended {
    place.ledger_with(&[&["drill", plan], more].concat())
}

/// The checks of a drill that must pass.
const CHECKS: [&str; 7] = [
    "killed in flight",
    "nothing accepted ran twice",
    "dispatched again once",
    "same outcome",
    "same variables",
    "replay equals live state",
    "cost 0",
];

/// The drill of the README passes and prints its checks.
#[test]
fn example_plan_passes_its_drill() {
    let place = Place::new();
    let plan = format!("{PLANS}migration.yaml");
    let ended = drill(&place, &plan, &[]).code(0).says(&["killed at step 37", "all checks hold"]);
    for check in CHECKS {
        assert!(ended.out.contains(&format!("ok      {check}: ")), "{}", ended.out);
    }
    assert!(ended.err.is_empty(), "{}", ended.err);
    assert!(place.snapshot().is_empty(), "a drill leaves nothing behind");
}

/// A kill at any step does no harm, with one or several steps in flight.
#[test]
fn small_plan_survives_a_kill_at_every_step() {
    let place = Place::new();
    let plan = format!("{PLANS}tiny.yaml");
    for kill_at in 1..=6 {
        for parallel in ["1", "4"] {
            let at = kill_at.to_string();
            drill(&place, &plan, &["--kill-at", &at, "--max-parallel", parallel]).code(0);
        }
    }
    drill(&place, &plan, &["--kill-at", "7"]).code(2).complains(&["has 6 steps"]);
    drill(&place, &plan, &["--kill-at", "0"]).code(2).complains(&["--kill-at"]);
}

/// Without `--kill-at`, a plan of fewer than 37 steps is killed in its middle.
#[test]
fn small_plan_is_killed_in_its_middle() {
    let place = Place::new();
    drill(&place, &format!("{PLANS}tiny.yaml"), &[]).code(0).says(&["killed at step 3"]);
    place.write("one.yaml", "steps: [{id: a}]");
    drill(&place, "one.yaml", &[]).code(0).says(&["killed at step 1"]);
}

/// A task-master plan of 145 steps passes at several steps.
#[test]
fn task_master_plan_passes_its_drill() {
    let Some(plan) = shared_plan("taskmaster-testcraft.json") else { return };
    let place = Place::new();
    for kill_at in ["1", "37", "100", "145"] {
        let ended = drill(&place, plan.to_str().unwrap(), &["--kill-at", kill_at]).code(0);
        ended.says(&["all checks hold", "145 and 145 steps accepted"]);
    }
    drill(&place, plan.to_str().unwrap(), &["--kill-at", "146"]).code(2).complains(&["145 steps"]);
}

/// `--json` prints the checks and a summary.
/// What a drill lacks is given to the drill: its ledgers are removed at its end.
#[test]
fn drill_names_the_inputs_that_it_lacks() {
    let place = Place::new();
    place.write("plan.yaml", "inputs: {x: {type: string}}\nsteps: [{id: a, inputs: [x]}]");
    for more in [[].as_slice(), &["--every-crash"]] {
        let lacks =
            drill(&place, "plan.yaml", more).code(6).complains(&["inputs: x", "--set x=VALUE"]);
        assert!(!lacks.err.contains("ledger set"), "{lacks:?}");
    }
    drill(&place, "plan.yaml", &["--set", "x=y"]).code(0);
}

#[test]
fn drill_prints_checks_as_json() {
    let place = Place::new();
    let plan = format!("{PLANS}tiny.yaml");
    let lines = drill(&place, &plan, &["--kill-at", "3", "--json"]).code(0).lines();
    let (summary, checks) = lines.split_last().unwrap();
    let names: Vec<&str> = checks.iter().map(|check| check["name"].as_str().unwrap()).collect();
    assert_eq!(names, CHECKS);
    assert!(checks.iter().all(|check| check["type"] == "check" && check["holds"] == true));
    assert_eq!(summary["type"], "summary");
    assert_eq!(summary["kill_at"], 3);
    assert_eq!(summary["steps"], 6);
    assert_eq!(summary["holds"], true);
}

/// `--keep` keeps the ledgers, and rejects a folder that is not empty.
#[test]
fn drill_keeps_its_ledgers_on_request() {
    let place = Place::new();
    let plan = format!("{PLANS}tiny.yaml");
    drill(&place, &plan, &["--kill-at", "3", "--keep", "kept"]).code(0).says(&["kept in kept"]);
    for ledger in ["kept/killed.ledger", "kept/whole.ledger"] {
        let state = super::command::state_of(&place.path(ledger));
        assert_eq!(state.runs.len(), 1, "{ledger}");
    }
    let before = place.snapshot();
    drill(&place, &plan, &["--kill-at", "3", "--keep", "kept"]).code(2).complains(&["not empty"]);
    assert!(place.snapshot() == before);
}

/// A drill answers the questions of a plan, before and after the kill.
#[test]
fn drill_answers_questions() {
    let place = Place::new();
    let plan = r#"
title: Gated
outcome: It is deployed.
gate: { question: Is this the plan? }
steps:
  - { id: build, title: Build it, goal: Build. }
  - { id: deploy, title: Deploy it, goal: Deploy., after: [build], gate: { question: Now? } }
  - id: announce
    title: Announce it
    goal: Announce.
    after: [deploy]
    gate:
      question: Announce it?
      deadline_seconds: 3600
      on_timeout: { answer: "no" }
"#;
    std::fs::write(place.path("gated.yaml"), plan).unwrap();
    for kill_at in ["1", "2"] {
        drill(&place, "gated.yaml", &["--kill-at", kill_at]).code(0).says(&["all checks hold"]);
    }
    drill(&place, "gated.yaml", &["--kill-at", "2", "--keep", "kept"]).code(0);
    let told = place.ledger_with(&["inspect", "kept/killed.ledger", "records"]);
    told.code(0).says(&["drill"]);
}

/// Story: the last step of a plan was one that a person does. After the answer the run was done, the next
/// process found nothing to do, and the drill failed.
#[test]
fn drill_completes_a_plan_whose_last_step_a_person_does() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: draft}, {id: sign, after: [draft], owner: human}]");
    let ended = drill(&place, "plan.yaml", &[]).code(0).says(&["all checks hold"]);
    assert!(ended.out.contains("ok      replay equals live state: "), "{}", ended.out);
}

/// A small run survives a crash at every change of the disk, with steady and with flaky agents.
#[test]
fn sweep_small_plan_survives_every_crash() {
    let place = Place::new();
    let plan = format!("{PLANS}tiny.yaml");
    for agents in sweep(&["flaky"][..], &["steady", "flaky"], &["steady", "flaky"]) {
        let more = ["--every-crash", "--agents", agents, "--seed", "3", "--json"];
        let lines = drill(&place, &plan, &more).code(0).lines();
        let line = &lines[0];
        assert_eq!((&line["type"], &line["holds"]), (&"every_crash".into(), &true.into()));
        let count = |field: &str| line[field].as_u64().unwrap();
        assert!(count("points") > 40 && count("lives") == 4 * count("points"), "{line}");
        assert!(count("executed_twice") > 0, "no crash with a step in flight: {line}");
    }
    let one = ["--every-crash", "--at", "20", "--max-parallel", "1"];
    drill(&place, &plan, &one).code(0).says(&["receipts lost: 0", "cost: 0", "all checks hold"]);
    let far = ["--every-crash", "--at", "1000000"];
    drill(&place, &plan, &far).code(2).complains(&["--at 1000000"]);
    drill(&place, &plan, &["--every-crash", "--kill-at", "3"]).code(2).complains(&["--kill-at"]);
    drill(&place, &plan, &["--seed", "3"]).code(2).complains(&["--every-crash"]);
    assert!(place.snapshot().is_empty(), "nothing is written to the real disk");
}

/// A drill of a plan that waits for something else than a question names it.
#[test]
fn drill_names_what_its_plan_waits_for() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a}, {id: b, after: [a]}]\nbudget: {attempts: 1}");
    let told = drill(&place, "plan.yaml", &["--kill-at", "1"]).code(6);
    told.complains(&["waits for something that a drill cannot resolve: paused"]);
}

/// A stub is paid nothing: a lost attempt of one is not charged its estimate, however it was killed.
#[test]
fn estimates_cost_nothing_in_a_drill() {
    let place = Place::new();
    let plan = "steps: [{id: a, cost_estimate: {money_micros: 20000}},
      {id: b, after: [a], cost_estimate: {money_micros: 20000}}, {id: c, after: [b], cost_limit: {money_micros: 9}}]";
    place.write("loan.yaml", plan);
    drill(&place, "loan.yaml", &["--kill-at", "2"]).code(0).says(&["ok      cost 0: $0.00 and"]);
    drill(&place, "loan.yaml", &["--every-crash"]).code(0);
    place.ledger_with(&["run", "loan.yaml", "--stub", "--kill-at", "2"]);
    let ended = place.ledger_with(&["run", "loan.yaml", "--stub", "--json"]).code(0);
    let summary = ended.lines().pop().unwrap();
    assert_eq!(summary["cost"]["money_micros"].as_u64().unwrap_or_default(), 0, "{summary}");
}

/// If the run does not execute the step that was chosen, the drill kills the next one that it does.
#[test]
fn skipped_step_is_not_killed() {
    let place = Place::new();
    place.write(
        "score.yaml",
        "steps:
  - {id: score, outputs: [credit_score], extra: {stub: {credit_score: 400}}}
  - {id: big, after: [score], condition: credit_score > 500}
  - {id: end, after: [big]}
",
    );
    for more in [&[][..], &["--kill-at", "2"]] {
        let ended = drill(&place, "score.yaml", more).code(0);
        ended.says(&["killed at step 3 (step 2 is not executed)", "all checks hold"]);
    }
    let lines = drill(&place, "score.yaml", &["--json"]).code(0).lines();
    assert_eq!(lines.last().unwrap()["kill_at"], 3);
    drill(&place, "score.yaml", &["--kill-at", "1"]).code(0).says(&["killed at step 1\n"]);
    place.write("none.yaml", "steps: [{id: a, condition: 1 > 2}]");
    drill(&place, "none.yaml", &[]).code(6).complains(&["there is nothing to kill"]);
}

/// A drill is known by the hash of its plan: `plan review` shows it, and a run with agents says that there was none.
#[test]
fn drill_is_known_to_the_review_and_to_the_first_run() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a}, {id: b, after: [a]}]");
    let never = "the plan was never drilled; `ledger drill plan.yaml`";
    place.ledger("run plan.yaml --worker true").code(0).complains(&[never]);
    drill(&place, "plan.yaml", &[]).code(0);
    place.ledger("plan propose plan.yaml --run again --approval required").code(0);
    let drilled = ": killed at step 1, resumed, cost $0.00, all checks hold";
    place.ledger("plan review again").code(3).says(&["drilled on ", drilled]);
    let line = place.ledger("plan review again --json").lines().remove(0);
    assert_eq!(
        (&line["drill"]["holds"], line["drill"]["time_micros"].is_u64()),
        (&true.into(), true)
    );
    let ended = place.ledger("run plan.yaml --run third --worker true").code(0);
    assert!(!ended.err.contains("never drilled"), "{}", ended.err);
    // Another plan was not drilled.
    place.write("plan.yaml", "steps: [{id: a}, {id: b, after: [a]}, {id: c}]");
    place.ledger("run plan.yaml --run fourth --worker true").code(0).complains(&[never]);
}
