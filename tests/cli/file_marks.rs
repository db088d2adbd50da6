//! The statuses of a run in the file that its plan was read from: `plan export --into`, and `run --tick`.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use plan_ledger::StepStatus;
use plan_ledger_files::{ReadOptions, TaskStatus};

use super::command::{Ended, Place};

const TASKS: &str = "# Release\r\n\r\nSome *words*.\r\n\r\n- [ ] build\r\n  - [ ] no warnings\r\n- [ ] test\r\n- [ ] publish";

fn ticked(count: usize) -> String {
    let mut text = TASKS.to_owned();
    for box_of_step in
        ["- [ ] build\r\n  - [ ] no", "- [ ] test", "- [ ] publish"].iter().take(count)
    {
        text = text.replace(box_of_step, &box_of_step.replace("[ ]", "[x]"));
    }
    text
}

/// A place with tasks. Those inside of others come first: the steps are `1.1`, `1`, `2` and `3`.
fn place() -> Place {
    let place = Place::new();
    place.write("tasks.md", TASKS);
    place
}

fn run(place: &Place, worker: &str, more: &[&str]) -> Ended {
    let words = [&["run", "tasks.md", "--worker", worker], more].concat();
    place.ledger_with(&words)
}

#[test]
fn export_into_writes_the_marks_of_the_run_and_nothing_else() {
    let place = place();
    let file = place.path("tasks.md");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    symlink("tasks.md", place.path("link.md")).unwrap();
    run(&place, "true", &["--kill-at", "3"]);
    place.ledger("plan export tasks --into link.md").code(0).says(&["the marks of 2 steps"]);
    assert_eq!(place.read("tasks.md"), ticked(1));
    run(&place, "true", &[]).code(0);
    assert_eq!(place.read("tasks.md"), ticked(1), "a run does not write it by itself");
    let line = place.ledger("plan export tasks --into link.md --json").code(0).lines().remove(0);
    assert_eq!(
        (&line["type"], &line["version"], &line["run"]),
        (&"marked".into(), &1.into(), &"tasks".into())
    );
    assert_eq!(line["marked"][1]["step"], "3");
    assert_eq!(line["marked"][1]["status"], "accepted");
    assert_eq!(place.read("tasks.md"), ticked(3));
    assert!(place.path("link.md").symlink_metadata().unwrap().is_symlink());
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    place.ledger("plan export tasks --into tasks.md").code(0).says(&["no mark was changed"]);
    // Marks that a person made are those of the file, and the run's are written over them.
    place.write("tasks.md", ticked(1));
    place.ledger("plan export tasks --into tasks.md").code(0);
    assert_eq!(place.read("tasks.md"), ticked(3));
}

#[test]
fn export_into_refuses_a_file_with_another_text() {
    let place = place();
    run(&place, "true", &[]).code(0);
    let other = TASKS.replace("Some", "Other");
    place.write("tasks.md", &other);
    let words =
        ["is not the file that the plan of run tasks was read from (tasks.md)", "changed since"];
    place.ledger("plan export tasks --into tasks.md").code(6).complains(&words);
    assert_eq!(place.read("tasks.md"), other);
    place.write("plan.yaml", "steps: [{id: a}]");
    place.ledger("plan export tasks --into plan.yaml").code(6);
    place.ledger("plan export tasks --into none.md").code(2).complains(&["none.md"]);
    place
        .ledger("plan export other --into tasks.md")
        .code(2)
        .complains(&["there is no run `other`"]);
    fs::copy(place.path("tasks.md"), place.path("copy.md")).unwrap();
    place.write("copy.md", TASKS);
    place.ledger("plan export tasks --into copy.md").code(0);
    assert_eq!(place.read("copy.md"), ticked(3), "a copy has the same text");
}

/// Nothing is invented where a form has no mark.
#[test]
fn steps_without_a_mark_are_named_with_exit_code_1() {
    let place = Place::new();
    let text = "## Steps\n\n1. build\n2. test\n";
    place.write("tasks.md", text);
    place.ledger("run tasks.md --stub").code(0);
    let ended = place.ledger("plan export tasks --into tasks.md --json").code(1);
    assert_eq!(
        ended.lines()[0]["unmarked"][1],
        serde_json::json!({"step": "2", "status": "accepted"})
    );
    ended.complains(&["2 steps have no mark there", "`1` (accepted), `2` (accepted)"]);
    assert_eq!(place.read("tasks.md"), text);
}

/// The options with which a file was read belong to its plan.
#[test]
fn export_into_reads_the_file_as_the_plan_was_read() {
    let place = Place::new();
    let of_tag = |status: &str| {
        format!("\"tasks\": [{{\"id\": 1, \"title\": \"t\", \"status\": \"{status}\"}}]")
    };
    let text = |later: &str| {
        format!("{{\"master\": {{{}}}, \"later\": {{{}}}}}", of_tag("pending"), of_tag(later))
    };
    place.write("tasks.json", text("pending"));
    place.ledger("run tasks.json --plan-tag later --stub").code(0);
    place.ledger("plan export tasks --into tasks.json").code(0);
    assert_eq!(place.read("tasks.json"), text("done"));
}

/// Each worker sees the marks of the steps before its own.
#[test]
fn tick_keeps_the_file_current_while_the_run_works() {
    let place = place();
    let count = "grep -o '\\[x\\]' tasks.md | wc -l >> $TALLY";
    run(&place, count, &["--tick"]).code(0);
    assert_eq!(place.tally(), ["0", "1", "2", "3"]);
    assert_eq!(place.read("tasks.md"), ticked(3));
    run(&place, count, &["--tick"]).code(0).complains(&["run tasks is done"]);
    assert_eq!(place.state().run_named("tasks").unwrap().versions.len(), 1);
}

