//! Plan files as people write them: nothing is lost, invented or refused for one flaw.

use std::collections::BTreeSet;

use plan_ledger::Step;
use plan_ledger::plan::{Criterion, Idempotence, OnTimeout};
use plan_ledger_files::{
    self as files, CorrectionKind, ExportFormat, PartKind, PlanFile, PlanFormat, ReadOptions,
    Severity, lint_text,
};

use crate::command::Place;

fn parse(text: &str) -> PlanFile {
    files::parse("plan", text).unwrap()
}

fn step<'a>(file: &'a PlanFile, id: &str) -> &'a Step {
    file.plan.steps.iter().find(|step| step.id == id).unwrap_or_else(|| {
        panic!("no step {id}: {:?}", ids(file));
    })
}

fn ids(file: &PlanFile) -> Vec<&str> {
    file.plan.steps.iter().map(|step| step.id.as_str()).collect()
}

fn criteria(step: &Step) -> Vec<&str> {
    step.acceptance.iter().map(Criterion::body).collect()
}

fn done(file: &PlanFile) -> Vec<&str> {
    file.done.keys().map(String::as_str).collect()
}

fn corrections(file: &PlanFile) -> Vec<(CorrectionKind, &str, &str)> {
    let all = file.report.corrections.iter();
    all.map(|each| (each.kind, each.step.as_str(), each.name.as_str())).collect()
}

/// Whether one step waits for another, directly or through others and barriers.
fn waits(file: &PlanFile, step: &str, other: &str) -> bool {
    let (mut seen, mut rest) = (BTreeSet::new(), vec![step.to_owned()]);
    while let Some(id) = rest.pop() {
        let steps = file.plan.steps.iter().filter(|step| step.id == id).flat_map(|it| &it.after);
        let barriers =
            file.plan.barriers.iter().filter(|it| it.id == id).flat_map(|it| &it.members);
        for name in steps.chain(barriers) {
            if name == other {
                return true;
            }
            if seen.insert(name.clone()) {
                rest.push(name.clone());
            }
        }
    }
    false
}

// S11: a step with tools, changes and acceptance after it.

const PLANNER_STEP: &str = "# Move the users\n\nThe old table goes away.\n\n\
    3. Migrate the endpoints of users\n\
    INDENT- tools: Read, Edit, Bash\n\
    INDENT- changes: src/api/users/*.py\n\
    INDENT- acceptance: `pytest src/api/users -q` exits 0\n";

#[test]
fn s11_labels_after_a_step_belong_to_it_indented_or_not() {
    for indent in ["", "   ", "\t"] {
        let file = parse(&PLANNER_STEP.replace("INDENT", indent));
        let step = step(&file, "3");
        assert_eq!(*step.tools, ["Read", "Edit", "Bash"], "{indent:?}");
        assert_eq!(*step.changes, ["src/api/users/*.py"]);
        assert_eq!(criteria(step), ["`pytest src/api/users -q` exits 0"]);
        assert_eq!(file.plan.context, "The old table goes away.");
    }
}

#[test]
fn s11_step_lines_without_labels_are_steps() {
    let text = "Plan v1:\nstep 1: search for timeout-related code in user-service/\nstep 2: identify root cause\n\
        step 3: implement fix\nstep 4: write regression test\nstep 5: run test suite\nstep 6: commit if green\n";
    let file = parse(text);
    assert_eq!(ids(&file), ["1", "2", "3", "4", "5", "6"]);
    assert_eq!(step(&file, "2").goal, "identify root cause");
    assert!(waits(&file, "6", "5"));
}

