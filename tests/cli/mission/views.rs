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
    let state = place.ledger("status .ledger --view execution-state").code(0);
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
    let line = place.ledger("status .ledger --view execution-state --json").lines().remove(0);
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
    for command in ["status .ledger --view user", "status --view user --run #1"] {
        place.ledger(command).code(0).says(&[
            "Verifying your identity \u{2713}",
            "Checking credit history \u{2713}",
            "working on: #3 compliance_check (Compliance review)",
        ]);
    }
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
    receipt.code(0).complains(&["90 % of the run's money budget is used"]);
    place.ledger("status").says(&["90 % of the run's money budget is used: $0.09 of $0.10"]);
    // An overrun is shown with its true amount.
    let token = place.ledger("claim --run plan --worker w").code(0).token();
    place.ledger(&format!("receipt {token} --output 1 --cost 0.05")).code(0);
    place.ledger("status").says(&["money budget is overrun by $0.04: $0.14 of $0.10"]);
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
}

#[test]
fn s28_files_outside_of_a_list_are_reported_by_work() {
    let place = Place::new();
    place.write(
        "p.yaml",
        "steps:\n  - {id: a, changes: [a.py]}\n  - {id: b, after: [a], changes: [b.py]}\n  \
         - {id: c, after: [b]}\n",
    );
    place.ledger("init").code(0);
    place.ledger("plan propose p.yaml").code(0);
    place.write("w.sh", "echo 1 > $LEDGER_STEP.py; test $LEDGER_STEP = a || echo 1 > other.py\n");
    let ended = place.ledger_with(&["work", "--worker", "w", "--", "sh", "w.sh"]).code(0);
    let note = "changed files outside the step's `changes`: other.py";
    assert!(ended.err.contains(&format!("step b: {note}")), "{}", ended.err);
    assert_eq!(ended.err.matches(note).count(), 1, "{}", ended.err);
}

/// What another worker of the same folder may change is not held against this one.
#[test]
fn s28_files_of_other_workers_are_not_outside_of_a_list() {
    let place = Place::new();
    place.write(
        "p.yaml",
        "steps:\n  - {id: a, changes: [a.py]}\n  - {id: b, changes: [b.py]}\n  - {id: c, changes: [c.py]}\n",
    );
    place.ledger("init").code(0);
    place.ledger("plan propose p.yaml").code(0);
    place.write(
        "w.sh",
        "touch here.$LEDGER_STEP; until test -e here.a && test -e here.b; do sleep 0.05; done; sleep 0.3; \
         echo 1 > $LEDGER_STEP.py; sleep 0.3\n",
    );
    let worker = |name: &str| {
        let args = ["work", "--worker", name, "--max", "1", "--", "sh", "w.sh"];
        start(&mut place.command(&args))
    };
    let (one, two) = (worker("one"), worker("two"));
    for ended in [one.end().code(0), two.end().code(0)] {
        assert!(!ended.err.contains(".py"), "{}", ended.err);
    }
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
    let ended = place.ledger(&format!("receipt {token} --receipt receipt.json --json")).code(0);
    assert_eq!(ended.lines()[0]["replan"], json!({"from": "a", "kind": "new_evidence"}));
    let asked = place.ledger("inspect .ledger records --kind replan_requested --json").lines();
    assert_eq!(
        (&asked[0]["event"]["trigger"]["is"], &asked[0]["event"]["from"]),
        (&"new_evidence".into(), &1.into())
    );
    place.ledger("status").says(&["a is wrong"]);
}

#[test]
fn s15_broken_assumption_without_allowed_replans_names_what_is_missing() {
    let place = Place::planned("steps:\n  - {id: a, retry: {max_attempts: 1}}\n");
    let token = place.ledger("claim --run plan --worker w").code(0).token();
    let words = ["--failed", "assumption-broken", "--message", "the file is another one"];
    place.ledger_with(&[&["receipt", &token][..], &words].concat()).code(0);
    place.ledger("next").says(&["it allows no other plan", "`max_replans`", "--planner"]);
}

#[test]
fn s15_answers_name_the_kind_of_a_request() {
    let place =
        Place::planned("failure: {max_replans: 2}\nsteps:\n  - {id: a}\n  - {id: b, after: [a]}\n");
    let request = "plan request plan --kind scope-change --from a --reason more --by ana";
    place
        .ledger(request)
        .code(0)
        .says(&["another plan is requested (scope change) from step a on"]);
    place.ledger("plan withdraw plan").code(0);
    let line = place.ledger(&format!("{request} --json")).code(0).lines().remove(0);
    assert_eq!((&line["kind"], &line["from"]), (&"scope_change".into(), &"a".into()));
    let place = Place::planned("failure: {max_replans: 2}\nsteps:\n  - {id: a}\n");
    let token = place.ledger("claim --run plan --worker w").code(0).token();
    place.write(
        "r.json",
        r#"{"outcome": "replan_requested", "message": "no", "kind": "new_evidence"}"#,
    );
    place
        .ledger(&format!("receipt {token} --receipt r.json"))
        .code(0)
        .says(&["another plan is requested (new evidence)"]);
}

// S9: canned outputs.

// S29: the next session starts from the PLAN artifact.

