//! Executes commands: decide on the state, append the events as one batch, and wait until they are
//! durable.
//!
//! `engine` holds the writer's state; `prepared` stores large outputs, `execution` runs the commands of
//! a transaction, `submit` passes their events to the log, `submitted` waits for them, `tick` records
//! due events, and `dispatch` hands steps to workers. `repeated_receipt` detects receipts that are sent again.
//! `state_cache` gives readers copies of the state. `crate::plan` makes all decisions.

pub(crate) mod commit;
pub(crate) mod dispatch;
pub(crate) mod engine;
pub(crate) mod execution;
pub(crate) mod fork;
pub(crate) mod planned_files;
pub(crate) mod prepared;
mod repeated_receipt;
pub(crate) mod state_cache;
pub(crate) mod submit;
pub(crate) mod submitted;
pub(crate) mod task;
pub(crate) mod tick;
pub(crate) mod time_travel;
