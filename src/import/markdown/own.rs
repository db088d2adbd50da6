//! Our own form of a plan in Markdown: what [`crate::import::written`] writes, read line by line.
//!
//! Invariants: what was written reads as the same plan with the same marks, byte for byte; what a
//! person changes in the lines counts, and a line that means nothing is a problem, not lost.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::import::PlanFormat;
use crate::import::draft::{Draft, Origin, Places};
use crate::import::finding::{Finding, Refusal, Severity};
use crate::import::marks::{FIELD as MARKS, Marks};
use crate::import::own::Read;
use crate::import::write::markdown::{FIELDS, Kind, LISTS, TEXTS};
use crate::plan::{Plan, Step};

/// The first line.
pub(in crate::import) const MARK: &str = "<!-- ledger plan 1 -->";

/// Whether a text is in this form.
pub(in crate::import) fn is_ours(text: &str) -> bool {
    text.lines().find(|line| !line.trim().is_empty()).is_some_and(|line| line.trim() == MARK)
}

/// The plan of a text in this form.
pub(in crate::import) fn own(name: &str, text: &str) -> Read<Draft> {
    let mut reader = Reader::default();
    for (number, line) in (1_u64..).zip(text.split('\n')) {
        reader.line(number, line.strip_suffix('\r').unwrap_or(line));
    }
    if let Some(fence) = reader.fence.take() {
        reader.wrong(fence.line, "the block of JSON does not end: close it with ```");
    }
    reader.end_step();
    reader.draft(name)
}

/// A block of JSON that is being read.
struct Fence {
    line: u64,
    text: String,
}

/// A step that is being read.
struct OpenStep {
    line: u64,
    mark: char,
    fields: Map<String, Value>,
}

#[derive(Default)]
struct Reader {
    plan: Map<String, Value>,
    section: String,
    fence: Option<Fence>,
    step: Option<OpenStep>,
    /// Whether items of the criteria of the open step follow.
    is_criteria: bool,
    steps: Vec<OpenStep>,
    problems: Vec<Finding>,
}

impl Reader {
    fn wrong(&mut self, line: u64, message: &str) {
        self.problems.push(Finding::at(Severity::Problem, Some(line), message));
    }

