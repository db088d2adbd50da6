//! The helpers of the loop: planners write plans, and deciders decide about failures.

pub(crate) mod decider;
pub(crate) mod planner;
