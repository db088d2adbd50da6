//! Finds the list of tasks in a JSON value, and the ids and subtasks of its records.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::field_names::{CHANGES, CRITERIA, DEPENDENCIES, FLAGS, GOALS, IDS, STATUSES, TITLES};
use super::record_fields::{RecordFields, id_text};
use crate::files::plan_file::PlanFormat;

/// Names of lists of tasks, in order of precedence.
const TASK_LISTS: &[&str] = &[
    "userStories",
    "tasks",
    "steps",
    "stories",
    "todos",
    "items",
    "features",
    "work_items",
    "workItems",
    "issues",
    "plan",
];

/// Names of lists of phases, which have lists of tasks.
const PHASE_LISTS: &[&str] =
    &["phases", "milestones", "epics", "stages", "sprints", "groups", "sections", "waves"];

/// Names of lists of subtasks.
const SUBTASK_LISTS: &[&str] =
    &["subtasks", "subTasks", "sub_tasks", "children", "substeps", "steps"];

/// How deep the list of tasks may be nested.
const DEPTH_MAX: usize = 4;

/// The list of tasks in a JSON value.
pub(super) struct FoundList<'a> {
    /// The keys that lead to the list; empty if the value itself is the list.
    pub(super) path: Vec<String>,
    /// The last key.
    pub(super) key: String,
    pub(super) phases: Vec<RecordPhase>,
    pub(super) records: Vec<Record<'a>>,
    /// Other lists of tasks, which are not read.
    pub(super) others: Vec<String>,
}

/// A phase of the file.
pub(super) struct RecordPhase {
    pub(super) id: String,
    pub(super) title: String,
    /// The other fields.
    pub(super) rest: Map<String, Value>,
}

/// A task.
pub(super) struct Record<'a> {
    pub(super) id: String,
    /// The id of the parent task.
    pub(super) parent: Option<String>,
    /// The path in the file, such as `tasks[3].subtasks[1]`.
    pub(super) path: String,
    pub(super) phase: Option<String>,
    pub(super) fields: &'a Map<String, Value>,
    pub(super) subtasks: Vec<Record<'a>>,
    /// The fields with the subtasks.
    pub(super) subtask_keys: Vec<&'static str>,
}

impl Record<'_> {
    /// The number in the order, if there is one.
    pub(super) fn rank(&self, format: PlanFormat) -> Option<i64> {
        let name = if format == PlanFormat::Ralph { "priority" } else { "order" };
        self.fields.get(name).and_then(Value::as_i64)
    }

    /// Whether the task or a subtask has a field for dependencies.
    pub(super) fn has_dependencies(&self) -> bool {
        DEPENDENCIES.iter().any(|name| self.fields.contains_key(*name))
            || self.subtasks.iter().any(Self::has_dependencies)
    }
}

/// Whether the tasks under `tasks` have fields that task-master does not have, and none that only
/// task-master has.
pub(crate) fn has_foreign_task_fields(value: &Value) -> bool {
    let tasks = value.get("tasks").and_then(Value::as_array);
    let has_any = |names: &[&str]| {
        tasks.into_iter().flatten().any(|task| names.iter().any(|name| task.get(name).is_some()))
    };
    let task_master = ["dependencies", "testStrategy", "details"];
    let foreign: Vec<&str> = [DEPENDENCIES, CRITERIA, CHANGES, FLAGS, &["order"]].concat();
    !has_any(&task_master) && has_any(&foreign)
}

/// Finds the list of tasks in a value.
pub(super) fn find(value: &Value) -> Option<FoundList<'_>> {
    let mut level: Vec<(Vec<String>, &Value)> = vec![(Vec::new(), value)];
    for _ in 0..=DEPTH_MAX {
        let lists: Vec<(&Vec<String>, &Vec<Value>)> = level
            .iter()
            .filter_map(|(path, value)| Some((path, value.as_array()?)))
            .filter(|(path, list)| is_phases(path, list) || is_tasks(list))
            .collect();
        let rank = |path: &[String]| {
            let key = path.last().map(String::as_str).unwrap_or_default();
            TASK_LISTS.iter().chain(PHASE_LISTS).position(|name| *name == key).unwrap_or(usize::MAX)
        };
        if let Some((path, list)) = lists.iter().min_by_key(|(path, _)| rank(path)) {
            let others = lists.iter().filter(|(other, _)| other != path);
            let others = others.map(|(other, _)| other.join(".")).collect();
            return Some(read_list((*path).clone(), list, others));
        }
        level = level.iter().flat_map(|(path, value)| children(path, value)).collect();
    }
    None
}

fn children<'a>(path: &[String], value: &'a Value) -> Vec<(Vec<String>, &'a Value)> {
    let fields = value.as_object().into_iter().flatten();
    fields.map(|(name, value)| ([path, std::slice::from_ref(name)].concat(), value)).collect()
}

/// Whether every item of a list looks like a task: an object with a title, or with an id and
/// another field of a task.
fn is_tasks(list: &[Value]) -> bool {
    let has = |item: &Value, names: &[&str]| names.iter().any(|name| item.get(name).is_some());
    let is_task = |item: &Value| {
        item.is_object()
            && (TITLES.iter().any(|name| item.get(name).is_some_and(Value::is_string))
                || (has(item, IDS)
                    && [GOALS, CRITERIA, DEPENDENCIES, STATUSES, FLAGS]
                        .iter()
                        .any(|names| has(item, names)))
                || (has(item, &["order"]) && has(item, GOALS)))
    };
    !list.is_empty() && list.iter().all(is_task)
}

