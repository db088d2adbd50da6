//! The difference between two plan versions, for a reviewer.
//!
//! Steps and barriers are matched by id. The diff compares plans only; the effect of a change on
//! finished work depends on the run.

mod executed;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::plan::{Barrier, Plan};
use super::step::Step;
use executed::executed_changes;

pub use executed::{ExecutedChange, ExecutedKind, ExecutedPart};

/// How many names a summary line shows.
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
    /// A smallest set of common steps that must move to turn the old order into the new one, in the
    /// new plan's order.
    pub reordered: Vec<String>,
    /// Ids of barriers that were added, removed or changed.
    pub barriers: Vec<String>,
    /// Other fields of the plan that differ.
    pub fields: Vec<FieldChange>,
    /// The differences in the commands, questions and costs of the plans.
    pub executed: Vec<ExecutedChange>,
}

/// A step that both plans have, with differences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedStep {
    /// Id of the step.
    pub id: String,
    /// The fields that differ; empty if only the plan's defaults differ.
    pub fields: Vec<FieldChange>,
    /// Whether the work itself changed, so that earlier work is discarded.
    pub work: WorkChange,
}

/// A field that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldChange {
    /// Name of the field.
    pub name: String,
    /// The old value; `None` for the default.
    pub old: Option<Value>,
    /// The new value; `None` for the default.
    pub new: Option<Value>,
}

/// Whether the work of a changed step is still the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkChange {
    /// The work is the same; only its time, manner or worker changed.
    Unchanged,
    /// The work itself changed.
    Changed,
}

