//! Events: the facts that a ledger stores.
//!
//! The log is a sequence of events, and the state is their fold. Each file of this module holds one
//! family: plan versions, runs, steps, receipts and questions; `table` lists all events.
//!
//! Invariants:
//! - An event states what happened. Anything with a result that could differ later (a criterion, a
//!   policy, a clock) is evaluated before, and the event records the result.
//! - Each variant has its own record kind on disk (`format/events.md`).
//! - One `Serialize` gives the binary payload and the JSON form. The binary one has every field, in
//!   order: no attribute skips or flattens a field there. JSON is stored as [`crate::plan::Json`].
//! - A step event carries the sequence number of the step's previous event, so that the history of
//!   a step can be read without an index.

pub(crate) mod json_form;
pub(crate) mod plan_event;
pub(crate) mod question;
pub(crate) mod receipt;
pub(crate) mod run_event;
pub(crate) mod step_event;
pub(crate) mod step_status;
pub(crate) mod table;

pub use table::Event;
