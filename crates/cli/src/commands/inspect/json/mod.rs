//! The JSON forms that several views share. `format/inspect-json.md` describes them.
//!
//! Every struct is destructured field by field, so that a new field cannot be forgotten.

pub(crate) mod event;
#[cfg(test)]
mod event_tests;
