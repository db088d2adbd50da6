//! Goal: statuses written back into a file change its marks only, and read back as they were written.

use std::fs;
use std::path::{Path, PathBuf};

use super::fixture;
use crate::{MarkedFile, Marking, PlanFile, ReadOptions, Statuses, TaskStatus};

const DONE: Option<TaskStatus> = Some(TaskStatus::Done);
const OPEN: Option<TaskStatus> = Some(TaskStatus::Open);
const DROPPED: Option<TaskStatus> = Some(TaskStatus::Dropped);

fn read(path: &Path) -> MarkedFile {
    ReadOptions::default().read_marked(path).unwrap()
}

fn with(file: &MarkedFile, of_steps: &[Option<TaskStatus>]) -> Marking {
    let statuses = Statuses { of_steps, today: Some("2026-11-30"), source: "run r" };
    file.with_statuses(statuses).unwrap()
}

/// Writes texts as a new plan file, marks the steps with these ids, and returns the text and the unmarked ids.
fn marked(text: &str, wanted: &[(&str, Option<TaskStatus>)]) -> (String, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan");
    fs::write(&path, text).unwrap();
    let file = read(&path);
    let steps = &file.plan_file().plan.steps;
    for (id, _) in wanted {
        assert!(steps.iter().any(|step| step.id == *id), "{id}: {:?}", ids(file.plan_file()));
    }
    let of_step = |id: &str| wanted.iter().find(|(each, _)| *each == id).and_then(|(_, it)| *it);
    let of_steps: Vec<_> = steps.iter().map(|step| of_step(&step.id)).collect();
    let Marking { files, unmarked, .. } = with(&file, &of_steps);
    let after = files.into_iter().next().map_or_else(|| text.to_owned(), |file| file.after);
    let unmarked = unmarked.into_iter().map(|at| steps[at].id.clone()).collect();
    fs::write(&path, &after).unwrap();
    assert_eq!(read(&path).unmarked_content(), file.unmarked_content(), "{after}");
    (after, unmarked)
}

fn ids(file: &PlanFile) -> Vec<&str> {
    file.plan.steps.iter().map(|step| step.id.as_str()).collect()
}