/// The loan plan, as it is printed.
pub(super) const LOAN: &str = "\
Plan v1 (generated from goal: \"Process loan application for applicant_id=A-7291\"):
step 1: verify_identity
success: identity_verified == true
precondition: applicant_id exists
owner: identity_agent
retry: 2 attempts, 5s backoff
step 2: pull_credit
success: credit_score in [300, 850]
precondition: identity_verified == true
owner: credit_agent
retry: 3 attempts, exponential backoff
fallback: cached_score if fresh
step 3: compliance_check
success: compliance_flag in [\"pass\", \"review\"]
precondition: credit_score exists
owner: compliance_agent
retry: 1 attempt
step 4: human_review (conditional)
trigger: compliance_flag == \"review\"
success: human_override in [\"approved\", \"denied\"]
timeout: 48h \u{2192} escalate to manager
step 5: issue_decision
success: decision in [\"approved\", \"denied\"]
precondition: compliance resolved
side_effects: [write to loan DB, trigger notification]
idempotent: no (idempotency key required)
";

#[test]
fn s11_step_lines_with_labels_are_steps() {
    let indented = LOAN.replace('\n', "\n  ").replace("\n  step ", "\nstep ");
    for text in [LOAN, &indented] {
        let file = parse(text);
        let names = [
            "verify_identity",
            "pull_credit",
            "compliance_check",
            "human_review",
            "issue_decision",
        ];
        assert_eq!(ids(&file), names);
        assert!(names.windows(2).all(|pair| waits(&file, pair[1], pair[0])));
        assert_eq!(file.plan.goal, "Process loan application for applicant_id=A-7291");
        let first = step(&file, "verify_identity");
        assert_eq!(first.owner.as_deref(), Some("identity_agent"));
        assert_eq!(*first.preconditions, ["has(variables.applicant_id)"]);
        assert_eq!(first.acceptance, [Criterion::Cel("output.identity_verified == true".into())]);
        assert_eq!(first.outputs, ["identity_verified"]);
        let retry = first.retry.as_deref().unwrap();
        assert_eq!((retry.max_attempts, retry.backoff_seconds), (2, 5));
        let second = step(&file, "pull_credit");
        let range = "output.credit_score >= 300 && output.credit_score <= 850";
        assert_eq!(second.acceptance, [Criterion::Cel(range.into())]);
        assert_eq!(second.outputs, ["credit_score"]);
        assert!(second.goal.contains("Fallback: cached_score if fresh"), "{}", second.goal);
        let review = step(&file, "human_review");
        assert_eq!(review.condition.as_deref(), Some("compliance_flag == \"review\""));
        let gate = review.gate.as_deref().unwrap();
        assert_eq!(gate.deadline_seconds, Some(172_800));
        assert_eq!(gate.options, ["approved", "denied"]);
        assert_eq!(gate.on_timeout, Some(OnTimeout::EscalateTo("manager".into())));
        let last = step(&file, "issue_decision");
        assert_eq!(*last.side_effects, ["write to loan DB", "trigger notification"]);
        assert_eq!(last.idempotent, Some(Idempotence::WithKey));
        assert!(last.goal.contains("Precondition: compliance resolved"));
    }
    // The linter says what two numbers in brackets mean.
    let found = lint_text("p", LOAN, None).diagnostics;
    let range = "`credit_score in [300, 850]` is read as a range: credit_score from 300 to 850";
    assert!(found.iter().any(|it| it.message == range && it.line == Some(7)), "{found:#?}");
}

#[test]
fn s11_names_of_step_lines_are_ids_only_if_all_lines_are_names() {
    let file = parse("step 1: search\nstep 2: fix (the cause)\nstep 3: test\ndepends on: 1\n");
    assert_eq!(ids(&file), ["search", "fix", "test"]);
    // The numbers are names, too.
    assert_eq!(step(&file, "test").after, ["search"]);
    for text in ["step 1: search\nstep 2: fix it\n", "step 1: fix\nstep 2: fix\n"] {
        assert_eq!(ids(&parse(text)), ["1", "2"], "{text}");
    }
}

// S16: the step record.

#[test]
fn s16_step_records_in_a_json_list_keep_their_meaning() {
    let text = r#"[{"id": "pull_credit", "goal": "Fetch the score", "inputs": ["applicant_id"],
        "preconditions": ["identity_verified == true"], "owner": "credit_agent",
        "success_signal": "the score is between 300 and 850", "failure_class": "retrieval_failure",
        "retry_policy": {"max_attempts": 4, "backoff": "exponential"},
        "fallback": "the cached score, else escalate", "side_effects": ["an API call"],
        "idempotent": false}, {"id": "b", "goal": "x", "depends_on": ["pull_credit"], "idempotent": true}]"#;
    for text in [text.to_owned(), format!("{{\"steps\": {text}}}")] {
        let file = parse(&text);
        let step = step(&file, "pull_credit");
        assert_eq!(step.inputs, ["applicant_id"]);
        assert_eq!(*step.preconditions, ["identity_verified == true"]);
        assert_eq!(criteria(step), ["the score is between 300 and 850"]);
        assert_eq!(step.retry.as_deref().unwrap().max_attempts, 4);
        assert_eq!(step.idempotent, Some(Idempotence::No));
        assert_eq!(*step.side_effects, ["an API call"]);
        assert!(step.goal.contains("Fallback: the cached score"));
        assert_eq!(step.failure_class.as_deref(), Some("retrieval_failure"));
    }
}

/// A signal in words that has bounds is checked.
#[test]
fn s16_signal_with_bounds_is_checked() {
    let text = r#"[{"id": "pull_credit", "goal": "Fetch", "success_signal":
        "credit_score is integer between 300-850"}, {"id": "b", "goal": "x",
        "success_signal": "score in [1, 5]", "depends_on": ["pull_credit"]}]"#;
    let file = parse(text);
    let first = step(&file, "pull_credit");
    assert_eq!(
        criteria(first),
        [
            "type(output.credit_score) == int && output.credit_score >= 300 && output.credit_score <= 850"
        ]
    );
    assert_eq!(first.outputs, ["credit_score"]);
    let found = lint_text("p", text, None).diagnostics;
    assert!(
        found.iter().any(|it| it.message.ends_with("a range: score from 1 to 5")),
        "{found:#?}"
    );
}

// S26: the JSON plan, also in a code block, and the seven sections.

const JSON_PLAN: &str = "{\"summary\": \"Adds tokens\", \"steps\": [\n\
    {\"order\": 1, \"description\": \"Write it\", \"files_to_modify\": [\"src/app.ts\"],\n\
     \"files_to_create\": [\"src/auth.ts\"], \"validation\": [\"npx tsc --noEmit\"]},\n\
    {\"order\": 2, \"description\": \"Use it\", \"validation\": []}],\n\
    \"test_criteria\": [\"a request without a token is refused\"], \"risks\": [\"old clients break\"]}\n";

#[test]
fn s26_json_plan_is_read_also_inside_a_code_block() {
    let fenced = format!("Here is the plan:\n\n```json\n{JSON_PLAN}```\n\nShall I begin?\n");
    for text in [JSON_PLAN, &fenced] {
        let file = parse(text);
        assert_eq!(ids(&file), ["1", "2"]);
        assert_eq!(*step(&file, "1").changes, ["src/app.ts", "src/auth.ts"]);
        assert_eq!(criteria(step(&file, "1")), ["npx tsc --noEmit"]);
        assert!(waits(&file, "2", "1"));
        assert_eq!(file.plan.risks, ["old clients break"]);
        assert_eq!(file.plan.test_criteria.len(), 1);
    }
    // Problems have the lines of the whole text.
    let broken =
        fenced.replace("\"description\": \"Use it\"", "\"description\": \"Use it\", \"order\": 2");
    let found = lint_text("p", &broken, None).diagnostics;
    assert!(
        found.iter().any(|it| it.line == Some(7) && it.message.contains("duplicate field `order`")),
        "{found:#?}"
    );
}

