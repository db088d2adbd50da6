//! Task records: the files of task-master, beads, Ralph and other tools, and any other list of
//! tasks in JSON, JSON Lines, YAML, TOML, comma-separated values or a table.
//!
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

pub(super) use beads::json_lines;
pub(super) use list_finder::has_foreign_task_fields;
pub(super) use must_read::{MeantLabel, Owner, RefusedWhere, meant_label};
pub(super) use native_fields::problems_of_fields;
pub(super) use tagged::is_task_master;
pub(super) use values::value_of;

/// Reads a value that has a list of tasks, as text of a JSON file or of another form.
pub(super) fn parse(name: &str, value: &Value) -> Option<PlanDraft> {
    let found = list_finder::find(value, false)?;
    Some(read(name, value, found, None, None))
}

/// Reads a list of tasks with a line for each entry. `format` is that of the file, if the records
/// do not show it.
pub(super) fn parse_lines(
    name: &str,
    lines: Vec<(u64, Value)>,
    format: Option<PlanFormat>,
) -> Option<PlanDraft> {
    let (lines, values): (Vec<u64>, Vec<Value>) = lines.into_iter().unzip();
    let value = Value::Array(values);
    let found = list_finder::find(&value, true).filter(|found| found.path.is_empty())?;
    Some(read(name, &value, found, Some(&lines), format))
}

fn read(
    name: &str,
    value: &Value,
    found: list_finder::FoundList<'_>,
    lines: Option<&[u64]>,
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
    let mut draft = reader::read_tasks(name, mapping, found, lines);
    header.apply(&mut draft);
    if let (Some(format), Order::Field(_)) = (format, mapping.order) {
        draft.plan_file.format = format;
    }
    draft
}

/// Reads the issues of beads, each with its line.
pub(super) fn parse_beads(name: &str, issues: Vec<(u64, Value)>) -> PlanDraft {
    let (mut lines, mut values, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for (line, value) in issues {
        if value.is_object() && (value.get("title").is_some() || beads::is_issue(&value)) {
            lines.push(line);
            values.push(value);
        } else {
            others.push((line, value));
        }
    }
    let list = Value::Array(values);
    let found = list_finder::read_all(&list, true);
    let mut draft = reader::read_tasks(name, &mapping::BEADS, found, Some(&lines));
    beads::keep_others(&mut draft, others);
    draft
}

/// The issues of beads in a JSON value, each with its line.
pub(super) fn beads_issues(value: &Value, tree: &Node) -> Option<Vec<(u64, Value)>> {
    beads::issues(value, tree)
}

/// Whether a line of JSON Lines is an issue of beads.
pub(super) fn is_beads_issue(value: &Value) -> bool {
    beads::is_issue(value)
}

/// Reads a task-master file: the plan of one tag.
pub(super) fn parse_task_master(
    name: &str,
    value: &Value,
    tag: Option<&str>,
) -> ReadResult<PlanDraft> {
    let (tag, body) = tagged::select_tag(value, tag)?;
    let mapping = &mapping::TASK_MASTER;
    let empty = Value::Array(Vec::new());
    let tasks = body.get("tasks").unwrap_or(&empty);
    let place = tag.map_or_else(|| "tasks".to_owned(), |tag| format!("{tag}.tasks"));
    let found = list_finder::read_all_at(tasks, &place);
    let header = Header::read_task_master(value, body, tag, mapping);
    let mut draft = reader::read_tasks(name, mapping, found, None);
    header.apply(&mut draft);
    Ok(draft)
}