/// A stub does no work, so its run calls nothing in the file done.
#[test]
fn tick_is_refused_with_stubs() {
    let place = place();
    let ended = place.ledger("run tasks.md --stub --tick").code(2);
    ended.complains(&["--stub", "--tick", "cannot be used with"]);
}

/// After a kill the next runner continues with its plan, although the file has other marks, and the file catches up.
#[test]
fn tick_catches_up_after_a_kill() {
    let place = place();
    run(&place, "true", &["--tick", "--kill-at", "3"]);
    let killed = place.read("tasks.md");
    let first = TASKS.replace("[ ] no", "[x] no");
    assert!([TASKS.to_owned(), first, ticked(1)].contains(&killed), "{killed}");
    place.write("tasks.md", TASKS);
    run(&place, "true", &["--tick"]).code(0);
    assert_eq!(place.read("tasks.md"), ticked(3));
    assert_eq!(place.state().run_named("tasks").unwrap().versions.len(), 1);
    // The last marks of a run that has ended are written, too.
    place.write("tasks.md", ticked(2));
    run(&place, "true", &["--tick"]).code(0);
    assert_eq!(place.read("tasks.md"), ticked(3));
}

/// An edit of the text stops the ticks, once, and stays. Marks that a worker makes itself stay and stop nothing.
#[test]
fn tick_never_writes_over_an_edit() {
    let place = place();
    let worker = "case $LEDGER_STEP in 2) sed -i 's/\\[ \\] publish/[x] publish/' tasks.md;; esac";
    run(&place, worker, &["--tick"]).code(0);
    assert_eq!(place.read("tasks.md"), ticked(3));

    let place = self::place();
    let worker = "case $LEDGER_STEP in 2) echo ' soon' >> tasks.md;; esac";
    let ended = run(&place, worker, &["--tick"]).code(0);
    let told = ended.err.matches("tasks.md was changed; --tick writes no more marks").count();
    assert_eq!(told, 1, "{}", ended.err);
    assert_eq!(place.read("tasks.md"), format!("{} soon\n", ticked(1)));
}

/// A step that fails is not ticked, and one that is open again loses its tick.
#[test]
fn marks_follow_a_step_that_is_open_again() {
    let place = Place::new();
    place.write("tasks.md", "- [ ] build\n- [ ] test\n");
    place
        .ledger_with(&[
            "run",
            "tasks.md",
            "--worker",
            "test $LEDGER_STEP = 1",
            "--on-unknown",
            "fail",
        ])
        .code(1);
    place.ledger("plan export tasks --into tasks.md").code(0);
    assert_eq!(place.read("tasks.md"), "- [x] build\n- [ ] test\n");
    place.write("tasks.md", "- [x] build\n- [x] test\n");
    place.ledger("plan export tasks --into tasks.md").code(0);
    assert_eq!(place.read("tasks.md"), "- [x] build\n- [ ] test\n");
}

/// A box of its own says whether a task is done: else a runner would accept it without a dispatch, as soon as its parts
/// are ticked.
#[test]
fn open_box_outweighs_ticked_parts() {
    let place = Place::new();
    place.write("tasks.md", "- [ ] one\n  - [x] a\n  - [x] b\n- [x] two\n  - [ ] c\n");
    place.ledger("plan show tasks.md").code(0).says(&["5 steps, 4 done"]);
}

/// Copies a file or a folder.
fn copy_all(from: &Path, to: &Path) {
    if from.is_file() {
        fs::copy(from, to).unwrap();
        return;
    }
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        copy_all(&entry.path(), &to.join(entry.file_name()));
    }
}

/// Property over all real files: read, run with stubs, write back, read. The steps are the same, each has the status
/// that it has in the run, and nothing but marks changed.
#[test]
fn every_plan_file_gets_the_statuses_of_its_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let shared = std::env::var_os("PLAN_LEDGER_PLANS")
        .map_or_else(|| root.join("../shared/plans"), PathBuf::from);
    let folders =
        [root.join("tests/fixtures/plans"), shared.clone(), shared.join("../cases/plans")];
    for folder in folders {
        let Ok(entries) = fs::read_dir(&folder) else {
            super::command::report_skipped(&format!("{} is missing", folder.display()));
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            let place = Place::new();
            let name = path.file_name().unwrap().to_str().unwrap();
            let copy = place.path(name);
            copy_all(&path, &copy);
            let options = ReadOptions::default();
            let Ok(before) = options.read_marked(&copy) else { continue };
            place.ledger_with(&["run", name, "--run", "r", "--stub"]);
            let ended = place.ledger_with(&["plan", "export", "r", "--into", name, "--json"]);
            let unmarked = &ended.lines()[0]["unmarked"];
            let is_unmarked =
                |id: &str| unmarked.as_array().unwrap().iter().any(|step| step["step"] == id);
            let after = options.read_marked(&copy).unwrap();
            assert_eq!(after.plan_file().plan, before.plan_file().plan, "{name}");
            assert_eq!(after.unmarked_content(), before.unmarked_content(), "{name}");
            let state = place.state();
            let run = state.run_named("r").unwrap();
            for (index, step) in after.plan_file().plan.steps.iter().enumerate() {
                let status = run.step(run.step_named(&step.id).unwrap()).unwrap().status;
                let expected = match status {
                    StepStatus::Accepted => TaskStatus::Done,
                    StepStatus::Skipped => TaskStatus::Dropped,
                    _ => TaskStatus::Open,
                };
                let is_written = after.status(index) == expected;
                assert!(is_written || is_unmarked(&step.id), "{name}: step {}", step.id);
            }
        }
    }
}
