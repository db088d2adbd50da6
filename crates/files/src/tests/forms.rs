//! Tests of the forms of tools and of plain lists.

use plan_ledger::plan::Criterion;

use crate::{PlanFile, PlanFormat, parse};

fn read(text: &str) -> PlanFile {
    parse("p", text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

fn ids(file: &PlanFile) -> Vec<&str> {
    file.plan.steps.iter().map(|step| step.id.as_str()).collect()
}

fn done(file: &PlanFile) -> Vec<&str> {
    file.done.keys().map(String::as_str).collect()
}

fn titles(file: &PlanFile) -> Vec<&str> {
    let steps = file.plan.steps.iter();
    steps.map(|it| if it.title.is_empty() { it.goal.as_str() } else { &it.title }).collect()
}

/// The plan of the agent mode: a title `Plan: ...`, steps, and what is to be considered.
#[test]
fn plan_of_copilot_has_its_steps_and_nothing_else() {
    let text = "## Plan: Draw the map\n\nIn one day.\n\n### Steps\n\n1. **Read** it in [a](src/a.ts)\n2. **Draw** it\n\n### Further Considerations\n\n1. Which ink? Black.\n";
    assert_eq!(ids(&read(text)), ["1", "2"]);
    let phases = "## Plan: Draw the map\n\n**Steps**\n1. Phase 0: Read\n1.1. Open the file.\n1.2. Close the file.\n\n2. Phase 1: Draw\n2.1. Draw a line.\nWith ink.\n\n\
                  **Relevant files**\n- a.py\n\n**Verification**\n1. Run it.\n\n**Decisions**\n- Ink only.\n\n**Further Considerations**\n1. Which ink?\n";
    let file = read(phases);
    assert_eq!(ids(&file), ["1.1", "1.2", "2.1"]);
    assert_eq!(file.plan.phases.len(), 2);
}

/// The plan of its prompt for implementation plans: a table of tasks in each phase.
#[test]
fn implementation_plan_of_copilot_has_a_row_for_each_task() {
    let text = "---\ngoal: Draw the map\nstatus: 'In progress'\n---\n\n# Introduction\n\n## 1. Requirements & Constraints\n\n- **REQ-001**: Ink\n\n## 2. Implementation Steps\n\n\
                ### Implementation Phase 1\n\n- GOAL-001: Read\n\n| Task | Description | Completed | Date |\n|------|---|---|---|\n| TASK-001 | Open the file | \u{2705} | 2026-01-02 |\n| TASK-002 | Close it |  |  |\n\n\
                ### Implementation Phase 2\n\n| Task | Description | Completed | Date |\n|------|---|---|---|\n| TASK-003 | Draw | Yes | 2026-01-03 |\n\n## 7. Risks & Assumptions\n\n- **RISK-001**: no ink\n";
    let file = read(text);
    assert_eq!(ids(&file), ["TASK-001", "TASK-002", "TASK-003"]);
    assert_eq!(done(&file), ["TASK-001", "TASK-003"]);
    assert_eq!(file.plan.phases.len(), 2);
    assert!(file.plan.steps[0].goal.contains("Open the file"), "{:?}", file.plan.steps[0]);
}

#[test]
fn export_of_linear_has_its_statuses_parents_and_blockers() {
    let text = "ID,Team,Title,Description,Status,Estimate,Priority,Project ID,Project,Creator,Assignee,Labels,Cycle Number,Created,Updated,Started,Completed,Canceled,Due Date,Parent issue,SLA Status,Time in status (minutes),Related to,Blocked by\n\
                MAP-1,Maps,Read,\"Two\nlines\",Done,2,Urgent,,Atlas,ana,bo,\"Ink, Page\",4,2026-01-01T10:00:00Z,2026-01-02T10:00:00Z,,2026-01-02T10:00:00Z,,,,,12,,\n\
                MAP-2,Maps,Draw,,In Progress,,High,,Atlas,ana,,,,2026-01-01T10:00:00Z,2026-01-02T10:00:00Z,,,,,MAP-4,,3,MAP-1,MAP-1\n\
                MAP-3,Maps,Burn,,Canceled,,No priority,,,ana,,,,2026-01-01T10:00:00Z,,,,2026-01-02T10:00:00Z,,,,,,\n\
                MAP-4,Maps,All,,Todo,,Low,,,ana,,,,2026-01-01T10:00:00Z,,,,,,,,,,\n";
    let file = read(text);
    assert_eq!(file.format, PlanFormat::Linear);
    assert_eq!(ids(&file), ["MAP-1", "MAP-2", "MAP-3", "MAP-4"]);
    assert_eq!((done(&file), file.skipped.len()), (vec!["MAP-1"], 1));
    let step = |id: &str| file.plan.steps.iter().find(|step| step.id == id).unwrap();
    assert_eq!(step("MAP-2").after, ["MAP-1"]);
    assert_eq!(step("MAP-4").after, ["MAP-2"]);
    assert_eq!((step("MAP-1").priority, step("MAP-1").owner.as_deref()), (20, Some("bo")));
    assert_eq!(*step("MAP-1").tags, ["Ink", "Page"]);
    let later = read(&text.replace(",12,,", ",99,,").replace("2026-01-02", "2026-02-02"));
    assert_eq!(later.plan, file.plan, "times change");
}

#[test]
fn criteria_in_the_description_of_a_project_are_those_of_the_plan() {
    let text = "project:\n  name: Maps\n  success_criteria:\n    - The map is there\n    - It is right\ntasks:\n  - id: a\n    name: Draw\n";
    let criteria = read(text).plan.test_criteria;
    assert_eq!(
        criteria,
        [Criterion::Text("The map is there".into()), Criterion::Text("It is right".into())]
    );
    let gate = text.replace("success_criteria:", "gates:");
    assert!(parse("p", &gate).is_err(), "what must be read is still refused");
}

#[test]
fn plain_lines_are_tasks_and_prose_is_not() {
    let text = "Read the map\nDraw the map\n\nSend the map\n";
    assert_eq!(titles(&read(text)), ["Read the map", "Draw the map", "Send the map"]);
    let marked = "Read the map\nDraw the map\nPaint the map\nSend it +maps\n";
    assert_eq!(titles(&read(marked)).len(), 4);
    for prose in [
        "Dear Ana,\nPlease draw it\n",
        "The map is old.\nDraw a new one\n",
        "name is x\nother is y\n",
        "Hello\n",
    ] {
        assert!(parse("p", prose).is_err(), "{prose}");
    }
}

#[test]
fn org_mode_without_keywords_is_an_outline_of_tasks() {
    let text = "#+TITLE: Maps\n\n* Read\n** Open the file\n** Close the file\n* Draw\n";
    let file = read(text);
    assert_eq!(file.format, PlanFormat::Org);
    assert_eq!(titles(&file), ["Open the file", "Close the file", "Draw"]);
    let boxes = "* Read\n** Files\nSome text.\n- [X] Open\n- [ ] Close\n* Draw\n- [ ] Line\n";
    let file = read(boxes);
    assert_eq!(titles(&file), ["Open", "Close", "Line"]);
    assert_eq!(file.done.len(), 1);
    // A manual is no plan.
    let manual = "#+TITLE: Maps\n\n* Use\nRun it.\n** Options\nNone.\n";
    assert!(parse("p", manual).is_err());
}

#[test]
fn toml_with_lists_in_its_texts_is_no_markdown() {
    let text = "formula = \"draw\"\n\n[[steps]]\nid = \"a\"\ntitle = \"Read\"\ndescription = \"\"\"\n# How\n\n1. Open it\n2. Close it\n\"\"\"\n";
    assert_eq!(ids(&read(text)), ["a"]);
}
