//! The fields around a list of tasks: title, goal, risks and phases of the plan.

use serde_json::{Map, Value, json};

use super::field_names::{COMMAND_LISTS, CRITERIA, PROGRESS};
use super::list_finder::{FoundList, RecordPhase, without_path};
use super::mapping::Mapping;
use super::record_fields::{RecordFields, plain_name, text_list};
use crate::files::draft::{PlanDraft, tool_extra};
use crate::files::plan_file::PlanFormat;
use crate::files::read_report::PartKind;
use crate::plan::{Criterion, Phase, Plan};

/// Reads the header of a file into a draft. `tag` is the tag of the list in a task-master file.
pub(super) struct Header {
    plan: Plan,
    others: Vec<(String, usize)>,
    /// Texts of criteria that tools write for a program.
    listed: Vec<String>,
}

impl Header {
    pub(super) fn read(value: &Value, found: &FoundList<'_>, mapping: &Mapping) -> Self {
        let mut plan = Plan::default();
        let others = found.others.clone();
        // The list becomes the steps; fields next to it are kept at any depth.
        let rest = without_path(value, &found.path);
        let Some(rest) = rest.as_object() else { return Self { plan, others, listed: Vec::new() } };
        let mut fields = RecordFields::new(rest);
        plan.title = fields.text(&["title", "project", "projectName", "feature", "name"]);
        plan.goal = fields.text(&["goal", "objective", "description", "summary", "overview"]);
        plan.outcome = fields.text(&["outcome"]);
        plan.context = fields.text(&["context", "background"]);
        plan.risks = fields.take(&["risks"], text_list).unwrap_or_default();
        let questions = ["openQuestions", "questions"];
        plan.open_questions = fields.take(&questions, text_list).unwrap_or_default();
        let lists = COMMAND_LISTS.iter().filter_map(|name| text_list(fields.get(name)?));
        let listed = lists.flatten().collect();
        let criteria = fields.take(CRITERIA, text_list).unwrap_or_default();
        plan.test_criteria = criteria.into_iter().map(Criterion::Text).collect();
        let mut rest = fields.rest();
        let mut phase_fields = Map::new();
        for RecordPhase { id, title, rest } in &found.phases {
            let mut id = id.clone();
            if plan.phases.iter().any(|phase| phase.id == id) {
                id = format!("{id}-{}", plan.phases.len().saturating_add(1));
            }
            plan.phases.push(Phase { id: id.clone(), title: title.clone() });
            if !rest.is_empty() {
                phase_fields.insert(id, Value::Object(rest.clone()));
            }
        }
        if !phase_fields.is_empty() {
            rest.insert("phases".to_owned(), Value::Object(phase_fields));
        }
        plan.extra = tool_extra(mapping.extra, without_progress(rest, mapping));
        Self { plan, others, listed }
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
        let is_tag = |value: &Value| value.get("tasks").is_some_and(Value::is_array);
        let of_file = file.as_object().into_iter().flatten().filter(|(_, value)| !is_tag(value));
        let of_body = body.as_object().into_iter().flatten();
        let mut fields = Map::new();
        for (name, value) in of_file.chain(of_body).filter(|(name, _)| *name != "tasks") {
            let value = match value {
                Value::Object(inner) => Value::Object(without_progress(inner.clone(), mapping)),
                other => other.clone(),
            };
            fields.insert(name.clone(), value);
        }
        fields.extend(tag.map(|tag| ("tag".to_owned(), json!(tag))));
        let extra = tool_extra(mapping.extra, without_progress(fields, mapping));
        Self {
            plan: Plan { title, extra, ..Plan::default() },
            others: Vec::new(),
            listed: Vec::new(),
        }
    }

    /// Adds the header to a draft that has the steps.
    pub(super) fn apply(self, draft: &mut PlanDraft) {
        for (path, count) in &self.others {
            let message = format!("the list `{path}` is kept as it is; its items are not steps");
            draft.add_note(None, message);
            draft.add_unread(PartKind::Record, *count, path, None);
        }
        draft.facts.listed.extend(self.listed);
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

/// The fields that the tool does not update during the work.
fn without_progress(fields: Map<String, Value>, mapping: &Mapping) -> Map<String, Value> {
    let mut names = PROGRESS.iter().chain(mapping.progress).map(|name| plain_name(name));
    let names: Vec<String> = names.by_ref().collect();
    fields.into_iter().filter(|(name, _)| !names.contains(&plain_name(name))).collect()
}
