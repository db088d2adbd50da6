//! The difference between two plans, as JSON and as text.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use plan_ledger::Run;
use plan_ledger::plan::{
    ChangedStep, ExecutedChange, FieldChange, PlanActivated, PlanDiff, WorkChange,
};

use crate::layout::Document;

/// The differences between two plans.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PlanDiffJson<'a> {
    /// The ids of steps that only the new plan has.
    added: &'a [String],
    /// The ids of barriers that were added, removed or changed.
    barriers: &'a [String],
    /// The steps that both plans have, with differences.
    changed: Vec<ChangedStepJson<'a>>,
    /// The differences in the commands, questions and costs of the plans: the commands come first.
    executes: &'a [ExecutedChange],
    /// Other fields of the plan that differ.
    fields: Vec<FieldChangeJson<'a>>,
    /// The ids of steps that only the old plan has.
    removed: &'a [String],
    /// A smallest set of steps that must move to turn the old order into the new one.
    reordered: &'a [String],
}

impl<'a> From<&'a PlanDiff> for PlanDiffJson<'a> {
    fn from(difference: &'a PlanDiff) -> Self {
        let PlanDiff { added, removed, changed, reordered, barriers, fields, executed } =
            difference;
        Self {
            added,
            barriers,
            changed: changed.iter().map(ChangedStepJson::from).collect(),
            executes: executed,
            fields: fields.iter().map(FieldChangeJson::from).collect(),
            removed,
            reordered,
        }
    }
}

/// A step that both plans have, with differences.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct ChangedStepJson<'a> {
    /// The fields that differ.
    fields: Vec<FieldChangeJson<'a>>,
    /// Its id.
    step: &'a str,
    /// Whether the work itself changed, so that earlier work is discarded.
    work: WorkWord,
}

impl<'a> From<&'a ChangedStep> for ChangedStepJson<'a> {
    fn from(step: &'a ChangedStep) -> Self {
        let fields = step.fields.iter().map(FieldChangeJson::from).collect();
        let work = match step.work {
            WorkChange::Unchanged => WorkWord::Same,
            WorkChange::Changed => WorkWord::Other,
        };
        Self { fields, step: &step.id, work }
    }
}

/// Whether the work of a step changed.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
enum WorkWord {
    /// The work is the same; only its time, manner or worker changed.
    Same,
    /// The work itself changed.
    Other,
}

/// A field that differs.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct FieldChangeJson<'a> {
    /// Whether the field was added, removed or changed.
    change: FieldChangeWord,
    /// The name of the field.
    field: &'a str,
    /// The new value: any JSON; null for the default.
    new: Option<&'a Value>,
    /// The old value: any JSON; null for the default.
    old: Option<&'a Value>,
}

impl<'a> From<&'a FieldChange> for FieldChangeJson<'a> {
    fn from(field: &'a FieldChange) -> Self {
        let FieldChange { name, old, new } = field;
        let (change, _) = change(field);
        Self { change, field: name, new: new.as_ref(), old: old.as_ref() }
    }
}

/// The differences between two plans, and the cost of the change for a run.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PlanDiffLine<'a> {
    /// The differences.
    #[serde(flatten)]
    pub differences: PlanDiffJson<'a>,
    /// The ids of the steps that the new plan would discard or redo in the run of the old plan;
    /// null for two files.
    pub redone: Option<Vec<String>>,
}

/// The ids of the steps that an activation discards or redoes.
#[must_use]
pub fn redone_steps(run: &Run, activated: &PlanActivated) -> Vec<String> {
    let PlanActivated { invalidated, removed, .. } = activated;
    let worked = removed.iter().filter(|number| {
        run.step(**number).is_some_and(|step| step.attempts > 0 || step.status.is_closed())
    });
    let ids = invalidated.iter().chain(worked).filter_map(|number| Some(run.step(*number)?.id()));
    ids.map(str::to_owned).collect()
}

/// One line about the work that a new version discards; empty if it discards none.
#[must_use]
pub fn redone_text(steps: &[String]) -> String {
    match steps {
        [] => String::new(),
        steps => format!("work that is discarded or done again: {}", steps.join(", ")),
    }
}

/// The change of a field.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
enum FieldChangeWord {
    /// Only the new plan has it.
    Added,
    /// Only the old plan has it.
    Removed,
    /// Both plans have it, with different values.
    Changed,
}

fn change(field: &FieldChange) -> (FieldChangeWord, &'static str) {
    match (&field.old, &field.new) {
        (None, _) => (FieldChangeWord::Added, "added"),
        (_, None) => (FieldChangeWord::Removed, "removed"),
        (Some(_), Some(_)) => (FieldChangeWord::Changed, "changed"),
    }
}

/// The differences in the executed commands, a summary of all differences, and the old and new
/// value of each field.
#[must_use]
pub fn plan_diff_text(difference: &PlanDiff) -> String {
    let mut lines = vec![difference.to_string()];
    lines.extend(difference.fields.iter().map(|field| field_text("plan", field)));
    for step in &difference.changed {
        lines.extend(step.fields.iter().map(|field| field_text(&step.id, field)));
    }
    lines.join("\n")
}

/// The same as a document.
#[must_use]
pub fn plan_diff_document(difference: &PlanDiff) -> Document {
    let mut document = Document::default();
    plan_diff_text(difference).lines().for_each(|line| document.line(line));
    document
}

fn field_text(owner: &str, field: &FieldChange) -> String {
    let value = |value: &Option<Value>| value.as_ref().map_or("nothing".to_owned(), shortened);
    let (old, new) = (value(&field.old), value(&field.new));
    format!("  {owner}.{} {}: {old} -> {new}", field.name, change(field).1)
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
