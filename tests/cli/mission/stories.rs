//! The examples of the text about executing plans, from their printed form to their end, with kills in the
//! middle: the loan, and the coding agent that looked in the wrong file.

use serde_json::{Value, json};

use plan_ledger::StepStatus;

use super::plan_files::LOAN;
use crate::command::{Place, ids, start, wait_until};

/// The workers of the loan. The bureau fails once with status 503, or always if there is a file `down`. An
/// attempt waits while the file with the name of the step and the ending `.wait` has its number.
const LOAN_WORKER: &str = r#"cat > "task.$LEDGER_STEP"
echo "$LEDGER_STEP $LEDGER_ATTEMPT $LEDGER_IDEMPOTENCY_KEY" >> "$TALLY"
while test "$(cat "$LEDGER_STEP.wait" 2> /dev/null)" = "$LEDGER_ATTEMPT"; do sleep 0.02; done
case $LEDGER_STEP in
  verify_identity) echo '{"identity_verified": true}' ;;
  pull_credit)
    if test -e down || test ! -e called; then touch called; echo 'HTTP 503' >&2; exit 75; fi
    echo '{"credit_score": 720}' ;;
  compliance_check) echo "{\"compliance_flag\": \"$(cat flag)\"}" ;;
  issue_decision) echo '{"decision": "approved"}' ;;
  *) echo '{}' ;;
esac
"#;

const APPLICANT: &str = "--set applicant_id=A-7291";

fn loan() -> Place {
    let place = Place::new();
    place.write("loan.txt", LOAN);
    place.write("worker.sh", LOAN_WORKER);
    place.write("flag", "review");
    place
}

fn run_loan(place: &Place, more: &str) -> crate::command::Ended {
    let args: Vec<&str> = "run loan.txt --worker".split(' ').chain(["sh worker.sh"]).collect();
    place.ledger_with(&[args, more.split_whitespace().collect()].concat())
}

/// The attempts that the workers of a step began.
fn begun(place: &Place, step: &str) -> usize {
    place.tally().iter().filter(|line| line.split(' ').next() == Some(step)).count()
}