/// Every form, with the text before and after: `1` is done, and `2` is open again.
#[test]
fn each_form_has_its_marks() {
    for (before, after) in [
        ("- [ ] one\n- [x] two\n", "- [x] one\n- [ ] two\n"),
        ("* [ ] one\r\n* [X] two\r\n", "* [X] one\r\n* [ ] two\r\n"),
        ("\u{feff}1. [] one\n2. [ x ] two\n", "\u{feff}1. [ x ] one\n2. [ ] two\n"),
        ("# T\n-[ ] one\n-[x] two", "# T\n-[x] one\n-[ ] two"),
        ("# T\n\n- \u{2610} one\n- \u{2611} two\n", "# T\n\n- \u{2611} one\n- \u{2610} two\n"),
        (
            "# T\n\n### [ ] Step 1: one\n\nDo it.\n\n### [x] Step 2: two\n",
            "# T\n\n### [x] Step 1: one\n\nDo it.\n\n### [ ] Step 2: two\n",
        ),
        (
            "## Steps\n\n### Step 1: one\n\n**Status**: Not started\n\n### Step 2: two\n\n**Status:** Complete\n",
            "## Steps\n\n### Step 1: one\n\n**Status**: Complete\n\n### Step 2: two\n\n**Status:** Not started\n",
        ),
        (
            "# T\n\n| ID | Task | Status  |\n|----|------|---------|\n| 1 | one | \u{2b1c} Todo  |\n| 2 | two | \u{2705} Done |\n",
            "# T\n\n| ID | Task | Status  |\n|----|------|---------|\n| 1 | one | \u{2705} Done  |\n| 2 | two | \u{2b1c} Todo |\n",
        ),
        (
            "# T\n\n| ID | Task | Status |\n|---|---|---|\n| 1 | one |    |\n| 2 | two | **done** |\n",
            "# T\n\n| ID | Task | Status |\n|---|---|---|\n| 1 | one | done |\n| 2 | two |          |\n",
        ),
        (
            "{\"tasks\": [{\"id\": 1, \"title\": \"a\", \"status\": \"pending\", \"testStrategy\": \"\"},\n \
             {\"id\": 2, \"title\": \"b\", \"status\": \"done\"}]}",
            "{\"tasks\": [{\"id\": 1, \"title\": \"a\", \"status\": \"done\", \"testStrategy\": \"\"},\n \
             {\"id\": 2, \"title\": \"b\", \"status\": \"pending\"}]}",
        ),
        (
            "{\"userStories\": [{\"id\": \"1\", \"title\": \"a\", \"passes\": false}, {\"id\": \"2\", \"title\": \"b\", \"passes\": true}]}",
            "{\"userStories\": [{\"id\": \"1\", \"title\": \"a\", \"passes\": true}, {\"id\": \"2\", \"title\": \"b\", \"passes\": false}]}",
        ),
        (
            "{\"id\":\"1\",\"title\":\"a\",\"issue_type\":\"task\",\"status\":\"open\"}\n\
             {\"id\":\"2\",\"title\":\"b\",\"issue_type\":\"task\",\"status\":\"closed\"}\n",
            "{\"id\":\"1\",\"title\":\"a\",\"issue_type\":\"task\",\"status\":\"closed\"}\n\
             {\"id\":\"2\",\"title\":\"b\",\"issue_type\":\"task\",\"status\":\"open\"}\n",
        ),
        (
            "[{\"uuid\": \"1\", \"entry\": \"20260101T000000Z\", \"description\": \"a\", \"status\": \"pending\"},\n\
             {\"uuid\": \"2\", \"entry\": \"20260101T000000Z\", \"description\": \"b\", \"status\": \"completed\"}]\n",
            "[{\"uuid\": \"1\", \"entry\": \"20260101T000000Z\", \"description\": \"a\", \"status\": \"completed\"},\n\
             {\"uuid\": \"2\", \"entry\": \"20260101T000000Z\", \"description\": \"b\", \"status\": \"pending\"}]\n",
        ),
        (
            "# all\ntasks:\n  - {id: 1, title: a, status: to do}   # soon\n  - id: 2\n    title: b\n    status: 'Done' # ok\n",
            "# all\ntasks:\n  - {id: 1, title: a, status: Done}   # soon\n  - id: 2\n    title: b\n    status: 'to do' # ok\n",
        ),
        (
            "[[tasks]]\nid = \"1\"\ntitle = \"a\"\nstatus = \"todo\" # x\n[[tasks]]\nid = \"2\"\ntitle = \"b\"\nstatus = \"done\"\n",
            "[[tasks]]\nid = \"1\"\ntitle = \"a\"\nstatus = \"done\" # x\n[[tasks]]\nid = \"2\"\ntitle = \"b\"\nstatus = \"todo\"\n",
        ),
        (
            "ID,Title,Status\n1,\"a, b\",Todo\n2,c,\"Done\"\n",
            "ID,Title,Status\n1,\"a, b\",Done\n2,c,\"Todo\"\n",
        ),
        (
            "ID\tTitle\tStatus\n1\ta\tBacklog\n2\tb\tDone\n",
            "ID\tTitle\tStatus\n1\ta\tDone\n2\tb\tBacklog\n",
        ),
        (
            "---\ntodos:\n  - id: 1\n    content: a\n    status: pending\n  - id: 2\n    content: b\n    status: completed\n---\n\n# Notes\n",
            "---\ntodos:\n  - id: 1\n    content: a\n    status: completed\n  - id: 2\n    content: b\n    status: pending\n---\n\n# Notes\n",
        ),
        (
            "#+TITLE: T\n\n* \u{54}ODO one :x:\n** note\n* DONE two\n",
            "#+TITLE: T\n\n* DONE one :x:\n** note\n* \u{54}ODO two\n",
        ),
        (
            "(A) 2026-01-01 one @home\nx 2026-02-02 2026-01-01 two +p\n",
            "x 2026-11-30 (A) 2026-01-01 one @home\n2026-01-01 two +p\n",
        ),
        (
            "development_status:\n  epic-1: backlog\n  1: ready-for-dev # next\n  2: done\n",
            "development_status:\n  epic-1: backlog\n  1: done # next\n  2: ready-for-dev\n",
        ),
        (
            "<!-- ledger plan 1 -->\n# T\n\n## Steps\n\n- [ ] `1` One\n\n- [x] `2` Two\n",
            "<!-- ledger plan 1 -->\n# T\n\n## Steps\n\n- [x] `1` One\n\n- [ ] `2` Two\n",
        ),
    ] {
        let (found, unmarked) = marked(before, &[("1", DONE), ("2", OPEN)]);
        assert_eq!(found, after);
        assert!(unmarked.is_empty(), "{unmarked:?} in {before}");
    }
}

