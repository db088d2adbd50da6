//! The JSON forms that several views share. `format/inspect-json.md` describes them.
//!
//! Every struct is destructured field by field, so that a new field cannot be forgotten.

pub(crate) mod activity;
pub(crate) mod checks;
pub(crate) mod event;
#[cfg(test)]
mod event_tests;
pub(crate) mod explanation;
pub(crate) mod repeats;
pub(crate) mod run;
pub(crate) mod views;
pub(crate) mod waits;
