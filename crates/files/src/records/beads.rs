//! Recognizes the `issues.jsonl` of beads: one issue per line, or a JSON list of issues.

use serde_json::{Value, json};

use super::mapping::BEADS;
use super::values::value_of;
use crate::diagnostic::{ReadError, ReadResult};
use crate::draft::PlanDraft;
use crate::read_report::PartKind;
use crate::syntax::{Kind, Node, json_tree_at};

/// Parses JSON Lines, each with its line number. `None` if the first line is not a JSON object; an
/// error if a later line is not.
pub(crate) fn json_lines(text: &str) -> Option<ReadResult<Vec<(u64, Value)>>> {
    let mut values = Vec::new();
    for (line, content) in (1_u64..).zip(text.lines()) {
        if content.trim().is_empty() {
            continue;
        }
        match json_tree_at(content, line) {
            Ok(tree) if matches!(tree.kind, Kind::Map(_)) => values.push((line, value_of(&tree))),
            Err(error) if error.is_name_twice() => return Some(Err(error)),
            Ok(_) | Err(_) if values.is_empty() => return None,
            Ok(_) => {
                let text = "expected an issue: one JSON object on each line";
                return Some(Err(ReadError::at(line, 1, text)));
            }
            Err(error) => return Some(Err(error)),
        }
    }
    Some(Ok(values))
}

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

/// The issues of a JSON value, each with its line: a list of issues, or one issue.
pub(super) fn issues(value: &Value, tree: &Node) -> Option<Vec<(u64, Value)>> {
    match value {
        Value::Array(items) if items.iter().any(is_issue) && items.iter().all(Value::is_object) => {
            let places = if let Kind::List(nodes) = &tree.kind { nodes.as_slice() } else { &[] };
            let items = places.iter().zip(items);
            Some(items.map(|(node, item)| (node.place.line, item.clone())).collect())
        }
        value if is_issue(value) => Some(vec![(1, value.clone())]),
        _ => None,
    }
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
