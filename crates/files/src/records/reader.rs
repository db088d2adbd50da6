//! Reads records into a plan, as a row of the mapping table says.
//!
//! - A task comes after its subtasks and waits for them, and they wait for its dependencies. This
//!   order is inferred: it yields to written dependencies.
//! - A dependency names the nearest relative with that id, then a task of the same phase, then the
//!   nearest one before, then any; then a number in the order, or a title.
//! - If no task has a field for dependencies, the order of the file is used, unless the tool states
//!   its dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::beads::{IdleRecord, idle_record};
use super::field_names::{
    BLOCKED, CHILDREN, CREATED, CRITERIA, DEPENDENCIES, EDGE_TYPES, FLAGS, GOALS, IDS, MODIFIED,
    OWNERS, PARENTS, PHASES, PROGRESS, STATUSES, TAGS, TARGETS, TITLES,
};
use super::list_finder::{FoundList, Record};
use super::mapping::{EdgeKind, Mapping, Order, Priority, edge_kind};
use super::must_read::{Unread, unread_progress_fields, unread_step_fields};
use super::native_fields::{self, listed_texts, take_criteria};
use super::record_fields::{
    RecordFields, field, field_in, id_text, is_all_ticked, name_list, natural, path_list, truth,
};
use super::step_fields::{read_step_fields, take_changes};
use crate::diagnostic::{Diagnostic, Severity};
use crate::draft::{
    Concurrency, ImplicitOrder, PlanDraft, StepSource, range_note, success_criterion, tool_extra,
};
use crate::plan_file::{PlanFormat, StatedCommand};
use crate::read_report::{CorrectionKind, OPTIONAL_TAG, PartKind};
use crate::syntax::Node;
use plan_ledger::plan::{Criterion, Gate, Phase, Step};

/// Reads the tasks of a list. `rows` are its entries if each is on a line of its own.
pub(super) fn read_tasks(
    name: &str,
    mapping: &'static Mapping,
    found: FoundList<'_>,
    rows: Option<&Node>,
) -> PlanDraft {
    let mut reader = RecordReader {
        name,
        mapping,
        rows,
        draft: PlanDraft::new(mapping.format),
        tasks: Vec::new(),
        index: BTreeMap::new(),
        idle: BTreeMap::new(),
        blockers: BTreeMap::new(),
    };
    reader.read(found);
    reader.draft
}

/// A task and its relations.
struct Task<'a> {
    id: String,
    path: String,
    fields: std::borrow::Cow<'a, Map<String, Value>>,
    subtask_keys: Vec<String>,
    phase: Option<String>,
    rank: Option<i64>,
    /// The name of the field with the dependencies.
    dependencies_field: &'static str,
    /// The task whose list has this one.
    around: Option<String>,
    parents: Vec<String>,
    after: Vec<String>,
    depth: usize,
}

struct RecordReader<'a> {
    /// The name of the file.
    name: &'a str,
    mapping: &'static Mapping,
    rows: Option<&'a Node>,
    draft: PlanDraft,
    tasks: Vec<Task<'a>>,
    /// The tasks by each name that a dependency may use, and the rank of such a name.
    index: BTreeMap<String, Vec<(u8, usize)>>,
    /// Records that are not work.
    idle: BTreeMap<String, IdleRecord>,
    /// The question of the open gates before each task.
    blockers: BTreeMap<String, Vec<String>>,
}

