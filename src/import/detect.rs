//! Which form a text has, told from what stands in it.
//!
//! - Text that begins with `{` or `[` is JSON, or JSON Lines. A list `steps` is ours, unless its
//!   steps say only what other tools say; then come the files of tools, each known by its fields;
//!   then any list of objects that have an id or a title.
//! - Other text is Markdown if it has a heading, a box or a numbered item, and does not set a
//!   field of a plan at the start of a line; else it is YAML, if a line begins as a field does.

use serde_json::Value;

use super::draft::Draft;
use super::own::{self, Read};
use super::{Imported, bad_plan, beads, markdown, records, taskmaster};

/// The forms that are known, for somebody whose file has none of them.
const KNOWN: &str = "expected our own form (`steps`; as JSON, YAML or Markdown), task-master \
                     (`tasks`), Ralph (`userStories`), beads (JSON Lines of issues), a JSON list \
                     of tasks that have ids or titles, or Markdown with tasks: boxes `- [ ]`, \
                     numbered items, or headings `Step 1`";

/// The plan of a text, as it is written.
pub(super) fn draft(name: &str, text: &str, tag: Option<&str>) -> Read<Draft> {
    let draft = match text.trim_start().chars().next() {
        Some('{' | '[') => return json(name, text, tag),
        _ if markdown::is_ours(text) => markdown::own(name, text)?,
        _ if markdown::is_markdown(text) => markdown::import(name, text)
            .ok_or_else(|| bad_plan(format!("no task was found in this Markdown: {KNOWN}")))?,
        _ if has_fields(text) => own::yaml_draft(text)?,
        _ => {
            let found = "line 1, column 1: expected fields, found text that is no plan";
            return Err(bad_plan(format!("{found}: {KNOWN}")).into());
        }
    };
    untagged(tag, draft)
}

/// JSON is read twice: for its shape, then strictly, because only then do errors have a place.
fn json(name: &str, text: &str, tag: Option<&str>) -> Read<Draft> {
    let value = match own::json_value(text) {
        Ok(value) => value,
        Err(refusal) => {
            let Some(lines) = beads::lines(text) else { return Err(refusal) };
            let lines = lines?;
            if lines.iter().any(|(_, value)| beads::is_issue(value)) {
                return untagged(tag, beads::import(name, &lines));
            }
            let values = lines.into_iter().map(|(_, value)| value).collect();
            let found = records::import(name, &Value::Array(values));
            return found.map_or(Err(refusal), |draft| untagged(tag, draft));
        }
    };
    if own::is_ours(&value) {
        return untagged(tag, own::json_draft(text, &value)?);
    }
    if let Some(issues) = beads::issues(&value, text) {
        return untagged(tag, beads::import(name, &issues));
    }
    if taskmaster::is_ours(&value) && !records::is_of_another_tool(&value) {
        return taskmaster::import(name, &value, tag);
    }
    if let Some(draft) = records::import(name, &value) {
        return untagged(tag, draft);
    }
    if own::is_meant(&value) {
        return untagged(tag, own::json_draft(text, &value)?);
    }
    Err(bad_plan(format!("the JSON is no plan: {KNOWN}")).into())
}

/// Whether a line begins as a field of YAML does: a text without any was hardly meant to be ours.
fn has_fields(text: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || "_-'\"".contains(c);
    text.lines().filter_map(|line| line.split_once(':')).any(|(before, after)| {
        before.trim_start_matches([' ', '-', '{', '[']).trim_end().chars().all(is_name)
            && (after.is_empty() || after.starts_with([' ', '\t']))
    })
}

fn untagged(tag: Option<&str>, draft: Draft) -> Read<Draft> {
    match (tag, &draft.imported) {
        (None, _) => Ok(draft),
        (Some(tag), Imported { format, .. }) => Err(bad_plan(format!(
            "tag `{tag}` was asked for, but a {format} has no tags; leave the tag out"
        ))
        .into()),
    }
}
