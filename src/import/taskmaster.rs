//! The `tasks.json` of task-master: tasks and subtasks, in tags or, in older files, without.
//!
//! How it maps:
//! - A task is a step with its number as id; subtask 2 of task 1 is `1.2`. Subtasks come before
//!   their task, and tasks in the order of the file.
//! - A task waits for its subtasks, and its dependencies bind them too: a task is not begun
//!   before what it depends on, and its subtasks are parts of it.
//! - A subtask's dependency is a sibling if there is one of that number, else a task: the tool
//!   reads it so. `1.2` always is subtask 2 of task 1.
//! - Description and details are the goal; the test strategy is a `text` criterion. Priorities
//!   are 20 (critical), 10 (high), 0 (medium) and -10 (low).
//! - Fields that a plan has no place for are kept in `extra.taskmaster`.
//!
//! - The status, and what the tool writes when a status changes, stand beside the plan: its hash
//!   would move with every task that is done.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::draft::{Draft, Origin, kept};
use super::fields::{doubtful_id, name_text};
use super::finding::{Finding, Severity};
use super::own::Read;
use super::{PlanFormat, bad_plan};
use crate::plan::{Criterion, Extra, Step};

/// The tag that the tool uses when nobody says.
const DEFAULT_TAG: &str = "master";

/// The name of the tool's fields in `extra`.
const EXTRA: &str = "taskmaster";

/// Fields of a task that have a place of their own in a step, or are marks.
const MAPPED: [&str; 9] = [
    "id",
    "title",
    "description",
    "details",
    "testStrategy",
    "priority",
    "dependencies",
    "status",
    "subtasks",
];

/// Fields that the tool changes when work is done.
const VOLATILE: [&str; 5] =
    ["updated", "updatedAt", "lastModified", "completedAt", "completedCount"];

/// Whether a JSON value is a file of this tool.
pub(super) fn is_ours(value: &Value) -> bool {
    !value.get("steps").is_some_and(Value::is_array)
        && (has_tasks(value) || tags(value).next().is_some())
}

/// The plan of one tag: the one asked for, else `master`, else the only one.
pub(super) fn import(name: &str, value: &Value, tag: Option<&str>) -> Read<Draft> {
    let (tag, body) = chosen(value, tag)?;
    let mut problems = Vec::new();
    let place = tag.map_or_else(|| "tasks".to_owned(), |tag| format!("{tag}.tasks"));
    let tasks = tasks(body.get("tasks"), None, &place, &mut problems);
    let mut build = Build::new(name, &tasks);
    for task in &tasks {
        build.task(task, &[]);
    }
    let mut draft = build.draft;
    draft.problems = problems;
    draft.imported.plan.title = title(body, tag);
    draft.imported.plan.extra = plan_extra(value, body, tag);
    Ok(draft)
}

fn has_tasks(value: &Value) -> bool {
    value.get("tasks").is_some_and(Value::is_array)
}

fn tags(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten().filter(|(_, body)| has_tasks(body))
}

