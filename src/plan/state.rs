//! Everything that a ledger knows now: the fold of its events.
//!
//! Invariants:
//! - The state is a pure function of the events: no clock, no randomness, no iteration order of
//!   a hash map.
//! - What can be derived cheaply from the rest (the ready queue, the counts) is kept up to date
//!   by `apply`, and is part of the state hash, so that a mistake in it shows.
//!
//! Left out on purpose: outputs of accepted steps and the history of attempts, which the log
//! holds and a step's chain of events finds.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::links::Links;
use super::{
    AcceptedBasis, AttemptToken, CapScope, ContentHash, Cost, Ending, FailureClass, Json, Micros,
    OnBreak, Origin, Plan, Receipt, Review, RunId, RunPolicy, StepNumber, Verdict,
};

/// Steps that may be dealt, in the order of dealing.
pub type Queue = BTreeSet<(Reverse<i32>, StepNumber)>;

/// The fold of all events up to one sequence number.
#[derive(Debug, Clone, Default, Serialize)]
pub struct State {
    /// Sequence number of the last record that was folded in; 0 before the first.
    pub seq: u64,
    /// Time of that record.
    pub time: Micros,
    /// All runs, by number.
    pub runs: BTreeMap<RunId, Run>,
    /// Caps that were set by a record.
    pub caps: BTreeMap<CapScope, u32>,
    /// The step of every attempt in flight.
    pub in_flight: BTreeMap<AttemptToken, (RunId, StepNumber)>,
    /// Attempts in flight by owner, over all runs.
    pub in_flight_by_owner: BTreeMap<String, u32>,
    /// When each attempt in flight falls due, soonest first.
    pub leases: BTreeSet<(Micros, AttemptToken)>,
    /// The step of every attempt that was ever dealt, to tell whose a late receipt is.
    pub dealt: BTreeMap<AttemptToken, (RunId, StepNumber)>,
}

/// One run.
#[derive(Debug, Clone, Serialize)]
pub struct Run {
    /// Its number.
    pub id: RunId,
    /// Its name.
    pub name: String,
    /// Its policy.
    pub policy: RunPolicy,
    /// When it started.
    pub started: Micros,
    /// How it stands.
    pub status: RunStatus,
    /// Every version of its plan, proposed or active, in order: version n is at n - 1.
    pub versions: Vec<PlanVersion>,
    /// The active version's number; 0 before the first.
    pub active: u32,
    /// Every step it ever had: step n is at n - 1.
    pub steps: Vec<StepState>,
    /// Barriers of the active version, by id.
    pub barriers: BTreeMap<String, BarrierState>,
    /// Variables by name.
    pub variables: BTreeMap<String, Variable>,
    /// Steps that may be dealt now, in the order of dealing.
    pub ready: Queue,
    /// The same steps by owner, so that a full cap of one owner is passed over in one move.
    pub queues: BTreeMap<Option<String>, Queue>,
    /// Steps that were reported and wait for verdicts.
    pub reported: BTreeSet<StepNumber>,
    /// Steps in doubt.
    pub in_doubt: BTreeSet<StepNumber>,
    /// Attempts in flight.
    pub in_flight: u32,
    /// Attempts in flight by owner.
    pub in_flight_by_owner: BTreeMap<String, u32>,
    /// Reported steps about which something follows by itself: see [`super::settle`].
    pub due: BTreeSet<StepNumber>,
    /// Closed barriers that have what they need, or no longer can.
    pub due_barriers: BTreeSet<String>,
    /// Broken barriers that fail the run.
    pub fatal_barriers: BTreeSet<String>,
    /// How many steps of the active version have each status.
    pub counts: BTreeMap<StepStatus, u32>,
    /// Verdicts on the plan's own criteria, of the active version, by criterion.
    pub plan_verdicts: BTreeMap<u32, Verdict>,
    /// What all recorded receipts cost so far.
    pub spent: Cost,
    /// Lookups that follow from the active version.
    #[serde(skip)]
    pub(super) links: Arc<Links>,
}

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunStatus {
    /// It has no active plan version yet.
    Proposed,
    /// Work goes on.
    Running,
    /// It is over.
    Ended(Ending),
}

/// One version of a run's plan.
#[derive(Debug, Clone, Serialize)]
pub struct PlanVersion {
    /// Hash of its canonical bytes.
    pub hash: ContentHash,
    /// Why it was proposed.
    pub reason: String,
    /// What a reviewer said, if anybody did.
    pub review: Option<Review>,
    /// The whole plan, once all of its steps were read. Covered by `hash`.
    #[serde(skip)]
    pub plan: Arc<Plan>,
    /// The hash of each step, in plan order.
    pub step_hashes: Vec<ContentHash>,
    /// The number of each step, in plan order; empty until it is activated.
    pub numbers: Vec<StepNumber>,
    /// How many steps it has.
    pub step_count: u32,
}

