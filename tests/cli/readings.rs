//! Plan files that can be read in two ways: `plan lint` shows both, the first dispatch asks, and what was selected is kept
//! with the run.

use plan_ledger::StepStatus;
use serde_json::json;

use super::command::Place;
use super::mcp::Client;

/// Boxes below headings of steps: 3 boxes, or 2 headings with criteria.
const TASKS: &str = "# Login\n\n## Task 1: Add the form\n\n- [ ] It has a field\n- [ ] It has a button\n\n## Task 2: \
                     Check the password\n\n- [ ] A wrong one is refused\n";

fn place() -> Place {
    let place = Place::new();
    place.write("tasks.md", TASKS);
    place
}

fn steps(place: &Place) -> usize {
    place.state().run_named("tasks").unwrap().steps.len()
}

#[test]
fn lint_shows_both_readings() {
    let place = place();
    let words = [
        "2 readings; `boxes` is the default, --reading NAME selects one",
        "  boxes: 3 steps, used here (It has a field, It has a button, A wrong one is refused): each checkbox is",
        "  headings: 2 steps (Add the form, Check the password): each heading of a step",
        "Markdown plan: 3 steps",
    ];
    place.ledger("plan lint tasks.md").code(0).says(&words);
    place.ledger("plan lint tasks.md --reading headings").code(0).says(&[
        "  boxes: 3 steps (It has",
        "  headings: 2 steps, used here (Add",
        "Markdown plan: 2 steps",
    ]);
    let read = |line: &str| {
        let mut lines = place.ledger(line).code(0).lines();
        let at = lines.iter().position(|line| line["type"] == "read").unwrap();
        lines.swap_remove(at)
    };
    let line = read("plan lint tasks.md --json");
    assert_eq!((&line["reading"], &line["steps"]), (&json!("boxes"), &json!(3)));
    let found = line["readings"].as_array().unwrap();
    let names: Vec<_> = found.iter().map(|it| (&it["name"], &it["steps"])).collect();
    assert_eq!(names, [(&json!("boxes"), &json!(3)), (&json!("headings"), &json!(2))]);
    assert_eq!(found[1]["titles"], json!(["Add the form", "Check the password"]));
    assert!(found[1]["meaning"].as_str().unwrap().starts_with("each heading"));
    let line = read("plan lint tasks.md --reading headings --json");
    assert_eq!((&line["reading"], &line["steps"]), (&json!("headings"), &json!(2)));
    place.write("plain.md", "- [ ] a\n- [ ] b\n");
    let line = read("plan lint plain.md --json");
    assert_eq!((&line["reading"], &line["readings"]), (&json!("boxes"), &json!([])));
}

/// Goal: without a terminal nothing is dispatched before a reading is selected, and each command line of the message
/// selects one.
#[test]
fn first_dispatch_without_a_selected_reading_is_refused() {
    for (at, count) in [(0, 3), (1, 2)] {
        let place = place();
        let message = place.ledger_with(&["run", "tasks.md", "--worker", "echo 'a b'"]).code(2).err;
        for words in [
            "tasks.md can be read as boxes (3 steps) or headings (2 steps)",
            r"`ledger run tasks.md --worker 'echo '\''a b'\''' --yes` takes boxes",
            "--reading headings` takes headings",
        ] {
            assert!(message.contains(words), "expected {words:?} in\n{message}");
        }
        assert!(!place.path(".ledger").exists(), "nothing was written");
        let hint = message.split_once("hint: ").unwrap().1;
        let command = hint.split('`').skip(1).step_by(2).nth(at).unwrap();
        let status = place.shell(command).status().unwrap();
        assert!(status.success(), "{command}");
        assert_eq!(steps(&place), count, "{command}");
        // A run that has the plan does not ask again.
        place.ledger("run tasks.md --worker true").code(0);
        assert_eq!(place.state().run_named("tasks").unwrap().versions.len(), 1);
    }
}

