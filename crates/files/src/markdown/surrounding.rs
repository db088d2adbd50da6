//! The text around the tasks: known sections are fields of the plan, the rest is its context, and
//! everything that is neither a task nor a field is reported.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::labels::{Label, is_criteria_title, label_words, parse_label, read_labels};
use super::list_markers::Line;
use super::outline::{DEPTH_MAX, Item, Outline};
use super::refused_labels::lines_read;
use super::remaining_text::RemainingText;
use super::tasks::TaskSelection;
use super::titles::normalized_title;
use crate::draft::{PlanDraft, TaskStatus, tool_extra};
use crate::plan_file::PlanFormat;
use crate::read_report::PartKind;
use crate::records::problems_of_fields;
use crate::syntax::Node;
use plan_ledger::plan::Criterion;

/// The key of this format in `extra`.
const EXTRA: &str = "markdown";

/// Sections that are fields in `extra`, with the names of the fields. Their text stays in the
/// context, too, where workers read it.
const EXTRA_SECTIONS: &[(&str, &str)] = &[
    ("next action", "next_action"),
    ("next actions", "next_action"),
    ("files to modify", "files_to_modify"),
    ("new files to create", "files_to_create"),
    ("files to create", "files_to_create"),
    ("new files", "files_to_create"),
    ("dependency changes", "dependency_changes"),
    ("assumptions", "assumptions"),
    ("decisions", "decisions"),
];

/// The start of a comment with a note about a run, which is not part of the plan.
pub(crate) const NOTE_START: &str = "<!-- ledger: ";

/// Reads the text around the tasks into the draft.
pub(super) fn read(draft: &mut PlanDraft, outline: &Outline<'_>, selection: &TaskSelection) {
    let is_spec_kit = draft.plan_file.format == PlanFormat::SpecKit;
    let mut remaining = RemainingText::new(outline);
    for task in &selection.tasks {
        remaining.take(task.range.clone());
    }
    let mut fields = Map::new();
    let mut read: BTreeSet<usize> = BTreeSet::new();
    let mut kept = Map::new();
    let plan = &mut draft.plan_file.plan;
    let mut top_sections = outline.sections.iter().filter(|section| section.level == 1);
    if let (Some(section), None) = (top_sections.next(), top_sections.next()) {
        let title = section.title.strip_prefix("PLAN:").unwrap_or(&section.title);
        title.trim().clone_into(&mut plan.title);
        remaining.take(section.range.start..section.body);
    }
    if let Some(front) = &outline.front_matter {
        if let Some(Value::Object(front)) = front.fields.as_ref().map(Node::value) {
            draft.diagnostics.extend(problems_of_fields(&front, 1));
            kept = front;
        }
        let text = outline.slice(front.range.clone()).trim_end();
        fields.insert("front_matter".to_owned(), Value::String(text.to_owned()));
        remaining.take(front.range.clone());
    }
    for line in outline.lines_of(0..outline.text.len()) {
        let from = line.text.strip_prefix("From:").map(str::trim).filter(|from| !from.is_empty());
        if let Some(from) = from {
            fields.entry("from").or_insert_with(|| Value::String(from.to_owned()));
        }
    }
    if let Some(goal) = outline.text.lines().find_map(goal_of_heading) {
        goal.clone_into(&mut plan.goal);
    }
    take_notes(&mut remaining, &outline.text);
    for (at, section) in outline.sections.iter().enumerate().skip(1) {
        let range = section.range.start..outline.subtree_end(at);
        if remaining.overlaps_taken(range.clone()) {
            continue;
        }
        let text = || outline.slice(section.body..range.end).trim().to_owned();
        let items = || remaining.only_items(at, range.clone());
        let title = normalized_title(&section.title);
        if let Some((_, name)) = EXTRA_SECTIONS.iter().find(|(known, _)| *known == title)
            && !text().is_empty()
        {
            let value = items().filter(|items| !items.is_empty());
            let value = value.map_or_else(|| Value::String(text()), Value::from);
            fields.entry(*name).or_insert(value);
            read.insert(at);
        }
        let is_taken = match title.as_str() {
            "outcome" => fill(&mut plan.outcome, text),
            "goal" | "objective" | "summary" => fill(&mut plan.goal, text),
            "risks" | "risks and mitigations" => fill_list(&mut plan.risks, items()),
            "risks and assumptions" | "risks / open questions" | "risks & open questions" => {
                let items = items().filter(|_| plan.risks.is_empty());
                items.is_some_and(|items| {
                    for item in items {
                        let plain = item.trim_start_matches(['*', '_']).to_lowercase();
                        if plain.starts_with("assum") {
                            let list = fields
                                .entry("assumptions")
                                .or_insert_with(|| Vec::<Value>::new().into());
                            if let Some(list) = list.as_array_mut() {
                                list.push(Value::String(item));
                            }
                        } else if item.ends_with('?') {
                            plan.open_questions.push(item);
                        } else {
                            plan.risks.push(item);
                        }
                    }
                    true
                })
            }
            "open questions" | "questions" => fill_list(&mut plan.open_questions, items()),
            title if is_criteria_title(title) && !is_spec_kit => {
                let items = items().filter(|_| plan.test_criteria.is_empty());
                let items = items.map(|items| items.into_iter().map(Criterion::Text).collect());
                items.is_some_and(|items| {
                    plan.test_criteria = items;
                    true
                })
            }
            _ => false,
        };
        if is_taken {
            remaining.take(range);
        }
    }
    if plan.test_criteria.is_empty() && !is_spec_kit {
        plan.test_criteria = criteria_of_head(outline, selection);
    }
    plan.extra = tool_extra(EXTRA, fields);
    draft.add_kept(&kept);
    report(draft, outline, selection, &remaining, &read);
    draft.plan_file.plan.context = remaining.into_text();
}

