//! Tests of reading plan files.

use std::path::PathBuf;

use super::*;
use crate::plan::{self, Criterion, Idempotence, Rejection, Step};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/plans").join(name)
}

fn refusal(text: &str) -> String {
    let error = parse("p.yaml", text).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadPlan);
    error.to_string()
}

fn written(dir: &tempfile::TempDir, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join("plan.yaml");
    std::fs::write(&path, bytes).unwrap();
    path
}

fn step<'a>(imported: &'a Imported, id: &str) -> &'a Step {
    imported.plan.steps.iter().find(|step| step.id == id).unwrap()
}

#[test]
fn yaml_and_json_are_one_form() {
    let yaml = read(&fixture("own.yaml")).unwrap();
    let json = read(&fixture("own.json")).unwrap();
    assert_eq!((yaml.format, json.format), (PlanFormat::Yaml, PlanFormat::Json));
    assert_eq!(yaml.plan, json.plan);
    assert_eq!(yaml.plan.steps[1].idempotent, Some(Idempotence::No));
    assert_eq!(yaml.plan.steps[0].acceptance[0], Criterion::Text("it works".into()));
}

#[test]
fn the_canonical_text_is_a_plan_file() {
    let plan = read(&fixture("own.yaml")).unwrap().plan;
    assert_eq!(parse("p", &plan.canonical()).unwrap().plan, plan);
}

#[test]
fn ids_that_look_like_numbers_keep_their_text() {
    let text = "steps:\n  - id: 3.10\n  - id: 1\n    after: [3.10]\n  - id: 0x10\n  - id: no\n  \
                - id: 1e3\n  - id: 007\n  - id: true\n";
    let plan = parse("p", text).unwrap().plan;
    let ids: Vec<&str> = plan.steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(ids, ["3.10", "1", "0x10", "no", "1e3", "007", "true"]);
    assert_eq!(plan.steps[1].after, ["3.10"]);
}