    fn line(&mut self, number: u64, line: &str) {
        let inner = line.strip_prefix("  ");
        if let Some(mut fence) = self.fence.take() {
            let content = if self.step.is_some() { inner.unwrap_or(line) } else { line };
            if content.trim_end() == "```" {
                self.json(&fence);
            } else {
                fence.text.push_str(content);
                fence.text.push('\n');
                self.fence = Some(fence);
            }
        } else if line.trim().is_empty() || line.trim() == MARK {
            // Blank lines part what they stand between, and mean nothing.
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

    fn plan_line(&mut self, number: u64, line: &str) {
        if line.trim_end() == "```json" {
            self.fence = Some(Fence { line: number, text: String::new() });
            return;
        }
        let named = |table: &[(&'static str, &str)]| {
            table.iter().find(|(_, title)| *title == self.section).map(|(name, _)| *name)
        };
        let (text, list) = (named(TEXTS), named(LISTS));
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
                None => self.wrong(number, "expected a phase: - `id` Title"),
            },
            (None, None, Some(item)) if self.section == "Steps" => self.begin_step(number, item),
            _ => {
                let text = "this line means nothing here: a step begins with `- [ ]`, and what \
                            belongs to it is indented by two spaces";
                self.wrong(number, text);
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
            self.wrong(line, "expected a step with its box: - [ ] `id` Title");
            return;
        };
        let mut fields = Map::new();
        if let Some((id, title)) = named_item(rest) {
            fields.insert("id".to_owned(), json!(id));
            // No title here leaves it to the block of JSON.
            if !title.is_empty() {
                fields.insert("title".to_owned(), json!(title));
            }
        } else if !rest.trim().is_empty() {
            self.wrong(line, "expected the id of the step in backquotes: - [ ] `id` Title");
        }
        self.step = Some(OpenStep { line, mark: mark.to_ascii_lowercase(), fields });
    }

    fn end_step(&mut self) {
        self.is_criteria = false;
        self.steps.extend(self.step.take());
    }

    fn step_line(&mut self, number: u64, line: &str) {
        if line.trim_end() == "```json" {
            self.fence = Some(Fence { line: number, text: String::new() });
            return;
        }
        let is_criteria = std::mem::take(&mut self.is_criteria);
        let Some(step) = &mut self.step else { return };
        if line.starts_with('>') {
            add_text(&mut step.fields, "goal", quoted(line));
        } else if let Some(item) = line.strip_prefix("  - ").filter(|_| is_criteria) {
            push(&mut step.fields, "acceptance", criterion(item));
            self.is_criteria = true;
        } else if line.trim_end() == "- Acceptance:" {
            self.is_criteria = true;
        } else if let Some((name, value)) = line.strip_prefix("- ").and_then(field) {
            step.fields.insert(name.to_owned(), value);
        } else {
            let known: Vec<&str> = FIELDS.iter().map(|(_, label, _)| *label).collect();
            let text = format!(
                "this line means nothing in a step: expected `> ` and its goal, or one of {}, with \
                 names in backquotes, or a block of JSON",
                known.join(", ")
            );
            self.wrong(number, &text);
        }
    }

    /// A block of JSON has what the lines cannot say.
    fn json(&mut self, fence: &Fence) {
        match serde_json::from_str::<Map<String, Value>>(&fence.text) {
            Ok(fields) => {
                let target = self.step.as_mut().map_or(&mut self.plan, |step| &mut step.fields);
                for (name, value) in fields {
                    target.entry(name).or_insert(value);
                }
            }
            Err(error) => {
                let line = u64::try_from(error.line()).unwrap_or(0).saturating_add(fence.line);
                self.wrong(line, &format!("this JSON cannot be read: {error}"));
            }
        }
    }

    fn draft(mut self, name: &str) -> Read<Draft> {
        let marks = self.plan.remove(MARKS).unwrap_or_else(|| json!({}));
        let mut marks: Marks = self.typed(1, marks).unwrap_or_default();
        let mut steps: Vec<Step> = Vec::new();
        let mut origins = Vec::new();
        for OpenStep { line, mark, fields } in std::mem::take(&mut self.steps) {
            let Some(step) = self.typed::<Step>(line, Value::Object(fields)) else { continue };
            marked(&mut marks, &step.id, mark, &format!("{name}: line {line}: [{mark}]"));
            steps.push(step);
            origins.push(Origin::Line(line));
        }
        let plan = std::mem::take(&mut self.plan);
        let plan = self.typed::<Plan>(1, Value::Object(plan));
        match plan {
            Some(plan) if self.problems.is_empty() => {
                let imported = marks.onto(Plan { steps, ..plan }, PlanFormat::OwnMarkdown);
                Ok(Draft::own(imported, Places::Steps(origins)))
            }
            _ => Err(Refusal::Problems(self.problems)),
        }
    }

    fn typed<T: DeserializeOwned>(&mut self, line: u64, value: Value) -> Option<T> {
        match serde_json::from_value(value) {
            Ok(value) => Some(value),
            Err(error) => {
                self.wrong(line, &error.to_string());
                None
            }
        }
    }
}

/// The box counts: what it does not say any more is no mark.
fn marked(marks: &mut Marks, id: &str, mark: char, source: &str) {
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

/// A line of a quoted text; one that is not quoted counts as it is.
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

/// An id in backquotes, and the title behind it.
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

/// A field on one line.
fn field(line: &str) -> Option<(&'static str, Value)> {
    let (label, value) = line.split_once(": ")?;
    let (name, _, kind) = FIELDS.iter().find(|(_, each, _)| *each == label)?;
    let value = match kind {
        Kind::Number => json!(value.trim().parse::<i64>().ok()?),
        Kind::Name => {
            let names = names(value.trim())?;
            let [name] = names.as_slice() else { return None };
            json!(name)
        }
        Kind::Names => json!(names(value.trim())?),
    };
    Some((name, value))
}

/// Names in backquotes, with commas between them.
fn names(text: &str) -> Option<Vec<&str>> {
    let mut names = Vec::new();
    let mut rest = text;
    loop {
        let (name, behind) = rest.strip_prefix('`')?.split_once('`')?;
        names.push(name);
        if behind.is_empty() {
            return Some(names);
        }
        rest = behind.strip_prefix(',')?.trim_start();
    }
}