#[test]
fn s26_of_seven_sections_only_the_execution_order_is_steps() {
    let text = "# Tokens\n\n### 1. Summary\nAdds tokens.\n\n### 2. Files to Modify\n- src/app.ts: register it\n\n\
        ### 3. New Files to Create\n- src/auth.ts: checks tokens, exports `auth`\n\n\
        ### 4. Dependency Changes\n- jsonwebtoken 9\n\n\
        ### 5. Execution Order\n1. Install it\n2. Write it\n3. Register it\n\n\
        ### 6. Test Criteria\n- unit tests pass\n- no token, no entry\n\n\
        ### 7. Risks and Assumptions\n- Old clients break\n- Assumption: it is Express 4\n";
    let file = parse(text);
    let goals: Vec<&str> = file.plan.steps.iter().map(|step| step.goal.as_str()).collect();
    assert_eq!(goals, ["Install it", "Write it", "Register it"]);
    assert_eq!((file.plan.title.as_str(), file.plan.goal.as_str()), ("Tokens", "Adds tokens."));
    assert_eq!(file.plan.risks, ["Old clients break"]);
    assert_eq!(file.plan.test_criteria.len(), 2);
    let extra = &file.plan.extra["markdown"];
    assert_eq!(extra["dependency_changes"][0], "jsonwebtoken 9");
    assert_eq!(extra["files_to_create"][0], "src/auth.ts: checks tokens, exports `auth`");
    assert_eq!(extra["assumptions"][0], "Assumption: it is Express 4");
    assert!(file.plan.context.contains("exports `auth`"));
    assert_eq!(file.report.unread, []);
}

// S29: the PLAN artifact.

const ARTIFACT: &str = "# PLAN: Ship the cache\n\nFrom: docs/spec.md\n\n## Outcome\nReads are fast.\n\n\
    ## Phases\n1. **Phase 1: Measure** \u{2014} find what is slow\n   - Run the profiler\n   - [x] Write a table\n\n\
    2. **Phase 2: Fix** \u{2014} make it fast\n   - Add the cache\n\n\
    ## Next Action\nOpen the profiler.\n\n\
    ## Risks / Open Questions\n- Is there enough memory?\n- The cache may be stale\n";

#[test]
fn s29_phases_have_actions_that_can_be_ticked() {
    let file = parse(ARTIFACT);
    assert_eq!(ids(&file), ["1.1", "1.2", "2.1"]);
    assert_eq!(done(&file), ["1.2"]);
    let phases: Vec<&str> = file.plan.phases.iter().map(|phase| phase.title.as_str()).collect();
    assert_eq!(phases, ["Measure \u{2014} find what is slow", "Fix \u{2014} make it fast"]);
    assert!(waits(&file, "2.1", "1.1"));
    assert_eq!(
        (file.plan.title.as_str(), file.plan.outcome.as_str()),
        ("Ship the cache", "Reads are fast.")
    );
    assert_eq!(file.plan.risks, ["The cache may be stale"]);
    assert_eq!(file.plan.open_questions, ["Is there enough memory?"]);
    let extra = &file.plan.extra["markdown"];
    assert_eq!(
        (&extra["from"], &extra["next_action"]),
        (&"docs/spec.md".into(), &"Open the profiler.".into())
    );
    assert_eq!(file.report.unread, []);
}

/// Phases that overlap are kept: `[P]` says that they do not wait for each other.
#[test]
fn s29_overlapping_phases_are_written_and_read() {
    let plan = "title: Two lanes\nphases: [{id: code, title: Code}, {id: docs, title: Docs \u{2014} for users}]\n\
        steps:\n  - {id: parse, phase: code, goal: Parse}\n  - {id: outline, phase: docs, goal: Outline}\n  \
        - {id: print, phase: code, goal: Print, after: [parse]}\n  \
        - {id: manual, phase: docs, goal: Manual, after: [outline, parse]}\n";
    let file = parse(plan);
    for format in [ExportFormat::Artifact, ExportFormat::Tasks] {
        let text = file.render(format).unwrap();
        assert!(text.contains("[P]"), "{text}");
        let again = parse(&text);
        let phases: Vec<&str> = again.plan.phases.iter().map(|it| it.title.as_str()).collect();
        assert_eq!(phases, ["Code", "Docs \u{2014} for users"], "{text}");
        for (id, phase, after) in [
            ("parse", "Code", ""),
            ("print", "Code", "parse"),
            ("outline", "Docs \u{2014} for users", ""),
            ("manual", "Docs \u{2014} for users", "outline parse"),
        ] {
            let step = step(&again, id);
            let title = again.plan.phases.iter().find(|it| Some(&it.id) == step.phase.as_ref());
            assert_eq!(title.map(|it| it.title.as_str()), Some(phase), "{text}");
            let mut names = step.after.clone();
            names.sort();
            assert_eq!(names.join(" "), after, "{id}: {text}");
        }
    }
    // Written by hand: the first phase, two at the same time, and the rest.
    let text = "# PLAN: x\n\n## Phases\n1. **Phase 1: A**\n   - a\n\n2. **Phase 2: B** [P]\n   - b\n\n\
        3. **Phase 3: C** [P] \u{2014} meanwhile\n   - c\n\n4. **Phase 4: D**\n   - d\n";
    let file = parse(text);
    assert_eq!(file.plan.phases[2].title, "C \u{2014} meanwhile");
    assert!(waits(&file, "2.1", "1.1") && waits(&file, "3.1", "1.1"));
    assert!(!waits(&file, "3.1", "2.1"));
    assert!(waits(&file, "4.1", "2.1") && waits(&file, "4.1", "3.1"));
}

#[test]
fn s29_unfilled_template_is_reported() {
    let text = "# PLAN: [short title]\n\nFrom: [spec or issue link]\n\n## Phases\n\
        1. **Phase 1: [name]** - what\n   - Concrete action\n   - Concrete action\n";
    let file = parse(text);
    let unfilled: Vec<Option<u64>> = file
        .report
        .unread
        .iter()
        .filter(|part| part.kind == PartKind::Placeholder)
        .map(|part| part.line)
        .collect();
    assert_eq!(unfilled, [1, 3, 6].map(Some));
}

// N9: files with one flaw.

