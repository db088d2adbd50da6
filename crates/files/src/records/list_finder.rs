//! Finds the list of tasks in a JSON value, and the ids and subtasks of its records.
//!
//! The list is the first one from the top down that has tasks; names such as `tasks` take
//! precedence at the same depth. A list may also be an object whose keys are the ids of the tasks.
//!
//! Invariants: every record has a unique id. Of several records with the same id and the same content, one is read. If
//! they have the time of their last update, or each is on a separate line, the newest one is read.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::field_names::{
    CHANGES, CRITERIA, DEPENDENCIES, FLAGS, GOALS, IDS, NEW_FILES, OWNERS, STATUSES, TITLES,
};
use super::record_fields::{RecordFields, field, field_in, id_text, is_same_name};
use crate::draft::{TaskStatus, UniqueIds};
use crate::read_report::CorrectionKind;
use crate::syntax::Node;

/// Names of lists of tasks, in order of precedence.
const TASK_LISTS: &[&str] = &[
    "userStories",
    "tasks",
    "steps",
    "stories",
    "todos",
    "items",
    "features",
    "workItems",
    "issues",
    "plan",
];

/// Names of lists of phases, which have lists of tasks.
const PHASE_LISTS: &[&str] =
    &["phases", "milestones", "epics", "stages", "sprints", "groups", "sections", "waves"];

/// Names of objects that have the status of each task.
const STATUS_MAPS: &[&str] = &["developmentStatus"];

/// Names of lists of subtasks.
const SUBTASK_LISTS: &[&str] = &["subtasks", "children", "substeps", "steps"];

/// Names of the time of the last update.
const UPDATED: &[&str] = &["updatedAt", "updated", "updatedDate", "lastModified"];

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
    /// Other lists of tasks, which are not read: their paths and lengths.
    pub(super) others: Vec<(String, usize)>,
    /// The paths of the entries of the list that are not tasks.
    pub(super) unread: Vec<String>,
    /// Repeated ids: the correction, the id, the name in the file, the path.
    pub(super) repeated: Vec<(CorrectionKind, String, String, String)>,
}

impl FoundList<'_> {
    /// The records of an object in the order of the file; its fields have lost it.
    pub(super) fn in_file_order(mut self, tree: &Node) -> Self {
        let list = self.path.iter().try_fold(tree, |node, name| node.field(name));
        let fields = list.map(Node::fields).unwrap_or_default();
        let places: BTreeMap<String, usize> = fields
            .iter()
            .zip(0_usize..)
            .map(|(field, at)| (child_path(&self.path.join("."), &field.name), at))
            .collect();
        if !places.is_empty() {
            self.records.sort_by_key(|record| places.get(&record.path).copied());
        }
        self
    }
}

/// The path of a field of an object.
fn child_path(place: &str, name: &str) -> String {
    if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") }
}

/// A phase of the file.
pub(super) struct RecordPhase {
    pub(super) id: String,
    pub(super) title: String,
    /// The path in the file, such as `phases[1]`.
    pub(super) path: String,
    /// The other fields.
    pub(super) rest: Map<String, Value>,
}

/// A task.
pub(super) struct Record<'a> {
    pub(super) id: String,
    /// The id in the file, if there is one.
    pub(super) written: Option<String>,
    /// The id of the parent task.
    pub(super) parent: Option<String>,
    /// The path in the file, such as `tasks[3].subtasks[1]`.
    pub(super) path: String,
    pub(super) phase: Option<String>,
    pub(super) fields: Cow<'a, Map<String, Value>>,
    pub(super) subtasks: Vec<Record<'a>>,
    /// The fields with the subtasks.
    pub(super) subtask_keys: Vec<String>,
}

impl Record<'_> {
    /// The number in the order, if there is one.
    pub(super) fn rank(&self, name: &str) -> Option<i64> {
        self.fields.get(name).and_then(Value::as_i64)
    }

    /// Whether the task or a subtask has one of these fields.
    pub(super) fn has_any(&self, names: &[&str]) -> bool {
        field_in(&self.fields, names).is_some()
            || self.subtasks.iter().any(|each| each.has_any(names))
    }
}

/// An entry of a list: its place in the list, the key that names it, and its fields.
struct Entry<'a> {
    place: String,
    key: Option<String>,
    fields: Cow<'a, Map<String, Value>>,
}

