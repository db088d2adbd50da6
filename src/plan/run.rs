//! One run, as the state holds it.
//!
//! The invariants are those of [`super::State`].

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::links::Links;
use super::names::number_meant;
use super::{
    Account, AttemptToken, BarrierState, CompactPlan, CompactStep, ContentHash, Cost, Ending, Json,
    Limits, Micros, Origin, PauseCause, Question, QuestionId, ReplanTrigger, Review, RunForked,
    RunId, RunPolicy, StepNumber, StepState, StepStatus, Timer, Verdict,
};

/// Steps that may be dealt, in the order of dealing.
pub type Queue = BTreeSet<(Reverse<i32>, StepNumber)>;

/// Steps that the same caps hold for: an owner, and those tags of theirs for which there is a cap.
pub type Lane = (Option<String>, BTreeSet<String>);

/// One run.
#[derive(Debug, Clone)]
pub struct Run {
    /// Its number.
    pub id: RunId,
    /// Its name.
    pub name: String,
    /// Its policy.
    pub policy: RunPolicy,
    /// When it started.
    pub started: Micros,
    /// The run that it was forked from, if it was.
    pub forked: Option<RunForked>,
    /// How it stands.
    pub status: RunStatus,
    /// The record that ended it, and when that was.
    pub ended: Option<(u64, Micros)>,
    /// Why nothing is dealt for now.
    pub pause: Option<PauseCause>,
    /// Why it is to end as soon as nothing is in flight.
    pub abort: Option<String>,
    /// Every version of its plan, proposed or active, in order: version n is at n - 1.
    pub versions: Vec<PlanVersion>,
    /// The active version's number; 0 before the first.
    pub active: u32,
    /// When the active version became active.
    pub activated: Micros,
    /// The request for another version that is open.
    pub request: Option<ReplanRequest>,
    /// Whether the planner said that a plan which is extended as it goes needs no more.
    pub is_complete: bool,
    /// How many later versions became active that count towards the plan's limit.
    pub replans: u32,
    /// Every step it ever had: step n is at n - 1.
    pub steps: Vec<StepState>,
    /// Barriers of the active version, by id.
    pub barriers: BTreeMap<String, BarrierState>,
    /// Variables by name.
    pub variables: BTreeMap<String, Variable>,
    /// Open questions.
    pub questions: BTreeMap<QuestionId, Question>,
    /// What its workers meant to do to the world, and did, by key.
    pub effects: BTreeMap<String, Effect>,
    /// The tags for which there is a cap, in the plan or in the ledger.
    pub capped_tags: BTreeSet<String>,
    /// Steps that may be dealt now, by lane, so that all that a full cap holds back is passed over in
    /// one move.
    pub lanes: BTreeMap<Lane, Queue>,
    /// The lane of each lane's first step, so that the first that may be dealt is found without
    /// looking at what stands behind a full cap.
    pub(super) heads: BTreeMap<(Reverse<i32>, StepNumber), Lane>,
    /// Steps that were reported and wait for verdicts.
    pub reported: BTreeSet<StepNumber>,
    /// Steps in doubt.
    pub in_doubt: BTreeSet<StepNumber>,
    /// Every attempt that was ever dealt in it.
    pub dealt: BTreeSet<AttemptToken>,
    /// Attempts in flight.
    pub in_flight: u32,
    /// Attempts in flight by owner.
    pub in_flight_by_owner: BTreeMap<String, u32>,
    /// Attempts in flight by tag.
    pub in_flight_by_tag: BTreeMap<String, u32>,
    /// What falls due, soonest first.
    pub timers: BTreeSet<(Micros, Timer)>,
    /// Steps about which something follows by itself: see [`super::settle`].
    pub due: BTreeSet<StepNumber>,
    /// Closed barriers that have what they need, or no longer can.
    pub due_barriers: BTreeSet<String>,
    /// Broken barriers that fail the run.
    pub fatal_barriers: BTreeSet<String>,
    /// How many steps of the active version have each status.
    pub counts: BTreeMap<StepStatus, u32>,
    /// Verdicts on the plan's own criteria, of the active version, by criterion.
    pub plan_verdicts: BTreeMap<u32, Verdict>,
    /// What it spent and may spend.
    pub account: Account,
    /// What lost attempts are charged with, as long as nobody knows better.
    pub estimates: BTreeMap<AttemptToken, Cost>,
    /// What happened how often.
    pub tally: Tally,
    /// Lookups that follow from the active version.
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
    pub plan: Arc<CompactPlan>,
    /// The hash of each step, in plan order.
    pub step_hashes: Vec<ContentHash>,
    /// The number of each step, in plan order; empty until it is activated.
    pub numbers: Vec<StepNumber>,
    /// How many steps it has.
    pub step_count: u32,
}

/// An open request for another plan version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplanRequest {
    /// The record that asked.
    pub seq: u64,
    /// When it asked.
    pub time: Micros,
    /// Why.
    pub trigger: ReplanTrigger,
    /// The step from which work is done anew, if it is known.
    pub from: Option<StepNumber>,
    /// Why, for people and for the planner.
    pub reason: String,
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
    /// Whether the work that set it still counts. A value that somebody set always does.
    pub is_trusted: bool,
}

/// Something that a worker does to the world.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// The step.
    pub step: StepNumber,
    /// The attempt that meant to do it.
    pub token: AttemptToken,
    /// What it is.
    pub effect: String,
    /// The record that says that it was done; 0 as long as it was only meant to be.
    pub committed: u64,
}

