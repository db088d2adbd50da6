//! Tests of the state machine as a whole: what each command does, what it rejects, and that the
//! state keeps its invariants whatever is asked of it.

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
