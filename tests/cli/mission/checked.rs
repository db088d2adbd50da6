//! Done means checked: a run that ends as done was checked, or names what was not.

use plan_ledger::plan::Criterion;
use plan_ledger_files::{self as files, Programs, ReadOptions};

use crate::command::Place;

/// A worker that does nothing and reports success.
const LAZY: &str = "--worker true";

fn read(place: &Place, text: &str) -> files::PlanFile {
    place.write("plan", text);
    let programs = Some(Programs::of_process());
    ReadOptions { programs, ..ReadOptions::default() }.read(&place.path("plan")).unwrap()
}

// S11: the acceptance of a step in Markdown.

#[test]
fn s11_backquoted_command_that_exits_0_is_executed() {
    let place = Place::new();
    place.write(
        "plan.md",
        "# Move\n\n1. Migrate the users\n- tools: Read, Edit\n- changes: src/*.py\n\
         - acceptance: `test -f moved` exits 0\n",
    );
    place.ledger(&format!("run plan.md --yes {LAZY}")).code(1).complains(&[
        "1 command that the run executes",
        "test -f moved",
        "criterion 1 does not hold",
    ]);
    place.write("moved", "");
    place.ledger(&format!("run plan.md --yes --run again {LAZY}")).code(0);
}

#[test]
fn s11_commands_of_a_file_run_only_after_approval() {
    let place = Place::new();
    place.write(
        "plan.json",
        r#"{"summary": "x", "steps": [{"order": 1, "description": "a", "validation": ["true"]}]}"#,
    );
    // Without a terminal there is no one to ask, and nothing is written.
    let refused = place.ledger(&format!("run plan.json {LAZY}")).code(2);
    refused.complains(&["1 command of the file is not approved", "--yes"]);
    assert!(!place.path(".ledger").exists());
    // Stub workers execute nothing.
    place.ledger("run plan.json --stub --run drill").code(0);
    std::fs::remove_dir_all(place.path(".ledger")).unwrap();
    place.ledger(&format!("run plan.json --yes --accept-rollback {LAZY}")).code(0);
    // The plan was approved in this ledger.
    place.ledger(&format!("run plan.json --run again {LAZY}")).code(0);
    // A native plan says what is a command, and needs no question.
    place.write(
        "own.yaml",
        "steps:\n  - {id: a, command: 'true', acceptance: [{command: 'true'}]}\n",
    );
    place.ledger("run own.yaml").code(0);
}

/// Commands in the answer of a planner are listed, and wait for a person, also with `--approve auto`.
#[test]
fn s11_commands_of_a_planner_run_only_after_approval() {
    for (approve, lists, is_active) in [
        ("--approve auto", "waits for approval", false),
        ("--approve auto --yes", "its plan has commands: test -e ok", true),
    ] {
        let place = Place::new();
        place.write("ok", "");
        place.write("plan.yaml", "steps: [{id: a, goal: A}]\ncontinues: true\nextend_at: 1\n");
        place.write(
            "answer.json",
            r#"{"steps": [{"order": 1, "description": "b", "validation": ["test -e ok"]}]}"#,
        );
        let run = format!("run plan.yaml --worker true --planner {} {approve}", "./planner");
        place.write(
            "planner",
            "#!/bin/sh\nif [ -e asked ]; then echo '{\"no_more\": \"done\"}'; else touch asked; \
             cat answer.json; fi\n",
        );
        let script = place.path("planner");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(script, mode).unwrap();
        let ended = place.ledger(&run);
        ended.complains(&[lists, "test -e ok"]);
        let state = place.state();
        let run = state.run_named("plan").unwrap();
        assert_eq!(run.versions.len(), 2);
        assert_eq!(run.active == 2, is_active, "{approve}");
    }
}