/// What happened how often, for the metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Attempts that failed.
    pub failures: u64,
    /// Failures after which a step was tried again.
    pub retries: u64,
    /// Steps that were given up, or given to their fallbacks, because their attempts were used up.
    pub exhausted: u64,
    /// Steps that replans took work from.
    pub invalidated: u64,
    /// Steps with work that replans kept.
    pub preserved: u64,
}

#[cfg(test)]
thread_local! {
    /// How often a step was looked at: what the tests of scale count.
    pub(super) static LOOKED_AT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    /// How many lanes a claim looked at.
    pub(super) static LANES_LOOKED_AT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
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
            forked: None,
            status: RunStatus::Proposed,
            ended: None,
            pause: None,
            abort: None,
            versions: Vec::new(),
            active: 0,
            activated: 0,
            request: None,
            is_complete: false,
            replans: 0,
            steps: Vec::new(),
            barriers: BTreeMap::new(),
            variables: BTreeMap::new(),
            questions: BTreeMap::new(),
            effects: BTreeMap::new(),
            capped_tags: BTreeSet::new(),
            lanes: BTreeMap::new(),
            heads: BTreeMap::new(),
            reported: BTreeSet::new(),
            in_doubt: BTreeSet::new(),
            dealt: BTreeSet::new(),
            in_flight: 0,
            in_flight_by_owner: BTreeMap::new(),
            in_flight_by_tag: BTreeMap::new(),
            timers: BTreeSet::new(),
            due: BTreeSet::new(),
            due_barriers: BTreeSet::new(),
            fatal_barriers: BTreeSet::new(),
            counts: BTreeMap::new(),
            plan_verdicts: BTreeMap::new(),
            account: Account::default(),
            estimates: BTreeMap::new(),
            tally: Tally::default(),
            links: Arc::new(Links::default()),
        }
    }

    /// Holds the plans of another fold of the same run instead of equal ones of its own.
    pub fn share(&mut self, other: &Self) {
        for (own, others) in self.versions.iter_mut().zip(&other.versions) {
            if own.hash == others.hash && own.step_hashes.len() == others.step_hashes.len() {
                own.plan = Arc::clone(&others.plan);
            }
        }
        if self.active == other.active && self.steps.len() == other.steps.len() {
            self.links = Arc::clone(&other.links);
        }
    }

    /// Whether something follows by itself for a step or a barrier.
    pub(super) fn is_unsettled(&self) -> bool {
        let is_due = !self.due.is_empty() || !self.due_barriers.is_empty();
        is_due && self.status == RunStatus::Running
    }

    /// The active version.
    #[must_use]
    pub fn active_version(&self) -> Option<&PlanVersion> {
        let index = usize::try_from(self.active).ok()?.checked_sub(1)?;
        self.versions.get(index)
    }

    /// The newest version that may still become active when somebody approves it.
    #[must_use]
    pub fn newest_proposal(&self) -> Option<(u32, &PlanVersion)> {
        let (number, version) = (1..).zip(&self.versions).last()?;
        (version.review.is_none() && number > self.active).then_some((number, version))
    }

    /// The state of a step.
    #[must_use]
    pub fn step(&self, number: StepNumber) -> Option<&StepState> {
        #[cfg(test)]
        LOOKED_AT.with(|count| count.set(count.get() + 1));
        self.steps.get(number.index())
    }

    /// The active version's plan.
    #[must_use]
    pub fn plan(&self) -> Option<&CompactPlan> {
        self.active_version().map(|version| &*version.plan)
    }

    /// The plan's text of a step of the active version.
    #[must_use]
    pub fn plan_step(&self, number: StepNumber) -> Option<CompactStep<'_>> {
        self.plan()?.step(self.links.place(number)?)
    }

    /// The hash of the work of a step of the active version.
    #[must_use]
    pub fn step_hash(&self, number: StepNumber) -> Option<ContentHash> {
        let place = self.links.place(number)?;
        self.active_version()?.step_hashes.get(place).copied()
    }

    /// The number of the step that the active version's author called `id`.
    #[must_use]
    pub fn step_named(&self, id: &str) -> Option<StepNumber> {
        self.links.step_named(id)
    }

    /// The step that somebody means by a word: its id, of the active version or else of the newest
    /// step that a later version removed, or its number as `#37`. Nobody is meant by a word that is
    /// the id of one step and the number of another.
    #[must_use]
    pub fn step_meant(&self, word: &str) -> Option<StepNumber> {
        let number = number_meant(word).map(StepNumber);
        let numbered = number.filter(|number| self.step(*number).is_some());
        match (self.step_called(word), numbered) {
            (Some(called), Some(numbered)) if called != numbered => None,
            (called, numbered) => called.or(numbered),
        }
    }

    /// The newest step of that id, removed or not.
    fn step_called(&self, id: &str) -> Option<StepNumber> {
        let removed = || {
            let last = self.steps.iter().rposition(|step| step.id() == id)?;
            u32::try_from(last + 1).ok().map(StepNumber)
        };
        self.step_named(id).or_else(removed)
    }

    /// How many steps of the active version have that status.
    #[must_use]
    pub fn count(&self, status: StepStatus) -> u32 {
        self.counts.get(&status).copied().unwrap_or(0)
    }

    /// What it may spend: as the last record about it says, or else as the plan does.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let planned = || self.plan().map(|plan| plan.header().budget.into());
        self.account.limits.or_else(planned).unwrap_or_default()
    }

    /// Until when it may go on.
    #[must_use]
    pub fn wall_until(&self) -> Option<Micros> {
        self.limits().until(self.started)
    }

    /// What the run has spent.
    #[must_use]
    pub fn spent(&self) -> Cost {
        self.account.spent
    }
}
