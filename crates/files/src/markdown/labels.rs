//! Labelled fields of a step: `**Tools**: rg, sed`, `Acceptance:` before a list, or a heading
//! `Depends on`.
//!
//! Invariant: each line belongs to one label or to the notes, so no line is lost.

use std::collections::BTreeMap;
use std::ops::Range;

use super::list_markers::{Checkbox, Line, LineKind, strip_checkbox, strip_marker};
use crate::draft::{StepField, TaskStatus};
use crate::records::{is_gate_of_checks, names_check_commands};

/// The field that a label sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Label {
    Tools,
    Changes,
    Acceptance,
    After,
    Owner,
    Goal,
    Status,
    Priority,
    /// Criteria that are commands.
    Checks,
    /// A criterion that may be an expression.
    Success,
    /// A field that is written in words.
    Typed(StepField),
}

/// Parses the words of a label.
fn label_of_words(words: &str) -> Option<Label> {
    let words = words.to_lowercase();
    Some(match words.trim() {
        "tool" | "tools" | "tools used" | "tools needed" | "tools required" => Label::Tools,
        "change" | "changes" | "file" | "files" | "files to modify" | "files to change"
        | "files to create" | "file changes" | "modifies" | "target file" | "target files"
        | "files changed" => Label::Changes,
        "acceptance"
        | "acceptance criteria"
        | "acceptance criterion"
        | "criteria"
        | "done when"
        | "definition of done"
        | "success criteria"
        | "validation"
        | "verification"
        | "verify"
        | "test criteria"
        | "tests"
        | "test"
        | "expected"
        | "exit criteria" => Label::Acceptance,
        "depends on" | "depends" | "dependencies" | "dependency" | "after" | "blocked by"
        | "blocked-by" | "depends-on" | "requires" | "prerequisites" => Label::After,
        "owner" | "agent" | "role" | "assignee" => Label::Owner,
        "goal" | "description" | "objective" | "what" => Label::Goal,
        "status" | "state" => Label::Status,
        "priority" => Label::Priority,
        "success" | "success signal" => Label::Success,
        other if names_check_commands(other) => Label::Checks,
        other => {
            let other = other.replace(['_', '-'], " ");
            let is_named =
                |field: &StepField| field.is_label() && field.names().contains(&other.as_str());
            Label::Typed(StepField::ALL.into_iter().find(is_named)?)
        }
    })
}

/// Whether the title of a section is a label.
pub(super) fn is_label_title(title: &str) -> bool {
    label_of_words(title.trim_end_matches(':')).is_some()
}

/// Whether the title of a section names criteria, and nothing that could be work, as `Tests` does.
pub(super) fn is_criteria_title(title: &str) -> bool {
    let title = title.to_lowercase();
    is_acceptance_title(&title)
        && !["tests", "test", "validation", "verification", "verify", "expected"]
            .contains(&title.trim())
}

/// Whether the title of a section is a label for acceptance criteria.
pub(super) fn is_acceptance_title(title: &str) -> bool {
    label_of_words(title) == Some(Label::Acceptance)
}

/// Parses the label at the start of a line, and the text after it.
pub(super) fn parse_label(line: &str) -> Option<(Label, &str)> {
    let (words, rest) = label_words(line)?;
    let gate = || is_gate_of_checks(words, rest).then_some(Label::Acceptance);
    Some((label_of_words(words).or_else(gate)?, rest))
}

/// The place of the status in a line `Status: open`.
pub(crate) fn status_place(line: &str) -> Option<Range<usize>> {
    let (label, text) = parse_label(line)?;
    let is_status = label == Label::Status && TaskStatus::is_known(text);
    let start = line.trim_end().len().checked_sub(text.len()).filter(|_| is_status)?;
    (line.get(start..)?.trim_end() == text).then_some(start..start.saturating_add(text.len()))
}

/// Any words of a label at the start of a line, and the text after it.
pub(super) fn label_words(line: &str) -> Option<(&str, &str)> {
    let line = strip_marker(line.trim());
    if let Some(title) = line.strip_prefix("##") {
        let title = title.trim_start_matches('#').trim().trim_end_matches(':');
        return Some((title, ""));
    }
    let marks: &[char] = &['*', '_'];
    let start = line.trim_start_matches(marks);
    let (words, rest) = match (start.len() < line.len(), start.find("**"), start.find(':')) {
        // `**Label:** rest` and `**Label**: rest`, or a bold label alone on its line.
        (true, Some(end), _) => {
            let words = start.get(..end)?.trim();
            let rest = start.get(end..)?.trim_start_matches(marks).trim_start();
            let is_alone = words.ends_with(':') || rest.starts_with(':') || rest.is_empty();
            if !is_alone {
                return None;
            }
            (words.trim_end_matches(':'), rest.strip_prefix(':').unwrap_or(rest))
        }
        (_, _, Some(end)) => (start.get(..end)?, start.get(end.saturating_add(1)..)?),
        _ => return None,
    };
    // `a::b` and `https://a` are no labels.
    if rest.starts_with([':', '/']) {
        return None;
    }
    let words = words.trim_matches(marks).trim();
    Some((words, rest.trim_start_matches(marks).trim()))
}

