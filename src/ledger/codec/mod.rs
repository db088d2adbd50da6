//! How events, notes and state values are encoded as bytes, and the hashes over them.
//!
//! `detached` takes values that can be erased out of the bytes. `event` maps an event to a record and back, `kind` numbers and names the kinds of records, and
//! `values` holds the primitive encoding that payloads and snapshot bodies share.

pub(crate) mod detached;
pub(crate) mod event;
#[cfg(test)]
mod golden_tests;
pub(crate) mod hash;
pub(crate) mod kind;
pub(crate) mod last_notes;
pub(crate) mod note;
#[cfg(test)]
mod page_tests;
pub(crate) mod streams;
pub(crate) mod values;
