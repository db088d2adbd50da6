//! The neighbours of a step in the plan: its dependencies and its dependents.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::plan::{CompactPlan, CompactStep, Neighbours, Texts};

/// The neighbours of a step, in plan order.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Nearby<'a> {
    /// Its dependencies, including those through a barrier.
    pub before: Vec<Neighbour<'a>>,
    /// Its dependents, including those through a barrier.
    pub after: Vec<Neighbour<'a>>,
}

/// A neighbour of a step.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Neighbour<'a> {
    /// The step's id.
    pub id: &'a str,
    /// The title in one line.
    pub title: &'a str,
    /// The goal of the step.
    pub goal: &'a str,
    /// The variables that its output sets.
    #[cfg_attr(test, schemars(with = "Vec<String>"))]
    pub outputs: Texts<'a>,
    /// The files that it is expected to change.
    #[cfg_attr(test, schemars(with = "Vec<String>"))]
    pub changes: Texts<'a>,
}

impl<'a> Nearby<'a> {
    pub(crate) fn of(plan: &'a CompactPlan, near: &Neighbours) -> Self {
        let at = |places: &[usize]| {
            let steps = places.iter().filter_map(|place| plan.step(*place));
            steps.map(Neighbour::of).collect()
        };
        Self { before: at(&near.dependencies), after: at(&near.dependents) }
    }
}

impl<'a> Neighbour<'a> {
    fn of(step: CompactStep<'a>) -> Self {
        Self {
            id: step.id(),
            title: step.title(),
            goal: step.goal(),
            outputs: step.outputs(),
            changes: step.changes(),
        }
    }
}