#[test]
fn s11_a_doubtful_text_is_a_command_only_if_this_machine_can_start_it() {
    let place = Place::new();
    let file = read(
        &place,
        r#"{"steps": [{"order": 1, "description": "a", "validation":
            ["sh -c true", "no-such-program --check", "make sure that it works", "test login"]}]}"#,
    );
    let criteria = &file.plan.steps[0].acceptance;
    assert_eq!(criteria[0], Criterion::Command("sh -c true".into()));
    assert_eq!(criteria[1], Criterion::Command("no-such-program --check".into()));
    assert!(criteria[2..].iter().all(|each| matches!(each, Criterion::Text(_))), "{criteria:?}");
    let file =
        read(&place, "# P\n\n## Steps\n\n1. A\n   - acceptance: `no-such-program` exits 0\n");
    assert!(matches!(file.plan.steps[0].acceptance[0], Criterion::Text(_)));
    place.ledger("plan lint plan").code(0).says(&["`no-such-program` is neither a program"]);
    // A native plan means what it says.
    let file = read(&place, "steps:\n  - {id: a, acceptance: ['`true` exits 0']}\n");
    assert_eq!(file.plan.steps[0].acceptance[0], Criterion::Text("`true` exits 0".into()));
}

/// A program that is installed later, or a script that a step writes, is no change of the plan.
#[test]
fn s11_a_script_that_a_step_writes_stops_no_run() {
    let place = Place::new();
    let plan = "# P\n\n## Steps\n\n1. A\n   - acceptance: `./check.sh` passes\n2. B\n";
    place.write("plan.md", plan);
    place.ledger("plan lint plan.md").code(0).says(&["`./check.sh` is neither", "127"]);
    place.write("work.sh", "printf '#!/bin/sh\\n' >check.sh; chmod +x check.sh");
    let run = ["run", "plan.md", "--yes", "--worker", "sh work.sh"];
    place.ledger_with(&[&run[..], &["--kill-at", "2"]].concat());
    place.ledger_with(&run).code(0).says(&["2 of 2 steps accepted"]);
}

/// The tools of a project may be in an environment of their own. Then the check fails; a worker's word does
/// not replace it.
#[test]
fn s11_a_command_whose_program_is_missing_fails() {
    let place = Place::new();
    place
        .write("a.md", "# P\n\n## Steps\n\n1. A\n   - acceptance: `no-such-tool src -q` exits 0\n");
    place.write(
        "b.json",
        r#"{"steps": [{"order": 1, "description": "b", "validation": ["no-such-tool -q"]}]}"#,
    );
    for plan in ["a.md", "b.json"] {
        place
            .ledger(&format!("plan lint {plan}"))
            .code(0)
            .says(&["`no-such-tool` is neither", "127"]);
        place
            .ledger(&format!("run {plan} --yes {LAZY}"))
            .code(1)
            .complains(&["criterion 1 does not hold", "127"]);
    }
}

// S13: the completion guard.

#[test]
fn s13_validation_that_fails_fails_the_run() {
    let place = Place::new();
    place.write(
        "auth.json",
        r#"{"steps": [{"order": 1, "description": "auth", "validation": ["false"]}]}"#,
    );
    place.ledger(&format!("run auth.json --yes {LAZY}")).code(1).complains(&["failed"]);
    place.write("auth.md", "# P\n\n## Steps\n\n1. auth\n   - acceptance: `false` exits 0\n");
    place.ledger(&format!("run auth.md --yes --run md {LAZY}")).code(1);
}

#[test]
fn s13_plan_text_is_never_taken_on_the_workers_word() {
    let place = Place::new();
    place.write(
        "plan.json",
        r#"{"steps": [{"order": 1, "description": "a"}], "test_criteria": ["users can log in"]}"#,
    );
    place.ledger(&format!("run plan.json {LAZY}")).code(3).says(&["users can log in"]);
    place.ledger("accept plan plan --by ana").code(0);
    // In a drill nothing is checked, and it says so.
    place.ledger("run plan.json --stub --run drill").code(0).complains(&["a drill"]);
    let records = place.ledger("inspect .ledger records --kind plan_verdict").code(0);
    records.says(&["with stub workers every check passes"]);
}

