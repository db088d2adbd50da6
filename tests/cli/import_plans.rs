//! Plan files of other tools: what each becomes, that none of it is lost, and that it survives
//! being written in any of our forms.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use plan_ledger::import::{self, Form, Imported, PlanFormat, Severity, check_text, written};
use plan_ledger::plan::{Criterion, Plan, Step};
use proptest::prelude::*;

use super::drill::shared_plan;

const FORMS: [Form; 3] = [Form::Yaml, Form::Json, Form::Markdown];

fn fixture(name: &str) -> Imported {
    let folder =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/fixtures/plans");
    import::read(&folder.join(name)).unwrap()
}

fn waits(imported: &Imported) -> Vec<(String, String)> {
    let steps = imported.plan.steps.iter();
    steps.map(|step| (step.id.clone(), step.after.join(" "))).collect()
}

#[track_caller]
fn assert_waits(imported: &Imported, expected: &[(&str, &str)]) {
    let expected: Vec<(String, String)> =
        expected.iter().map(|(id, after)| ((*id).to_owned(), (*after).to_owned())).collect();
    assert_eq!(waits(imported), expected);
}

fn step<'a>(imported: &'a Imported, id: &str) -> &'a Step {
    imported.plan.steps.iter().find(|step| step.id == id).unwrap()
}

fn texts(step: &Step) -> Vec<&str> {
    step.acceptance.iter().map(Criterion::body).collect()
}

fn names(marks: &BTreeMap<String, String>) -> Vec<&str> {
    marks.keys().map(String::as_str).collect()
}

/// A plan, its marks, and nothing about the file that it came from.
fn content(imported: &Imported) -> impl PartialEq + std::fmt::Debug + use<> {
    let Imported { plan, done, skipped, statuses, progress, .. } = imported.clone();
    (plan.canonical(), done, skipped, statuses, progress)
}

/// Any plan that was read is the same after a way through each form, and each form's text is what
/// it is after another way.
#[track_caller]
fn survives(imported: &Imported) {
    for form in FORMS {
        let text = written(imported, form).unwrap();
        let again = import::parse("again", &text).unwrap();
        assert_eq!(content(&again), content(imported), "{form:?}\n{text}");
        assert_eq!(written(&again, form).unwrap(), text, "{form:?}");
        assert!(again.format.is_own());
    }
}

#[test]
fn every_fixture_survives_every_form() {
    let folder =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/fixtures/plans");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        survives(&import::read(&path).unwrap());
        count += 1;
    }
    assert!(count >= 12, "{count} fixtures");
}

#[test]
fn ralph_stories_follow_their_priority_where_none_says_what_it_waits_for() {
    let imported = fixture("ralph.json");
    assert_eq!(imported.format, PlanFormat::Ralph);
    assert_waits(&imported, &[("US-001", ""), ("US-002", "US-001"), ("US-003", "US-001")]);
    assert!(imported.notes[0].message.contains("order taken as dependency (`priority`)"));
    assert_eq!(
        (imported.plan.title.as_str(), imported.plan.goal.as_str()),
        ("Shop", "Sell things")
    );
    assert_eq!(imported.done["US-001"], "ralph.json: passes true");
    assert_eq!(imported.statuses["US-002"], "passes false");
    let pay = step(&imported, "US-002");
    assert_eq!((pay.priority, texts(pay)), (-2, vec!["money arrives"]));
    assert_eq!(pay.extra["ralph"]["preCommit"][0], "lint");
    assert_eq!(imported.plan.extra["ralph"]["branchName"], "ralph/shop");
    assert_eq!(imported.progress["US-001"]["ralph"]["completionNotes"], "by hand");
}

#[test]
fn a_json_plan_with_order_files_and_criteria_is_read() {
    let imported = fixture("ordered.json");
    assert_eq!(imported.format, PlanFormat::Records);
    assert_waits(&imported, &[("1", ""), ("2", "1"), ("3", "2")]);
    let first = step(&imported, "1");
    assert_eq!((first.title.as_str(), first.goal.as_str()), ("Write it", "A function"));
    assert_eq!(*first.changes, ["src/a.rs"]);
    assert_eq!(texts(first), ["it compiles", "it is fast", "cargo test"]);
    assert_eq!(first.extra["json"]["effort"], 3);
    assert_eq!(imported.plan.extra["json"]["analysis"]["files"], 3);
    assert_eq!(imported.plan.extra["json"]["plan"]["risk"], "none");
    assert_eq!(names(&imported.skipped), ["3"]);
}

