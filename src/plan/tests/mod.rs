//! Tests of the state machine as a whole: what each command does and refuses, and that whatever
//! is asked of it, its books balance.

mod budget_pause;
mod commands;
mod failure;
mod forged_events;
mod invariants;
mod late_barriers;
mod limits;
mod random;
mod regressions;
mod rejections;
mod replan;
mod settle;
pub(super) mod support;
mod views;
