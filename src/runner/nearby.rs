//! The part of a plan near a step: what it builds on, and what builds on it.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::plan::{Plan, Step};

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
    pub outputs: &'a [String],
    /// Files that it is expected to change.
    pub changes: &'a [String],
}

impl<'a> Nearby<'a> {
    pub(super) fn of(plan: &'a Plan, step: &Step) -> Self {
        let mut before: BTreeSet<&str> = step.after.iter().map(String::as_str).collect();
        // What waits for the step waits for its id, or for a barrier of which it is a member.
        let mut awaited: BTreeSet<&str> = BTreeSet::from([step.id.as_str()]);
        for barrier in &plan.barriers {
            if step.after.contains(&barrier.id) {
                before.extend(barrier.members.iter().map(String::as_str));
            }
            if barrier.members.contains(&step.id) {
                awaited.insert(&barrier.id);
            }
        }
        let waits = |other: &Step| other.after.iter().any(|id| awaited.contains(id.as_str()));
        let neighbours = |is_near: &dyn Fn(&Step) -> bool| {
            plan.steps.iter().filter(|other| is_near(other)).map(Neighbour::of).collect()
        };
        Self {
            before: neighbours(&|other| before.contains(other.id.as_str())),
            after: neighbours(&waits),
        }
    }
}

impl<'a> Neighbour<'a> {
    fn of(step: &'a Step) -> Self {
        Self {
            id: &step.id,
            title: &step.title,
            goal: &step.goal,
            outputs: &step.outputs,
            changes: &step.changes,
        }
    }
}