#[test]
fn lists_of_tasks_in_phases_are_read() {
    let imported = fixture("phases.json");
    assert_waits(
        &imported,
        &[
            ("build", ""),
            ("test.1", "build"),
            ("test.2", "build"),
            ("test", "build test.1 test.2"),
            ("ship", "test"),
        ],
    );
    let phases: Vec<&str> = imported.plan.phases.iter().map(|phase| phase.id.as_str()).collect();
    assert_eq!(phases, ["1", "2"]);
    assert_eq!(step(&imported, "ship").phase.as_deref(), Some("2"));
    assert_eq!(texts(step(&imported, "build")), ["it runs"]);
    let extra = &imported.plan.extra["json"];
    assert_eq!(extra["phases"]["1"]["due"], "soon");
    assert_eq!(extra["bugs"][0]["title"], "a bug");
    assert!(imported.notes.iter().any(|note| note.message.contains("the list `bugs`")));
    assert_eq!(imported.statuses["ship"], "in-progress");
}

#[test]
fn lists_that_other_tools_write_are_read() {
    let todo = r#"[{"content": "Do it", "status": "completed", "activeForm": "Doing it"},
        {"content": "Tell", "status": "pending", "activeForm": "Telling"}]"#;
    let imported = import::parse("t", todo).unwrap();
    assert_waits(&imported, &[("1", ""), ("2", "1")]);
    assert_eq!(step(&imported, "2").title, "Tell");
    assert_eq!(names(&imported.done), ["1"]);
    let plan = r#"{"explanation": "x", "plan": [{"step": "Do it", "status": "completed"}]}"#;
    assert_eq!(step(&import::parse("t", plan).unwrap(), "1").title, "Do it");
    let own_names =
        r#"{"tasks": [{"id": "a", "title": "A", "depends_on": ["b"]}, {"id": "b", "title": "B"}]}"#;
    assert_waits(&import::parse("t", own_names).unwrap(), &[("a", "b"), ("b", "")]);
    let by_title =
        r#"{"work": [{"id": 7, "title": "A"}, {"id": 8, "title": "B", "requires": ["A"]}]}"#;
    assert_waits(&import::parse("t", by_title).unwrap(), &[("7", ""), ("8", "7")]);
    let lines = "{\"id\": \"a\", \"title\": \"A\"}\n{\"id\": \"b\", \"title\": \"B\"}\n";
    assert_waits(&import::parse("t", lines).unwrap(), &[("a", ""), ("b", "a")]);
}

#[test]
fn beads_issues_wait_for_what_blocks_them() {
    let imported = fixture("beads.jsonl");
    assert_eq!(imported.format, PlanFormat::Beads);
    assert_waits(
        &imported,
        &[
            ("b-1", ""),
            // It is the parent of both, and its own wait binds them.
            ("b-3", "b-1 b-4 b-5"),
            ("b-4", "b-1"),
            ("b-5", "b-4 b-1"),
            ("b-6", ""),
            ("b-7", "b-6"),
        ],
    );
    let first = step(&imported, "b-1");
    assert_eq!((first.goal.as_str(), first.priority), ("d\n\ne\n\nn", 10));
    assert_eq!(texts(first), ["a", "b"]);
    assert_eq!(*step(&imported, "b-4").tags, ["x"]);
    assert_eq!(imported.done["b-1"], "beads.jsonl: status closed (did it)");
    assert_eq!(names(&imported.skipped), ["b-6"]);
    assert_eq!(imported.statuses["b-4"], "hooked");
    let others = imported.plan.extra["beads"]["others"].as_array().unwrap();
    assert_eq!((others[0]["id"].as_str(), others[1]["key"].as_str()), (Some("b-2"), Some("k")));
    let notes: Vec<String> = imported.notes.iter().map(ToString::to_string).collect();
    for expected in [
        "line 3: issue `b-3` depends on `b-2`",
        "line 3: issue `b-3`: conditional",
        "line 7: steps[5] (b-7).after[0]: `b-6` is not to be done any more",
        "line 8: this line is no issue",
    ] {
        assert!(notes.iter().any(|note| note.starts_with(expected)), "{expected}: {notes:#?}");
    }
}