/// Whether the tasks under `tasks` have fields that task-master does not have, and none that only
/// task-master has.
pub(crate) fn has_foreign_task_fields(value: &Value) -> bool {
    let tasks = value.get("tasks").and_then(Value::as_array);
    let tasks: Vec<&Value> = tasks.into_iter().flatten().collect();
    let has_any =
        |names: &[&str]| tasks.iter().any(|task| names.iter().any(|name| task.get(name).is_some()));
    let common: Vec<&str> =
        [CRITERIA, CHANGES, NEW_FILES, FLAGS, &["order", "name", "subject"]].concat();
    let is_foreign = |name: &str| {
        let is_known = |names: &[&str]| names.iter().any(|known| is_same_name(known, name));
        !is_known(&["teststrategy", "details", "description"]) && is_known(&common)
            || is_known(DEPENDENCIES) && !is_known(&["dependencies"])
    };
    let names = tasks.iter().filter_map(|task| task.as_object()).flat_map(Map::keys);
    !has_any(&["testStrategy", "details"]) && names.into_iter().any(|name| is_foreign(name))
}

/// Finds the list of tasks in a value. `is_lines`: each entry is on a line of its own.
pub(super) fn find(value: &Value, is_lines: bool) -> Option<FoundList<'_>> {
    let mut level: Vec<(Vec<String>, &Value)> = vec![(Vec::new(), value)];
    for _ in 0..=DEPTH_MAX {
        let mut lists: Vec<&(Vec<String>, &Value)> =
            level.iter().filter(|(path, value)| is_list(path, value)).collect();
        if lists.is_empty() {
            lists.extend(level.iter().filter(|(_, value)| is_keyed(value)));
        }
        let rank = |path: &[String]| {
            let key = path.last().map(String::as_str).unwrap_or_default();
            let mut names = TASK_LISTS.iter().chain(PHASE_LISTS).chain(STATUS_MAPS);
            names.position(|name| is_same_name(name, key)).unwrap_or(usize::MAX)
        };
        if let Some((path, list)) = lists.iter().min_by_key(|(path, _)| rank(path)) {
            let others = lists.iter().filter(|(other, _)| other != path);
            let length = |list: &Value| {
                list.as_array().map_or(list.as_object().map_or(0, Map::len), Vec::len)
            };
            let others = others.map(|(other, list)| (other.join("."), length(list))).collect();
            let mut lister = Lister { is_lines, ..Lister::default() };
            return Some(lister.read((*path).clone(), list, others));
        }
        level = level.iter().flat_map(|(path, value)| children(path, value)).collect();
    }
    None
}

/// Reads a list of objects; each object is a task.
pub(super) fn read_all(list: &Value, is_lines: bool) -> FoundList<'_> {
    let mut lister = Lister { is_lines, ..Lister::default() };
    lister.read(Vec::new(), list, Vec::new())
}

/// Reads a list of objects at a path of the file; each object is a task.
pub(super) fn read_all_at<'a>(list: &'a Value, place: &str) -> FoundList<'a> {
    let path = place.split('.').map(str::to_owned).collect();
    Lister::default().read(path, list, Vec::new())
}

fn children<'a>(path: &[String], value: &'a Value) -> Vec<(Vec<String>, &'a Value)> {
    let fields = value.as_object().into_iter().flatten();
    fields.map(|(name, value)| ([path, std::slice::from_ref(name)].concat(), value)).collect()
}

fn is_named(path: &[String], names: &[&str]) -> bool {
    let key = path.last().map(String::as_str).unwrap_or_default();
    names.iter().any(|name| is_same_name(name, key))
}

/// Whether a value is a list of tasks or of phases.
pub(super) fn is_list(path: &[String], value: &Value) -> bool {
    match value {
        Value::Array(list) => {
            is_phases(path, list)
                || is_tasks(list)
                || is_named(path, TASK_LISTS)
                    && !list.is_empty()
                    && list.iter().all(Value::is_string)
        }
        Value::Object(map) if is_named(path, TASK_LISTS) => {
            !map.is_empty() && map.values().all(is_task) || is_keyed(value)
        }
        Value::Object(map) if is_named(path, STATUS_MAPS) => {
            let is_status = |value: &Value| value.as_str().is_some_and(TaskStatus::is_known);
            map.values().any(is_status)
        }
        _ => false,
    }
}

