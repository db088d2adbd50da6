//! Labels of a task that name a gate, a command, a probe, a limit or a cap: `- Gate: ask Bob`. Markdown has no form for
//! them, and as a text they would hold nothing, so each is a problem with its line.
//!
//! Invariant: lines of code, checkboxes and lines below a label that is read are not looked at.

use std::collections::BTreeSet;

use super::code_fence::CodeFence;
use super::document::Document;
use super::labels::label_words;
use super::list_markers::{strip_checkbox, strip_marker};
use super::tasks::Task;
use crate::files::draft::PlanDraft;
use crate::files::records::form_of_label;

/// Reports the labels of a task and its subtasks that are not read.
pub(super) fn report(draft: &mut PlanDraft, document: &Document<'_>, task: &Task) {
    mutant!(LabelsOfChecksIgnored => return);
    let mut heads = BTreeSet::new();
    let mut labelled = BTreeSet::new();
    let mut rest = vec![task];
    while let Some(task) = rest.pop() {
        heads.insert(task.line);
        labelled.extend(task.labelled.lines());
        rest.extend(&task.subtasks);
    }
    let mut fence = CodeFence::default();
    let lines: Vec<(u64, &str)> = document.lines_of(task.range.clone()).collect();
    for (at, (number, line)) in lines.iter().enumerate() {
        let is_code = fence.contains(line.trim());
        let is_box = strip_checkbox(strip_marker(line.trim())).0.is_some();
        if is_code || is_box || heads.contains(number) || labelled.contains(number) {
            continue;
        }
        let Some((words, text)) = label_words(line) else { continue };
        let below = below(lines.get(at.saturating_add(1)..).unwrap_or_default(), line);
        let text = if text.is_empty() { below } else { text.to_owned() };
        if let Some(form) = form_of_label(words, &text).filter(|_| !text.is_empty()) {
            let label = words.trim();
            let message = format!(
                "`{label}` of a Markdown task is not read; write {form} in a native plan (`ledger help plan-file`), or \
                 a sentence without this label, for the worker"
            );
            draft.add_problem(Some(*number), message);
        }
    }
}

/// The text of the lines below a label that are indented deeper.
fn below(lines: &[(u64, &str)], label: &str) -> String {
    let indent = |line: &str| line.len().saturating_sub(line.trim_start().len());
    let deeper = lines.iter().take_while(|(_, line)| indent(line) > indent(label));
    let texts: Vec<&str> = deeper.map(|(_, line)| strip_marker(line.trim())).collect();
    texts.join(" ").trim().to_owned()
}