fn list(state: &Value, name: &str) -> String {
    let members = state[name].as_object().unwrap().values();
    members.map(|id| id.as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
}

fn execution_state(place: &Place) -> Value {
    place.ledger("status .ledger --view execution-state --json").lines().remove(0)
}

// S17, S18, S21, S23: the loan.

/// The plan as it is printed, typed into a file: a 503 is transient, the flag asks a person, the person
/// approves. What is printed about the run is what the views show.
#[test]
fn s23_printed_loan_runs_to_its_decision() {
    let place = loan();
    place.ledger("init").code(0);
    // A missing input is refused before anything is dispatched.
    let blocked = run_loan(&place, "");
    blocked.code(3).says(&["verify_identity", "applicant_id"]);
    assert_eq!(place.tally(), [""; 0]);
    std::fs::remove_dir_all(place.path(".ledger")).unwrap();

    place.write("compliance_check.wait", "1");
    let args: Vec<&str> =
        "run loan.txt --accept-rollback --set applicant_id=A-7291 --worker".split(' ').collect();
    let runner = start(&mut place.command(&[args, vec!["sh worker.sh"]].concat()));
    wait_until("the check is at work", || begun(&place, "compliance_check") == 1);
    place.ledger("status .ledger --view execution-state").code(0).says(&[
        "current_step: [compliance_check]",
        "completed: [verify_identity, pull_credit]",
        "pending: [human_review?, issue_decision]",
        "retries_used: {pull_credit: 1}",
        "side_effects_committed: []",
        "plan_version: 1",
    ]);
    // The user sees what is done and at work, and no retries.
    let user = place.ledger("status --view user").code(0);
    user.says(&[
        "verify_identity \u{2713}",
        "pull_credit \u{2713}",
        "working on: #3 compliance_check",
    ]);
    let user = place.ledger("status .ledger --view user").code(0);
    for hidden in ["503", "retr", "attempt", "credit_agent", "fallback"] {
        assert!(!user.out.to_lowercase().contains(hidden), "{hidden}: {}", user.out);
    }
    std::fs::remove_file(place.path("compliance_check.wait")).unwrap();
    runner.end().code(3).says(&["approved", "denied"]);

    // The branch decision is on record, and the run is at the step that a person decides.
    let state = execution_state(&place);
    assert_eq!(list(&state, "current_step"), "human_review");
    assert_eq!(list(&state, "completed"), "verify_identity pull_credit compliance_check");
    assert_eq!(list(&state, "pending"), "issue_decision");
    assert_eq!(state["retries_used"], json!({"pull_credit": 1}));
    place.ledger("inspect .ledger step loan human_review").says(&["compliance_flag = \"review\""]);
    // Transient, retried, two attempts, success: the record of the modeled exercise.
    place.ledger("inspect .ledger step loan pull_credit").code(0).says(&[
        "#2 pull_credit of run loan: accepted",
        "receipt: failed (transient): exit status 75: HTTP 503",
        "transient failure, to be retried",
        "attempt 2",
    ]);
    place.ledger("questions").code(0).says(&["compliance_flag: \"review\""]);
    place.ledger("answer loan human_review perhaps --by ana").code(6);
    place.ledger("answer loan human_review approved --by ana").code(0);
    run_loan(&place, "").code(0).says(&["5 of 5 steps accepted"]);
    for (name, value) in [
        ("identity_verified", "true"),
        ("credit_score", "720"),
        ("compliance_flag", "review"),
        ("human_override", "approved"),
        ("decision", "approved"),
    ] {
        place.ledger(&format!("get {name} --run loan")).code(0).says(&[value]);
    }
    place.ledger("verify .ledger").code(0);
}

/// Where the runner of the loan is killed: while the step works, before its retry, or while a person is
/// asked.
const KILLS: [(&str, Option<&str>); 6] = [
    ("in the first step", Some("verify_identity")),
    ("in the first attempt at the bureau", Some("pull_credit")),
    ("before the retry", None),
    ("in the check", Some("compliance_check")),
    ("while a person is asked", None),
    ("in the decision", Some("issue_decision")),
];

/// SIGKILL at six places, one after the other, in the same run: nothing that was accepted is done again,
/// the decision has one key, and the end is the same.
#[test]
fn s23_printed_loan_survives_kills_in_its_middle() {
    let place = loan();
    let runner = |more: &str| {
        let line = "run loan.txt --kill-orphans --worker";
        let args: Vec<&str> = line.split(' ').chain(["sh worker.sh"]).collect();
        let more: Vec<&str> = more.split_whitespace().collect();
        start(&mut place.command(&[args, more].concat()))
    };
    // Each of these waits in its first attempt.
    for step in KILLS.iter().filter_map(|(_, step)| *step) {
        place.write(&format!("{step}.wait"), "1");
    }
    let mut more = APPLICANT;
    for (where_to, step) in KILLS {
        let killed = runner(more);
        let is_there = || match step {
            Some(step) => begun(&place, step) > 0,
            None => match place.state().run_named("loan") {
                Some(run) if where_to == "before the retry" => {
                    !ids(run, StepStatus::Delayed).is_empty()
                }
                Some(run) => !ids(run, StepStatus::Gated).is_empty(),
                None => false,
            },
        };
        wait_until(where_to, is_there);
        assert!(killed.kill().was_killed() || step.is_none(), "{where_to}");
        if where_to == "while a person is asked" {
            place.ledger("answer loan human_review approved --by ana").code(0);
        }
        more = "";
    }
    run_loan(&place, "--kill-orphans").code(0).says(&["5 of 5 steps accepted"]);
    // Each step was begun once more than it was killed, and the bureau once more for its 503.
    for (step, times) in
        [("verify_identity", 2), ("pull_credit", 3), ("compliance_check", 2), ("issue_decision", 2)]
    {
        assert_eq!(begun(&place, step), times, "{step}: {:?}", place.tally());
    }
    let tally = place.tally();
    let keys: Vec<&str> = tally
        .iter()
        .filter_map(|line| line.strip_prefix("issue_decision "))
        .filter_map(|line| line.split(' ').nth(1))
        .collect();
    assert!(!keys[0].is_empty() && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    // No step is dispatched after it was accepted.
    let mut accepted = std::collections::BTreeSet::new();
    for record in place.ledger("inspect .ledger records --json").lines() {
        let step = record["event"]["step"].as_u64();
        match record["kind"].as_str() {
            Some("accepted") => _ = accepted.insert(step),
            Some("dispatched") => assert!(!accepted.contains(&step), "{record}"),
            _ => {}
        }
    }
    assert_eq!(accepted.len(), 5);
    place.ledger("get decision --run loan").code(0).says(&["approved"]);
    place.ledger("verify .ledger").code(0);
}

/// The version that a planner makes when the bureau does not answer: a person enters the score.
fn manual_entry(place: &Place) -> Value {
    place.ledger("plan export loan.txt --form json -o v1.json").code(0);
    let mut plan: Value = serde_json::from_str(&place.read("v1.json")).unwrap();
    plan["steps"][1] = json!({
        "id": "manual_credit_entry",
        "goal": "A person enters the score",
        "after": ["verify_identity"],
        "outputs": ["credit_score"],
        "gate": {"question": "Which score does the bureau give?", "options": ["value"], "to": "reviewer"},
        "acceptance": [{"cel": "output.credit_score >= 300 && output.credit_score <= 850"}],
    });
    plan["steps"][2]["after"] = json!(["manual_credit_entry"]);
    plan
}

/// The printed replan record: the retries are used up, the step of the bureau goes, the identity stays, and
/// a person provides the score.
#[test]
fn s19_printed_loan_is_replanned_when_the_bureau_stays_down() {
    let place = loan();
    place.write("down", "");
    place.write("flag", "pass");
    place.write("v2.json", manual_entry(&place).to_string());
    place.write("planner.sh", "cat > /dev/null; cat v2.json\n");
    let planner = ["--planner", "sh planner.sh", "--approve", "auto"];
    let run = |more: &[&str]| {
        let args = ["run", "loan.txt", "--worker", "sh worker.sh"];
        place.ledger_with(&[&args[..], &planner[..], more].concat())
    };
    let killed = run(&["--set", "applicant_id=A-7291", "--kill-at", "2"]);
    assert!(killed.was_killed());
    run(&[]).code(3).says(&["Which score does the bureau give?"]);
    let record = place.ledger("inspect .ledger plan loan --replans").code(0);
    record.says(&[
        "1 replan of at most 3 count",
        "trigger: failure 3 of at most 3: exit status 75: HTTP 503",
        "old_plan_version: 1",
        "new_plan_version: 2",
        "invalidated_steps: [pull_credit]",
        "preserved_steps: [verify_identity]",
        "new_steps: [manual_credit_entry]",
        "trusted_state: {applicant_id, identity_verified}",
    ]);
    let line = place.ledger("inspect .ledger plan loan --replans --json").lines().remove(0);
    assert_eq!(line["new_steps"], json!(["manual_credit_entry"]), "{line}");
    place.ledger("answer loan manual_credit_entry 72 --by ana").code(0);
    place.ledger("questions").code(0).says(&["`72` was rejected"]);
    place.ledger("answer loan manual_credit_entry 720 --by ana").code(0);
    run(&[]).code(0);
    assert_eq!(begun(&place, "verify_identity"), 1, "its work was preserved");
    place.ledger("get credit_score --run loan").code(0).says(&["720"]);
}

/// "Also check business credit, not just personal": a branch is added, finished work stays, and the change
/// of scope is no replan.
#[test]
fn s19_printed_loan_gets_a_branch_when_the_scope_changes() {
    let place = loan();
    run_loan(&place, APPLICANT).code(3);
    let request = "plan request loan --kind scope-change --by ana --reason";
    let words: Vec<&str> = request.split(' ').chain(["Also check business credit"]).collect();
    place.ledger_with(&words).code(0);
    place.ledger("plan export loan.txt --form json -o v1.json").code(0);
    let mut plan: Value = serde_json::from_str(&place.read("v1.json")).unwrap();
    let branch = json!({"id": "business_credit", "goal": "Check business credit", "after": ["verify_identity"]});
    plan["steps"].as_array_mut().unwrap().push(branch);
    plan["steps"][4]["after"].as_array_mut().unwrap().push("business_credit".into());
    place.write("v2.json", plan.to_string());
    place.ledger("plan propose v2.json --run loan --by ana").code(0);
    let line = place.ledger("inspect .ledger plan loan --replans --json").lines().remove(0);
    assert_eq!(
        (&line["trigger_kind"], &line["new_steps"], &line["invalidated_steps"]),
        (&"scope_change".into(), &json!(["business_credit"]), &json!([]))
    );
    let state = execution_state(&place);
    assert_eq!(list(&state, "completed"), "verify_identity pull_credit compliance_check");
    place.ledger("status --view operator").says(&["version 2 of 2, no replans"]);
    place.ledger("answer loan human_review approved --by ana").code(0);
    let args = ["run", "v2.json", "--run", "loan", "--worker", "sh worker.sh"];
    place.ledger_with(&args).code(0).says(&["6 of 6 steps accepted"]);
    assert_eq!((begun(&place, "verify_identity"), begun(&place, "business_credit")), (1, 1));
}

/// A fraud signal in the middle: the worker says that it is new evidence, and the planner adds an
/// investigation before the decision.
#[test]
fn s19_printed_loan_is_investigated_on_new_evidence() {
    let place = loan();
    place.write("flag", "pass");
    place.ledger("plan export loan.txt --form json -o v1.json").code(0);
    let mut plan: Value = serde_json::from_str(&place.read("v1.json")).unwrap();
    let branch =
        json!({"id": "investigate", "goal": "Look at the signal", "after": ["pull_credit"]});
    plan["steps"].as_array_mut().unwrap().insert(2, branch);
    plan["steps"][3]["after"] = json!(["investigate"]);
    place.write("v2.json", plan.to_string());
    place.write("planner.sh", "cat > asked.json; cat v2.json\n");
    place.write(
        "worker.sh",
        format!(
            "if test $LEDGER_STEP = compliance_check && test ! -e told; then touch told; cat > /dev/null\n\
             echo '{{\"outcome\": \"replan_requested\", \"kind\": \"new_evidence\", \"message\": \
             \"fraud signal\"}}' > \"$LEDGER_RECEIPT\"; exit 0; fi\n{LOAN_WORKER}"
        ),
    );
    let more = ["--set", "applicant_id=A-7291", "--planner", "sh planner.sh", "--approve", "auto"];
    let args = ["run", "loan.txt", "--worker", "sh worker.sh"];
    place.ledger_with(&[&args[..], &more[..]].concat()).code(0);
    let asked: Value = serde_json::from_str(&place.read("asked.json")).unwrap();
    assert_eq!(asked["request"]["trigger"]["is"], "new_evidence", "{asked}");
    assert_eq!((begun(&place, "investigate"), begun(&place, "verify_identity")), (1, 1));
    let line = place.ledger("inspect .ledger plan loan --replans --json").lines().remove(0);
    assert_eq!(line["trigger_kind"], "new_evidence", "{line}");
}

/// The budget ends before the decision: a person is asked, answers `replan`, and the planner simplifies
/// the rest, which fits.
#[test]
fn s24_exhausted_budget_leads_to_a_simpler_rest() {
    let place = Place::new();
    let plan = |model: &str, cost: u32| {
        format!(
            "budget: {{money_micros: 250000}}\nsteps:\n  - {{id: verify, cost_estimate: {{money_micros: 100000}}}}\n  \
             - {{id: credit, after: [verify], cost_estimate: {{money_micros: 100000}}}}\n  - {{id: decide, goal: \
             Decide with the {model} model, after: [credit], cost_estimate: {{money_micros: {cost}}}}}\n"
        )
    };
    place.write("p.yaml", plan("large", 100_000));
    place.write("v2.yaml", plan("small", 40_000));
    place.write("planner.sh", "cat > asked.json; cat v2.yaml\n");
    place.write(
        "worker.sh",
        "cost=100000; case $(cat) in *'the small model'*) cost=40000 ;; esac; echo $LEDGER_STEP >> $TALLY\n\
         echo \"{\\\"outcome\\\": \\\"succeeded\\\", \\\"output\\\": 1, \\\"cost\\\": {\\\"money_micros\\\": $cost}}\" \
         > \"$LEDGER_RECEIPT\"\n",
    );
    let run = || {
        let args = ["run", "p.yaml", "--worker", "sh worker.sh", "--planner", "sh planner.sh"];
        place.ledger_with(&[&args[..], &["--approve", "auto"]].concat())
    };
    let waits = run().code(3);
    waits.says(&["money budget is exhausted", "replan", "abort"]);
    let question = place.ledger("questions --json").lines().remove(0)["item"]["question"].clone();
    place.ledger(&format!("answer {question} replan --by ana")).code(0);
    run().code(0);
    assert_eq!(place.tally(), ["verify", "credit", "decide"]);
    place.ledger("budget p").says(&["money     $0.24"]);
}

// S18, S19: the coding agent.

const BUG: &str = "\
Plan v1:
step 1: search for timeout-related code in user-service/
step 2: identify root cause
step 3: implement fix
step 4: write regression test
step 5: run test suite
step 6: commit if green
";

/// The agent believes what it sees first, unless it is told that this was wrong. The suite names what it
/// refutes.
const AGENT: &str = r#"cat > task
echo "$LEDGER_STEP" >> "$TALLY"
case $LEDGER_STEP in
  1) echo '["session_handler.py", "token_refresh.py", "clock.py"]' ;;
  2) case $(cat task) in
       *'after the fix of session_handler.py'*) echo token_refresh.py > cause ;;
       *) echo session_handler.py > cause ;;
     esac
     cat cause ;;
  3) cp cause fixed ;;
  5) grep -q token_refresh.py fixed || echo "{\"outcome\": \"replan_requested\", \"from\": \"2\", \"message\": \
\"regression test still fails after the fix of $(cat fixed): the root cause may be another one\"}" > "$LEDGER_RECEIPT" ;;
esac
"#;