impl<'a> RecordReader<'a> {
    fn read(&mut self, found: FoundList<'a>) {
        let FoundList { records, repeated, unread, key, .. } = found;
        for (kind, id, name, path) in repeated {
            let line = self.line(&path);
            self.draft.add_correction(kind, &id, &name, line);
        }
        if let Some(first) = unread.first() {
            let line = self.line(first);
            self.draft.add_unread(PartKind::Record, unread.len(), &key, line);
        }
        let is_stated = self.mapping.order == Order::Stated;
        let names: Vec<&str> = [DEPENDENCIES, BLOCKED].concat();
        let has_dependencies = is_stated || records.iter().any(|record| record.has_any(&names));
        let mut records = records;
        let key = sort(&mut records, self.mapping.order, has_dependencies);
        if !has_dependencies && records.len() > 1 {
            let message = format!("no task has dependencies: the order is used ({key})");
            self.draft.add_note(None, message);
        }
        for record in records {
            self.add_task(record, 0);
        }
        if is_stated && self.rows.is_some() {
            // The lines of such a file move while the tool writes it.
            self.tasks.sort_by_cached_key(|task| (created(&task.fields), natural(&task.id)));
        }
        self.index_names();
        self.relate();
        if !has_dependencies {
            self.put_parts_first();
        }
        self.write(has_dependencies);
    }

    /// The line of a row.
    fn line(&self, path: &str) -> Option<u64> {
        let index = path.strip_prefix('[')?.split(']').next()?.parse::<usize>().ok()?;
        Some(self.rows?.items().get(index)?.place.line)
    }

    /// Adds a record after its subtasks.
    fn add_task(&mut self, record: Record<'a>, depth: usize) {
        let Record { id, written, parent, path, phase, fields, subtasks, subtask_keys } = record;
        if let Some(idle) = idle_record(self.mapping, &fields) {
            if matches!(idle, IdleRecord::NoWork) {
                self.draft.add_unread(PartKind::Record, 1, "", self.line(&path));
            }
            if let Some(name) = written {
                self.idle.insert(name, idle);
            }
            let others = self.draft.plan_file.plan.extra.entry(self.mapping.extra.to_owned());
            let others = others.or_insert_with(|| json!({"others": []}));
            if let Some(list) = others.get_mut("others").and_then(Value::as_array_mut) {
                list.push(Value::Object(fields.into_owned()));
            }
            return;
        }
        let rank = match self.mapping.order {
            Order::Field(name) => fields.get(name).and_then(Value::as_i64),
            Order::Stated => None,
        };
        let phase = phase.or_else(|| {
            let word = field_in(&fields, PHASES).and_then(id_text);
            word.filter(|word| !word.is_empty())
        });
        for subtask in subtasks {
            self.add_task(subtask, depth.saturating_add(1));
        }
        self.tasks.push(Task {
            id,
            path,
            fields,
            subtask_keys,
            phase,
            rank,
            dependencies_field: "",
            parents: parent.iter().cloned().collect(),
            around: parent,
            after: Vec::new(),
            depth,
        });
    }

    /// Indexes the tasks by name. An id takes precedence over a number, and a number over a title.
    fn index_names(&mut self) {
        for (at, task) in self.tasks.iter().enumerate() {
            let mut names = vec![(0_u8, task.id.clone())];
            let written =
                IDS.iter().find_map(|name| field_in(&task.fields, &[name]).and_then(id_text));
            names.extend(written.map(|name| (0, name)));
            for (rank, field) in (1_u8..).zip(["order", "number", "step", "index", "name", "title"])
            {
                let name = field_in(&task.fields, &[field]).and_then(id_text);
                names.extend(name.map(|name| (rank, name)));
            }
            let mut seen = BTreeSet::new();
            for (rank, name) in names {
                if !name.is_empty() && seen.insert(name.clone()) {
                    self.index.entry(name).or_default().push((rank, at));
                }
            }
        }
    }

    /// The other task with this id.
    fn exact(&self, from: usize, id: &str) -> Option<usize> {
        let found = self.index.get(id)?;
        found
            .iter()
            .map(|(_, at)| *at)
            .find(|at| *at != from && self.tasks.get(*at).is_some_and(|task| task.id == id))
    }

