//! Tests of what is work in a Markdown text: by the marks of each part, its title and the titles around it, and never by
//! how many parts there are.

use std::fmt::Write as _;

use crate::{PlanFile, lint_text, parse};

fn read(text: &str) -> PlanFile {
    parse("p", text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

fn titles(text: &str) -> Vec<String> {
    let step = |step: &plan_ledger::plan::Step| match step.title.as_str() {
        "" => step.goal.clone(),
        title => title.to_owned(),
    };
    read(text).plan.steps.iter().map(step).collect()
}

fn done(text: &str) -> Vec<String> {
    read(text).done.into_keys().collect()
}

fn problems(text: &str) -> String {
    lint_text("p", text, None).diagnostics.iter().map(|each| format!("{each}\n")).collect()
}

#[test]
fn sections_of_a_design_document_are_no_steps() {
    let design = "# Implementation Plan\n\n## Overview\n\nIt is slow.\n\n## Architecture\n\nA cache.\n\n## Trade-offs\n\nMemory.\n";
    assert!(parse("p", design).is_err(), "{:?}", titles(design));
    let chapters = "# Cache\n\n## 1. Overview\n\nIt is slow.\n\n## 2. Interface\n\nA map.\n\n## 3. Eviction\n\nThe oldest.\n";
    assert!(parse("p", chapters).is_err(), "{:?}", titles(chapters));
    let steps = "# Cache\n\n## 1. Add a map\n\nx\n\n## 2. Evict the oldest\n\ny\n";
    assert_eq!(titles(steps), ["Add a map", "Evict the oldest"]);
}

#[test]
fn sections_about_files_prohibitions_and_edge_cases_are_no_steps() {
    let text = "# P\n\n## Implementation Steps\n\n### Add the map\n\n- a field\n\n### Draw it\n\nx\n\n\
                ### Files summary\n\n- a.rs\n\n### Do not\n\n- Break it\n\n### Edge cases\n\n- No map\n";
    assert_eq!(titles(text), ["Add the map", "Draw it"]);
    let lists = "# P\n\n## Steps\n\n1. Add the map\n2. Draw it\n\n**Files:**\n\n1. a.rs\n\n## Do not\n\n1. Break it\n\n## Edge cases\n\n1. No map\n";
    assert_eq!(titles(lists), ["Add the map", "Draw it"]);
    let boxes = "# P\n\n- [ ] Add the map\n\n## Do not\n\n- [ ] Break it\n\n## Open questions\n\n- [ ] Which map?\n";
    assert_eq!(titles(boxes), ["Add the map"]);
    assert!(problems(boxes).contains("1 checkbox under \"Do not\""), "{}", problems(boxes));
}

#[test]
fn guides_inside_of_longer_fences_are_no_work() {
    let text = "# P\n\n````markdown\n# Guide\n\n### Step 1: No\n\n```sh\n- [ ] no\n```\n\n1. no\n````\n\n### Step 1: Draw\n\nx\n";
    assert_eq!(titles(text), ["Draw"]);
    let boxes = "# P\n\n~~~~\n~~~\n- [ ] no\n~~~\n- [ ] no\n~~~~\n\n- [ ] Draw\n";
    assert_eq!(titles(boxes), ["Draw"]);
}

#[test]
fn title_of_a_story_is_no_step() {
    let story = "# Story 1.2: Draw the map\n\nStatus: review\n\n## Story\n\nAs a person.\n\n## Acceptance Criteria\n\n1. It is there.\n\n\
                 ## Tasks / Subtasks\n\n- [x] Task 1: Read it (AC: 1)\n  - [x] Open the file\n  - [x] Close it\n- [ ] Task 2: Draw it\n\n\
                 ## Tests\n\n- [ ] Test the map\n\n## Dev Notes\n\n### Step 1: of a guide\n\ntext\n";
    assert_eq!(
        titles(story),
        ["Open the file", "Close it", "Read it (AC: 1)", "Draw it", "Test the map"]
    );
    assert_eq!(done(story), ["1", "1.1", "1.2"]);
    let epic = "# Epic 1 Maps\n\n## Story 1.1 Read the map\n\nx\n\n### Acceptance Criteria\n\n1. It is read.\n\n## Story 1.2 Draw the map\n\ny\n";
    assert_eq!(titles(epic), ["Read the map", "Draw the map"]);
}

#[test]
fn names_of_files_with_a_change_are_no_boxes() {
    let text = "# P\n\n## Proposed Changes\n\n### Cache\n\n#### [MODIFY] [cache.rs](file:///cache.rs)\n\n- a map\n\n#### [NEW] [map.rs](file:///map.rs)\n\n- a field\n\n\
                ### Page\n\n#### [DELETE] [old.rs](file:///old.rs)\n\n## Verification Plan\n\n### Automated Tests\n\n- run them\n";
    assert_eq!(titles(text), ["Cache", "Page"]);
    let items =
        "# P\n\n## Tasks\n\n- [ ] Cache\n  - [NEW] map.rs\n  - [DELETE] old.rs\n- [ ] Page\n";
    assert_eq!(titles(items), ["Cache", "Page"]);
}

#[test]
fn ticks_of_headings_and_items_without_boxes_are_read() {
    let headings = "# P\n\n## Steps\n\n### \u{2705} Step 1: Read\n\nx\n\n### Step 2: Draw \u{2705} DONE\n\ny\n\n### Step 3: Send\n\nz\n";
    assert_eq!(done(headings), ["1", "2"]);
    assert_eq!(titles(headings), ["Read", "Draw", "Send"]);
    let items = "# P\n\n## Steps\n\n1. \u{2705} Read\n2. Draw (done)\n3. Send\n";
    assert_eq!(done(items), ["1", "2"]);
    let open = items.replace("\u{2705} ", "").replace(" (done)", "");
    assert_eq!(read(items).plan, read(&open).plan, "a tick does not change the plan");
    let phases =
        "# P\n\n## Phase 1: Read (done)\n\n1. Open\n2. Close\n\n## Phase 2: Draw\n\n1. Line\n";
    assert_eq!(done(phases), ["1.1", "1.2"]);
}

#[test]
fn items_below_phases_are_tasks_however_many_there_are() {
    for count in 1..5 {
        let mut text = "# P\n\n## Implementation Plan\n\n".to_owned();
        for phase in 1..=count {
            let _ = write!(text, "### Phase {phase}: Part {phase}\n\nWhy.\n\n");
            for item in 1..=count {
                let _ = writeln!(text, "{item}. Do {phase}-{item}");
            }
            text.push_str("\n**Files:**\n\n- a.rs\n\n");
        }
        assert_eq!(titles(&text).len(), count * count, "{text}");
    }
    let announced =
        "# P\n\n## Phase 1: Read\n\n**Needs:**\n\n- a file\n\n**Tasks:**\n\n1. Open\n2. Close\n";
    assert_eq!(titles(announced), ["Open", "Close"]);
}

#[test]
fn headings_of_steps_beside_those_with_boxes_are_tasks() {
    let text = "# P\n\n### Task 1: Read\n\n- [ ] Open\n- [ ] Close\n\n### Task 2: Draw\n\nWith a pen.\n\n## Notes\n\n### Step 1: of a guide\n\nx\n";
    assert_eq!(titles(text), ["Open", "Close", "Draw"]);
}

#[test]
fn ids_of_boxes_do_not_depend_on_the_boxes_inside() {
    for inner in 0..6 {
        let parts: String = (0..inner).map(|number| format!("  - [ ] part {number}\n")).collect();
        let text = format!("# P\n\n- [ ] 1. Read\n{parts}- [ ] 2. Draw\n");
        let file = read(&text);
        assert_eq!(file.plan.steps.len(), 2 + inner, "{text}");
        assert_eq!(file.plan.steps[inner].id, "1");
        let text = format!("# P\n\n- [ ] US-001: Read\n{parts}- [ ] US-002: Draw\n");
        let file = read(&text);
        assert_eq!((file.plan.steps.len(), file.plan.steps[0].acceptance.len()), (2, inner));
    }
}

#[test]
fn text_between_boxes_belongs_to_the_first_one() {
    let text = "# P\n\n- [ ] Read\n\nWith care.\n\n- [ ] Draw\n- [ ] Send\n\nThe end.\n";
    let file = read(text);
    assert!(file.plan.steps[0].goal.contains("With care."), "{}", file.plan.steps[0].goal);
    assert!(file.plan.context.contains("The end."), "{}", file.plan.context);
}

#[test]
fn lines_with_symbols_and_numbers_are_tasks() {
    let text = "# P\n\n\u{2705} **1. Read it**\n\nWith care.\n\n\u{2705} **2. Draw it**\n\n\u{23f3} **3. Send it**\n";
    assert_eq!(titles(text), ["Read it", "Draw it", "Send it"]);
    assert_eq!(done(text), ["1", "2"]);
    let bullets = "# P\n\n- \u{2705} Read it\n- \u{1f6a7} Draw it\n";
    assert_eq!(done(bullets), ["1"]);
    // Advice has ticks, too.
    let advice = "# P\n\n## Style\n\n- \u{2705} Use words\n- \u{274c} Use jargon\n\n## Tasks\n\n- [ ] Read it\n";
    assert_eq!(titles(advice), ["Read it"]);
}

#[test]
fn items_with_priorities_or_struck_through_are_tasks() {
    let text = "# P\n\n## Backlog\n\nWhat is left.\n\n- [P0] Read it\n- [P2] Draw it\n- ~~Send it~~\n\n## Notes\n\n- a note\n";
    let file = read(text);
    assert_eq!(titles(text), ["Read it", "Draw it", "~~Send it~~"]);
    assert_eq!((file.plan.steps[0].priority, file.skipped.len()), (20, 1));
}

#[test]
fn checklists_are_the_tasks_of_a_text_without_others() {
    let text = "# Release\n\n## Checklist\n\n- [x] Tag it\n- [ ] Send it\n\n## Acceptance Criteria\n\n- [ ] It is there\n";
    assert_eq!(titles(text), ["Tag it", "Send it"]);
    assert_eq!(done(text), ["1"]);
    let both = format!("{text}\n## Tasks\n\n- [ ] Write it\n");
    assert_eq!(titles(&both), ["Write it"]);
}

#[test]
fn front_matter_that_is_no_yaml_is_reported_with_its_place() {
    let text = "---\ntitle: Maps\nnote: [a, b\n---\n\n# P\n\n- [ ] Draw\n";
    assert_eq!(titles(text), ["Draw"]);
    let found = problems(text);
    assert!(found.contains("line 3") || found.contains("line 4"), "{found}");
    assert!(found.contains("the front matter is no valid YAML, so it is kept as text"), "{found}");
    let tasks = "---\ntodos:\n  - id: a\n    content: x: y: z\n---\n\n# P\n\n- [ ] Draw\n";
    assert!(parse("p", tasks).is_err());
    assert!(problems(tasks).starts_with("line 4"), "{}", problems(tasks));
    // A rule before the first heading is none.
    let rule = "---\n\n# P\n\nIt: is so [\n\n---\n\n- [ ] Draw\n";
    assert_eq!(titles(rule), ["Draw"]);
    assert!(!problems(rule).contains("front matter"), "{}", problems(rule));
    let object = "---\n{\"goal\": \"x\"}\n---\n\n- [ ] Draw\n";
    assert!(read(object).plan.extra["markdown"]["front_matter"].as_str().unwrap().contains("goal"));
    let list = "---\n- [ ] Read\n---\n\n- [ ] Draw\n";
    assert_eq!(titles(list), ["Read", "Draw"]);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("1.md"), "---\nid: a\ntitle: x: y\n---\n").unwrap();
    let error = crate::read(folder.path()).unwrap_err().to_string();
    assert!(error.contains("1.md") && error.contains("line 3"), "{error}");
}

/// A fence without an end in the context of a plan hid the steps below it, so that it could not be written as YAML.
#[test]
fn fence_without_an_end_hides_no_plan() {
    let file = read("# T\n- [ ] \n>\n```json");
    assert!(file.render(crate::ExportFormat::Yaml).is_ok(), "{:?}", file.plan);
}

/// Headings, items, announcements and overviews in great numbers: what is work is found in one pass.
#[test]
fn long_texts_stay_linear() {
    let count = 5_000;
    let mut texts = vec![
        format!("# P\n\n## Steps\n\n{}", "### Draw\n\n- a\n\n".repeat(count)),
        format!("# P\n\n{}", "## 1. Draw\n\nx\n\n".repeat(count)),
        format!("# P\n\n{}", "## Phase 1: Draw (done)\n\n1. x\n\n".repeat(count)),
        format!("# P\n\n**{}**\n\n{}", "w".repeat(100_000), "- [ ] Draw\n".repeat(count)),
        format!("#+TITLE: P\n\n{}", "* Read\n** Draw\n".repeat(count)),
    ];
    texts.push(texts[0].replace("- a", "1. a"));
    for text in texts {
        let file = read(&text);
        assert!(file.plan.steps.len() >= count, "{}", text.lines().nth(4).unwrap());
    }
}