#[test]
fn s13_checks_on_the_workers_word_are_named_before_and_after() {
    let place = Place::new();
    place.write("plan.md", "# P\n\n## Steps\n\n1. A\n   - acceptance: it is pretty\n2. B\n");
    let ended = place.ledger(&format!("run plan.md {LAZY}")).code(0);
    ended
        .complains(&["taken on the worker's word: 1 check: #1 (1): it is pretty"])
        .says(&["on the worker's word: step 1 (1): it is pretty"]);
    let word = "taken on the worker's word: 1 check: #1 (1): it is pretty";
    place.ledger("status").code(0).says(&[word]);
    place.ledger("inspect .ledger").code(0).says(&[word]);
    let is_named = |line: &serde_json::Value| line["trusted_checks"][0]["text"] == "it is pretty";
    assert!(place.ledger("status --json").lines().iter().any(is_named));
    assert!(place.ledger("inspect .ledger --json").lines().iter().any(is_named));
    let lines = place.ledger(&format!("run plan.md --run other --json {LAZY}")).lines();
    assert!(lines.iter().any(|line| line["type"] == "trusts" && line["checks"][0]["step"] == "1"));
    assert!(is_named(lines.last().unwrap()));
}

// S2: variables.

#[test]
fn s2_declared_output_that_does_not_arrive_fails_the_attempt() {
    let place = Place::new();
    let plan = |extra: &str| {
        format!(
            "steps:\n  - {{id: a, command: \"echo '{{\\\"count\\\": 1}}'\", outputs: [count, name], \
             retry: {{max_attempts: 1}}{extra}}}\n"
        )
    };
    place.write("p.yaml", plan(""));
    place.ledger("run p.yaml").code(1).says(&["the declared output `name` did not arrive"]);
    place.write("q.yaml", plan(", optional_outputs: [name]"));
    place.ledger("run q.yaml").code(0);
    place.write("r.yaml", plan(", optional_outputs: [nam]"));
    place.ledger("plan lint r.yaml").code(2).says(&["`nam` is not one of the outputs"]);
}

#[test]
fn s2_variables_in_json_are_values() {
    let place = Place::planned("steps: [{id: a}]");
    place.ledger("set count 2").code(0);
    place.ledger("set text hello").code(0);
    let values = |line: &str| -> Vec<serde_json::Value> {
        let lines = place.ledger(line).lines();
        lines.iter().filter(|it| it.get("value").is_some()).map(|it| it["value"].clone()).collect()
    };
    assert_eq!(
        values("inspect .ledger variables --json"),
        [serde_json::json!(2), serde_json::json!("hello")]
    );
    assert_eq!(values("inspect .ledger variables --history text --json"), ["hello"]);
}

#[test]
fn s2_reads_before_writes_and_unset_variables_are_reported() {
    let place = Place::new();
    place.write(
        "p.yaml",
        "steps:\n  - {id: a, command: 'true', outputs: [x]}\n  - {id: b, inputs: [x]}\n  \
         - {id: c, condition: 'typo > 1'}\n",
    );
    place.ledger("plan lint p.yaml").code(0).says(&[
        "p.yaml:3:3: warning: steps[1] (b).inputs[0]: reads `x`, but does not come after `a`",
        "p.yaml:4:3: warning: steps[2] (c).condition: no step has the output `typo`",
    ]);
}

// S6: what a worker calls does not become the output of its step.

#[test]
fn s6_commands_inside_an_attempt_print_to_standard_error_only() {
    let place = Place::new();
    let program = crate::command::PROGRAM;
    place.write(
        "p.yaml",
        format!(
            "steps:\n  - id: a\n    outputs: [x]\n    command: |\n      {program} effect mail-1\n      \
             {program} set seen 1\n      {program} note hello\n      {program} renew\n      \
             {program} effect mail-1 --done --json\n      echo '{{\"x\": 1}}'\n"
        ),
    );
    place.ledger("run p.yaml").code(0);
    let lines = place.ledger("inspect .ledger variables --json").lines();
    let of = |name: &str| lines.iter().find(|line| line["name"] == name).unwrap().clone();
    assert_eq!(of("x")["value"], 1);
    assert_eq!(
        (of("seen")["value"].clone(), &of("seen")["origin"]["is"]),
        (1.into(), &"step".into())
    );
    place.ledger("inspect .ledger records --kind note").code(0).says(&["step:#1@"]);
    // Outside of an attempt the answer is the output.
    place.ledger("note outside").code(0).says(&["noted"]);
}

