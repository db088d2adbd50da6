//! Lists of tasks in JSON: Ralph's `prd.json`, plans with `order` and `files_to_modify`, and any
//! other list of objects that have an id or a title, under whatever key.
//!
//! How it maps:
//! - The list is the first one, from the top down, whose objects all look like tasks; a list under
//!   a name such as `tasks` goes before others at its depth. What stands around it is the plan's.
//! - A list of phases, each with a list of tasks, gives the phases. Tasks in tasks are parts of
//!   them: they come first, and the task waits for them.
//! - Each field of a task has many spellings; what has none goes to `extra`.
//! - A dependency names an id, or else a number in the order, or a title. Where no task has a
//!   field for dependencies, the order is one (`order`, or Ralph's `priority`, or the list's).
//! - Statuses, and what is written when they change, stand beside the plan.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::PlanFormat;
use super::draft::{Draft, Origin, kept};
use super::fields::{Fields, doubtful_id, name_text, names, texts};
use super::finding::{Finding, Severity};
use super::order::{Order, Place};
use crate::plan::{Criterion, Phase, Step};

mod shape;

use shape::{Found, Item};

pub(super) use shape::is_of_another_tool;

const IDS: &[&str] = &["id", "taskId", "task_id", "key", "number", "step_number", "stepNumber"];
const TITLES: &[&str] =
    &["title", "name", "summary", "subject", "content", "task", "story", "step", "text"];
const GOALS: &[&str] =
    &["description", "goal", "details", "instructions", "action", "prompt", "body", "objective"];
const CRITERIA: &[&str] = &[
    "acceptanceCriteria",
    "acceptance_criteria",
    "acceptance",
    "criteria",
    "successCriteria",
    "success_criteria",
    "testCriteria",
    "test_criteria",
    "validation",
    "validations",
    "verification",
    "testStrategy",
    "test_strategy",
    "definition_of_done",
    "definitionOfDone",
    "done_when",
    "doneWhen",
];
const AFTER: &[&str] = &[
    "dependsOn",
    "depends_on",
    "dependencies",
    "deps",
    "blockedBy",
    "blocked_by",
    "after",
    "requires",
    "prerequisites",
    "needs",
];
const FILES: &[&str] = &[
    "files_to_modify",
    "filesToModify",
    "files_to_change",
    "files_to_create",
    "filesToCreate",
    "files",
    "changes",
    "paths",
];
const STATUSES: &[&str] = &["status", "state"];
const FLAGS: &[&str] = &["passes", "done", "completed", "complete", "finished", "checked"];
const PROGRESS: &[&str] = &[
    "completionNotes",
    "completion_notes",
    "completedAt",
    "completed_at",
    "startedAt",
    "started_at",
    "updatedAt",
    "updated_at",
    "lastModified",
    "attempts",
];

/// The plan of a JSON value, if there is a list of tasks in it.
pub(super) fn import(name: &str, value: &Value) -> Option<Draft> {
    let found = shape::find(value)?;
    let format = if found.key == "userStories" { PlanFormat::Ralph } else { PlanFormat::Records };
    let mut build = Build { name, format, draft: Draft::new(format), has_names: BTreeMap::new() };
    build.header(value, &found);
    build.tasks(found);
    Some(build.draft)
}

struct Build<'a> {
    name: &'a str,
    format: PlanFormat,
    draft: Draft,
    /// The id that a dependency means, by what it may be called.
    has_names: BTreeMap<String, String>,
}