/// Whether a value is an object of tasks with their ids as keys, under any name: each has a text, at least one has
/// another field of a task, and none has a list of tasks itself.
fn is_keyed(value: &Value) -> bool {
    let Some(tasks) = value.as_object().filter(|tasks| !tasks.is_empty()) else { return false };
    let has = |item: &Value, names: &[&str]| field(item, names).is_some();
    let is_text = |item: &Value| {
        let texts = TITLES.iter().chain(GOALS);
        item.is_object()
            && texts.into_iter().any(|name| field(item, &[name]).is_some_and(Value::is_string))
    };
    let is_work = |item: &Value| {
        let names = [CRITERIA, DEPENDENCIES, STATUSES, FLAGS, OWNERS];
        names.iter().any(|names| has(item, names))
    };
    let has_list = |item: &Value| {
        let fields = item.as_object().into_iter().flatten();
        fields.into_iter().any(|(name, value)| is_list(std::slice::from_ref(name), value))
    };
    tasks.values().all(|item| is_text(item) && !has_list(item)) && tasks.values().any(is_work)
}

/// The fields of a task of an object of tasks. A list `context` of other tasks, as `CrewAI` has it, are
/// its dependencies.
fn keyed_fields<'a>(
    fields: &'a Map<String, Value>,
    tasks: &Map<String, Value>,
) -> Cow<'a, Map<String, Value>> {
    let is_other = |name: &Value| name.as_str().is_some_and(|name| tasks.contains_key(name));
    let context = fields.get("context").and_then(Value::as_array);
    if !context.is_some_and(|names| !names.is_empty() && names.iter().all(is_other)) {
        return Cow::Borrowed(fields);
    }
    let mut fields = fields.clone();
    if let Some(names) = fields.remove("context") {
        fields.entry("depends_on").or_insert(names);
    }
    Cow::Owned(fields)
}

/// Whether a value looks like a task: an object with a title, or with an id and another field of a
/// task.
fn is_task(item: &Value) -> bool {
    let has = |names: &[&str]| field(item, names).is_some();
    item.is_object()
        && (TITLES.iter().any(|name| field(item, &[name]).is_some_and(Value::is_string))
            || (has(IDS)
                && [GOALS, CRITERIA, DEPENDENCIES, STATUSES, FLAGS].iter().any(|names| has(names)))
            || (has(GOALS) && [&["order"], STATUSES, FLAGS].iter().any(|names| has(names))))
}

/// Whether at least two thirds of the entries of a list look like tasks.
fn is_tasks(list: &[Value]) -> bool {
    let tasks = list.iter().filter(|item| is_task(item)).count();
    tasks > 0 && tasks.saturating_mul(3) >= list.len().saturating_mul(2)
}

/// Whether a list of subtasks has objects with ids, and perhaps nothing else.
fn is_numbered(name: &str, list: &[Value]) -> bool {
    let has_id = |item: &Value| field(item, IDS).is_some();
    is_same_name(name, "subtasks") && !list.is_empty() && list.iter().all(has_id)
}

/// Whether a list has phases, at least one of them with tasks.
fn is_phases(path: &[String], list: &[Value]) -> bool {
    is_named(path, PHASE_LISTS)
        && list.iter().all(Value::is_object)
        && list.iter().any(|phase| tasks_of(phase).is_some())
}

/// The tasks of a phase, and the name of their field.
fn tasks_of(phase: &Value) -> Option<(&String, &Value)> {
    let fields = phase.as_object()?;
    TASK_LISTS.iter().find_map(|name| {
        let found = fields.iter().find(|(key, _)| is_same_name(key, name));
        found.filter(|(key, value)| is_list(std::slice::from_ref(*key), value))
    })
}

#[derive(Default)]
struct Lister {
    ids: UniqueIds,
    /// Whether each entry is on a separate line, so that a later one replaces an earlier one.
    is_lines: bool,
    unread: Vec<String>,
    repeated: Vec<(CorrectionKind, String, String, String)>,
}

