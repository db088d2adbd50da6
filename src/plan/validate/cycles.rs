//! Cycles: steps that wait for each other, and fallbacks that never come to stand in.
//!
//! A step whose fallback is called waits for it. So a fallback that waits for the step that it
//! stands in for, directly, through others or through their fallbacks, would never come to it:
//! that is a cycle of the graph of what waits for what, with an edge for each fallback.

use std::collections::BTreeMap;

use super::{Judge, fault_of};
use crate::plan::cycle::{Cycle, Edge, cycles};
use crate::plan::graph::{self, Item, shown};
use crate::plan::{Fallback, Plan};

/// The position of an edge that is no name in `after`, but a fallback.
const FALLBACK: usize = usize::MAX;

/// The cycles that close only when fallbacks stand in. `edges` is a graph without cycles.
pub(super) fn with_fallbacks(
    plan: &Plan,
    nodes: &BTreeMap<&str, usize>,
    mut edges: Vec<Vec<Edge>>,
) -> Vec<Cycle> {
    let mut has_fallbacks = false;
    for (node, step) in plan.steps.iter().enumerate() {
        let Some(Fallback::Step(name)) = step.fallback.as_deref() else { continue };
        // A name that leads nowhere, or to the step itself, is a problem of its own.
        let to = nodes.get(name.as_str()).copied().filter(|to| *to != node);
        if let (Some(to), Some(list)) = (to, edges.get_mut(node)) {
            list.push(Edge { to, position: FALLBACK });
            has_fallbacks = true;
        }
    }
    if has_fallbacks { cycles(&edges) } else { Vec::new() }
}

/// Cycles by the node that they are reported at.
pub(super) fn by_node(cycles: Vec<Cycle>) -> BTreeMap<usize, Vec<Cycle>> {
    let mut by_node: BTreeMap<usize, Vec<Cycle>> = BTreeMap::new();
    for cycle in cycles {
        by_node.entry(cycle.first).or_default().push(cycle);
    }
    by_node
}

impl<'a> Judge<'a> {
    /// A cycle as a path of ids.
    fn path(&self, cycle: &Cycle) -> String {
        let name = |node: usize| match graph::item(self.plan, node) {
            Some(item) => shown(item.id),
            None => String::new(),
        };
        let mut path: Vec<String> = cycle.shown.iter().map(|node| name(*node)).collect();
        if let Some(hidden) = cycle.length.checked_sub(path.len()).filter(|count| *count > 0) {
            path.push(format!("({hidden} more)"));
        }
        path.push(name(cycle.first));
        path.join(" -> ")
    }

    pub(super) fn cycle(&mut self, item: Item<'_>, field: &str, node: usize) {
        for cycle in self.cycles.remove(&node).unwrap_or_default() {
            let path = self.path(&cycle);
            let text = format!(
                "a cycle, each waits for the next: {path}; remove one of these dependencies"
            );
            self.problems.push(item.problem(format_args!(".{field}[{}]", cycle.position), text));
        }
    }

    pub(super) fn fallback(&mut self, item: Item<'_>, fallback: &'a Fallback) {
        let text = match fallback {
            Fallback::Step(name) if name == item.id => {
                Some("a step cannot stand in for itself; name another".to_owned())
            }
            Fallback::Step(name) => self.member(name),
            Fallback::Value { value, .. } => fault_of(value),
            Fallback::Owner(name) | Fallback::Variable { name, .. } if name.trim().is_empty() => {
                Some("the name is empty; write it, or leave the fallback out".to_owned())
            }
            Fallback::Owner(_) | Fallback::Variable { .. } => None,
        };
        self.problems.extend(text.map(|text| item.problem(".fallback", text)));
    }

    pub(super) fn stand_in_cycle(&mut self, item: Item<'_>, node: usize) {
        for cycle in self.stand_in_cycles.remove(&node).unwrap_or_default() {
            let path = self.path(&cycle);
            let text = format!(
                "a cycle through a fallback, each waits for the next or is stood in for by it: \
                 {path}; name a fallback for `{}` that does not wait for it",
                shown(item.id)
            );
            let field = match cycle.position {
                FALLBACK => ".fallback".to_owned(),
                position => format!(".after[{position}]"),
            };
            self.problems.push(item.problem(field, text));
        }
    }
}