#[test]
fn beads_work_that_is_done_does_not_change_the_plan() {
    let open = r#"{"id":"a","title":"A","status":"open","issue_type":"task","updated_at":"1"}"#;
    let closed = r#"{"id":"a","title":"A","status":"closed","issue_type":"task","updated_at":"2","closed_at":"2"}"#;
    let (open, closed) = (import::parse("t", open).unwrap(), import::parse("t", closed).unwrap());
    assert_eq!(open.plan, closed.plan);
    assert_ne!(open.done, closed.done);
}

#[test]
fn spec_kit_tasks_follow_their_order_and_run_beside_each_other() {
    let imported = fixture("speckit.md");
    assert_eq!(imported.format, PlanFormat::SpecKit);
    assert_waits(
        &imported,
        &[
            ("T001", ""),
            ("T002", "T001"),
            ("T003", "T001"),
            ("T004", "T002..T003"),
            ("T005", "T002..T003"),
            ("T006", "T004 T005"),
            ("T006a", "T006"),
        ],
    );
    assert_eq!(imported.plan.barriers[0].members, ["T002", "T003"]);
    assert_eq!(*step(&imported, "T004").tags, ["P", "US1"]);
    assert_eq!(step(&imported, "T004").phase.as_deref(), Some("2"));
    assert_eq!(texts(step(&imported, "T006a")), ["also when nobody is there"]);
    assert_eq!(imported.done["T003"], "speckit.md: line 9: [x]");
    let context = &imported.plan.context;
    for kept in ["**Input**: spec.md", "**Goal**: It rings.", "SC-001: it rings"] {
        assert!(context.contains(kept), "{context}");
    }
    assert!(!context.contains("T004"), "{context}");
}

#[test]
fn open_spec_tasks_stand_in_phases() {
    let imported = fixture("openspec.md");
    assert_waits(&imported, &[("1.1", ""), ("1.2", "1.1"), ("2.1", "1.2"), ("2.2", "2.1")]);
    assert_eq!(names(&imported.done), ["1.1"]);
    let phases: Vec<&str> = imported.plan.phases.iter().map(|phase| phase.title.as_str()).collect();
    assert_eq!(phases, ["1. Doors", "2. Windows"]);
}

#[test]
fn a_plan_with_steps_tools_changes_and_acceptance_is_read() {
    let imported = fixture("steps.md");
    assert_waits(&imported, &[("1", ""), ("2", "1"), ("3", "1 2")]);
    let (first, second) = (step(&imported, "1"), step(&imported, "2"));
    assert_eq!(
        (first.title.as_str(), first.goal.as_str()),
        ("Measure", "Measure\n\nLook at what is slow.")
    );
    assert_eq!(*first.tools, ["perf", "rg"]);
    assert_eq!(*first.changes, ["src/a.rs", "src/b.rs"]);
    assert_eq!(texts(first), ["a table of times", "nobody complains"]);
    assert_eq!(*second.changes, ["src/new.rs", "src/old.rs"]);
    assert_eq!(texts(second), ["tests pass"]);
    assert!(
        second.goal.contains("- [ ] no task")
            && second.goal.contains("Changes: Create `src/new.rs`")
    );
    assert_eq!(names(&imported.done), ["3"]);
    let plan = &imported.plan;
    assert_eq!((plan.title.as_str(), plan.goal.as_str()), ("Move the cache", "Faster reads."));
    assert_eq!(plan.risks, ["It may be slow.", "It may break."]);
    assert_eq!(plan.test_criteria, [Criterion::Text("reads take a millisecond".to_owned())]);
    assert_eq!(plan.context, "Some words before.\n\n## Notes\n\n- Ask Ana.");
}

#[test]
fn a_plan_artifact_is_read() {
    let imported = fixture("artifact.md");
    assert_waits(
        &imported,
        &[
            ("1.1", ""),
            ("1.2.1", "1.1"),
            ("1.2.2", "1.2.1"),
            ("1.2", "1.2.2"),
            ("2.1", "1.2"),
            ("2.2", "2.1"),
        ],
    );
    assert_eq!(imported.plan.outcome, "It is out, and people\nare happy.");
    assert_eq!(texts(step(&imported, "1.2")), ["it shines"]);
    assert_eq!(step(&imported, "2.1").title, "Wrap");
    assert_eq!(imported.plan.context, "## Next Action\n\n1. Find the thing");
    assert_eq!(imported.plan.extra["markdown"]["front_matter"], "---\nowner: ana\n---");
}

