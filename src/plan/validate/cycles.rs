//! Cycles: steps that wait for each other, and fallbacks that never come to stand in.
//!
//! A step whose fallback is called waits for it. So a fallback that waits for the step that it
//! stands in for, directly, through others or through their fallbacks, would never come to it:
//! that is a cycle of the graph of what waits for what, with an edge for each fallback.

use std::collections::BTreeMap;

use crate::plan::model::graph::cycle::{Cycle, Edge, find_cycles};
use crate::plan::model::plan::Plan;
use crate::plan::model::step::Fallback;

/// The position of an edge that is no name in `after`, but a fallback.
pub(crate) const FALLBACK: usize = usize::MAX;

/// The cycles that close only when fallbacks stand in. `edges` is a graph without cycles.
pub(crate) fn with_fallbacks(
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
    if has_fallbacks { find_cycles(&edges) } else { Vec::new() }
}

/// Cycles by the node that they are reported at.
pub(crate) fn by_node(cycles: Vec<Cycle>) -> BTreeMap<usize, Vec<Cycle>> {
    let mut by_node: BTreeMap<usize, Vec<Cycle>> = BTreeMap::new();
    for cycle in cycles {
        by_node.entry(cycle.first).or_default().push(cycle);
    }
    by_node
}
