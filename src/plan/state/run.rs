//! The state of one run: plan versions, steps, barriers, variables, questions, queues and timers.
//!
//! Everything derived from the statuses of the steps (lanes, counts, timers, pending steps) is
//! kept up to date by `apply`, so that no command scans the steps.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use super::account::Account;
use super::barrier_state::{BarrierState, BarrierStatus};
use super::kept_hash::KeptHash;
use super::links::{Dependency, Links, Neighbours, SharedLinks, Target};
use super::step_state::StepState;
use super::steps::Steps;
use crate::plan::event::plan_event::{CommandsApproval, Provenance, Review};
use crate::plan::event::question::{Question, QuestionId};
use crate::plan::event::run_event::{
    Ending, Origin, PauseCause, ReplanTrigger, RunForked, RunPolicy,
};
use crate::plan::event::step_event::Verdict;
use crate::plan::event::step_status::StepStatus;
use crate::plan::model::budget::{Cost, Limits};
use crate::plan::model::policy::FailureSettings;
use crate::plan::model::step::Idempotence;
use crate::plan::state::compact::plan::CompactPlan;
use crate::plan::state::compact::step::CompactStep;
use crate::plan::value::expression;
use crate::plan::value::ids::{AttemptToken, ContentHash, RunId, StepNumber, Timestamp};
use crate::plan::value::json::Json;
use crate::plan::value::names::{is_number, parse_number};
use crate::plan::value::text::Text;

impl Run {
    /// Direct dependencies and dependents of a step. The cost depends on their number only.
    #[doc(hidden)]
    #[must_use]
    pub fn neighbours(&self, number: StepNumber) -> Neighbours {
        let links = &self.links;
        let (mut dependencies, mut dependents) = (BTreeSet::new(), BTreeSet::new());
        for dependency in links.dependencies(number) {
            match dependency {
                Target::Step(on) => dependencies.extend(links.place(*on)),
                Target::Barrier(_) => {
                    let members = self.members_of(*dependency);
                    dependencies.extend(members.filter_map(|member| links.place(*member)));
                }
                Target::Unknown(_) => {}
            }
        }
        let waiters = links.memberships(number).iter().flat_map(|barrier| links.waiters(barrier));
        let followers = links.dependents(number).chain(waiters);
        dependents.extend(followers.filter_map(|step| links.place(*step)));
        Neighbours {
            dependencies: dependencies.into_iter().collect(),
            dependents: dependents.into_iter().collect(),
        }
    }

    /// The accepted and skipped steps that a step depends on, directly or through others: the nearest
    /// first, those of one distance in plan order, at most `max`.
    #[doc(hidden)]
    #[must_use]
    pub fn finished_before(&self, number: StepNumber, max: usize) -> Vec<StepNumber> {
        let links = &self.links;
        let (mut found, mut seen) = (Vec::new(), BTreeSet::from([number]));
        let mut level = vec![number];
        while !level.is_empty() && found.len() < max {
            let mut next = BTreeSet::new();
            for dependency in level.drain(..).flat_map(|number| links.dependencies(number)) {
                match dependency {
                    Target::Step(on) => {
                        next.insert((links.place(*on), *on));
                    }
                    Target::Barrier(_) => {
                        let members = self.members_of(*dependency);
                        next.extend(members.map(|member| (links.place(*member), *member)));
                    }
                    Target::Unknown(_) => {}
                }
            }
            let is_closed = |number: &StepNumber| {
                self.step(*number).is_some_and(|each| each.status.is_closed())
            };
            let next = next.into_iter().map(|(_, number)| number).filter(is_closed);
            let next = next.filter(|number| seen.insert(*number));
            level.extend(next.take(max - found.len()));
            found.extend(&level);
        }
        found
    }

