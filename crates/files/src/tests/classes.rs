//! Tests of classes of files: what is work, what is done, and which form a file has.

use std::fmt::Write as _;

use plan_ledger::plan::{Criterion, Step};

use crate::{CorrectionKind, PartKind, PlanFile, PlanFormat, lint_text, parse, read};

fn titles(plan_file: &PlanFile) -> Vec<String> {
    let title = |step: &Step| match step.title.as_str() {
        "" => step.goal.clone(),
        title => title.to_owned(),
    };
    plan_file.plan.steps.iter().map(title).collect()
}

fn titles_of(text: &str) -> Vec<String> {
    titles(&parse("p", text).unwrap_or_else(|error| panic!("{text}\n{error}")))
}

fn done(plan_file: &PlanFile) -> Vec<&str> {
    plan_file.done.keys().map(String::as_str).collect()
}

fn problems(text: &str) -> String {
    lint_text("p", text, None).diagnostics.iter().map(|each| format!("{each}\n")).collect()
}

#[test]
fn name_that_is_given_twice_is_refused_with_both_places() {
    for (text, place) in [
        ("tasks:\n- id: a\n  name: x\n  id: b\n", "line 4: duplicate field `id`, first on line 2"),
        (
            "{\"id\": \"a\", \"title\": \"x\"}\n{\"id\": \"b\", \"title\": \"y\", \"id\": 1}\n",
            "line 2: duplicate field `id`",
        ),
        (
            "[{\"id\": 1, \"title\": \"x\",\n\"id\": 2}]",
            "line 2: duplicate field `id`, first on line 1",
        ),
        ("[[tasks]]\nid = 1\nname = \"x\"\nid = 2\n", "line 4: duplicate key"),
    ] {
        let found = problems(text);
        assert!(found.starts_with(place), "{text}\n{found}");
    }
}

#[test]
fn column_that_is_there_twice_is_a_list() {
    let file = parse("p", "Key,Summary,Labels,Labels\nA-1,Draw,ui,web\nA-2,Print,ui,\n").unwrap();
    assert_eq!(*file.plan.steps[0].tags, ["ui", "web"]);
    assert_eq!(*file.plan.steps[1].tags, ["ui"]);
}

#[test]
fn ticked_task_closes_its_open_parts_and_says_so() {
    let markdown = "# P\n\n- [x] Write it\n  - [ ] Open the file\n    - [ ] Save it\n- [ ] Print it\n  - [ ] Find paper\n";
    let list = r#"{"tasks": [{"id": 1, "title": "a", "status": "done", "testStrategy": "t", "dependencies": [],
        "subtasks": [{"id": 1, "title": "b", "status": "pending"}, {"id": 2, "title": "c", "status": "done"}]},
        {"id": 2, "title": "d", "status": "pending", "dependencies": []}]}"#;
    for (text, closed, all) in [
        (markdown, vec!["1.1", "1.1.1"], vec!["1", "1.1", "1.1.1"]),
        (list, vec!["1.1"], vec!["1", "1.1", "1.2"]),
    ] {
        let file = parse("p", text).unwrap();
        assert_eq!(done(&file), all, "{text}");
        let corrections = file.report.corrections.iter();
        let corrections = corrections.filter(|each| each.kind == CorrectionKind::ClosedPart);
        let mut found: Vec<&str> = corrections.map(|each| each.step.as_str()).collect();
        found.sort_unstable();
        assert_eq!(found, closed, "{text}");
        assert!(problems(text).contains("marked as done"), "{}", problems(text));
    }
    let optional = "# P\n\n- [x] 1. Model\n  - [x] 1.1 Write it\n  - [ ]* 1.2 Test it\n- [x] 2. View\n- [ ]* 2.1 Test it\n";
    assert_eq!(done(&parse("p", optional).unwrap()), ["1", "1.1", "2"]);
    let whole = "---\nid: task-3\nstatus: Done\n---\n# P\n\n- [ ] a\n- [ ] b\n";
    assert_eq!(done(&parse("p", whole).unwrap()), ["1", "2"]);
}

