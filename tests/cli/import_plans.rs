//! Plan files of other tools: the plan that each becomes, that no information is lost, and that the
//! plan survives a round trip through every native format.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use plan_ledger::plan::Criterion;
use plan_ledger::{Plan, Step};
use plan_ledger_files::{
    self as files, Diagnostic, ExportFormat, PlanFile, PlanFormat, Severity, lint_text,
};
use proptest::prelude::*;

use super::drill::shared_plan;

const NATIVE_FORMATS: [ExportFormat; 3] =
    [ExportFormat::Yaml, ExportFormat::Json, ExportFormat::Markdown];

fn fixture(name: &str) -> PlanFile {
    let folder =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/fixtures/plans");
    files::read(&folder.join(name)).unwrap()
}

fn dependencies(plan_file: &PlanFile) -> Vec<(String, String)> {
    let steps = plan_file.plan.steps.iter();
    steps.map(|step| (step.id.clone(), step.after.join(" "))).collect()
}

#[track_caller]
fn assert_dependencies(plan_file: &PlanFile, expected: &[(&str, &str)]) {
    let expected: Vec<(String, String)> =
        expected.iter().map(|(id, after)| ((*id).to_owned(), (*after).to_owned())).collect();
    assert_eq!(dependencies(plan_file), expected);
}

fn step<'a>(plan_file: &'a PlanFile, id: &str) -> &'a Step {
    plan_file.plan.steps.iter().find(|step| step.id == id).unwrap()
}

fn criteria(step: &Step) -> Vec<&str> {
    step.acceptance.iter().map(Criterion::body).collect()
}

fn names(marks: &BTreeMap<String, String>) -> Vec<&str> {
    marks.keys().map(String::as_str).collect()
}

/// A plan and its marks, without the format and the notes of the file.
fn content(plan_file: &PlanFile) -> impl PartialEq + std::fmt::Debug + use<> {
    let PlanFile { plan, done, skipped, statuses, progress, .. } = plan_file.clone();
    (plan.canonical(), done, skipped, statuses, progress)
}

/// Asserts that a plan is the same after a round trip through each native format, and that a second
/// round trip gives the same text.
#[track_caller]
fn assert_round_trips(plan_file: &PlanFile) {
    for format in NATIVE_FORMATS {
        let text = plan_file.render(format).unwrap();
        let again = files::parse("again", &text).unwrap();
        assert_eq!(content(&again), content(plan_file), "{format:?}\n{text}");
        assert_eq!(again.render(format).unwrap(), text, "{format:?}");
        assert!(again.format.is_native());
    }
}

#[test]
fn every_fixture_round_trips_through_every_format() {
    let folder =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/fixtures/plans");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        assert_round_trips(&files::read(&path).unwrap());
        count += 1;
    }
    assert!(count >= 12, "{count} fixtures");
}

#[test]
fn ralph_stories_without_dependencies_follow_their_priority() {
    let plan_file = fixture("ralph.json");
    assert_eq!(plan_file.format, PlanFormat::Ralph);
    assert_dependencies(&plan_file, &[("US-001", ""), ("US-002", "US-001"), ("US-003", "US-001")]);
    assert!(plan_file.notes[0].message.contains("the order is used (`priority`)"));
    assert_eq!(
        (plan_file.plan.title.as_str(), plan_file.plan.goal.as_str()),
        ("Shop", "Sell things")
    );
    assert_eq!(plan_file.done["US-001"], "ralph.json: passes true");
    assert_eq!(plan_file.statuses["US-002"], "passes false");
    let pay = step(&plan_file, "US-002");
    assert_eq!((pay.priority, criteria(pay)), (-2, vec!["money arrives"]));
    assert_eq!(pay.extra["ralph"]["preCommit"][0], "lint");
    assert_eq!(plan_file.plan.extra["ralph"]["branchName"], "ralph/shop");
    assert_eq!(plan_file.progress["US-001"]["ralph"]["completionNotes"], "by hand");
}