#[test]
fn n9_repeated_ids_become_unique() {
    let file = parse("# T\n- [ ] T001 one\n- [ ] T001 two\n- [ ] T002 three (depends on T001)\n");
    assert_eq!(ids(&file), ["T001", "T001-2", "T002"]);
    assert_eq!(step(&file, "T002").after, ["T001"]);
    assert_eq!(corrections(&file), [(CorrectionKind::RepeatedId, "T001-2", "T001")]);
    // A dependency means the task of its own phase.
    let file = parse(
        "## Phase 1\n- [x] 1. dig\n- [ ] 2. pour\n## Phase 2\n- [ ] 1. wall\n- [ ] 2. roof (depends on 1)\n",
    );
    assert_eq!(ids(&file), ["1.1", "1.2", "2.1", "2.2"]);
    assert_eq!(step(&file, "2.2").after, ["2.1"]);
    assert!(waits(&file, "2.1", "1.2"));
    // Numbers that run through several phases stay.
    let file = parse(
        "## Phase 1\n- [ ] 1. dig\n- [ ] 2. pour\n## Phase 2\n- [ ] 3. wall\n- [ ] 4. roof\n",
    );
    assert_eq!(ids(&file), ["1", "2", "3", "4"]);
    let json = r#"{"tasks": [{"id": 1, "name": "a"}, {"id": 1, "name": "b", "dependsOn": [7]}]}"#;
    let file = parse(json);
    assert_eq!(ids(&file), ["1", "1-2"]);
    assert_eq!(corrections(&file).len(), 2);
}

#[test]
fn n9_of_a_record_with_several_lines_the_newest_counts() {
    let line = |title: &str, time: &str, status: &str| {
        format!(
            "{{\"id\":\"p-1\",\"title\":\"{title}\",\"issue_type\":\"task\",\"status\":\"{status}\",\"updated_at\":\"{time}\"}}\n"
        )
    };
    let (old, new) = (line("A", "2026-01-01", "open"), line("B", "2026-02-01", "closed"));
    for text in [format!("{old}{new}"), format!("{new}{old}"), format!("{new}{new}")] {
        let file = parse(&text);
        assert_eq!((ids(&file), done(&file)), (vec!["p-1"], vec!["p-1"]), "{text}");
        assert_eq!(corrections(&file)[0].0, CorrectionKind::RepeatedRecord);
    }
}

#[test]
fn n9_missing_dependencies_are_dropped_and_reported() {
    for text in [
        "- [ ] T001 a (depends on T009)\n- [ ] T002 b\n",
        r#"{"tasks": [{"id": "T001", "title": "a", "dependencies": ["T009"]}, {"id": "T002", "title": "b"}]}"#,
        r#"{"userStories": [{"id": "T001", "title": "a", "dependsOn": "T009"}]}"#,
        r#"{"id": "T001", "title": "a", "issue_type": "task", "dependencies": [{"depends_on_id": "T009"}]}"#,
    ] {
        let file = parse(text);
        assert_eq!(step(&file, "T001").after, [""; 0], "{text}");
        assert_eq!(corrections(&file), [(CorrectionKind::MissingDependency, "T001", "T009")]);
    }
}

#[test]
fn n9_dependencies_are_read_in_every_form() {
    for written in [
        r#""dependencies": ["a"]"#,
        r#""dependencies": "a""#,
        r#""dependencies": "none, a""#,
        r#""dependencies": [{"taskId": "a"}]"#,
        r#""dependencies": [{"id": "a", "type": "blocks"}, {"id": "a", "type": "blocks"}]"#,
        r#""dependencies": [{"name": "First"}, null]"#,
        r#""blockedBy": ["a"]"#,
        r#""blocked_by": "First""#,
        r#""depends-on": ["a", "a"]"#,
    ] {
        let text = format!(
            "{{\"tasks\": [{{\"id\": \"a\", \"name\": \"First\"}}, {{\"id\": \"b\", \"name\": \"B\", {written}}}]}}"
        );
        let file = parse(&text);
        assert_eq!(step(&file, "b").after, ["a"], "{written}");
        assert_eq!(file.report.corrections, [], "{written}");
    }
    let blocks = r#"[{"id": "a", "title": "A", "blocks": ["b"]}, {"id": "b", "title": "B"}]"#;
    assert_eq!(step(&parse(blocks), "b").after, ["a"]);
    let parents =
        r#"[{"id": "p", "title": "P", "blockedBy": []}, {"id": "c", "title": "C", "parent": "p"}]"#;
    assert_eq!(step(&parse(parents), "p").after, ["c"]);
    let none = r#"[{"id": "a", "title": "A", "dependencies": "none"}, {"id": "b", "title": "B", "dependencies": "N/A"}]"#;
    assert_eq!(step(&parse(none), "b").after, [""; 0]);
    let inline = "# Todo\n- [ ] t2 Publish it #release blocked-by:t1\n- [ ] t1 Build it blocks:t3\n- [ ] t3 Tell\n";
    let file = parse(inline);
    assert!(waits(&file, "t2", "t1") && waits(&file, "t3", "t1") && !waits(&file, "t1", "t2"));
}

#[test]
fn n9_inferred_order_never_contradicts_the_file() {
    // The epic of the first child waits for the second epic, whose child waits for the first epic.
    let lines = [
        r#"{"id":"e1","title":"First","issue_type":"epic"}"#,
        r#"{"id":"e2","title":"Second","issue_type":"epic","dependencies":[{"depends_on_id":"e1","type":"blocks"}]}"#,
        r#"{"id":"e1.7","title":"Late","issue_type":"task","dependencies":[{"depends_on_id":"e1","type":"parent-child"},{"depends_on_id":"e2.7","type":"blocks"}]}"#,
        r#"{"id":"e2.7","title":"Child","issue_type":"task","dependencies":[{"depends_on_id":"e2","type":"parent-child"}]}"#,
    ];
    let file = parse(&lines.join("\n"));
    assert!(waits(&file, "e2", "e1") && waits(&file, "e1.7", "e2.7"));
    // A task that waits for a later one comes after it; the others keep their order.
    let file = parse(
        "# T\n- [ ] T1 a (depends on T3)\n- [ ] T2 b\n- [ ] T3 c\n- [ ] T4 d\n"
            .replace("T1", "T001")
            .replace("T2", "T002")
            .replace("T3", "T003")
            .replace("T4", "T004")
            .as_str(),
    );
    assert!(waits(&file, "T001", "T003") && !waits(&file, "T003", "T001"));
    assert!(waits(&file, "T004", "T003"));
}