/// The labelled fields of a step.
#[derive(Debug, Default)]
pub(super) struct LabelledText {
    /// The lines without a label, dedented.
    pub(super) notes: String,
    values: BTreeMap<Label, Vec<LabelValue>>,
    /// The label of each labelled line.
    lines: BTreeMap<u64, Label>,
}

/// One value under a label.
#[derive(Debug)]
pub(super) struct LabelValue {
    pub(super) line: u64,
    pub(super) text: String,
    /// Whether it is on the line of the label, where it may list several names.
    is_inline: bool,
    pub(super) checkbox: Option<Checkbox>,
}

impl LabelledText {
    pub(super) fn values(&self, label: Label) -> &[LabelValue] {
        self.values.get(&label).map(Vec::as_slice).unwrap_or_default()
    }

    /// The label that a line belongs to.
    pub(super) fn label_at(&self, line: u64) -> Option<Label> {
        self.lines.get(&line).copied()
    }

    /// The lines that belong to a label.
    pub(super) fn lines(&self) -> impl Iterator<Item = u64> {
        self.lines.keys().copied()
    }

    /// The values of the fields that are written in words.
    pub(super) fn typed(&self) -> impl Iterator<Item = (StepField, Vec<String>)> {
        self.values.iter().filter_map(|(label, values)| match label {
            Label::Typed(field) => {
                Some((*field, values.iter().map(|value| value.text.clone()).collect()))
            }
            _ => None,
        })
    }

    pub(super) fn texts(&self, label: Label) -> Vec<String> {
        self.values(label).iter().map(|value| value.text.clone()).collect()
    }

    /// The names under a label: several on the line of the label, or one per item of a list.
    pub(super) fn names(&self, label: Label) -> Vec<(u64, String)> {
        let mut names = Vec::new();
        for LabelValue { line, text, is_inline, .. } in self.values(label) {
            let parts = if *is_inline { split_list(text) } else { vec![text.clone()] };
            names.extend(parts.iter().map(|part| (*line, without_backquotes(part))));
        }
        names.retain(|(_, name)| {
            let word = name.to_lowercase();
            !["", "-", "none", "n/a", "nothing", "na"].contains(&word.as_str())
        });
        names
    }

    /// The paths under the label for changes, each with the text around it, if any. One path in
    /// backquotes is taken out of its text; otherwise the whole text is the path.
    pub(super) fn paths(&self) -> Vec<(String, Option<String>)> {
        let mut paths = Vec::new();
        for value in self.values(Label::Changes) {
            let is_list = value.is_inline && !value.text.contains(" - ");
            for text in if is_list { split_list(&value.text) } else { vec![value.text.clone()] } {
                let quoted: Vec<&str> = text.split('`').skip(1).step_by(2).collect();
                let words = text.replace('`', "");
                match quoted.as_slice() {
                    [path] if words.trim() != *path => {
                        paths.push(((*path).to_owned(), Some(format!("Changes: {text}"))));
                    }
                    _ => paths.push((words.trim().to_owned(), None)),
                }
            }
        }
        paths.retain(|(path, _)| !["", "-", "none"].contains(&path.as_str()));
        paths
    }
}

/// Splits a text at commas outside of backquotes and parentheses.
fn split_list(text: &str) -> Vec<String> {
    let (mut parts, mut part, mut depth, mut is_quoted) =
        (Vec::new(), String::new(), 0_usize, false);
    for char in text.chars() {
        match char {
            '`' => is_quoted = !is_quoted,
            '(' if !is_quoted => depth = depth.saturating_add(1),
            ')' if !is_quoted => depth = depth.saturating_sub(1),
            ',' | ';' if !is_quoted && depth == 0 => {
                parts.push(std::mem::take(&mut part));
                continue;
            }
            _ => {}
        }
        part.push(char);
    }
    parts.push(part);
    parts.iter().map(|part| part.trim().to_owned()).collect()
}

/// The name in backquotes at the start of a text, or else the whole text.
fn without_backquotes(text: &str) -> String {
    let text = text.trim().trim_end_matches('.');
    let inner = text.strip_prefix('`').and_then(|rest| rest.split('`').next());
    inner.unwrap_or(text).trim().to_owned()
}

