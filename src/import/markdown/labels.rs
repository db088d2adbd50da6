//! What a step of a Markdown plan says under a label: `**Tools**: rg, sed`, `Acceptance:` before
//! a list, or a heading `Depends on`.
//!
//! Invariant: each line goes to one label or to the notes, and no line is lost.

use std::collections::BTreeMap;

use super::document::{unboxed, unmarked};

/// What a label means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Label {
    Tools,
    Changes,
    Acceptance,
    After,
    Owner,
    Goal,
    Status,
}

/// The words that mean a label, without the plural's last letter.
fn meaning(words: &str) -> Option<Label> {
    let words = words.to_lowercase();
    Some(match words.trim() {
        "tool" | "tools" | "tools used" | "tools needed" => Label::Tools,
        "change" | "changes" | "file" | "files" | "files to modify" | "files to change"
        | "files to create" | "file changes" | "modifies" | "target files" | "files changed" => {
            Label::Changes
        }
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
        | "requires" | "prerequisites" => Label::After,
        "owner" | "agent" | "role" | "assignee" => Label::Owner,
        "goal" | "description" | "objective" | "what" => Label::Goal,
        "status" | "state" => Label::Status,
        _ => return None,
    })
}

/// Whether the title of a section is one of criteria for the whole plan.
pub(super) fn is_criteria(title: &str) -> bool {
    meaning(title) == Some(Label::Acceptance)
}

