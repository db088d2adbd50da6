//! Cycle detection in a dependency graph.
//!
//! Depth-first search without recursion, so that a chain of a million steps needs no stack. Each
//! edge back into the current path closes one cycle. Every edge is visited once, so every such
//! cycle is reported once.

/// How many members of a cycle a message shows.
const SHOWN_MAX: usize = 16;

/// A dependency of a node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edge {
    /// The dependency.
    pub(crate) to: usize,
    /// Its index in the dependency list of the node.
    pub(crate) position: usize,
}

/// A cycle: each node depends on the next, the last on the first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cycle {
    /// The first node.
    pub(crate) first: usize,
    /// Index of the second node in the dependency list of the first.
    pub(crate) position: usize,
    /// Number of nodes.
    pub(crate) length: usize,
    /// The first nodes, for display.
    pub(crate) shown: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Visit {
    New,
    /// On the current path, at this index.
    OnPath(usize),
    Done,
}

/// A node of the current path, and the edge that the search follows.
#[derive(Debug, Clone, Copy)]
struct Frame {
    node: usize,
    next: usize,
    position: usize,
}

impl Frame {
    fn new(node: usize) -> Self {
        Self { node, next: 0, position: 0 }
    }
}

/// All cycles that back edges close; empty if the graph is acyclic.
pub(crate) fn find_cycles(edges: &[Vec<Edge>]) -> Vec<Cycle> {
    let mut visits = vec![Visit::New; edges.len()];
    let mut found = Vec::new();
    for root in 0..edges.len() {
        if visits.get(root) == Some(&Visit::New) {
            walk(root, edges, &mut visits, &mut found);
        }
    }
    found
}

fn walk(root: usize, edges: &[Vec<Edge>], visits: &mut [Visit], found: &mut Vec<Cycle>) {
    let mut path = vec![Frame::new(root)];
    mark(visits, root, Visit::OnPath(0));
    while let Some(frame) = path.last_mut() {
        let Some(edge) = edges.get(frame.node).and_then(|list| list.get(frame.next)) else {
            mark(visits, frame.node, Visit::Done);
            path.pop();
            continue;
        };
        frame.next = frame.next.saturating_add(1);
        frame.position = edge.position;
        match visits.get(edge.to) {
            Some(Visit::New) => {
                mark(visits, edge.to, Visit::OnPath(path.len()));
                path.push(Frame::new(edge.to));
            }
            Some(Visit::OnPath(start)) => found.extend(closed(path.get(*start..))),
            Some(Visit::Done) | None => {}
        }
    }
}

fn closed(path: Option<&[Frame]>) -> Option<Cycle> {
    let path = path?;
    let first = path.first()?;
    Some(Cycle {
        first: first.node,
        position: first.position,
        length: path.len(),
        shown: path.iter().take(SHOWN_MAX).map(|frame| frame.node).collect(),
    })
}

fn mark(visits: &mut [Visit], node: usize, visit: Visit) {
    if let Some(place) = visits.get_mut(node) {
        *place = visit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(lists: &[&[usize]]) -> Vec<Vec<Edge>> {
        lists
            .iter()
            .map(|list| {
                list.iter().enumerate().map(|(position, to)| Edge { to: *to, position }).collect()
            })
            .collect()
    }

    #[test]
    fn a_diamond_has_none() {
        assert_eq!(find_cycles(&graph(&[&[], &[0], &[0], &[1, 2]])), Vec::new());
    }

    #[test]
    fn a_self_loop_and_a_ring_are_two() {
        let found = find_cycles(&graph(&[&[0], &[2], &[3], &[0, 1]]));
        let shown: Vec<&[usize]> = found.iter().map(|cycle| cycle.shown.as_slice()).collect();
        assert_eq!(shown, [&[0][..], &[1, 2, 3][..]]);
    }

    #[test]
    fn two_rings_through_one_node_are_two() {
        let found = find_cycles(&graph(&[&[1, 2], &[0], &[0]]));
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].position, 1);
    }

    #[test]
    fn a_ring_of_many_is_found_without_recursion() {
        const NODES: usize = 100_000;
        let ring: Vec<Vec<Edge>> =
            (0..NODES).map(|node| vec![Edge { to: (node + 1) % NODES, position: 0 }]).collect();
        let found = find_cycles(&ring);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].length, found[0].shown.len()), (NODES, SHOWN_MAX));
    }
}
