//! Parses a native plan in Markdown line by line, as [`crate::render`] writes it.
//!
//! Invariants: rendered text reads back as the same plan with the same marks, byte for byte. Edits
//! to the lines take effect, and a line that is not understood is reported, not dropped.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::markdown_layout::{HEADER, LIST_SECTIONS, STEP_FIELDS, TEXT_SECTIONS, ValueKind};
use super::marks::{MARKS_FIELD, Marks};
use crate::diagnostic::{Diagnostic, ReadError, ReadResult, Severity};
use crate::draft::{PlanDraft, Source, StepSource};
use crate::plan_file::PlanFormat;
use crate::syntax::{Node, Place, plain_message, typed};
use plan_ledger::plan::{Plan, Step};

/// Whether a text begins with the header of a native plan.
pub(crate) fn is_native_markdown(text: &str) -> bool {
    text.lines().find(|line| !line.trim().is_empty()).is_some_and(|line| line.trim() == HEADER)
}

/// Parses a native plan in Markdown.
pub(crate) fn parse_markdown(name: &str, text: &str) -> ReadResult<PlanDraft> {
    let mut parser = Parser::default();
    for (number, line) in (1_u64..).zip(text.split('\n')) {
        parser.line(number, line.strip_suffix('\r').unwrap_or(line));
    }
    if let Some(block) = parser.json_block.take() {
        parser.problem(block.line, "the JSON block does not end; close it with ```");
    }
    parser.end_step();
    parser.into_draft(name)
}

/// An open JSON block.
struct JsonBlock {
    line: u64,
    text: String,
}

/// A step during the reading of its lines.
struct OpenStep {
    line: u64,
    mark: char,
    fields: Map<String, Value>,
}

#[derive(Default)]
struct Parser {
    plan: Map<String, Value>,
    section: String,
    json_block: Option<JsonBlock>,
    step: Option<OpenStep>,
    /// Whether the next items are acceptance criteria of the open step.
    in_criteria: bool,
    steps: Vec<OpenStep>,
    problems: Vec<Diagnostic>,
}

impl Parser {
    fn problem(&mut self, line: u64, message: &str) {
        self.problems.push(Diagnostic::at_line(Severity::Problem, Some(line), message));
    }

    fn line(&mut self, number: u64, line: &str) {
        let inner = line.strip_prefix("  ");
        if let Some(mut block) = self.json_block.take() {
            let content = if self.step.is_some() { inner.unwrap_or(line) } else { line };
            if content.trim_end() == "```" {
                self.add_json(&block);
            } else {
                block.text.push_str(content);
                block.text.push('\n');
                self.json_block = Some(block);
            }
        } else if line.trim().is_empty() || line.trim() == HEADER || self.is_comment(line) {
            // They have no meaning.
        } else if let Some(title) = line.strip_prefix("## ") {
            self.end_step();
            title.trim().clone_into(&mut self.section);
        } else if let Some(title) = line.strip_prefix("# ") {
            self.plan.insert("title".to_owned(), json!(title));
        } else if let (Some(inner), true) = (inner, self.step.is_some()) {
            self.step_line(number, inner);
        } else {
            self.plan_line(number, line);
        }
    }

    /// Whether a line is a comment: only before the first section, since texts may contain others.
    fn is_comment(&self, line: &str) -> bool {
        let is_before = self.section.is_empty() && self.step.is_none();
        is_before && line.starts_with("<!-- ") && line.trim_end().ends_with(" -->")
    }