#[test]
fn n9_cycle_of_blocking_work_is_refused_with_the_way_out() {
    let text = r#"{"tasks": [{"id": "a", "title": "A", "needs": ["b"]}, {"id": "b", "title": "B", "needs": ["a"]}]}"#;
    let error = files::parse("p", text).unwrap_err().to_string();
    assert!(
        error.contains("a -> b -> a") && error.contains("--drop-dependency STEP:OTHER"),
        "{error}"
    );
    let options =
        ReadOptions { drop_dependencies: vec![("b".into(), "a".into())], ..ReadOptions::default() };
    let file = options.parse("p", text).unwrap();
    assert_eq!((step(&file, "a").after.len(), step(&file, "b").after.len()), (1, 0));
    assert_eq!(corrections(&file), [(CorrectionKind::RequestedDrop, "b", "a")]);
    let unknown =
        ReadOptions { drop_dependencies: vec![("b".into(), "z".into())], ..ReadOptions::default() };
    let error = unknown.parse("p", text).unwrap_err().to_string();
    assert!(error.contains("no written dependency of `b` on `z`"), "{error}");
    // Finished work blocks nothing.
    let closed = text.replace("\"title\": \"A\"", "\"title\": \"A\", \"status\": \"done\"");
    let file = parse(&closed);
    assert_eq!(corrections(&file)[0].0, CorrectionKind::FinishedDependency);
}

#[test]
fn n9_cycle_is_broken_on_the_command_line() {
    let place = Place::new();
    place.write(
        "t.json",
        r#"[{"id": "a", "title": "A", "needs": ["b"]}, {"id": "b", "title": "B", "needs": ["a"]}]"#,
    );
    place.ledger("run t.json --stub").code(2).complains(&["a cycle", "--drop-dependency"]);
    place
        .ledger("run t.json --stub --drop-dependency a:b")
        .code(0)
        .complains(&["1 dependency was dropped as requested: `a` on `b`"]);
}

#[test]
fn n9_conflict_marks_are_named() {
    let text = "# T\n- [ ] a\n<<<<<<< HEAD\n- [ ] b\n=======\n- [x] b\n>>>>>>> other\n";
    let found = lint_text("t.md", text, None).diagnostics;
    let lines: Vec<_> = found.iter().map(|each| each.line).collect();
    assert_eq!(lines, [3, 7].map(Some), "{found:#?}");
    assert!(found[0].message.contains("merge conflict"));
}

#[test]
fn n9_duplicate_fields_are_refused_and_carriage_returns_end_lines() {
    let text = "{\"tasks\": [{\"id\": 1, \"title\": \"a\",\n\"title\": \"b\", \"dependsOn\": []}]}";
    let found = lint_text("t", text, None).diagnostics;
    let [only] = found.as_slice() else { panic!("{found:#?}") };
    assert_eq!((only.line, only.column), (Some(2), Some(1)), "{found:#?}");
    assert_eq!(only.message, "duplicate field `title`, first on line 1; remove one");
    for ending in ["\r\n", "\r"] {
        let file = parse(&"# T\n\n- [ ] a\n- [x] b\n".replace('\n', ending));
        assert_eq!((ids(&file), done(&file)), (vec!["1", "2"], vec!["2"]), "{ending:?}");
        let lines = "{\"id\": \"a\", \"title\": \"A\"}\n{\"id\": \"b\", \"title\": \"B\"}\n";
        assert_eq!(ids(&parse(&lines.replace('\n', ending))), ["a", "b"]);
    }
}

// S13: what is not read is said before anything is dispatched.

#[test]
fn s13_run_reports_what_was_read_before_it_dispatches() {
    let place = Place::new();
    place.write(
        "tasks.md",
        "# Plan\n\n- [x] 1. Model\n- [ ]* 1.1 Tests of the model\n- [ ] 2. View\n\n## Notes\n\n- ask Ana\n- ask Bo\n- and Cy\n",
    );
    let report =
        "read 3 tasks (1 optional), 1 done; not read as tasks: 3 items under \"Notes\", line 9";
    place.ledger("run tasks.md --stub").code(0).complains(&[report]);
    place.ledger("run tasks.md --stub --quiet --run again").code(0).complains(&[report]);
    place.ledger("plan show tasks.md").code(0).complains(&[report]);
    place.ledger("plan lint tasks.md").code(0).says(&[report]);
    let lines = place.ledger("plan lint tasks.md --json").code(0).lines();
    let read = lines.iter().find(|line| line["type"] == "read").unwrap();
    assert_eq!(
        (read["steps"].as_u64(), read["optional"].as_u64(), read["done"].as_u64()),
        (Some(3), Some(1), Some(1))
    );
    assert_eq!(read["unread"][0]["line"], 9);
}

#[test]
fn s13_every_box_is_a_task() {
    let text = "# P\n\n- [x] a\n- [ x ] b\n- [x ] c\n- [] d\n-[ ] e\n- [\u{2713}] f\n- [>] g\n\t- [x] h\n\t- [ ] i\n\n\
        ## Tests\n\n- [ ] j\n\n## Validation\n\n* [~] k\n+ [-] l\n\n```\n- [ ] no\n```\n";
    let file = parse(text);
    let names: Vec<&str> = file.plan.steps.iter().map(|step| step.goal.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "d", "e", "f", "h", "i", "g", "j", "k", "l"]);
    assert_eq!(file.done.len(), 5);
    let drawn = parse("# P\n- \u{2610} a\n- \u{2611} b\n- \u{2705} c\n");
    assert_eq!((drawn.plan.steps.len(), drawn.done.len()), (3, 2));
}

#[test]
fn s13_a_task_with_only_ticked_parts_is_done_unless_its_own_box_is_open() {
    let file = parse("# P\n- [ ] a\n  - [x] one\n  - [x] two\n- [x] b\n  - [x] one\n  - [ ] two\n");
    assert_eq!(done(&file), ["1.1", "1.2", "2", "2.1", "2.2"]);
    let text = "### Task 1: A\n**Acceptance**:\n- [x] it works\n- [x] it is fast\n### Task 2: B\n**Acceptance**:\n- [x] yes\n- [ ] no\n";
    assert_eq!(done(&parse(text)), ["1"]);
    let status = parse(
        "### Task 1: A\n- **Status**: \u{2705} Done\n### Task 2: B\n- **Status**: In Progress\n",
    );
    assert_eq!(done(&status), ["1"]);
}