#[test]
fn numbered_tasks_under_headings_in_any_language_are_read() {
    let imported = fixture("numbered.md");
    assert_waits(&imported, &[("1.1", ""), ("1.2", "1.1"), ("2.1", "1.2"), ("2.2", "2.1")]);
    let carried = step(&imported, "2.1");
    assert_eq!(
        (carried.title.as_str(), carried.goal.as_str()),
        ("Tragen", "**Tragen** - alles runter und wieder rauf")
    );
    let text = "# \u{8ba1}\u{5212}\n\n## \u{4e00}\n- [ ] \u{5efa}\n- [x] \u{6d4b}\n";
    let imported = import::parse("t", text).unwrap();
    assert_waits(&imported, &[("1", ""), ("2", "1")]);
    assert_eq!(names(&imported.done), ["2"]);
}

#[test]
fn a_box_that_somebody_ticks_in_our_markdown_counts() {
    let imported = fixture("openspec.md");
    let text = written(&imported, Form::Markdown).unwrap();
    let ticked = text.replace("- [ ] `2.1`", "- [x] `2.1`").replace("- [x] `1.1`", "- [ ] `1.1`");
    let again = import::parse("plan.md", &ticked.replace('\n', "\r\n")).unwrap();
    assert_eq!(names(&again.done), ["2.1"]);
    assert!(again.done["2.1"].starts_with("plan.md: line "), "{:?}", again.done);
    assert_eq!(again.plan, imported.plan);
    let words = text
        .replace("> Fit it", "> Fit it\n  > well")
        .replace("After: `1.1`", "After: `1.1`, `2.1`");
    let changed = import::parse("plan.md", &words).unwrap_err().to_string();
    assert!(changed.contains("a cycle"), "{changed}");
}

#[test]
fn the_example_of_the_format_page_is_what_would_be_written() {
    let page = include_str!("../../format/plan-files.md");
    let example = page.split("````markdown\n").nth(1).unwrap().split("````").next().unwrap();
    let imported = import::parse("page", example).unwrap();
    assert_eq!(written(&imported, Form::Markdown).unwrap(), example);
    assert_eq!((imported.plan.steps.len(), names(&imported.done)), (2, vec!["build"]));
}

#[test]
fn slips_in_our_markdown_are_all_said_with_their_lines() {
    let text = "<!-- ledger plan 1 -->\n# T\n\n## Steps\n\n- [ ] `a` A\n  - Aftr: `b`\n  - After: b\n\
                - `b` B\nwhat\n- [ ] `c`\n  ```json\n  {\"retry\": 3,}\n  ```\n- [ ] C\n";
    let found = check_text("p.md", text, None).findings;
    let lines: Vec<Option<u64>> = found.iter().map(|finding| finding.line).collect();
    assert_eq!(lines, [7, 8, 9, 10, 13, 15, 15].map(Some), "{found:#?}");
}

#[test]
fn problems_of_other_tools_files_have_the_lines_of_the_file() {
    let cases: [(&str, &[(u64, &str)]); 6] = [
        ("- [ ] T001 a (depends on T009)\n- [ ] T001 b\n", &[(1, "`T009`"), (2, "is taken")]),
        (
            "{\"userStories\": [\n {\"id\": 1, \"title\": \"a\", \"dependsOn\": [2]},\n {\"id\": 2, \"title\": \
             \"b\",\n \"dependsOn\": [1]},\n {\"id\": 3, \"title\": \"c\", \"dependsOn\": [3, 4]}]}",
            &[(2, "a cycle"), (5, "`4`"), (5, "3 -> 3")],
        ),
        (
            "{\"id\":\"a\",\"title\":\"A\",\"issue_type\":\"t\",\"dependencies\":[{\"type\":\"blocks\"}]}\n\
             {\"id\":\"b\",\"title\":\"B\",\"dependencies\":[{\"depends_on_id\":\"c\"}]}\n",
            &[(1, "names no issue"), (2, "`c`")],
        ),
        ("{\"id\":\"a\",\"issue_type\":\"t\"}\n{\"id\":}\n", &[(2, "expected value")]),
        ("{\"tasks\": [\n{\"id\": 1},\n{\"id\": 2, \"dependencies\": [\n7]}]}", &[(3, "`7`")]),
        ("[\n{\"id\": \"a\", \"title\": \"A\", \"needs\": {}}]", &[(2, "expected a list of ids")]),
    ];
    for (text, expected) in cases {
        let checked = check_text("f", text, None);
        assert!(checked.imported.is_none(), "{text}");
        for (line, words) in expected {
            let is_it = |finding: &&import::Finding| {
                finding.severity == Severity::Problem && finding.line == Some(*line)
            };
            let found: Vec<String> =
                checked.findings.iter().filter(is_it).map(ToString::to_string).collect();
            assert!(
                found.iter().any(|each| each.contains(words)),
                "{words}: {:#?}",
                checked.findings
            );
        }
    }
}

