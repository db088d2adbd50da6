//! One run, as the state holds it.
//!
//! The invariants are those of [`crate::plan::State`].

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use super::account::Account;
use super::barrier_state::{BarrierState, BarrierStatus};
use super::links::{Dependency, Links, Near, SharedLinks};
use super::step_state::StepState;
use crate::plan::event::plan_event::Review;
use crate::plan::event::question::{Question, QuestionId};
use crate::plan::event::run_event::{
    Ending, Origin, PauseCause, ReplanTrigger, RunForked, RunPolicy,
};
use crate::plan::event::step_event::Verdict;
use crate::plan::event::step_status::StepStatus;
use crate::plan::model::budget::{Cost, Limits};
use crate::plan::state::compact::plan::CompactPlan;
use crate::plan::state::compact::step::CompactStep;
use crate::plan::value::ids::{AttemptToken, ContentHash, Micros, RunId, StepNumber};
use crate::plan::value::json::Json;
use crate::plan::value::names::number_meant;

impl Run {
    /// The steps around one of the active plan. It costs what they are, however long the plan is.
    #[must_use]
    pub fn near(&self, number: StepNumber) -> Near {
        let links = &self.links;
        let (mut before, mut after) = (BTreeSet::new(), BTreeSet::new());
        let step = self.plan_step(number);
        for dependency in step.map(|step| links.dependencies(step)).unwrap_or_default() {
            match dependency {
                Dependency::Step(on) => before.extend(links.place(on)),
                Dependency::Barrier(id) => {
                    let members = self.barriers.get(&id).into_iter().flat_map(|it| &it.members);
                    before.extend(members.filter_map(|member| links.place(*member)));
                }
                Dependency::Unknown(_) => {}
            }
        }
        let waiters = links.memberships(number).iter().flat_map(|barrier| links.waiters(barrier));
        let dependents = links.dependents(number).chain(waiters);
        after.extend(dependents.filter_map(|step| links.place(*step)));
        Near { before: before.into_iter().collect(), after: after.into_iter().collect() }
    }

    /// Make the lookups of the active version anew: for a run that was put together from its
    /// fields, and not by folding. Those that runs of the same plan have are taken, or left for
    /// them.
    pub fn relink(&mut self, shared: &OnceLock<SharedLinks>) {
        let numbers = self.active_version().map(|version| version.numbers.as_slice());
        let numbers = numbers.unwrap_or_default();
        let known = shared.get_or_init(|| SharedLinks {
            numbers: numbers.to_vec(),
            steps: self.steps.len(),
            links: self.own_links(),
        });
        let is_same = known.numbers == numbers && known.steps == self.steps.len();
        self.links = if is_same { Arc::clone(&known.links) } else { self.own_links() };
        self.find_heads();
    }

    fn own_links(&self) -> Arc<Links> {
        let links = self
            .active_version()
            .map(|version| Links::new(&version.plan, &version.numbers, self.steps.len()));
        Arc::new(links.unwrap_or_default())
    }

    /// Makes the list of the lanes' heads anew.
    pub(crate) fn find_heads(&mut self) {
        let heads = self.lanes.iter();
        let head = |(lane, queue): (&Lane, &Queue)| Some((*queue.first()?, lane.clone()));
        self.heads = heads.filter_map(head).collect();
    }

    /// What a step of the active version still waits for.
    #[must_use]
    pub fn waiting_for(&self, number: StepNumber) -> Vec<Dependency> {
        let Some(step) = self.plan_step(number) else { return Vec::new() };
        let all = self.links.dependencies(step);
        all.into_iter().filter(|dependency| !self.is_settled(dependency)).collect()
    }

    /// Whether what waits for this need wait no longer.
    pub(crate) fn is_settled(&self, dependency: &Dependency) -> bool {
        match dependency {
            Dependency::Step(on) => self.step(*on).is_some_and(|step| step.status.is_closed()),
            Dependency::Barrier(id) => {
                self.barriers.get(id).is_some_and(|each| each.status == BarrierStatus::Released)
            }
            Dependency::Unknown(_) => false,
        }
    }
}

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
    pub(crate) heads: BTreeMap<(Reverse<i32>, StepNumber), Lane>,
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
    /// Steps about which something follows by itself: see [`crate::plan::settle`].
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
    pub(crate) links: Arc<Links>,
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
#[derive(Debug, Clone)]
pub struct PlanVersion {
    /// Hash of its canonical bytes.
    pub hash: ContentHash,
    /// Why it was proposed.
    pub reason: String,
    /// What a reviewer said, if anybody did.
    pub review: Option<Review>,
    /// The whole plan, once all of its steps were read. Covered by `hash`.
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
    pub(crate) static LOOKED_AT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    /// How many lanes a claim looked at.
    pub(crate) static LANES_LOOKED_AT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
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
    pub(crate) fn is_unsettled(&self) -> bool {
        let is_due = !self.due.is_empty() || !self.due_barriers.is_empty();
        is_due && self.status == RunStatus::Running
    }

    /// The number of every step that the run ever had.
    pub(crate) fn step_numbers(&self) -> impl Iterator<Item = StepNumber> + use<> {
        (1..=u32::try_from(self.steps.len()).unwrap_or(u32::MAX)).map(StepNumber)
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

/// Something that happens when a time is reached and nothing else happened before.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Timer {
    /// A lease runs out.
    Lease(AttemptToken),
    /// A step need wait no longer.
    Delay(StepNumber),
    /// Nobody answered a question.
    Question(QuestionId),
    /// A barrier was not released in time.
    Barrier(String),
    /// The wall time of a run is used up.
    Wall,
}
