//! The difference between two plans, as JSON and as text.

use serde_json::{Value, json};

use plan_ledger::internals::plan::{FieldChange, PlanDiff, WorkChange};

/// The differences, as `format/cli-json.md` describes them.
pub(crate) fn plan_diff_json(difference: &PlanDiff) -> Value {
    let PlanDiff { added, removed, changed, reordered, barriers, fields } = difference;
    let changed = changed.iter().map(|step| {
        let work = match step.work {
            WorkChange::Unchanged => "same",
            WorkChange::Changed => "other",
        };
        json!({ "step": step.id, "work": work, "fields": fields_json(&step.fields) })
    });
    json!({
        "type": "diff", "added": added, "removed": removed, "changed": changed.collect::<Vec<_>>(),
        "reordered": reordered, "barriers": barriers, "fields": fields_json(fields),
    })
}

fn fields_json(fields: &[FieldChange]) -> Value {
    let field = |field: &FieldChange| {
        let FieldChange { name, old, new } = field;
        json!({ "field": name, "change": change_name(field), "old": old, "new": new })
    };
    fields.iter().map(field).collect()
}

fn change_name(field: &FieldChange) -> &'static str {
    match (&field.old, &field.new) {
        (None, _) => "added",
        (_, None) => "removed",
        (Some(_), Some(_)) => "changed",
    }
}

/// A summary of the differences, followed by the old and new value of each field.
pub(crate) fn plan_diff_text(difference: &PlanDiff) -> String {
    let mut lines = vec![difference.to_string()];
    lines.extend(difference.fields.iter().map(|field| field_text("plan", field)));
    for step in &difference.changed {
        lines.extend(step.fields.iter().map(|field| field_text(&step.id, field)));
    }
    lines.join("\n")
}

fn field_text(owner: &str, field: &FieldChange) -> String {
    let value = |value: &Option<Value>| value.as_ref().map_or("nothing".to_owned(), shortened);
    let (old, new) = (value(&field.old), value(&field.new));
    format!("  {owner}.{} {}: {old} -> {new}", field.name, change_name(field))
}

/// A value on one line, truncated if it is long.
fn shortened(value: &Value) -> String {
    const CHARS_MAX: usize = 60;
    let text = value.to_string();
    if text.chars().count() <= CHARS_MAX {
        return text;
    }
    let cut: String = text.chars().take(CHARS_MAX).collect();
    format!("{cut}...")
}