#[test]
fn every_slip_in_our_own_form_is_said_at_once() {
    let yaml = "titel: x\nsteps:\n  - id: a\n    aftr: [b]\n  - id: 3\n    priority: high\n    after: b\n  \
                - goal: x\n    retry:\n      max_attempts: no\n";
    let found = check_text("p.yaml", yaml, None).findings;
    let lines: BTreeSet<Option<u64>> = found.iter().map(|finding| finding.line).collect();
    for line in [1, 4, 6, 7, 8, 10] {
        assert!(lines.contains(&Some(line)), "{line}: {found:#?}");
    }
    assert!(found.iter().any(|finding| finding.message.contains("did you mean `after`?")));
    let json = "{\"titel\": \"x\",\n\"steps\": [\n{\"id\": \"a\", \"aftr\": []},\n{\"id\": 3,\n\"priority\": \
                \"high\"},\n{\"goal\": \"x\", \"after\": []}]}";
    let found = check_text("p.json", json, None).findings;
    let lines: Vec<Option<u64>> = found.iter().map(|finding| finding.line).collect();
    assert_eq!(lines, [3, 4, 5, 6, 1].map(Some), "{found:#?}");
}

/// Goal: several slips in one line, and slips behind what is no YAML at all, are said as well; and
/// nothing is said that only comes of another slip.
#[test]
fn slips_of_yaml_are_said_wherever_they_stand() {
    let lines = |text: &str| -> Vec<(u64, String)> {
        let found = check_text("p.yaml", text, None).findings;
        let of = |finding: &import::Finding| {
            assert_eq!(finding.severity, Severity::Problem, "{found:#?}");
            (finding.line.unwrap(), finding.message.clone())
        };
        found.iter().map(of).collect()
    };
    for (text, expected) in [
        (
            "steps:\n  - {id: a, gaol: x, aftr: [b], goal: y}\n  - {id: b, titel: 'a, }', ownr: \"]\"}\n",
            &[(2, "`gaol`"), (2, "`aftr`"), (3, "`titel`"), (3, "`ownr`")][..],
        ),
        (
            "steps:\n  - {id: a, priority: high, timeout_seconds: soon}\n  - {goal: g, aftr: []}\n",
            &[(2, "whole number"), (2, "whole number"), (3, "`aftr`"), (3, "`id`")],
        ),
        (
            "title: a: b\nsteps:\n  - id: a\n    aftr: [b]\n  - id: b\n    goal: c: d\n    titel: x\n",
            &[(1, ""), (4, "`aftr`"), (6, ""), (7, "`titel`")],
        ),
        ("steps:\n  - id: a\n    goal: [x\n  - id: b\n", &[(0, "")]),
    ] {
        let found = lines(text);
        assert_eq!(found.len(), expected.len(), "{text}\n{found:#?}");
        for (line, words) in expected {
            let is_it = |(at, message): &(u64, String)| {
                (*line == 0 || at == line) && message.contains(words)
            };
            assert!(found.iter().any(is_it), "{line} {words}\n{found:#?}");
        }
    }
}