#[test]
fn s13_headings_with_boxes_are_tasks() {
    let file = parse(
        "# Workflow\n\n### [x] Step: Spec\n\nWrite it.\n\n### [ ] Step: Build\n\n- [x] code\n- [ ] tests\n",
    );
    let titles: Vec<&str> =
        file.plan.steps.iter().map(|step| step.goal.lines().next().unwrap()).collect();
    assert_eq!(titles, ["Spec", "code", "tests", "Build"]);
    assert_eq!(file.done.len(), 2);
}

#[test]
fn s13_prose_with_numbers_is_no_plan_unless_the_user_says_so() {
    let prose = "# Thoughts\n\nWe could do many things:\n\n1. Look around.\n2. Wait.\n\nNone of it is decided.\n";
    let error = files::parse("p", prose).unwrap_err().to_string();
    assert!(
        error.contains("2 numbered items look like prose") && error.contains("--reading items"),
        "{error}"
    );
    let options = ReadOptions { reading: Some("items".to_owned()), ..ReadOptions::default() };
    assert_eq!(options.parse("p", prose).unwrap().plan.steps.len(), 2);
    for heading in ["Plan", "Steps", "Tasks", "Execution Order", "Implementation plan"] {
        let text = prose.replace("Thoughts", heading);
        assert_eq!(parse(&text).plan.steps.len(), 2, "{heading}");
    }
    let labelled = prose.replace("2. Wait.", "2. Wait.\n   - acceptance: it is quiet");
    assert_eq!(parse(&labelled).plan.steps.len(), 2);
}

#[test]
fn s13_text_after_a_box_belongs_to_it() {
    let text = "### Task 1: Parser\n\n- [ ] **Step 1: Write the tests**\n\nThey must cover:\n- empty text\n- long text\n\n\
        - [ ] **Step 2: Run them**\n\nRun: `make test`\n\n### Task 2: Printer\n\n- [ ] **Step 1: Write it**\n\nIn one file.\n\n- [ ] **Step 2: Run it**\n\nOnce.\n";
    let file = parse(text);
    assert_eq!(ids(&file), ["1.1", "1.2", "2.1", "2.2"]);
    assert!(step(&file, "1.1").goal.contains("- long text"), "{}", step(&file, "1.1").goal);
    assert!(step(&file, "1.2").goal.contains("make test"));
    assert_eq!(file.report.unread, []);
}

// S6 and the fields of tools: changes of a tool during the work.

#[test]
fn s6_edits_that_tools_make_change_no_hash() {
    let hash = |text: &str| plan_ledger::plan_hash(&parse(text).plan);
    let ralph = r#"{"userStories": [{"id": "A", "title": "a", "passes": false, "notes": ""}]}"#;
    assert_eq!(
        hash(ralph),
        hash(
            &ralph
                .replace("\"notes\": \"\"", "\"notes\": \"a flag was missing\"")
                .replace("false", "true")
        )
    );
    let beads = [
        "{\"id\":\"x-1\",\"title\":\"A\",\"issue_type\":\"task\"}",
        "{\"id\":\"x-2\",\"title\":\"B\",\"issue_type\":\"task\"}",
    ];
    let (forward, backward) = (beads.join("\n"), [beads[1], beads[0]].join("\n"));
    assert_eq!(hash(&forward), hash(&backward));
    assert_eq!(
        hash(&forward),
        hash(&forward.replace("\"A\"", "\"A\",\"notes\":\"tried it\",\"status\":\"closed\""))
    );
    let task_master =
        r#"{"tasks": [{"id": 1, "title": "a", "details": "d", "status": "pending"}]}"#;
    assert_eq!(
        hash(task_master),
        hash(
            &task_master
                .replace("\"pending\"", "\"done\", \"complexity\": 7, \"complexityScore\": 8")
        )
    );
    assert_eq!(hash("# P\n- [ ] a\n- [ ] b\n"), hash("# P\n- [x] a\n- [ ] b\n"));
    assert_ne!(hash("# P\n- [ ] a\n"), hash("# P\n- [ ] b\n"));
}

#[test]
fn s6_text_around_the_tasks_stops_no_run() {
    let place = Place::new();
    place.write("plan.md", "# P\n\n- [ ] a\n- [ ] b\n\n## Log\n\nnothing yet\n");
    place.ledger("run plan.md --stub --kill-at 2");
    place.write("plan.md", "# P\n\n- [x] a\n- [ ] b and c\n\n## Log\n\na is done\n");
    place.ledger("run plan.md --stub").code(6).complains(&["has another plan", "step changed"]);
    place.write("plan.md", "# P\n\n- [x] a\n- [ ] b\n\n## Log\n\na is done\n");
    place
        .ledger("run plan.md --stub")
        .code(0)
        .complains(&["the text around the tasks has changed"]);
}

// S2: forms that other tools write.