    fn plan_line(&mut self, number: u64, line: &str) {
        if line.trim_end() == "```json" {
            self.json_block = Some(JsonBlock { line: number, text: String::new() });
            return;
        }
        let named = |table: &[(&'static str, &str)]| {
            table.iter().find(|(_, title)| *title == self.section).map(|(name, _)| *name)
        };
        let (text, list) = (named(TEXT_SECTIONS), named(LIST_SECTIONS));
        let item = line.strip_prefix("- ");
        match (text, list, item) {
            (Some(name), _, _) => add_text(&mut self.plan, name, quoted(line)),
            (_, Some("test_criteria"), Some(item)) => {
                push(&mut self.plan, "test_criteria", criterion(item));
            }
            (_, Some(name), Some(item)) => push(&mut self.plan, name, json!(item)),
            (None, None, Some(item)) if self.section == "Phases" => match named_item(item) {
                Some((id, title)) => {
                    push(&mut self.plan, "phases", json!({ "id": id, "title": title }));
                }
                None => self.problem(number, "expected a phase: - `id` Title"),
            },
            (None, None, Some(item)) if self.section == "Steps" => self.begin_step(number, item),
            _ => {
                let text = "unexpected line: a step begins with `- [ ]`, and its fields are \
                            indented by two spaces";
                self.problem(number, text);
            }
        }
    }

    fn begin_step(&mut self, line: u64, item: &str) {
        self.end_step();
        let marked = ["[ ]", "[x]", "[X]", "[-]"].iter().find_map(|mark| {
            let rest = item.strip_prefix(mark)?;
            let rest = rest.strip_prefix(' ').unwrap_or(rest);
            Some((mark.chars().nth(1).unwrap_or(' '), rest))
        });
        let Some((mark, rest)) = marked else {
            self.problem(line, "expected a step with a checkbox: - [ ] `id` Title");
            return;
        };
        let mut fields = Map::new();
        if let Some((id, title)) = named_item(rest) {
            fields.insert("id".to_owned(), json!(id));
            // Without a title here, the JSON block may have one.
            if !title.is_empty() {
                fields.insert("title".to_owned(), json!(title));
            }
        } else if !rest.trim().is_empty() {
            self.problem(line, "expected the id of the step in backquotes: - [ ] `id` Title");
        }
        self.step = Some(OpenStep { line, mark: mark.to_ascii_lowercase(), fields });
    }

    fn end_step(&mut self) {
        self.in_criteria = false;
        self.steps.extend(self.step.take());
    }

    fn step_line(&mut self, number: u64, line: &str) {
        if line.trim_end() == "```json" {
            self.json_block = Some(JsonBlock { line: number, text: String::new() });
            return;
        }
        let in_criteria = std::mem::take(&mut self.in_criteria);
        let Some(step) = &mut self.step else { return };
        if line.starts_with('>') {
            add_text(&mut step.fields, "goal", quoted(line));
        } else if let Some(item) = line.strip_prefix("  - ").filter(|_| in_criteria) {
            push(&mut step.fields, "acceptance", criterion(item));
            self.in_criteria = true;
        } else if line.trim_end() == "- Acceptance:" {
            self.in_criteria = true;
        } else if let Some((name, value)) = line.strip_prefix("- ").and_then(field) {
            step.fields.insert(name.to_owned(), value);
        } else {
            let known: Vec<&str> = STEP_FIELDS.iter().map(|(_, label, _)| *label).collect();
            let text = format!(
                "unexpected line in a step: expected `> ` and the goal, a JSON block, or one of these \
                 with names in backquotes: {}",
                known.join(", ")
            );
            self.problem(number, &text);
        }
    }

    /// Adds the fields of a JSON block. Fields from lines take precedence.
    fn add_json(&mut self, block: &JsonBlock) {
        match serde_json::from_str::<Map<String, Value>>(&block.text) {
            Ok(fields) => {
                let target = self.step.as_mut().map_or(&mut self.plan, |step| &mut step.fields);
                for (name, value) in fields {
                    target.entry(name).or_insert(value);
                }
            }
            Err(error) => {
                let line = u64::try_from(error.line()).unwrap_or(0).saturating_add(block.line);
                self.problem(line, &format!("invalid JSON: {}", json_message(&error)));
            }
        }
    }

    fn into_draft(mut self, name: &str) -> ReadResult<PlanDraft> {
        let marks = self.plan.remove(MARKS_FIELD).unwrap_or_else(|| json!({}));
        let mut marks: Marks = self.typed(1, &marks).unwrap_or_default();
        let mut steps: Vec<Step> = Vec::new();
        let mut sources = Vec::new();
        for OpenStep { line, mark, fields } in std::mem::take(&mut self.steps) {
            let Some(step) = self.typed::<Step>(line, &Value::Object(fields)) else { continue };
            set_mark(&mut marks, &step.id, mark, &format!("{name}: line {line}: [{mark}]"));
            steps.push(step);
            sources.push(StepSource::Lines { first: line, last: line, status: None });
        }
        let plan = std::mem::take(&mut self.plan);
        let plan = self.typed::<Plan>(1, &Value::Object(plan));
        match plan {
            Some(plan) if self.problems.is_empty() => {
                let plan = Plan { steps, ..plan };
                let plan_file = marks.attach(plan, PlanFormat::NativeMarkdown);
                Ok(PlanDraft::complete(plan_file, Source::of_steps(sources)))
            }
            _ => Err(ReadError::Invalid(self.problems)),
        }
    }

    fn typed<T: DeserializeOwned>(&mut self, line: u64, value: &Value) -> Option<T> {
        match typed::<T>(&Node::of_value(value, Place { line, column: 1 })) {
            Ok(read) => Some(read),
            Err(error) => {
                let Diagnostic { place, message, .. } = error.diagnostic("");
                let path = if place.is_empty() { place } else { format!("{place}: ") };
                self.problem(line, &format!("{path}{message}"));
                None
            }
        }
    }
}

/// Replaces the mark of a step by the state of its checkbox.
fn set_mark(marks: &mut Marks, id: &str, mark: char, source: &str) {
    let keep = |list: &mut BTreeMap<String, String>, is_marked: bool| {
        if is_marked {
            list.entry(id.to_owned()).or_insert_with(|| source.to_owned());
        } else {
            list.remove(id);
        }
    };
    keep(&mut marks.done, mark == 'x');
    keep(&mut marks.skipped, mark == '-');
}

/// A line without the quote marker, if it has one.
fn quoted(line: &str) -> &str {
    match line.strip_prefix('>') {
        Some(rest) => rest.strip_prefix(' ').unwrap_or(rest),
        None => line,
    }
}

fn add_text(fields: &mut Map<String, Value>, name: &str, line: &str) {
    let text = match fields.get(name).and_then(Value::as_str) {
        Some(before) => format!("{before}\n{line}"),
        None => line.to_owned(),
    };
    fields.insert(name.to_owned(), Value::String(text));
}

fn push(fields: &mut Map<String, Value>, name: &str, value: Value) {
    let list = fields.entry(name).or_insert_with(|| json!([]));
    if let Some(list) = list.as_array_mut() {
        list.push(value);
    }
}

/// An id in backquotes and the title after it.
fn named_item(text: &str) -> Option<(&str, &str)> {
    let (id, rest) = text.strip_prefix('`')?.split_once('`')?;
    Some((id, rest.strip_prefix(' ').unwrap_or(rest)))
}

fn criterion(item: &str) -> Value {
    for kind in ["command", "cel"] {
        let body = item.strip_prefix(kind).and_then(|rest| rest.strip_prefix(": `"));
        if let Some(body) = body.and_then(|rest| rest.strip_suffix('`')) {
            return json!({ kind: body });
        }
    }
    json!({ "text": item })
}

/// A step field on one line.
fn field(line: &str) -> Option<(&'static str, Value)> {
    let (label, value) = line.split_once(": ")?;
    let (name, _, kind) = STEP_FIELDS.iter().find(|(_, each, _)| *each == label)?;
    let value = match kind {
        ValueKind::Number => json!(value.trim().parse::<i64>().ok()?),
        ValueKind::Name => {
            let names = names(value.trim())?;
            let [name] = names.as_slice() else { return None };
            json!(name)
        }
        ValueKind::Names => json!(names(value.trim())?),
    };
    Some((name, value))
}

/// Names in backquotes, separated by commas.
fn names(text: &str) -> Option<Vec<&str>> {
    let mut names = Vec::new();
    let mut rest = text;
    loop {
        let (name, after) = rest.strip_prefix('`')?.split_once('`')?;
        names.push(name);
        if after.is_empty() {
            return Some(names);
        }
        rest = after.strip_prefix(',')?.trim_start();
    }
}

/// The message of a JSON error without its place, which counts from the start of the block.
fn json_message(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    plain_message(message.strip_suffix(&place).unwrap_or(&message))
}
