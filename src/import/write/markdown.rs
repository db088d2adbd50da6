//! Our own form of a plan in Markdown: a list of boxes that people read and tick, and blocks of
//! JSON for what such lines cannot say.
//!
//! Invariant: a field stands in lines only where they read back as exactly that; else it is in
//! the block of JSON. So any plan can be written.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::import::Imported;
use crate::import::markdown::MARK;
use crate::import::marks::{FIELD as MARKS, Marks};

/// How a field stands on one line.
#[derive(Debug, Clone, Copy)]
pub(in crate::import) enum Kind {
    /// One name in backquotes.
    Name,
    /// Names in backquotes.
    Names,
    /// A whole number.
    Number,
}

/// Fields of a step that stand on one line each, in this order, with their labels.
pub(in crate::import) const FIELDS: &[(&str, &str, Kind)] = &[
    ("after", "After", Kind::Names),
    ("phase", "Phase", Kind::Name),
    ("owner", "Owner", Kind::Name),
    ("command", "Command", Kind::Name),
    ("inputs", "Inputs", Kind::Names),
    ("outputs", "Outputs", Kind::Names),
    ("condition", "Condition", Kind::Name),
    ("preconditions", "Preconditions", Kind::Names),
    ("tools", "Tools", Kind::Names),
    ("tags", "Tags", Kind::Names),
    ("changes", "Changes", Kind::Names),
    ("side_effects", "Side effects", Kind::Names),
    ("idempotent", "Idempotent", Kind::Name),
    ("priority", "Priority", Kind::Number),
    ("timeout_seconds", "Timeout seconds", Kind::Number),
];

/// Fields of a plan that are texts, with the titles of their sections.
pub(in crate::import) const TEXTS: &[(&str, &str)] =
    &[("outcome", "Outcome"), ("goal", "Goal"), ("context", "Context")];

/// Fields of a plan that are lists of lines, with the titles of their sections.
pub(in crate::import) const LISTS: &[(&str, &str)] =
    &[("test_criteria", "Test criteria"), ("risks", "Risks"), ("open_questions", "Open questions")];

/// A plan and its marks in this form.
pub(super) fn text(imported: &Imported) -> String {
    let mut plan = object(serde_json::to_value(&imported.plan));
    let mut out = format!("{MARK}\n");
    if let Some(title) = taken(&mut plan, "title", line) {
        let _ = writeln!(out, "# {title}");
    }
    for (name, title) in TEXTS {
        if let Some(quote) = taken(&mut plan, name, |value| quote(value, "")) {
            let _ = write!(out, "\n## {title}\n\n{quote}");
        }
    }
    if let Some(phases) = taken(&mut plan, "phases", phases) {
        let _ = write!(out, "\n## Phases\n\n{phases}");
    }
    out.push_str("\n## Steps\n");
    plan.remove("steps");
    for step in &imported.plan.steps {
        let mark = match (imported.done.contains_key(&step.id), &imported.skipped) {
            (true, _) => 'x',
            (false, skipped) if skipped.contains_key(&step.id) => '-',
            (false, _) => ' ',
        };
        out.push_str(&step_text(object(serde_json::to_value(step)), mark));
    }
    for (name, title) in LISTS {
        if let Some(items) = taken(&mut plan, name, |value| list(value, "")) {
            let _ = write!(out, "\n## {title}\n\n{items}");
        }
    }
    let marks = Marks::of(imported);
    if !marks.is_empty() {
        plan.insert(MARKS.to_owned(), Value::Object(object(serde_json::to_value(marks))));
    }
    if !plan.is_empty() {
        let _ = write!(out, "\n## The rest\n\n{}", block(plan, ""));
    }
    out
}

/// Data is always an object here.
fn object(value: serde_json::Result<Value>) -> Map<String, Value> {
    match value {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// A field as text, taken out, if lines can say it.
fn taken(
    fields: &mut Map<String, Value>,
    name: &str,
    text: impl Fn(&Value) -> Option<String>,
) -> Option<String> {
    let found = text(fields.get(name)?)?;
    fields.remove(name);
    Some(found)
}

fn step_text(mut fields: Map<String, Value>, mark: char) -> String {
    let mut out = format!("\n- [{mark}]");
    if let Some(id) = taken(&mut fields, "id", name) {
        let _ = write!(out, " `{id}`");
        if let Some(title) = taken(&mut fields, "title", line) {
            let _ = write!(out, " {title}");
        }
    }
    out.push('\n');
    out.push_str(&taken(&mut fields, "goal", |value| quote(value, "  ")).unwrap_or_default());
    for (field, label, kind) in FIELDS {
        let text = taken(&mut fields, field, |value| match kind {
            Kind::Name => Some(format!("`{}`", name(value)?)),
            Kind::Number => Some(value.as_i64()?.to_string()),
            Kind::Names => {
                let names = value.as_array()?.iter();
                let names: Option<Vec<String>> =
                    names.map(|value| Some(format!("`{}`", name(value)?))).collect();
                Some(names?.join(", ")).filter(|text| !text.is_empty())
            }
        });
        if let Some(text) = text {
            let _ = writeln!(out, "  - {label}: {text}");
        }
    }
    if let Some(criteria) = taken(&mut fields, "acceptance", |value| list(value, "    ")) {
        let _ = write!(out, "  - Acceptance:\n{criteria}");
    }
    if !fields.is_empty() {
        out.push_str(&block(fields, "  "));
    }
    out
}

/// A text that stands on one line as it is.
fn line(value: &Value) -> Option<String> {
    let text = value.as_str()?;
    let is_line = !text.is_empty() && text.trim() == text && !text.contains(char::is_control);
    is_line.then(|| text.to_owned())
}

/// A text that stands in backquotes as it is.
fn name(value: &Value) -> Option<String> {
    line(value).filter(|text| !text.contains('`'))
}

/// Any text, each of its lines behind a mark.
fn quote(value: &Value, indent: &str) -> Option<String> {
    let text = value.as_str().filter(|text| !text.contains('\r'))?;
    let line = |line: &str| match line {
        "" => format!("{indent}>\n"),
        line => format!("{indent}> {line}\n"),
    };
    Some(text.split('\n').map(line).collect())
}

fn phases(value: &Value) -> Option<String> {
    let phase = |phase: &Value| {
        let id = name(phase.get("id")?)?;
        match phase.get("title") {
            None => Some(format!("- `{id}`\n")),
            Some(title) => Some(format!("- `{id}` {}\n", line(title)?)),
        }
    };
    value.as_array()?.iter().map(phase).collect()
}

/// Lines, or criteria.
fn list(value: &Value, indent: &str) -> Option<String> {
    let item = |item: &Value| {
        let text = match (item.get("text"), item.get("command"), item.get("cel")) {
            (Some(text), _, _) => plain(text),
            (_, Some(command), _) => Some(format!("command: `{}`", name(command)?)),
            (_, _, Some(cel)) => Some(format!("cel: `{}`", name(cel)?)),
            _ => line(item),
        };
        Some(format!("{indent}- {}\n", text?))
    };
    value.as_array()?.iter().map(item).collect()
}

/// A criterion in words, which must not read as one of another kind.
fn plain(text: &Value) -> Option<String> {
    line(text).filter(|text| !["command: `", "cel: `"].iter().any(|kind| text.starts_with(kind)))
}

fn block(fields: Map<String, Value>, indent: &str) -> String {
    let json = format!("{:#}", Value::Object(fields));
    let lines: String = json.lines().map(|line| format!("{indent}{line}\n")).collect();
    format!("{indent}```json\n{lines}{indent}```\n")
}