/// The result does not depend on how many tasks there are.
#[test]
fn headings_with_boxes_on_two_levels_are_all_read() {
    for count in 1..6 {
        let mut text =
            "# P\n\n### [ ] Step: Write the text\n\n### [x] Phase 1: Build\n\n".to_owned();
        for number in 1..=count {
            let _ = write!(text, "#### [x] Task 1.{number}: Page {number}\n- new words\n\n");
        }
        let file = parse("p", &text).unwrap();
        let titles = titles(&file);
        assert_eq!(titles.len(), count + 2, "{titles:?}");
        assert!(titles.iter().any(|title| title.starts_with("Write the text")), "{titles:?}");
        assert_eq!(file.done.len(), count + 1);
    }
    let items = "# P\n\n### [x] Phase 1: One\n\n- [x] Task 1.1\n- [ ] Task 1.2\n\n### [ ] Phase 2: Two\n\n- [x] Task 2.1\n- [ ] Task 2.2\n";
    let file = parse("p", items).unwrap();
    assert_eq!(file.plan.steps.len(), 6, "{:?}", titles(&file));
    assert!(file.done.len() == 4, "{:?}", file.done);
}

#[test]
fn overviews_and_legends_are_no_work() {
    let stories = "# App\n\n## {}\n\n### Epic 1: Sign in\nWho you are.\n\n### Epic 2: Lists\nWhat you do.\n\n\
                   ## Epic 1: Sign in\n\n### Story 1.1: Register\nA name.\n\n### Story 1.2: Return\nAgain.\n\n\
                   ## Epic 2: Lists\n\n### Story 2.1: Add\nA line.\n";
    for title in ["Epic List", "Overview of epics", "All we want"] {
        assert_eq!(titles_of(&stories.replace("{}", title)).len(), 3, "{title}");
    }
    let legend = "# P\n\n## Legend\n\n- [ ] not started\n- [x] finished\n\n## Work\n\n- [ ] Draw\n- [x] Print\n";
    assert_eq!(titles_of(legend), ["Draw", "Print"]);
}

#[test]
fn examples_in_code_are_no_work() {
    let text = "# P\n\n````md\n```\n- [ ] no\n```\n<task><name>no</name></task>\n````\n\n- [ ] Draw\n- [ ] Print\n";
    assert_eq!(titles_of(text), ["Draw", "Print"]);
}

#[test]
fn units_and_stories_with_letters_are_work() {
    let units = "# P\n\n## Problem Frame\n\nIt is slow.\n\n## Implementation Units\n\n### Unit 1: Cache\n\nTarget File: a\n\n### Unit 2: Index\n\nMore.\n";
    assert_eq!(titles_of(units).len(), 2, "{:?}", titles_of(units));
    let letters =
        "# P\n\n### Story 1a: Draw\n\nx\n\n### Story 1b: Print\n\ny\n\n### Story 2: Send\n\nz\n";
    let file = parse("p", letters).unwrap();
    let ids: Vec<&str> = file.plan.steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(ids, ["1a", "1b", "2"]);
    let stages = "# P\n\n### Step 1: Draw (Completed)\n\nx\n\n### Step 2: Print \u{2705}\n\ny\n\n### Step 3: Send\n\nz\n";
    assert_eq!(done(&parse("p", stages).unwrap()), ["1", "2"]);
}

#[test]
fn texts_lose_their_marks_in_pairs() {
    let text = "# P\n\n### Task 1: Lock\n\n- [ ] **Step 1: Write the test**\n- [ ] **Step 2:** Run it\n- [ ] **Task 3.1: Draw** the page\n";
    let table = "# P\n\n| # | Task | Status |\n|---|---|---|\n| 1 | `Menu` entry | Open |\n| 2 | Use `keys` | Open |\n| 3 | **bold** | Open |\n";
    let headings = "# P\n\n## **Step 1: Draw it**\n\nx\n\n## **Step 2:** Print it\n\ny\n";
    for text in [text, table, headings] {
        for title in titles_of(text) {
            assert_eq!(title.matches("**").count() % 2, 0, "{title}");
            assert_eq!(title.matches('`').count() % 2, 0, "{title}");
        }
    }
    assert_eq!(titles_of(table), ["`Menu` entry", "Use `keys`", "bold"]);
}

