//! Places the nodes of a graph: each node in a layer after its dependencies, and near the nodes
//! that are connected with it.
//!
//! Invariant: the result depends only on the graph, and takes time in proportion to its edges.

use std::collections::BTreeMap;

/// How often the layers are ordered again, alternately from both ends.
const SWEEPS: usize = 4;

/// The place of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) layer: usize,
    pub(super) row: usize,
}

/// The places of the nodes. `waits` has, for each node, the nodes that it waits for.
pub(super) fn layout(waits: &[Vec<usize>]) -> Vec<Place> {
    let layers = layers(waits);
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (node, layer) in layers.iter().enumerate() {
        members.entry(*layer).or_default().push(node);
    }
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); waits.len()];
    for (node, before) in waits.iter().enumerate() {
        for other in before {
            if let Some(list) = after.get_mut(*other) {
                list.push(node);
            }
        }
    }
    let mut rows = vec![0; waits.len()];
    for nodes in members.values() {
        place(nodes, &mut rows);
    }
    for sweep in 0..SWEEPS {
        let neighbours = if sweep % 2 == 0 { waits } else { &after };
        let mut order: Vec<_> = members.keys().copied().collect();
        if sweep % 2 == 1 {
            order.reverse();
        }
        for layer in order {
            let Some(nodes) = members.get_mut(&layer) else { continue };
            nodes.sort_by_key(|node| (weight(neighbours.get(*node), &rows, *node), *node));
            place(nodes, &mut rows);
        }
    }
    let places = layers.into_iter().zip(rows);
    places.map(|(layer, row)| Place { layer, row }).collect()
}

fn place(nodes: &[usize], rows: &mut [usize]) {
    for (row, node) in nodes.iter().enumerate() {
        if let Some(place) = rows.get_mut(*node) {
            *place = row;
        }
    }
}

/// The mean row of the neighbours, in thousandths; its own row if the node has no neighbours.
fn weight(neighbours: Option<&Vec<usize>>, rows: &[usize], node: usize) -> usize {
    let row = |node: usize| rows.get(node).copied().unwrap_or_default();
    let neighbours = neighbours.map_or(&[][..], Vec::as_slice);
    let sum: usize = neighbours.iter().map(|other| row(*other) * 1000).sum();
    sum.checked_div(neighbours.len()).unwrap_or_else(|| row(node) * 1000)
}

/// The length of the longest path to each node. On a cycle, which a valid plan does not have, the path starts where the
/// cycle is entered.
fn layers(waits: &[Vec<usize>]) -> Vec<usize> {
    let mut layers: Vec<Option<usize>> = vec![None; waits.len()];
    let mut is_entered = vec![false; waits.len()];
    for start in 0..waits.len() {
        // Iterative: a chain of steps may be long.
        let mut open = vec![(start, 0)];
        while let Some((node, next)) = open.pop() {
            if let Some(entered) = is_entered.get_mut(node) {
                *entered = true;
            }
            let before = waits.get(node).map_or(&[][..], Vec::as_slice);
            if let Some(other) = before.get(next) {
                open.push((node, next + 1));
                if is_entered.get(*other) == Some(&false) {
                    open.push((*other, 0));
                }
                continue;
            }
            let known = before.iter().filter_map(|other| layers.get(*other).copied().flatten());
            let layer = known.map(|layer| layer + 1).max().unwrap_or_default();
            if let Some(place) = layers.get_mut(node) {
                *place = Some(layer);
            }
        }
    }
    layers.into_iter().map(Option::unwrap_or_default).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_is_after_all_that_it_waits_for() {
        let waits = vec![vec![], vec![0], vec![0], vec![1, 2], vec![0, 3]];
        let places = layout(&waits);
        let layers: Vec<_> = places.iter().map(|place| place.layer).collect();
        assert_eq!(layers, [0, 1, 1, 2, 3]);
        assert_ne!(places[1].row, places[2].row);
    }

    #[test]
    fn long_chain_and_cycle_end() {
        let chain: Vec<Vec<usize>> =
            (0..20_000_usize).map(|node| node.checked_sub(1).into_iter().collect()).collect();
        assert_eq!(layout(&chain)[19_999].layer, 19_999);
        layout(&[vec![1], vec![0]]);
    }
}
