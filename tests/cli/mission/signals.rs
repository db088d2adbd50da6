//! Signals: what the figures of a run and of all runs say about plans and policies.

use crate::command::Place;

/// The flagship example: the diagnosis was wrong, the suite fails, and the diagnosis is made again.
const BUG: &str = "\
failure: {max_replans: 2, rules: [{id: wrong, when: {step: suite}, then: {replan: {from: diagnose}}}]}
steps:
  - {id: search, command: 'echo 3', outputs: [files]}
  - {id: diagnose, goal: find the cause, after: [search], command: 'echo \\\"session\\\"', outputs: [root_cause]}
  - {id: fix, after: [diagnose], command: 'true'}
  - id: suite
    after: [fix]
    command: 'test -f right || { echo wrong file >&2; exit 1; }'
    failure_hints: {wrong file: assumption_broken}
    retry: {max_attempts: 1}
";

// S22: the figures of the coding agent.

#[test]
fn s22_coding_agent_classified_right_kept_half_and_solved_its_problem() {
    let place = Place::new();
    place.write("bug.yaml", BUG);
    let better = BUG.replace("find the cause", "find the cause outside of session_handler.py");
    place.write("better.yaml", &better);
    place.write("planner.sh", "touch right; cat better.yaml\n");
    place
        .ledger_with(&["run", "bug.yaml", "--approve", "auto", "--planner", "sh planner.sh"])
        .code(0);
    let line = place.ledger("inspect .ledger metrics bug --json").lines().remove(0);
    let ratio = |name: &str| format!("{} of {}", line[name]["part"], line[name]["of"]);
    assert_eq!(ratio("first_classification"), "1 of 1", "{line}");
    assert_eq!(ratio("state_trust"), "1 of 2", "{line}");
    assert_eq!(ratio("replan_precision"), "1 of 1", "{line}");
    assert_eq!(ratio("replan_frequency"), "1 of 1", "{line}");
    assert_eq!(line["marks"]["plan_generation"], "healthy", "{line}");
    assert_eq!(line["marks"]["replan_frequency"], "degrading", "{line}");
    // Four more runs that need no replan: less than one in five.
    place.write("ok.yaml", "steps:\n  - {id: a, command: 'true'}\n");
    for run in 1..=4 {
        place.ledger(&format!("run ok.yaml --run ok-{run}")).code(0);
    }
    let all = place.ledger("inspect .ledger metrics --all --json").lines().remove(0);
    assert_eq!(
        (&all["replan_frequency"]["of"], &all["run"]),
        (&5.into(), &serde_json::Value::Null)
    );
    assert_eq!(all["marks"]["replan_frequency"], "healthy", "{all}");
    place.ledger("inspect .ledger metrics --all").says(&["replan frequency", "healthy", "1 of 5"]);
}

// S24: budgets.

#[test]
fn s24_money_limit_does_not_limit_tokens() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "steps:\n  - id: a\n    cost_limit: {money_micros: 50000}\n    command: >-\n      \
         echo '{\"outcome\": \"succeeded\", \"cost\": {\"money_micros\": 1000, \"tokens\": 800}}' > \
         $LEDGER_RECEIPT\n  - {id: b, after: [a], command: 'true'}\n",
    );
    place.ledger("run plan.yaml").code(0);
}

// S4: caps.

#[test]
fn s4_answer_of_cap_says_what_holds() {
    let place = Place::planned("caps: {run: 2}\nsteps: [{id: a}]");
    place.ledger("cap --run plan 4").code(0).says(&[
        "run plan: at most 2 attempts in flight; the cap of its plan applies, which is lower than 4",
    ]);
    place.ledger("cap --run plan 1").code(0).says(&["run plan: at most 1 attempt in flight"]);
    let lifted = place.ledger("cap --run plan none").code(0);
    lifted.says(&["run plan: at most 2 attempts in flight; the cap of its plan applies"]);
}

#[test]
fn s4_answer_of_cap_names_the_lower_cap_of_the_ledger_and_of_plans() {
    let place = Place::planned("caps: {owners: {dba: 2}, tags: {gpu: 1}}\nsteps: [{id: a}]");
    place
        .ledger("cap --owner dba 5")
        .code(0)
        .says(&["owner dba: at most 5 attempts in flight; in run plan at most 2, by its plan"]);
    let owner = place.ledger("cap --owner dba 2").code(0);
    assert!(!owner.out.contains("by its plan"), "{owner:?}");
    place
        .ledger("cap --tag gpu none")
        .code(0)
        .says(&["tag gpu: no cap; in run plan at most 1, by its plan"]);
    place.ledger("cap --global 3").code(0).says(&["the ledger: at most 3 attempts in flight"]);
    place.ledger("cap --run plan 4").code(0).says(&[
        "run plan: at most 3 attempts in flight; the cap of the ledger applies, which is lower than 4",
    ]);
    let lifted = place.ledger("cap --owner dba none --json").code(0).lines().remove(0);
    assert_eq!((&lifted["limit"], &lifted["holds"]), (&serde_json::Value::Null, &3.into()));
    assert_eq!(lifted["plans"], serde_json::json!([{"run": "plan", "limit": 2}]));
}

/// Retries that are used up again and again, and more replans than runs, are the marks of a broken manager.
#[test]
fn s22_broken_manager_is_marked() {
    let place = Place::new();
    place.write(
        "p.yaml",
        "failure: {max_replans: 3}\nsteps:\n  - {id: a, estimate_seconds: 1, command: 'exit 75', retry: {max_attempts: 2}}\n",
    );
    place.write(
        "planner.sh",
        "cat > /dev/null; echo >> count; sed \"s/exit 75/echo $(wc -l < count) >\\&2; exit 75/\" p.yaml\n",
    );
    place.write("count", "");
    let args = ["run", "p.yaml", "--approve", "auto", "--planner", "sh planner.sh"];
    place.ledger_with(&args).code(1);
    let line = place.ledger("inspect .ledger metrics --all --json").lines().remove(0);
    let marks = &line["marks"];
    assert_eq!(line["replan_frequency"]["part"], 3, "{line}");
    assert_eq!(marks["replan_frequency"], "broken", "{line}");
    assert_eq!(marks["retry_exhaustion"], "broken", "{line}");
    assert_eq!(marks["replan_precision"], "broken", "{line}");
    place.ledger("inspect .ledger metrics --all").code(0).says(&["broken"]);
}
