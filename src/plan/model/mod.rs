//! The plan model: plans, steps, criteria, policies and budgets, as their author wrote them.
//!
//! A plan is plain data. The functions here are pure: canonical text, defaults, differences between
//! versions, completion from a tool registry, and the dependency graph.

pub(crate) mod budget;
pub(crate) mod canonical;
pub(crate) mod criterion;
pub(crate) mod defaults;
pub(crate) mod diff;
pub(crate) mod enrich;
pub(crate) mod fields;
pub(crate) mod graph;
pub(crate) mod input;
pub(crate) mod plan;
pub(crate) mod policy;
pub(crate) mod problem;
pub(crate) mod route;
pub(crate) mod step;
