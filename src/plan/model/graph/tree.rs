//! A plan as a tree for display: every step and barrier once, under one of its dependencies.
//!
//! Invariants:
//! - Every node appears exactly once, before its children.
//! - The parent of a node is the dependency with the longest chain; the others are listed.
//! - Nodes of a cycle, which validation rejects, become roots.

use super::cycle::Edge;
use super::edges::{edges, ids};
use super::name_index::NameIndex;
use crate::plan::model::plan::{Barrier, Plan};
use crate::plan::model::step::Step;

/// A node of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeNode<'a> {
    /// Index of the node in the plan: steps first, then barriers.
    pub node: usize,
    /// Its id.
    pub id: &'a str,
    /// Id of the parent.
    pub under: Option<&'a str>,
    /// Ids of its other dependencies.
    pub also: Vec<&'a str>,
    /// Number of children.
    pub children: usize,
    /// For each ancestor from the root, and for the node itself: whether a sibling follows. An only
    /// child is drawn on the level of its parent.
    pub follows: Vec<bool>,
}

impl<'a> TreeNode<'a> {
    /// The step, if the node is a step.
    #[must_use]
    pub fn step(&self, plan: &'a Plan) -> Option<&'a Step> {
        plan.steps.get(self.node)
    }

    /// The barrier, if the node is a barrier.
    #[must_use]
    pub fn barrier(&self, plan: &'a Plan) -> Option<&'a Barrier> {
        plan.barriers.get(self.node.checked_sub(plan.steps.len())?)
    }
}

#[doc(hidden)]
impl Plan {
    /// The nodes of a plan in drawing order.
    #[must_use]
    pub fn tree(&self) -> Vec<TreeNode<'_>> {
        let names: Vec<&str> = ids(self).collect();
        let edges = edges(self, &NameIndex::new(names.iter().copied()));
        let parents = parents(&edges);
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); names.len()];
        let mut roots = Vec::new();
        for (node, parent) in parents.iter().enumerate() {
            match parent.and_then(|parent| children.get_mut(parent)) {
                Some(list) => list.push(node),
                None => roots.push(node),
            }
        }
        let name = |node: usize| names.get(node).copied().unwrap_or_default();
        let mut open: Vec<(usize, Vec<bool>)> = Vec::new();
        push(&mut open, &roots, &[]);
        let mut forest = Vec::new();
        while let Some((node, follows)) = open.pop() {
            let own = children.get(node).map_or(&[][..], Vec::as_slice);
            match own {
                [only] => open.push((*only, follows.clone())),
                several => push(&mut open, several, &follows),
            }
            let parent = parents.get(node).copied().flatten();
            let waits = edges.get(node).into_iter().flatten().map(|edge| edge.to);
            forest.push(TreeNode {
                node,
                id: name(node),
                under: parent.map(name),
                also: waits.filter(|to| Some(*to) != parent).map(name).collect(),
                children: own.len(),
                follows,
            });
        }
        forest
    }
}

/// Pushes the nodes of one level, the first on top.
fn push(open: &mut Vec<(usize, Vec<bool>)>, level: &[usize], above: &[bool]) {
    for (place, node) in level.iter().enumerate().rev() {
        let follows = [above, &[place + 1 < level.len()]].concat();
        open.push((*node, follows));
    }
}

/// The parent of each node: the dependency with the longest chain, the last one of equals.
fn parents(edges: &[Vec<Edge>]) -> Vec<Option<usize>> {
    let mut dependents: Vec<Vec<usize>> = vec![Vec::new(); edges.len()];
    let mut unmet: Vec<usize> = edges.iter().map(Vec::len).collect();
    for (node, list) in edges.iter().enumerate() {
        for edge in list {
            if let Some(dependents) = dependents.get_mut(edge.to) {
                dependents.push(node);
            }
        }
    }
    let mut depth = vec![0_usize; edges.len()];
    let mut parents = vec![None; edges.len()];
    let free = unmet.iter().enumerate().filter(|(_, count)| **count == 0);
    let mut open: Vec<usize> = free.map(|(node, _)| node).collect();
    while let Some(node) = open.pop() {
        let own = depth.get(node).copied().unwrap_or(0);
        for dependent in dependents.get(node).into_iter().flatten() {
            let deeper = depth.get_mut(*dependent).filter(|depth| **depth <= own);
            if let (Some(depth), Some(parent)) = (deeper, parents.get_mut(*dependent)) {
                *depth = own + 1;
                *parent = Some(node);
            }
            if let Some(count) = unmet.get_mut(*dependent) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    open.push(*dependent);
                }
            }
        }
    }
    // Nodes that a cycle blocks are roots.
    let stuck = unmet.iter().zip(&mut parents).filter(|(count, _)| **count > 0);
    stuck.for_each(|(_, parent)| *parent = None);
    parents
}

#[cfg(test)]
mod tests {
    //! Every node of any plan is drawn once, under one of its dependencies.

    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::plan::tests::support::*;
    use crate::plan::*;

    fn drawn(plan: &Plan) -> Vec<String> {
        let line = |branch: &TreeNode<'_>| {
            let depth = branch.follows.len();
            format!("{}{} {:?}", " ".repeat(depth), branch.id, branch.also)
        };
        plan.tree().iter().map(line).collect()
    }

    #[test]
    fn chains_are_straight_and_joins_stand_under_the_longest() {
        let mut all = plan(vec![
            step("a", &[]),
            step("b", &["a"]),
            step("long", &["b"]),
            step("short", &["b"]),
            step("longer", &["long"]),
            step("join", &["short", "longer", "gate"]),
            step("alone", &[]),
        ]);
        all.barriers.push(barrier("gate", &["a"], BarrierNeeds::All));
        let expected = [
            " a []",
            "  b []",
            "   long []",
            "   longer []",
            "   join [\"short\", \"gate\"]",
            "   short []",
            "  gate []",
            " alone []",
        ];
        assert_eq!(drawn(&all), expected);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn every_node_stands_once_under_something_it_waits_for(
            links in prop::collection::vec(prop::collection::vec(0_usize..12, 0..4), 1..12),
        ) {
            // Names that lead nowhere and cycles are drawn, too.
            let name = |number: &usize| format!("s{number}");
            let steps = links.iter().enumerate().map(|(number, after)| {
                let after: Vec<String> = after.iter().map(name).collect();
                Step { id: name(&number), after, ..Step::default() }
            });
            let plan = plan(steps.collect());
            let forest = plan.tree();
            let ids: BTreeSet<&str> = forest.iter().map(|branch| branch.id).collect();
            prop_assert_eq!(ids.len(), plan.steps.len());
            prop_assert_eq!(forest.len(), plan.steps.len());
            let mut seen = BTreeSet::new();
            for branch in &forest {
                if let Some(under) = branch.under {
                    prop_assert!(seen.contains(under), "{} before {}", branch.id, under);
                    let step = branch.step(&plan).unwrap();
                    prop_assert!(step.after.iter().any(|after| after == under));
                }
                seen.insert(branch.id);
            }
        }
    }
}