// S16: every field of a step record is shown.

#[test]
fn s16_inspect_step_shows_every_field_of_the_record() {
    let place = Place::planned(
        "steps:\n  - id: a\n    goal: fetch\n    preconditions: ['ok == true']\n    on_false: skip\n    \
         condition: 'go == true'\n    retry: {max_attempts: 3, backoff_seconds: 5, backoff_percent: 200}\n    \
         fallback: {value: {value: 7, max_age_seconds: 60}}\n    failure_hints: {'503': transient}\n    \
         gate: {question: Go?, to: ana, deadline_seconds: 9, on_timeout: abort}\n    \
         cost_estimate: {money_micros: 250000, tokens: 10}\n    cost_limit: {money_micros: 500000, tokens: 20}\n    \
         probe: 'true'\n    idempotent: no\n    outputs: [x]\n    optional_outputs: [x]\n    \
         acceptance: [fine, {cel: 'output.x == 1'}]\n    extra: {tool: {k: 1}}\n",
    );
    place.ledger("inspect .ledger step plan a").code(0).says(&[
        "ok == true",
        "go == true",
        "at most 3 attempts; 5 s before the second; each further delay 200 % of the last",
        "value 7, at most 60 s old",
        "`503` is transient",
        "Go? (for ana), within 9 s, then abort",
        "0.25",
        "optional outputs",
        "1. text: fine",
        "2. cel: output.x == 1",
        r#"{"tool":{"k":1}}"#,
    ]);
}

#[test]
fn s16_step_record_drawn_as_a_tree_is_a_step() {
    let text = "The record of one step:\n\nstep_record:\n\u{251c}\u{2500}\u{2500} id: \"pull_credit\"\n\
        \u{251c}\u{2500}\u{2500} goal: \"Fetch the score from the bureau\"\n\
        \u{251c}\u{2500}\u{2500} inputs: [applicant_id, identity]\n\
        \u{251c}\u{2500}\u{2500} preconditions: [\"identity_verified == true\"]\n\
        \u{251c}\u{2500}\u{2500} owner: \"credit_agent\"\n\
        \u{251c}\u{2500}\u{2500} success_signal: \"credit_score is an integer\"\n\
        \u{251c}\u{2500}\u{2500} retry_policy: {max_attempts: 3, backoff: exponential}\n\
        \u{251c}\u{2500}\u{2500} fallback: \"the cached score, else escalate\"\n\
        \u{251c}\u{2500}\u{2500} side_effects: [\"an API call\"]\n\
        \u{2514}\u{2500}\u{2500} idempotent: true (the bureau only reads)\n";
    let file = files::parse("record", text).unwrap();
    let step = &file.plan.steps[0];
    assert_eq!((file.plan.steps.len(), step.id.as_str()), (1, "pull_credit"));
    assert_eq!(step.inputs, ["applicant_id", "identity"]);
    assert_eq!(*step.preconditions, ["identity_verified == true"]);
    assert_eq!(step.owner.as_deref(), Some("credit_agent"));
    assert_eq!(step.retry.as_deref().unwrap().max_attempts, 3);
    assert_eq!(step.idempotent, Some(plan_ledger::plan::Idempotence::Yes));
    assert_eq!(*step.side_effects, ["an API call"]);
    assert!(step.goal.contains("the cached score"), "{}", step.goal);
}

// N9: stories and epics without front matter, and elements inside elements.

