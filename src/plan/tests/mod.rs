//! Tests of the state machine as a whole: what each command does and refuses, and that whatever
//! is asked of it, its books balance.

mod books;
mod commands;
mod consequences;
mod forged;
mod random;
mod refusals;
mod replans;
mod scale;
pub(super) mod support;
mod views;
