//! Recognizes the issues of beads: one on each line of `issues.jsonl`, or a JSON list of them;
//! and those that are not work: gates, messages, agents, molecules, templates, deleted records.

use serde_json::{Map, Value, json};

use super::field_names::TAGS;
use super::mapping::{BEADS, Mapping};
use super::record_fields::field_in;
use crate::draft::PlanDraft;
use crate::read_report::PartKind;

/// Whether a value is an issue of beads.
pub(super) fn is_issue(value: &Value) -> bool {
    let has = |name: &str| value.get(name).is_some();
    let has_typed_dependency = || {
        let edges = value.get("dependencies").and_then(Value::as_array);
        edges.into_iter().flatten().any(|edge| {
            ["depends_on_id", "dependsOnId", "dep_type", "depType", "dependency_type"]
                .iter()
                .any(|name| edge.get(name).is_some())
        })
    };
    let is_tombstone = || {
        let status = value.get("status").and_then(Value::as_str);
        status.is_some_and(|status| status.eq_ignore_ascii_case("tombstone"))
            || value.get("deleted_at").is_some_and(Value::is_string)
    };
    has("id") && (has("issue_type") || has("issueType") || is_tombstone() || has_typed_dependency())
}

/// Whether a value is a list of issues, or one issue.
pub(super) fn is_issues(value: &Value) -> bool {
    let is_list =
        |items: &Vec<Value>| items.iter().any(is_issue) && items.iter().all(Value::is_object);
    value.as_array().map_or_else(|| is_issue(value), is_list)
}

/// Keeps the lines that are not issues as data of the plan.
pub(super) fn keep_others(draft: &mut PlanDraft, others: Vec<(u64, Value)>) {
    let Some((first, _)) = others.first() else { return };
    draft.add_unread(PartKind::Record, others.len(), "", Some(*first));
    let extra = &mut draft.plan_file.plan.extra;
    let kept = extra.entry(BEADS.extra.to_owned()).or_insert_with(|| json!({"others": []}));
    if let Some(list) = kept.get_mut("others").and_then(Value::as_array_mut) {
        list.extend(others.into_iter().map(|(_, value)| value));
    }
}

/// A record that is not work.
#[derive(Clone)]
pub(super) enum IdleRecord {
    /// An open gate, with the condition that it waits for.
    OpenGate(String),
    /// A message, an agent, a molecule.
    NoWork,
    /// A deleted record, a template, a closed gate.
    Other,
}

/// Whether a record is not work.
pub(super) fn idle_record(mapping: &Mapping, fields: &Map<String, Value>) -> Option<IdleRecord> {
    if mapping.idle_types.is_empty() {
        return None;
    }
    let word = |name: &str| field_in(fields, &[name]).and_then(Value::as_str).unwrap_or("");
    let status = word("status").to_ascii_lowercase();
    let is_deleted =
        status == "tombstone" || field_in(fields, &["deletedAt"]).is_some_and(Value::is_string);
    let is_template = field_in(fields, &["isTemplate"]).is_some_and(|flag| *flag == json!(true));
    let kind = word("issueType").to_ascii_lowercase();
    // The identity of an agent or of a rig has its type as a label.
    let labels = field_in(fields, TAGS).and_then(Value::as_array).into_iter().flatten();
    let labels = labels.filter_map(|label| label.as_str()?.strip_prefix("gt:"));
    let is_idle =
        std::iter::once(kind.as_str()).chain(labels).any(|kind| mapping.idle_types.contains(&kind));
    if kind == "gate" && !is_deleted && status != "closed" {
        return Some(IdleRecord::OpenGate(word("title").trim().to_owned()));
    }
    if is_deleted || is_template {
        return Some(IdleRecord::Other);
    }
    is_idle.then_some(if kind == "gate" { IdleRecord::Other } else { IdleRecord::NoWork })
}
