//! The views of a run, its execution state, what a worker is told of finished work, and warnings.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::command::{Place, start, wait_until};

/// The loan plan up to the compliance check, with a bureau that fails once.
const LOAN: &str = r#"title: Process loan application
budget: {money_micros: 250000}
steps:
  - id: verify_identity
    title: Verifying your identity
    command: >-
      echo '{"outcome": "succeeded", "output": {"identity_verified": true}, "artifacts": [{"path": "id.txt"}],
      "cost": {"money_micros": 70000}}' > $LEDGER_RECEIPT; touch id.txt
    outputs: [identity_verified]
  - id: pull_credit
    title: Checking credit history
    after: [verify_identity]
    command: cat > task.json; test -e called || { touch called; exit 75; }; echo '{"credit_score":720}'
    outputs: [credit_score]
    retry: {max_attempts: 3}
  - id: compliance_check
    title: Compliance review
    after: [pull_credit]
    command: cat > review.json; while test ! -e go; do sleep 0.05; done
    retry: {max_attempts: 1}
  - id: human_review
    after: [compliance_check]
    condition: compliance_flag == "review"
    command: 'true'
  - id: issue_decision
    after: [human_review]
    command: 'true'
"#;

// S17, S21: the execution state and the three views as the text prints them, in the middle of a run.

#[test]
fn s17_s21_views_show_a_run_in_the_middle() {
    let place = Place::new();
    place.write("loan.yaml", LOAN);
    let runner = start(&mut place.command(&["run", "loan.yaml"]));
    let in_review = || place.path("review.json").exists();
    wait_until("the review is at work", in_review);
    let state = place.ledger("inspect .ledger view execution-state").code(0);
    state.says(&[
        "current_step: [compliance_check]",
        "completed: [verify_identity, pull_credit]",
        "pending: [human_review?, issue_decision]",
        "retries_used: {pull_credit: 1}",
        "elapsed: ",
        "budget_remaining: $0.18 of $0.25",
        "side_effects_committed: []",
        "plan_version: 1",
    ]);
    let line = place.ledger("inspect .ledger view execution-state --json").lines().remove(0);
    let names = [
        "current_step",
        "completed",
        "pending",
        "retries_used",
        "elapsed",
        "budget_remaining",
        "side_effects_committed",
        "plan_version",
    ];
    assert!(names.iter().all(|name| !line[name].is_null()), "{line}");
    assert_eq!(line["retries_used"], json!({"pull_credit": 1}));
    let user = place.ledger("inspect .ledger view user").code(0);
    user.says(&[
        "Verifying your identity \u{2713}",
        "Checking credit history \u{2713}",
        "working on: #3 compliance_check (Compliance review)",
    ]);
    place.ledger("status --view operator").code(0).says(&[
        "compliance_check",
        "1/1",
        "version 1 of 1, no replans",
        "$0.18 of $0.25",
        "last failure",
        "elapsed",
    ]);
    place.write("go", "");
    runner.end().code(0);
    place.ledger("status --view debug").code(0).says(&[
        "completed: [verify_identity, pull_credit, compliance_check",
        r#"output: {"credit_score":720}"#,
        "to be retried",
        "cost of each step",
        "#1 verify_identity",
        "$0.07",
    ]);
}

// S12: a worker is told what is done and what it produced.