#[test]
fn json_plan_with_order_files_and_criteria_is_read() {
    let plan_file = fixture("ordered.json");
    assert_eq!(plan_file.format, PlanFormat::Records);
    assert_dependencies(&plan_file, &[("1", ""), ("2", "1"), ("3", "2")]);
    let first = step(&plan_file, "1");
    assert_eq!((first.title.as_str(), first.goal.as_str()), ("Write it", "A function"));
    assert_eq!(*first.changes, ["src/a.rs"]);
    assert_eq!(criteria(first), ["it compiles", "it is fast", "cargo test"]);
    assert_eq!(first.extra["json"]["effort"], 3);
    assert_eq!(plan_file.plan.extra["json"]["analysis"]["files"], 3);
    assert_eq!(plan_file.plan.extra["json"]["plan"]["risk"], "none");
    assert_eq!(names(&plan_file.skipped), ["3"]);
}

#[test]
fn task_lists_in_phases_are_read() {
    let plan_file = fixture("phases.json");
    assert_dependencies(
        &plan_file,
        &[
            ("build", ""),
            ("test.1", "build"),
            ("test.2", "build"),
            ("test", "build test.1 test.2"),
            ("ship", "test"),
        ],
    );
    let phases: Vec<&str> = plan_file.plan.phases.iter().map(|phase| phase.id.as_str()).collect();
    assert_eq!(phases, ["1", "2"]);
    assert_eq!(step(&plan_file, "ship").phase.as_deref(), Some("2"));
    assert_eq!(criteria(step(&plan_file, "build")), ["it runs"]);
    let extra = &plan_file.plan.extra["json"];
    assert_eq!(extra["phases"]["1"]["due"], "soon");
    assert_eq!(extra["bugs"][0]["title"], "a bug");
    assert!(plan_file.notes.iter().any(|note| note.message.contains("the list `bugs`")));
    assert_eq!(plan_file.statuses["ship"], "in-progress");
}

#[test]
fn task_lists_with_other_field_names_are_read() {
    let todo = r#"[{"content": "Do it", "status": "completed", "activeForm": "Doing it"},
        {"content": "Tell", "status": "pending", "activeForm": "Telling"}]"#;
    let plan_file = files::parse("t", todo).unwrap();
    assert_dependencies(&plan_file, &[("1", ""), ("2", "1")]);
    assert_eq!(step(&plan_file, "2").title, "Tell");
    assert_eq!(names(&plan_file.done), ["1"]);
    let plan = r#"{"explanation": "x", "plan": [{"step": "Do it", "status": "completed"}]}"#;
    assert_eq!(step(&files::parse("t", plan).unwrap(), "1").title, "Do it");
    let own_names =
        r#"{"tasks": [{"id": "a", "title": "A", "depends_on": ["b"]}, {"id": "b", "title": "B"}]}"#;
    assert_dependencies(&files::parse("t", own_names).unwrap(), &[("a", "b"), ("b", "")]);
    let by_title =
        r#"{"work": [{"id": 7, "title": "A"}, {"id": 8, "title": "B", "requires": ["A"]}]}"#;
    assert_dependencies(&files::parse("t", by_title).unwrap(), &[("7", ""), ("8", "7")]);
    let lines = "{\"id\": \"a\", \"title\": \"A\"}\n{\"id\": \"b\", \"title\": \"B\"}\n";
    assert_dependencies(&files::parse("t", lines).unwrap(), &[("a", ""), ("b", "a")]);
}