    /// Rebuilds the links of the active version of a run that was decoded instead of folded. It
    /// uses the shared links of the plan, and creates them if there are none.
    #[doc(hidden)]
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
        self.rebuild_lane_heads();
    }

    fn own_links(&self) -> Arc<Links> {
        let links = self
            .active_version()
            .map(|version| Links::new(&version.plan, &version.numbers, self.steps.len()));
        Arc::new(links.unwrap_or_default())
    }

    /// Rebuilds the index of lane heads.
    pub(crate) fn rebuild_lane_heads(&mut self) {
        let heads = self.lanes.iter();
        let head = |(lane, queue): (&Lane, &Queue)| Some((*queue.first()?, lane.clone()));
        self.lane_heads = heads.filter_map(head).collect();
    }

    /// The dependencies of a step that are not met.
    #[doc(hidden)]
    #[must_use]
    pub fn unmet_dependencies(&self, number: StepNumber) -> Vec<Dependency> {
        let all = self.links.dependencies(number).iter().copied();
        let unmet = all.filter(|dependency| !self.is_target_met(*dependency));
        let mut unmet: Vec<_> =
            unmet.map(|dependency| self.links.named(number, dependency)).collect();
        unmet.sort();
        unmet
    }

    /// The members of the barrier of a dependency.
    fn members_of(&self, dependency: Target) -> impl Iterator<Item = &StepNumber> {
        let barrier = self.links.barrier_id(dependency).and_then(|id| self.barriers.get(id));
        barrier.into_iter().flat_map(|barrier| &barrier.members)
    }

    /// As [`Run::is_met`], for a resolved dependency.
    pub(crate) fn is_target_met(&self, dependency: Target) -> bool {
        match dependency {
            Target::Step(on) => self.step(on).is_some_and(|step| step.status.is_closed()),
            Target::Barrier(_) => {
                let barrier =
                    self.links.barrier_id(dependency).and_then(|id| self.barriers.get(id));
                barrier.is_some_and(|each| each.status == BarrierStatus::Released)
            }
            Target::Unknown(_) => false,
        }
    }

    /// The newest approval of commands with this hash by a person, in any version of the run.
    #[doc(hidden)]
    #[must_use]
    pub fn approved_commands(&self, hash: ContentHash) -> Option<&CommandsApproval> {
        let versions = self.versions.iter().rev();
        let mut approvals = versions.filter_map(|version| version.commands.as_ref());
        approvals.find(|approval| approval.hash == hash)
    }

    /// Whether a dependency is met: a step is accepted or skipped, or a barrier is released.
    pub(crate) fn is_met(&self, dependency: &Dependency) -> bool {
        match dependency {
            Dependency::Step(on) => self.step(*on).is_some_and(|step| step.status.is_closed()),
            Dependency::Barrier(id) => {
                self.barriers.get(id).is_some_and(|each| each.status == BarrierStatus::Released)
            }
            Dependency::Unknown(_) => false,
        }
    }
}

/// Ready steps in dispatch order.
pub type Queue = BTreeSet<(Reverse<i32>, StepNumber)>;

/// Key of a lane, a group of ready steps that are subject to the same caps: their owner, and those
/// of their tags that have a cap.
pub type Lane = (Option<String>, BTreeSet<String>);

