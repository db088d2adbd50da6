//! What differs between two versions of a plan, for a person who must decide about it.
//!
//! Steps and barriers are the same if their ids are. Left out on purpose: what a difference
//! means for work that is done already; that needs a run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::{Barrier, Plan, Step};

/// How many names a line of the summary shows.
const NAMES_MAX: usize = 8;

/// The differences between two plans.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlanDiff {
    /// Ids of steps that only the new plan has, in its order.
    pub added: Vec<String>,
    /// Ids of steps that only the old plan has, in its order.
    pub removed: Vec<String>,
    /// Steps that both have, with different fields, in the new plan's order.
    pub changed: Vec<ChangedStep>,
    /// Steps that both have come in another order.
    pub reordered: bool,
    /// Ids of barriers that were added, removed or changed.
    pub barriers: Vec<String>,
    /// Names of the plan's other fields that differ.
    pub fields: Vec<String>,
}

/// A step that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedStep {
    /// Its id.
    pub id: String,
    /// Names of the fields that differ. It is empty if only the plan's defaults differ.
    pub fields: Vec<String>,
    /// Whether it is other work now, so that what was done of it does not count.
    pub work: WorkChange,
}

/// Whether a changed step is still the same work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkChange {
    /// Only how, when or by whom it is done has changed.
    Same,
    /// What is to be done has changed.
    Other,
}

impl PlanDiff {
    /// Whether nothing differs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What differs between two plans.
#[must_use]
pub fn diff(old: &Plan, new: &Plan) -> PlanDiff {
    let before: BTreeMap<&str, &Step> = by_id(&old.steps, |step| &step.id);
    let after: BTreeMap<&str, &Step> = by_id(&new.steps, |step| &step.id);
    let changed = new
        .steps
        .iter()
        .filter_map(|step| changed_step(before.get(step.id.as_str())?, old, step, new))
        .collect();
    let order = |plan: &Plan, other: &BTreeMap<&str, &Step>| -> Vec<String> {
        let shared = plan.steps.iter().filter(|step| other.contains_key(step.id.as_str()));
        shared.map(|step| step.id.clone()).collect()
    };
    PlanDiff {
        added: only_in(&new.steps, &before),
        removed: only_in(&old.steps, &after),
        changed,
        reordered: order(old, &after) != order(new, &before),
        barriers: changed_barriers(&old.barriers, &new.barriers),
        fields: changed_fields(&header(old), &header(new)),
    }
}

fn by_id<T>(items: &[T], id: impl Fn(&T) -> &String) -> BTreeMap<&str, &T> {
    items.iter().map(|item| (id(item).as_str(), item)).collect()
}

fn only_in(steps: &[Step], other: &BTreeMap<&str, &Step>) -> Vec<String> {
    let missing = steps.iter().filter(|step| !other.contains_key(step.id.as_str()));
    missing.map(|step| step.id.clone()).collect()
}

fn changed_step(before: &Step, old: &Plan, step: &Step, new: &Plan) -> Option<ChangedStep> {
    let same_work = before.identity(&old.defaults) == step.identity(&new.defaults);
    if before == step && same_work {
        return None;
    }
    let fields = if before == step { Vec::new() } else { changed_fields(before, step) };
    let work = if same_work { WorkChange::Same } else { WorkChange::Other };
    Some(ChangedStep { id: step.id.clone(), fields, work })
}

fn changed_barriers(old: &[Barrier], new: &[Barrier]) -> Vec<String> {
    let before = by_id(old, |barrier| &barrier.id);
    let after = by_id(new, |barrier| &barrier.id);
    let ids: BTreeSet<&str> = before.keys().chain(after.keys()).copied().collect();
    let changed = ids.into_iter().filter(|id| before.get(id) != after.get(id));
    changed.map(str::to_owned).collect()
}

/// The plan without what is compared by name.
fn header(plan: &Plan) -> Plan {
    Plan {
        title: plan.title.clone(),
        outcome: plan.outcome.clone(),
        goal: plan.goal.clone(),
        context: plan.context.clone(),
        phases: plan.phases.clone(),
        steps: Vec::new(),
        barriers: Vec::new(),
        caps: plan.caps.clone(),
        budget: plan.budget,
        test_criteria: plan.test_criteria.clone(),
        failure: plan.failure.clone(),
        gate: plan.gate.clone(),
        risks: plan.risks.clone(),
        open_questions: plan.open_questions.clone(),
        continues: plan.continues,
        extend_at: plan.extend_at,
        defaults: plan.defaults.clone(),
        extra: plan.extra.clone(),
    }
}

/// Names of the fields that differ. A field that holds its default is not in the JSON form.
fn changed_fields<T: Serialize>(old: &T, new: &T) -> Vec<String> {
    let fields = |value: &T| match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (old, new) = (fields(old), fields(new));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    names.into_iter().filter(|name| old.get(*name) != new.get(*name)).cloned().collect()
}

impl fmt::Display for PlanDiff {
    /// A few lines for people, without an end of line after the last.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        if !self.fields.is_empty() {
            lines.push(format!("plan: {} changed", self.fields.join(", ")));
        }
        lines.extend(line("added", &self.added));
        lines.extend(line("removed", &self.removed));
        let changed: Vec<String> = self.changed.iter().map(ToString::to_string).collect();
        lines.extend(line("changed", &changed));
        if self.reordered {
            lines.push("steps: in another order".to_owned());
        }
        if !self.barriers.is_empty() {
            lines.push(format!("barriers: {} changed", names(&self.barriers)));
        }
        if lines.is_empty() {
            lines.push("no difference".to_owned());
        }
        f.write_str(&lines.join("\n"))
    }
}