#[test]
fn beads_issues_wait_for_their_blockers() {
    let plan_file = fixture("beads.jsonl");
    assert_eq!(plan_file.format, PlanFormat::Beads);
    assert_dependencies(
        &plan_file,
        &[
            ("b-1", ""),
            // The parent of b-4 and b-5, which also wait for its dependency b-1.
            ("b-3", "b-1 b-4 b-5"),
            ("b-4", "b-1"),
            ("b-5", "b-4 b-1"),
            ("b-6", ""),
            ("b-7", "b-6"),
        ],
    );
    let first = step(&plan_file, "b-1");
    assert_eq!((first.goal.as_str(), first.priority), ("d\n\ne", 10));
    assert_eq!(criteria(first), ["a", "b"]);
    assert_eq!(*step(&plan_file, "b-4").tags, ["x"]);
    assert_eq!(plan_file.done["b-1"], "beads.jsonl: status closed (did it)");
    assert_eq!(names(&plan_file.skipped), ["b-6"]);
    assert_eq!(plan_file.statuses["b-4"], "hooked");
    let others = plan_file.plan.extra["beads"]["others"].as_array().unwrap();
    assert_eq!((others[0]["id"].as_str(), others[1]["key"].as_str()), (Some("b-2"), Some("k")));
    let notes: Vec<String> = plan_file.notes.iter().map(ToString::to_string).collect();
    for expected in [
        "line 3: issue `b-3`: conditional",
        "line 7: steps[5] (b-7).after[0]: `b-6` is marked as dropped",
    ] {
        assert!(notes.iter().any(|note| note.starts_with(expected)), "{expected}: {notes:#?}");
    }
    assert_eq!(plan_file.report.unread_text(), "1 record, line 8");
    let corrections: Vec<String> =
        plan_file.report.corrections.iter().map(ToString::to_string).collect();
    assert_eq!(corrections, ["`b-3` on `b-2` (line 3)"]);
}

#[test]
fn beads_progress_does_not_change_the_plan() {
    let open = r#"{"id":"a","title":"A","status":"open","issue_type":"task","updated_at":"1"}"#;
    let closed = r#"{"id":"a","title":"A","status":"closed","issue_type":"task","updated_at":"2","closed_at":"2"}"#;
    let (open, closed) = (files::parse("t", open).unwrap(), files::parse("t", closed).unwrap());
    assert_eq!(open.plan, closed.plan);
    assert_ne!(open.done, closed.done);
}

