//! Files that can be read in two ways.

use std::path::PathBuf;

use super::marks::plan_files;
use crate::{PlanFile, ReadOptions, Reading, parse};
use plan_ledger::plan::Criterion;

const STEPS_WITH_BOXES: &str = "# Login\n\n## Task 1: Add the form\n\nDraw it.\n\n- [ ] It has a field\n  - [x] It \
    is wide\n- [ ] It has a button\n\n## Task 2: Check the password\n\n- [x] A wrong one is refused\n\n## Rest\n\n- [ ] \
    Write to Ada\n";

fn read_as(text: &str, reading: &str) -> PlanFile {
    let options = ReadOptions { reading: Some(reading.to_owned()), ..ReadOptions::default() };
    options.parse("p.md", text).unwrap()
}

fn titles(file: &PlanFile) -> Vec<&str> {
    file.plan
        .steps
        .iter()
        .map(|step| if step.title.is_empty() { step.goal.as_str() } else { step.title.as_str() })
        .collect()
}

/// The readings of a text by their names, with their numbers of steps.
fn readings(text: &str) -> Vec<(&'static str, usize)> {
    let file = parse("p.md", text).unwrap();
    file.readings.iter().map(|each| (each.reading.name(), each.steps)).collect()
}

#[test]
fn boxes_below_headings_of_steps_are_steps_or_criteria() {
    assert_eq!(readings(STEPS_WITH_BOXES), [("boxes", 5), ("headings", 3)]);
    let default = parse("p.md", STEPS_WITH_BOXES).unwrap();
    assert_eq!(default.reading, Some(Reading::Boxes));
    assert_eq!(default.readings[1].titles, ["Add the form", "Check the password", "Write to Ada"]);
    let file = read_as(STEPS_WITH_BOXES, "headings");
    assert_eq!(file.reading, Some(Reading::Headings));
    assert_eq!(titles(&file), ["Add the form", "Check the password", "Write to Ada"]);
    let text = |text: &str| Criterion::Text(text.to_owned());
    let [first, second, rest] = file.plan.steps.as_slice() else { panic!("{file:?}") };
    assert_eq!(
        first.acceptance,
        [text("It has a field"), text("It is wide"), text("It has a button")]
    );
    assert_eq!(first.goal, "Add the form\n\nDraw it.");
    assert_eq!(second.acceptance, [text("A wrong one is refused")]);
    assert!(rest.acceptance.is_empty());
    let done: Vec<&String> = file.done.keys().collect();
    assert_eq!(done, ["2"]);
}

/// Of steps inside each other, the innermost take the boxes; those beside them stay steps.
#[test]
fn innermost_headings_of_steps_take_the_boxes() {
    let text = "# P\n\n## Story 1: Draw\n\n- [ ] Ask Ada\n\n### Task 1.1: Lines\n\n- [ ] thin\n- [ ] thick\n\n### Task \
                1.2: Circles\n\n- [ ] round\n";
    assert_eq!(readings(text), [("boxes", 4), ("headings", 3)]);
    assert_eq!(titles(&read_as(text, "headings")), ["Ask Ada", "Lines", "Circles"]);
}

#[test]
fn numbered_heading_with_files_is_that_of_a_step() {
    let text = |label: &str| {
        format!(
            "# P\n\n## 1. Parser\n\n{label}: src/a.rs\n\n- [ ] reads\n- [ ] writes\n\n## 2. Printer\n\n{label}: \
             src/b.rs\n\n- [ ] prints\n"
        )
    };
    assert_eq!(readings(&text("**Files**")), [("boxes", 3), ("headings", 2)]);
    assert_eq!(readings(&text("**Note**")), []);
    assert_eq!(read_as(&text("**Files**"), "headings").plan.steps[0].changes[0], "src/a.rs");
}