#[test]
fn object_whose_keys_are_the_ids_is_a_list_of_tasks() {
    let crew = "read:\n  description: Read about it\n  expected_output: notes\n  agent: ana\nwrite:\n  description: Write it down\n  \
                expected_output: a text\n  context: [read]\n";
    let file = parse("p", crew).unwrap();
    assert_eq!(file.plan.steps.len(), 2);
    assert_eq!(file.plan.steps[1].after, ["read"]);
    assert_eq!(file.plan.steps[0].owner.as_deref(), Some("ana"));
    let json = r#"{"a": {"description": "x", "status": "done"}, "b": {"description": "y", "status": "todo"}}"#;
    let file = parse("p", json).unwrap();
    assert_eq!((file.plan.steps.len(), done(&file)), (2, vec!["a"]));
    // A description of one thing is no plan.
    for text in [
        r#"{"x": {"name": "a", "version": 1}}"#,
        r#"{"p": {"name": "x", "status": "ok", "tags": [1]}, "q": 2}"#,
    ] {
        assert!(parse("p", text).is_err(), "{text}");
    }
}

#[test]
fn yaml_that_begins_with_comments_is_no_markdown() {
    let text = "# Status of the sprint\n# generated: today\n\nproject: app\n\ndevelopment_status:\n  epic-1: in-progress\n  1-1-draw: done\n  1-2-print: backlog\n";
    let file = parse("p", text).unwrap();
    assert_ne!(file.format, PlanFormat::Markdown);
    assert_eq!((file.plan.steps.len(), done(&file).len()), (2, 1));
}

#[test]
fn columns_in_other_languages_are_read_and_a_row_without_text_is_refused() {
    let german = "Nr;Aufgabe;Beschreibung;Status;Verantwortlich\n1;Zeichnen;Die Seite;erledigt;Ana\n2;Drucken;;offen;Bo\n";
    let file = parse("p", german).unwrap();
    assert_eq!(titles(&file), ["Zeichnen", "Drucken"]);
    assert_eq!((done(&file), file.plan.steps[1].owner.as_deref()), (vec!["1"], Some("Bo")));
    let unknown = "id;Zadanie;status\n1;Rysowanie;todo\n2;Drukowanie;todo\n";
    let found = problems(unknown);
    assert!(
        found.contains("line 2: the task has no text") && found.contains("`Zadanie`"),
        "{found}"
    );
}

#[test]
fn numbers_say_what_is_inside_what() {
    let text = "# P\n\n- [ ] 1. Draw\n- [ ] 1.1 (P) Line\n- [ ] 1.2 (P) Colour\n- [ ] 2. Print\n";
    let file = parse("p", text).unwrap();
    let ids: Vec<&str> = file.plan.steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(ids, ["1.1", "1.2", "1", "2"]);
    assert_eq!(file.plan.steps[2].after, ["1.1", "1.2"]);
    assert!(file.plan.steps[1].after.is_empty());
}

#[test]
fn boxes_below_the_deepest_level_are_reported() {
    let mut text = "# P\n\n".to_owned();
    for level in 0..40 {
        let _ = writeln!(text, "{}- [ ] level {level}", "  ".repeat(level));
    }
    let file = parse("p", &text).unwrap();
    assert_eq!(file.plan.steps.len(), 32);
    assert!(file.report.unread.iter().any(|part| part.count == 8), "{:?}", file.report.unread);
}

#[test]
fn folder_of_plans_in_markdown_has_the_steps_of_each_file() {
    let folder = tempfile::tempdir().unwrap();
    let phase = folder.path().join("phases/01-base");
    std::fs::create_dir_all(&phase).unwrap();
    for plan in ["01", "02"] {
        let text = "# Plan\n\n## Tasks\n\n### Task 1: Install\n- **Description:** All of it\n\n### Task 2: Show\n- **Description:** Draw\n";
        std::fs::write(phase.join(format!("01-{plan}-PLAN.md")), text).unwrap();
    }
    let file = read(folder.path()).unwrap();
    assert_eq!(titles(&file), ["Install", "Show", "Install", "Show"]);
    assert_eq!(file.plan.steps[2].after, [file.plan.steps[1].id.clone()]);
}

