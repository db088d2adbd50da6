//! Lists of tasks in JSON: Ralph's `prd.json`, plans with `order` and `files_to_modify`, and any
//! other list of objects with an id or a title.
//!
//! - The list is the first one from the top down in which every object looks like a task; names
//!   such as `tasks` take precedence at the same depth. Fields around the list belong to the plan.
//! - A list of phases, each with a list of tasks, gives the phases. Tasks inside a task are its
//!   subtasks: they come first, and the task waits for them.
//! - A dependency names an id, a number in the order, or a title. If no task has a field for
//!   dependencies, the order is used: `order`, Ralph's `priority`, or the order of the list.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::field_names::{
    CHANGES, CRITERIA, DEPENDENCIES, FLAGS, GOALS, IDS, PROGRESS, STATUSES, TITLES,
};
use super::list_finder::{self, FoundList, Record};
use super::record_fields::{RecordFields, fractional_id, id_list, id_text, text_list};
use crate::files::diagnostic::{Diagnostic, Severity};
use crate::files::draft::{Concurrency, ImplicitOrder, PlanDraft, StepSource, tool_extra};
use crate::files::plan_file::PlanFormat;
use crate::plan::{Criterion, Phase, Step};

pub(crate) use super::list_finder::has_foreign_task_fields;

/// Reads a JSON value, if it has a list of tasks.
pub(crate) fn parse(name: &str, value: &Value) -> Option<PlanDraft> {
    let found = list_finder::find(value)?;
    let format = if found.key == "userStories" { PlanFormat::Ralph } else { PlanFormat::Records };
    let mut reader =
        TaskListReader { name, format, draft: PlanDraft::new(format), ids: BTreeMap::new() };
    reader.read_header(value, &found);
    reader.read_tasks(found);
    Some(reader.draft)
}

struct TaskListReader<'a> {
    /// The name of the file.
    name: &'a str,
    format: PlanFormat,
    draft: PlanDraft,
    /// Ids of tasks by each name that a dependency may use.
    ids: BTreeMap<String, String>,
}