#[test]
fn s12_worker_is_told_what_is_done() {
    let place = Place::new();
    place.write("loan.yaml", LOAN);
    place.write("go", "");
    place.ledger("run loan.yaml").code(0);
    let task = |name: &str| -> Value { serde_json::from_str(&place.read(name)).unwrap() };
    let done = &task("review.json")["done"];
    assert_eq!(
        (&done["accepted"], &done["skipped"], &done["left_out"]),
        (&2.into(), &0.into(), &0.into())
    );
    // The nearest dependency comes first.
    assert_eq!(done["steps"][0]["id"], "pull_credit");
    assert_eq!(done["steps"][0]["output"], r#"{"credit_score":720}"#);
    assert_eq!(done["steps"][1]["title"], "Verifying your identity");
    assert_eq!(done["steps"][1]["artifacts"][0]["path"], "id.txt");
    // Both attempts at a step are told the same.
    assert_eq!(task("task.json")["done"]["steps"][0]["id"], "verify_identity");
}

#[test]
fn s12_summary_of_what_is_done_is_bounded() {
    let place = Place::new();
    let mut plan = "steps:\n".to_owned();
    for number in 0..30 {
        let after = if number == 0 { String::new() } else { format!(", after: [s{}]", number - 1) };
        let command = "head -c 5000 /dev/zero | tr '\\\\0' x";
        writeln!(plan, "  - {{id: s{number}{after}, command: \"{command}\"}}").unwrap();
    }
    plan.push_str("  - {id: last, after: [s29], command: cat > task.json}\n");
    place.write("p.yaml", plan);
    place.ledger("run p.yaml").code(0);
    let task: Value = serde_json::from_str(&place.read("task.json")).unwrap();
    let done = &task["done"];
    let steps = done["steps"].as_array().unwrap();
    assert!(serde_json::to_string(steps).unwrap().len() <= 8 << 10);
    assert_eq!((&steps[0]["id"], &steps[0]["output_bytes"]), (&"s29".into(), &5002.into()));
    assert_eq!(steps[0]["output"].as_str().unwrap().len(), 1000);
    assert_eq!(done["left_out"], 30 - steps.len());
}

// S24: budgets, estimates and stalls.

#[test]
fn s24_step_that_takes_twice_its_estimate_is_reported() {
    let place = Place::new();
    place.write(
        "p.yaml",
        "steps:\n  - {id: a, estimate_seconds: 1, command: 'while test ! -e go; do sleep 0.05; done'}\n",
    );
    let runner = start(&mut place.command(&["run", "p.yaml"]));
    let is_slow = || {
        // Until the runner has made the ledger there is none.
        let status = place.ledger("status");
        status.out.contains("at least twice its estimate of 1 s")
    };
    wait_until("the step is slow", is_slow);
    place.ledger("inspect why p a").says(&["at least twice its estimate of 1 s"]);
    let status = place.ledger("status --json").lines().remove(0);
    assert_eq!(status["warnings"][0]["is"], "slow_step", "{status}");
    wait_until("the runner reports it", || runner.complained("at least twice its estimate"));
    place.write("go", "");
    runner.end().code(0);
}

#[test]
fn s24_used_budget_is_reported_outside_of_run() {
    let place = Place::planned("budget: {money_micros: 100000}\nsteps: [{id: a}, {id: b}]\n");
    let token = place.ledger("claim --run plan --worker w").code(0).token();
    let receipt = place.ledger(&format!("receipt {token} --output 1 --cost 0.09"));
    receipt.code(0).complains(&["80 % of the run's money budget is used"]);
    place.ledger("status").says(&["80 % of the run's money budget is used: $0.09 of $0.10"]);
    // An overrun is shown with its true amount.
    let token = place.ledger("claim --run plan --worker w").code(0).token();
    place.ledger(&format!("receipt {token} --output 1 --cost 0.05")).code(0);
    place.ledger("status").says(&["overrun: $0.14 of $0.10, $0.04 more"]);
}

// S28: files outside of a step's list.

#[test]
fn s28_files_outside_of_a_list_are_reported() {
    let place = Place::new();
    std::fs::create_dir(place.path("src")).unwrap();
    place.write(
        "p.yaml",
        "steps:\n  - {id: a, command: 'echo 1 > src/a.py; echo 1 > other.py', changes: ['src/*.py']}\n  \
         - {id: b, after: [a], command: 'echo 2 > src/a.py', changes: [src]}\n",
    );
    let ended = place.ledger("run p.yaml").code(0);
    ended.complains(&["step 1 (a)", "changed files outside the step's `changes`: other.py"]);
    let notes = place.ledger("status");
    drop(notes);
}

// S15: a receipt names the step from which work is done again, and why.

#[test]
fn s15_receipt_names_the_step_and_the_kind_of_a_replan() {
    let place =
        Place::planned("failure: {max_replans: 1}\nsteps:\n  - {id: a}\n  - {id: b, after: [a]}\n");
    let claim = || place.ledger("claim --run plan --worker w").code(0).token();
    let token = claim();
    place.ledger(&format!("receipt {token} --output 1")).code(0);
    let token = claim();
    place.write(
        "receipt.json",
        r#"{"outcome": "replan_requested", "message": "a is wrong", "from": "a", "kind": "new_evidence"}"#,
    );
    place.ledger(&format!("receipt {token} --receipt receipt.json")).code(0);
    let asked = place.ledger("inspect .ledger records --kind replan_requested --json").lines();
    assert_eq!(
        (&asked[0]["event"]["trigger"]["is"], &asked[0]["event"]["from"]),
        (&"new_evidence".into(), &1.into())
    );
    place.ledger("status").says(&["a is wrong"]);
}

// S9: canned outputs from a file.

#[test]
fn s9_drill_takes_canned_outputs_from_a_file() {
    let place = Place::new();
    place.write(
        "p.yaml",
        "steps:\n  - {id: check, outputs: [flag]}\n  - {id: review, after: [check], condition: flag == 'review'}\n",
    );
    place.write("outputs.json", r#"{"check": {"flag": "review"}}"#);
    let drill = "drill p.yaml --every-crash";
    place.ledger(drill).code(0).says(&["1 step"]);
    place.ledger(&format!("{drill} --outputs outputs.json")).code(0).says(&["2 steps"]);
    place.ledger("drill p.yaml --outputs outputs.json").code(0).says(&["all checks hold"]);
    place.write("outputs.json", r#"{"chek": 1}"#);
    place.ledger(&format!("{drill} --outputs outputs.json")).code(2).complains(&["no step `chek`"]);
}

// S28: the plan of a run in the form of other tools, and back.

#[test]
fn s28_plan_of_a_run_is_written_in_the_forms_of_tools() {
    let place = Place::new();
    place.write(
        "p.yaml",
        "title: Two lanes\nsteps:\n  - {id: t1, title: One, command: 'true'}\n  - {id: t2, title: Two, command: \
         'true'}\n  - {id: t3, title: Three, after: [both], acceptance: [it is good], gate: {question: 'Go on?'}, \
         command: 'true'}\n  - {id: t4, after: [t1, t3], goal: Four, command: 'true'}\nbarriers: [{id: both, members: \
         [t1, t2]}]\n",
    );
    place.ledger("run p.yaml").code(3);
    for (form, file) in [
        ("tasks", "tasks.md"),
        ("task-master", "tasks.json"),
        ("beads", "issues.jsonl"),
        ("cursor", "to-do.plan.md"),
    ] {
        place.ledger(&format!("plan export p --form {form} -o {file}")).code(0);
        place.ledger(&format!("plan export {file} --form json -o {form}.out.json")).code(0);
        let again: Value = serde_json::from_str(&place.read(&format!("{form}.out.json"))).unwrap();
        let steps = again["steps"].as_array().unwrap();
        let after = |id: &str| {
            let step = steps.iter().find(|step| step["id"] == id);
            let mut names: Vec<&str> = step.unwrap_or_else(|| panic!("{form} lost {id}: {again}"))
                ["after"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            names.sort_unstable();
            names.join(" ")
        };
        let found = ["t1", "t2", "t3", "t4"].map(after);
        assert_eq!(found, ["", "", "t1 t2", "t1 t3"], "{form}: {again}");
        let done = again["marks"]["done"].as_object().unwrap();
        assert_eq!(done.keys().collect::<Vec<_>>(), ["t1", "t2"], "{form}");
    }
    assert!(place.read("tasks.md").contains("<!-- Next action: "));
    assert!(place.read("to-do.plan.md").contains("Next action: "));
    // What a form cannot say is refused.
    place.write("any.yaml", "steps: [{id: a}, {id: b}, {id: c, after: [e]}]\nbarriers: [{id: e, members: [a, b], needs: any}]\n");
    place
        .ledger("plan export any.yaml --form beads")
        .code(2)
        .complains(&["does not need all of its members", "choose another format"]);
}
