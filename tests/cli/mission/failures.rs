//! What happens after a failure: rules, classes, people, replans, and the two examples of a plan that
//! is executed.

use crate::command::Place;

/// The loan approval, with the fields of the text.
const LOAN: &str = r#"title: Process loan application
steps:
  - id: verify_identity
    goal: Verify the identity of the applicant
    command: "echo '{\"identity_verified\": true}'"
    outputs: [identity_verified]
    preconditions: ['applicant_id != ""']
    acceptance: [{cel: output.identity_verified == true}]
    retry: {max_attempts: 2, backoff_seconds: 5}
  - id: pull_credit
    goal: Retrieve the credit score
    command: ./bureau.sh
    inputs: [identity_verified]
    outputs: [credit_score]
    preconditions: [identity_verified == true]
    acceptance: [{cel: 'output.credit_score >= 300 && output.credit_score <= 850'}]
    failure_class: retrieval_failure
    retry: {max_attempts: 3}
    after: [verify_identity]
  - id: compliance_check
    goal: Check the rules
    command: ./compliance.sh
    outputs: [compliance_flag]
    preconditions: [credit_score > 0]
    acceptance: [{cel: 'output.compliance_flag in ["pass", "review"]'}]
    retry: {max_attempts: 1}
    after: [pull_credit]
  - id: human_review
    goal: A person decides about the loan
    inputs: [credit_score]
    outputs: [human_override]
    condition: compliance_flag == "review"
    gate:
      question: May this loan go ahead?
      options: [approved, denied]
      to: reviewer
      deadline_seconds: 172800
      on_timeout: {escalate_to: manager}
    after: [compliance_check]
  - id: issue_decision
    goal: Write the decision
    command: "echo '{\"decision\": \"approved\"}'"
    outputs: [decision]
    acceptance: [{cel: 'output.decision in ["approved", "denied"]'}]
    idempotent: with_key
    after: [human_review]
"#;

/// The loan plan, with a bureau that fails once with status 503, and a compliance check that prints
/// this flag.
fn loan(flag: &str) -> Place {
    let place = Place::new();
    place.write("loan.yaml", LOAN);
    script(
        &place,
        "bureau.sh",
        "if [ ! -e called ]; then touch called; echo 'HTTP 503' >&2; exit 75; fi\n\
         echo '{\"credit_score\": 720}'\n",
    );
    script(
        &place,
        "compliance.sh",
        &format!("echo '{{\"compliance_flag\": \"'$(cat flag 2>/dev/null || echo {flag})'\"}}'\n"),
    );
    place.ledger("init").code(0);
    place.ledger("plan propose loan.yaml").code(0);
    place.ledger("set --run loan applicant_id A-7291").code(0);
    place
}