#[test]
fn n9_stories_and_epics_of_bmad_are_read() {
    let epics = "# Shop - Epic Breakdown\n\n## Epic 1: Accounts\n\nUsers have accounts.\n\n\
        ### Story 1.1: Register\n\nAs a visitor,\nI want to register.\n\n**Acceptance Criteria:**\n\n\
        **Given** a free address\n**When** I register\n**Then** I get a mail\n\n\
        **Given** a taken one\n**Then** I see an error\n\n**Prerequisites:** None\n\n\
        ## Epic 2: Orders\n\n### Story 2.1: Order\n\nAs a user, I order.\n\n**Acceptance Criteria:**\n\n\
        - it is stored\n\n**Prerequisites:** Story 1.1\n";
    let file = files::parse("epics", epics).unwrap();
    let ids: Vec<&str> = file.plan.steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(ids, ["1.1", "2.1"]);
    let criteria: Vec<&str> = file.plan.steps[0].acceptance.iter().map(Criterion::body).collect();
    assert_eq!(criteria.len(), 2, "{criteria:?}");
    assert!(criteria[0].ends_with("**Then** I get a mail"), "{criteria:?}");
    assert_eq!(file.plan.steps[1].after, ["1.1"]);
    assert!(!file.plan.steps[1].goal.contains("Depends on"), "{}", file.plan.steps[1].goal);

    let story = "# Story 1.2: Log in\n\nStatus: ready-for-dev\n\n## Story\n\nAs a user, I log in.\n\n\
        ## Acceptance Criteria\n\n1. The address is checked\n2. A wrong password is an error\n\n\
        ## Tasks / Subtasks\n\n- [ ] Task 1: Build the form (AC: 1)\n  - [ ] Subtask 1.1: Address\n\
        - [x] Task 2: Check it (AC: 2)\n\n## Dev Notes\n\n- Use the client\n";
    let file = files::parse("story", story).unwrap();
    let goals: Vec<&str> = file.plan.steps.iter().map(|step| step.goal.as_str()).collect();
    assert!(goals[0].contains("Address") && goals[1].contains("Build the form"), "{goals:?}");
    assert_eq!((file.plan.steps.len(), file.done.len()), (3, 1));
    assert_eq!(file.plan.test_criteria.len(), 2);
    assert_eq!(file.plan.title, "Story 1.2: Log in");
}

#[test]
fn n9_elements_inside_the_fields_of_gsd_are_left_out() {
    let text = "<tasks>\n<task type=\"auto\">\n  <name>Build</name>\n  <action>Do it</action>\n  \
        <verify><automated>sh -c true</automated></verify>\n  <done>It is built</done>\n</task>\n</tasks>\n";
    let file = files::parse("gsd", text).unwrap();
    let criteria: Vec<&str> = file.plan.steps[0].acceptance.iter().map(Criterion::body).collect();
    assert!(criteria.contains(&"sh -c true"), "{criteria:?}");
    let file = read(&Place::new(), text);
    let command = Criterion::Command("sh -c true".into());
    assert!(file.plan.steps[0].acceptance.contains(&command));
}

// S18: what a verdict saw.

#[test]
fn s18_verdict_carries_the_value_that_it_saw() {
    let place = Place::new();
    place.write(
        "p.yaml",
        "steps:\n  - id: check\n    command: \"echo '{\\\"compliance_flag\\\": \\\"system_error\\\"}'\"\n    \
         retry: {max_attempts: 1}\n    acceptance: [{cel: \"output.compliance_flag in ['pass', 'review']\"}]\n",
    );
    let ended = place.ledger("run p.yaml").code(3);
    ended.says(&["compliance_flag was \"system_error\""]);
}

#[test]
fn s18_condition_that_cannot_be_evaluated_is_reported() {
    let place = Place::new();
    place.write(
        "p.yaml",
        "steps:\n  - {id: a, command: 'true'}\n  - {id: b, command: 'true', condition: 'nosuch == 3', after: [a]}\n",
    );
    let text = "its condition cannot be evaluated: `nosuch` is not set";
    place.ledger("run p.yaml").code(0).says(&[text]);
    place.ledger("inspect .ledger why p b").code(0).says(&[text]);
    let false_one = "steps:\n  - {id: a, command: 'true', condition: '1 == 2'}\n";
    place.write("q.yaml", false_one);
    let ended = place.ledger("run q.yaml").code(0);
    assert!(!ended.out.contains("cannot be evaluated"), "{}", ended.out);
    place.ledger("inspect .ledger why q a").code(0).says(&["its condition does not hold"]);
}

// S26: the JSON plan.