#[test]
fn text_without_a_plan_is_refused_with_the_forms_that_are_known() {
    for text in ["# Only words\n\nAnd more.\n", "{\"a\": 1}", "[1, 2]", "[]", "\u{0}\u{1}# x\n"] {
        let checked = check_text("f", text, None);
        let found = checked.findings.iter().map(ToString::to_string).collect::<String>();
        assert!(checked.imported.is_none() && !found.is_empty(), "{text}: {found}");
    }
    for text in ["# Only words\n\nAnd more.\n", "{\"a\": 1}"] {
        let found = check_text("f", text, None).findings[0].message.clone();
        for form in ["task-master", "Ralph", "beads", "Markdown", "`steps`"] {
            assert!(found.contains(form), "{found}");
        }
    }
}

#[test]
fn ten_thousand_tasks_keep_their_dependencies_linear() {
    let tasks: Vec<String> = (0..10_000)
        .map(|n| format!("- [ ] T{n:05} {} do\n", if n % 5_000 == 0 { "" } else { "[P]" }))
        .collect();
    let (first, second) = tasks.split_at(5_000);
    let text = format!("## Phase 1\n{}\n## Phase 2\n{}", first.concat(), second.concat());
    let imported = import::parse("t", &text).unwrap();
    let edges = imported.plan.steps.iter().map(|step| step.after.len()).sum::<usize>();
    let members = imported.plan.barriers.iter().map(|barrier| barrier.members.len()).sum::<usize>();
    assert_eq!(imported.plan.steps.len(), 10_000);
    assert!(edges + members < 20_000, "{edges} and {members}");
}

/// Goal: each file in the list has the counts that were taken with another program, survives every
/// form, and keeps its work.
#[test]
fn real_files_have_the_counted_steps() {
    let parallel = |plan: &Plan| {
        plan.steps.iter().filter(|step| step.tags.iter().any(|tag| tag == "P")).count()
    };
    let count = |plan: &Plan| plan.steps.iter().map(|step| step.after.len()).sum::<usize>();
    let cases = [
        ("taskmaster-testcraft.json", PlanFormat::TaskMaster, 145, 91, 0),
        ("ralph-hauler-ui.json", PlanFormat::Ralph, 24, 24, 0),
        ("beads-skyhook.jsonl", PlanFormat::Beads, 7, 6, 0),
        ("speckit-speck-008.md", PlanFormat::SpecKit, 142, 142, 44),
        ("openspec-workspace-planning.md", PlanFormat::Markdown, 76, 76, 0),
    ];
    for (name, format, steps, done, beside) in cases {
        let Some(path) = shared_plan(name) else { continue };
        let imported = import::read(&path).unwrap();
        let plan = &imported.plan;
        assert_eq!(imported.format, format, "{name}");
        assert_eq!((plan.steps.len(), imported.done.len()), (steps, done), "{name}");
        assert_eq!(parallel(plan), beside, "{name}");
        survives(&imported);
        match format {
            PlanFormat::Ralph => assert_eq!((count(plan), depth(plan)), (49, 9)),
            PlanFormat::Beads => assert_eq!((count(plan), depth(plan)), (17, 4)),
            PlanFormat::SpecKit => {
                assert_eq!(plan.phases.len(), 11);
                assert!(imported.notes.iter().any(|note| note.message.starts_with("30 boxes")));
                assert!(plan.steps.iter().any(|step| step.id == "T031a"));
            }
            PlanFormat::Markdown => assert_eq!(plan.phases.len(), 7),
            _ => {}
        }
    }
}

/// Longest chain of waiting, in edges. The importers give what others wait for in any order.
fn depth(plan: &Plan) -> usize {
    let mut depths: BTreeMap<&str, usize> = BTreeMap::new();
    while depths.len() < plan.steps.len() {
        for step in &plan.steps {
            if step.after.iter().all(|id| depths.contains_key(id.as_str())) {
                let deepest = step.after.iter().map(|id| depths[id.as_str()] + 1).max();
                depths.insert(&step.id, deepest.unwrap_or(0));
            }
        }
    }
    depths.into_values().max().unwrap_or(0)
}

