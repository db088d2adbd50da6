//! The fields around a list of tasks: title, goal, risks and phases of the plan.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::field_names::PROGRESS;
use super::list_finder::{FoundList, RecordPhase, without_path};
use super::mapping::Mapping;
use super::must_read::{Unread, unread_plan_fields};
use super::native_fields::{self, listed_texts, take_criteria};
use super::record_fields::{RecordFields, plain_name, text_list};
use crate::diagnostic::{Diagnostic, Severity};
use crate::draft::{PlanDraft, tool_extra};
use crate::plan_file::{PlanFormat, StatedCommand};
use crate::read_report::PartKind;
use plan_ledger::plan::{Criterion, Phase, Plan};

/// Objects beside the list of tasks that describe the plan: their criteria are those of the plan.
const DESCRIPTIONS: &[&str] = &["project", "metadata", "meta", "plan", "feature", "about"];

/// Reads the header of a file into a draft. `tag` is the tag of the list in a task-master file.
pub(super) struct Header {
    plan: Plan,
    others: Vec<(String, usize)>,
    /// Texts of criteria that tools write for a program.
    listed: Vec<String>,
    /// Fields that must be read and cannot be.
    unread: Vec<Unread>,
    /// The fields of each object that are kept as data.
    kept: Vec<Map<String, Value>>,
}

