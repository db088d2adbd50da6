//! Processes: starts workers and checks, reads their output and receipts, and ends their orphans.

pub(crate) mod check_result;
pub(crate) mod job;
pub(crate) mod orphans;
pub(crate) mod output;
pub(crate) mod receipt;
pub(crate) mod receipt_file;
pub(crate) mod report;
pub(crate) mod scratch;
pub(crate) mod workers;

pub(crate) use output::unusable;
pub use workers::{ProcessOptions, ProcessWorkers, scratch_folder};