fn script(place: &Place, name: &str, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = place.write(name, format!("#!/bin/sh\n{text}"));
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

// S18, S23: the loan approval.

/// A 503 is transient and retried; the review is a decision of a person, with what it needs; and the
/// runner is killed in the middle.
#[test]
fn s23_loan_is_approved_by_the_answer_of_a_person() {
    let place = loan("review");
    place.ledger("run loan.yaml --kill-at 3");
    place.ledger("run loan.yaml").code(3).says(&["May this loan go ahead?", "for reviewer"]);
    let asked = place.ledger("questions").code(0);
    asked.says(&["approved", "denied", "credit_score: 720", "compliance_flag: \"review\""]);
    let wrong = place.ledger("answer loan human_review perhaps --by ana").code(6);
    wrong.complains(&["approved"]);
    place.ledger("answer loan human_review approved --by ana").code(0).says(&["accepted"]);
    place.ledger("get human_override --run loan").code(0).says(&["approved"]);
    place.ledger("run loan.yaml").code(0);
    place.ledger("inspect .ledger step loan human_review").says(&["the answer of ana"]);
    // The bureau was asked again once, and the rest once.
    let failures = place.ledger("inspect .ledger records --kind failure_decided --json").lines();
    let count = failures.iter().filter(|line| line["type"] == "record").count();
    assert_eq!(count, 1, "{failures:?}");
}

/// The exercise of the text: a person decides about a flag that is not expected, with the value at hand.
#[test]
fn s18_unexpected_flag_is_put_to_a_person_with_its_context() {
    let place = loan("system_error");
    place.ledger("run loan.yaml").code(3).says(&["system_error"]);
    let asked = place.ledger("questions").code(0);
    asked
        .says(&["retry", "replan", "abort", "failure: criterion", "compliance_flag"])
        .says(&[r#"output: {"compliance_flag":"system_error"}"#]);
    place.write("flag", "pass");
    place.ledger("answer loan compliance_check retry --by ana").code(0);
    place.ledger("run loan.yaml").code(0).says(&["done"]);
    let decided = place.ledger("inspect .ledger records --kind failure_decided").code(0);
    decided.says(&["escalate.attempts_exhausted", "answer:ana"]);
}

#[test]
fn s18_other_branches_continue_while_a_person_is_asked() {
    let place = Place::new();
    place.write(
        "p.yaml",
        "steps:\n  - {id: a, command: 'false'}\n  - {id: b, command: 'true'}\n  \
         - {id: c, command: 'true', after: [b]}\n",
    );
    place.ledger("run p.yaml").code(3).says(&["2 of 3 steps accepted"]);
    // The run states what happens instead.
    place.ledger("run p.yaml --run failing --on-unknown fail").code(1);
    place.ledger("run p.yaml --run again --on-unknown retry").code(1);
}

#[test]
fn s18_rules_see_output_variables_and_budget() {
    let place = Place::new();
    let plan = |cel: &str| {
        format!(
            "budget: {{money_micros: 250000}}\ninputs: {{strict: {{default: true}}}}\nfailure: {{rules: [{{id: own, when: {{cel: \"{cel}\"}}, \
             then: fail}}]}}\nsteps:\n  - id: a\n    command: \"echo '{{\\\"flag\\\": \\\"bad\\\"}}'\"\n    \
             failure_class: deterministic\n    acceptance: [{{cel: output.flag == 'good'}}]\n"
        )
    };
    place.write(
        "p.yaml",
        plan(
            "strict && output.flag == 'bad' && failure.number == 1 && budget.money_micros > 100000",
        ),
    );
    place.ledger("run p.yaml").code(1);
    let decided = place.ledger("inspect .ledger records --kind failure_decided --json").lines();
    assert_eq!(decided[0]["event"]["rule"], "own");
    assert_eq!(decided[0]["event"]["class"], "deterministic");
    place.write("bad.yaml", plan("output.flag =="));
    place.ledger("plan lint bad.yaml").code(2).says(&["not a CEL expression"]);
}

// S20: a decider is a command.

#[test]
fn s20_decider_classifies_and_decides() {
    let place = Place::new();
    place.write(
        "p.yaml",
        "failure: {decider: external}\nsteps:\n  - id: a\n    command: |\n      test -e fixed || \
         { echo 'disk quota' >&2; exit 1; }\n",
    );
    script(
        &place,
        "decider.sh",
        "cat > request; touch fixed\n\
         echo '{\"decision\": \"retry\", \"class\": \"transient\", \"reason\": \"the quota is raised\"}'\n",
    );
    place.ledger("run p.yaml --decider ./decider.sh").code(0);
    let request: serde_json::Value = serde_json::from_str(&place.read("request")).unwrap();
    assert_eq!(request["failure"]["message"], "exit status 1: disk quota");
    assert_eq!(request["step"]["id"], "a");
    let decided = place.ledger("inspect .ledger records --kind failure_decided --json").lines();
    assert_eq!(
        (decided[0]["event"]["rule"].as_str(), decided[0]["event"]["class"].as_str()),
        (Some("decider:decider.sh"), Some("transient"))
    );
    // A reply that is no decision leaves the failure to a person.
    std::fs::remove_file(place.path("fixed")).unwrap();
    place.ledger("run p.yaml --run other --decider true").code(3).says(&["waits for a decision"]);
}

// S19: the coding agent.

/// Version 1 picks the wrong file. The failed regression test is a broken assumption, so the search
/// is done again with the reason, and the right file is found.
#[test]
fn s19_diagnosis_is_done_again_with_the_reason() {
    let place = Place::new();
    place.write(
        "bug.yaml",
        r#"title: Fix the timeout
failure:
  rules:
    - id: wrong-cause
      when: {step: run_suite, class: assumption_broken}
      then: {replan: {from: diagnose}}
steps:
  - {id: search, command: "echo '[\"session_handler.py\", \"token_refresh.py\"]'", outputs: [files]}
  - {id: diagnose, after: [search], inputs: [files], outputs: [root_cause]}
  - {id: fix, after: [diagnose], inputs: [root_cause], command: "cat > task; ./fix.sh"}
  - id: run_suite
    after: [fix]
    command: "grep -q token_refresh.py fixed || { echo 'regression test still fails' >&2; exit 1; }"
    failure_class: assumption_broken
"#,
    );
    script(&place, "fix.sh", "grep -o '[a-z_]*.py' task | tail -1 > fixed\n");
    // The worker excludes the file that was tried, because it is told.
    script(
        &place,
        "worker.sh",
        "cat > seen; case $(cat seen) in\n  *'regression test still fails'*session_handler*) \
         echo '\"token_refresh.py\"' ;;\n  *) echo '\"session_handler.py\"' ;;\nesac\n",
    );
    // The planner has nothing to change: the request says what to do again.
    script(&place, "planner.sh", "cat > asked; cat bug.yaml\n");
    let run = "run bug.yaml --worker ./worker.sh --planner ./planner.sh --approve auto";
    place.ledger(&format!("{run} --kill-at 3")).complains(&["at most 3 times"]);
    place.ledger(run).code(0);
    assert_eq!(place.read("fixed").trim(), "token_refresh.py");
    let seen: serde_json::Value = serde_json::from_str(&place.read("seen")).unwrap();
    assert!(seen["last_failure"].as_str().unwrap().contains("regression test still fails"));
    assert!(seen["previous_attempts"][0]["message"].as_str().unwrap().contains("session_handler"));
    let record = place.ledger("inspect .ledger plan bug --replans").code(0);
    record.says(&[
        "1 replan of at most 3 count",
        "trigger: exit status 1: regression test still fails",
        "old_plan_version: 1",
        "new_plan_version: 2",
        "invalidated_steps: [diagnose, fix",
        "preserved_steps: [search]",
        "trusted_state: {files}",
    ]);
    let line = &place.ledger("inspect .ledger plan bug --replans --json").lines()[0];
    assert_eq!(
        (&line["type"], &line["trigger_kind"]),
        (&"replan_record".into(), &"assumption_broken".into())
    );
    place.ledger("inspect plan bug").code(0).says(&["by planner:planner.sh", "from bug.yaml ("]);
}

#[test]
fn s15_worker_requests_a_plan_from_a_step() {
    let place = Place::new();
    let program = crate::command::PROGRAM;
    place.write(
        "p.yaml",
        format!(
            "steps:\n  - {{id: a, command: \"echo a >> $TALLY\"}}\n  - id: b\n    after: [a]\n    command: |\n      \
             test -e asked && exit 0\n      touch asked\n      {program} plan request --from a \
             --reason 'a is wrong' >&2\n      exit 1\n"
        ),
    );
    script(&place, "planner.sh", "cat > /dev/null; cat p.yaml\n");
    place.ledger("run p.yaml --planner ./planner.sh --approve auto --on-unknown fail").code(0);
    assert_eq!(place.read("tally"), "a\na\n");
    let asked = place.ledger("inspect .ledger records --kind replan_requested --json").lines();
    assert_eq!(
        (&asked[0]["event"]["trigger"]["is"], &asked[0]["event"]["from"]),
        (&"executor_request".into(), &1.into())
    );
}

#[test]
fn s19_people_request_plans_with_a_kind() {
    let place = Place::planned("steps:\n  - {id: a}\n  - {id: b, after: [a]}\n");
    for (kind, trigger) in [
        ("scope-change", "scope_change"),
        ("new-evidence", "new_evidence"),
        ("replan", "requested"),
    ] {
        place
            .ledger_with(&[
                "plan",
                "request",
                "plan",
                "--kind",
                kind,
                "--from",
                "b",
                "--reason",
                "a fraud signal",
                "--by",
                "ana",
            ])
            .code(0)
            .says(&["from step b on"]);
        let line = place.ledger("inspect .ledger records --kind replan_requested --json").lines();
        assert_eq!(line[line.len() - 2]["event"]["trigger"]["is"], trigger);
        place.ledger("questions").code(0).says(&["a fraud signal"]);
        place.ledger("plan withdraw plan --by ana").code(0);
    }
}

#[test]
fn s19_precondition_that_is_permanently_false_aborts() {
    let place = Place::new();
    place.write(
        "p.yaml",
        "steps:\n  - {id: verify, command: 'echo 16', outputs: [age]}\n  - {id: credit, after: [verify], \
         command: 'true', preconditions: [age >= 18], on_false: abort}\n",
    );
    place.ledger("run p.yaml").code(1).says(&["aborted"]);
    place
        .ledger("inspect .ledger records --kind run_ended")
        .says(&["`age >= 18`", "no remaining step"]);
}

// S14: a person reopens accepted work.

#[test]
fn s14_accepted_step_is_done_again_with_what_follows() {
    let place = Place::new();
    place.write(
        "p.yaml",
        "steps:\n  - {id: a, command: 'echo a >> $TALLY'}\n  - {id: b, after: [a], command: 'echo b >> \
         $TALLY'}\n  - {id: side, command: 'echo s >> $TALLY'}\n  - {id: last, after: [b, side], gate: \
         {question: Done?}, command: 'true'}\n",
    );
    place.ledger("run p.yaml --max-parallel 1").code(3);
    let again = place.ledger_with(&["retry", "p", "a", "--by", "ana", "--reason", "wrong version"]);
    again.code(0).says(&["step 1 (a)", "step 2 (b)"]);
    place.ledger("run p.yaml --max-parallel 1").code(3);
    let mut done: Vec<String> = place.read("tally").lines().map(str::to_owned).collect();
    done.sort();
    assert_eq!(done, ["a", "a", "b", "b", "s"]);
    place.ledger("inspect .ledger plan p --replans").says(&["trigger: wrong version"]);
}

// S23, S27: answers with a value, and reviews that show what they decide about.

#[test]
fn s23_score_of_a_person_is_checked_and_becomes_a_variable() {
    let place = Place::planned(
        "steps:\n  - id: manual_credit_entry\n    outputs: [credit_score]\n    gate: {question: 'The score?', \
         options: [value]}\n    acceptance: [{cel: 'output.credit_score >= 300 && output.credit_score <= 850'}]\n",
    );
    place.ledger("tick").code(0);
    place.ledger("answer plan manual_credit_entry 7200 --by ana").code(0);
    place.ledger("questions").code(0).says(&["`7200` was rejected", "credit_score >= 300"]);
    place.ledger("answer plan manual_credit_entry 720 --by ana").code(0).says(&["accepted"]);
    place.ledger("get credit_score --run plan").code(0).says(&["720"]);
    place.ledger("status").says(&[": done"]);
}

#[test]
fn s27_review_shows_steps_criteria_and_what_is_done_again() {
    let place = Place::new();
    let plan = |goal: &str| {
        format!(
            "failure: {{max_replans: 3}}\nsteps:\n  - {{id: a, goal: {goal}, command: 'true', cost_estimate: \
             {{money_micros: 40000, tokens: 0}}, acceptance: [{{command: 'true'}}]}}\n  - {{id: b, after: [a], \
             goal: second, command: 'exit 3', retry: {{max_attempts: 1}}}}\n"
        )
    };
    place.write("p.yaml", plan("first"));
    place.write("next.yaml", plan("better"));
    script(&place, "planner.sh", "cat >> requests; echo >> requests; cat next.yaml\n");
    place.ledger("run p.yaml --planner ./planner.sh").code(3);
    let review = place.ledger("plan review p").code(3);
    review.says(&["1. a: better ($0.04)", "must hold: true", "done again: a"]);
    place.ledger_with(&["plan", "reject", "p", "--by", "ana", "--note", "step a was fine"]).code(0);
    place.ledger("run p.yaml --planner ./planner.sh").code(3);
    let requests = place.read("requests");
    assert!(requests.lines().last().unwrap().contains("step a was fine"), "{requests}");
}

// S28: the plan file is brought up to date from the ledger.

#[test]
fn s28_plan_of_a_run_is_written_back_with_its_progress() {
    let place = Place::new();
    place.write(
        "p.yaml",
        "title: Two steps\nsteps:\n  - {id: a, command: 'echo a >> $TALLY'}\n  - {id: b, after: [a], command: \
         'echo b >> $TALLY', gate: {question: 'Go on?'}}\n",
    );
    place.ledger("run p.yaml").code(3);
    place.ledger("plan export p -o next.yaml").code(0);
    let text = place.read("next.yaml");
    assert!(text.starts_with("# Next action: "), "{text}");
    assert!(text.contains("Go on?"), "{text}");
    place.ledger("plan export p --form md -o next.md").code(0);
    // The next session continues with it, in a ledger of its own.
    for file in ["next.yaml", "next.md"] {
        std::fs::remove_dir_all(place.path(".ledger")).unwrap();
        place.ledger(&format!("run {file} --run p --accept-rollback")).code(3);
        assert_eq!(place.read("tally"), "a\n", "{file}");
    }
}

// S9, N11: the loan can be drilled.

#[test]
fn s9_loan_is_drilled_with_canned_outputs() {
    let place = Place::new();
    let loan = LOAN.replace("    preconditions: ['applicant_id != \"\"']\n", "");
    place.write("loan.yaml", loan);
    place.ledger("drill loan.yaml").code(0).says(&["all checks hold"]);
    // The person is asked if the canned flag says so.
    let review = place.read("loan.yaml").replace(
        "    command: ./compliance.sh\n",
        "    command: ./compliance.sh\n    extra: {stub: {compliance_flag: review}}\n",
    );
    place.write("review.yaml", review);
    place.ledger("drill review.yaml --every-crash").code(0).says(&["4 steps", "all checks hold"]);
    // A step that depends on a canned output is executed only with it.
    for (stub, steps) in [("", "1 step"), (", extra: {stub: {flag: review}}", "2 steps")] {
        let check = format!("{{id: check, outputs: [flag]{stub}}}");
        let review = "{id: review, after: [check], condition: flag == 'review'}";
        place.write("p.yaml", format!("steps:\n  - {check}\n  - {review}\n"));
        place.ledger("drill p.yaml --every-crash").code(0).says(&[steps]);
        place.ledger("drill p.yaml").code(0).says(&["all checks hold"]);
    }
}

// S28: staleness.

#[test]
fn s28_files_that_changed_since_the_plan_are_reported() {
    let place = Place::new();
    std::fs::create_dir(place.path("src")).unwrap();
    place.write("src/users.py", "old");
    place.write(
        "p.yaml",
        "failure: {max_replans: 1}\nsteps:\n  - {id: a, command: 'true', changes: ['src/*.py']}\n",
    );
    place.ledger("init").code(0);
    let change = |run: &str| {
        place.write("src/users.py", "old");
        place.ledger(&format!("plan propose p.yaml --run {run}")).code(0);
        place.write("src/users.py", "new");
    };
    let what = "changed since the plan was made: src/users.py";
    change("warns");
    place.ledger("run p.yaml --run warns").code(0).complains(&[what]);
    change("asks");
    place.ledger("run p.yaml --run asks --on-stale ask").code(3).says(&[what, "ledger unpause"]);
    place.ledger("status").says(&[what]);
    place.ledger("unpause asks").code(0);
    place.ledger("run p.yaml --run asks --on-stale ask").code(0);
    change("replans");
    place
        .ledger("run p.yaml --run replans --on-stale replan")
        .code(3)
        .says(&["a new plan version is needed from step 1 (a) on", what]);
    // The plan can say so, too; the option comes first.
    let plan = place.read("p.yaml");
    place.write("p.yaml", plan.replace("max_replans: 1", "max_replans: 1, on_stale: replan"));
    change("planned");
    let needed = "a new plan version is needed from step 1 (a) on";
    place.ledger("run p.yaml --run planned").code(3).says(&[needed, what]);
    change("warned");
    place.ledger("run p.yaml --run warned --on-stale warn").code(0).complains(&[what]);
}

/// What networks and servers say about failures that pass is known; a plan's hint comes first, and why a failure has
/// its class is on record.
#[test]
fn class_of_a_failure_without_a_report_is_known_and_on_record() {
    let place = Place::new();
    place.write(
        "p.yaml",
        "steps:
  - {id: net, command: 'echo HTTP 503 Service Unavailable >&2; test $LEDGER_ATTEMPT = 2'}
  - {id: hinted, failure_hints: {moved: deterministic}, command: 'echo moved, rate limit >&2; false'}
  - {id: other, command: 'echo nonsense >&2; false'}
",
    );
    place
        .ledger("run p.yaml")
        .code(3)
        .says(&["1 of 3 steps accepted", "failed: step 2 (hinted): deterministic"]);
    place.ledger("inspect step p net").code(0).says(&["transient, because it says `http 503`"]);
    place
        .ledger("inspect step p hinted")
        .code(0)
        .says(&["its class is from the plan's hint `moved`"]);
    place.ledger("questions").says(&["step 3 (other)"]);
}

/// Such a failure is not repeated at once, and a person is asked after the last attempt: the words may be about
/// something else.
#[test]
fn failure_that_words_make_transient_waits_and_is_asked_about() {
    let place = Place::new();
    let steps = "steps: [{id: a, command: 'echo request timed out >&2; false'}, {id: b, after: [a], command: 'true'}]";
    place.write("p.yaml", steps);
    place.ledger("run p.yaml").code(3).says(&["request timed out"]);
    let record = place.ledger("inspect step p a").code(0);
    assert_eq!(record.out.matches("transient failure, to be retried at 2").count(), 2);
    record.says(&["attempt 3", "escalate.attempts_exhausted"]);
    place.ledger("questions").code(0).says(&["step 1 (a)"]);
    place.ledger("answer p a skip --by ana").code(0);
    place.ledger("run p.yaml").code(0);
}

/// A failed criterion has a class of its own: it is retried as the step says, asks nothing, and rules match it.
#[test]
fn s18_failed_criterion_has_its_class() {
    let place = Place::new();
    let criterion = "acceptance: [{command: 'echo wrong >&2; false'}]";
    place.write(
        "p.yaml",
        format!(
            "failure:
  rules:
    - {{id: soft, when: {{class: criterion_failed, step: ruled}}, then: fallback}}
    - {{id: odd, when: {{class: unknown}}, then: abort}}
steps:
  - {{id: plain, command: 'echo plain >> $TALLY', {criterion}}}
  - {{id: twice, command: 'echo twice >> $TALLY', {criterion}, retry: {{per_class: {{criterion_failed: 2}}}}}}
  - {{id: ruled, command: 'echo ruled >> $TALLY', {criterion}, fallback: {{value: {{value: 1}}}}}}
  - {{id: hinted, command: 'echo hinted >> $TALLY', {criterion}, failure_hints: {{wrong: deterministic}}}}
"
        ),
    );
    let words = ["run", "p.yaml", "--max-parallel", "1"];
    let ended = place.ledger_with(&words).code(1);
    ended.says(&[
        "failed: step 1 (plain): criterion_failed: criterion 1",
        "step 4 (hinted): deterministic",
    ]);
    let count = |step: &str| place.tally().iter().filter(|line| *line == step).count();
    assert_eq!(["plain", "twice", "ruled", "hinted"].map(count), [3, 2, 1, 1]);
    let class = |step: &str| {
        let line = place.ledger(&format!("inspect .ledger step p {step} --json")).lines().remove(0);
        line["last_failure"]["class"].clone()
    };
    assert_eq!(
        ["plain", "twice", "hinted"].map(class),
        ["criterion_failed", "criterion_failed", "deterministic"]
    );
    place.ledger("questions").code(0).says(&["nothing"]);
    place.ledger("verify .ledger").code(0);
}

/// A value that no step sets is asked for at the start. The same file would wait for it again, so no plan is proposed.
#[test]
fn value_that_no_step_sets_is_asked_for_first() {
    let place = Place::new();
    place.write(
        "p.yaml",
        "steps: [{id: a, command: 'true', preconditions: [has(variables.applicant)]}]",
    );
    let ended = place.ledger("run p.yaml").code(3);
    let set = "ledger set applicant VALUE --run p";
    let ended = ended.complains(&["no step sets `applicant`, which a precondition reads", set]);
    assert!(ended.out.contains(set) && !ended.out.contains("plan propose"), "{}", ended.out);
    place.ledger("next").says(&[set]);
    place.ledger("set applicant A-1 --run p").code(0);
    let ended = place.ledger("run p.yaml").code(0);
    assert!(!ended.err.contains("no step sets"), "{}", ended.err);
}

/// The same for a value that a step takes as an input, although the plan does not declare it.
#[test]
fn input_that_no_step_sets_is_asked_for_first() {
    let place = Place::new();
    place.write(
        "p.yaml",
        "steps:\n  - {id: a, command: 'echo 1', inputs: [applicant], outputs: [score]}
  - {id: b, command: 'true', inputs: [score, applicant], after: [a]}\n",
    );
    let ended = place.ledger("run p.yaml").code(0);
    let text = "no step sets `applicant`, which step 1 (a) takes as an input: `ledger set applicant VALUE --run p`";
    assert_eq!(ended.err.matches("no step sets").count(), 1, "{}", ended.err);
    ended.complains(&[text]);
    let ended = place.ledger("run p.yaml --run other --set applicant=A-1").code(0);
    assert!(!ended.err.contains("no step sets"), "{}", ended.err);
}

#[test]
fn s28_views_name_files_that_changed_since_the_plan() {
    let place = Place::new();
    for name in ["a.txt", "b.txt", "both.txt"] {
        place.write(name, "old");
    }
    place.write(
        "p.yaml",
        "steps:\n  - {id: a, command: 'true', changes: [a.txt, new.txt]}\n  - {id: b, command: 'true', after: [a], changes: \
         ['b*.txt', both.txt]}\n  - {id: c, command: 'true', after: [b], changes: [both.txt]}\n",
    );
    place.ledger("init").code(0);
    place.ledger("plan propose p.yaml --run p").code(0);
    let stale = |step: &str| {
        let line = place.ledger(&format!("inspect .ledger step p {step} --json")).lines().remove(0);
        line["stale_files"].clone()
    };
    let all = |line: &str| place.ledger(line).code(0).lines().remove(0)["stale_files"].clone();
    assert_eq!((stale("a"), all("next --json")), (serde_json::json!([]), serde_json::json!([])));
    for name in ["a.txt", "b.txt", "both.txt"] {
        place.write(name, "new");
    }
    place.write("new.txt", "was not there");
    assert_eq!(stale("a"), serde_json::json!(["a.txt", "new.txt"]));
    assert_eq!(stale("b"), serde_json::json!(["b.txt"]), "another step may change both.txt");
    assert_eq!(stale("c"), serde_json::json!([]));
    let what = "changed since the plan was made: a.txt, new.txt";
    place.ledger("inspect .ledger step p a").code(0).says(&[what]);
    for command in ["status", "next", "inspect .ledger plan"] {
        let second = "changed since the plan was made: b.txt";
        place.ledger(command).code(0).says(&["warning: #1 a", what, second]);
        let expected = serde_json::json!([
            {"step": 1, "files": ["a.txt", "new.txt"]},
            {"step": 2, "files": ["b.txt"]},
        ]);
        assert_eq!(all(&format!("{command} --json")), expected, "{command}");
    }
    // In another folder nothing is known.
    let other = tempfile::tempdir().unwrap();
    let ledger = place.path(".ledger");
    let mut elsewhere = place.command(&["status", "--json"]);
    let elsewhere = elsewhere.arg(ledger).current_dir(other.path()).output().unwrap();
    let text = String::from_utf8(elsewhere.stdout).unwrap();
    let line: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(line["stale_files"], serde_json::Value::Null, "{text}");
    // A step that began has no such list, and neither has a version that was replaced.
    place.ledger("run p.yaml --run p").code(0);
    assert_eq!(stale("a"), serde_json::Value::Null);
    for plan in ["steps: [{id: a, changes: [a.txt]}]\n", "steps: [{id: b}]\n"] {
        place.write("q.yaml", plan);
        place.ledger("plan propose q.yaml --run q").code(0);
    }
    assert_eq!(all("inspect .ledger plan q --version 1 --json"), serde_json::Value::Null);
}

// S18: what the classes lead to without a rule.

/// A transient failure of a step that states no `retry` waits for seconds, and the next one for twice as
/// long, shortened by at most a fifth. A step that succeeds then is accepted.
#[test]
fn s18_transient_failure_backs_off_by_default() {
    let place = Place::new();
    let once = "test $LEDGER_ATTEMPT = 2 || exit 75";
    place.write(
        "plan.yaml",
        format!("steps: [{{id: a, command: exit 75}}, {{id: once, command: '{once}'}}]\n"),
    );
    place.ledger("run plan.yaml").code(1).says(&["1 of 2 steps accepted"]);
    let of = |kind: &str, step: u64| {
        let records = place.ledger(&format!("inspect .ledger records --kind {kind} --json"));
        let mut lines = records.lines();
        lines.retain(|line| line["event"]["step"] == step);
        lines
    };
    let records = of("receipt_recorded", 1);
    let delays: Vec<u64> = records
        .iter()
        .filter_map(|line| {
            line["event"]["receipt"]["outcome"]["payload"]["backoff_seconds"].as_u64()
        })
        .collect();
    let [first, second, third] = delays[..] else { panic!("{records:#?}") };
    assert!((1..=2).contains(&first) && (3..=4).contains(&second) && (6..=8).contains(&third));
    // They were waited for: the next dispatch comes no sooner.
    for (step, count) in [(1, 3), (2, 2)] {
        let times = of("dispatched", step);
        let at: Vec<u64> =
            times.iter().filter_map(|line| line["time"]["micros"].as_u64()).collect();
        for (pair, delay) in at.windows(2).zip(&delays) {
            assert!(pair[1] - pair[0] >= delay * 1_000_000, "{at:?} {delays:?}");
        }
        assert_eq!(at.len(), count);
    }
}

/// A deterministic failure is not repeated: another plan is asked for from the step that set its input.
#[test]
fn s18_deterministic_failure_asks_for_a_plan_upstream() {
    let place = Place::new();
    place.write(
        "p.yaml",
        "steps:\n  - {id: extract, command: 'test -e right && echo 1 || echo 0', outputs: [rows]}\n  \
         - {id: side, command: 'echo side >> $TALLY'}\n  - id: load\n    after: [extract]\n    inputs: [rows]\n    \
         failure_class: deterministic\n    command: 'echo load >> $TALLY; grep -q \"rows.:[1]\"'\n",
    );
    script(&place, "planner.sh", "cat > asked; touch right; cat p.yaml\n");
    place.ledger("run p.yaml --planner ./planner.sh --approve auto").code(0);
    let asked: serde_json::Value = serde_json::from_str(&place.read("asked")).unwrap();
    assert_eq!(asked["request"]["from"], "extract", "{asked}");
    let mut tally = place.tally();
    tally.sort();
    assert_eq!(tally, ["load", "load", "side"]);
}

/// With little money left, a rule takes the cheaper way instead of another attempt.
#[test]
fn s18_rest_of_the_budget_selects_the_cheaper_way() {
    for (money, way) in [(60_000, "cheap"), (900_000, "dear")] {
        let place = Place::new();
        place.write(
            "p.yaml",
            format!(
                "budget: {{money_micros: {money}}}\nfailure: {{rules: [{{id: too-dear, when: {{cel: \
                 'budget.money_micros < 50000'}}, then: fallback}}]}}\nsteps:\n  - {{id: dear, fallback: {{step: \
                 cheap}}, retry: {{max_attempts: 2}}}}\n  - {{id: cheap}}\n"
            ),
        );
        script(
            &place,
            "w.sh",
            "cat > /dev/null; echo \"$LEDGER_STEP $LEDGER_ATTEMPT\" >> $TALLY\n\
             if [ \"$LEDGER_STEP $LEDGER_ATTEMPT\" = 'dear 1' ]; then echo '{\"outcome\": \"failed\", \
             \"class\": \"transient\", \"message\": \"overloaded\", \"cost\": {\"money_micros\": 20000}}' \
             > $LEDGER_RECEIPT; exit 1; fi\n",
        );
        place.ledger("run p.yaml --worker ./w.sh").code(0);
        let last = place.tally().last().cloned().unwrap();
        assert!(last.starts_with(way), "{money}: {:?}", place.tally());
        assert_eq!(place.tally().len(), 2);
    }
}