    /// The task that a name means, seen from another one.
    fn resolve(&self, from: usize, name: &str) -> Option<usize> {
        let task = self.tasks.get(from)?;
        let mut scope = task.id.as_str();
        while let Some((outer, _)) = scope.rsplit_once('.') {
            if let Some(found) = self.exact(from, &format!("{outer}.{name}")) {
                return Some(found);
            }
            scope = outer;
        }
        let found = self.index.get(name)?;
        let rank = found.iter().map(|(rank, _)| *rank).min()?;
        let best: Vec<usize> =
            found.iter().filter(|(each, _)| *each == rank).map(|(_, at)| *at).collect();
        if let [only] = best.as_slice() {
            return Some(*only);
        }
        // A top-level task is meant before a subtask that has the number in its own list.
        let top = best.iter().copied().filter(|at| {
            self.tasks.get(*at).is_some_and(|each| each.depth == 0 || each.id == name)
        });
        let top: Vec<usize> = top.collect();
        let best = if top.is_empty() { best } else { top };
        let is_same_phase =
            |at: &usize| self.tasks.get(*at).is_some_and(|each| each.phase == task.phase);
        let in_phase = best.iter().copied().find(|at| *at != from && is_same_phase(at));
        let before = || best.iter().copied().rfind(|at| *at < from);
        let other = || best.iter().copied().find(|at| *at != from);
        in_phase.or_else(before).or_else(other).or_else(|| best.first().copied())
    }

    /// Reads the dependencies, parents and children of all tasks.
    fn relate(&mut self) {
        for at in 0..self.tasks.len() {
            let Some(task) = self.tasks.get(at) else { continue };
            let fields = RecordFields::new(&task.fields);
            let mut edges = Vec::new();
            for name in DEPENDENCIES {
                if let Some(value) = fields.get(name) {
                    if let Some(task) = self.tasks.get_mut(at)
                        && task.dependencies_field.is_empty()
                    {
                        task.dependencies_field = name;
                    }
                    edges.extend(self.names_of(at, value, None));
                }
            }
            for value in PARENTS.iter().filter_map(|name| fields.get(name)) {
                edges.extend(self.names_of(at, value, Some("parent")));
            }
            for (word, name) in edges {
                self.add_edge(at, &word, &name);
            }
            for value in BLOCKED.iter().filter_map(|name| fields.get(name)) {
                for (_, name) in self.names_of(at, value, None) {
                    let id = self.tasks.get(at).map(|task| task.id.clone()).unwrap_or_default();
                    match self.resolve(at, &name) {
                        Some(to) if to != at => self.push_after(to, id),
                        _ => self.correct(CorrectionKind::MissingDependency, at, &name),
                    }
                }
            }
            for value in CHILDREN.iter().filter_map(|name| fields.get(name)) {
                for name in value.as_array().into_iter().flatten().filter_map(id_text) {
                    let id = self.tasks.get(at).map(|task| task.id.clone()).unwrap_or_default();
                    if let Some(child) = self.resolve(at, &name).filter(|child| *child != at)
                        && let Some(child) = self.tasks.get_mut(child)
                        && !child.parents.contains(&id)
                    {
                        child.parents.push(id);
                    }
                }
            }
        }
    }

    fn push_after(&mut self, at: usize, name: String) {
        if let Some(task) = self.tasks.get_mut(at)
            && !task.after.contains(&name)
        {
            task.after.push(name);
        }
    }