/// The order of tasks whose dependencies name nothing: each is an end of its own, and the search for those that the next
/// one waits for was quadratic.
#[test]
fn tasks_with_wrong_dependencies_stay_linear() {
    let count = 20_000;
    let mut text = "# P\n\n".to_owned();
    for number in 0..count {
        let _ = writeln!(text, "- [ ] T{number:05} do (depends on T9{number:05})");
    }
    let file = parse("p", &text).unwrap();
    assert_eq!(file.report.corrections.len(), count);
    let last = format!("{text}- [ ] T99999 do\n");
    let last = parse("p", &last).unwrap();
    let edges: usize = last.plan.steps.iter().map(|step| step.after.len()).sum();
    assert_eq!((edges, last.plan.barriers.len()), (count, 0));
}

#[test]
fn tasks_by_name_keep_the_order_of_the_file() {
    let text = "write:\n  description: Write it\n  expected_output: a text\n  agent: ana\nread:\n  description: Read it\n  \
                expected_output: notes\n  agent: bo\ncheck:\n  description: Check it\n  expected_output: a list\n  agent: bo\n";
    let file = parse("p", text).unwrap();
    assert_eq!(file.format, PlanFormat::CrewAi);
    let ids: Vec<&str> = file.plan.steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(ids, ["write", "read", "check"]);
    assert_eq!(file.plan.steps[2].after, ["read"]);
    let sprint = "# s\ndevelopment_status:\n  1-9-a: done\n  1-10-b: backlog\n  1-11-c: backlog\n";
    let file = parse("p", sprint).unwrap();
    assert_eq!(titles(&file), ["1-9-a", "1-10-b", "1-11-c"]);
}

#[test]
fn taskwarrior_export_is_read_by_its_stable_ids() {
    let text = r#"[
{"id":0,"description":"Draw","entry":"20260101T120000Z","status":"completed","uuid":"aaaa","urgency":1.2,"end":"20260102T120000Z"},
{"id":1,"description":"Print","entry":"20260101T120000Z","status":"pending","uuid":"bbbb","priority":"H","depends":["aaaa"],"tags":["ink"]},
{"id":0,"description":"Burn","entry":"20260101T120000Z","status":"deleted","uuid":"cccc"}]"#;
    let file = parse("p", text).unwrap();
    assert_eq!(file.format, PlanFormat::Taskwarrior);
    let ids: Vec<&str> = file.plan.steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!((ids, done(&file)), (vec!["aaaa", "bbbb", "cccc"], vec!["aaaa"]));
    assert!(file.skipped.contains_key("cccc"));
    let second = &file.plan.steps[1];
    assert_eq!((second.after.as_slice(), second.priority), (["aaaa".to_owned()].as_slice(), 10));
    let later = parse("p", &text.replace("\"id\":1", "\"id\":7").replace("1.2", "9")).unwrap();
    assert_eq!(later.plan, file.plan, "numbers and urgencies change");
}

#[test]
fn todo_txt_is_read_and_prose_is_not() {
    let text = "(A) 2026-01-01 Draw the page +site @home\nx 2026-01-03 2026-01-02 Print it +site\nPaint it @home due:2026-02-01\nRest\n";
    let file = parse("p", text).unwrap();
    assert_eq!(file.format, PlanFormat::TodoTxt);
    assert_eq!(titles(&file)[..2], ["Draw the page +site @home", "Print it +site"]);
    assert_eq!((done(&file), file.plan.steps.len()), (vec!["2"], 4));
    assert_eq!(*file.plan.steps[0].tags, ["+site", "@home"]);
    for prose in ["Hello Ana,\nwrite to me @home.\nBye.\n", "x is a number\nand y is another\n"] {
        assert!(parse("p", prose).is_err(), "{prose}");
    }
}

