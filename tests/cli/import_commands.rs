//! `ledger plan lint`, `show` and `export` on every plan file format, and runs and drills of each.

use std::path::Path;

use super::command::{Place, ids};
use super::drill::shared_plan;
use plan_ledger::StepStatus;

fn fixture(name: &str) -> String {
    let folder =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/fixtures/plans");
    folder.join(name).display().to_string()
}

/// The text has format, steps, marks and dependencies; the JSON is valid by the published schema.
#[test]
fn plan_show_prints_text_json_and_graphs() {
    let place = Place::new();
    let words = [
        "Shop (Ralph file): 3 steps, 1 done, 0 dropped; hash ",
        "[x] US-001  Choose",
        "[ ] US-002  Pay (after US-001)",
    ];
    place.ledger_with(&["plan", "show", &fixture("ralph.json")]).code(0).says(&words);
    let schema: serde_json::Value =
        serde_json::from_str(include_str!("../../format/plan.schema.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for name in ["ralph.json", "beads.jsonl", "speckit.md", "taskmaster-tagged.json", "own.yaml"] {
        let ended = place.ledger_with(&["plan", "show", &fixture(name), "--json"]).code(0);
        let document: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
        assert!(document["steps"].is_array(), "{name}");
        let errors: Vec<String> =
            validator.iter_errors(&document).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
    }
    let dot =
        place.ledger_with(&["plan", "export", &fixture("speckit.md"), "--form", "dot"]).code(0);
    dot.says(&[
        "digraph \"Tasks: Alarm clock\" {",
        "  \"T001\" -> \"T002\";",
        "\"T002..T003\" -> \"T004\";",
    ]);
    let mermaid = ["plan", "export", &fixture("openspec.md"), "--form", "mermaid"];
    place.ledger_with(&mermaid).code(0).says(&[
        "flowchart LR\n",
        "n1[\"1.1: Build the frame\"]",
        "n1 --> n2",
    ]);
    let later = ["plan", "show", &fixture("taskmaster-tagged.json"), "--plan-tag", "later"];
    place.ledger_with(&later).code(0).says(&["later (task-master file): 1 step,"]);
}

/// An export keeps plan and marks, also on a second round trip, and overwrites no file.
#[test]
fn plan_export_round_trips_and_overwrites_nothing() {
    let place = Place::new();
    let hash = |name: &str| {
        place.ledger_with(&["plan", "lint", name, "--json"]).code(0).lines().pop().unwrap()["hash"]
            .clone()
    };
    for name in ["ralph.json", "beads.jsonl", "speckit.md", "steps.md", "taskmaster-tagged.json"] {
        let source = fixture(name);
        for form in ["yaml", "json", "md"] {
            let out = format!("{name}.{form}");
            place.ledger_with(&["plan", "export", &source, "--form", form, "-o", &out]).code(0);
            assert_eq!(hash(&out), hash(&source), "{out}");
            let again = place.ledger_with(&["plan", "export", &out, "--form", form]).code(0);
            assert_eq!(again.out, place.read(&out), "{out}");
        }
    }
    let existing = ["plan", "export", &fixture("own.yaml"), "-o", "steps.md.md"];
    place.ledger_with(&existing).code(2).complains(&["already exists"]);
    place.ledger_with(&["plan", "export", "none.md"]).code(2).complains(&["none.md"]);
}

#[test]
fn help_of_commands_that_read_plans_names_the_formats() {
    let place = Place::new();
    for command in ["run", "drill", "plan lint", "plan show", "plan export"] {
        let help = place.ledger(&format!("{command} --help")).code(0);
        help.says(&["task-master", "Ralph", "beads", "spec-kit", "OpenSpec", "Markdown"]);
    }
}

/// Every diagnostic has file and line, in text and in JSON. A file without a plan is rejected with the
/// list of known formats.
#[test]
fn plan_lint_reports_every_problem_with_its_line() {
    let place = Place::new();
    let cycles = "# T\n- [ ] T001 a (depends on T002)\n- [ ] T002 b (depends on T001)\n\
                  - [ ] T003 c (depends on T004)\n- [ ] T004 d (depends on T003)\n";
    place.write("bad.md", cycles);
    let ended = place.ledger("plan lint bad.md").code(2);
    ended.says(&[
        "bad.md:2:1: error: ",
        "T001 -> T002 -> T001",
        "bad.md:4:1: error: ",
        "--drop-dependency",
        "2 problems: ",
    ]);
    let lines = place.ledger("plan lint bad.md --json").code(2).lines();
    assert_eq!((lines[0]["type"].as_str(), lines[0]["line"].as_u64()), (Some("problem"), Some(2)));
    let summary = lines.last().unwrap();
    assert_eq!((summary["problems"].as_u64(), summary["hash"].is_null()), (Some(2), true));
    let lines =
        place.ledger_with(&["plan", "lint", &fixture("speckit.md"), "--json"]).code(0).lines();
    let of = |kind: &str| lines.iter().filter(|line| line["type"] == kind).count();
    assert_eq!((of("warning"), of("note"), of("summary")), (6, 5, 1), "{lines:?}");
    assert!(
        lines
            .iter()
            .any(|line| line["message"].as_str().unwrap_or("").contains("the order is used"))
    );
    for (name, content, words) in [
        ("empty.md", &b""[..], "the file is empty"),
        (
            "words.md",
            b"# Words\n\nand more\n",
            "no task was found in this Markdown: expected the native format",
        ),
        ("other.json", b"{\"a\": 1}", "the JSON is not a plan: expected the native format"),
        (
            "users",
            b"root:x:0:0\nana:x:1:1\n",
            "line 1, column 1: expected fields, found other text: expected the native format",
        ),
        ("broken.json", b"{\"steps\": [", "the file ends inside a list"),
    ] {
        place.write(name, content);
        place.ledger(&format!("plan lint {name}")).code(2).says(&[name, words]);
        for command in ["plan show", "plan export", "run --stub", "drill"] {
            place.ledger(&format!("{command} {name}")).code(2).complains(&[name, words]);
        }
    }
    place.write("binary.md", b"\x00\xff\xfe# T\n");
    place.ledger("plan lint binary.md").code(2).complains(&["binary.md", "is not UTF-8"]);
    let lines = place.ledger("plan lint binary.md --json").code(2).lines();
    assert_eq!(lines[0]["type"], "error");
    place.ledger("plan export own.yaml --form xml").code(2).complains(&["--form"]);
    let tag = ["plan", "lint", &fixture("own.yaml"), "--plan-tag", "x"];
    place.ledger_with(&tag).code(2).says(&["has no tags"]);
}

/// A run accepts the steps that the file marks as done, and dispatches the others; a drill dispatches
/// all of them.
#[test]
fn every_format_can_be_run_and_drilled() {
    for (name, steps, done) in [
        ("ralph.json", 3, 1),
        ("ordered.json", 3, 0),
        ("phases.json", 5, 0),
        ("beads.jsonl", 6, 1),
        ("speckit.md", 7, 1),
        ("openspec.md", 4, 1),
        ("steps.md", 3, 1),
        ("artifact.md", 6, 1),
        ("numbered.md", 4, 0),
    ] {
        let place = Place::new();
        let source = fixture(name);
        place.ledger_with(&["run", &source, "--stub", "--quiet"]).code(0);
        let state = place.state();
        let run = state.runs.values().next().unwrap();
        let accepted = ids(run, StepStatus::Accepted).len() + ids(run, StepStatus::Skipped).len();
        assert_eq!(accepted, steps, "{name}");
        let dispatched = run.steps.iter().filter(|step| step.attempts > 0).count();
        assert_eq!(dispatched, steps - done - ids(run, StepStatus::Skipped).len(), "{name}");
        place
            .ledger_with(&["drill", &source, "--kill-at", "2"])
            .code(0)
            .says(&["all checks hold", &format!("{steps} and {steps} steps accepted")]);
    }
}

/// Files of real projects.
#[test]
fn real_files_pass_a_drill() {
    for (name, steps) in [
        ("ralph-hauler-ui.json", 24),
        ("beads-skyhook.jsonl", 7),
        ("speckit-speck-008.md", 142),
        ("openspec-workspace-planning.md", 76),
    ] {
        let Some(path) = shared_plan(name) else { continue };
        let place = Place::new();
        let ended = place.ledger_with(&["drill", path.to_str().unwrap(), "--kill-at", "5"]).code(0);
        ended.says(&["all checks hold", &format!("{steps} and {steps} steps accepted")]);
    }
}
