//! Processes: starts workers and checks under supervisors, reads their output and receipts, and
//! ends their orphans.

pub(crate) mod adopted;
pub(crate) mod check_result;
pub(crate) mod exit_record;
pub(crate) mod job;
pub(crate) mod limits;
pub(crate) mod orphans;
pub(crate) mod output;
pub(crate) mod receipt;
pub(crate) mod receipt_file;
pub(crate) mod report;
pub(crate) mod scratch;
pub(crate) mod supervisor;
pub(crate) mod workers;

pub use limits::WorkerLimits;
pub(crate) use output::unusable;
pub(crate) use supervisor::act_or_enable;
pub(crate) use workers::{
    LeftBehind, end_all_workers, end_workers, inside_wait, is_at_work_alone, repeated_by,
    worker_at_work,
};
pub use workers::{ProcessOptions, ProcessWorkers, scratch_folder};