/// The status in the front matter, if it says that all of the file is done.
pub(super) fn done_status(outline: &Outline<'_>) -> Option<String> {
    let front = outline.front_matter.as_ref()?;
    let status = front.fields.as_ref()?.field("status")?.value();
    let word = status.as_str().filter(|word| TaskStatus::parse(word) == TaskStatus::Done)?;
    Some(format!("status: {word}"))
}

/// The criteria under labels before the first chapter: `Done when: all tests pass`. They stay in the context, too.
fn criteria_of_head(outline: &Outline<'_>, selection: &TaskSelection) -> Vec<Criterion> {
    let read = lines_read(outline, selection);
    let head = outline.sections.iter().take(2).filter(|section| section.level < 2);
    let lines = head.flat_map(|section| outline.lines_of(section.body..section.range.end));
    let lines: Vec<Line<'_>> = lines.filter(|line| !read.contains(&line.number)).collect();
    let labelled = read_labels(lines.iter().copied());
    let (mut is_named, mut named) = (false, BTreeSet::new());
    for line in &lines {
        if parse_label(line.text).is_some() {
            is_named = label_words(line.text).is_some_and(|(words, _)| is_criteria_title(words));
        }
        if is_named {
            named.insert(line.number);
        }
    }
    let criteria = labelled.values(Label::Acceptance).iter();
    let criteria = criteria.filter(|criterion| named.contains(&criterion.line));
    criteria.map(|criterion| Criterion::Text(criterion.text.clone())).collect()
}

/// Leaves out the comments with notes about a run.
fn take_notes(remaining: &mut RemainingText<'_>, text: &str) {
    let mut start = 0_usize;
    for line in text.split_inclusive('\n') {
        let end = start.saturating_add(line.len());
        if line.starts_with(NOTE_START) && line.trim_end().ends_with("-->") {
            remaining.take(start..end);
        }
        start = end;
    }
}