/// The label that a line begins with, and what follows it.
pub(super) fn label(line: &str) -> Option<(Label, &str)> {
    let line = unmarked(line.trim());
    if let Some(title) = line.strip_prefix("##") {
        let title = title.trim_start_matches('#').trim().trim_end_matches(':');
        return Some((meaning(title)?, ""));
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
    let words = words.trim_matches(marks).trim();
    Some((meaning(words)?, rest.trim_start_matches(marks).trim()))
}

/// What stands under the labels of a step.
#[derive(Debug, Default)]
pub(super) struct Digest {
    /// What stands under none, without the indentation that all of it has.
    pub(super) notes: String,
    values: BTreeMap<Label, Vec<Value>>,
    /// The lines under a label.
    lines: BTreeMap<u64, Label>,
}

/// One entry under a label.
#[derive(Debug)]
pub(super) struct Value {
    pub(super) line: u64,
    pub(super) text: String,
    /// Whether it stood on the line of the label, where several may stand.
    is_inline: bool,
}

impl Digest {
    pub(super) fn values(&self, label: Label) -> &[Value] {
        self.values.get(&label).map(Vec::as_slice).unwrap_or_default()
    }

    /// The label under which a line stands.
    pub(super) fn label_of(&self, line: u64) -> Option<Label> {
        self.lines.get(&line).copied()
    }

    /// The texts under a label.
    pub(super) fn texts(&self, label: Label) -> Vec<String> {
        self.values(label).iter().map(|value| value.text.clone()).collect()
    }

    /// Names under a label: several on its own line, or one on each line of a list.
    pub(super) fn names(&self, label: Label) -> Vec<(u64, String)> {
        let mut names = Vec::new();
        for Value { line, text, is_inline } in self.values(label) {
            let parts = if *is_inline { parts(text) } else { vec![text.clone()] };
            names.extend(parts.iter().map(|part| (*line, unquoted(part))));
        }
        names.retain(|(_, name)| {
            let word = name.to_lowercase();
            !["", "-", "none", "n/a", "nothing", "na"].contains(&word.as_str())
        });
        names
    }
}

impl Digest {
    /// Files under the label for changes, each with the words around it, if there are any: a path
    /// in backquotes stands for itself, and other text as it is.
    pub(super) fn paths(&self) -> Vec<(String, Option<String>)> {
        let mut paths = Vec::new();
        for value in self.values(Label::Changes) {
            let is_list = value.is_inline && !value.text.contains(" - ");
            for text in if is_list { parts(&value.text) } else { vec![value.text.clone()] } {
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

/// The parts of a text between commas, of which none stands in quotes or parentheses.
fn parts(text: &str) -> Vec<String> {
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

/// What stands in backquotes, if all of a text does, or it begins with it.
fn unquoted(text: &str) -> String {
    let text = text.trim().trim_end_matches('.');
    let inner = text.strip_prefix('`').and_then(|rest| rest.split('`').next());
    inner.unwrap_or(text).trim().to_owned()
}

/// Where the walk over the lines is.
struct Under {
    label: Label,
    indent: usize,
    /// Whether a list that is not deeper belongs to it.
    has_list: bool,
}

/// What stands under the labels of these lines.
pub(super) fn digest<'a>(lines: impl Iterator<Item = (u64, &'a str)>) -> Digest {
    let mut digest = Digest::default();
    let mut notes: Vec<&str> = Vec::new();
    let mut under: Option<Under> = None;
    let mut fence: Option<&str> = None;
    for (number, line) in lines {
        let content = line.trim();
        let mark = ["```", "~~~"].into_iter().find(|mark| content.starts_with(mark));
        if fence.is_some() || mark.is_some() {
            fence = match (fence, mark) {
                (Some(open), Some(mark)) if open == mark => None,
                (None, mark) => mark,
                (open, _) => open,
            };
            under = None;
            notes.push(line);
            continue;
        }
        let indent = line.len().saturating_sub(line.trim_start().len());
        let item = unmarked(content);
        let is_bullet = item.len() < content.len();
        if let Some((label, rest)) = label(content) {
            let has_list = rest.is_empty() && !is_bullet;
            under = Some(Under { label, indent, has_list });
            digest.lines.insert(number, label);
            let entry = digest.values.entry(label).or_default();
            if !rest.is_empty() {
                entry.push(Value { line: number, text: rest.to_owned(), is_inline: true });
            }
            continue;
        }
        if content.is_empty() {
            if under.is_none() {
                notes.push(line);
            }
            continue;
        }
        // A list goes on under its label; anything else that is not deeper ends it.
        let goes_on =
            under.as_ref().filter(|under| indent > under.indent || (is_bullet && under.has_list));
        let Some(Under { label, .. }) = goes_on else {
            under = None;
            notes.push(line);
            continue;
        };
        digest.lines.insert(number, *label);
        let entry = digest.values.entry(*label).or_default();
        match entry.last_mut() {
            Some(last) if !is_bullet => {
                last.text.push(' ');
                last.text.push_str(content);
            }
            _ => {
                let text = unboxed(item).1.trim().to_owned();
                entry.push(Value { line: number, text, is_inline: false });
            }
        }
    }
    digest.notes = dedented(&notes);
    digest
}

/// Lines without the white space that all of them begin with, and without blank ones around them.
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
    //! Goal: labels are known in each of their forms, and prose is none.

    use super::*;

    #[test]
    fn labels_have_many_forms() {
        for line in ["Tools: rg", "**Tools**: rg", "**Tools:** rg", "- *Tools*: rg", "1. Tools: rg"]
        {
            assert_eq!(label(line), Some((Label::Tools, "rg")), "{line}");
        }
        assert_eq!(label("#### Acceptance Criteria"), Some((Label::Acceptance, "")));
        assert_eq!(label("**Verification**"), Some((Label::Acceptance, "")));
        for line in ["Tools are good", "Note: tools", "**Tools** are good", "http://x"] {
            assert_eq!(label(line), None, "{line}");
        }
    }

    #[test]
    fn a_list_goes_on_under_its_label_until_something_else_begins() {
        let text = "It is so.\n- Tools: `rg`, sed (in place, fast)\n- a note\n**Acceptance**:\n\n- [ ] one\n  \
                    goes on\n- two\n\nMore.\n```\nTools: none\n```";
        let digest = digest((1_u64..).zip(text.lines()));
        let names: Vec<String> =
            digest.names(Label::Tools).into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["rg", "sed (in place, fast)"]);
        assert_eq!(digest.texts(Label::Acceptance), ["one goes on", "two"]);
        assert_eq!(digest.notes, "It is so.\n- a note\nMore.\n```\nTools: none\n```");
        assert_eq!(digest.label_of(8), Some(Label::Acceptance));
    }
}
