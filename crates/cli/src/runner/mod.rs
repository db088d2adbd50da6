//! The runner dispatches the steps of one run to workers until no work is left.
//!
//! The loop ([`drive`]) uses two interfaces. It writes to the
//! [`Ledger`](plan_ledger::Ledger), and it dispatches to [`Workers`]: processes
//! ([`ProcessWorkers`]) or constant replies ([`StubWorkers`]). Retries, caps and acceptance are
//! rules of the ledger, not of the runner.
//!
//! Invariants:
//! - A worker starts only after its dispatch is durable, and the local files of an attempt are
//!   deleted only after its receipt is durable.
//! - The loop has no threads and reads only the clock it is given. With stubs, the same ledger
//!   gives the same sequence of calls, so a simulated disk can drive this loop.
//! - The ledger alone decides which steps are ready, how a failure is handled and when a run has
//!   ended.
//! - A result that a worker of an earlier runner left is recorded. Its other attempts are recorded as
//!   lost only when the worker and all processes that it started are known to be dead. A process that outlives its job is killed and
//!   reported. An attempt that another machine may host keeps its lease.
//! - Judges, planners and deciders run through [`Workers`], as workers do. A usable reply is recorded under
//!   their name; any other reply has no effect.

mod check;
mod check_lock;
mod claims;
mod dead_letter;
mod drive;
mod external_worker;
mod helpers;
mod imported_status;
mod own_folder;
mod process;
mod progress;
mod stub;
mod waits;
mod workers;

pub(crate) use check::Criteria;
pub use check::{Check, CheckAnswer, Checked, Subject};
pub(crate) use check_lock::{CheckLock, JudgeMark, check_folders, checks_at_work, end_left_checks};
pub(crate) use claims::{
    ClaimsLook, DeadClaim, KeptClaim, claimed_files, gone_claims, release_dead_claims,
    repeating_attempts, take_over_dead_claims,
};
pub(crate) use drive::{
    Consequence, EndedAttempt, GuardState, HeldOwner, closed_until, disk_problem, is_by_planner,
    keep_left, may_ask_planner, misplaced, rationale,
};
pub use drive::{
    Counts, Guards, LeftWorkers, Options, Recovered, RunOutcome, RunSummary, Session, TakeOver,
    Unrecorded, drive, recover,
};
pub(crate) use external_worker::{
    CheckPlaces, End, ExternalWork, Order, check_external, forget_external, has_check,
};
pub(crate) use helpers::approved_commands::{approval_here, approved_commands, folder_here};
pub use helpers::command_gate::CommandChecks;
pub(crate) use helpers::commands::TIMEOUT_SECONDS;
pub use helpers::commands::{FailureDecider, Helpers, Judge, PlannedWork, Planner};
pub(crate) use helpers::folder_state::FolderState;
pub(crate) use helpers::planner_request::first_request;
pub use imported_status::{ImportResult, ImportedStatuses, import_statuses};
pub(crate) use own_folder::{OwnFolder, create_own_folder};
pub use process::{ProcessOptions, ProcessWorkers, WorkerLimits, scratch_folder};
pub(crate) use process::{
    act_or_enable, end_all_workers, end_workers, inside_wait, is_at_work_alone, unusable,
    worker_at_work,
};
pub(crate) use progress::STOPPING;
pub use progress::{Fence, Observer, Progress, StopRequest};
pub use stub::StubWorkers;
pub(crate) use stub::canned_output;
pub(crate) use waits::holds::runner_waits;
pub use waits::hours::Hours;
pub(crate) use waits::nearest_second;
pub use workers::{LeftAttempt, Report, StartFailure, WorkerNote, Workers};

/// Adds the inputs of workers, judges, planners and deciders, and the replies of judges and deciders,
/// to a schema.
#[cfg(test)]
pub(crate) fn define_hand_offs(schema: &mut crate::json::PublishedSchema) {
    schema.define::<crate::protocol::hand_off::HandOff<'_>>("hand_off");
    schema.define::<helpers::judge::Question<'_>>("judge_question");
    schema.define_input::<helpers::judge::JudgeReply>("judge_answer");
    schema.define::<helpers::planner_request::PlannerRequest<'_>>("planner_request");
    schema.define::<drive::DeciderRequest<'_>>("decider_request");
    schema.define_input::<drive::DeciderReply>("decider_answer");
}
