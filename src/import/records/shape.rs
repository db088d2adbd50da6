//! Where in a JSON value the list of tasks is, and what its tasks are.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{AFTER, CRITERIA, FILES, FLAGS, IDS, PlanFormat, STATUSES, TITLES, rank_of};
use crate::import::fields::{Fields, name_text};

/// Names under which a list of tasks is looked for first.
const LISTS: &[&str] = &[
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

/// Names of lists whose items hold the lists of tasks.
const PHASES: &[&str] =
    &["phases", "milestones", "epics", "stages", "sprints", "groups", "sections", "waves"];

/// Names of lists of the parts of a task.
const PARTS: &[&str] = &["subtasks", "subTasks", "sub_tasks", "children", "substeps", "steps"];

/// How deep the list of tasks may lie.
const DEPTH_MAX: usize = 4;

/// A list of tasks in a value.
pub(super) struct Found<'a> {
    /// The keys that lead to it; empty for the value itself.
    pub(super) path: Vec<String>,
    /// The last of them.
    pub(super) key: String,
    pub(super) phases: Vec<Group>,
    pub(super) items: Vec<Item<'a>>,
    /// Other lists of tasks, which are none here.
    pub(super) others: Vec<String>,
}

/// A phase of the file.
pub(super) struct Group {
    pub(super) id: String,
    pub(super) title: String,
    /// What else it says.
    pub(super) rest: Map<String, Value>,
}

/// A task.
pub(super) struct Item<'a> {
    pub(super) id: String,
    /// The id of the task that it is a part of.
    pub(super) parent: Option<String>,
    /// Where it stands: `tasks[3].subtasks[1]`.
    pub(super) path: String,
    pub(super) phase: Option<String>,
    pub(super) fields: &'a Map<String, Value>,
    pub(super) parts: Vec<Item<'a>>,
    /// The fields that hold the parts.
    pub(super) part_keys: Vec<&'static str>,
}

impl Item<'_> {
    /// Its number in the order, if it has one.
    pub(super) fn rank(&self, format: PlanFormat) -> Option<i64> {
        rank_of(self.fields, format)
    }

    /// Whether it, or a part of it, has a field for dependencies.
    pub(super) fn says_dependencies(&self) -> bool {
        AFTER.iter().any(|name| self.fields.contains_key(*name))
            || self.parts.iter().any(Self::says_dependencies)
    }
}

/// Whether tasks under `tasks` say what task-master does not, and nothing that only it does.
pub(in crate::import) fn is_of_another_tool(value: &Value) -> bool {
    let tasks = value.get("tasks").and_then(Value::as_array);
    let says = |names: &[&str]| {
        tasks.into_iter().flatten().any(|task| names.iter().any(|name| task.get(name).is_some()))
    };
    let is_its_own = ["dependencies", "testStrategy", "details"];
    let others: Vec<&str> = [AFTER, CRITERIA, FILES, FLAGS, &["order"]].concat();
    !says(&is_its_own) && says(&others)
}

/// The list of tasks in a value.
pub(super) fn find(value: &Value) -> Option<Found<'_>> {
    let mut level: Vec<(Vec<String>, &Value)> = vec![(Vec::new(), value)];
    for _ in 0..=DEPTH_MAX {
        let lists: Vec<(&Vec<String>, &Vec<Value>)> = level
            .iter()
            .filter_map(|(path, value)| Some((path, value.as_array()?)))
            .filter(|(path, list)| is_phases(path, list) || is_tasks(list))
            .collect();
        let rank = |path: &[String]| {
            let key = path.last().map(String::as_str).unwrap_or_default();
            LISTS.iter().chain(PHASES).position(|name| *name == key).unwrap_or(usize::MAX)
        };
        if let Some((path, list)) = lists.iter().min_by_key(|(path, _)| rank(path)) {
            let others = lists.iter().filter(|(other, _)| other != path);
            let others = others.map(|(other, _)| other.join(".")).collect();
            return Some(found((*path).clone(), list, others));
        }
        level = level.iter().flat_map(|(path, value)| below(path, value)).collect();
    }
    None
}

fn below<'a>(path: &[String], value: &'a Value) -> Vec<(Vec<String>, &'a Value)> {
    let fields = value.as_object().into_iter().flatten();
    fields.map(|(name, value)| ([path, std::slice::from_ref(name)].concat(), value)).collect()
}

/// Whether everything in a list looks like a task: an object with a title, or with an id and
/// something that a task says.
fn is_tasks(list: &[Value]) -> bool {
    let has = |item: &Value, names: &[&str]| names.iter().any(|name| item.get(name).is_some());
    let is_task = |item: &Value| {
        item.is_object()
            && (TITLES.iter().any(|name| item.get(name).is_some_and(Value::is_string))
                || (has(item, IDS)
                    && [super::GOALS, CRITERIA, AFTER, STATUSES, FLAGS]
                        .iter()
                        .any(|names| has(item, names)))
                || (has(item, &["order"]) && has(item, super::GOALS)))
    };
    !list.is_empty() && list.iter().all(is_task)
}

