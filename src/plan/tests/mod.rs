//! Tests of the state machine as a whole: what each command does and refuses, and that whatever
//! is asked of it, its books balance.

mod books;
mod commands;
mod consequences;
mod costs;
mod dice;
mod fallbacks;
mod forged;
mod late;
mod leftovers;
mod other_plans;
mod outlive;
mod plans;
mod policy;
mod random;
mod reference;
mod refusals;
mod replans;
mod requests;
mod scale;
mod stories;
pub(super) mod support;
mod views;