/// Whether a list has phases, at least one of them with tasks.
fn is_phases(path: &[String], list: &[Value]) -> bool {
    let is_named = path.last().is_some_and(|key| PHASE_LISTS.contains(&key.as_str()));
    is_named
        && list.iter().all(Value::is_object)
        && list.iter().any(|phase| tasks_of(phase).is_some())
}

/// The tasks of a phase, and the name of their field.
fn tasks_of(phase: &Value) -> Option<(&'static str, &Vec<Value>)> {
    let names = TASK_LISTS.iter();
    names
        .filter_map(|name| Some((*name, phase.get(name)?.as_array()?)))
        .find(|(_, list)| is_tasks(list))
}

fn read_list(path: Vec<String>, list: &[Value], others: Vec<String>) -> FoundList<'_> {
    let key = path.last().cloned().unwrap_or_default();
    let place = path.join(".");
    if !is_phases(&path, list) {
        let records = records(list, &place, None, None);
        return FoundList { path, key, phases: Vec::new(), records, others };
    }
    let (mut phases, mut all, mut taken) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (index, phase) in list.iter().enumerate() {
        let mut fields = RecordFields::new(phase.as_object().unwrap_or(&Map::new()));
        let id = fields.take(IDS, id_text).filter(|id| !id.is_empty());
        let id = id.unwrap_or_else(|| index.saturating_add(1).to_string());
        let title = fields.text(TITLES);
        if let Some((name, tasks)) = tasks_of(phase) {
            fields.take_all(&[name]);
            let place = format!("{place}[{index}].{name}");
            let mut phase_records = records(tasks, &place, None, Some(&id));
            // Numbers that restart in each phase get the id of the phase as a prefix.
            let is_taken = phase_records.iter().any(|record| taken.contains(&record.id));
            if is_taken && !phase_records.iter().any(has_id) {
                let tasks = tasks.as_slice();
                phase_records = records(tasks, &place, Some(&id), Some(&id));
                for record in &mut phase_records {
                    record.parent = None;
                }
            }
            taken.extend(phase_records.iter().map(|record| record.id.clone()));
            all.extend(phase_records);
        }
        phases.push(RecordPhase { id, title, rest: fields.rest() });
    }
    FoundList { path, key, phases, records: all, others }
}

fn has_id(record: &Record<'_>) -> bool {
    IDS.iter().any(|name| record.fields.get(*name).and_then(id_text).is_some())
}

fn records<'a>(
    list: &'a [Value],
    place: &str,
    parent: Option<&str>,
    phase: Option<&str>,
) -> Vec<Record<'a>> {
    let ids = record_ids(list);
    let objects =
        list.iter().enumerate().filter_map(|(index, item)| Some((index, item.as_object()?)));
    objects
        .map(|(index, fields)| {
            let path = format!("{place}[{index}]");
            let id = ids.get(index).cloned().unwrap_or_default();
            let id = match parent {
                Some(parent)
                    if !id.strip_prefix(parent).is_some_and(|rest| rest.starts_with('.')) =>
                {
                    format!("{parent}.{id}")
                }
                _ => id,
            };
            let mut subtasks = Vec::new();
            let mut subtask_keys = Vec::new();
            for name in SUBTASK_LISTS {
                let list =
                    fields.get(*name).and_then(Value::as_array).filter(|list| is_tasks(list));
                if let Some(list) = list {
                    subtasks.extend(records(list, &format!("{path}.{name}"), Some(&id), phase));
                    subtask_keys.push(*name);
                }
            }
            let (parent, phase) = (parent.map(str::to_owned), phase.map(str::to_owned));
            Record { id, parent, path, phase, fields, subtasks, subtask_keys }
        })
        .collect()
}

/// The ids of the records of a list. Numbers of an order, and names, are ids only if they are
/// unique in the list; otherwise the position is the id.
fn record_ids(list: &[Value]) -> Vec<String> {
    let written = |item: &Value| {
        let id = IDS.iter().find_map(|name| item.get(*name).and_then(id_text));
        id.filter(|id| !id.is_empty())
    };
    let number = |item: &Value| {
        let names = ["order", "step", "index"];
        let found = names.iter().find_map(|name| item.get(*name).filter(|value| value.is_number()));
        found.and_then(id_text)
    };
    let name = |item: &Value| {
        let name = item.get("name")?.as_str()?.trim();
        let is_word = !name.is_empty() && !name.contains(char::is_whitespace);
        let is_id = (is_word || item.get("title").is_some()) && !name.contains(char::is_control);
        (is_id && !name.is_empty()).then(|| name.to_owned())
    };
    let unique = |read: &dyn Fn(&Value) -> Option<String>| {
        let found: Option<Vec<String>> = list.iter().map(read).collect();
        found.filter(|ids| ids.iter().collect::<BTreeSet<_>>().len() == ids.len())
    };
    let positions = || (1..=list.len()).map(|position| position.to_string()).collect();
    if list.iter().any(|item| written(item).is_some()) {
        let numbered = list.iter().zip(1_usize..);
        return numbered
            .map(|(item, position)| written(item).unwrap_or_else(|| position.to_string()))
            .collect();
    }
    unique(&number).or_else(|| unique(&name)).unwrap_or_else(positions)
}

/// Removes the value at a path, and objects that become empty.
pub(super) fn without_path(value: &Value, path: &[String]) -> Value {
    let mut value = value.clone();
    if let (Some((first, rest)), Some(object)) = (path.split_first(), value.as_object_mut()) {
        match (rest, object.get(first)) {
            ([], _) => drop(object.remove(first)),
            (rest, Some(inner)) => {
                let inner = without_path(inner, rest);
                if inner.as_object().is_some_and(Map::is_empty) {
                    object.remove(first);
                } else {
                    object.insert(first.clone(), inner);
                }
            }
            (_, None) => {}
        }
    }
    value
}