impl TaskListReader<'_> {
    /// The key of the tool in `extra`.
    fn tool(&self) -> &'static str {
        if self.format == PlanFormat::Ralph { "ralph" } else { "json" }
    }

    /// Reads the fields around the list of tasks.
    fn read_header(&mut self, value: &Value, found: &FoundList<'_>) {
        let Some(object) = value.as_object() else { return };
        let mut fields = RecordFields::new(object);
        // The list becomes the steps; fields next to it are kept at any depth.
        let rest = list_finder::without_path(value, &found.path);
        if let Some(rest) = rest.as_object() {
            fields = RecordFields::new(rest);
        }
        let tool = self.tool();
        let plan = &mut self.draft.plan_file.plan;
        plan.title = fields.text(&["title", "project", "projectName", "name", "feature"]);
        plan.goal = fields.text(&["goal", "objective", "description", "summary", "overview"]);
        plan.outcome = fields.text(&["outcome"]);
        plan.context = fields.text(&["context", "background"]);
        plan.risks = fields.take(&["risks"], text_list).unwrap_or_default();
        let questions = ["open_questions", "openQuestions", "questions"];
        plan.open_questions = fields.take(&questions, text_list).unwrap_or_default();
        let criteria = fields.take(CRITERIA, text_list).unwrap_or_default();
        plan.test_criteria = criteria.into_iter().map(Criterion::Text).collect();
        let mut rest = fields.rest();
        let mut phase_fields = Map::new();
        for phase in &found.phases {
            let title = phase.title.clone();
            plan.phases.push(Phase { id: phase.id.clone(), title });
            if !phase.rest.is_empty() {
                phase_fields.insert(phase.id.clone(), Value::Object(phase.rest.clone()));
            }
        }
        if !phase_fields.is_empty() {
            rest.insert("phases".to_owned(), Value::Object(phase_fields));
        }
        plan.extra = tool_extra(tool, rest);
        for other in &found.others {
            let message = format!("the list `{other}` is kept as it is; its items are not steps");
            self.draft.add_note(None, message);
        }
    }

    fn read_tasks(&mut self, found: FoundList<'_>) {
        let mut records = found.records;
        let has_dependencies = records.iter().any(Record::has_dependencies);
        let key = sort(&mut records, self.format, has_dependencies);
        self.index_names(&records);
        let mut order = ImplicitOrder::new();
        let mut phase = None;
        if !has_dependencies && records.len() > 1 {
            let message = format!("no task has dependencies: the order is used ({key})");
            self.draft.add_note(None, message);
        }
        for (index, record) in records.iter().enumerate() {
            if phase != record.phase {
                phase.clone_from(&record.phase);
                order.end_phase();
            }
            // Tasks with the same number run in parallel.
            let rank = record.rank(self.format);
            let has_same_rank = |other: Option<&Record<'_>>| {
                rank.is_some()
                    && other.is_some_and(|other| {
                        other.rank(self.format) == rank && other.phase == record.phase
                    })
            };
            let before = index.checked_sub(1).and_then(|index| records.get(index));
            let after = records.get(index.saturating_add(1));
            let is_parallel = has_same_rank(before) || has_same_rank(after);
            let concurrency =
                if is_parallel { Concurrency::Parallel } else { Concurrency::Sequential };
            self.read_task(record, has_dependencies, &mut order, concurrency, &[]);
        }
        self.draft.plan_file.plan.barriers = order.barriers;
    }

    /// Indexes the tasks by name. An id takes precedence over a number, and a number over a title.
    fn index_names(&mut self, records: &[Record<'_>]) {
        let mut all = Vec::new();
        let mut rest: Vec<&Record<'_>> = records.iter().rev().collect();
        while let Some(record) = rest.pop() {
            all.push(record);
            rest.extend(record.subtasks.iter().rev());
        }
        for record in &all {
            self.ids.insert(record.id.clone(), record.id.clone());
        }
        for field in ["order", "number", "step", "index", "name", "title"] {
            for record in &all {
                if let Some(name) = record.fields.get(field).and_then(id_text) {
                    self.ids.entry(name).or_insert_with(|| record.id.clone());
                }
            }
        }
    }

    /// Adds a task after its subtasks. `inherited` has the dependencies of the tasks above it.
    fn read_task(
        &mut self,
        record: &Record<'_>,
        has_dependencies: bool,
        order: &mut ImplicitOrder,
        concurrency: Concurrency,
        inherited: &[String],
    ) {
        let mut fields = RecordFields::new(record.fields);
        let id = fields.take_all(&["id"]).remove("id").unwrap_or_default();
        self.draft.diagnostics.extend(fractional_id(&id, format!("{}.id", record.path)));
        let (dependencies_field, written) = self.read_dependencies(record, &mut fields);
        let mut after: Vec<String> = written;
        after.extend(
            inherited.iter().filter(|name| !after.contains(name)).cloned().collect::<Vec<_>>(),
        );
        let mut subtask_order = order.subtasks(concurrency);
        for subtask in &record.subtasks {
            let sequential = Concurrency::Sequential;
            self.read_task(subtask, has_dependencies, &mut subtask_order, sequential, &after);
        }
        if has_dependencies {
            let subtasks = record.subtasks.iter().map(|subtask| subtask.id.clone());
            after.extend(subtasks.filter(|name| !after.contains(name)).collect::<Vec<_>>());
        } else if record.subtasks.is_empty() {
            after = order.add(&record.id, concurrency);
        } else {
            after = order.add_parent(&record.id, concurrency, subtask_order);
        }
        let step = self.step(record, fields, after);
        let source =
            StepSource::Path { record: record.path.clone(), dependencies: dependencies_field };
        self.draft.add_step(step, source);
    }

    /// The dependencies of a task, and the name of their field.
    fn read_dependencies(
        &mut self,
        record: &Record<'_>,
        fields: &mut RecordFields,
    ) -> (&'static str, Vec<String>) {
        let Some(field) = DEPENDENCIES.iter().find(|name| fields.get(name).is_some()) else {
            return ("", Vec::new());
        };
        let path = format!("{}.{field}", record.path);
        let warning = fields.get(field).and_then(|value| fractional_id(value, path.clone()));
        self.draft.diagnostics.extend(warning);
        let Some(found) = fields.take(&[field], id_list) else {
            let message = "expected a list of ids such as [\"1\", \"2\"]";
            self.draft.diagnostics.push(Diagnostic::at_path(Severity::Problem, path, message));
            return (field, Vec::new());
        };
        let mut after: Vec<String> = Vec::new();
        for name in found {
            let sibling = record.parent.as_ref().map(|parent| format!("{parent}.{name}"));
            let known = sibling.and_then(|name| self.ids.get(&name));
            let known = known.or_else(|| self.ids.get(&name)).cloned().unwrap_or(name);
            if !after.contains(&known) {
                after.push(known);
            }
        }
        (field, after)
    }

    fn step(&mut self, record: &Record<'_>, mut fields: RecordFields, after: Vec<String>) -> Step {
        self.read_status(record, &mut fields);
        for key in &record.subtask_keys {
            fields.take_all(&[key]);
        }
        let title = fields.text(TITLES);
        let mut acceptance = Vec::new();
        for name in CRITERIA {
            let found = fields.take(&[name], text_list).unwrap_or_default();
            acceptance.extend(found.into_iter().map(Criterion::Text));
        }
        if acceptance.is_empty() {
            acceptance = object_criteria(&fields);
        }
        let mut changes = Vec::new();
        for name in CHANGES {
            changes.extend(fields.take(&[name], text_list).unwrap_or_default());
        }
        let id = record.id.clone();
        fields.take(IDS, |value| id_text(value).filter(|name| *name == id));
        let priority = self.priority(&mut fields);
        Step {
            id,
            title,
            goal: fields.text(GOALS),
            phase: record.phase.clone(),
            owner: Some(fields.text(&["owner", "assignee", "agent", "role"]))
                .filter(|owner| !owner.is_empty()),
            after,
            acceptance,
            changes: changes.into(),
            tools: fields.take(&["tools"], text_list).unwrap_or_default().into(),
            tags: fields.take(&["tags", "labels"], text_list).unwrap_or_default().into(),
            priority,
            extra: tool_extra(self.tool(), fields.rest()),
            ..Step::default()
        }
    }

    /// Ralph numbers priorities from 1, the highest; other tools use words.
    fn priority(&self, fields: &mut RecordFields) -> i32 {
        let is_ralph = self.format == PlanFormat::Ralph;
        let read = |value: &Value| match value {
            Value::Number(number) if is_ralph => {
                number.as_i64().and_then(|number| i32::try_from(number).ok()?.checked_neg())
            }
            Value::String(word) => match word.to_ascii_lowercase().as_str() {
                "critical" | "urgent" => Some(20),
                "high" => Some(10),
                "medium" | "normal" => Some(0),
                "low" => Some(-10),
                _ => None,
            },
            _ => None,
        };
        fields.take(&["priority"], read).unwrap_or_default()
    }

    /// Takes the fields that record progress.
    fn read_status(&mut self, record: &Record<'_>, fields: &mut RecordFields) {
        let progress = fields.take_all(PROGRESS);
        if !progress.is_empty() {
            let progress = tool_extra(self.tool(), progress);
            self.draft.plan_file.progress.insert(record.id.clone(), progress);
        }
        let word = fields.take(STATUSES, |value| value.as_str().map(str::to_owned));
        if let Some(word) = word {
            self.draft.set_status(&record.id, &word, format!("{}: status {word}", self.name));
        }
        for flag in FLAGS {
            let Some(is_set) = fields.take(&[flag], Value::as_bool) else { continue };
            let word = format!("{flag} {is_set}");
            if is_set {
                let source = format!("{}: {word}", self.name);
                self.draft.plan_file.done.insert(record.id.clone(), source);
            }
            self.draft.plan_file.statuses.entry(record.id.clone()).or_insert(word);
        }
    }
}