impl PlanDiff {
    /// Whether the plans are equal.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Compares two plans.
#[must_use]
pub fn diff(old: &Plan, new: &Plan) -> PlanDiff {
    let before: BTreeMap<&str, &Step> = by_id(&old.steps, |step| &step.id);
    let after: BTreeMap<&str, &Step> = by_id(&new.steps, |step| &step.id);
    let changed = new
        .steps
        .iter()
        .filter_map(|step| changed_step(before.get(step.id.as_str())?, old, step, new))
        .collect();
    PlanDiff {
        added: only_in(&new.steps, &before),
        removed: only_in(&old.steps, &after),
        changed,
        reordered: moved_steps(&old.steps, &new.steps),
        barriers: changed_barriers(&old.barriers, &new.barriers),
        fields: changed_fields(&header(old), &header(new)),
        executed: executed_changes(old, new),
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
    let work = if same_work { WorkChange::Unchanged } else { WorkChange::Changed };
    Some(ChangedStep { id: step.id.clone(), fields, work })
}

fn changed_barriers(old: &[Barrier], new: &[Barrier]) -> Vec<String> {
    let before = by_id(old, |barrier| &barrier.id);
    let after = by_id(new, |barrier| &barrier.id);
    let ids: BTreeSet<&str> = before.keys().chain(after.keys()).copied().collect();
    let changed = ids.into_iter().filter(|id| before.get(id) != after.get(id));
    changed.map(str::to_owned).collect()
}

/// The plan without its steps and barriers, which are compared by id.
fn header(plan: &Plan) -> Plan {
    Plan {
        title: plan.title.clone(),
        outcome: plan.outcome.clone(),
        goal: plan.goal.clone(),
        context: plan.context.clone(),
        inputs: plan.inputs.clone(),
        phases: plan.phases.clone(),
        steps: Vec::new(),
        barriers: Vec::new(),
        caps: plan.caps.clone(),
        owners: plan.owners.clone(),
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

/// The common steps that are not in a longest subsequence with unchanged order.
fn moved_steps(old: &[Step], new: &[Step]) -> Vec<String> {
    let places: BTreeMap<&str, usize> =
        old.iter().enumerate().map(|(place, step)| (step.id.as_str(), place)).collect();
    let shared: Vec<(usize, &str)> = new
        .iter()
        .filter_map(|step| Some((*places.get(step.id.as_str())?, step.id.as_str())))
        .collect();
    let kept = longest_increasing(&shared.iter().map(|(place, _)| *place).collect::<Vec<_>>());
    let all = shared.iter().enumerate().filter(|(index, _)| !kept.contains(index));
    all.map(|(_, (_, id))| (*id).to_owned()).collect()
}

/// The indexes of a longest increasing subsequence, by patience sorting: for each length, the
/// subsequence found so far with the smallest last value.
fn longest_increasing(values: &[usize]) -> BTreeSet<usize> {
    let mut ends: Vec<(usize, usize)> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(values.len());
    for (index, value) in values.iter().enumerate() {
        let length = ends.partition_point(|(end, _)| end < value);
        before.push(length.checked_sub(1).and_then(|shorter| ends.get(shorter)).map(|end| end.1));
        match ends.get_mut(length) {
            Some(end) => *end = (*value, index),
            None => ends.push((*value, index)),
        }
    }
    let mut kept = BTreeSet::new();
    let mut next = ends.last().map(|end| end.1);
    while let Some(index) = next {
        kept.insert(index);
        next = before.get(index).copied().flatten();
    }
    kept
}

/// The fields that differ. A field with its default value is not in the JSON form.
fn changed_fields<T: Serialize>(old: &T, new: &T) -> Vec<FieldChange> {
    let fields = |value: &T| match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (old, new) = (fields(old), fields(new));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let change = |name: &String| FieldChange {
        name: name.clone(),
        old: old.get(name).cloned(),
        new: new.get(name).cloned(),
    };
    names.into_iter().map(change).filter(|change| change.old != change.new).collect()
}

/// The names of fields, for a summary line.
fn field_names(fields: &[FieldChange]) -> String {
    let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
    names.join(", ")
}

impl fmt::Display for PlanDiff {
    /// The differences in the commands, questions and costs, uncut, and a summary in a few lines,
    /// without a trailing newline.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines: Vec<String> = self.executed.iter().map(ToString::to_string).collect();
        if !self.fields.is_empty() {
            lines.push(format!("plan: {} changed", field_names(&self.fields)));
        }
        lines.extend(line("added", &self.added));
        lines.extend(line("removed", &self.removed));
        let changed: Vec<String> = self.changed.iter().map(ToString::to_string).collect();
        lines.extend(line("changed", &changed));
        lines.extend(line("moved", &self.reordered));
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
            (fields, WorkChange::Unchanged) => {
                write!(f, " ({}; the same work)", field_names(fields))
            }
            (fields, WorkChange::Changed) => write!(f, " ({})", field_names(fields)),
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
    use super::*;
    use crate::plan::Defaults;

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
    fn summary_lists_every_difference() {
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
             1 step moved: c\nbarriers: gate changed"
        );
        let found = diff(&old, &new);
        let title = FieldChange { name: "title".into(), old: None, new: Some("t".into()) };
        assert_eq!(found.fields, [title]);
        let goal = &found.changed[1].fields[0];
        assert_eq!((goal.old.clone(), goal.new.clone()), (Some("x".into()), Some("w".into())));
    }

    #[test]
    fn changed_default_command_changes_the_work() {
        let old = plan(vec![step("a", "x")]);
        let new = Plan {
            defaults: Defaults { command: Some("true".into()), ..Defaults::default() },
            ..old.clone()
        };
        let diff = diff(&old, &new);
        assert_eq!(field_names(&diff.fields), "defaults");
        assert_eq!(diff.changed[0].work, WorkChange::Changed);
        assert!(diff.to_string().contains("a (by the plan's defaults)"), "{diff}");
    }

    /// Without the moved steps both plans have the same order, and no smaller set has that
    /// property: checked against every subset, for all orders of five steps.
    #[test]
    fn moved_steps_are_a_smallest_set() {
        let old: Vec<Step> = ["a", "b", "c", "d", "e"].iter().map(|id| step(id, "")).collect();
        for order in 0..120_usize {
            let (mut rest, mut code, mut new) = (old.clone(), order, Vec::new());
            while !rest.is_empty() {
                new.push(rest.remove(code % rest.len()));
                code /= rest.len() + 1;
            }
            let moved = moved_steps(&old, &new);
            let left = |steps: &[Step], gone: &dyn Fn(&Step) -> bool| -> Vec<String> {
                steps.iter().filter(|step| !gone(step)).map(|step| step.id.clone()).collect()
            };
            let is_moved = |step: &Step| moved.contains(&step.id);
            assert_eq!(left(&old, &is_moved), left(&new, &is_moved));
            let fewest = (0..32_u32)
                .filter(|subset| {
                    let place = |step: &Step| old.iter().position(|each| each.id == step.id);
                    let gone = |step: &Step| (subset >> place(step).unwrap()) & 1 == 1;
                    left(&old, &gone) == left(&new, &gone)
                })
                .map(u32::count_ones)
                .min();
            assert_eq!(u32::try_from(moved.len()).ok(), fewest, "{new:?}");
        }
    }

    #[test]
    fn long_lists_are_truncated() {
        let new = plan((0..100).map(|n| step(&format!("s{n}"), "")).collect());
        let text = diff(&plan(Vec::new()), &new).to_string();
        assert!(text.starts_with("100 steps added: s0, s1,"), "{text}");
        assert!(text.ends_with("s7 and 92 more"), "{text}");
    }
}
