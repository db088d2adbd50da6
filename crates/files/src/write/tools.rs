//! Writes a plan in the forms of other tools: task-master, beads, and the to-do list of Cursor.
//!
//! Such a form has fewer fields than a plan. It keeps the ids of the steps, their titles, goals,
//! text criteria, dependencies, and the marks of finished steps; a dependency on a barrier of all
//! its members becomes one on each member.
//!
//! Invariant: the written text reads back with the same ids, dependencies and finished steps
//! ([`Outline`]). Otherwise the form is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::plan_file::PlanFile;
use plan_ledger::plan::{BarrierNeeds, Criterion, Plan, Step};

/// The parts of a plan that every form keeps.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outline {
    /// The dependencies of each step, by id.
    after: BTreeMap<String, BTreeSet<String>>,
    /// The steps that are done or dropped.
    finished: BTreeSet<String>,
}

impl Outline {
    /// The outline of a plan; `Err` with the reason if no other form can express the plan.
    pub(super) fn of(file: &PlanFile) -> Result<Self, String> {
        let steps = file.plan.steps.iter();
        let after = steps.map(|step| Ok((step.id.clone(), dependencies(&file.plan, step)?)));
        Ok(Self {
            after: after.collect::<Result<_, String>>()?,
            finished: file.done.keys().chain(file.skipped.keys()).cloned().collect(),
        })
    }

    /// The steps with different dependencies in another outline of the same steps; `None` if the
    /// steps or the finished ones differ.
    pub(super) fn different(&self, other: &Self) -> Option<Vec<String>> {
        let is_same = self.after.keys().eq(other.after.keys()) && self.finished == other.finished;
        let differs =
            |(id, after): &(&String, &BTreeSet<String>)| other.after.get(*id) != Some(*after);
        let found = self.after.iter().filter(differs).map(|(id, _)| id.clone());
        is_same.then(|| found.collect())
    }

    pub(super) fn of_step<'a>(&'a self, step: &Step) -> impl Iterator<Item = &'a str> {
        self.after.get(&step.id).into_iter().flatten().map(String::as_str)
    }

    pub(super) fn is_finished(&self, step: &Step) -> bool {
        self.finished.contains(&step.id)
    }
}

/// The steps that a step depends on, directly or through a barrier of all its members.
fn dependencies(plan: &Plan, step: &Step) -> Result<BTreeSet<String>, String> {
    let mut found = BTreeSet::new();
    for name in &step.after {
        match plan.barriers.iter().find(|barrier| barrier.id == *name) {
            None => drop(found.insert(name.clone())),
            Some(barrier) if barrier.needs == BarrierNeeds::All => {
                found.extend(barrier.members.iter().cloned());
            }
            Some(_) => {
                return Err(format!("the barrier `{name}` does not need all of its members"));
            }
        }
    }
    Ok(found)
}

/// The title, or the first line of the goal, or the id, in one line.
fn title(step: &Step) -> &str {
    let mut lines = step.title.lines().chain(step.goal.lines()).map(str::trim);
    lines.find(|line| !line.is_empty()).unwrap_or(&step.id)
}

fn text_criteria(step: &Step) -> impl Iterator<Item = &str> {
    step.acceptance.iter().filter_map(|criterion| match criterion {
        Criterion::Text(text) => Some(text.trim()),
        Criterion::Command(_) | Criterion::Cel(_) => None,
    })
}

/// `tasks.json` of task-master.
pub(super) fn task_master(file: &PlanFile, outline: &Outline) -> String {
    let id = |id: &str| id.parse::<u64>().map_or_else(|_| Value::from(id), Value::from);
    let task = |step: &Step| {
        json!({
            "id": id(&step.id),
            "title": title(step),
            "description": step.goal,
            "status": if outline.is_finished(step) { "done" } else { "pending" },
            "dependencies": outline.of_step(step).map(id).collect::<Vec<_>>(),
            "testStrategy": text_criteria(step).collect::<Vec<_>>().join("; "),
        })
    };
    let tasks: Vec<Value> = file.plan.steps.iter().map(task).collect();
    format!("{:#}\n", json!({"master": {"tasks": tasks}}))
}

/// `issues.jsonl` of beads.
pub(super) fn beads(file: &PlanFile, outline: &Outline) -> String {
    let issue = |step: &Step| {
        let edge = |on: &str| json!({"issue_id": step.id, "depends_on_id": on, "type": "blocks"});
        let criteria: Vec<String> = text_criteria(step).map(|text| format!("- {text}")).collect();
        json!({
            "id": step.id,
            "title": title(step),
            "description": step.goal,
            "acceptance_criteria": criteria.join("\n"),
            "issue_type": "task",
            "status": if outline.is_finished(step) { "closed" } else { "open" },
            "dependencies": outline.of_step(step).map(edge).collect::<Vec<_>>(),
        })
    };
    file.plan.steps.iter().map(|step| format!("{}\n", issue(step))).collect()
}

/// A plan of Cursor: a to-do list between two lines `---`.
pub(super) fn cursor(file: &PlanFile, outline: &Outline) -> String {
    let mut text = format!("---\nname: {}\ntodos:\n", Value::from(file.plan.title.as_str()));
    for step in &file.plan.steps {
        let status = if outline.is_finished(step) { "completed" } else { "pending" };
        let after = Value::from(outline.of_step(step).collect::<Vec<_>>());
        // JSON texts and lists are YAML, too.
        let (id, content) = (Value::from(step.id.as_str()), Value::from(title(step)));
        let _ = write!(
            text,
            "  - id: {id}\n    content: {content}\n    status: {status}\n    dependencies: {after}\n"
        );
    }
    text + "---\n"
}
