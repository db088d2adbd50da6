//! The dependency graph of a plan: edges, cycles, and a tree for display.

pub(crate) mod cycle;
pub(crate) mod edges;
pub(crate) mod name_index;
pub(crate) mod tree;
