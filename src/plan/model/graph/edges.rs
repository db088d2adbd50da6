//! The dependency graph of a plan, and the positions of its nodes for messages.
//!
//! Nodes are numbered: the steps in plan order, then the barriers. A step depends on the names in
//! `after`, a barrier on its members. Unknown names make no edges.

use std::collections::BTreeSet;
use std::fmt;
use std::fmt::Display;

use super::cycle::Edge;
use super::name_index::NameIndex;
use crate::plan::model::plan::Plan;
use crate::plan::model::problem::Problem;
use crate::plan::model::step::Fallback;

/// A position in one of the plan's lists.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Item<'a> {
    pub(crate) list: &'static str,
    pub(crate) index: usize,
    pub(crate) id: &'a str,
}

impl Item<'_> {
    pub(crate) fn problem(self, field: impl Display, message: impl Into<String>) -> Problem {
        Problem { place: format!("{self}{field}"), message: message.into() }
    }
}

impl Display for Item<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.list, self.index)?;
        match self.id {
            "" => Ok(()),
            id => write!(f, " ({})", shown(id)),
        }
    }
}

/// An id, escaped for display.
pub(crate) fn shown(id: &str) -> String {
    id.escape_debug().to_string()
}

/// The ids of all nodes.
pub(crate) fn ids(plan: &Plan) -> impl Iterator<Item = &str> {
    let barriers = plan.barriers.iter().map(|barrier| barrier.id.as_str());
    plan.steps.iter().map(|step| step.id.as_str()).chain(barriers)
}

/// The owners of all steps and fallbacks.
pub(crate) fn owners(plan: &Plan) -> BTreeSet<&str> {
    let own = plan.steps.iter().filter_map(|step| plan.owner_of(step));
    let fallback_owners = plan.steps.iter().filter_map(|step| match step.fallback.as_deref() {
        Some(Fallback::Owner(owner)) => Some(owner.as_str()),
        _ => None,
    });
    own.chain(fallback_owners).collect()
}

/// The dependencies of each node. A name that is listed twice makes one edge.
pub(crate) fn edges(plan: &Plan, nodes: &NameIndex<'_>) -> Vec<Vec<Edge>> {
    let barriers = plan.barriers.iter().map(|barrier| &barrier.members);
    let lists = plan.steps.iter().map(|step| &step.after).chain(barriers);
    // The last list that named each node.
    let mut named_by = vec![usize::MAX; plan.steps.len().saturating_add(plan.barriers.len())];
    lists
        .enumerate()
        .map(|(node, names)| {
            let known = names
                .iter()
                .enumerate()
                .filter_map(|(position, name)| nodes.find(name).map(|to| Edge { to, position }));
            let is_new = |edge: &Edge| {
                let named_by = named_by.get_mut(edge.to);
                named_by.is_some_and(|by| std::mem::replace(by, node) != node)
            };
            known.filter(is_new).collect()
        })
        .collect()
}

/// The position of a node in the plan.
pub(crate) fn node_item(plan: &Plan, node: usize) -> Option<Item<'_>> {
    let Some(index) = node.checked_sub(plan.steps.len()) else {
        let step = plan.steps.get(node)?;
        return Some(Item { list: "steps", index: node, id: &step.id });
    };
    plan.barriers.get(index).map(|barrier| Item { list: "barriers", index, id: &barrier.id })
}