#[test]
fn spec_kit_tasks_follow_their_order_and_parallel_tags() {
    let plan_file = fixture("speckit.md");
    assert_eq!(plan_file.format, PlanFormat::SpecKit);
    assert_dependencies(
        &plan_file,
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
    assert_eq!(plan_file.plan.barriers[0].members, ["T002", "T003"]);
    assert_eq!(*step(&plan_file, "T004").tags, ["P", "US1"]);
    assert_eq!(step(&plan_file, "T004").phase.as_deref(), Some("2"));
    assert_eq!(criteria(step(&plan_file, "T006a")), ["also when everyone is out"]);
    assert_eq!(plan_file.done["T003"], "speckit.md: line 9: [x]");
    let context = &plan_file.plan.context;
    for kept in ["**Input**: spec.md", "**Goal**: It rings.", "SC-001: it rings"] {
        assert!(context.contains(kept), "{context}");
    }
    assert!(!context.contains("T004"), "{context}");
}

#[test]
fn open_spec_headings_become_phases() {
    let plan_file = fixture("openspec.md");
    assert_dependencies(&plan_file, &[("1.1", ""), ("1.2", "1.1"), ("2.1", "1.2"), ("2.2", "2.1")]);
    assert_eq!(names(&plan_file.done), ["1.1"]);
    let phases: Vec<&str> =
        plan_file.plan.phases.iter().map(|phase| phase.title.as_str()).collect();
    assert_eq!(phases, ["1. Doors", "2. Windows"]);
}

#[test]
fn markdown_plan_with_labelled_steps_is_read() {
    let plan_file = fixture("steps.md");
    assert_dependencies(&plan_file, &[("1", ""), ("2", "1"), ("3", "1 2")]);
    let (first, second) = (step(&plan_file, "1"), step(&plan_file, "2"));
    assert_eq!(
        (first.title.as_str(), first.goal.as_str()),
        ("Measure", "Measure\n\nLook at what is slow.")
    );
    assert_eq!(*first.tools, ["perf", "rg"]);
    assert_eq!(*first.changes, ["src/a.rs", "src/b.rs"]);
    assert_eq!(criteria(first), ["a table of times", "no complaints"]);
    assert_eq!(*second.changes, ["src/new.rs", "src/old.rs"]);
    assert_eq!(criteria(second), ["tests pass"]);
    assert!(
        second.goal.contains("- [ ] no task")
            && second.goal.contains("Changes: Create `src/new.rs`")
    );
    assert_eq!(names(&plan_file.done), ["3"]);
    let plan = &plan_file.plan;
    assert_eq!((plan.title.as_str(), plan.goal.as_str()), ("Move the cache", "Faster reads."));
    assert_eq!(plan.risks, ["It may be slow.", "It may break."]);
    assert_eq!(plan.test_criteria, [Criterion::Text("reads take a millisecond".to_owned())]);
    assert_eq!(plan.context, "Some words before.\n\n## Notes\n\n- Ask Ana.");
}

#[test]
fn markdown_plan_with_front_matter_and_nested_checkboxes_is_read() {
    let plan_file = fixture("artifact.md");
    assert_dependencies(
        &plan_file,
        &[
            ("1.1", ""),
            ("1.2.1", "1.1"),
            ("1.2.2", "1.2.1"),
            ("1.2", "1.2.2"),
            ("2.1", "1.2"),
            ("2.2", "2.1"),
        ],
    );
    assert_eq!(plan_file.plan.outcome, "It is out, and people\nare happy.");
    assert_eq!(criteria(step(&plan_file, "1.2")), ["it shines"]);
    assert_eq!(step(&plan_file, "2.1").title, "Wrap");
    assert_eq!(plan_file.plan.context, "## Next Action\n\n1. Find the thing");
    assert_eq!(plan_file.plan.extra["markdown"]["front_matter"], "---\nowner: ana\n---");
}

#[test]
fn numbered_tasks_under_headings_in_any_language_are_read() {
    let plan_file = fixture("numbered.md");
    assert_dependencies(&plan_file, &[("1.1", ""), ("1.2", "1.1"), ("2.1", "1.2"), ("2.2", "2.1")]);
    let carried = step(&plan_file, "2.1");
    assert_eq!(
        (carried.title.as_str(), carried.goal.as_str()),
        ("Tragen", "**Tragen** - alles runter und wieder rauf")
    );
    let text = "# \u{8ba1}\u{5212}\n\n## \u{4e00}\n- [ ] \u{5efa}\n- [x] \u{6d4b}\n";
    let plan_file = files::parse("t", text).unwrap();
    assert_dependencies(&plan_file, &[("1", ""), ("2", "1")]);
    assert_eq!(names(&plan_file.done), ["2"]);
}

#[test]
fn checkbox_ticked_in_native_markdown_is_honoured() {
    let plan_file = fixture("openspec.md");
    let text = plan_file.render(ExportFormat::Markdown).unwrap();
    let ticked = text.replace("- [ ] `2.1`", "- [x] `2.1`").replace("- [x] `1.1`", "- [ ] `1.1`");
    let again = files::parse("plan.md", &ticked.replace('\n', "\r\n")).unwrap();
    assert_eq!(names(&again.done), ["2.1"]);
    assert!(again.done["2.1"].starts_with("plan.md: line "), "{:?}", again.done);
    assert_eq!(again.plan, plan_file.plan);
    let words = text
        .replace("> Fit it", "> Fit it\n  > well")
        .replace("After: `1.1`", "After: `1.1`, `2.1`");
    let changed = files::parse("plan.md", &words).unwrap_err().to_string();
    assert!(changed.contains("a cycle"), "{changed}");
}

#[test]
fn example_in_format_page_matches_rendered_text() {
    let page = include_str!("../../format/plan-files.md");
    let example = page.split("````markdown\n").nth(1).unwrap().split("````").next().unwrap();
    let plan_file = files::parse("page", example).unwrap();
    assert_eq!(plan_file.render(ExportFormat::Markdown).unwrap(), example);
    assert_eq!((plan_file.plan.steps.len(), names(&plan_file.done)), (2, vec!["build"]));
}

#[test]
fn native_markdown_errors_are_all_reported_with_lines() {
    let text = "<!-- ledger plan 1 -->\n# T\n\n## Steps\n\n- [ ] `a` A\n  - Aftr: `b`\n  - After: b\n\
                - `b` B\nwhat\n- [ ] `c`\n  ```json\n  {\"retry\": 3,}\n  ```\n- [ ] C\n";
    let found = lint_text("p.md", text, None).diagnostics;
    let lines: Vec<Option<u64>> = found.iter().map(|each| each.line).collect();
    assert_eq!(lines, [7, 8, 9, 10, 13, 15, 15].map(Some), "{found:#?}");
}

#[test]
fn problems_in_files_of_other_tools_have_lines() {
    let cases: [(&str, &[(u64, &str)]); 4] = [
        ("- [ ] T001 a (depends on T002)\n- [ ] T002 b (depends on T001)\n", &[(1, "a cycle")]),
        (
            "{\"userStories\": [\n {\"id\": 1, \"title\": \"a\", \"dependsOn\": [2]},\n {\"id\": 2, \"title\": \
             \"b\",\n \"dependsOn\": [1]}]}",
            &[(2, "a cycle")],
        ),
        ("{\"id\":\"a\",\"issue_type\":\"t\"}\n{\"id\":}\n", &[(2, "expected a value")]),
        (
            "{\"tasks\": [\n{\"id\": 1, \"dependencies\": [2]},\n{\"id\": 2, \"dependencies\": [\n1]}]}",
            &[(2, "a cycle")],
        ),
    ];
    for (text, expected) in cases {
        let report = lint_text("f", text, None);
        assert!(report.plan_file.is_none(), "{text}");
        for (line, words) in expected {
            let is_problem =
                |each: &&Diagnostic| each.severity == Severity::Problem && each.line == Some(*line);
            let found: Vec<String> =
                report.diagnostics.iter().filter(is_problem).map(ToString::to_string).collect();
            assert!(
                found.iter().any(|each| each.contains(words)),
                "{words}: {:#?}",
                report.diagnostics
            );
        }
    }
}

#[test]
fn native_plan_errors_are_all_reported_at_once() {
    let yaml = "titel: x\nsteps:\n  - id: a\n    aftr: [b]\n  - id: 3\n    priority: high\n    after: b\n  \
                - goal: x\n    retry:\n      max_attempts: no\n";
    let found = lint_text("p.yaml", yaml, None).diagnostics;
    let lines: BTreeSet<Option<u64>> = found.iter().map(|each| each.line).collect();
    for line in [1, 4, 6, 7, 8, 10] {
        assert!(lines.contains(&Some(line)), "{line}: {found:#?}");
    }
    assert!(found.iter().any(|each| each.message.contains("did you mean `after`?")));
    let json = "{\"titel\": \"x\",\n\"steps\": [\n{\"id\": \"a\", \"aftr\": []},\n{\"id\": 3,\n\"priority\": \
                \"high\"},\n{\"goal\": \"x\", \"after\": []}]}";
    let found = lint_text("p.json", json, None).diagnostics;
    let lines: Vec<Option<u64>> = found.iter().map(|each| each.line).collect();
    assert_eq!(lines, [1, 3, 4, 5, 6].map(Some), "{found:#?}");
}

/// Several errors in one line, and errors after malformed YAML, are reported; consequences of another
/// error are not.
#[test]
fn yaml_errors_are_reported_without_their_consequences() {
    let lines = |text: &str| -> Vec<(u64, String)> {
        let found = lint_text("p.yaml", text, None).diagnostics;
        let line_and_message = |each: &Diagnostic| {
            assert_eq!(each.severity, Severity::Problem, "{found:#?}");
            (each.line.unwrap(), each.message.clone())
        };
        found.iter().map(line_and_message).collect()
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
            let is_expected = |(at, message): &(u64, String)| {
                (*line == 0 || at == line) && message.contains(words)
            };
            assert!(found.iter().any(is_expected), "{line} {words}\n{found:#?}");
        }
    }
}

