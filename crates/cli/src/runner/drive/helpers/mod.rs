//! What the loop asks its helpers: planners for plans, deciders about failures.

pub(crate) mod decider;
pub(crate) mod planner;