#[test]
fn every_error_of_the_form_has_line_and_column() {
    let cases = [
        ("steps:\n  - id: a\n    after: b\n", "line 3, column 12: expected a list"),
        ("steps:\n  - id:\n", "line 2, column 7: nothing is written here, expected text"),
        ("steps:\n  - title: x\n", "line 2, column 5: missing field `id`"),
        ("steps: [a\n", "line 1, column 8: unclosed bracket '['"),
        ("steps:\n\t- id: a\n", "line 2, column 2: tabs disallowed"),
        ("hello\n", "line 1, column 1: expected fields"),
        ("steps:\n  - id: a\n    id: b\n", "line 3, column 5: field `id` is there twice"),
        ("steps:\n  - id: a\n    priority: high\n", "line 3, column 15: expected a whole number"),
        ("steps:\n  - id: a\n---\nsteps: []\n", "line 4, column 1: the file has more than one"),
        (
            "steps:\n  - id: a\n    extra: {x: .nan}\n",
            "line 3, column 16: the number is not finite",
        ),
        ("steps:\n  - id: a\n    after: *x\n", "line 3, column 12: alias references unknown"),
        (
            r#"{"steps": [{"id": 1}]}"#,
            "line 1, column 19: invalid type: integer `1`, expected a \
                                       string; write it in quotes",
        ),
        ("{\"steps\": [\n{\"id\": \"a\",}]}", "line 2, column 12: trailing comma"),
        (r#"{"steps": [{"id": "a"}]"#, "line 1, column 23: EOF while parsing"),
        (r#"{"steps": [{"id": "a"}], "steps": []}"#, "line 1, column 32: duplicate field `steps`"),
        ("{title: x}", "line 1, column 2: key must be a string"),
    ];
    for (text, expected) in cases {
        let found = refusal(text);
        assert!(found.starts_with(&format!("p.yaml: {expected}")), "{text:?}: {found}");
    }
}

#[test]
fn an_unknown_name_is_refused_with_the_known_ones_and_the_nearest() {
    for text in ["steps:\n  - id: a\n    aftr: [b]\n", r#"{"steps": [{"id": "a", "aftr": []}]}"#] {
        let found = refusal(text);
        assert!(found.contains("unknown field `aftr`, expected one of"), "{found}");
        assert!(found.contains("preconditions"), "{found}");
        assert!(found.ends_with("did you mean `after`?"), "{found}");
    }
    let found = refusal("steps:\n  - id: a\n    idempotent: with-key\n");
    assert!(found.ends_with("did you mean `with_key`?"), "{found}");
}

#[test]
fn what_is_quoted_from_the_file_cannot_steer_a_terminal() {
    let found = refusal("{\"steps\": [{\"id\": \"a\", \"\\u001b[2J\": 1}]}");
    assert!(!found.contains('\u{1b}') && found.contains("\\u{1b}[2J"), "{found}");
}

#[test]
fn all_problems_of_the_plan_are_one_error() {
    let error = parse("p", "steps:\n  - id: a\n    after: [b, c]\n  - id: b\n    after: [a]\n");
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadPlan);
    let text = error.to_string();
    assert!(text.starts_with("p: the plan is not valid, 2 problems:"), "{text}");
    assert!(text.contains("no step or barrier `c`") && text.contains("a -> b -> a"), "{text}");
    assert!(matches!(error.rejection(), Some(Rejection::InvalidPlan(list)) if list.len() == 2));
}

#[test]
fn files_that_are_empty_or_no_plan_say_so() {
    for text in ["", " \n\n", "\u{feff}", "# only a comment\n---\n"] {
        assert!(refusal(text).contains("the file is empty"), "{text:?}");
    }
    for text in ["[]", "{}", r#"{"stories": []}"#, r#"{"tasks": {}}"#] {
        let found = refusal(text);
        assert!(found.contains("the JSON is no plan: expected our own form"), "{found}");
    }
    assert!(refusal("steps:\n").contains("the plan has no steps"));
}

#[test]
fn files_that_cannot_be_read_say_why() {
    let dir = tempfile::tempdir().unwrap();
    let missing = read(&dir.path().join("none.yaml")).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Io);
    assert!(missing.to_string().contains("none.yaml: cannot read the plan file"), "{missing}");
    assert_eq!(read(dir.path()).unwrap_err().kind(), ErrorKind::Io);

    let latin = read(&written(&dir, b"title: caf\xe9\n")).unwrap_err();
    assert_eq!((latin.kind(), latin.location().offset), (ErrorKind::BadPlan, Some(10)));
    assert!(latin.to_string().contains("offset 10: byte 0xe9 is not UTF-8 text"), "{latin}");
    let wide = read(&written(&dir, b"\xff\xfet\0")).unwrap_err();
    assert!(wide.to_string().contains("UTF-16"), "{wide}");
}

#[test]
fn a_file_over_the_limit_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = written(&dir, b"");
    // A hole: it costs no room.
    std::fs::File::options().write(true).open(&path).unwrap().set_len(FILE_BYTES_MAX + 1).unwrap();
    let error = read(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadPlan);
    assert!(error.to_string().contains("over 67108864 bytes"), "{error}");
}

#[test]
fn a_byte_order_mark_is_no_content() {
    let dir = tempfile::tempdir().unwrap();
    let path = written(&dir, b"\xef\xbb\xbfsteps:\n  - id: a\n");
    assert_eq!(read(&path).unwrap().plan.steps[0].id, "a");
    assert!(parse("p", "\u{feff}{\"steps\": [{\"id\": \"a\"}]}").is_ok());
}

/// Story: YAML whose keys are quoted, or stand apart from their colons, was taken for Markdown where a
/// comment stood before it: the comment passed for a heading. Goal: it is read as the plan that it is.
#[test]
fn yaml_is_yaml_however_its_keys_are_written() {
    for (steps, id) in [("steps:", "id:"), ("\"steps\":", "\"id\":"), ("'steps' :", "id :")] {
        let text = format!("# the plan of today\n{steps}\n  - {id} a\n");
        let imported = parse("p", &text).unwrap();
        assert_eq!((imported.format, &*imported.plan.steps[0].id), (PlanFormat::Yaml, "a"));
    }
    assert_eq!(parse("p", "steps :\n  - id : a\n").unwrap().format, PlanFormat::Yaml);
    let tasks = parse("p", "# Steps: today\n\n- [ ] mend it\n").unwrap();
    assert_eq!(tasks.format, PlanFormat::Markdown);
}