#[test]
fn text_without_a_plan_is_rejected_with_the_known_formats() {
    for text in ["# Only words\n\nAnd more.\n", "{\"a\": 1}", "[1, 2]", "[]", "\u{0}\u{1}# x\n"] {
        let report = lint_text("f", text, None);
        let found = report.diagnostics.iter().map(ToString::to_string).collect::<String>();
        assert!(report.plan_file.is_none() && !found.is_empty(), "{text}: {found}");
    }
    for text in ["# Only words\n\nAnd more.\n", "{\"a\": 1}"] {
        let found = lint_text("f", text, None).diagnostics[0].message.clone();
        for form in ["task-master", "Ralph", "beads", "Markdown", "`steps`"] {
            assert!(found.contains(form), "{found}");
        }
    }
}

#[test]
fn dependencies_of_10000_tasks_stay_linear() {
    let tasks: Vec<String> = (0..10_000)
        .map(|n| format!("- [ ] T{n:05} {} do\n", if n % 5_000 == 0 { "" } else { "[P]" }))
        .collect();
    let (first, second) = tasks.split_at(5_000);
    let text = format!("## Phase 1\n{}\n## Phase 2\n{}", first.concat(), second.concat());
    let plan_file = files::parse("t", &text).unwrap();
    let edges = plan_file.plan.steps.iter().map(|step| step.after.len()).sum::<usize>();
    let members =
        plan_file.plan.barriers.iter().map(|barrier| barrier.members.len()).sum::<usize>();
    assert_eq!(plan_file.plan.steps.len(), 10_000);
    assert!(edges + members < 20_000, "{edges} and {members}");
}

