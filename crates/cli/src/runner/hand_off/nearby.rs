//! The part of a plan near a step: what it builds on, and what builds on it.

use serde::Serialize;

use plan_ledger::plan::{CompactPlan, CompactStep, Neighbours, Texts};

/// The steps around one, in plan order.
#[derive(Debug, Clone, Serialize)]
pub struct Nearby<'a> {
    /// Those that it waits for, also through a barrier.
    pub before: Vec<Neighbour<'a>>,
    /// Those that wait for it, also through a barrier.
    pub after: Vec<Neighbour<'a>>,
}

/// A step near another one.
#[derive(Debug, Clone, Serialize)]
pub struct Neighbour<'a> {
    /// Its id.
    pub id: &'a str,
    /// One line for people.
    pub title: &'a str,
    /// What its worker is asked to achieve.
    pub goal: &'a str,
    /// Names of the variables that its output sets.
    pub outputs: Texts<'a>,
    /// Files that it is expected to change.
    pub changes: Texts<'a>,
}

impl<'a> Nearby<'a> {
    pub(crate) fn of(plan: &'a CompactPlan, near: &Neighbours) -> Self {
        let at = |places: &[usize]| {
            let steps = places.iter().filter_map(|place| plan.step(*place));
            steps.map(Neighbour::of).collect()
        };
        Self { before: at(&near.before), after: at(&near.after) }
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