#[test]
fn text_that_blows_up_is_refused() {
    let deep =
        format!("steps:\n  - id: a\n    extra: {{x: {}1{}}}\n", "[".repeat(99), "]".repeat(99));
    assert!(refusal(&deep).contains("budget breached: Depth"));
    let aliases = vec!["*t"; 40_000].join(",");
    let text = "x".repeat(100_000);
    let bomb = format!("title: &t {text}\nsteps:\n  - id: a\n    inputs: [{aliases}]\n");
    assert!(refusal(&bomb).contains("budget breached"));
    let json = format!(r#"{{"steps": [{{"id": "a", "extra": {{"x": {}"#, "[".repeat(100_000));
    assert!(refusal(&json).contains("recursion limit"));
}

#[test]
fn a_large_yaml_plan_is_read() {
    let many: Vec<String> = (0..30_000).map(|n| format!("  - id: s{n}\n    goal: g")).collect();
    let many = many.join("\n");
    assert_eq!(parse("p", &format!("steps:\n{many}")).unwrap().plan.steps.len(), 30_000);
}

#[test]
fn task_master_tasks_and_subtasks_become_steps() {
    let imported = read(&fixture("taskmaster-tagged.json")).unwrap();
    assert_eq!(imported.format, PlanFormat::TaskMaster);
    let after: Vec<(&str, Vec<&str>)> = imported
        .plan
        .steps
        .iter()
        .map(|step| (step.id.as_str(), step.after.iter().map(String::as_str).collect()))
        .collect();
    assert_eq!(
        after,
        [
            ("1", vec![]),
            ("2.1", vec!["1"]),
            // Dependency 1 is the sibling, and the task's own dependency on task 1 binds too.
            ("2.2", vec!["2.1", "1"]),
            ("2.3", vec!["2.2", "2.1", "1"]),
            ("2.4", vec!["2.3", "1"]),
            ("2", vec!["1", "2.1", "2.2", "2.3", "2.4"]),
            ("3", vec!["2", "2.3"]),
            ("5.1", vec!["3"]),
            ("5", vec!["3", "5.1"]),
        ]
    );
    let first = step(&imported, "1");
    assert_eq!((first.title.as_str(), first.priority), ("Schema", 10));
    assert_eq!(first.goal, "Design the schema\n\nTables and keys");
    assert_eq!(first.acceptance, [Criterion::Text("Review it".into())]);
    assert!(first.extra.is_empty());
    assert_eq!((step(&imported, "2").priority, step(&imported, "5").priority), (20, -10));
}

#[test]
fn task_master_marks_stand_beside_the_plan() {
    let imported = read(&fixture("taskmaster-tagged.json")).unwrap();
    let done: Vec<&str> = imported.done.keys().map(String::as_str).collect();
    assert_eq!(done, ["1", "2.1"]);
    assert_eq!(imported.done["1"], "taskmaster-tagged.json: status done");
    assert_eq!(imported.skipped.len(), 1);
    assert_eq!(imported.skipped["2.3"], "taskmaster-tagged.json: status cancelled");
    assert_eq!(imported.statuses["2.4"], "deferred");
    assert_eq!(imported.statuses.get("3"), None);
}

#[test]
fn task_master_work_that_is_done_does_not_change_the_plan() {
    let text = std::fs::read_to_string(fixture("taskmaster-tagged.json")).unwrap();
    let worked = text
        .replace("\"pending\"", "\"done\"")
        .replace("2026-01-02T00:00:00.000Z", "2026-02-02T00:00:00.000Z")
        .replace("2026-01-02T03:04:05.000Z", "2026-02-02T03:04:05.000Z");
    let (before, after) = (parse("t", &text).unwrap(), parse("t", &worked).unwrap());
    assert_ne!(before.done, after.done);
    assert_eq!(before.plan.canonical(), after.plan.canonical());
}

#[test]
fn task_master_fields_without_a_place_are_kept() {
    let imported = read(&fixture("taskmaster-tagged.json")).unwrap();
    let kept = |id: &str| imported_extra(&step(&imported, id).extra);
    assert_eq!(kept("2"), r#"{"complexity":7}"#);
    assert_eq!(kept("2.4"), r#"{"parentTaskId":2}"#);
    assert_eq!(kept("3"), r#"{"priority":"whenever"}"#);
    assert_eq!(imported.plan.title, "The shop");
    assert_eq!(
        imported_extra(&imported.plan.extra),
        r#"{"metadata":{"created":"2026-01-01T00:00:00.000Z","description":"The shop"},"tag":"master"}"#
    );
}

fn imported_extra(extra: &crate::plan::Extra) -> String {
    plan::canonical(&extra["taskmaster"])
}

#[test]
fn task_master_tags_are_chosen() {
    let text = std::fs::read_to_string(fixture("taskmaster-tagged.json")).unwrap();
    let later = parse_tag("t", &text, Some("later")).unwrap();
    assert_eq!((later.plan.steps.len(), later.plan.title.as_str()), (1, "later"));
    let none = parse_tag("t", &text, Some("nope")).unwrap_err().to_string();
    assert_eq!(none, "t: the file has no tag `nope`; choose one of its tags: later, master");
    let renamed = text.replace("\"master\"", "\"main\"");
    let unclear = parse("t", &renamed).unwrap_err().to_string();
    assert!(unclear.contains("no tag `master`; choose one of its tags: later, main"), "{unclear}");
    let only = parse("t", r#"{"v2": {"tasks": [{"id": 1}]}}"#).unwrap();
    assert_eq!((only.plan.steps.len(), only.plan.title.as_str()), (1, "v2"));
    let own = parse_tag("t", "steps: [{id: a}]", Some("x")).unwrap_err().to_string();
    assert!(own.contains("a YAML plan has no tags"), "{own}");
}

#[test]
fn task_master_files_of_the_older_form_are_read() {
    let imported = read(&fixture("taskmaster-old.json")).unwrap();
    assert_eq!(imported.plan.title, "Old shop");
    assert_eq!(imported.plan.steps[1].after, ["1"]);
    assert_eq!(imported.done.len(), 1);
    assert_eq!(
        imported_extra(&imported.plan.extra),
        r#"{"meta":{"projectName":"Old shop","version":"1.0.0"}}"#
    );
    assert!(read_tag(&fixture("taskmaster-old.json"), Some("x")).is_err());
}

#[test]
fn task_master_mistakes_are_all_reported() {
    let text = r#"{"tasks": [{"title": "x"}, 7, {"id": 1, "dependencies": 3},
        {"id": 2, "dependencies": [null], "subtasks": {}}]}"#;
    let found = refusal(text);
    for place in [
        "tasks[0].id: expected",
        "tasks[1]: expected a task",
        "tasks[2].dependencies: expected a list",
        "tasks[3].dependencies[0]: expected",
        "tasks[3].subtasks: expected a list",
    ] {
        assert!(found.contains(place), "{place}: {found}");
    }
    let cycle = r#"{"tasks": [{"id": 1, "subtasks": [{"id": 1, "dependencies": ["1"]}]},
        {"id": 2, "dependencies": [9]},
        {"id": 3, "dependencies": ["3.1"], "subtasks": [{"id": 1, "dependencies": [2]}]}]}"#;
    let found = refusal(cycle);
    assert!(found.contains("steps[0] (1.1).after[0]: a cycle") && found.contains("2 problems"));
    assert!(found.contains("(2).after[0]: there is no step or barrier `9`"), "{found}");
}

#[test]
fn task_master_nested_subtasks_inherit_through() {
    let text = r#"{"tasks": [{"id": 1}, {"id": 2, "dependencies": [1], "subtasks": [
        {"id": 1, "subtasks": [{"id": 1}, {"id": 2, "dependencies": [1]}]}]}]}"#;
    let imported = parse("t", text).unwrap();
    assert_eq!(step(&imported, "2.1.2").after, ["2.1.1", "1"]);
    assert_eq!(step(&imported, "2.1").after, ["1", "2.1.1", "2.1.2"]);
}