/// The six lines as they are printed. The fix lands with the second diagnosis, not with the twelfth retry,
/// wherever the runner is killed.
#[test]
fn s19_printed_coding_agent_finds_the_right_file_despite_kills() {
    // The runner is killed in this step, in its first attempt or after the replan.
    for (step, attempt) in [(1, 1), (2, 1), (3, 1), (5, 1), (2, 2), (3, 2), (5, 2), (6, 1)] {
        let place = Place::new();
        place.write("bug.txt", BUG);
        place.write("agent.sh", AGENT);
        place.write("planner.sh", "cat > /dev/null; cat bug.txt\n");
        let args = [
            "run",
            "bug.txt",
            "--kill-orphans",
            "--worker",
            "sh wrapper.sh",
            "--planner",
            "sh planner.sh",
            "--approve",
            "auto",
        ];
        // The worker waits at the place of the kill, once.
        place.write(
            "wrapper.sh",
            format!(
                "if test \"$LEDGER_STEP $LEDGER_ATTEMPT\" = '{step} {attempt}' && test ! -e killed; then \
                 touch killed; sleep 60; fi\n. ./agent.sh\n"
            ),
        );
        let runner = start(&mut place.command(&args));
        wait_until("the step is at work", || place.path("killed").exists());
        assert!(runner.kill().was_killed());
        place.ledger_with(&args).code(0);
        let what = format!("killed in attempt {attempt} at step {step}: {:?}", place.tally());
        assert_eq!(place.read("fixed").trim(), "token_refresh.py", "{what}");
        let count = |step: &str| place.tally().iter().filter(|line| *line == step).count();
        // The search is kept, the wrong branch is done twice, and there is one commit.
        assert_eq!((count("1"), count("3"), count("5"), count("6")), (1, 2, 2, 1), "{what}");
        let record = place.ledger("inspect .ledger plan bug --replans").code(0);
        record.says(&[
            "trigger: the worker requested a new plan: regression test still fails after the fix of \
             session_handler.py",
            "invalidated_steps: [2, 3, 4]",
            "preserved_steps: [1]",
        ]);
        let line = place.ledger("inspect .ledger metrics bug --json").lines().remove(0);
        assert_eq!(
            (&line["first_classification"]["part"], &line["replan_precision"]["part"]),
            (&1.into(), &1.into()),
            "{what}: {line}"
        );
        // The debug view has the trace: decisions, changes of the state, and what the replan changed.
        place.ledger("status .ledger --view debug").code(0).says(&[
            "replan",
            "status: \"dispatched\" -> ",
            "cost of each step",
            "session_handler.py",
        ]);
        place.ledger("verify .ledger").code(0);
    }
}

// S9, N11: the loan as it is printed can be drilled.

#[test]
fn s9_printed_loan_is_drilled_with_every_crash() {
    let place = loan();
    let drill = format!("drill loan.txt {APPLICANT}");
    place.ledger(&drill).code(0).says(&["all checks hold"]);
    let every = format!("{drill} --every-crash --agents flaky");
    place.ledger(&every).code(0).says(&["receipts lost: 0", "all checks hold"]);
}