impl fmt::Display for ChangedStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.id)?;
        match (self.fields.as_slice(), self.work) {
            ([], _) => f.write_str(" (by the plan's defaults)"),
            (fields, WorkChange::Same) => write!(f, " ({}; the same work)", fields.join(", ")),
            (fields, WorkChange::Other) => write!(f, " ({})", fields.join(", ")),
        }
    }
}

fn line(what: &str, ids: &[String]) -> Option<String> {
    match ids.len() {
        0 => None,
        1 => Some(format!("1 step {what}: {}", names(ids))),
        many => Some(format!("{many} steps {what}: {}", names(ids))),
    }
}

fn names(ids: &[String]) -> String {
    let shown: Vec<&str> = ids.iter().take(NAMES_MAX).map(String::as_str).collect();
    match ids.len().saturating_sub(NAMES_MAX) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Defaults;
    use super::*;

    fn step(id: &str, goal: &str) -> Step {
        Step { id: id.into(), goal: goal.into(), ..Step::default() }
    }

    fn plan(steps: Vec<Step>) -> Plan {
        Plan { steps, ..Plan::default() }
    }

    #[test]
    fn equal_plans_do_not_differ() {
        let one = plan(vec![step("a", "x"), step("b", "y")]);
        assert!(diff(&one, &one).is_empty());
        assert_eq!(diff(&one, &one).to_string(), "no difference");
    }

    #[test]
    fn says_what_differs() {
        let old = plan(vec![step("a", "x"), step("b", "y"), step("c", "z")]);
        let mut new = plan(vec![step("c", "z"), step("a", "w"), step("d", "")]);
        new.title = "t".into();
        new.steps[0].priority = 2;
        new.barriers.push(Barrier { id: "gate".into(), ..Barrier::default() });
        let text = diff(&old, &new).to_string();
        assert_eq!(
            text,
            "plan: title changed\n1 step added: d\n1 step removed: b\n\
             2 steps changed: c (priority; the same work), a (goal)\n\
             steps: in another order\nbarriers: gate changed"
        );
    }

    #[test]
    fn another_default_command_is_other_work() {
        let old = plan(vec![step("a", "x")]);
        let new = Plan {
            defaults: Defaults { command: Some("true".into()), ..Defaults::default() },
            ..old.clone()
        };
        let diff = diff(&old, &new);
        assert_eq!(diff.fields, ["defaults"]);
        assert_eq!(diff.changed[0].work, WorkChange::Other);
        assert!(diff.to_string().contains("a (by the plan's defaults)"), "{diff}");
    }

    #[test]
    fn long_lists_are_cut() {
        let new = plan((0..100).map(|n| step(&format!("s{n}"), "")).collect());
        let text = diff(&plan(Vec::new()), &new).to_string();
        assert!(text.starts_with("100 steps added: s0, s1,"), "{text}");
        assert!(text.ends_with("s7 and 92 more"), "{text}");
    }
}
