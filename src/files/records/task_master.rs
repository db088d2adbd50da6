//! The `tasks.json` of task-master: tasks and subtasks, in tags or, in older files, without.
//!
//! - A task is a step with its number as id; subtask 2 of task 1 is `1.2`. Subtasks come before
//!   their task, and tasks in the order of the file.
//! - A task waits for its subtasks, and the subtasks also wait for the dependencies of the task.
//! - The dependency of a subtask is a sibling with that number if there is one, otherwise a task,
//!   as in task-master itself. `1.2` is always subtask 2 of task 1.
//! - Description and details form the goal. The test strategy is a `text` criterion. Priorities
//!   are 20 (critical), 10 (high), 0 (medium) and -10 (low).
//! - Status and timestamps are kept beside the plan, so that progress does not change its hash;
//!   the rest in `extra.taskmaster`.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::record_fields::{fractional_id, id_text};
use crate::files::diagnostic::{Diagnostic, ReadResult, Severity, plan_error};
use crate::files::draft::{PlanDraft, StepSource, tool_extra};
use crate::files::plan_file::PlanFormat;
use crate::plan::{Criterion, Extra, Step};

/// The default tag of the tool.
const DEFAULT_TAG: &str = "master";

/// The key of this tool in `extra`.
const EXTRA: &str = "taskmaster";

/// Fields of a task with a counterpart in a step or in the marks.
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

/// Fields that the tool updates during the work.
const VOLATILE: [&str; 5] =
    ["updated", "updatedAt", "lastModified", "completedAt", "completedCount"];

/// Whether a JSON value is a task-master file.
pub(crate) fn is_task_master(value: &Value) -> bool {
    !value.get("steps").is_some_and(Value::is_array)
        && (has_tasks(value) || tags(value).next().is_some())
}

/// Reads the plan of one tag: the requested one, or `master`, or the only one.
pub(crate) fn parse(name: &str, value: &Value, tag: Option<&str>) -> ReadResult<PlanDraft> {
    let (tag, body) = select_tag(value, tag)?;
    let mut diagnostics = Vec::new();
    let path = tag.map_or_else(|| "tasks".to_owned(), |tag| format!("{tag}.tasks"));
    let tasks = read_tasks(body.get("tasks"), None, &path, &mut diagnostics);
    let mut reader = TaskMasterReader::new(name, &tasks);
    for task in &tasks {
        reader.add_task(task, &[]);
    }
    let mut draft = reader.draft;
    draft.diagnostics = diagnostics;
    draft.plan_file.plan.title = title(body, tag);
    draft.plan_file.plan.extra = plan_extra(value, body, tag);
    Ok(draft)
}

fn has_tasks(value: &Value) -> bool {
    value.get("tasks").is_some_and(Value::is_array)
}

fn tags(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten().filter(|(_, body)| has_tasks(body))
}

/// The selected tag, if the file has tags, and the object with its tasks.
fn select_tag<'a>(value: &'a Value, tag: Option<&str>) -> ReadResult<(Option<&'a str>, &'a Value)> {
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

/// A task or subtask of the file.
struct Task<'a> {
    /// The full id, such as `3` or `3.1`.
    id: String,
    path: String,
    fields: &'a Map<String, Value>,
    dependencies: Vec<String>,
    subtasks: Vec<Task<'a>>,
}

/// Reads a list of tasks. The JSON parser has limited the nesting.
fn read_tasks<'a>(
    list: Option<&'a Value>,
    parent: Option<&str>,
    path: &str,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Task<'a>> {
    let items = match list {
        None | Some(Value::Null) => return Vec::new(),
        Some(Value::Array(items)) => items,
        Some(_) => {
            diagnostics.push(problem(path.to_owned(), "expected a list"));
            return Vec::new();
        }
    };
    let mut found = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let Some(fields) = item.as_object() else {
            diagnostics.push(problem(path, "expected a task: an object with an id"));
            continue;
        };
        let Some(id) = read_id(item.get("id"), format!("{path}.id"), diagnostics) else { continue };
        let id = full_id(parent, &id);
        found.push((path, id, fields));
    }
    let read = |(path, id, fields): (String, String, &'a Map<String, Value>)| Task {
        dependencies: read_dependencies(fields, &path, diagnostics),
        subtasks: read_tasks(
            fields.get("subtasks"),
            Some(&id),
            &format!("{path}.subtasks"),
            diagnostics,
        ),
        path,
        id,
        fields,
    };
    found.into_iter().map(read).collect()
}

/// The id of a subtask with the id of its task as prefix, which some files have already.
fn full_id(parent: Option<&str>, id: &str) -> String {
    match parent {
        None => id.to_owned(),
        Some(parent) if id.strip_prefix(parent).is_some_and(|rest| rest.starts_with('.')) => {
            id.to_owned()
        }
        Some(parent) => format!("{parent}.{id}"),
    }
}