#[test]
fn native_plans_get_a_field_with_marks() {
    let yaml = "title: T # a comment\nsteps:\n- id: a\n- id: b\n";
    let (once, unmarked) = marked(yaml, &[("a", DONE), ("b", DROPPED)]);
    let marks = "marks:\n  done:\n    \"a\": \"run r\"\n  skipped:\n    \"b\": \"run r\"\n";
    assert_eq!((once.as_str(), unmarked.len()), (format!("{yaml}{marks}").as_str(), 0));
    let (again, _) = marked(&once, &[("a", OPEN), ("b", DROPPED)]);
    assert_eq!(again, format!("{yaml}marks:\n  skipped:\n    \"b\": \"run r\"\n"));
    assert_eq!(marked(&again, &[("b", OPEN)]).0, yaml);
    let middle = "marks:\n  done: {a: before}\nsteps:\n- id: a\n- id: b\n";
    let (found, _) = marked(middle, &[("b", DONE)]);
    assert_eq!(
        found,
        "marks:\n  done:\n    \"a\": \"before\"\n    \"b\": \"run r\"\nsteps:\n- id: a\n- id: b\n"
    );
    let json = "{\n  \"steps\": [{\"id\": \"a\"}, {\"id\": \"b\"}]\n}\n";
    let (once, _) = marked(json, &[("a", DONE)]);
    let expected = "{\n  \"steps\": [{\"id\": \"a\"}, {\"id\": \"b\"}],\n  \"marks\": {\n    \"done\": {\n      \
                    \"a\": \"run r\"\n    }\n  }\n}\n";
    assert_eq!(once, expected);
    assert_eq!(marked(&once, &[("a", OPEN)]).0, json);
}

#[test]
fn steps_without_a_mark_are_named_and_left_alone() {
    for (text, wanted, unmarked) in [
        ("## Steps\n\n1. one\n2. two\n", &[("1", DONE), ("2", DONE)][..], &["1", "2"][..]),
        ("## Steps\n\n- one\n- [ ] two\n", &[("1", DONE)], &[]),
        ("- [ ] one\n- [ ] two\n", &[("1", DROPPED), ("2", OPEN)], &["1"]),
        (
            "{\"tasks\": [{\"id\": \"a\", \"title\": \"A\"}, {\"id\": \"b\", \"title\": \"B\", \"status\": \"todo\"}]}",
            &[("a", DONE)],
            &["a"],
        ),
    ] {
        let (_, found) = marked(text, wanted);
        assert_eq!(found, unmarked, "{text}");
    }
    let text = "## Steps\n\n1. one\n2. two\n";
    assert_eq!(marked(text, &[("1", DONE)]).0, text);
}

/// Parts are ticked with their step, and only with it; what looks like a box in code or in other words is text.
#[test]
fn parts_of_a_step_follow_it() {
    let text = "- [ ] US-1: one [ ]\n  - [ ] tests pass\n  ```\n  - [ ] code\n  ```\n- [ ] US-2: two\n  - [x] half\n  - [ ] rest\n";
    let done = "- [x] US-1: one [ ]\n  - [x] tests pass\n  ```\n  - [ ] code\n  ```\n- [ ] US-2: two\n  - [x] half\n  - [ ] rest\n";
    assert_eq!(marked(text, &[("US-1", DONE), ("US-2", OPEN)]), (done.to_owned(), Vec::new()));
    assert_eq!(marked(done, &[("US-1", OPEN)]).0, text);
}