/// Longest chain of waiting, in edges.
fn depth(edges: &BTreeMap<&str, Vec<&str>>) -> usize {
    let mut depths: BTreeMap<&str, usize> = BTreeMap::new();
    while depths.len() < edges.len() {
        for (id, after) in edges {
            if after.iter().all(|id| depths.contains_key(id)) {
                let deepest = after.iter().map(|id| depths[id] + 1).max().unwrap_or(0);
                depths.insert(id, deepest);
            }
        }
    }
    depths.into_values().max().unwrap_or(0)
}

/// A real file: the counts were taken from it with another program.
#[test]
fn a_real_task_master_file_has_the_counted_steps() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = std::env::var_os("PLAN_LEDGER_PLANS")
        .map_or_else(|| manifest.join("../shared/plans"), PathBuf::from);
    let path = folder.join("taskmaster-testcraft.json");
    if !path.exists() {
        println!("{} is missing: nothing tested; set PLAN_LEDGER_PLANS", path.display());
        return;
    }
    let imported = read(&path).unwrap();
    let plan = &imported.plan;
    assert_eq!((plan.steps.len(), imported.done.len(), imported.skipped.len()), (145, 91, 0));
    let all: BTreeMap<&str, Vec<&str>> = plan
        .steps
        .iter()
        .map(|step| (step.id.as_str(), step.after.iter().map(String::as_str).collect()))
        .collect();
    // What a subtask waits for only because its task does is not written in the file.
    let inherited = |id: &str, name: &str| {
        let parent = id.rsplit_once('.').and_then(|(parent, _)| all.get(parent));
        parent.is_some_and(|after| after.contains(&name) && !name.contains('.'))
    };
    let written: BTreeMap<&str, Vec<&str>> = all
        .iter()
        .map(|(id, after)| {
            (*id, after.iter().copied().filter(|name| !inherited(id, name)).collect())
        })
        .collect();
    let count = |edges: &BTreeMap<&str, Vec<&str>>| edges.values().map(Vec::len).sum::<usize>();
    assert_eq!((count(&written), depth(&written)), (298, 14));
    assert_eq!((count(&all), depth(&all)), (622, 23));
}