/// The word that begins a line of a scenario: `**Given** an account`.
fn scenario_word(line: &str) -> Option<&'static str> {
    let line = line.trim_start_matches(['*', '_']).to_lowercase();
    ["given", "when", "then", "and", "but"].into_iter().find(|word| {
        let rest = line.strip_prefix(word);
        rest.is_some_and(|rest| rest.starts_with([' ', '*', '_', ':']))
    })
}

/// The label of the values that follow.
struct OpenLabel {
    label: Label,
    indent: usize,
    /// Whether a list that is not indented deeper belongs to the label.
    has_list: bool,
}

/// Reads the labelled fields of some lines.
pub(super) fn read_labels<'a>(lines: impl Iterator<Item = Line<'a>>) -> LabelledText {
    let mut labelled = LabelledText::default();
    let mut notes: Vec<&str> = Vec::new();
    let mut open: Option<OpenLabel> = None;
    for Line { number, text: line, kind } in lines {
        let content = line.trim();
        if kind == LineKind::Code {
            open = None;
            notes.push(line);
            continue;
        }
        let indent = line.len().saturating_sub(line.trim_start().len());
        let item = strip_marker(content);
        let is_bullet = item.len() < content.len();
        if let Some((label, rest)) = parse_label(content) {
            let has_list = rest.is_empty() && !is_bullet;
            open = Some(OpenLabel { label, indent, has_list });
            labelled.lines.insert(number, label);
            let entry = labelled.values.entry(label).or_default();
            if !rest.is_empty() {
                let text = rest.to_owned();
                entry.push(LabelValue { line: number, text, is_inline: true, checkbox: None });
            }
            continue;
        }
        if content.is_empty() {
            if open.is_none() {
                notes.push(line);
            }
            continue;
        }
        // Deeper lines, list items and lines of a scenario continue a label; any other line ends it.
        let scenario = scenario_word(content);
        let continued = open.as_ref().filter(|open| {
            let is_scenario = scenario.is_some() && open.label == Label::Acceptance;
            indent > open.indent || (open.has_list && (is_bullet || is_scenario))
        });
        let Some(OpenLabel { label, .. }) = continued else {
            open = None;
            notes.push(line);
            continue;
        };
        labelled.lines.insert(number, *label);
        let entry = labelled.values.entry(*label).or_default();
        match entry.last_mut() {
            Some(last) if !is_bullet && scenario != Some("given") => {
                last.text.push(' ');
                last.text.push_str(content);
            }
            _ => {
                let (checkbox, text) = strip_checkbox(item);
                let text = text.trim().to_owned();
                entry.push(LabelValue { line: number, text, is_inline: false, checkbox });
            }
        }
    }
    labelled.notes = dedented(&notes);
    labelled
}

/// Removes the common indentation, and blank lines at the start and end.
pub(super) fn dedented(lines: &[&str]) -> String {
    let filled = lines.iter().filter(|line| !line.trim().is_empty());
    let indent = |line: &&str| line.len().saturating_sub(line.trim_start_matches(' ').len());
    let common = filled.map(indent).min().unwrap_or(0);
    let lines: Vec<&str> =
        lines.iter().map(|line| line.get(common..).unwrap_or_default().trim_end()).collect();
    lines.join("\n").trim_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::outline::Outline;
    use super::*;

    #[test]
    fn labels_are_recognized_and_prose_is_not() {
        for line in ["Tools: rg", "**Tools**: rg", "**Tools:** rg", "- *Tools*: rg", "1. Tools: rg"]
        {
            assert_eq!(parse_label(line), Some((Label::Tools, "rg")), "{line}");
        }
        assert_eq!(parse_label("#### Acceptance Criteria"), Some((Label::Acceptance, "")));
        assert_eq!(parse_label("**Verification**"), Some((Label::Acceptance, "")));
        for line in ["Tools are good", "Note: tools", "**Tools** are good", "http://x"] {
            assert_eq!(parse_label(line), None, "{line}");
        }
    }

    #[test]
    fn list_continues_its_label_until_other_text() {
        let text = "It is so.\n- Tools: `rg`, sed (in place, fast)\n- a note\n**Acceptance**:\n\n- [ ] one\n  \
                    goes on\n- two\n\nMore.\n```\nTools: none\n```";
        let outline = Outline::parse(text).unwrap();
        let labelled = read_labels(outline.lines_of(0..text.len()));
        let names: Vec<String> =
            labelled.names(Label::Tools).into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["rg", "sed (in place, fast)"]);
        assert_eq!(labelled.texts(Label::Acceptance), ["one goes on", "two"]);
        assert_eq!(labelled.notes, "It is so.\n- a note\nMore.\n```\nTools: none\n```");
        assert_eq!(labelled.label_at(8), Some(Label::Acceptance));
    }
}
