//! TODO

pub(crate) mod cycle;
pub(crate) mod edges;
pub(crate) mod tree;