#[test]
fn s2_folder_of_gsd_is_one_plan() {
    let place = Place::new();
    let plan = |name: &str, front: &str, tasks: usize| {
        let path = place.path(&format!(".planning/phases/{name}"));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let task = "<task type=\"auto\">\n<name>T</name>\n<action>Do it.</action>\n</task>\n";
        std::fs::write(path, format!("---\n{front}---\n<tasks>\n{}</tasks>\n", task.repeat(tasks)))
            .unwrap();
    };
    plan("01-base/01-01-PLAN.md", "phase: 01-base\nplan: 01\nwave: 1\ndepends_on: []\n", 2);
    plan("01-base/01-01-SUMMARY.md", "", 0);
    plan("01-base/01-02-PLAN.md", "phase: 01-base\nplan: 02\nwave: 1\ndepends_on: []\n", 1);
    plan("01-base/01-03-PLAN.md", "wave: 2\ndepends_on: [\"01-02\"]\n", 3);
    plan("02-login/02-01-PLAN.md", "wave: 1\n", 1);
    plan("02-login/02-02-PLAN.md", "wave: 2\n", 1);
    plan("02-login/02-03-PLAN.md", "wave: 2\n", 0);
    plan("10-last/10-01-PLAN.md", "phase: 10\n", 1);
    plan("10-last/10-02-PLAN.md", "phase: 10\n", 1);
    for folder in ["", ".planning", ".planning/phases"] {
        let file = files::read(&place.path(folder)).unwrap();
        assert_eq!((file.format, file.plan.steps.len()), (PlanFormat::Gsd, 10), "{folder}");
        let expected = [
            "01-01.1", "01-01.2", "01-02.1", "01-03.1", "01-03.2", "01-03.3", "02-01.1", "02-02.1",
            "10-01.1", "10-02.1",
        ];
        assert_eq!(ids(&file), expected);
        assert_eq!(done(&file), ["01-01.1", "01-01.2"]);
        assert_eq!(file.plan.phases.len(), 3);
        for (step, other, expected) in [
            ("01-01.2", "01-01.1", true),
            ("01-02.1", "01-01.2", false),
            ("01-03.1", "01-02.1", true),
            ("01-03.1", "01-01.2", false),
            ("02-01.1", "01-03.3", true),
            ("02-01.1", "01-01.2", true),
            ("02-02.1", "02-01.1", true),
            ("10-01.1", "02-02.1", true),
            ("10-02.1", "10-01.1", true),
        ] {
            assert_eq!(waits(&file, step, other), expected, "{step} after {other}");
        }
        assert_eq!(file.report.unread.iter().map(|part| part.count).sum::<usize>(), 1);
    }
}

#[test]
fn s2_forms_of_other_tools_are_rows_of_one_table() {
    let cursor = "---\nname: A page\noverview: Adds it.\ntodos:\n  - id: route\n    content: Add the route\n    status: completed\n  - id: view\n    content: Add the view\n    status: pending\nisProject: false\n---\n\n# A page\n\n1. Look around.\n2. Begin.\n";
    let file = parse(cursor);
    assert_eq!(
        (file.format, ids(&file), done(&file)),
        (PlanFormat::Cursor, vec!["route", "view"], vec!["route"])
    );
    assert_eq!(file.plan.goal, "Adds it.");
    assert_eq!(file.report.unread[0].count, 2);

    let shrimp = r#"{"tasks": [{"id": "u1", "name": "A", "description": "d", "implementationGuide": "g",
        "verificationCriteria": "v", "relatedFiles": [{"path": "a.ts", "type": "CREATE"}], "status": "completed",
        "dependencies": []}, {"id": "u2", "name": "B", "status": "pending", "dependencies": [{"taskId": "u1"}]}]}"#;
    let file = parse(shrimp);
    assert_eq!(
        (file.format, step(&file, "u2").after.as_slice()),
        (PlanFormat::Shrimp, ["u1".to_owned()].as_slice())
    );
    assert_eq!(
        (step(&file, "u1").goal.as_str(), criteria(step(&file, "u1"))),
        ("d\n\ng", vec!["v"])
    );
    assert_eq!(*step(&file, "u1").changes, ["a.ts"]);

    let dex = "{\"id\":\"k1\",\"parent_id\":null,\"name\":\"A\",\"description\":\"d\",\"priority\":1,\"completed\":true,\"blockedBy\":[]}\n{\"id\":\"k2\",\"parent_id\":\"k1\",\"name\":\"B\",\"completed\":false,\"blockedBy\":[]}\n";
    let file = parse(dex);
    assert_eq!(
        (file.format, done(&file), step(&file, "k1").after.as_slice()),
        (PlanFormat::Dex, vec!["k1"], ["k2".to_owned()].as_slice())
    );

    let gsd = "---\nphase: 01\n---\n\n<objective>\nTokens.\n</objective>\n\n<tasks>\n<task type=\"auto\">\n  <name>Task 1: Write it</name>\n  <files>a.ts, b.ts</files>\n  <action>Use jose.</action>\n  <verify>npm test passes</verify>\n</task>\n<task type=\"auto\">\n  <name>Task 2: Use it</name>\n  <action>Call it.</action>\n</task>\n</tasks>\n";
    let file = parse(gsd);
    assert_eq!((file.format, file.plan.steps.len()), (PlanFormat::Gsd, 2));
    assert_eq!(*file.plan.steps[0].changes, ["a.ts", "b.ts"]);
    assert_eq!(
        (file.plan.steps[0].goal.as_str(), criteria(&file.plan.steps[0])),
        ("Use jose.", vec!["npm test passes"])
    );

    let formula = "formula = \"release\"\ndescription = \"\"\"Ships\nit\"\"\"\n\n[vars.version]\nrequired = true\n\n[[steps]]\nid = \"build\"\ntitle = \"Build it\"\n\n[[steps]]\nid = \"ship\"\ntitle = \"Ship it\"\nneeds = [\"build\"]\n";
    let file = parse(formula);
    assert_eq!(
        (file.format, step(&file, "ship").after.as_slice()),
        (PlanFormat::BeadsFormula, ["build".to_owned()].as_slice())
    );
    assert_eq!(file.plan.goal, "Ships\nit");

    let jira = "Issue key,Summary,Status,Priority,Inward issue link (Blocks)\nP-1,\"Build, it\",Done,High,\nP-2,Ship it,To Do,Low,P-1\n";
    let file = parse(jira);
    assert_eq!(
        (file.format, done(&file), step(&file, "P-2").after.as_slice()),
        (PlanFormat::Csv, vec!["P-1"], ["P-1".to_owned()].as_slice())
    );
    assert_eq!((step(&file, "P-1").title.as_str(), step(&file, "P-1").priority), ("Build, it", 10));

    let table = "# Roadmap\n\nWhat we do.\n\n| ID | Task | Status | Depends on |\n|----|------|--------|------------|\n| A | Build | \u{2705} Done | - |\n| B | Ship | Open | A |\n";
    let file = parse(table);
    assert_eq!(
        (file.format, done(&file), step(&file, "B").after.as_slice()),
        (PlanFormat::Table, vec!["A"], ["A".to_owned()].as_slice())
    );

    let map = r#"{"tasks": {"t1": {"title": "A", "status": "done"}, "t2": {"title": "B", "dependsOn": ["t1"]}}}"#;
    let file = parse(map);
    assert_eq!(
        (ids(&file), done(&file), step(&file, "t2").after.as_slice()),
        (vec!["t1", "t2"], vec!["t1"], ["t1".to_owned()].as_slice())
    );

    let sprint = "project: shop\ndevelopment_status:\n  epic-1: in-progress\n  1-1-login: done\n  1-2-cart: ready-for-dev\n";
    let file = parse(sprint);
    assert_eq!((ids(&file), done(&file)), (vec!["1-1-login", "1-2-cart"], vec!["1-1-login"]));

    let waves = "# Tasks\n\n- [ ] 1. A\n- [ ] 2. B\n- [ ] 3. C\n\n## Waves\n\n```json\n{\"waves\": [{\"id\": 0, \"tasks\": [\"1\", \"2\"]}, {\"id\": 1, \"tasks\": [\"3\"]}]}\n```\n";
    let file = parse(waves);
    assert!(!waits(&file, "2", "1") && waits(&file, "3", "1") && waits(&file, "3", "2"));
}