    /// The names in a field for dependencies, each with the type of the dependency.
    fn names_of(&mut self, at: usize, value: &Value, kind: Option<&str>) -> Vec<(String, String)> {
        let kind = kind.unwrap_or_default().to_owned();
        let one = |value: &Value| -> Option<(String, String)> {
            if let Some(name) = id_text(value) {
                return Some((kind.clone(), name));
            }
            let target = TARGETS.iter().find_map(|name| field(value, &[name]).and_then(id_text))?;
            let word = field(value, EDGE_TYPES).and_then(Value::as_str).unwrap_or(&kind);
            Some((word.to_owned(), target))
        };
        let is_none = |name: &str| {
            ["", "-", "none", "n/a", "na", "null", "nothing", "no", "[]"]
                .contains(&name.to_lowercase().as_str())
        };
        let mut names = Vec::new();
        match value {
            Value::Null => {}
            Value::Array(items) => {
                for item in items.iter().filter(|item| !item.is_null()) {
                    match one(item) {
                        Some(edge) => names.push(edge),
                        None => self.correct(
                            CorrectionKind::UnreadableDependency,
                            at,
                            &item.to_string(),
                        ),
                    }
                }
            }
            Value::String(text) if self.resolve(at, text.trim()).is_some() => {
                names.push((kind, text.trim().to_owned()));
            }
            Value::String(text) => {
                let parts = text.split([',', ';', '\n']).flat_map(|part| part.split(" and "));
                let bare = |part: &str| {
                    part.trim()
                        .trim_start_matches(['#', '[', '-', ' '])
                        .trim_end_matches(']')
                        .to_owned()
                };
                names.extend(parts.map(|part| (kind.clone(), bare(part))));
            }
            other => match one(other) {
                Some(edge) => names.push(edge),
                None => self.correct(CorrectionKind::UnreadableDependency, at, &other.to_string()),
            },
        }
        names.retain(|(_, name)| !is_none(name));
        names
    }

    fn correct(&mut self, kind: CorrectionKind, at: usize, name: &str) {
        let Some(task) = self.tasks.get(at) else { return };
        let (id, line) = (task.id.clone(), self.line(&task.path));
        self.draft.add_correction(kind, &id, name, line);
    }

    fn add_edge(&mut self, at: usize, word: &str, name: &str) {
        let kind = edge_kind(word);
        if matches!(kind, EdgeKind::Unordered) {
            return;
        }
        if let Some(idle) = self.idle.get(name).cloned() {
            let id = self.tasks.get(at).map(|task| task.id.clone()).unwrap_or_default();
            match (idle, &kind) {
                // A person opens a gate of the tool.
                (
                    IdleRecord::OpenGate(question),
                    EdgeKind::Blocks | EdgeKind::ConditionalBlocks,
                ) => {
                    self.blockers.entry(id).or_default().push(question);
                }
                _ => self.correct(CorrectionKind::IdleDependency, at, name),
            }
            return;
        }
        let found = match kind {
            EdgeKind::Parent => self.exact(at, name).or_else(|| self.resolve(at, name)),
            _ => self.resolve(at, name),
        };
        let target = found.and_then(|to| self.tasks.get(to)).map(|task| task.id.clone());
        let target = target.unwrap_or_else(|| name.to_owned());
        let is_own = found == Some(at);
        match kind {
            EdgeKind::Parent => {
                if found.is_some()
                    && !is_own
                    && let Some(task) = self.tasks.get_mut(at)
                    && !task.parents.contains(&target)
                {
                    task.parents.push(target);
                }
            }
            _ => {
                if matches!(kind, EdgeKind::ConditionalBlocks) {
                    let task = self.tasks.get(at);
                    let (id, line) = task.map_or((String::new(), None), |task| {
                        (task.id.clone(), self.line(&task.path))
                    });
                    let message = format!(
                        "issue `{id}`: {word} is read as blocks: it waits for `{target}`, \
                         regardless of its outcome"
                    );
                    self.draft.add_note(line, message);
                }
                self.push_after(at, target);
            }
        }
    }

    /// Moves tasks that others name as their parent after them, as `add_task` does with subtasks.
    fn put_parts_first(&mut self) {
        let mut parts: BTreeMap<String, Vec<Task<'a>>> = BTreeMap::new();
        let mut top = Vec::new();
        for task in std::mem::take(&mut self.tasks) {
            match task.parents.first().filter(|_| task.around.is_none()) {
                Some(parent) => parts.entry(parent.clone()).or_default().push(task),
                None => top.push(task),
            }
        }
        // A task is taken twice: once to put its parts before it, then itself.
        let mut rest: Vec<Task<'a>> = top.into_iter().rev().collect();
        loop {
            while let Some(task) = rest.pop() {
                match parts.remove(&task.id) {
                    Some(own) => {
                        rest.push(task);
                        rest.extend(own.into_iter().rev());
                    }
                    None => self.tasks.push(task),
                }
            }
            // Tasks in a circle of parents have no top.
            let Some((_, own)) = parts.pop_first() else { break };
            rest.extend(own.into_iter().rev());
        }
    }