#[test]
fn the_example_plans_can_be_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/plans");
    let counts = [("migration.yaml", 64, 7), ("tiny.yaml", 6, 1)];
    for (name, steps, barriers) in counts {
        let plan = read(&folder.join(name)).unwrap().plan;
        assert_eq!((plan.steps.len(), plan.barriers.len()), (steps, barriers), "{name}");
        // Every variable that is read is written by a step that comes before, and every barrier
        // holds somebody up: otherwise the example would show nothing.
        for step in &plan.steps {
            for input in &step.inputs {
                let writer = plan.steps.iter().find(|step| step.outputs.contains(input));
                assert!(
                    writer.is_some_and(|writer| waits_for(&plan, &step.id, &writer.id)),
                    "{}",
                    step.id
                );
            }
        }
        for barrier in &plan.barriers {
            assert!(
                plan.steps.iter().any(|step| step.after.contains(&barrier.id)),
                "{}",
                barrier.id
            );
        }
    }
}

/// Whether a step waits, at some distance, for another.
fn waits_for(plan: &Plan, waiting: &str, other: &str) -> bool {
    let mut rest = vec![waiting.to_owned()];
    let mut seen = std::collections::BTreeSet::new();
    while let Some(id) = rest.pop() {
        if id == other {
            return true;
        }
        if seen.insert(id.clone()) {
            let step = plan.steps.iter().find(|step| step.id == id);
            let barrier = plan.barriers.iter().find(|barrier| barrier.id == id);
            rest.extend(step.into_iter().flat_map(|step| step.after.clone()));
            rest.extend(barrier.into_iter().flat_map(|barrier| barrier.members.clone()));
        }
    }
    false
}