impl Lister {
    fn read<'a>(
        &mut self,
        path: Vec<String>,
        list: &'a Value,
        others: Vec<(String, usize)>,
    ) -> FoundList<'a> {
        let key = path.last().cloned().unwrap_or_default();
        let place = path.join(".");
        let (mut phases, mut records) = (Vec::new(), Vec::new());
        match list.as_array().filter(|list| is_phases(&path, list)) {
            None => records = self.records(list, &place, None, None),
            Some(list) => {
                for (index, phase) in list.iter().enumerate() {
                    let (phase, found) = self.phase(index, phase, &place);
                    phases.push(phase);
                    records.extend(found);
                }
            }
        }
        let unread = std::mem::take(&mut self.unread);
        let repeated = std::mem::take(&mut self.repeated);
        FoundList { path, key, phases, records, others, unread, repeated }
    }

    fn phase<'a>(
        &mut self,
        index: usize,
        phase: &'a Value,
        place: &str,
    ) -> (RecordPhase, Vec<Record<'a>>) {
        let mut fields = RecordFields::new(phase.as_object().unwrap_or(&Map::new()));
        let id = fields.take(IDS, id_text).filter(|id| !id.is_empty());
        let id = id.unwrap_or_else(|| index.saturating_add(1).to_string());
        let title = fields.text(TITLES);
        let mut records = Vec::new();
        if let Some((name, tasks)) = tasks_of(phase) {
            fields.remove(name);
            records = self.records(tasks, &format!("{place}[{index}].{name}"), None, Some(&id));
        }
        let path = format!("{place}[{index}]");
        (RecordPhase { id, title, path, rest: fields.rest() }, records)
    }

    /// The entries of a list that look like tasks, without repeated ones.
    fn entries<'a>(&mut self, list: &'a Value, place: &str) -> Vec<Entry<'a>> {
        let titled = |text: &Value| Map::from_iter([("title".to_owned(), text.clone())]);
        let mut entries: Vec<Entry<'a>> = Vec::new();
        match list {
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    let place = format!("{place}[{index}]");
                    let fields = match item {
                        Value::Object(fields) => Cow::Borrowed(fields),
                        Value::String(_) => Cow::Owned(titled(item)),
                        _ => {
                            self.unread.push(place);
                            continue;
                        }
                    };
                    entries.push(Entry { place, key: None, fields });
                }
            }
            Value::Object(map) => {
                for (key, item) in map {
                    let place = child_path(place, key);
                    let fields = match item {
                        Value::Object(fields) => keyed_fields(fields, map),
                        // A group of tasks, not a task itself.
                        Value::String(_) if key.starts_with("epic-") => {
                            self.unread.push(place);
                            continue;
                        }
                        Value::String(_) => Cow::Owned(Map::from_iter([
                            ("title".to_owned(), Value::String(key.clone())),
                            ("status".to_owned(), item.clone()),
                        ])),
                        _ => {
                            self.unread.push(place);
                            continue;
                        }
                    };
                    entries.push(Entry { place, key: Some(key.clone()), fields });
                }
            }
            _ => {}
        }
        self.without_repeated(entries)
    }

    /// Leaves out all but the newest of the entries that are the same record.
    fn without_repeated<'a>(&mut self, entries: Vec<Entry<'a>>) -> Vec<Entry<'a>> {
        let mut kept: Vec<Entry<'a>> = Vec::new();
        let mut by_id: BTreeMap<String, usize> = BTreeMap::new();
        for entry in entries {
            let Some(id) = written_id(&entry) else {
                kept.push(entry);
                continue;
            };
            let first = by_id.get(&id).copied();
            let Some(earlier) = first.and_then(|at| kept.get_mut(at)) else {
                by_id.insert(id, kept.len());
                kept.push(entry);
                continue;
            };
            let (old, new) = (updated(&earlier.fields), updated(&entry.fields));
            let is_same = earlier.fields == entry.fields;
            if !is_same && !self.is_lines && (old.is_none() || new.is_none()) {
                kept.push(entry);
                continue;
            }
            let path = entry.place.clone();
            self.repeated.push((CorrectionKind::RepeatedRecord, id.clone(), id, path));
            if new >= old {
                *earlier = entry;
            }
        }
        kept
    }

    fn records<'a>(
        &mut self,
        list: &'a Value,
        place: &str,
        parent: Option<&str>,
        phase: Option<&str>,
    ) -> Vec<Record<'a>> {
        let entries = self.entries(list, place);
        let ids = record_ids(&entries);
        let prefixed = |id: &String| match parent {
            Some(parent) if !id.strip_prefix(parent).is_some_and(|rest| rest.starts_with('.')) => {
                format!("{parent}.{id}")
            }
            _ => id.clone(),
        };
        let mut full: Vec<String> = ids.iter().map(prefixed).collect();
        // Ids that start again in a phase get the id of the phase as a prefix.
        if let (Some(phase), None) = (phase, parent)
            && full.iter().any(|id| self.ids.contains(id))
        {
            full = full.iter().map(|id| format!("{phase}.{id}")).collect();
        }
        let mut records = Vec::new();
        for (entry, id) in entries.into_iter().zip(full) {
            let id = self.ids.take(&id);
            let written = written_id(&entry);
            let Entry { place: path, fields, .. } = entry;
            if let Some(name) = written.as_ref().filter(|name| prefixed(name) != id) {
                let kind = CorrectionKind::RepeatedId;
                self.repeated.push((kind, id.clone(), name.clone(), path.clone()));
            }
            let (mut subtasks, mut subtask_keys) = (Vec::new(), Vec::new());
            if let Cow::Borrowed(fields) = &fields {
                for (name, list) in fields
                    .iter()
                    .filter(|(name, _)| is_named(std::slice::from_ref(*name), SUBTASK_LISTS))
                {
                    let list_is = |test: &dyn Fn(&[Value]) -> bool| {
                        list.as_array().is_some_and(|it| test(it))
                    };
                    if list_is(&|list| list.is_empty()) {
                        subtask_keys.push(name.clone());
                    } else if list_is(&|list| is_tasks(list) || is_numbered(name, list)) {
                        let place = format!("{path}.{name}");
                        subtasks.extend(self.records(list, &place, Some(&id), phase));
                        subtask_keys.push(name.clone());
                    }
                }
            }
            let (parent, phase) = (parent.map(str::to_owned), phase.map(str::to_owned));
            records.push(Record {
                id,
                written,
                parent,
                path,
                phase,
                fields,
                subtasks,
                subtask_keys,
            });
        }
        records
    }
}