#[test]
fn boxes_below_titles_about_the_work_are_steps_or_text() {
    let text = |title: &str| {
        format!(
            "# P\n\n## Steps\n\n1. Draw\n2. Print\n3. Send\n\n## {title}\n\n- [ ] it runs\n- [x] it is fast\n"
        )
    };
    for title in ["Tests", "Validation", "Notes", "Success Metrics"] {
        assert_eq!(readings(&text(title)), [("boxes", 2), ("items", 3)], "{title}");
        assert_eq!(titles(&read_as(&text(title), "items")), ["Draw", "Print", "Send"]);
    }
    for title in ["Printing", "Acceptance Criteria", "Open questions"] {
        assert_eq!(readings(&text(title)), [], "{title}");
    }
    let headings =
        "# P\n\n## Step 1: Draw\n\nIt.\n\n## Step 2: Print\n\nIt.\n\n## Tests\n\n- [ ] it runs\n";
    assert_eq!(readings(headings), [("boxes", 1), ("headings", 2)]);
    let unread = read_as(headings, "headings").report.unread_text();
    assert_eq!(unread, "1 checkbox under \"Tests\", line 13");
}

#[test]
fn lists_without_numbers_below_phases_are_steps_or_text() {
    let text = "# P\n\n## Phase 1: Draw\n\n- a line\n- a circle\n\n## Phase 2: Print\n\n- it\n- all\n- twice\n";
    assert_eq!(readings(text), [("items", 5), ("headings", 2)]);
    assert_eq!(titles(&read_as(text, "headings")), ["Draw", "Print"]);
    assert_eq!(titles(&read_as(text, "items")).len(), 5);
    assert_eq!(readings(&text.replace("Phase ", "")), [("items", 5), ("headings", 2)]);
    // Numbers, and a line that says so, make items of a phase steps.
    let numbers = text.replace("\n- ", "\n1. ");
    assert_eq!(readings(&numbers), []);
    assert_eq!(readings(&numbers.replace("Phase ", "")), [("items", 5), ("headings", 2)]);
    assert_eq!(readings(&text.replace("\n\n- ", "\n\n**Tasks:**\n\n- ")), []);
}

#[test]
fn numbered_order_beside_phases_is_work_or_an_overview() {
    let text = "# P\n\n## Phase 1: Draw\n\nA line.\n\n## Phase 2: Print\n\nIt.\n\n## Implementation Order\n\n1. \
                Draw first\n2. Then print\n3. Then rest\n";
    assert_eq!(readings(text), [("items", 3), ("headings", 2)]);
    assert_eq!(titles(&read_as(text, "headings")), ["Draw", "Print"]);
}

#[test]
fn table_of_tasks_in_one_of_several_phases_is_work_or_text() {
    let table = "| ID | Task | Status |\n|---|---|---|\n| A1 | draw | todo |\n| A2 | print | done |\n| A3 | send | todo |\n";
    let text = format!("# P\n\n## Phase 1: Draw\n\n{table}\n## Phase 2: Print\n\nAll of it.\n");
    assert_eq!(readings(&text), [("tables", 3), ("headings", 2)]);
    assert_eq!(titles(&read_as(&text, "headings")), ["Draw", "Print"]);
    assert_eq!(readings(&text.replace("All of it.", &table.replace('A', "B"))), []);
}

