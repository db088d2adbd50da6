//! Recognizes the issues of beads: one on each line of `issues.jsonl`, or a JSON list of them.

use serde_json::{Value, json};

use super::mapping::BEADS;
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
