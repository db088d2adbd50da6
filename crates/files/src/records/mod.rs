//! Task records: the files of task-master, beads, Ralph and other tools, and any other list of
//! tasks in JSON, JSON Lines, YAML, TOML, comma-separated values or a table.
//!
//! Every form gives a tree, whose list of tasks is found by its content, or whose items are rows.
//! One reader takes the fields that it knows, in all of their spellings, and keeps the rest in
//! `extra`. A tool that differs is a row of [`mapping`]. Statuses are kept beside the plan.
//! `format/plan-files.md` has the complete mapping.

mod beads;
mod described_check;
mod field_names;
mod field_words;
mod header;
mod list_finder;
mod mapping;
mod must_read;
mod native_fields;
mod reader;
mod record_fields;
mod step_fields;
mod tagged;
mod values;

use serde_json::Value;

use super::diagnostic::ReadResult;
use super::draft::PlanDraft;
use super::plan_file::PlanFormat;
use super::syntax::Node;
use header::Header;
use mapping::Order;

pub(super) use must_read::{
    MeantLabel, Owner, RefusedWhere, is_gate_of_checks, meant_label, names_check_commands,
};
pub(super) use native_fields::problems_of_fields;
pub(super) use values::{status_nodes, value_of};

/// Whether a column or a field has the ids of tasks.
pub(super) fn is_id_name(name: &str) -> bool {
    field_names::IDS.iter().any(|id| record_fields::is_same_name(id, name))
}

/// Reads a tree that has a list of tasks; gives it back if it has none.
pub(super) fn parse(name: &str, tree: Node) -> Result<PlanDraft, Node> {
    let value = value_of(&tree);
    let found = list_finder::find(&value, false).map(|found| found.in_file_order(&tree));
    placed(found.map(|found| read(name, &value, found, None, None)), tree)
}

/// Reads a tree of JSON: the issues of beads, a task-master file, or another list of tasks.
pub(super) fn parse_json(
    name: &str,
    tree: Node,
    tag: Option<&str>,
) -> ReadResult<Result<PlanDraft, Node>> {
    let value = value_of(&tree);
    if beads::is_issues(&value) {
        let is_list = value.is_array();
        let issues = if is_list { tree } else { Node::list(vec![tree]) };
        return Ok(parse_rows(name, issues, Some(PlanFormat::Beads)));
    }
    if tagged::is_task_master(&value) && !list_finder::has_foreign_task_fields(&value) {
        let draft = parse_task_master(name, &value, tag)?;
        return Ok(placed(Some(draft), tree));
    }
    Ok(parse(name, tree))
}

/// Reads rows: lines of JSON Lines, rows of a table, elements, files of a folder. `format` is that of the file, if the
/// rows do not show it.
pub(super) fn parse_rows(
    name: &str,
    rows: Node,
    format: Option<PlanFormat>,
) -> Result<PlanDraft, Node> {
    let value = value_of(&rows);
    let has_issue = || value.as_array().into_iter().flatten().any(beads::is_issue);
    if format == Some(PlanFormat::Beads) || format.is_none() && has_issue() {
        return Ok(parse_beads(name, rows, value));
    }
    let found = list_finder::find(&value, true).filter(|found| found.path.is_empty());
    let draft = found.map(|found| read(name, &value, found, Some(&rows), format));
    placed(draft, rows)
}

/// A draft with the tree in which its places are; without a draft, the tree.
fn placed(draft: Option<PlanDraft>, tree: Node) -> Result<PlanDraft, Node> {
    match draft {
        Some(mut draft) => {
            draft.source.set_tree(tree);
            Ok(draft)
        }
        None => Err(tree),
    }
}

fn read(
    name: &str,
    value: &Value,
    found: list_finder::FoundList<'_>,
    rows: Option<&Node>,
    format: Option<PlanFormat>,
) -> PlanDraft {
    let records: Vec<Value> = found
        .records
        .iter()
        .take(mapping::SAMPLE)
        .map(|record| Value::Object(record.fields.as_ref().clone()))
        .collect();
    let mapping = mapping::of_records(&records.iter().collect::<Vec<_>>(), &found.key);
    let header = Header::read(value, &found, mapping);
    let mut draft = reader::read_tasks(name, mapping, found, rows);
    header.apply(&mut draft);
    if let (Some(format), Order::Field(_)) = (format, mapping.order) {
        draft.plan_file.format = format;
    }
    draft
}

/// Reads the issues of beads. Rows that are none are kept.
fn parse_beads(name: &str, rows: Node, value: Value) -> PlanDraft {
    let values = if let Value::Array(values) = value { values } else { Vec::new() };
    let is_issue = |value: &Value| {
        value.is_object() && (value.get("title").is_some() || beads::is_issue(value))
    };
    let (issues, others): (Vec<_>, Vec<_>) =
        rows.into_items().into_iter().zip(values).partition(|(_, value)| is_issue(value));
    let (nodes, values): (Vec<Node>, Vec<Value>) = issues.into_iter().unzip();
    let list = Value::Array(values);
    let found = list_finder::read_all(&list, true);
    let rows = Node::list(nodes);
    let mut draft = reader::read_tasks(name, &mapping::BEADS, found, Some(&rows));
    let others = others.into_iter().map(|(node, value)| (node.place.line, value));
    beads::keep_others(&mut draft, others.collect());
    draft.source.set_tree(rows);
    draft
}

/// Reads a task-master file: the plan of one tag.
fn parse_task_master(name: &str, value: &Value, tag: Option<&str>) -> ReadResult<PlanDraft> {
    let (tag, body) = tagged::select_tag(value, tag)?;
    let mapping = &mapping::TASK_MASTER;
    let empty = Value::Array(Vec::new());
    let tasks = body.get("tasks").unwrap_or(&empty);
    let place = tag.map_or_else(|| "tasks".to_owned(), |tag| tagged::path_of_tasks(value, tag));
    let found = list_finder::read_all_at(tasks, &place);
    let header = Header::read_task_master(value, body, tag, mapping);
    let mut draft = reader::read_tasks(name, mapping, found, None);
    header.apply(&mut draft);
    if let Some(tag) = tag {
        for (other, count) in tagged::other_tags(value, tag) {
            let message = format!(
                "the tag `{tag}` is read; `{other}` has {count} tasks: --plan-tag {other} reads it"
            );
            draft.add_note(None, message);
        }
    }
    Ok(draft)
}
