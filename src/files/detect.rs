//! Detects the format of a plan from its content.
//!
//! - Text that begins with `{` or `[` is JSON or JSON Lines. A list `steps` is native, unless its
//!   steps have only fields of other tools. Next come the files of known tools, each recognized by
//!   its fields, and then any list of objects with an id or a title.
//! - Other text is Markdown if it has a heading, a checkbox or a numbered item, and no line that
//!   sets a field of a plan. The rest is YAML if at least one line begins like a field.

use serde_json::Value;

use super::diagnostic::{ReadResult, plan_error};
use super::draft::PlanDraft;
use super::records::{beads, task_list, task_master};
use super::syntax::json_value;
use super::{markdown, native};

/// The supported formats, for a message about a file in no known format.
const KNOWN_FORMATS: &str = "expected the native format (`steps`; as JSON, YAML or Markdown), \
                             task-master (`tasks`), Ralph (`userStories`), beads (JSON Lines of \
                             issues), a JSON list of tasks with ids or titles, or Markdown with \
                             tasks: checkboxes `- [ ]`, numbered items, or headings `Step 1`";

/// Parses a text in the format that its content shows.
pub(super) fn parse_draft(name: &str, text: &str, tag: Option<&str>) -> ReadResult<PlanDraft> {
    let draft = match text.trim_start().chars().next() {
        Some('{' | '[') => return parse_json(name, text, tag),
        _ if native::is_native_markdown(text) => native::parse_markdown(name, text)?,
        _ if markdown::is_markdown(text) => {
            let no_task =
                || plan_error(format!("no task was found in this Markdown: {KNOWN_FORMATS}"));
            markdown::parse(name, text).ok_or_else(no_task)?
        }
        _ if has_yaml_fields(text) => native::parse_yaml(text)?,
        _ => {
            let found = "line 1, column 1: expected fields, found other text";
            return Err(plan_error(format!("{found}: {KNOWN_FORMATS}")).into());
        }
    };
    reject_tag(tag, draft)
}

/// Parses JSON. The first pass finds the format; the second one is strict and gives each error a
/// line and a column.
fn parse_json(name: &str, text: &str, tag: Option<&str>) -> ReadResult<PlanDraft> {
    let value = match json_value(text) {
        Ok(value) => value,
        Err(error) => {
            let Some(lines) = beads::json_lines(text) else { return Err(error) };
            let lines = lines?;
            if lines.iter().any(|(_, value)| beads::is_issue(value)) {
                return reject_tag(tag, beads::parse(name, &lines));
            }
            let values = lines.into_iter().map(|(_, value)| value).collect();
            let draft = task_list::parse(name, &Value::Array(values));
            return draft.map_or(Err(error), |draft| reject_tag(tag, draft));
        }
    };
    if native::is_native(&value) {
        return reject_tag(tag, native::parse_json(text, &value)?);
    }
    if let Some(issues) = beads::issues(&value, text) {
        return reject_tag(tag, beads::parse(name, &issues));
    }
    if task_master::is_task_master(&value) && !task_list::has_foreign_task_fields(&value) {
        return task_master::parse(name, &value, tag);
    }
    if let Some(draft) = task_list::parse(name, &value) {
        return reject_tag(tag, draft);
    }
    if native::resembles_native(&value) {
        return reject_tag(tag, native::parse_json(text, &value)?);
    }
    Err(plan_error(format!("the JSON is not a plan: {KNOWN_FORMATS}")).into())
}

/// Whether any line begins like a YAML field. Text without one is not meant as a plan.
fn has_yaml_fields(text: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || "_-'\"".contains(c);
    text.lines().filter_map(|line| line.split_once(':')).any(|(before, after)| {
        before.trim_start_matches([' ', '-', '{', '[']).trim_end().chars().all(is_name)
            && (after.is_empty() || after.starts_with([' ', '\t']))
    })
}

/// Returns an error if a tag was requested from a format that has none.
fn reject_tag(tag: Option<&str>, draft: PlanDraft) -> ReadResult<PlanDraft> {
    let Some(tag) = tag else { return Ok(draft) };
    let format = draft.plan_file.format;
    let message = format!("tag `{tag}` was requested, but a {format} has no tags; omit the tag");
    Err(plan_error(message).into())
}