#[test]
fn s2_folders_of_tasks_are_read() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("claude")).unwrap();
    place.write("claude/1.json", r#"{"id": "1", "subject": "A", "description": "d", "status": "completed", "blocks": ["2"], "blockedBy": []}"#);
    place.write("claude/2.json", r#"{"id": "2", "subject": "B", "activeForm": "Doing B", "status": "pending", "blockedBy": ["1"]}"#);
    place.write(
        "claude/10.json",
        r#"{"id": "10", "subject": "C", "status": "pending", "blockedBy": ["2"]}"#,
    );
    let file = files::read(&place.path("claude")).unwrap();
    assert_eq!(
        (file.format, ids(&file), done(&file)),
        (PlanFormat::ClaudeTasks, vec!["1", "2", "10"], vec!["1"])
    );
    assert_eq!(step(&file, "2").after, ["1"]);

    std::fs::create_dir_all(place.path("backlog/tasks")).unwrap();
    let task = |id: &str, rest: &str| {
        format!(
            "---\nid: {id}\ntitle: Title of {id}\nstatus: To Do\ncreated_date: '2026-01-01'\nlabels: [x]\n{rest}---\n\n## Description\n\nDo it.\n\n## Acceptance Criteria\n<!-- AC:BEGIN -->\n- [ ] #1 it works\n- [x] #2 it is fast\n<!-- AC:END -->\n"
        )
    };
    place.write("backlog/tasks/task-1 - A.md", task("task-1", ""));
    place.write(
        "backlog/tasks/task-2 - B.md",
        task("task-2", "dependencies: [task-1]\npriority: high\n"),
    );
    let file = files::read(&place.path("backlog")).unwrap();
    assert_eq!((file.format, ids(&file)), (PlanFormat::Backlog, vec!["task-1", "task-2"]));
    let second = step(&file, "task-2");
    assert_eq!(
        (second.after.as_slice(), second.priority, second.goal.as_str()),
        (["task-1".to_owned()].as_slice(), 10, "Do it.")
    );
    assert_eq!(criteria(second), ["#1 it works", "#2 it is fast"]);
    place.ledger("run backlog --stub").code(0).complains(&["read 2 tasks"]);

    std::fs::create_dir_all(place.path("backup")).unwrap();
    place.write("backup/issues.jsonl", "{\"id\":\"x-1\",\"title\":\"A\",\"issue_type\":\"task\"}\n{\"id\":\"x-2\",\"title\":\"B\",\"issue_type\":\"task\"}\n");
    place.write(
        "backup/dependencies.jsonl",
        "{\"issue_id\":\"x-2\",\"depends_on_id\":\"x-1\",\"type\":\"blocks\"}\n",
    );
    let file = files::read(&place.path("backup")).unwrap();
    assert_eq!(step(&file, "x-2").after, ["x-1"]);
}

#[test]
fn s2_records_that_are_no_work_are_no_steps() {
    let lines = [
        r#"{"id":"t","title":"Work","issue_type":"task","dependencies":[{"depends_on_id":"g","type":"blocks"},{"depends_on_id":"m","type":"blocks"}]}"#,
        r#"{"id":"g","title":"Wait for CI","issue_type":"gate","status":"open"}"#,
        r#"{"id":"m","title":"Mail","issue_type":"message"}"#,
        r#"{"id":"p","title":"Template","issue_type":"epic","is_template":true}"#,
    ];
    let file = parse(&lines.join("\n"));
    assert_eq!(ids(&file), ["t"]);
    assert_eq!(step(&file, "t").gate.as_deref().unwrap().question, "Wait for CI");
    assert_eq!(corrections(&file), [(CorrectionKind::IdleDependency, "t", "m")]);
    assert_eq!(file.plan.extra["beads"]["others"].as_array().unwrap().len(), 3);
}

// Lint.

#[test]
fn s13_lint_prints_file_line_column_and_collapses_equal_warnings() {
    let place = Place::new();
    let tasks: String = (1..=200).map(|number| format!("- [ ] task {number}\n")).collect();
    place.write("plan.md", format!("# P\n\n{tasks}"));
    let ended = place.ledger("plan lint plan.md").code(0);
    assert!(ended.out.lines().count() < 10, "{}", ended.out);
    ended.says(&[
        "plan.md:3:1: warning: acceptance: no criteria",
        "(200 places, this is the first)",
    ]);
    assert_eq!(
        place
            .ledger("plan lint plan.md --json")
            .lines()
            .iter()
            .filter(|it| it["type"] == "warning")
            .count(),
        200
    );
    place.write("bad.yaml", "steps:\n  - id: a\n    after: b\n");
    place
        .ledger("plan lint bad.yaml")
        .code(2)
        .says(&["bad.yaml:3:12: error: steps[0].after: found the text \"b\", expected a list"]);
    let found = lint_text("p", "steps:\n  - id: a\n    after: b\n", None).diagnostics;
    assert_eq!(
        (found[0].severity, found[0].line, found[0].column),
        (Severity::Problem, Some(3), Some(12))
    );
}