#[test]
fn proposal_without_a_selected_reading_is_refused() {
    let place = place();
    place.ledger("init").code(0);
    place.ledger("plan propose tasks.md").code(2).complains(&["--yes` takes boxes"]);
    assert!(place.state().names.is_empty(), "nothing was proposed");
    let mut stdin = place.shell("ledger plan propose - --run x < tasks.md");
    assert_eq!(stdin.status().unwrap().code(), Some(2));
    place.ledger("plan propose tasks.md --reading headings").code(0);
    assert_eq!(steps(&place), 2);
    // The run was proposed in a reading, which `run` and the next version take.
    place.write("tasks.md", TASKS.replace("Check", "Refuse"));
    place.ledger("plan propose tasks.md --reason words").code(0);
    assert_eq!(steps(&place), 2);
    place.ledger("run tasks.md --worker true").code(0);
    assert_eq!(place.state().run_named("tasks").unwrap().versions.len(), 2);
    place.ledger("plan propose tasks.md --run default --yes").code(0);
    assert_eq!(place.state().run_named("default").unwrap().steps.len(), 3);
}

/// Goal: every command that reads the file again reads it as the run's plan was read.
#[test]
fn selected_reading_is_kept_with_the_run() {
    let place = place();
    let run = "run tasks.md --worker true";
    place.ledger(&format!("{run} --reading headings --tick --kill-at 2"));
    assert_eq!(place.read("tasks.md").matches("[x]").count(), 2, "the boxes of the first step");
    place.ledger(&format!("{run} --tick")).code(0);
    let ticked = TASKS.replace("[ ]", "[x]");
    assert_eq!(place.read("tasks.md"), ticked);
    place.write("tasks.md", TASKS);
    place.ledger("plan export tasks --into tasks.md").code(0).says(&["the marks of 2 steps"]);
    assert_eq!(place.read("tasks.md"), ticked);
    let state = place.state();
    let found = state.run_named("tasks").unwrap();
    assert!(found.steps.iter().all(|step| step.status == StepStatus::Accepted));
    let provenance = found.versions[0].provenance.as_ref().unwrap();
    assert_eq!(provenance.read_with, ["--reading", "headings"]);
    place.ledger("plan diff tasks.md tasks").code(0).says(&["no difference"]);
    place.ledger("resume tasks").code(0);
}

#[test]
fn other_commands_ask_nothing() {
    let place = place();
    let both = ["2 readings", "headings: 2 steps"];
    place.ledger("plan show tasks.md").code(0).complains(&both);
    place.ledger("plan export tasks.md").code(0).complains(&both);
    place.ledger("plan show tasks.md --reading headings").code(0).says(&["2 steps, 0 done"]);
    place.ledger("drill tasks.md").code(0);
    place.ledger("drill tasks.md --reading headings").code(0);
    place.ledger("run tasks.md --stub").code(0).complains(&both);
    assert_eq!(steps(&place), 3);
}

#[test]
fn reading_that_a_file_does_not_have_is_refused() {
    let place = place();
    let words =
        "there is no reading `item`: the file can be read as boxes (3 steps) or headings (2 steps)";
    for command in ["run --stub", "plan lint", "plan show", "drill"] {
        let ended = place.ledger(&format!("{command} tasks.md --reading item")).code(2);
        assert!(format!("{}{}", ended.out, ended.err).contains(words), "{command}: {ended:?}");
    }
    place.write("plain.md", "- [ ] a\n- [ ] b\n");
    place.ledger("run plain.md --stub --reading boxes").code(0);
    let words = "there is no reading `headings`: the file has one reading, `boxes`";
    place.ledger("plan show plain.md --reading headings").code(2).complains(&[words]);
}

#[test]
fn broken_front_matter_is_a_warning_of_show() {
    let place = Place::new();
    place.write("p.md", "---\ntitle: [a\n---\n\n- [ ] a\n");
    place.ledger("plan show p.md").code(0).complains(&["p.md: warning: line "]);
}

#[test]
fn model_selects_a_reading() {
    let place = Place::planned("steps: [{id: a}]\n");
    let mut client = Client::of_session(&place, &["--role", "operator"]);
    let checked = client.call("ledger_plan", &json!({ "mode": "check", "plan": TASKS }));
    assert_eq!(checked["readings"].as_array().unwrap().len(), 2, "{checked}");
    let new = json!({ "mode": "propose", "plan": TASKS, "run": "r" });
    let refused = client.refused("ledger_plan", &new);
    assert!(refused.contains("reading: choose one of boxes (3 steps)"), "{refused}");
    let new = json!({ "mode": "propose", "plan": TASKS, "run": "r", "reading": "headings" });
    assert_eq!(client.call("ledger_plan", &new)["steps"], 2);
    client.end();
}
