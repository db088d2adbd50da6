//! The state of the loop.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use plan_ledger::error::Error;
use plan_ledger::ledger::{Clock, Ledger};
use plan_ledger::plan::{AttemptToken, Micros, RunId};

use crate::runner::check::{Answer, Check, Subject};
use crate::runner::check_lock::CheckLock;
use crate::runner::drive::summary::{Session, Unrecorded};
use crate::runner::helpers::Helpers;
use crate::runner::imported_status::Marks;
use crate::runner::progress::{Observer, StepName, StopRequest};
use crate::runner::workers::Workers;

/// The longest that the loop sleeps before it looks at its stop request again.
pub(crate) const WAIT_MAX: Duration = Duration::from_millis(100);

/// How a loop works.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// How many workers and checks may run at once; 0 counts as 1.
    pub max_parallel: usize,
    /// What the plan's file says of its steps: taken whenever a version becomes active.
    pub marks: Option<&'a Marks>,
}

/// A worker that runs.
pub(crate) struct Running {
    pub(crate) step: StepName,
    pub(crate) slot: usize,
    /// When its lease is to be renewed.
    pub(crate) renew_at: Micros,
}

/// A check that runs.
pub(crate) struct Checking {
    pub(crate) step: Option<StepName>,
    pub(crate) answer: Answer,
    /// Held until its verdict is recorded.
    pub(crate) turn: Option<CheckLock>,
}

pub(crate) struct Drive<'a> {
    pub(crate) ledger: &'a Ledger,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) run: RunId,
    pub(crate) workers: &'a mut dyn Workers,
    pub(crate) observer: &'a mut dyn Observer,
    pub(crate) options: Options<'a>,
    pub(crate) session: Session,
    pub(crate) started: Micros,
    pub(crate) running: BTreeMap<AttemptToken, Running>,
    /// Checks that wait for a free place.
    pub(crate) queued: VecDeque<(Option<StepName>, Check)>,
    /// What is being checked right now.
    pub(crate) checking: BTreeMap<Subject, Checking>,
    /// Lost attempts that were probed.
    pub(crate) probed: BTreeSet<AttemptToken>,
    /// Who is asked beside the workers.
    pub(crate) helpers: Helpers,
    /// Criteria about which the judge had no verdict.
    pub(crate) unjudged: BTreeSet<(Subject, u32)>,
    /// What another process was found to check: that is said once.
    pub(crate) awaited: BTreeSet<Subject>,
    /// What became of requests for another plan.
    pub(crate) planning: Planning,
    /// The last record when it was last looked what there is to do.
    pub(crate) seen: u64,
    /// The plan version for which everything was done that comes before its first step is dispatched.
    pub(crate) met_version: u32,
    /// What was noticed.
    pub(crate) notes: Vec<(Option<StepName>, String)>,
    pub(crate) stop: StopRequest,
    pub(crate) fatal: Option<Error>,
    pub(crate) unrecorded: Vec<Unrecorded>,
}

/// What became of requests for another plan in one loop.
#[derive(Debug, Default)]
pub(crate) struct Planning {
    /// The request that a planner works on.
    pub(crate) asked: Option<u64>,
    /// Requests that are left to people.
    pub(crate) left: BTreeSet<u64>,
}

/// The middle between two points in time: a lease is renewed when half of it is over.
pub(crate) fn half_way(now: Micros, until: Micros) -> Micros {
    now.saturating_add(until.saturating_sub(now) / 2)
}