#[test]
fn s26_files_to_modify_that_do_not_exist_are_reported() {
    let place = Place::new();
    place.write("there.ts", "");
    place.write(
        "plan.json",
        r#"{"summary": "auth", "steps": [
            {"order": 1, "description": "a", "files_to_create": ["new.ts"], "files_to_modify": ["there.ts", "gone.ts"]},
            {"order": 2, "description": "b", "files_to_modify": ["new.ts"]}]}"#,
    );
    let text = "step `1` modifies `gone.ts`, which does not exist";
    let ended = place.ledger(&format!("run plan.json {LAZY}")).code(0).complains(&[text]);
    assert!(!ended.err.contains("new.ts"), "{}", ended.err);
    place.ledger("plan lint plan.json").code(0).says(&[text]);
    // Files to create are among the changes, and stay known as such.
    let shown = place.ledger("plan show plan.json --json").code(0).out;
    let step = &serde_json::from_str::<serde_json::Value>(&shown).unwrap()["steps"][0];
    assert_eq!(step["extra"]["files_to_create"], serde_json::json!(["new.ts"]), "{step}");
    assert_eq!(step["changes"], serde_json::json!(["there.ts", "gone.ts", "new.ts"]), "{step}");
}

// S29: the PLAN artifact.

#[test]
fn s29_next_shows_the_plans_next_action_until_the_first_dispatch() {
    let place = Place::new();
    place.write(
        "PLAN.md",
        "# PLAN: move\n\nFrom: issue 7\n\n## Outcome\nIt is moved.\n\n## Phases\n1. **Phase 1: copy** \u{2014} first\n   \
         - Copy the rows\n\n2. **Phase 2: drop** \u{2014} then\n   - Drop the table\n\n## Next Action\n\
         Open the console of the test system.\n",
    );
    place.ledger("init").code(0);
    place.ledger("plan propose PLAN.md").code(0);
    let begins = "the plan begins with: Open the console of the test system.";
    place.ledger("next").code(0).says(&[begins]);
    assert!(place.ledger("next --json").lines()[0]["text"].as_str().unwrap().contains(begins));
    place.ledger("claim").code(0);
    let ended = place.ledger("next");
    assert!(!ended.out.contains("begins with"), "{}", ended.out);
}

// S25 and the linter.

#[test]
fn s25_lint_reports_everything_in_one_pass() {
    let place = Place::new();
    place.write(
        "p.yaml",
        "budget: {money_micros: 250000}\nsteps:\n  - {id: a, command: 'make | tee log', tools: [hammer], cost_estimate: {money_micros: 200000, tokens: 0}}\n  \
         - {id: b, after: [nowhere], cost_estimate: {money_micros: 150000, tokens: 0}}\n",
    );
    place.ledger("plan lint p.yaml").code(2).says(&[
        "p.yaml:4:",
        "error: ",
        "nowhere",
        "warning: steps[0] (a).command: only the last program of the pipe counts",
        "add up to $0.35, more than $0.25",
    ]);
    place.write("q.yaml", "steps:\n  - {id: a, tools: [hammer], acceptance: [x]}\n");
    place.write("tools.yaml", "tools: {saw: {}}\n");
    place
        .ledger("plan lint q.yaml --tools tools.yaml")
        .code(0)
        .says(&["the registry has no tool `hammer`"]);
    let many: String = (0..21).map(|n| format!("  - {{id: s{n}, acceptance: [x]}}\n")).collect();
    place.write("many.yaml", format!("steps:\n{many}"));
    place.ledger("plan lint many.yaml").code(0).says(&["21 steps at once", "continues: true"]);
}

#[test]
fn s25_errors_of_an_added_step_are_in_plain_words() {
    let place = Place::planned("steps: [{id: a}]");
    for step in [r#"{"id":"b","afer":["a"]}"#, r#"{"id":7}"#, r#"{"id":"b","after":"a"}"#, "[]"] {
        let ended = place.ledger_with(&["plan", "add", "--step", step]).code(2);
        for word in ["unknown field", "invalid type", "expected struct", "sequence"] {
            assert!(!ended.err.contains(word), "{step}: {}", ended.err);
        }
    }
}