impl Header {
    pub(super) fn read(value: &Value, found: &FoundList<'_>, mapping: &Mapping) -> Self {
        let mut plan = Plan::default();
        let others = found.others.clone();
        // The list becomes the steps; fields next to it are kept at any depth.
        let is_all = found.path.is_empty();
        let mut rest = if is_all { Value::Null } else { without_path(value, &found.path) };
        let (mut listed, mut unread, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        // The objects around the list, from the innermost.
        for depth in (1..found.path.len()).rev() {
            let names = found.path.get(..depth).unwrap_or_default();
            let pointer: String = names.iter().map(|name| pointer_part(name)).collect();
            if let Some(Value::Object(inner)) = rest.pointer_mut(&pointer) {
                let mut fields = RecordFields::new(inner);
                unread.extend(read_checks(&mut plan, &mut fields, &mut listed, &names.join(".")));
                kept.push(without(fields.left(), found.path.get(depth)));
                *inner = fields.rest();
            }
        }
        let Some(rest) = rest.as_object_mut() else {
            return Self { plan, others, listed, unread, kept };
        };
        for name in
            DESCRIPTIONS.iter().filter(|name| found.path.first() != Some(&(**name).to_owned()))
        {
            if let Some(Value::Object(inner)) = rest.get_mut(*name) {
                let mut fields = RecordFields::new(inner);
                unread.extend(read_checks(&mut plan, &mut fields, &mut listed, name));
                *inner = fields.rest();
            }
        }
        let mut fields = RecordFields::new(rest);
        plan.title = fields.text(&["title", "project", "projectName", "feature", "name"]);
        plan.goal = fields.text(&["goal", "objective", "description", "summary", "overview"]);
        plan.outcome = fields.text(&["outcome"]);
        plan.context = fields.text(&["context", "background"]);
        plan.risks = fields.take(&["risks"], text_list).unwrap_or_default();
        let questions = ["openQuestions", "questions"];
        plan.open_questions = fields.take(&questions, text_list).unwrap_or_default();
        unread.extend(read_checks(&mut plan, &mut fields, &mut listed, ""));
        kept.push(without(fields.left(), found.path.first()));
        let mut rest = fields.rest();
        let mut phase_fields = Map::new();
        for RecordPhase { id, title, path, rest } in &found.phases {
            let mut id = id.clone();
            let mut fields = RecordFields::new(rest);
            unread.extend(read_checks(&mut plan, &mut fields, &mut listed, path));
            kept.push(fields.left().clone());
            let rest = fields.rest();
            if plan.phases.iter().any(|phase| phase.id == id) {
                id = format!("{id}-{}", plan.phases.len().saturating_add(1));
            }
            plan.phases.push(Phase { id: id.clone(), title: title.clone() });
            if !rest.is_empty() {
                phase_fields.insert(id, Value::Object(rest));
            }
        }
        if !phase_fields.is_empty() {
            rest.insert("phases".to_owned(), Value::Object(phase_fields));
        }
        plan.extra = tool_extra(mapping.extra, without_progress(rest, mapping));
        let kept = kept.into_iter().map(|fields| without_progress(fields, mapping)).collect();
        Self { plan, others, listed, unread, kept }
    }

    /// The header of a task-master file: the name of the project, or the description of the tag,
    /// or the tag.
    pub(super) fn read_task_master(
        file: &Value,
        body: &Value,
        tag: Option<&str>,
        mapping: &Mapping,
    ) -> Self {
        let known = ["/metadata/projectName", "/meta/projectName", "/metadata/description"];
        let named = known.iter().find_map(|path| body.pointer(path)?.as_str());
        let title = named.or(tag).unwrap_or_default().to_owned();
        let has_tasks = |value: &Value| value.get("tasks").is_some_and(Value::is_array);
        // A tag, or the object of all tags.
        let is_tag = |value: &Value| {
            has_tasks(value) || value.as_object().is_some_and(|tags| tags.values().any(has_tasks))
        };
        let mut plan = Plan { title, ..Plan::default() };
        let (mut listed, mut unread, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        let mut rest = Map::new();
        // Checks and limits are read before the progress of the tool is left out.
        let around: Vec<(&Value, &str)> = match tag {
            Some(tag) => vec![(file, ""), (body, tag)],
            None => vec![(body, "")],
        };
        for (value, path) in around {
            let fields = value.as_object().into_iter().flatten();
            let fields = fields.filter(|(name, value)| *name != "tasks" && !is_tag(value));
            let fields = fields.map(|(name, value)| (name.clone(), value.clone())).collect();
            let mut fields = RecordFields::new(&fields);
            unread.extend(read_checks(&mut plan, &mut fields, &mut listed, path));
            kept.push(without_progress(fields.left().clone(), mapping));
            rest.extend(fields.rest());
        }
        for value in rest.values_mut() {
            if let Value::Object(inner) = value {
                *inner = without_progress(std::mem::take(inner), mapping);
            }
        }
        rest.extend(tag.map(|tag| ("tag".to_owned(), json!(tag))));
        plan.extra = tool_extra(mapping.extra, without_progress(rest, mapping));
        Self { plan, others: Vec::new(), listed, unread, kept }
    }

    /// Adds the header to a draft that has the steps.
    pub(super) fn apply(self, draft: &mut PlanDraft) {
        for (path, count) in &self.others {
            let message = format!("the list `{path}` is kept as it is; its items are not steps");
            draft.add_note(None, message);
            draft.add_unread(PartKind::Record, *count, path, None);
        }
        draft.facts.listed.extend(self.listed);
        let mut places = BTreeSet::new();
        for (place, message) in self.unread {
            // An object around the list is also a part of those around it.
            if places.insert(place.clone()) {
                draft.diagnostics.push(Diagnostic::at_path(Severity::Problem, place, message));
            }
        }
        for mut fields in self.kept {
            fields.retain(|name, _| !self.others.iter().any(|(path, _)| path == name));
            draft.add_kept(&fields);
        }
        draft.state_commands(commands_of(&self.plan));
        let plan = &mut draft.plan_file.plan;
        let steps = std::mem::take(&mut plan.steps);
        let barriers = std::mem::take(&mut plan.barriers);
        let added = std::mem::take(&mut plan.phases);
        *plan = Plan { steps, barriers, ..self.plan };
        let is_new = |phase: &Phase| !plan.phases.iter().any(|known| known.id == phase.id);
        let added: Vec<Phase> = added.into_iter().filter(is_new).collect();
        plan.phases.extend(added);
        if draft.plan_file.format == PlanFormat::Ralph && plan.title.is_empty() {
            plan.title.clone_from(&plan.goal);
        }
    }
}

/// Takes the criteria and the native fields of an object around the tasks. Returns the fields that must
/// be read and cannot be, with their paths.
fn read_checks(
    plan: &mut Plan,
    fields: &mut RecordFields,
    listed: &mut Vec<String>,
    path: &str,
) -> Vec<Unread> {
    listed.extend(listed_texts(fields));
    let (criteria, mut unread) = take_criteria(fields);
    plan.test_criteria.extend(criteria);
    native_fields::read_plan(plan, fields);
    unread.extend(unread_plan_fields(fields.left()));
    let place = |name: String| if path.is_empty() { name } else { format!("{path}.{name}") };
    unread.into_iter().map(|(name, message)| (place(name), message)).collect()
}

/// The commands that the plan itself states.
fn commands_of(plan: &Plan) -> impl Iterator<Item = StatedCommand> {
    let criteria = plan.test_criteria.iter().filter_map(|criterion| match criterion {
        Criterion::Command(command) => Some(command),
        Criterion::Text(_) | Criterion::Cel(_) => None,
    });
    let commands = plan.defaults.command.iter().chain(criteria);
    commands.map(|command| StatedCommand { step: None, command: command.clone() })
}

/// The fields without that one.
fn without(fields: &Map<String, Value>, name: Option<&String>) -> Map<String, Value> {
    let others = fields.iter().filter(|(each, _)| Some(*each) != name);
    others.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// A name as a part of a JSON pointer.
fn pointer_part(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// The fields that the tool does not update during the work.
fn without_progress(fields: Map<String, Value>, mapping: &Mapping) -> Map<String, Value> {
    let mut names = PROGRESS.iter().chain(mapping.progress).map(|name| plain_name(name));
    let names: Vec<String> = names.by_ref().collect();
    fields.into_iter().filter(|(name, _)| !names.contains(&plain_name(name))).collect()
}