/// Reports the parts that are neither tasks nor fields.
fn report(
    draft: &mut PlanDraft,
    outline: &Outline<'_>,
    selection: &TaskSelection,
    remaining: &RemainingText<'_>,
    read: &BTreeSet<usize>,
) {
    let with_tasks: BTreeSet<usize> = selection
        .tasks
        .iter()
        .flat_map(|task| outline.ancestors(task.section))
        .chain(outline.sections.iter().enumerate().filter_map(|(at, section)| {
            remaining.overlaps_taken(section.range.clone()).then_some(at)
        }))
        .collect();
    for (at, section) in outline.sections.iter().enumerate() {
        // Those of a chapter that is a field are read.
        let is_field = remaining.overlaps_taken(section.range.start..section.body);
        let boxes = selection.other_checkboxes.get(&at);
        if let Some((line, count)) = boxes.filter(|_| !is_field || section.level < 2) {
            draft.add_unread(PartKind::Checkbox, *count, &section.title, Some(*line));
        }
        if read.contains(&at) {
            continue;
        }
        let is_left = |range: std::ops::Range<usize>| !remaining.overlaps_taken(range);
        // The line of an item alone: tasks may be below it.
        let line_of = |range: &std::ops::Range<usize>| {
            let text = outline.slice(range.clone());
            let length = text.find('\n').unwrap_or(text.len());
            range.start..range.start.saturating_add(length)
        };
        let items: Vec<u64> = section
            .items
            .iter()
            .filter(|item| is_left(line_of(&item.range)))
            .filter(|item| boxes.is_none() || item.checkbox.is_none())
            .map(|item| item.line)
            .collect();
        if let Some(first) = items.first() {
            draft.add_unread(PartKind::Item, items.len(), &section.title, Some(*first));
        } else if boxes.is_none()
            && at > 0
            && !with_tasks.contains(&at)
            && (section.title.starts_with('[')
                || !outline.slice(section.body..section.range.end).trim().is_empty())
        {
            draft.add_unread(PartKind::Section, 1, &section.title, Some(section.line));
        }
    }
    if let Some((line, count)) = outline.too_deep {
        draft.add_note(Some(line), format!("items are read down to level {DEPTH_MAX}"));
        draft.add_unread(PartKind::Checkbox, count, outline.section_title(line), Some(line));
    }
    for table in &outline.tables {
        let (line, rows) = (table.line(), table.rows.len().saturating_sub(1));
        draft.add_unread(PartKind::Row, rows, outline.section_title(line), Some(line));
    }
    for (line, text) in placeholders(outline) {
        draft.add_unread(PartKind::Placeholder, 1, &text, Some(line));
    }
}

/// Words in brackets of a template that was not filled in: in the title, in `From:`, and in the
/// names of phases.
fn placeholders(outline: &Outline<'_>) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    for Line { number: line, text, .. } in outline.lines_of(0..outline.text.len()) {
        let is_head = text.starts_with('#') || text.starts_with("From:") || text.contains("Phase ");
        let Some((_, rest)) = text.split_once('[').filter(|_| is_head) else { continue };
        let Some((words, after)) = rest.split_once(']') else { continue };
        let is_words = words.chars().next().is_some_and(char::is_lowercase)
            && words.len() > 2
            && words.chars().all(|c| c.is_lowercase() || c == ' ' || c == '-');
        if is_words && !after.starts_with(['(', '[', ':']) {
            found.push((line, format!("[{words}]")));
        }
    }
    found
}

/// The goal in the line above a list of steps: `Plan v1 (generated from goal: "Process the loan"):`.
fn goal_of_heading(line: &str) -> Option<&str> {
    let line = line.trim().strip_prefix("Plan ")?.strip_suffix(':')?;
    let (_, goal) = line.strip_suffix(')')?.split_once("goal: ")?;
    Some(goal.trim().trim_matches('"')).filter(|goal| !goal.is_empty())
}

/// Sets a text that is still empty. Returns whether it was set.
fn fill(field: &mut String, text: impl Fn() -> String) -> bool {
    let is_free = field.is_empty();
    if is_free {
        *field = text();
    }
    is_free && !field.is_empty()
}

fn fill_list(field: &mut Vec<String>, items: Option<Vec<String>>) -> bool {
    let is_free = field.is_empty();
    match items {
        Some(items) if is_free && !items.is_empty() => *field = items,
        _ => return false,
    }
    true
}

/// Reports the items of a text below the fields that have the tasks.
pub(crate) fn report_unread(draft: &mut PlanDraft, outline: &Outline<'_>) {
    for section in &outline.sections {
        let is_item = |item: &&Item| item.number.is_some() || item.checkbox.is_some();
        let items: Vec<u64> = section.items.iter().filter(is_item).map(|item| item.line).collect();
        let Some(first) = items.first() else { continue };
        let boxes = section.items.iter().any(|item| item.checkbox.is_some());
        let kind = if boxes { PartKind::Checkbox } else { PartKind::Item };
        draft.add_unread(kind, items.len(), &section.title, Some(*first));
    }
}