/// The tag, if the file has tags, and the object with its tasks.
fn chosen<'a>(value: &'a Value, tag: Option<&str>) -> Read<(Option<&'a str>, &'a Value)> {
    if has_tasks(value) {
        return match tag {
            None | Some(DEFAULT_TAG) => Ok((None, value)),
            Some(tag) => Err(bad_plan(format!(
                "tag `{tag}` was asked for, but the file is of the older form without tags; leave \
                 the tag out"
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
    Err(bad_plan(format!(
        "the file has no tag `{}`; choose one of its tags: {}",
        tag.unwrap_or(DEFAULT_TAG),
        names.join(", ")
    ))
    .into())
}

/// A task or subtask, as the file has it.
struct Task<'a> {
    /// Its full id: `3`, or `3.1`.
    id: String,
    place: String,
    fields: &'a Map<String, Value>,
    dependencies: Vec<String>,
    subtasks: Vec<Task<'a>>,
}

/// Reads a list of tasks; what is no task is a problem. It nests as deep as the JSON does, and
/// the reader of JSON bounds that.
fn tasks<'a>(
    list: Option<&'a Value>,
    parent: Option<&str>,
    place: &str,
    problems: &mut Vec<Finding>,
) -> Vec<Task<'a>> {
    let items = match list {
        None | Some(Value::Null) => return Vec::new(),
        Some(Value::Array(items)) => items,
        Some(_) => {
            problems.push(problem(place.to_owned(), "expected a list"));
            return Vec::new();
        }
    };
    let mut found = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let place = format!("{place}[{index}]");
        let Some(fields) = item.as_object() else {
            problems.push(problem(place, "expected a task: an object with an id"));
            continue;
        };
        let Some(id) = named(item.get("id"), format!("{place}.id"), problems) else { continue };
        let id = full_id(parent, &id);
        found.push((place, id, fields));
    }
    let read = |(place, id, fields): (String, String, &'a Map<String, Value>)| Task {
        dependencies: dependencies(fields, &place, problems),
        subtasks: tasks(fields.get("subtasks"), Some(&id), &format!("{place}.subtasks"), problems),
        place,
        id,
        fields,
    };
    found.into_iter().map(read).collect()
}

/// A subtask's id says its task's id first, whether the file does or not.
fn full_id(parent: Option<&str>, id: &str) -> String {
    match parent {
        None => id.to_owned(),
        Some(parent) if id.strip_prefix(parent).is_some_and(|rest| rest.starts_with('.')) => {
            id.to_owned()
        }
        Some(parent) => format!("{parent}.{id}"),
    }
}

fn problem(place: String, message: &str) -> Finding {
    Finding { severity: Severity::Problem, line: None, place, message: message.to_owned() }
}

/// An id that stands there, and what is to be said of it.
fn named(value: Option<&Value>, place: String, findings: &mut Vec<Finding>) -> Option<String> {
    let name = value.and_then(name_text);
    findings.extend(match name {
        None => Some(problem(place, "expected a number or a text")),
        Some(_) => value.and_then(|value| doubtful_id(value, place)),
    });
    name
}

fn dependencies(
    fields: &Map<String, Value>,
    place: &str,
    problems: &mut Vec<Finding>,
) -> Vec<String> {
    let place = format!("{place}.dependencies");
    let items = match fields.get("dependencies") {
        None | Some(Value::Null) => return Vec::new(),
        Some(Value::Array(items)) => items.as_slice(),
        Some(_) => {
            problems.push(problem(place, "expected a list"));
            return Vec::new();
        }
    };
    let mut names = Vec::new();
    for (index, item) in items.iter().enumerate() {
        names.extend(named(Some(item), format!("{place}[{index}]"), problems));
    }
    names
}

/// The plan as it grows.
struct Build<'a> {
    name: &'a str,
    known: BTreeSet<String>,
    draft: Draft,
}

impl<'a> Build<'a> {
    fn new(name: &'a str, tasks: &[Task<'_>]) -> Self {
        let mut known = BTreeSet::new();
        let mut rest: Vec<&Task<'_>> = tasks.iter().collect();
        while let Some(task) = rest.pop() {
            known.insert(task.id.clone());
            rest.extend(&task.subtasks);
        }
        Self { name, known, draft: Draft::new(PlanFormat::TaskMaster) }
    }

    /// Adds a task after its subtasks. `inherited` is what the tasks above it wait for.
    fn task(&mut self, task: &Task<'_>, inherited: &[String]) {
        let own = task.dependencies.iter().map(|name| self.resolved(&task.id, name));
        let after = unique(own.chain(inherited.iter().cloned()));
        // A task that waits for a part of itself says nothing that binds its parts.
        let part = format!("{}.", task.id);
        let binding: Vec<String> =
            after.iter().filter(|name| !name.starts_with(&part)).cloned().collect();
        for subtask in &task.subtasks {
            self.task(subtask, &binding);
        }
        let parts = task.subtasks.iter().map(|subtask| subtask.id.clone());
        let after = unique(after.into_iter().chain(parts));
        self.mark(&task.id, task.fields);
        let origin = Origin::Path { item: task.place.clone(), after: "dependencies" };
        self.draft.step(step(task, after), origin);
    }

    /// The full id of what a dependency names: the nearest relative of that name, else a task.
    fn resolved(&self, id: &str, name: &str) -> String {
        let mut scope = id;
        while let Some((outer, _)) = scope.rsplit_once('.') {
            let relative = format!("{outer}.{name}");
            if self.known.contains(&relative) {
                return relative;
            }
            scope = outer;
        }
        name.to_owned()
    }

    fn mark(&mut self, id: &str, fields: &Map<String, Value>) {
        let volatile: Map<String, Value> = fields
            .iter()
            .filter(|(name, _)| VOLATILE.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        if !volatile.is_empty() {
            self.draft.imported.progress.insert(id.to_owned(), kept(EXTRA, volatile));
        }
        if let Some(status) = fields.get("status").and_then(Value::as_str) {
            self.draft.status(id, status, format!("{}: status {status}", self.name));
        }
    }
}