/// Whether a list is one of phases, of which at least one has tasks.
fn is_phases(path: &[String], list: &[Value]) -> bool {
    let is_named = path.last().is_some_and(|key| PHASES.contains(&key.as_str()));
    is_named
        && list.iter().all(Value::is_object)
        && list.iter().any(|phase| tasks_of(phase).is_some())
}

/// The tasks of a phase, and the field that holds them.
fn tasks_of(phase: &Value) -> Option<(&'static str, &Vec<Value>)> {
    let names = LISTS.iter();
    names
        .filter_map(|name| Some((*name, phase.get(name)?.as_array()?)))
        .find(|(_, list)| is_tasks(list))
}

fn found(path: Vec<String>, list: &[Value], others: Vec<String>) -> Found<'_> {
    let key = path.last().cloned().unwrap_or_default();
    let place = path.join(".");
    if !is_phases(&path, list) {
        let items = items(list, &place, None, None);
        return Found { path, key, phases: Vec::new(), items, others };
    }
    let (mut phases, mut all, mut taken) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (index, phase) in list.iter().enumerate() {
        let mut fields = Fields::new(phase.as_object().unwrap_or(&Map::new()));
        let id = fields.take(IDS, name_text).filter(|id| !id.is_empty());
        let id = id.unwrap_or_else(|| index.saturating_add(1).to_string());
        let title = fields.text(TITLES);
        if let Some((name, tasks)) = tasks_of(phase) {
            fields.take_all(&[name]);
            let place = format!("{place}[{index}].{name}");
            let mut of_phase = items(tasks, &place, None, Some(&id));
            // Numbers that begin anew in each phase are told apart by it.
            let is_taken = of_phase.iter().any(|item| taken.contains(&item.id));
            if is_taken && !of_phase.iter().any(has_id) {
                let tasks = tasks.as_slice();
                of_phase = items(tasks, &place, Some(&id), Some(&id));
                for item in &mut of_phase {
                    item.parent = None;
                }
            }
            taken.extend(of_phase.iter().map(|item| item.id.clone()));
            all.extend(of_phase);
        }
        phases.push(Group { id, title, rest: fields.rest() });
    }
    Found { path, key, phases, items: all, others }
}

fn has_id(item: &Item<'_>) -> bool {
    IDS.iter().any(|name| item.fields.get(*name).and_then(name_text).is_some())
}

fn items<'a>(
    list: &'a [Value],
    place: &str,
    parent: Option<&str>,
    phase: Option<&str>,
) -> Vec<Item<'a>> {
    let ids = own_ids(list);
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
            let mut parts = Vec::new();
            let mut part_keys = Vec::new();
            for name in PARTS {
                let list =
                    fields.get(*name).and_then(Value::as_array).filter(|list| is_tasks(list));
                if let Some(list) = list {
                    parts.extend(items(list, &format!("{path}.{name}"), Some(&id), phase));
                    part_keys.push(*name);
                }
            }
            let (parent, phase) = (parent.map(str::to_owned), phase.map(str::to_owned));
            Item { id, parent, path, phase, fields, parts, part_keys }
        })
        .collect()
}

/// The ids of the records of a list. Numbers of an order, and names, are ids only where they tell
/// all of them apart; the last resort is their places.
fn own_ids(list: &[Value]) -> Vec<String> {
    let written = |item: &Value| {
        let id = IDS.iter().find_map(|name| item.get(*name).and_then(name_text));
        id.filter(|id| !id.is_empty())
    };
    let number = |item: &Value| {
        let names = ["order", "step", "index"];
        let found = names.iter().find_map(|name| item.get(*name).filter(|value| value.is_number()));
        found.and_then(name_text)
    };
    let name = |item: &Value| {
        let name = item.get("name")?.as_str()?.trim();
        let is_word = !name.is_empty() && !name.contains(char::is_whitespace);
        let is_id = (is_word || item.get("title").is_some()) && !name.contains(char::is_control);
        (is_id && !name.is_empty()).then(|| name.to_owned())
    };
    let all = |read: &dyn Fn(&Value) -> Option<String>| {
        let found: Option<Vec<String>> = list.iter().map(read).collect();
        found.filter(|ids| ids.iter().collect::<BTreeSet<_>>().len() == ids.len())
    };
    let places = || (1..=list.len()).map(|place| place.to_string()).collect();
    if list.iter().any(|item| written(item).is_some()) {
        let by_place = list.iter().zip(1_usize..);
        return by_place
            .map(|(item, place)| written(item).unwrap_or_else(|| place.to_string()))
            .collect();
    }
    all(&number).or_else(|| all(&name)).unwrap_or_else(places)
}

/// A value without what a path leads to, and without what then is empty.
pub(super) fn without(value: &Value, path: &[String]) -> Value {
    let mut value = value.clone();
    if let (Some((first, rest)), Some(object)) = (path.split_first(), value.as_object_mut()) {
        match (rest, object.get(first)) {
            ([], _) => drop(object.remove(first)),
            (rest, Some(inner)) => {
                let inner = without(inner, rest);
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
