//! The runner: dispatches the steps of one run to workers until there is nothing left to dispatch.
//!
//! The loop ([`drive`]) stands on two ports. The [`Ledger`](plan_ledger::ledger::Ledger) is what it
//! writes to; [`Workers`] is what it dispatches to: processes ([`ProcessWorkers`]) or canned answers
//! ([`StubWorkers`]).
//!
//! Invariants:
//! - A worker is started only after its dispatch is durable, and what belongs to an attempt on
//!   this machine is thrown away only after its receipt is durable.
//! - The loop itself has no thread and reads no clock but the one it is given. With stubs, the
//!   same ledger gives the same sequence of calls, so that a simulated disk can drive this loop.
//! - It decides nothing about the plan: what is ready, what a failure means and when a run has
//!   ended is the ledger's answer.
//! - An attempt of an earlier runner is given up only when its worker is known to be dead, and
//!   with it all that it had started. Nothing outlives the job that started it unnoticed.
//! - Judges and planners are asked like workers, through the second port. What they say is recorded
//!   under their name, or is of no account.
//!
//! Left out on purpose: retries, caps and acceptance, which are the ledger's rules.

mod check;
mod check_lock;
mod drive;
mod external_worker;
mod files;
mod hand_off;
mod helpers;
mod imported_status;
mod judge;
mod process;
mod progress;
mod stub;
mod workers;

pub(crate) use check::Criteria;
pub use check::{Answer, Check, Checked, Subject};
pub(crate) use check_lock::CheckLock;
pub use drive::{
    Counts, Options, Pending, RunOutcome, RunSummary, Session, Unrecorded, drive, pending, recover,
};
pub(crate) use drive::{is_by_planner, may_hold};
pub(crate) use external_worker::{
    End, ExternalWork, Order, check_external, forget_external, has_check,
};
pub(crate) use files::planned_files;
pub use files::{ChangedFile, FileState};
pub use hand_off::{
    FailedCriterion, HandOff, Nearby, Neighbour, PlanBrief, PlanContext, PreviousAttempt,
};
pub(crate) use hand_off::{class_word, describe, title, trigger_json};
pub use helpers::{Helpers, Judge, Planner};
pub use imported_status::{Marks, Taken, take_marks};
pub use process::{ProcessOptions, ProcessWorkers, scratch_folder};
pub(crate) use process::{receipt_json, receipt_of_json, unusable};
pub use progress::{Observer, Progress, StepName, StopRequest};
pub use stub::{StubOptions, StubWorkers};
pub use workers::{Report, StartFailure, WorkerKind, WorkerNote, Workers};