#[test]
fn org_mode_is_read_by_its_keywords() {
    let text = "#+TITLE: Pages\n\n* Work\n** NEXT [#A] Draw it :page:\n   :PROPERTIES:\n   :ID: x\n   :END:\n   With a line.\n\
                ** DONE Print it\n** CANCELLED Burn it\n* Notes\n#+begin_src org\n** NEXT not this\n#+end_src\n- a note\n";
    let file = parse("p", text).unwrap();
    assert_eq!(file.format, PlanFormat::Org);
    assert_eq!(file.plan.title, "Pages");
    let titles = titles(&file);
    assert_eq!(titles.len(), 3, "{titles:?}");
    assert!(titles[0].starts_with("Draw it"), "{titles:?}");
    assert_eq!((file.done.len(), file.skipped.len()), (1, 1));
    let bullets = "### Step 1: Draw\n\n* NEXT page\n\n### Step 2: Print\n\n* DONE page\n";
    assert_eq!(parse("p", bullets).unwrap().format, PlanFormat::Markdown);
    assert!(parse("p", concat!("* TO", "DO Only one\n")).is_ok());
}

/// Each box outside of code is a step, a criterion, or in the report.
#[test]
fn every_box_is_accounted_for_once() {
    let titles = [
        "Work",
        "Notes",
        "Legend",
        "Acceptance criteria",
        "Phase 2: More",
        "Checklist",
        "Epic List",
    ];
    let mut state = 7_u64;
    let mut random = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for case in 0..200 {
        let mut text = "# Plan\n\n## Tasks\n\n- [ ] First\n".to_owned();
        let (mut boxes, mut depth) = (1_usize, 0_usize);
        for _ in 0..random(25) {
            let indent = "  ".repeat(depth);
            let mark = if random(3) == 0 { 'x' } else { ' ' };
            let number = random(9);
            match random(8) {
                0 => {
                    let title = titles[usize::try_from(random(7)).unwrap()];
                    let _ = write!(text, "\n## {title}\n\n");
                    depth = 0;
                }
                1 => {
                    let _ = writeln!(text, "{indent}- plain words {number}");
                }
                2 => {
                    let _ = write!(text, "\n```\n- [ ] example\n```\n\n");
                    depth = 0;
                }
                3 => depth = depth.saturating_sub(1),
                _ => {
                    let id =
                        if random(4) == 0 { format!("{number}.{number} ") } else { String::new() };
                    let _ = writeln!(text, "{indent}- [{mark}] {id}do {boxes}");
                    boxes += 1;
                    depth = if random(3) == 0 { depth + 1 } else { depth };
                }
            }
        }
        let file = parse("p", &text).unwrap_or_else(|error| panic!("{text}\n{error}"));
        let plan = &file.plan;
        let mut left = Vec::new();
        for number in 0..boxes {
            let words = if number == 0 { "First".to_owned() } else { format!("do {number}\n") };
            let has = |text: &str| format!("{text}\n").contains(&words);
            let is_criterion = |it: &Criterion| matches!(it, Criterion::Text(text) if has(text));
            let of_step = |step: &Step| {
                has(&step.title) || has(&step.goal) || step.acceptance.iter().any(is_criterion)
            };
            if !plan.steps.iter().any(of_step) && !plan.test_criteria.iter().any(is_criterion) {
                assert!(has(&plan.context), "case {case}: {words} is lost\n{text}");
                left.push(number);
            }
        }
        let reported = file.report.unread.iter().filter(|part| part.kind == PartKind::Checkbox);
        let reported: usize = reported.map(|part| part.count).sum();
        assert_eq!(reported, left.len(), "case {case}: {left:?}\n{text}");
    }
}

/// Regression: the line that is no object was called line 1 wherever it was.
#[test]
fn line_of_a_backup_that_is_no_object_is_named() {
    for (text, place) in [
        ("\n\nnope\n", "line 3: expected a JSON object"),
        ("{\"id\": \"a\", \"title\": \"A\"}\n\n[1]\n", "line 3, column 1: expected an issue"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("issues.jsonl"), text).unwrap();
        let error = read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("issues.jsonl") && error.contains(place), "{error}");
    }
}