    /// Writes the tasks as steps.
    fn write(&mut self, has_dependencies: bool) {
        let tasks = std::mem::take(&mut self.tasks);
        let ids: BTreeMap<&str, usize> =
            (0..).zip(&tasks).map(|(at, task)| (task.id.as_str(), at)).collect();
        let mut children: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, task) in tasks.iter().enumerate() {
            for parent in task.parents.iter().filter_map(|parent| ids.get(parent.as_str())) {
                children.entry(*parent).or_default().push(at);
            }
        }
        self.read_phases(&tasks);
        let mut inferred: Vec<Vec<String>> = Vec::new();
        let mut written: Vec<Vec<String>> = Vec::new();
        let mut order = ImplicitOrder::new();
        let mut open: BTreeMap<usize, ImplicitOrder> = BTreeMap::new();
        let mut phase = None;
        for (at, task) in tasks.iter().enumerate() {
            let above = ancestors(at, &tasks, &ids);
            // A task cannot wait for one that contains it.
            let is_above = |name: &String| {
                above.iter().any(|up| tasks.get(*up).is_some_and(|up| up.id == *name))
            };
            let (own, kept): (Vec<String>, Vec<String>) =
                task.after.iter().cloned().partition(|name| is_above(name));
            for name in own {
                let line = self.line(&task.path);
                self.draft.add_correction(CorrectionKind::OwnDependency, &task.id, &name, line);
            }
            let mut implied = Vec::new();
            if has_dependencies {
                for up in &above {
                    let Some(up) = tasks.get(*up) else { continue };
                    let is_inside = |name: &String| {
                        ids.get(name.as_str()).is_some_and(|to| {
                            up.id == *name
                                || ancestors(*to, &tasks, &ids).iter().any(|each| {
                                    tasks.get(*each).is_some_and(|each| each.id == up.id)
                                })
                        })
                    };
                    implied.extend(
                        up.after.iter().filter(|name| !is_inside(name) && !is_above(name)).cloned(),
                    );
                }
                let inner = children.get(&at).into_iter().flatten();
                implied.extend(
                    inner.filter_map(|child| tasks.get(*child)).map(|child| child.id.clone()),
                );
            } else {
                if task.depth == 0 && phase != task.phase {
                    phase.clone_from(&task.phase);
                    order.begin_phase(Concurrency::Sequential);
                }
                implied = in_order(at, &tasks, &ids, &mut order, &mut open);
            }
            written.push(kept);
            inferred.push(implied);
        }
        self.draft.plan_file.plan.barriers = order.barriers;
        for ((task, after), implied) in tasks.iter().zip(written).zip(inferred) {
            self.write_step(task, after, implied);
        }
        self.close_parts(&tasks);
    }

    /// Marks the open parts of tasks that are done. A task comes after its parts.
    fn close_parts(&mut self, tasks: &[Task<'_>]) {
        for task in tasks.iter().rev() {
            let Some(around) = &task.around else { continue };
            if let Some(source) = self.draft.plan_file.done.get(around).cloned() {
                let line = self.line(&task.path);
                self.draft.close_part(&task.id, around, source, line);
            }
        }
    }

    /// Adds the phases that tasks name and the file does not list.
    fn read_phases(&mut self, tasks: &[Task<'_>]) {
        let phases = &mut self.draft.plan_file.plan.phases;
        let mut known: BTreeSet<String> = phases.iter().map(|phase| phase.id.clone()).collect();
        for id in tasks.iter().filter_map(|task| task.phase.clone()) {
            if known.insert(id.clone()) {
                phases.push(Phase { id, title: String::new() });
            }
        }
    }

    fn write_step(&mut self, task: &Task<'_>, after: Vec<String>, inferred: Vec<String>) {
        let mut fields = RecordFields::new(&task.fields);
        let unread = self.read_status(&task.id, &mut fields);
        self.add_unread_fields(task, unread);
        for key in &task.subtask_keys {
            fields.remove(key);
        }
        match self.mapping.format {
            PlanFormat::Beads => fields.keep_all(DEPENDENCIES),
            _ => drop(fields.take_all(DEPENDENCIES)),
        }
        fields.take(IDS, |value| id_text(value).filter(|name| is_own_id(&task.id, name)));
        fields
            .take(PHASES, |value| id_text(value).filter(|word| task.phase.as_ref() == Some(word)));
        let mut step = Step {
            id: task.id.clone(),
            title: fields.text(TITLES),
            phase: task.phase.clone(),
            after,
            priority: self.priority(&mut fields),
            ..Step::default()
        };
        for text in fields.lists(&["successSignal", "success"]) {
            if let Some(note) = range_note(&text) {
                self.draft.add_note(self.line(&task.path), note);
            }
            let (criterion, name) = success_criterion(&text);
            step.acceptance.push(criterion);
            step.outputs.extend(name.filter(|name| !step.outputs.contains(name)));
        }
        self.state_facts(&task.id, &fields);
        let (criteria, mut unread) = take_criteria(&mut fields);
        step.acceptance.extend(criteria);
        let created = take_changes(&mut step, &mut fields);
        let owner = fields.take(OWNERS, |value| name_list(value).filter(|names| !names.is_empty()));
        step.owner = owner.and_then(|names| names.into_iter().next());
        step.tools = fields.take(&["tools"], name_list).unwrap_or_default().into();
        step.tags = fields.take(TAGS, name_list).unwrap_or_default().into();
        if let Some(is_optional) = fields.take(&["optional"], truth)
            && is_optional
        {
            step.tags.change(|tags| tags.push(OPTIONAL_TAG.to_owned()));
        }
        native_fields::read_step(&mut step, &mut fields);
        let notes = read_step_fields(&mut step, &mut fields);
        step.goal = fields.texts(GOALS).join("\n\n");
        if !notes.is_empty() {
            let goal = [step.goal, notes.join("\n")].join("\n\n");
            step.goal = goal.trim().into();
        }
        if let Some(questions) = self.blockers.get(&task.id) {
            let mut gate = step.gate.take().map_or_else(Gate::default, |gate| *gate);
            let own = Some(&gate.question).filter(|question| !question.is_empty());
            let all: Vec<&str> = own.into_iter().chain(questions).map(String::as_str).collect();
            gate.question = all.join("; ");
            step.gate = Some(Box::new(gate));
        }
        unread.extend(unread_step_fields(fields.left()));
        self.draft.add_kept(fields.left());
        let is_empty = step.title.is_empty() && step.goal.is_empty() && step.acceptance.is_empty();
        if self.rows.is_some() && is_empty && step.command.is_none() {
            let unused = fields.left().keys().map(|name| format!("`{}`", name.escape_debug()));
            let unused = unused.collect::<Vec<_>>().join(", ");
            let message = match unused.as_str() {
                "" => "the task has no text; give it a title".to_owned(),
                _ => format!(
                    "the task has no text, and is not read from {unused}; name its title `title`"
                ),
            };
            self.draft.add_problem(self.line(&task.path), message);
        }
        self.add_unread_fields(task, unread);
        self.draft.state_commands(commands_of(&step));
        step.extra = tool_extra(self.mapping.extra, fields.rest());
        step.extra.extend(created);
        let (record, dependencies) = (task.path.clone(), task.dependencies_field);
        let source = StepSource::Path { record, dependencies };
        self.draft.add_step(step, source, inferred);
    }

    /// Reports fields that must be read and cannot be, each with its place.
    fn add_unread_fields(&mut self, task: &Task<'_>, unread: Vec<Unread>) {
        for (name, message) in unread {
            let place = format!("{}.{name}", task.path);
            let problem = Diagnostic::at_path(Severity::Problem, place, message);
            let line = self.line(&task.path);
            self.draft.diagnostics.push(Diagnostic { line, ..problem });
        }
    }

    /// Keeps which criteria are written for a program, and which files exist.
    fn state_facts(&mut self, id: &str, fields: &RecordFields) {
        let facts = &mut self.draft.facts;
        facts.listed.extend(listed_texts(fields));
        let paths = |names: &'static [&str]| {
            let lists = names.iter().filter_map(|name| path_list(fields.get(name)?));
            lists.flatten()
        };
        facts.modified.extend(paths(MODIFIED).map(|path| (id.to_owned(), path)));
        facts.created.extend(paths(CREATED));
    }

    fn priority(&self, fields: &mut RecordFields) -> i32 {
        let rule = self.mapping.priority;
        let read = |value: &Value| match value {
            Value::Number(number) => {
                let number = i32::try_from(number.as_i64()?).ok()?;
                match rule {
                    Priority::FromOne => number.checked_neg(),
                    Priority::FromZero => 2_i32.checked_sub(number)?.checked_mul(10),
                    Priority::Words => None,
                }
            }
            Value::String(word) => match word.trim().to_ascii_lowercase().as_str() {
                "critical" | "urgent" | "highest" | "blocker" | "p0" => Some(20),
                "high" | "major" | "p1" | "h" => Some(10),
                "medium" | "normal" | "moderate" | "p2" | "m" => Some(0),
                "low" | "minor" | "p3" | "l" => Some(-10),
                "lowest" | "trivial" | "p4" => Some(-20),
                _ => None,
            },
            _ => None,
        };
        fields.take(&["priority"], read).unwrap_or_default()
    }

    /// Reads the status and the fields that the tool updates during the work.
    fn read_status(&mut self, id: &str, fields: &mut RecordFields) -> Vec<Unread> {
        let mut progress = fields.take_all(PROGRESS);
        progress.extend(fields.take_all(self.mapping.progress));
        let reason =
            field_in(&progress, &["closeReason"]).and_then(Value::as_str).map(str::to_owned);
        let unread = unread_progress_fields(&progress);
        if !progress.is_empty() {
            let progress = tool_extra(self.mapping.extra, progress);
            self.draft.plan_file.progress.insert(id.to_owned(), progress);
        }
        let word = fields.take(STATUSES, |value| {
            let word = value.as_str().or_else(|| field(value, &["name", "type"])?.as_str())?;
            Some(word.trim().to_owned())
        });
        if let Some(word) = word.filter(|word| !word.is_empty()) {
            let mut source = format!("{}: status {word}", self.name);
            if let Some(reason) = reason.filter(|reason| !reason.trim().is_empty()) {
                let _ = write!(source, " ({})", reason.trim());
            }
            self.draft.set_status(id, &word, source);
        }
        for flag in FLAGS {
            let Some(is_set) = fields.take(&[flag], truth) else { continue };
            let word = format!("{flag} {is_set}");
            if is_set {
                let source = format!("{}: {word}", self.name);
                self.draft.plan_file.done.insert(id.to_owned(), source);
            }
            self.draft.plan_file.statuses.entry(id.to_owned()).or_insert(word);
        }
        let criteria = CRITERIA.iter().filter_map(|name| fields.get(name));
        if !self.draft.plan_file.statuses.contains_key(id)
            && criteria.into_iter().any(is_all_ticked)
        {
            let source = format!("{}: all criteria are ticked", self.name);
            self.draft.plan_file.done.insert(id.to_owned(), source);
        }
        unread
    }
}