#[test]
fn s29_next_session_starts_from_the_plan_artifact() {
    let place = Place::new();
    place.write(
        "PLAN.md",
        "# PLAN: Ship the cache\n\nFrom: docs/spec.md\n\n## Outcome\nReads are fast.\n\n## Phases\n\
         1. **Phase 1: Measure** \u{2014} find what is slow\n   - Run the profiler\n   - Write a table\n\n\
         2. **Phase 2: Fix** \u{2014} make it fast\n   - Add the cache\n\n## Next Action\nOpen the profiler.\n\n\
         ## Risks / Open Questions\n- Is there enough memory?\n- The cache may be stale\n",
    );
    place
        .ledger_with(&[
            "run",
            "PLAN.md",
            "--run",
            "ship",
            "--worker",
            "exit $((LEDGER_STEP_NUMBER == 2))",
        ])
        .code(3);
    // The form is that of the file.
    let text = place.ledger("plan export ship").code(0).out;
    for part in [
        "# PLAN: Ship the cache\n\nFrom: docs/spec.md\n",
        "1. **Phase 1: Measure** \u{2014} find what is slow\n   - [x] Run the profiler\n   - [ ] Write a table\n",
        "## Risks / Open Questions\n- Is there enough memory?\n- The cache may be stale\n- 1.2: exit status 1",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let next = text.split("## Next Action\n").nth(1).unwrap().lines().next().unwrap();
    assert!(next.starts_with("Write a table (question "), "{text}");
    // Another session, in a ledger of its own, begins with the second action.
    let other = Place::new();
    other.write("PLAN.md", &text);
    other.ledger_with(&["run", "PLAN.md", "--worker", "echo $LEDGER_STEP >> $TALLY"]).code(0);
    assert_eq!(other.tally(), ["1.2", "2.1"]);
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
        ("plan", "PLAN.md"),
        ("tasks", "tasks.md"),
        ("task-master", "tasks.json"),
        ("beads", "issues.jsonl"),
        ("cursor", "to-do.plan.md"),
    ] {
        let ended = place.ledger(&format!("plan export p --form {form} -o {file}")).code(0);
        ended.complains(&["this form has no place for: ", "command of 4 steps", "gate of 1 step"]);
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
    assert!(place.read("tasks.md").contains("<!-- ledger: Next action: "));
    assert!(place.read("to-do.plan.md").contains("<!-- ledger: Next action: "));
    assert!(!place.read("tasks.out.json").contains("Next action"), "a note is no part of the plan");
    place.ledger("plan export p --form spec-kit").code(2).complains(&["T001", "choose another"]);
    // What a form cannot say is refused.
    place.write("any.yaml", "steps: [{id: a}, {id: b}, {id: c, after: [e]}]\nbarriers: [{id: e, members: [a, b], needs: any}]\n");
    place
        .ledger("plan export any.yaml --form beads")
        .code(2)
        .complains(&["does not need all of its members", "choose another format"]);
}

// S21: a view is a function of the log, so it is as new as the last record.

/// When a step begins, the end of the one before it is in the views.
#[test]
fn s21_view_has_the_end_of_a_step_before_the_next_one_begins() {
    let place = Place::new();
    let program = crate::command::PROGRAM;
    place.write(
        "p.yaml",
        format!(
            "steps:\n  - {{id: a, command: 'true'}}\n  - {{id: b, after: [a], command: '{program} status .ledger --view user \
             > seen'}}\n"
        ),
    );
    place.ledger("run p.yaml").code(0);
    let seen = place.read("seen");
    assert!(seen.contains("a \u{2713}") && seen.contains("working on: #2 b"), "{seen}");
}

/// From the last action of a worker to the view that has its end, less than 500 ms pass. Nothing polls, so
/// the fastest of some steps shows it on a machine with other work, too.
#[test]
fn s21_view_is_updated_within_500_ms_of_the_end_of_a_step() {
    let place = Place::new();
    let mut plan = "steps:\n".to_owned();
    for number in 0..6 {
        let after = if number == 0 { String::new() } else { format!(", after: [s{}]", number - 1) };
        writeln!(
            plan,
            "  - {{id: s{number}{after}, command: 'sleep 0.3; date +%s%N > ended.s{number}'}}"
        )
        .unwrap();
    }
    place.write("p.yaml", plan);
    let mut runner = start(&mut place.command(&["run", "p.yaml"]));
    let mut seen = std::collections::BTreeMap::new();
    while !runner.is_over() {
        let view = place.ledger("status .ledger --view user");
        let now = std::time::UNIX_EPOCH.elapsed().unwrap();
        for number in 0..6 {
            if view.out.contains(&format!("s{number} \u{2713}")) {
                seen.entry(number).or_insert(now);
            }
        }
    }
    runner.end().code(0);
    let delay = |(number, seen): (&u32, &std::time::Duration)| {
        let ended: u128 = place.read(&format!("ended.s{number}")).trim().parse().unwrap();
        seen.as_nanos().saturating_sub(ended)
    };
    let delays: Vec<u128> = seen.iter().map(delay).collect();
    assert!(delays.iter().min().is_some_and(|least| *least < 500_000_000), "{delays:?}");
}

// S24: a run in which nothing begins any more.

#[test]
fn s24_stall_is_detected() {
    use plan_ledger::plan::{STALL_AFTER, Warning};
    let place = Place::planned("steps: [{id: a}, {id: b}]\n");
    place.ledger("claim --run plan --worker w").code(0);
    let state = place.state();
    let run = state.run_named("plan").unwrap();
    let stalled = |later: u64| {
        let found = run.warnings(state.time, state.time + later);
        found.into_iter().find(|warning| matches!(warning, Warning::Stalled { .. }))
    };
    assert_eq!(stalled(STALL_AFTER / 2), None);
    let elapsed = STALL_AFTER + 1_000_000;
    let Some(Warning::Stalled { ready, in_flight, .. }) = stalled(elapsed) else {
        panic!("no warning");
    };
    assert_eq!((ready, in_flight), (1, 1));
}
