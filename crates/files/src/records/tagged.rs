//! The tags of a task-master file, each with a plan.

use serde_json::Value;

use crate::diagnostic::{ReadResult, plan_error};

/// The default tag of the tool.
const DEFAULT_TAG: &str = "master";

/// Whether a JSON value is a task-master file.
pub(crate) fn is_task_master(value: &Value) -> bool {
    !value.get("steps").is_some_and(Value::is_array)
        && (has_tasks(value) || tags(value).next().is_some())
}

pub(super) fn has_tasks(value: &Value) -> bool {
    value.get("tasks").is_some_and(Value::is_array)
}

/// The tags of a file, and of its object `tags`. The tags of the file come first.
fn tags(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let inner = value.get("tags").filter(|inner| inner.is_object());
    let objects = [Some(value), inner].into_iter().flatten();
    objects.filter_map(Value::as_object).flatten().filter(|(_, body)| has_tasks(body))
}

/// The path of the tasks of a tag.
pub(super) fn path_of_tasks(value: &Value, tag: &str) -> String {
    if value.get(tag).is_some_and(has_tasks) {
        return format!("{tag}.tasks");
    }
    format!("tags.{tag}.tasks")
}

/// The tags that are not read, with the number of their tasks.
pub(super) fn other_tags<'a>(value: &'a Value, read: &str) -> Vec<(&'a str, usize)> {
    let count = |body: &Value| body.get("tasks").and_then(Value::as_array).map_or(0, Vec::len);
    let others = tags(value).filter(|(name, _)| name.as_str() != read);
    others.map(|(name, body)| (name.as_str(), count(body))).collect()
}

/// The selected tag, if the file has tags, and the object with its tasks: the requested one, or
/// `master`, or the only one.
pub(super) fn select_tag<'a>(
    value: &'a Value,
    tag: Option<&str>,
) -> ReadResult<(Option<&'a str>, &'a Value)> {
    if has_tasks(value) {
        return match tag {
            None | Some(DEFAULT_TAG) => Ok((None, value)),
            Some(tag) => Err(plan_error(format!(
                "tag `{tag}` was requested, but the file has the older format without tags; omit \
                 the tag"
            ))
            .into()),
        };
    }
    let all: Vec<(&String, &Value)> = tags(value).collect();
    let found = match (tag, all.as_slice()) {
        (None, [only]) => Some(only),
        (wanted, all) => {
            all.iter().find(|(name, _)| name.as_str() == wanted.unwrap_or(DEFAULT_TAG))
        }
    };
    if let Some((name, body)) = found {
        return Ok((Some(name), body));
    }
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    Err(plan_error(format!(
        "the file has no tag `{}`; choose one of its tags: {}",
        tag.unwrap_or(DEFAULT_TAG),
        names.join(", ")
    ))
    .into())
}
