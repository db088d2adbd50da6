//! Dependency cycles, also through fallbacks.
//!
//! A failed step waits for its fallback step. A fallback that depends on that step, directly,
//! through others or through their fallbacks, could therefore never run. Such fallbacks are found
//! as cycles of the dependency graph with an additional edge from each step to its fallback.

use std::collections::BTreeMap;

use crate::plan::model::graph::cycle::{Cycle, Edge, find_cycles};
use crate::plan::model::graph::name_index::NameIndex;
use crate::plan::model::plan::Plan;
use crate::plan::model::step::Fallback;

/// The position of an edge that is a fallback, not a name in `after`.
pub(crate) const FALLBACK: usize = usize::MAX;

/// The cycles that close only through fallbacks. `edges` must be a graph without cycles.
pub(crate) fn with_fallbacks(
    plan: &Plan,
    nodes: &NameIndex<'_>,
    mut edges: Vec<Vec<Edge>>,
) -> Vec<Cycle> {
    let mut has_fallbacks = false;
    for (node, step) in plan.steps.iter().enumerate() {
        let Some(Fallback::Step(name)) = step.fallback.as_deref() else { continue };
        // An unknown name, or the step itself, is reported elsewhere.
        let to = nodes.find(name).filter(|to| *to != node);
        if let (Some(to), Some(list)) = (to, edges.get_mut(node)) {
            list.push(Edge { to, position: FALLBACK });
            has_fallbacks = true;
        }
    }
    if has_fallbacks { find_cycles(&edges) } else { Vec::new() }
}

/// Cycles by the node at which they are reported.
pub(crate) fn by_node(cycles: Vec<Cycle>) -> BTreeMap<usize, Vec<Cycle>> {
    let mut by_node: BTreeMap<usize, Vec<Cycle>> = BTreeMap::new();
    for cycle in cycles {
        by_node.entry(cycle.first).or_default().push(cycle);
    }
    by_node
}