fn problem(path: String, message: &str) -> Diagnostic {
    Diagnostic::at_path(Severity::Problem, path, message)
}

fn read_id(
    value: Option<&Value>,
    path: String,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<String> {
    let id = value.and_then(id_text);
    diagnostics.extend(match id {
        None => Some(problem(path, "expected an id: a number or a text")),
        Some(_) => value.and_then(|value| fractional_id(value, path)),
    });
    id
}

fn read_dependencies(
    fields: &Map<String, Value>,
    path: &str,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<String> {
    let path = format!("{path}.dependencies");
    let items = match fields.get("dependencies") {
        None | Some(Value::Null) => return Vec::new(),
        Some(Value::Array(items)) => items.as_slice(),
        Some(_) => {
            diagnostics.push(problem(path, "expected a list"));
            return Vec::new();
        }
    };
    let mut names = Vec::new();
    for (index, item) in items.iter().enumerate() {
        names.extend(read_id(Some(item), format!("{path}[{index}]"), diagnostics));
    }
    names
}

struct TaskMasterReader<'a> {
    /// The name of the file.
    name: &'a str,
    ids: BTreeSet<String>,
    draft: PlanDraft,
}

impl<'a> TaskMasterReader<'a> {
    fn new(name: &'a str, tasks: &[Task<'_>]) -> Self {
        let mut ids = BTreeSet::new();
        let mut rest: Vec<&Task<'_>> = tasks.iter().collect();
        while let Some(task) = rest.pop() {
            ids.insert(task.id.clone());
            rest.extend(&task.subtasks);
        }
        Self { name, ids, draft: PlanDraft::new(PlanFormat::TaskMaster) }
    }

    /// Adds a task after its subtasks. `inherited` has the dependencies of the tasks above it.
    fn add_task(&mut self, task: &Task<'_>, inherited: &[String]) {
        let own = task.dependencies.iter().map(|name| self.resolve(&task.id, name));
        let after = unique(own.chain(inherited.iter().cloned()));
        // A dependency of a task on its own subtask does not apply to the subtasks.
        let prefix = format!("{}.", task.id);
        let inherited: Vec<String> =
            after.iter().filter(|name| !name.starts_with(&prefix)).cloned().collect();
        for subtask in &task.subtasks {
            self.add_task(subtask, &inherited);
        }
        let subtasks = task.subtasks.iter().map(|subtask| subtask.id.clone());
        let after = unique(after.into_iter().chain(subtasks));
        self.read_status(&task.id, task.fields);
        let source = StepSource::Path { record: task.path.clone(), dependencies: "dependencies" };
        self.draft.add_step(step(task, after), source);
    }

    /// The full id of a dependency: the nearest relative with that name, or else a task.
    fn resolve(&self, id: &str, name: &str) -> String {
        let mut scope = id;
        while let Some((outer, _)) = scope.rsplit_once('.') {
            let relative = format!("{outer}.{name}");
            if self.ids.contains(&relative) {
                return relative;
            }
            scope = outer;
        }
        name.to_owned()
    }

    fn read_status(&mut self, id: &str, fields: &Map<String, Value>) {
        let volatile: Map<String, Value> = fields
            .iter()
            .filter(|(name, _)| VOLATILE.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        if !volatile.is_empty() {
            self.draft.plan_file.progress.insert(id.to_owned(), tool_extra(EXTRA, volatile));
        }
        if let Some(status) = fields.get("status").and_then(Value::as_str) {
            self.draft.set_status(id, status, format!("{}: status {status}", self.name));
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

/// Whether a field goes to `extra`. A known field with a value of another type does, too.
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
    tool_extra(EXTRA, fields.map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// The name of the project, or the description of the tag, or the tag.
fn title(body: &Value, tag: Option<&str>) -> String {
    let known = ["/metadata/projectName", "/meta/projectName", "/metadata/description"];
    let named = known.iter().find_map(|path| body.pointer(path)?.as_str());
    named.or(tag).unwrap_or_default().to_owned()
}

/// The fields beside the tasks: those of the selected tag, and those of the file that are not tags.
fn plan_extra(file: &Value, body: &Value, tag: Option<&str>) -> Extra {
    let tag = tag.map(|tag| json!(tag));
    let of_file = file.as_object().into_iter().flatten().filter(|(_, value)| !has_tasks(value));
    let of_body = body.as_object().into_iter().flatten();
    let mut fields: Map<String, Value> = of_file
        .chain(of_body)
        .filter(|(name, _)| name.as_str() != "tasks" && !VOLATILE.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), without_volatile(value)))
        .collect();
    fields.extend(tag.map(|tag| ("tag".to_owned(), tag)));
    extra(fields.iter())
}

/// A value without the fields that the tool updates during the work.
fn without_volatile(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|name, _| !VOLATILE.contains(&name.as_str()));
    }
    value
}