impl Build<'_> {
    fn tool(&self) -> &'static str {
        if self.format == PlanFormat::Ralph { "ralph" } else { "json" }
    }

    /// What the file says around its tasks.
    fn header(&mut self, value: &Value, found: &Found<'_>) {
        let Some(object) = value.as_object() else { return };
        let mut fields = Fields::new(object);
        // The list itself is the steps; what stands beside it, at whatever depth, is kept.
        let rest = shape::without(value, &found.path);
        if let Some(rest) = rest.as_object() {
            fields = Fields::new(rest);
        }
        let tool = self.tool();
        let plan = &mut self.draft.imported.plan;
        plan.title = fields.text(&["title", "project", "projectName", "name", "feature"]);
        plan.goal = fields.text(&["goal", "objective", "description", "summary", "overview"]);
        plan.outcome = fields.text(&["outcome"]);
        plan.context = fields.text(&["context", "background"]);
        plan.risks = fields.take(&["risks"], texts).unwrap_or_default();
        let questions = ["open_questions", "openQuestions", "questions"];
        plan.open_questions = fields.take(&questions, texts).unwrap_or_default();
        let criteria = fields.take(CRITERIA, texts).unwrap_or_default();
        plan.test_criteria = criteria.into_iter().map(Criterion::Text).collect();
        let mut rest = fields.rest();
        let mut of_phases = Map::new();
        for phase in &found.phases {
            let title = phase.title.clone();
            plan.phases.push(Phase { id: phase.id.clone(), title });
            if !phase.rest.is_empty() {
                of_phases.insert(phase.id.clone(), Value::Object(phase.rest.clone()));
            }
        }
        if !of_phases.is_empty() {
            rest.insert("phases".to_owned(), Value::Object(of_phases));
        }
        plan.extra = kept(tool, rest);
        for other in &found.others {
            let text = format!("the list `{other}` was kept as it is: its items are no steps here");
            self.draft.note(None, text);
        }
    }

    fn tasks(&mut self, found: Found<'_>) {
        let mut items = found.items;
        let is_written = items.iter().any(shape::Item::says_dependencies);
        let by = sorted(&mut items, self.format, is_written);
        self.name_all(&items);
        let mut order = Order::new();
        let mut phase = None;
        if !is_written && items.len() > 1 {
            let text = format!("no task says what it waits for: order taken as dependency ({by})");
            self.draft.note(None, text);
        }
        for (index, item) in items.iter().enumerate() {
            if phase != item.phase {
                phase.clone_from(&item.phase);
                order.end_phase();
            }
            // Equal numbers stand beside each other.
            let rank = item.rank(self.format);
            let is_beside = |other: Option<&Item<'_>>| {
                rank.is_some()
                    && other.is_some_and(|other| {
                        other.rank(self.format) == rank && other.phase == item.phase
                    })
            };
            let before = index.checked_sub(1).and_then(|index| items.get(index));
            let after = items.get(index.saturating_add(1));
            let is_beside = is_beside(before) || is_beside(after);
            let place = if is_beside { Place::Beside } else { Place::Alone };
            self.task(item, is_written, &mut order, &place, &[]);
        }
        self.draft.imported.plan.barriers = order.barriers;
    }

    /// By what each task may be named: its id before its number, its number before its title.
    fn name_all(&mut self, items: &[Item<'_>]) {
        let mut all = Vec::new();
        let mut rest: Vec<&Item<'_>> = items.iter().rev().collect();
        while let Some(item) = rest.pop() {
            all.push(item);
            rest.extend(item.parts.iter().rev());
        }
        for item in &all {
            self.has_names.insert(item.id.clone(), item.id.clone());
        }
        for field in ["order", "number", "step", "index", "name", "title"] {
            for item in &all {
                if let Some(name) = item.fields.get(field).and_then(name_text) {
                    self.has_names.entry(name).or_insert_with(|| item.id.clone());
                }
            }
        }
    }

    /// Adds a task after its parts. `inherited` is what the tasks above it wait for.
    fn task(
        &mut self,
        item: &Item<'_>,
        is_written: bool,
        order: &mut Order,
        place: &Place,
        inherited: &[String],
    ) {
        let mut fields = Fields::new(item.fields);
        let id = fields.take_all(&["id"]).remove("id").unwrap_or_default();
        self.draft.problems.extend(doubtful_id(&id, format!("{}.id", item.path)));
        let (after_field, written) = self.dependencies(item, &mut fields);
        let mut after: Vec<String> = written;
        after.extend(
            inherited.iter().filter(|name| !after.contains(name)).cloned().collect::<Vec<_>>(),
        );
        let mut parts_order = order.parts(place);
        for part in &item.parts {
            self.task(part, is_written, &mut parts_order, &Place::Alone, &after);
        }
        let parts: Vec<String> = item.parts.iter().map(|part| part.id.clone()).collect();
        if is_written {
            after
                .extend(parts.into_iter().filter(|name| !after.contains(name)).collect::<Vec<_>>());
        } else if item.parts.is_empty() {
            after = order.next(&item.id, place);
        } else {
            after = order.whole(&item.id, place, parts_order);
        }
        let step = self.step(item, fields, after);
        let origin = Origin::Path { item: item.path.clone(), after: after_field };
        self.draft.step(step, origin);
    }

    /// What a task names, and the field that names it. What cannot be read is a problem.
    fn dependencies(
        &mut self,
        item: &Item<'_>,
        fields: &mut Fields,
    ) -> (&'static str, Vec<String>) {
        let Some(field) = AFTER.iter().find(|name| fields.get(name).is_some()) else {
            return ("", Vec::new());
        };
        let doubtful = fields
            .get(field)
            .and_then(|value| doubtful_id(value, format!("{}.{field}", item.path)));
        self.draft.problems.extend(doubtful);
        let Some(found) = fields.take(&[field], names) else {
            let message = "expected a list of ids; write one such as [\"1\", \"2\"]".to_owned();
            let place = format!("{}.{field}", item.path);
            let severity = Severity::Problem;
            self.draft.problems.push(Finding { severity, line: None, place, message });
            return (field, Vec::new());
        };
        let mut after: Vec<String> = Vec::new();
        for name in found {
            let sibling = item.parent.as_ref().map(|parent| format!("{parent}.{name}"));
            let known = sibling.and_then(|name| self.has_names.get(&name));
            let known = known.or_else(|| self.has_names.get(&name)).cloned().unwrap_or(name);
            if !after.contains(&known) {
                after.push(known);
            }
        }
        (field, after)
    }

    fn step(&mut self, item: &Item<'_>, mut fields: Fields, after: Vec<String>) -> Step {
        self.mark(item, &mut fields);
        for key in &item.part_keys {
            fields.take_all(&[key]);
        }
        let title = fields.text(TITLES);
        let mut acceptance = Vec::new();
        for name in CRITERIA {
            let found = fields.take(&[name], texts).unwrap_or_default();
            acceptance.extend(found.into_iter().map(Criterion::Text));
        }
        if acceptance.is_empty() {
            acceptance = criteria_of_objects(&fields);
        }
        let mut changes = Vec::new();
        for name in FILES {
            changes.extend(fields.take(&[name], texts).unwrap_or_default());
        }
        let id = item.id.clone();
        fields.take(IDS, |value| name_text(value).filter(|name| *name == id));
        let priority = self.priority(&mut fields);
        Step {
            id,
            title,
            goal: fields.text(GOALS),
            phase: item.phase.clone(),
            owner: Some(fields.text(&["owner", "assignee", "agent", "role"]))
                .filter(|owner| !owner.is_empty()),
            after,
            acceptance,
            changes: changes.into(),
            tools: fields.take(&["tools"], texts).unwrap_or_default().into(),
            tags: fields.take(&["tags", "labels"], texts).unwrap_or_default().into(),
            priority,
            extra: kept(self.tool(), fields.rest()),
            ..Step::default()
        }
    }

    /// Ralph's first is number 1; others use words.
    fn priority(&self, fields: &mut Fields) -> i32 {
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

    /// Takes what says how far the task is.
    fn mark(&mut self, item: &Item<'_>, fields: &mut Fields) {
        let progress = fields.take_all(PROGRESS);
        if !progress.is_empty() {
            let progress = kept(self.tool(), progress);
            self.draft.imported.progress.insert(item.id.clone(), progress);
        }
        let word = fields.take(STATUSES, |value| value.as_str().map(str::to_owned));
        if let Some(word) = word {
            self.draft.status(&item.id, &word, format!("{}: status {word}", self.name));
        }
        for flag in FLAGS {
            let Some(is_set) = fields.take(&[flag], Value::as_bool) else { continue };
            let word = format!("{flag} {is_set}");
            if is_set {
                let source = format!("{}: {word}", self.name);
                self.draft.imported.done.insert(item.id.clone(), source);
            }
            self.draft.imported.statuses.entry(item.id.clone()).or_insert(word);
        }
    }
}

/// Criteria that are objects: their text is the criterion, and the objects stay in `extra`.
fn criteria_of_objects(fields: &Fields) -> Vec<Criterion> {
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

/// Puts the tasks in the order in which the file means them; by what that is.
fn sorted(items: &mut [Item<'_>], format: PlanFormat, is_written: bool) -> &'static str {
    let is_ranked = items.iter().all(|item| item.rank(format).is_some());
    if !is_ranked || is_written {
        return "that of the list";
    }
    // Phases stay where they are.
    let mut places: BTreeMap<Option<String>, usize> = BTreeMap::new();
    for item in items.iter() {
        let count = places.len();
        places.entry(item.phase.clone()).or_insert(count);
    }
    items.sort_by_key(|item| (places.get(&item.phase).copied(), item.rank(format)));
    if format == PlanFormat::Ralph { "`priority`" } else { "`order`" }
}

/// The fields of a record that hold numbers by which it is ordered.
fn rank_of(fields: &Map<String, Value>, format: PlanFormat) -> Option<i64> {
    let name = if format == PlanFormat::Ralph { "priority" } else { "order" };
    fields.get(name).and_then(Value::as_i64)
}
