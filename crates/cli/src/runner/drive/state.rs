//! The state of the loop: running workers and checks, queued checks, and totals for the summary.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::time::Duration;

use plan_ledger::plan::{OnStale, Route};
use plan_ledger::{AttemptToken, Clock, Error, Ledger, Result, RunId, Timestamp};

use crate::protocol::StepName;
use crate::runner::check::{Check, CheckAnswer, Subject};
use crate::runner::check_lock::CheckLock;
use crate::runner::drive::guard::{GuardState, Guards};
use crate::runner::drive::recover::LeftWorkers;
use crate::runner::drive::summary::{Session, Unrecorded};
use crate::runner::helpers::command_gate::{CommandChecks, CommandGate};
use crate::runner::helpers::commands::Helpers;
use crate::runner::helpers::folder_state::FolderState;
use crate::runner::imported_status::ImportedStatuses;
use crate::runner::progress::{Observer, StopRequest};
use crate::runner::waits::holds::Holds;
use crate::runner::workers::Workers;

/// The longest sleep between two checks of the stop request.
pub(crate) const WAIT_MAX: Duration = Duration::from_millis(100);

/// Options of the loop.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// How many workers and checks may run at once; 0 counts as 1.
    pub max_parallel: usize,
    /// Step statuses from the plan file, which are applied when a version becomes active.
    pub marks: Option<&'a ImportedStatuses>,
    /// The steps that its workers take.
    pub route: &'a Route,
    /// The checking commands that it executes.
    pub checks: CommandChecks,
    /// When to pause the run.
    pub guards: Guards,
    /// The action before a step whose files changed since its plan was made; `None` for the plan's
    /// setting.
    pub on_stale: Option<OnStale>,
    /// The treatment of the workers of an earlier runner that are still at work.
    pub left_workers: LeftWorkers,
    /// The function that takes over claims of dead processes, if any.
    pub take_over: Option<TakeOver>,
}

/// Takes over the claims of dead processes, in the ledger of that folder. Returns notes for people.
pub type TakeOver = fn(&Ledger, &Path) -> Result<Vec<String>>;

/// A running worker.
pub(crate) struct Running {
    pub(crate) step: StepName,
    pub(crate) slot: usize,
    /// The owner of its step.
    pub(crate) owner: Option<String>,
    /// Whether its step has no command: other steps have the same worker.
    pub(crate) is_shared: bool,
    /// When to renew its lease.
    pub(crate) renew_at: Timestamp,
    /// When it was started.
    pub(crate) begun: Timestamp,
    /// The files that its step may change; empty if the plan does not say.
    pub(crate) changes: Vec<String>,
    /// The files when it started, if its step has such a list.
    pub(crate) watch: Option<FileWatch>,
    /// The estimate of its step in seconds, until it is reported that it takes much longer.
    pub(crate) estimate: Option<u32>,
}

/// The files of the working folder when a worker started.
pub(crate) struct FileWatch {
    pub(crate) before: FolderState,
    /// The files that it and other workers at the same time may change.
    pub(crate) allowed: Vec<String>,
}

/// A running check.
pub(crate) struct Checking {
    pub(crate) step: Option<StepName>,
    pub(crate) answer: CheckAnswer,
    /// The check lock, held until the verdict is recorded.
    pub(crate) lock: Option<CheckLock>,
}

pub(crate) struct Drive<'a> {
    pub(crate) ledger: &'a Ledger,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) run: RunId,
    pub(crate) workers: &'a mut dyn Workers,
    pub(crate) observer: &'a mut dyn Observer,
    pub(crate) options: Options<'a>,
    pub(crate) session: Session,
    pub(crate) started: Timestamp,
    pub(crate) running: BTreeMap<AttemptToken, Running>,
    /// Checks that wait for a free slot.
    pub(crate) queued: VecDeque<(Option<StepName>, Check)>,
    /// Checks that are running.
    pub(crate) checking: BTreeMap<Subject, Checking>,
    /// Lost attempts that were already probed.
    pub(crate) probed: BTreeSet<AttemptToken>,
    /// The judge, the planner and the decider.
    pub(crate) helpers: Helpers,
    /// Failed attempts about which the decider was asked.
    pub(crate) decided: BTreeSet<AttemptToken>,
    /// Criteria for which the judge returned no verdict.
    pub(crate) unjudged: BTreeSet<(Subject, u32)>,
    /// Checks that another process is running; each is reported once.
    pub(crate) locked_checks: BTreeSet<Subject>,
    /// The checking commands that it executes.
    pub(crate) gate: CommandGate,
    /// When the loop next checks for claims of dead processes.
    pub(crate) dead_claims_at: Timestamp,
    /// The record of the guards.
    pub(crate) guard: GuardState,
    /// The holds as they were written last.
    pub(crate) noted_holds: Holds,
    /// Whether a failure to write them was reported.
    pub(crate) is_hold_unnoted: bool,
    /// Why no step is dispatched, if the disk is nearly full.
    pub(crate) no_room: Option<String>,
    /// The wait that was reported last.
    pub(crate) said_wait: Option<(Timestamp, String)>,
    /// The replan requests of this loop.
    pub(crate) planning: Planning,
    /// The last sequence number at the loop's last search for work.
    pub(crate) seen: u64,
    /// The plan version that is prepared for dispatch.
    pub(crate) prepared_version: u32,
    /// When the last attempt began or ended, or a stall was reported.
    pub(crate) quiet_since: Timestamp,
    /// The notes of this loop.
    pub(crate) notes: Vec<(Option<StepName>, String)>,
    pub(crate) stop: StopRequest,
    pub(crate) fatal: Option<Error>,
    pub(crate) unrecorded: Vec<Unrecorded>,
}

/// The replan requests of one loop.
#[derive(Debug, Default)]
pub(crate) struct Planning {
    /// The request that a planner is working on.
    pub(crate) asked: Option<u64>,
    /// Requests that wait for a person.
    pub(crate) left: BTreeSet<u64>,
    /// The files when the planner started.
    pub(crate) watch: Option<PlannerWatch>,
}

/// The state when the planner started; the planner must not change it.
#[derive(Debug)]
pub(crate) struct PlannerWatch {
    /// The files of the working folder.
    pub(crate) files: FolderState,
    /// The attempts that the loop had dispatched.
    pub(crate) dispatched: u32,
    /// Whether no worker was at work.
    pub(crate) was_alone: bool,
    /// The time of the last record.
    pub(crate) since: Timestamp,
}

/// The midpoint of two times: a lease is renewed after half of its term.
pub(crate) fn half_way(now: Timestamp, until: Timestamp) -> Timestamp {
    now.saturating_add(until.saturating_sub(now) / 2)
}