/// Text that tries what the forms use for themselves.
fn nasty() -> impl Strategy<Value = String> {
    let words = [
        "",
        "a",
        " lead",
        "trail ",
        "two\nlines",
        "\n",
        "> quote",
        "# head",
        "## Steps",
        "- [ ] `x` y",
        "```json",
        "```",
        "`tick`",
        "cel: `1`",
        "command: `x`",
        "yes",
        "null",
        "~",
        "3.10",
        "1e3",
        "true",
        "key: value",
        "- item",
        "#no",
        "@at",
        "%x",
        "'q'",
        "\"q\"",
        "back\\slash",
        "\u{e9}\u{4e2d}",
        "a\r\nb",
        "tab\tx",
        "\u{7}",
        "{x",
        "[x",
        "&a",
        "*a",
        "!t",
        "|",
        "a #b",
        "line\n\n  deep\n",
        "\u{2028}",
        "\u{85}",
        "\u{feff}",
        "---",
        "...",
        "=",
        "<<",
        "0x10",
        "2026-01-01",
        "<!-- x -->",
        "-",
        "?",
        ":",
        "\u{1f600}",
        "a\u{a0}",
        "x:\n  y",
        "\\n",
    ];
    let fixed = prop::sample::select(words.to_vec()).prop_map(str::to_owned);
    prop_oneof![3 => fixed, 1 => "\\PC{0,12}", 1 => "[a-z \n#>`-]{0,20}"]
}

fn extra() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::json!(null)),
        any::<bool>().prop_map(Into::into),
        (-1_000_000_i64..1_000_000).prop_map(Into::into),
        (-1000_i32..1000).prop_map(|n| (f64::from(n) / 8.0).into()),
        nasty().prop_map(Into::into),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Into::into),
            prop::collection::btree_map(nasty(), inner, 0..3)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    let criterion = (0..3, nasty()).prop_map(|(kind, body)| match kind {
        0 => Criterion::Command(body),
        _ => Criterion::Text(body),
    });
    let lists = prop::collection::vec(prop::collection::vec(nasty(), 0..3), 4);
    (
        (nasty(), nasty(), -3..3_i32, lists),
        prop::collection::vec(criterion, 0..3),
        prop::option::of(nasty()),
        prop::collection::btree_map(nasty(), extra(), 0..2),
    )
        .prop_map(|((title, goal, priority, lists), acceptance, owner, extra)| Step {
            title,
            goal,
            priority,
            acceptance: acceptance
                .into_iter()
                .filter(|each| !each.body().trim().is_empty())
                .collect(),
            owner,
            tools: lists[0].clone().into(),
            tags: lists[1].clone().into(),
            changes: lists[2].clone().into(),
            side_effects: lists[3].clone().into(),
            extra,
            ..Step::default()
        })
}

/// Valid plans with all that text can do to a form.
fn any_plan() -> impl Strategy<Value = Plan> {
    let steps = prop::collection::vec((any_step(), nasty(), 0_usize..9), 1..5);
    let texts = prop::collection::vec(nasty(), 4);
    (steps, texts, prop::collection::vec(nasty(), 0..3)).prop_map(|(parts, texts, risks)| {
        let mut steps: Vec<Step> = Vec::new();
        for (index, (step, name, before)) in parts.into_iter().enumerate() {
            let is_id = !name.is_empty() && name.trim() == name && !name.contains(char::is_control);
            let id = if is_id { format!("{name}{index}") } else { format!("s{index}") };
            let after = steps.get(before).map(|step| step.id.clone()).into_iter().collect();
            steps.push(Step { id, after, ..step });
        }
        Plan {
            title: texts[0].clone(),
            outcome: texts[1].clone(),
            goal: texts[2].clone(),
            context: texts[3].clone(),
            risks,
            steps,
            ..Plan::default()
        }
    })
}

proptest! {
    #[test]
    fn any_plan_survives_every_form(plan in any_plan()) {
        let text = plan.canonical();
        if let Ok(imported) = import::parse("p", &text) {
            survives(&imported);
        } else {
            prop_assert!(!plan_ledger::plan::validate(&plan).is_empty(), "{}", text);
        }
    }

    #[test]
    fn any_text_is_answered(lines in prop::collection::vec(nasty(), 0..12), start in 0..6) {
        let start = ["", "# T\n- [ ] ", "<!-- ledger plan 1 -->\n## Steps\n", "[{\"id\": \"", "---\n", "- "][
            usize::try_from(start).unwrap()];
        let text = format!("{start}{}", lines.join("\n"));
        if let Some(imported) = check_text("t", &text, None).imported {
            survives(&imported);
        }
    }
}
