//! Writes a native plan in Markdown: a checklist for people, and JSON blocks for everything else.
//!
//! Invariant: a field is written as lines only if they read back as exactly the same value;
//! otherwise it goes to a JSON block. So any plan can be written.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::native::{
    HEADER, LIST_SECTIONS, MARKS_FIELD, Marks, STEP_FIELDS, TEXT_SECTIONS, ValueKind,
};
use crate::plan_file::PlanFile;

/// Renders a plan with its marks.
pub(super) fn render(plan_file: &PlanFile) -> String {
    let mut plan = object(serde_json::to_value(&plan_file.plan));
    let mut out = format!("{HEADER}\n");
    if let Some(title) = take_text(&mut plan, "title", line) {
        let _ = writeln!(out, "# {title}");
    }
    for (name, title) in TEXT_SECTIONS {
        if let Some(quote) = take_text(&mut plan, name, |value| quote(value, "")) {
            let _ = write!(out, "\n## {title}\n\n{quote}");
        }
    }
    if let Some(phases) = take_text(&mut plan, "phases", phases) {
        let _ = write!(out, "\n## Phases\n\n{phases}");
    }
    out.push_str("\n## Steps\n");
    plan.remove("steps");
    for step in &plan_file.plan.steps {
        let mark = match (plan_file.done.contains_key(&step.id), &plan_file.skipped) {
            (true, _) => 'x',
            (false, skipped) if skipped.contains_key(&step.id) => '-',
            (false, _) => ' ',
        };
        out.push_str(&step_text(object(serde_json::to_value(step)), mark));
    }
    for (name, title) in LIST_SECTIONS {
        if let Some(items) = take_text(&mut plan, name, |value| list(value, "")) {
            let _ = write!(out, "\n## {title}\n\n{items}");
        }
    }
    let marks = Marks::of(plan_file);
    if !marks.is_empty() {
        plan.insert(MARKS_FIELD.to_owned(), Value::Object(object(serde_json::to_value(marks))));
    }
    if !plan.is_empty() {
        let _ = write!(out, "\n## The rest\n\n{}", block(plan, ""));
    }
    out
}

/// The fields of a value that is always an object here.
fn object(value: serde_json::Result<Value>) -> Map<String, Value> {
    match value {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// Renders a field as lines and removes it from the fields, if lines can hold its value.
fn take_text(
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
    if let Some(id) = take_text(&mut fields, "id", name) {
        let _ = write!(out, " `{id}`");
        if let Some(title) = take_text(&mut fields, "title", line) {
            let _ = write!(out, " {title}");
        }
    }
    out.push('\n');
    out.push_str(&take_text(&mut fields, "goal", |value| quote(value, "  ")).unwrap_or_default());
    for (field, label, kind) in STEP_FIELDS {
        let text = take_text(&mut fields, field, |value| match kind {
            ValueKind::Name => Some(format!("`{}`", name(value)?)),
            ValueKind::Number => Some(value.as_i64()?.to_string()),
            ValueKind::Names => {
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
    if let Some(criteria) = take_text(&mut fields, "acceptance", |value| list(value, "    ")) {
        let _ = write!(out, "  - Acceptance:\n{criteria}");
    }
    if !fields.is_empty() {
        out.push_str(&block(fields, "  "));
    }
    out
}

/// A text that needs no escaping on one line.
fn line(value: &Value) -> Option<String> {
    let text = value.as_str()?;
    let is_line = !text.is_empty() && text.trim() == text && !text.contains(char::is_control);
    is_line.then(|| text.to_owned())
}

/// A text that needs no escaping in backquotes.
fn name(value: &Value) -> Option<String> {
    line(value).filter(|text| !text.contains('`'))
}

/// A text with `> ` before each line.
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

/// A list of texts or criteria.
fn list(value: &Value, indent: &str) -> Option<String> {
    let item = |item: &Value| {
        let text = match (item.get("text"), item.get("command"), item.get("cel")) {
            (Some(text), _, _) => text_criterion(text),
            (_, Some(command), _) => Some(format!("command: `{}`", name(command)?)),
            (_, _, Some(cel)) => Some(format!("cel: `{}`", name(cel)?)),
            _ => line(item),
        };
        Some(format!("{indent}- {}\n", text?))
    };
    value.as_array()?.iter().map(item).collect()
}

/// A text criterion, unless it would read back as a criterion of another type.
fn text_criterion(text: &Value) -> Option<String> {
    line(text).filter(|text| !["command: `", "cel: `"].iter().any(|kind| text.starts_with(kind)))
}

fn block(fields: Map<String, Value>, indent: &str) -> String {
    let json = format!("{:#}", Value::Object(fields));
    let lines: String = json.lines().map(|line| format!("{indent}{line}\n")).collect();
    format!("{indent}```json\n{lines}{indent}```\n")
}
