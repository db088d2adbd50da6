//! Tests of the state machine: the result of each command, its rejections, and the invariants of
//! the state after any sequence of commands.

mod batch_overflow;
mod budgets;
mod commands;
mod complexity;
mod failures;
mod invariants;
mod late_barriers;
mod random;
mod regressions;
mod rejections;
mod settlement;
pub(super) mod support;
mod versions;
mod views;