/// The id of an entry in the file.
fn written_id(entry: &Entry<'_>) -> Option<String> {
    // The number of a task in Taskwarrior changes when others end.
    let is_renumbered = ["uuid", "entry"].iter().all(|name| entry.fields.contains_key(*name));
    let names = if is_renumbered { &["uuid"] } else { IDS };
    let id = names.iter().find_map(|name| field_in(&entry.fields, &[name]).and_then(id_text));
    id.filter(|id| !id.is_empty()).or_else(|| entry.key.clone())
}

/// The time of the last update.
fn updated(fields: &Map<String, Value>) -> Option<String> {
    field_in(fields, UPDATED).and_then(id_text)
}

/// The ids of the entries of a list. Numbers of an order, and names, are ids only if they are
/// unique in the list; otherwise the position is the id.
fn record_ids(list: &[Entry<'_>]) -> Vec<String> {
    let number = |entry: &Entry<'_>| {
        let names = ["order", "step", "index"];
        let numbers = names.iter().filter_map(|name| entry.fields.get(*name));
        numbers.into_iter().find(|value| value.is_number()).and_then(id_text)
    };
    let name = |entry: &Entry<'_>| {
        let name = entry.fields.get("name")?.as_str()?.trim();
        let is_word = !name.is_empty() && !name.contains(char::is_whitespace);
        let is_id =
            (is_word || entry.fields.contains_key("title")) && !name.contains(char::is_control);
        (is_id && !name.is_empty()).then(|| name.to_owned())
    };
    let unique = |read: &dyn Fn(&Entry<'_>) -> Option<String>| {
        let found: Option<Vec<String>> = list.iter().map(read).collect();
        found.filter(|ids| ids.iter().collect::<BTreeSet<_>>().len() == ids.len())
    };
    if list.iter().any(|entry| written_id(entry).is_some()) {
        let numbered = list.iter().zip(1_usize..);
        return numbered
            .map(|(entry, position)| written_id(entry).unwrap_or_else(|| position.to_string()))
            .collect();
    }
    let positions = || (1..=list.len()).map(|position| position.to_string()).collect();
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