#[test]
fn the_example_of_the_format_page_is_a_plan() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("format/plan.md");
    let page = std::fs::read_to_string(page).unwrap();
    let example = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(parse("plan.md", example).unwrap().plan.steps.len(), 3);
}

/// The format page has a row for every field of the schema.
#[test]
fn the_format_page_names_every_field() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("format/plan.md");
    let page = std::fs::read_to_string(page).unwrap();
    let schema = schema();
    let paths = [
        "/properties",
        "/$defs/Step/properties",
        "/$defs/Barrier/properties",
        "/$defs/Defaults/properties",
        "/$defs/RetryPolicy/properties",
        "/$defs/Caps/properties",
        "/$defs/Budget/properties",
        "/$defs/Gate/properties",
        "/$defs/FailurePolicy/properties",
        "/$defs/FailureRule/properties",
        "/$defs/FailureMatch/properties",
    ];
    for path in paths {
        for field in schema.pointer(path).unwrap().as_object().unwrap().keys() {
            let named = [format!("`{field}`"), format!("`{field}:")];
            assert!(named.iter().any(|name| page.contains(name)), "{path}: {field}");
        }
    }
}

/// Story: the places of a deep YAML text were read on the stack of whoever asked, and a thread with
/// the usual 2 MiB overflowed before the file could be refused.
#[test]
fn a_deep_text_is_judged_on_any_stack() {
    let deep = |depth: usize| {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        format!("steps:\n  - id: a\n    aftr: b\n    extra: {{x: {open}1{close}}}\n")
    };
    for depth in [50, 99] {
        let checked = check_text("p.yaml", &deep(depth), None);
        assert!(checked.imported.is_none() && !checked.findings.is_empty());
    }
}

/// Story: a fuzzer found a kept field with the number `1e3`. In memory it was a fraction, and an
/// integer once the plan came back from its canonical form: equal hashes, unequal plans.
#[test]
fn a_number_with_an_exponent_reads_as_the_ledger_gives_it_back() {
    let text = r#"{"steps": [{"id": "a", "extra": {"x": 1e3, "y": 2.5}}]}"#;
    let plan = parse("plan.json", text).unwrap().plan;
    let stored: crate::plan::Plan = serde_json::from_str(&plan.canonical()).unwrap();
    assert_eq!(plan, stored);
}

/// Story: a task was to wait for subtask 10 of task 1, `1.10`. As a number that is 1.1, and it waited for
/// subtask 1, without a word.
#[test]
fn ids_that_are_numbers_with_a_fraction_are_named() {
    let task_master = r#"{"tasks": [
        {"id": 1, "title": "one", "dependencies": [], "subtasks": [{"id": 1, "title": "a", "dependencies": []}]},
        {"id": 2, "title": "two", "dependencies": [1.10]}]}"#;
    let list = r#"[{"id": "1.1", "title": "one"},
        {"id": 2, "title": "two", "depends_on": ["1.1", 1.10]}, {"id": 3.5, "title": "three"}]"#;
    for (text, places) in
        [(task_master, &["tasks[1].dependencies[0]"][..]), (list, &["[1].depends_on", "[2].id"])]
    {
        let checked = check_text("t.json", text, None);
        let imported = checked.imported.expect("it is a plan all the same");
        assert!(step(&imported, "2").after.contains(&"1.1".to_owned()));
        let said = |finding: &&Finding| finding.message.contains("cannot be told from");
        let found: Vec<&Finding> = checked.findings.iter().filter(said).collect();
        assert_eq!(found.iter().map(|it| it.place.as_str()).collect::<Vec<_>>(), places);
        assert!(found.iter().all(|it| it.severity == Severity::Warning && it.line.is_some()));
    }
}