/// Criteria that are objects. Their texts become criteria, and the objects stay in `extra`.
fn object_criteria(fields: &RecordFields) -> Vec<Criterion> {
    let text = |object: &Value| {
        let names = ["criterion", "description", "text", "title", "name", "condition"];
        names.iter().find_map(|name| Some(object.get(name)?.as_str()?.trim().to_owned()))
    };
    let lists = CRITERIA.iter().filter_map(|name| fields.get(name)?.as_array());
    let texts = lists
        .flatten()
        .filter_map(|item| item.as_str().map(|item| item.trim().to_owned()).or_else(|| text(item)));
    texts.filter(|text| !text.is_empty()).map(Criterion::Text).collect()
}

/// Sorts the tasks by their numbers, if all have one, and returns the name of the sort key.
fn sort(records: &mut [Record<'_>], format: PlanFormat, has_dependencies: bool) -> &'static str {
    let is_ranked = records.iter().all(|record| record.rank(format).is_some());
    if !is_ranked || has_dependencies {
        return "order of the list";
    }
    // Phases keep their order.
    let mut positions: BTreeMap<Option<String>, usize> = BTreeMap::new();
    for record in records.iter() {
        let count = positions.len();
        positions.entry(record.phase.clone()).or_insert(count);
    }
    records.sort_by_key(|record| (positions.get(&record.phase).copied(), record.rank(format)));
    if format == PlanFormat::Ralph { "`priority`" } else { "`order`" }
}