/// One step of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StepState {
    /// Its author's name for it.
    pub id: String,
    /// Its owner, after the plan's defaults.
    pub owner: Option<String>,
    /// Its priority in the active version.
    pub priority: i32,
    /// How it stands.
    pub status: StepStatus,
    /// Sequence number of its last event; 0 before the first.
    pub last_seq: u64,
    /// How many attempts it had.
    pub attempts: u32,
    /// How many of them failed since it was last reopened or invalidated.
    pub failures: u32,
    /// Dependencies that are not settled yet.
    pub unmet: u32,
    /// The attempt that is in flight, reported or in doubt.
    pub attempt: Option<Attempt>,
    /// On what grounds it was accepted.
    pub accepted: Option<AcceptedBasis>,
    /// Class and message of its last failure, until it is accepted.
    pub last_failure: Option<(FailureClass, String)>,
}

/// The current attempt of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Attempt {
    /// The right to report on it.
    pub token: AttemptToken,
    /// Who has it.
    pub worker: String,
    /// When it was dealt.
    pub dispatched: Micros,
    /// Until when it is theirs.
    pub lease_until: Micros,
    /// What the worker returned, until it is judged.
    pub receipt: Option<Receipt>,
    /// Verdicts on it so far, by criterion.
    pub verdicts: BTreeMap<u32, Verdict>,
}

/// How a step stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum StepStatus {
    /// Something that it depends on is not settled.
    Waiting,
    /// It may be dealt.
    Ready,
    /// A worker has it.
    Dispatched,
    /// A lost attempt may have done it: somebody must say.
    InDoubt,
    /// The worker reported success; verdicts are missing.
    Reported,
    /// It counts as done.
    Accepted,
    /// It failed for good.
    Failed,
    /// It will not be done, and that is all right.
    Skipped,
    /// The active version has no such step.
    Removed,
}

/// A barrier of the active version.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BarrierState {
    /// Its members.
    pub members: BTreeSet<StepNumber>,
    /// Members that arrived: accepted or skipped.
    pub arrived: BTreeSet<StepNumber>,
    /// Members that have failed for good.
    pub failed: BTreeSet<StepNumber>,
    /// How many are needed.
    pub needed: u32,
    /// What happens when it can no longer be met.
    pub on_break: OnBreak,
    /// How it stands.
    pub status: BarrierStatus,
}

/// How a barrier stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BarrierStatus {
    /// Members are missing.
    Closed,
    /// Enough arrived.
    Released,
    /// Enough can no longer arrive.
    Broken,
}

/// A variable of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Variable {
    /// Its value.
    pub value: Json,
    /// How often it was set.
    pub version: u64,
    /// Who set it last.
    pub origin: Origin,
    /// When.
    pub time: Micros,
}

impl State {
    /// When the next lease runs out.
    #[must_use]
    pub fn next_due(&self) -> Option<Micros> {
        self.leases.first().map(|(due, _)| *due)
    }

    /// The run of that name.
    #[must_use]
    pub fn run_named(&self, name: &str) -> Option<&Run> {
        self.runs.values().find(|run| run.name == name)
    }
}

impl Run {
    /// A run without a plan, as it starts.
    #[must_use]
    pub fn new(id: RunId, name: &str, policy: RunPolicy, started: Micros) -> Self {
        Self {
            id,
            name: name.to_owned(),
            policy,
            started,
            status: RunStatus::Proposed,
            versions: Vec::new(),
            active: 0,
            steps: Vec::new(),
            barriers: BTreeMap::new(),
            variables: BTreeMap::new(),
            ready: BTreeSet::new(),
            queues: BTreeMap::new(),
            reported: BTreeSet::new(),
            in_doubt: BTreeSet::new(),
            in_flight: 0,
            in_flight_by_owner: BTreeMap::new(),
            due: BTreeSet::new(),
            due_barriers: BTreeSet::new(),
            fatal_barriers: BTreeSet::new(),
            counts: BTreeMap::new(),
            plan_verdicts: BTreeMap::new(),
            spent: Cost::default(),
            links: Arc::new(Links::default()),
        }
    }

    /// The active version.
    #[must_use]
    pub fn active_version(&self) -> Option<&PlanVersion> {
        let index = usize::try_from(self.active).ok()?.checked_sub(1)?;
        self.versions.get(index)
    }

    /// The state of a step.
    #[must_use]
    pub fn step(&self, number: StepNumber) -> Option<&StepState> {
        self.steps.get(number.index())
    }

    /// The active version's plan.
    #[must_use]
    pub fn plan(&self) -> Option<&Plan> {
        self.active_version().map(|version| &*version.plan)
    }

    /// The plan's text of a step of the active version.
    #[must_use]
    pub fn plan_step(&self, number: StepNumber) -> Option<&super::Step> {
        self.plan()?.steps.get(self.links.place(number)?)
    }

    /// The number of the step that the active version's author called `id`.
    #[must_use]
    pub fn step_named(&self, id: &str) -> Option<StepNumber> {
        self.links.step_named(id)
    }

    /// How many steps of the active version have that status.
    #[must_use]
    pub fn count(&self, status: StepStatus) -> u32 {
        self.counts.get(&status).copied().unwrap_or(0)
    }
}

impl StepStatus {
    /// Whether what waits for the step need wait no longer.
    #[must_use]
    pub fn is_closed(self) -> bool {
        matches!(self, Self::Accepted | Self::Skipped)
    }
}

impl fmt::Display for StepStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waiting => "waiting",
            Self::Ready => "ready",
            Self::Dispatched => "dispatched",
            Self::InDoubt => "in doubt",
            Self::Reported => "reported",
            Self::Accepted => "accepted",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Removed => "removed",
        })
    }
}