/// The state of a run.
#[derive(Debug, Clone)]
pub struct Run {
    /// Number of the run.
    pub id: RunId,
    /// Name of the run.
    pub name: String,
    /// Policy of the run.
    pub policy: RunPolicy,
    /// When it started.
    pub started: Timestamp,
    /// The fork that created it, if it is a copy of another run.
    #[doc(hidden)]
    pub fork: Option<RunForked>,
    /// Status of the run.
    pub status: RunStatus,
    /// Sequence number and time of the record that ended it.
    pub end_record: Option<(u64, Timestamp)>,
    /// Why it is paused, if it is.
    pub pause: Option<PauseCause>,
    /// Why the run is aborted, if it is; the run ends once no attempt is in flight.
    pub abort_reason: Option<Text>,
    /// All plan versions in order: version n is at index n - 1.
    pub versions: Vec<PlanVersion>,
    /// Number of the active version; 0 if there is none.
    pub active: u32,
    /// When the active version became active.
    pub activated_at: Timestamp,
    /// The open replan request.
    #[doc(hidden)]
    pub request: Option<ReplanRequest>,
    /// Whether the planner declared the plan complete; used if the plan has `continues: true`.
    pub is_complete: bool,
    /// Number of activated versions that count towards the plan's replan limit.
    pub replans: u32,
    /// How it handles failures that its plan does not cover.
    pub failure_settings: FailureSettings,
    /// All steps that the run ever had: step n is at index n - 1.
    pub steps: Steps,
    /// Barriers of the active version, by id.
    #[doc(hidden)]
    pub barriers: BTreeMap<String, BarrierState>,
    /// Variables by name.
    pub variables: BTreeMap<String, Variable>,
    /// Open questions.
    pub questions: BTreeMap<QuestionId, Question>,
    /// Side effects by key.
    #[doc(hidden)]
    pub effects: BTreeMap<String, Effect>,
    /// The tags with a cap in the plan or in the ledger.
    #[doc(hidden)]
    pub capped_tags: BTreeSet<String>,
    /// Ready steps by lane, so that a claim skips all steps of a lane whose cap is reached.
    #[doc(hidden)]
    pub lanes: BTreeMap<Lane, Queue>,
    /// The first step of each lane, in dispatch order across all lanes.
    pub(crate) lane_heads: BTreeMap<(Reverse<i32>, StepNumber), Lane>,
    /// Steps that are reported.
    pub reported: BTreeSet<StepNumber>,
    /// Steps with an unknown outcome.
    pub outcome_unknown: BTreeSet<StepNumber>,
    /// Tokens of all attempts ever dispatched.
    pub dispatched: BTreeSet<AttemptToken>,
    /// Number of attempts in flight.
    pub in_flight: u32,
    /// Attempts in flight by owner.
    #[doc(hidden)]
    pub in_flight_by_owner: BTreeMap<String, u32>,
    /// Attempts in flight by tag.
    #[doc(hidden)]
    pub in_flight_by_tag: BTreeMap<String, u32>,
    /// Timers, soonest first.
    #[doc(hidden)]
    pub timers: BTreeSet<(Timestamp, Timer)>,
    /// Steps with a pending consequence: see [`crate::plan::settle()`].
    #[doc(hidden)]
    pub pending_steps: BTreeSet<StepNumber>,
    /// Barriers with a pending consequence.
    #[doc(hidden)]
    pub pending_barriers: BTreeSet<String>,
    /// Broken barriers that fail the run.
    #[doc(hidden)]
    pub fatal_barriers: BTreeSet<String>,
    /// Number of steps of the active version by status.
    #[doc(hidden)]
    pub counts: BTreeMap<StepStatus, u32>,
    /// Verdicts on the criteria of the active plan version, by criterion.
    pub plan_verdicts: BTreeMap<u32, Verdict>,
    /// Spending, reservations and limits.
    #[doc(hidden)]
    pub account: Account,
    /// Estimated charges of lost attempts.
    #[doc(hidden)]
    pub estimates: BTreeMap<AttemptToken, Cost>,
    /// Counters for metrics.
    #[doc(hidden)]
    pub counters: RunCounters,
    /// Indexes of the active version.
    pub(crate) links: Arc<Links>,
}

/// Status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// It has no active plan version yet.
    Proposed,
    /// It executes its active version.
    Running,
    /// It has ended.
    Ended(Ending),
}

/// A plan version of a run.
#[derive(Debug, Clone)]
pub struct PlanVersion {
    /// Hash of the canonical plan.
    pub hash: ContentHash,
    /// Why it was proposed.
    pub reason: String,
    /// The review, if there was one.
    pub review: Option<Review>,
    /// Note of the reviewer.
    pub note: String,
    /// The source of the version.
    pub provenance: Option<Provenance>,
    /// The approval of its commands by a person, if there was one.
    pub commands: Option<CommandsApproval>,
    /// The plan, complete once all of its step records are folded. Covered by `hash`.
    #[doc(hidden)]
    pub plan: Arc<CompactPlan>,
    /// Hashes of the steps, in plan order.
    pub step_hashes: Arc<Vec<ContentHash>>,
    /// Numbers of the steps, in plan order; empty before the activation.
    pub numbers: Vec<StepNumber>,
    /// Number of steps.
    pub step_count: u32,
    /// Hash of the plan and its step hashes as a snapshot holds them, until a step is added.
    pub(crate) part_hash: KeptHash,
}

/// An open replan request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplanRequest {
    /// Sequence number of the request.
    pub seq: u64,
    /// Time of the request.
    pub time: Timestamp,
    /// Trigger.
    pub trigger: ReplanTrigger,
    /// The first step whose work should be redone, if known.
    pub from: Option<StepNumber>,
    /// Reason, shown to people and to the planner.
    pub reason: Text,
}

/// A variable of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Variable {
    /// Value.
    pub value: Json,
    /// How often it was set.
    pub version: u64,
    /// The step or the person that set it last.
    pub origin: Origin,
    /// When it was set.
    pub time: Timestamp,
    /// Whether the work that set the variable is still valid; always true if a person set it.
    pub is_trusted: bool,
}

/// A side effect of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// The step.
    pub step: StepNumber,
    /// The attempt that announced it.
    pub token: AttemptToken,
    /// Description.
    pub effect: String,
    /// Sequence number of the record that confirmed it; 0 before.
    pub committed: u64,
}