fn unique(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    names.filter(|name| seen.insert(name.clone())).collect()
}

fn step(task: &Task<'_>, after: Vec<String>) -> Step {
    let text = |name: &str| task.fields.get(name).and_then(Value::as_str).unwrap_or("").trim();
    let goal: Vec<&str> = [text("description"), text("details")]
        .into_iter()
        .filter(|text| !text.is_empty())
        .collect();
    let strategy = Some(text("testStrategy")).filter(|text| !text.is_empty());
    Step {
        id: task.id.clone(),
        title: text("title").to_owned(),
        goal: goal.join("\n\n"),
        after,
        acceptance: strategy.map(|text| Criterion::Text(text.to_owned())).into_iter().collect(),
        priority: priority(task.fields.get("priority")).unwrap_or_default(),
        extra: extra(task.fields.iter().filter(|(name, value)| is_kept(name, value))),
        ..Step::default()
    }
}

fn priority(value: Option<&Value>) -> Option<i32> {
    match value?.as_str()?.to_ascii_lowercase().as_str() {
        "critical" => Some(20),
        "high" => Some(10),
        "medium" => Some(0),
        "low" => Some(-10),
        _ => None,
    }
}

/// Whether a task's field has no place in a step. A known field of an unknown kind has none.
fn is_kept(name: &str, value: &Value) -> bool {
    match name {
        "priority" => !value.is_null() && priority(Some(value)).is_none(),
        "title" | "description" | "details" | "testStrategy" | "status" => {
            !value.is_null() && !value.is_string()
        }
        _ => !MAPPED.contains(&name) && !VOLATILE.contains(&name),
    }
}

fn extra<'a>(fields: impl Iterator<Item = (&'a String, &'a Value)>) -> Extra {
    kept(EXTRA, fields.map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// The name of the project, else what the tag is for, else the tag.
fn title(body: &Value, tag: Option<&str>) -> String {
    let known = ["/metadata/projectName", "/meta/projectName", "/metadata/description"];
    let named = known.iter().find_map(|path| body.pointer(path)?.as_str());
    named.or(tag).unwrap_or_default().to_owned()
}

/// What the file says beyond its tasks: of the chosen tag, and of the file, if it is no tag.
fn plan_extra(file: &Value, body: &Value, tag: Option<&str>) -> Extra {
    let tag = tag.map(|tag| json!(tag));
    let of_file = file.as_object().into_iter().flatten().filter(|(_, value)| !has_tasks(value));
    let of_body = body.as_object().into_iter().flatten();
    let mut fields: Map<String, Value> = of_file
        .chain(of_body)
        .filter(|(name, _)| name.as_str() != "tasks" && !VOLATILE.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), steady(value)))
        .collect();
    fields.extend(tag.map(|tag| ("tag".to_owned(), tag)));
    extra(fields.iter())
}

/// A value without what changes when work is done.
fn steady(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|name, _| !VOLATILE.contains(&name.as_str()));
    }
    value
}