/// A task with a box of its own is open until that is ticked, so that a runner does not take it for done.
#[test]
fn open_box_outweighs_ticked_parts() {
    let file = crate::parse("p.md", "- [ ] one\n  - [x] a\n  - [x] b\n").unwrap();
    assert_eq!(file.done.keys().collect::<Vec<_>>(), ["1.1", "1.2"]);
}

#[test]
fn files_of_a_folder_are_marked_each() {
    let folder = tempfile::tempdir().unwrap();
    let task = |name: &str, status: &str| {
        let text = format!(
            "---\nid: {name}\ntitle: T {name}\nstatus: {status}\ncreated_date: 2026-01-01\n---\n\n\
             ## Acceptance Criteria\n\n- [ ] it works\n"
        );
        fs::write(folder.path().join(format!("{name}.md")), text).unwrap();
    };
    task("task-1", "In Progress");
    task("task-2", "To Do");
    let file = read(folder.path());
    let marking = with(&file, &[DONE, OPEN]);
    assert_eq!((marking.files.len(), marking.marked.as_slice()), (1, &[0][..]));
    let expected = marking.files[0].before.replace("In Progress", "Done").replace("[ ]", "[x]");
    assert_eq!(marking.files[0].after, expected);
}

/// The plan files of the repository, and those of public repositories if they are there.
pub(super) fn plan_files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let shared = std::env::var_os("PLAN_LEDGER_PLANS")
        .map_or_else(|| root.join("../shared/plans"), PathBuf::from);
    let folders =
        [fixture(""), root.join("examples/plans"), shared.clone(), shared.join("../cases/plans")];
    let mut found = Vec::new();
    for folder in folders {
        let Ok(entries) = fs::read_dir(&folder) else {
            println!("{} is missing: its files are skipped", folder.display());
            continue;
        };
        found.extend(entries.map(|entry| entry.unwrap().path()));
    }
    found.retain(|path| ReadOptions::default().read(path).is_ok());
    found.sort();
    found
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

/// Writes statuses into a copy of a file, and checks what is read from it. Returns how many steps have no mark.
fn write_back(path: &Path, copy: &Path, wanted: &[Option<TaskStatus>]) -> usize {
    let file = read(copy);
    let Marking { files, unmarked, .. } = with(&file, wanted);
    for text in &files {
        fs::write(&text.path, &text.after).unwrap();
    }
    let again = read(copy);
    assert_eq!(again.plan_file().plan, file.plan_file().plan, "{}", path.display());
    assert_eq!(again.unmarked_content(), file.unmarked_content(), "{}", path.display());
    for (step, status) in wanted.iter().enumerate().filter(|(step, _)| !unmarked.contains(step)) {
        let id = &file.plan_file().plan.steps[step].id;
        assert_eq!(Some(again.status(step)), *status, "{}: step {id}", path.display());
    }
    assert_eq!(with(&again, wanted).files, [], "{}: twice", path.display());
    unmarked.len()
}

/// Property over all real files: the first steps are done, then all, then none, then as before. Each time the same
/// plan with these statuses is read, and outside of the marks nothing changes.
#[test]
fn statuses_of_every_plan_file_read_back() {
    for path in plan_files() {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join(path.file_name().unwrap());
        copy_all(&path, &copy);
        let file = read(&copy);
        let count = file.plan_file().plan.steps.len();
        let before: Vec<_> = (0..count).map(|step| Some(file.status(step))).collect();
        let first = |done: usize| -> Vec<Option<TaskStatus>> {
            let status = |(step, before): (usize, &Option<TaskStatus>)| match before {
                Some(TaskStatus::Dropped) => *before,
                _ if step < done => DONE,
                _ => OPEN,
            };
            before.iter().enumerate().map(status).collect()
        };
        let mut unmarked = 0;
        for done in [count / 3, count] {
            unmarked = write_back(&path, &copy, &first(done));
        }
        write_back(&path, &copy, &first(0));
        write_back(&path, &copy, &before);
        let format = file.plan_file().format;
        println!("{}: {unmarked} of {count} steps have no mark ({format})", path.display());
    }
}