/// Files of real projects. The expected counts come from an independent program.
#[test]
fn real_files_have_the_expected_counts_and_round_trip() {
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
    for (name, format, steps, done, parallel_steps) in cases {
        let Some(path) = shared_plan(name) else { continue };
        let plan_file = files::read(&path).unwrap();
        let plan = &plan_file.plan;
        assert_eq!(plan_file.format, format, "{name}");
        assert_eq!((plan.steps.len(), plan_file.done.len()), (steps, done), "{name}");
        assert_eq!(parallel(plan), parallel_steps, "{name}");
        assert_round_trips(&plan_file);
        match format {
            PlanFormat::Ralph => assert_eq!((count(plan), depth(plan)), (49, 9)),
            PlanFormat::Beads => assert_eq!((count(plan), depth(plan)), (17, 4)),
            PlanFormat::SpecKit => {
                assert_eq!(plan.phases.len(), 11);
                assert!(plan_file.report.unread.iter().any(|part| part.count == 30));
                assert!(plan.steps.iter().any(|step| step.id == "T031a"));
            }
            PlanFormat::Markdown => assert_eq!(plan.phases.len(), 7),
            _ => {}
        }
    }
}

/// The length of the longest chain of dependencies. Steps can be in any order.
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

/// Text with the syntax of the formats in it.
fn hostile_text() -> impl Strategy<Value = String> {
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
        hostile_text().prop_map(Into::into),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Into::into),
            prop::collection::btree_map(hostile_text(), inner, 0..3)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    let criterion = (0..3, hostile_text()).prop_map(|(kind, body)| match kind {
        0 => Criterion::Command(body),
        _ => Criterion::Text(body),
    });
    let lists = prop::collection::vec(prop::collection::vec(hostile_text(), 0..3), 4);
    (
        (hostile_text(), hostile_text(), -3..3_i32, lists),
        prop::collection::vec(criterion, 0..3),
        prop::option::of(hostile_text()),
        prop::collection::btree_map(hostile_text(), extra(), 0..2),
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

/// Mostly valid plans with hostile text in every field.
fn any_plan() -> impl Strategy<Value = Plan> {
    let steps = prop::collection::vec((any_step(), hostile_text(), 0_usize..9), 1..5);
    let texts = prop::collection::vec(hostile_text(), 4);
    (steps, texts, prop::collection::vec(hostile_text(), 0..3)).prop_map(|(parts, texts, risks)| {
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
    fn any_valid_plan_round_trips(plan in any_plan()) {
        let text = plan.canonical();
        if let Ok(plan_file) = files::parse("p", &text) {
            assert_round_trips(&plan_file);
        } else {
            prop_assert!(!plan_ledger::plan::validate(&plan).is_empty(), "{}", text);
        }
    }

    #[test]
    fn any_text_is_read_or_rejected_without_panic(lines in prop::collection::vec(hostile_text(), 0..12), start in 0..6) {
        let start = ["", "# T\n- [ ] ", "<!-- ledger plan 1 -->\n## Steps\n", "[{\"id\": \"", "---\n", "- "][
            usize::try_from(start).unwrap()];
        let text = format!("{start}{}", lines.join("\n"));
        if let Some(plan_file) = lint_text("t", &text, None).plan_file {
            assert_round_trips(&plan_file);
        }
    }
}