/// Counters of a run, for metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunCounters {
    /// Failed attempts.
    pub failures: u64,
    /// Failures that were followed by a retry.
    pub retries: u64,
    /// Steps that failed or fell back because their attempts were exhausted.
    pub exhausted: u64,
    /// Number of steps whose work was discarded by a replan.
    pub invalidated: u64,
    /// Number of steps whose work was kept by a replan.
    pub preserved: u64,
}

#[cfg(test)]
thread_local! {
    /// Number of step lookups, counted by the scaling tests.
    pub(crate) static LOOKED_AT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    /// Number of lanes that a claim examined.
    pub(crate) static LANES_LOOKED_AT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

impl Run {
    /// A new run without a plan.
    #[doc(hidden)]
    #[must_use]
    pub fn new(id: RunId, name: &str, policy: RunPolicy, started: Timestamp) -> Self {
        Self {
            id,
            name: name.to_owned(),
            policy,
            started,
            fork: None,
            status: RunStatus::Proposed,
            end_record: None,
            pause: None,
            abort_reason: None,
            versions: Vec::new(),
            active: 0,
            activated_at: 0,
            request: None,
            is_complete: false,
            failure_settings: FailureSettings::default(),
            replans: 0,
            steps: Steps::default(),
            barriers: BTreeMap::new(),
            variables: BTreeMap::new(),
            questions: BTreeMap::new(),
            effects: BTreeMap::new(),
            capped_tags: BTreeSet::new(),
            lanes: BTreeMap::new(),
            lane_heads: BTreeMap::new(),
            reported: BTreeSet::new(),
            outcome_unknown: BTreeSet::new(),
            dispatched: BTreeSet::new(),
            in_flight: 0,
            in_flight_by_owner: BTreeMap::new(),
            in_flight_by_tag: BTreeMap::new(),
            timers: BTreeSet::new(),
            pending_steps: BTreeSet::new(),
            pending_barriers: BTreeSet::new(),
            fatal_barriers: BTreeSet::new(),
            counts: BTreeMap::new(),
            plan_verdicts: BTreeMap::new(),
            account: Account::default(),
            estimates: BTreeMap::new(),
            counters: RunCounters::default(),
            links: Arc::new(Links::default()),
        }
    }

    /// Shares the plans of another fold of the same run, to save memory.
    #[doc(hidden)]
    pub fn share(&mut self, other: &Self) {
        for (own, others) in self.versions.iter_mut().zip(&other.versions) {
            if own.hash == others.hash && own.step_hashes == others.step_hashes {
                own.plan = Arc::clone(&others.plan);
                own.step_hashes = Arc::clone(&others.step_hashes);
            }
        }
        if self.active == other.active && self.steps.len() == other.steps.len() {
            self.links = Arc::clone(&other.links);
        }
    }

    /// Whether a step or a barrier of a running run has a pending consequence.
    #[doc(hidden)]
    #[must_use]
    pub fn is_unsettled(&self) -> bool {
        let has_pending = !self.pending_steps.is_empty() || !self.pending_barriers.is_empty();
        has_pending && self.status == RunStatus::Running
    }

    /// The numbers of all steps that the run ever had.
    pub(crate) fn step_numbers(&self) -> impl Iterator<Item = StepNumber> + use<> {
        (1..=u32::try_from(self.steps.len()).unwrap_or(u32::MAX)).map(StepNumber)
    }

    /// The active version.
    #[must_use]
    pub fn active_version(&self) -> Option<&PlanVersion> {
        let index = usize::try_from(self.active).ok()?.checked_sub(1)?;
        self.versions.get(index)
    }

    /// The variables that a precondition reads, that have no value, and that no step of the plan sets.
    #[must_use]
    pub fn unset_by_steps(&self, number: StepNumber, precondition: u32) -> Vec<String> {
        let mut names = self.links.variables_of(number, precondition).clone();
        if names.remove(expression::ALL) {
            // `has(variables.NAME)` reads one of all variables.
            let place = usize::try_from(precondition).ok();
            let body = self.plan_step(number).zip(place);
            let body = body.and_then(|(step, place)| step.preconditions().nth(place));
            names.extend(body.map(expression::members_of_all).unwrap_or_default());
        }
        names.into_iter().filter(|name| self.is_unset(name)).collect()
    }

    /// The inputs of a step that have no value, and that no step of the plan sets.
    #[must_use]
    pub fn unset_inputs(&self, number: StepNumber) -> Vec<String> {
        let inputs = self.plan_step(number).map(CompactStep::inputs).unwrap_or_default();
        inputs.filter(|name| self.is_unset(name)).map(str::to_owned).collect()
    }

    fn is_unset(&self, name: &str) -> bool {
        !self.variables.contains_key(name) && self.links.writers(name).is_empty()
    }

    /// The open steps that must not be done twice and that have had attempts.
    #[must_use]
    pub fn begun_once(&self) -> Vec<StepNumber> {
        let is_once = |number: StepNumber| {
            let planned = self.plan().zip(self.plan_step(number));
            planned.is_some_and(|(plan, step)| plan.idempotence_of(step) == Idempotence::No)
        };
        let steps = self.steps.iter().zip((1..).map(StepNumber));
        let begun = steps.filter(|(step, number)| {
            step.attempts > 0 && !step.status.is_closed() && is_once(*number)
        });
        begun.map(|(_, number)| number).collect()
    }

    /// The versions that a person rejected, oldest first, each with the note of the reviewer.
    #[must_use]
    pub fn rejections(&self) -> Vec<(u32, &str)> {
        let numbered = (1..).zip(&self.versions);
        let rejected = numbered.filter(|(_, version)| version.review == Some(Review::Rejected));
        rejected.map(|(number, version)| (number, version.note.as_str())).collect()
    }

    /// The newest version that an approval can still activate.
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
    #[doc(hidden)]
    #[must_use]
    pub fn plan(&self) -> Option<&CompactPlan> {
        self.active_version().map(|version| &*version.plan)
    }

    /// The definition of a step in the active version.
    #[doc(hidden)]
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

    /// The number of the step with this id in the active version.
    #[must_use]
    pub fn step_named(&self, id: &str) -> Option<StepNumber> {
        self.links.step_named(id)
    }

    /// Finds a step by its id or by its number, `#37`. A bare `37` is a number, too, where no id is
    /// `37`. The lookup of an id searches the active version and then the removed steps, newest first. A word that is
    /// the id of one step and the number of another is ambiguous, and the result is `None`.
    #[must_use]
    pub fn find_step(&self, word: &str) -> Option<StepNumber> {
        let with_number = |number: u32| {
            let number = StepNumber(number);
            self.step(number).is_some().then_some(number)
        };
        let numbered = parse_number(word).and_then(with_number);
        match (self.step_called(word), numbered) {
            (Some(called), Some(numbered)) if called != numbered => None,
            (called, numbered) => called.or(numbered).or_else(|| {
                let bare = is_number(word).then(|| word.parse().ok())?;
                bare.and_then(with_number)
            }),
        }
    }

    /// The newest step with this id, removed or not.
    fn step_called(&self, id: &str) -> Option<StepNumber> {
        let removed = || {
            let last = self.steps.iter().rposition(|step| step.id() == id)?;
            u32::try_from(last + 1).ok().map(StepNumber)
        };
        self.step_named(id).or_else(removed)
    }

    /// Number of steps of the active version with a status.
    #[must_use]
    pub fn count(&self, status: StepStatus) -> u32 {
        self.counts.get(&status).copied().unwrap_or(0)
    }

    /// The limits of the last budget record, else the budget of the plan.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let planned = || self.plan().map(|plan| plan.header().budget.into());
        self.account.limits.or_else(planned).unwrap_or_default()
    }

    /// Whether the plan states how a step is retried.
    pub(crate) fn states_retry(&self, number: StepNumber) -> bool {
        let of_plan = || self.plan().is_some_and(|plan| plan.header().defaults.retry.is_some());
        let own = self.plan_step(number).and_then(CompactStep::retry);
        own.is_some() || of_plan()
    }

    /// The maximum number of replacement versions: from the plan, else from the settings.
    #[must_use]
    pub fn max_replans(&self) -> Option<u32> {
        let planned = self.plan().and_then(|plan| plan.header().failure.max_replans);
        planned.or(self.failure_settings.max_replans)
    }

    /// The time at which its wall-time budget ends.
    #[must_use]
    pub fn wall_until(&self) -> Option<Timestamp> {
        self.limits().until(self.started)
    }

    /// The amount spent.
    #[must_use]
    pub fn spent(&self) -> Cost {
        self.account.spent
    }
}

/// An event that becomes due at a given time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timer {
    /// A lease expires.
    Lease(AttemptToken),
    /// The delay of a step ends.
    Delay(StepNumber),
    /// A question times out.
    Question(QuestionId),
    /// The deadline of a barrier passes.
    Barrier(String),
    /// The wall-time budget of a run ends.
    Wall,
}