#[test]
fn ordinary_files_have_one_reading() {
    for text in [
        "- [ ] a\n- [x] b\n",
        "# P\n\n## Phase 1: Draw\n\n- [ ] a\n- [ ] b\n\n## Phase 2: Print\n\n- [ ] c\n",
        "# P\n\n## 1. Draw\n\n- [ ] a\n- [ ] b\n\n## 2. Print\n\n- [ ] c\n",
        "# P\n\n## 1. Draw\n\n- [ ] 1.1 a\n- [ ] 1.2 b\n\n## 2. Print\n\n- [ ] 2.1 c\n",
        "# P\n\n## Task 1: Draw\n\n- [ ] T001 a\n- [ ] T002 b\n\n## Task 2: Print\n\n- [ ] T003 c\n",
        "# P\n\n### Task 1: Draw\n\n- [ ] **Step 1: a**\n- [ ] **Step 2: b**\n\n### Task 2: Print\n\n- [ ] **Step 1: c**\n",
        "# P\n\n## Task 1: Draw\n\n**Subtasks:**\n\n- [ ] a\n- [ ] b\n\n## Task 2: Print\n\n**Subtasks:**\n\n- [ ] c\n",
        "# P\n\n## [ ] Task 1: Draw\n\n- [ ] a\n\n## [ ] Task 2: Print\n\n- [ ] b\n",
        "# P\n\n## Tasks\n\n### Draw\n\n- [ ] a\n- [ ] b\n\n### Print\n\n- [ ] c\n",
        "# P\n\n## Step 1: Draw\n\n- a line\n- a circle\n\n## Step 2: Print\n\n- it\n",
        "# P\n\n## Phase 1: Draw\n\nA line.\n\n## Phase 2: Print\n\nIt.\n",
        "# P\n\n## Steps\n\n1. Draw\n2. Print\n\n## Notes\n\n- it is late\n",
        "# P\n\n## Steps\n\n1. Draw\n2. Print\n\n## Acceptance Criteria\n\n- [ ] it is late\n",
    ] {
        assert_eq!(readings(text), [], "{text}");
    }
    for text in
        ["steps: [{id: a}]\n", "id,title\n1,draw\n", r#"{"tasks": [{"id": 1, "title": "a"}]}"#]
    {
        let file = parse("p", text).unwrap();
        assert_eq!((file.reading, file.readings.len()), (None, 0), "{text}");
    }
}

/// Ticks are no part of the decision.
#[test]
fn readings_do_not_depend_on_ticks() {
    let ticked = STEPS_WITH_BOXES.replace("[ ]", "[x]");
    assert_eq!(readings(STEPS_WITH_BOXES), readings(&ticked));
    let hash = |text: &str| plan_ledger::plan_hash(&read_as(text, "headings").plan);
    assert_eq!(hash(STEPS_WITH_BOXES), hash(&ticked));
}

#[test]
fn name_of_no_reading_is_an_error_with_those_of_the_file() {
    let error = |text: &str, name: &str| {
        let options = ReadOptions { reading: Some(name.to_owned()), ..ReadOptions::default() };
        options.parse("p", text).unwrap_err().to_string()
    };
    let found = error(STEPS_WITH_BOXES, "items");
    let expected = "there is no reading `items`: the file can be read as boxes (5 steps) or headings (3 steps)";
    assert!(found.ends_with(expected), "{found}");
    let found = error("- [ ] a\n", "headings");
    let expected = "there is no reading `headings`: the file has one reading, `boxes`; omit it";
    assert!(found.ends_with(expected), "{found}");
    let found = error("steps: [{id: a}]\n", "boxes");
    let expected = "reading `boxes` was requested, but a YAML plan has one reading; omit it";
    assert!(found.ends_with(expected), "{found}");
    assert_eq!(read_as("- [ ] a\n", "boxes").plan.steps.len(), 1);
}

/// Property over all real files: each reading is selected by its name and has the steps that were reported, and the
/// default is the one without a name. Few of them have two readings: people are asked about a file that is not ordinary.
#[test]
fn readings_of_every_plan_file_are_those_that_it_reports() {
    let with = |path: &PathBuf, reading: Option<Reading>| {
        let reading = reading.map(|it| it.name().to_owned());
        ReadOptions { reading, ..ReadOptions::default() }.read(path).unwrap()
    };
    let files = plan_files();
    let mut close = Vec::new();
    for path in &files {
        let default = with(path, None);
        let Some(reading) = default.reading else {
            assert_eq!(default.readings, [], "{}", path.display());
            continue;
        };
        assert_eq!(with(path, Some(reading)), default, "{}", path.display());
        if default.readings.is_empty() {
            continue;
        }
        assert_eq!(default.readings[0].reading, reading, "{}", path.display());
        for each in &default.readings {
            let file = with(path, Some(each.reading));
            assert_eq!(file.plan.steps.len(), each.steps, "{}", path.display());
            assert_eq!(file.readings, default.readings, "{}", path.display());
        }
        let names: Vec<String> = default.readings.iter().map(ToString::to_string).collect();
        println!("{}: {}", path.display(), names.join(" or "));
        close.push(path);
    }
    println!("{} of {} files have two readings", close.len(), files.len());
    assert!(close.len() * 4 <= files.len(), "{close:?}");
}
