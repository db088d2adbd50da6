//! `ledger plan lint`, `show` and `export` over every form, as people and programs use them; and
//! that every form can be run and drilled.

use std::path::Path;

use super::command::{Place, ids};
use super::drill::shared_plan;
use plan_ledger::plan::StepStatus;

fn fixture(name: &str) -> String {
    let folder =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/fixtures/plans");
    folder.join(name).display().to_string()
}

/// Goal: people see the form, the steps, what is done and what waits for what; programs get one
/// document that is a plan by the published schema.
#[test]
fn a_plan_is_shown() {
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
        for form in [&["--json"][..], &["--format", "json"]] {
            let ended =
                place.ledger_with(&[&["plan", "show", &fixture(name)], form].concat()).code(0);
            let document: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
            assert!(document["steps"].is_array(), "{name}");
            let faults: Vec<String> =
                validator.iter_errors(&document).map(|error| error.to_string()).collect();
            assert!(faults.is_empty(), "{name}: {faults:?}");
        }
    }
    let dot =
        place.ledger_with(&["plan", "show", &fixture("speckit.md"), "--format", "dot"]).code(0);
    dot.says(&[
        "digraph \"Tasks: Alarm clock\" {",
        "  \"T001\" -> \"T002\";",
        "\"T002..T003\" -> \"T004\";",
    ]);
    let picture = ["plan", "show", &fixture("openspec.md"), "--format", "mermaid"];
    place.ledger_with(&picture).code(0).says(&[
        "flowchart LR\n",
        "n1[\"1.1: Build the frame\"]",
        "n1 --> n2",
    ]);
    let later = ["plan", "show", &fixture("taskmaster-tagged.json"), "--tag", "later"];
    place.ledger_with(&later).code(0).says(&["later (task-master file): 1 step,"]);
}

/// Goal: what is exported is the same plan with the same marks, also after the way back, and no
/// file is overwritten.
#[test]
fn a_plan_is_exported() {
    let place = Place::new();
    let hash = |name: &str| {
        place.ledger_with(&["plan", "lint", name, "--json"]).code(0).lines().pop().unwrap()["hash"]
            .clone()
    };
    for name in ["ralph.json", "beads.jsonl", "speckit.md", "steps.md", "taskmaster-tagged.json"] {
        let source = fixture(name);
        for form in ["yaml", "json", "md"] {
            let out = format!("{name}.{form}");
            place.ledger_with(&["plan", "export", &source, "--format", form, "-o", &out]).code(0);
            assert_eq!(hash(&out), hash(&source), "{out}");
            let again = place.ledger_with(&["plan", "export", &out, "--format", form]).code(0);
            assert_eq!(again.out, place.read(&out), "{out}");
        }
    }
    let taken = ["plan", "export", &fixture("own.yaml"), "-o", "steps.md.md"];
    place.ledger_with(&taken).code(2).complains(&["is there already"]);
    place.ledger_with(&["plan", "export", "none.md"]).code(2).complains(&["none.md"]);
}

/// Goal: whoever asks a command that reads plans for help is told which files it takes.
#[test]
fn help_names_the_forms() {
    let place = Place::new();
    for command in ["run", "drill", "plan lint", "plan show", "plan export"] {
        let help = place.ledger(&format!("{command} --help")).code(0);
        help.says(&["task-master", "Ralph", "beads", "spec-kit", "OpenSpec", "Markdown"]);
    }
}

/// Goal: every finding has its file and line, for people and for programs; a file that holds no
/// plan is said to be none, with the forms that are known.
#[test]
fn lint_says_everything() {
    let place = Place::new();
    place.write("bad.md", "# T\n- [ ] T001 a (depends on T007)\n- [ ] T001 b\n");
    let ended = place.ledger("plan lint bad.md").code(2);
    ended.says(&[
        "bad.md:2: problem: ",
        "`T007`",
        "bad.md:3: problem: ",
        "is taken",
        "2 problems: ",
    ]);
    let lines = place.ledger("plan lint bad.md --json").code(2).lines();
    assert_eq!((lines[0]["type"].as_str(), lines[0]["line"].as_u64()), (Some("problem"), Some(2)));
    let summary = lines.last().unwrap();
    assert_eq!((summary["problems"].as_u64(), summary["hash"].is_null()), (Some(2), true));
    let lines =
        place.ledger_with(&["plan", "lint", &fixture("speckit.md"), "--json"]).code(0).lines();
    let of = |kind: &str| lines.iter().filter(|line| line["type"] == kind).count();
    assert_eq!((of("warning"), of("note"), of("summary")), (6, 2, 1), "{lines:?}");
    assert!(
        lines.iter().any(|line| line["message"]
            .as_str()
            .unwrap_or("")
            .contains("order taken as dependency"))
    );
    for (name, content, words) in [
        ("empty.md", &b""[..], "the file is empty"),
        (
            "words.md",
            b"# Words\n\nand more\n",
            "no task was found in this Markdown: expected our own form",
        ),
        ("other.json", b"{\"a\": 1}", "the JSON is no plan: expected our own form"),
        (
            "users",
            b"root:x:0:0\nana:x:1:1\n",
            "line 1, column 1: expected fields, found text that is no plan: expected our own form",
        ),
        ("broken.json", b"{\"steps\": [", "EOF while parsing"),
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
    place.ledger("plan show own.yaml --format xml").code(2).complains(&["--format"]);
    let tag = ["plan", "lint", &fixture("own.yaml"), "--tag", "x"];
    place.ledger_with(&tag).code(2).says(&["has no tags"]);
}

/// Goal: every form can be run; what the file says is done is taken over with its source, and
/// with --fresh is done all the same.
#[test]
fn every_form_runs() {
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
        let dealt = run.steps.iter().filter(|step| step.attempts > 0).count();
        assert_eq!(dealt, steps - done - ids(run, StepStatus::Skipped).len(), "{name}");
        place
            .ledger_with(&["drill", &source, "--kill-at", "2"])
            .code(0)
            .says(&["all hold", &format!("{steps} and {steps} steps accepted")]);
    }
}

/// Goal: each file of another repository passes its drill, in which every step is executed.
#[test]
fn real_files_pass_their_drills() {
    for (name, steps) in [
        ("ralph-hauler-ui.json", 24),
        ("beads-skyhook.jsonl", 7),
        ("speckit-speck-008.md", 142),
        ("openspec-workspace-planning.md", 76),
    ] {
        let Some(path) = shared_plan(name) else { continue };
        let place = Place::new();
        let ended = place.ledger_with(&["drill", path.to_str().unwrap(), "--kill-at", "5"]).code(0);
        ended.says(&["all hold", &format!("{steps} and {steps} steps accepted")]);
    }
}