/// The dependencies of a task by its place in the order. Subtasks come before their task.
fn in_order(
    at: usize,
    tasks: &[Task<'_>],
    ids: &BTreeMap<&str, usize>,
    order: &mut ImplicitOrder,
    open: &mut BTreeMap<usize, ImplicitOrder>,
) -> Vec<String> {
    let Some(task) = tasks.get(at) else { return Vec::new() };
    let is_parallel = |task: &Task<'_>, other: Option<&Task<'_>>| {
        task.rank.is_some()
            && other.is_some_and(|other| other.rank == task.rank && other.phase == task.phase)
    };
    let concurrency = |at: usize| {
        let Some(task) = tasks.get(at).filter(|task| task.depth == 0) else {
            return Concurrency::Sequential;
        };
        let mut before = tasks.get(..at).into_iter().flatten().rev();
        let mut after = tasks.get(at.saturating_add(1)..).into_iter().flatten();
        let (before, after) =
            (before.find(|each| each.depth == 0), after.find(|each| each.depth == 0));
        if is_parallel(task, before) || is_parallel(task, after) {
            Concurrency::Parallel
        } else {
            Concurrency::Sequential
        }
    };
    // The orders of the tasks around this one, from the outermost.
    let above: Vec<usize> = ancestors(at, tasks, ids).into_iter().rev().collect();
    for (depth, up) in above.iter().enumerate() {
        if !open.contains_key(up) {
            let mode = concurrency(*up);
            let around = depth.checked_sub(1).and_then(|depth| above.get(depth));
            let inner = match around.and_then(|around| open.get_mut(around)) {
                Some(around) => around.subtasks(mode),
                None => order.subtasks(mode),
            };
            open.insert(*up, inner);
        }
    }
    let inner = open.remove(&at);
    let around = above.last().and_then(|up| open.get_mut(up));
    let own = around.unwrap_or(order);
    match inner {
        Some(inner) => own.add_parent(&task.id, concurrency(at), inner),
        None => own.add(&task.id, concurrency(at)),
    }
}

/// Whether a name in the file is the id of the step, perhaps without the id of its parent.
fn is_own_id(id: &str, name: &str) -> bool {
    id == name || id.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'))
}

/// The tasks around a task, the nearest first.
fn ancestors(at: usize, tasks: &[Task<'_>], ids: &BTreeMap<&str, usize>) -> Vec<usize> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::from([at]);
    let mut rest = vec![at];
    while let Some(each) = rest.pop() {
        let parents = tasks.get(each).map(|task| task.parents.as_slice()).unwrap_or_default();
        for parent in parents.iter().filter_map(|parent| ids.get(parent.as_str())) {
            if seen.insert(*parent) {
                found.push(*parent);
                rest.push(*parent);
            }
        }
    }
    found
}

/// When a record was created, as text.
fn created(fields: &Map<String, Value>) -> String {
    field_in(fields, &["createdAt", "createdDate"]).and_then(id_text).unwrap_or_default()
}

/// The commands that a record states in the native form.
fn commands_of(step: &Step) -> impl Iterator<Item = StatedCommand> {
    let criteria = step.acceptance.iter().filter_map(|criterion| match criterion {
        Criterion::Command(command) => Some(command),
        Criterion::Text(_) | Criterion::Cel(_) => None,
    });
    let commands = step.command.iter().chain(&step.probe).chain(criteria);
    commands.map(|command| StatedCommand { step: Some(step.id.clone()), command: command.clone() })
}

/// Sorts the tasks by their numbers, if all have one, and returns the name of the sort key.
fn sort(records: &mut [Record<'_>], order: Order, has_dependencies: bool) -> &'static str {
    let Order::Field(name) = order else { return "order of the list" };
    let is_ranked = records.iter().all(|record| record.rank(name).is_some());
    if !is_ranked || has_dependencies {
        return "order of the list";
    }
    // Phases keep their order.
    let mut positions: BTreeMap<Option<String>, usize> = BTreeMap::new();
    for record in records.iter() {
        let count = positions.len();
        positions.entry(record.phase.clone()).or_insert(count);
    }
    records.sort_by_key(|record| (positions.get(&record.phase).copied(), record.rank(name)));
    if name == "priority" { "`priority`" } else { "`order`" }
}
