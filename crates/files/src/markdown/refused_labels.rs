//! Labels of a Markdown text that name a gate, a command, a check, a probe, a limit, a cap or a rule: `- Gate: ask Bob`.
//! Markdown has no form for them, and as a text they would hold nothing, so each is a problem or a warning with its line.
//!
//! Invariant: lines of code, quotes, tables, comments and checkboxes, and lines below a label that is read, are not
//! checked.

use std::collections::{BTreeMap, BTreeSet};

use super::labels::{Label, is_acceptance_title, label_words, parse_label, read_labels};
use super::list_markers::{Line, LineKind, strip_checkbox, strip_marker};
use super::outline::Outline;
use super::tasks::{Task, TaskSelection};
use super::titles::normalized_title;
use crate::draft::PlanDraft;
use crate::records::{MeantLabel, Owner, RefusedWhere, meant_label};

/// Reports the labels of the tasks and their subtasks that are not read.
pub(super) fn report(draft: &mut PlanDraft, outline: &Outline<'_>, tasks: &[Task]) {
    plan_ledger::mutant!(LabelsOfChecksIgnored => return);
    let mut read = BTreeSet::new();
    let mut rest: Vec<&Task> = tasks.iter().collect();
    while let Some(task) = rest.pop() {
        read.insert(task.line);
        read.extend(task.labelled.lines());
        rest.extend(&task.subtasks);
    }
    let mut found = BTreeMap::new();
    for task in tasks {
        let lines: Vec<Line<'_>> = outline.lines_of(task.range.clone()).collect();
        let found_here = labels(&lines, &read, Owner::Step);
        // The range of the first task of a phase contains the other tasks of the phase.
        found.extend(found_here.into_iter().map(|(line, words, meant)| (line, (words, meant))));
    }
    for (line, (words, meant)) in found {
        let MeantLabel { form, refused } = meant;
        if refused == RefusedWhere::Nowhere {
            draft.add_warning(Some(line), for_worker(&words, form));
            continue;
        }
        let message = format!(
            "`{words}` of a Markdown task is not read; write {form} in a native plan (`ledger help plan-file`), or a \
             sentence without this label, for the worker"
        );
        draft.add_problem(Some(line), message);
    }
}

/// Reports the labels around the tasks. They are refused beside the tasks: before the first chapter, and in the
/// chapters that have tasks.
pub(super) fn report_around(
    draft: &mut PlanDraft,
    outline: &Outline<'_>,
    selection: &TaskSelection,
) {
    let with_tasks: BTreeSet<usize> =
        selection.tasks.iter().flat_map(|task| outline.ancestors(task.section)).collect();
    let mut read = lines_read(outline, selection);
    for (at, section) in outline.sections.iter().enumerate() {
        if outline.ancestors(at).iter().any(|at| has_other_labels(outline, *at)) {
            continue;
        }
        let is_head = at == 0 || at == 1 && section.level == 1;
        let is_beside = is_head || with_tasks.contains(&at);
        let lines: Vec<Line<'_>> = outline.lines_of(section.body..section.range.end).collect();
        let labelled = read_labels(lines.iter().copied());
        for line in &lines {
            // A line below a label of criteria is a criterion, whatever it begins with.
            let is_criterion = labelled.label_at(line.number) == Some(Label::Acceptance);
            if is_criterion && parse_label(line.text).is_none() {
                read.insert(line.number);
            }
        }
        for (line, words, MeantLabel { form, refused }) in labels(&lines, &read, Owner::Plan) {
            let is_refused = match refused {
                RefusedWhere::Everywhere => true,
                RefusedWhere::BesideTasks => is_beside,
                RefusedWhere::Nowhere => false,
            };
            if !is_refused {
                draft.add_warning(Some(line), for_worker(&words, form));
                continue;
            }
            let message = format!(
                "`{words}` beside the tasks of a Markdown plan is not read; write {form} in a native plan (`ledger \
                 help plan-file`), or a sentence without this label"
            );
            draft.add_problem(Some(line), message);
        }
    }
}

/// The lines of the tasks and of the front matter.
pub(super) fn lines_read(outline: &Outline<'_>, selection: &TaskSelection) -> BTreeSet<u64> {
    let tasks = selection.tasks.iter().map(|task| task.range.clone());
    let ranges = tasks.chain(outline.front_matter.as_ref().map(|front| front.range.clone()));
    ranges.flat_map(|range| outline.lines_of(range)).map(|line| line.number).collect()
}

/// The message about a label that may be meant for the worker.
fn for_worker(words: &str, form: &str) -> String {
    format!(
        "`{words}` is a text for the worker here, and has no effect; in a native plan, write {form}"
    )
}

/// Whether the lines of a section are criteria, risks or questions, whatever they begin with.
fn has_other_labels(outline: &Outline<'_>, at: usize) -> bool {
    outline.sections.get(at).is_some_and(|section| {
        let title = normalized_title(&section.title);
        is_acceptance_title(&title) || title.contains("risk") || title.contains("question")
    })
}

/// The labels of some lines that must be read, each with its line and words, but for the lines that are read.
fn labels(
    lines: &[Line<'_>],
    read: &BTreeSet<u64>,
    owner: Owner,
) -> Vec<(u64, String, MeantLabel)> {
    let mut found = Vec::new();
    for (at, Line { number, text: line, kind }) in lines.iter().enumerate() {
        let text = line.trim();
        let is_box = strip_checkbox(strip_marker(text)).0.is_some();
        let is_other = *kind != LineKind::Text || text.starts_with(['>', '|']);
        if is_box || is_other || read.contains(number) {
            continue;
        }
        let Some((words, text)) = label_words(line) else { continue };
        let below = below(lines.get(at.saturating_add(1)..).unwrap_or_default(), line);
        let text = if text.is_empty() { below } else { text.to_owned() };
        if let Some(meant) = meant_label(words, &text, owner) {
            found.push((*number, words.trim().to_owned(), meant));
        }
    }
    found
}

/// The text of the lines below a label that are indented deeper.
fn below(lines: &[Line<'_>], label: &str) -> String {
    let indent = |line: &str| line.len().saturating_sub(line.trim_start().len());
    let deeper = lines.iter().take_while(|line| indent(line.text) > indent(label));
    let texts: Vec<&str> = deeper.map(|line| strip_marker(line.text.trim())).collect();
    texts.join(" ").trim().to_owned()
}
