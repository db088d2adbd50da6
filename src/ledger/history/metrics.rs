//! Metrics of plans and policies: counts over the records of runs.
//!
//! Invariants:
//! - Every figure is a ratio of two counts, so that the figures of several runs can be added up.
//! - [`Metrics`] is a pure fold of the records. Trust and budgets are read from the state.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::{fmt, io};

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::ledger::codec::streams::RUN_STREAMS;
use crate::ledger::codec::values::{put, take};
use crate::ledger::projection::{Projection, ProjectionOwner, RecordedEvent, decode_record};
use crate::ledger::snapshot::store;
use crate::ledger::view::LedgerView;
use crate::log::{LogItem, LogReader, RecordStatus};
use crate::plan::{
    Accepted, AcceptedBasis, BudgetPart, CompactStep, Ending, Event, FailureClass, FailureDecided,
    HelperRole, Limits, Micros, PlanActivated, ReplanTrigger, Run, RunId, State, StepEvent,
    StepNumber, StepRecord, Timestamp,
};

use super::lineage::pruned_run;
use super::run::run_of;

/// The prefix of variables of the program itself.
const LEDGER_PREFIX: &str = "ledger.";

/// Failures that a retry repeats.
const HOPELESS: [FailureClass; 2] = [FailureClass::Deterministic, FailureClass::AssumptionBroken];

/// Counters of all runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metrics {
    runs: BTreeMap<RunId, MetricCounters>,
}

/// Counters of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct MetricCounters {
    attempts: u64,
    replans: u64,
    /// The open replan request asks for an extension.
    is_extension: bool,
    /// The open replan request is about a problem, and not about a change of scope.
    is_problem: bool,
    failed: u64,
    exhausted: u64,
    classified: u64,
    contradicted: u64,
    /// Replans that answered a problem, and those that solved it.
    problems: u64,
    solved: u64,
    /// The steps that must be accepted before the last such replan has solved its problem.
    unsolved: Option<BTreeSet<StepNumber>>,
    /// Variables that were trusted and not trusted by later versions.
    trusted: u64,
    untrusted: u64,
    /// Microseconds that planners took, and how often they ended.
    planning: Micros,
    planned: u64,
    steps: BTreeMap<StepNumber, StepCounters>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct StepCounters {
    dispatched: Timestamp,
    /// Time from dispatch to receipt, of all attempts.
    total_duration: Micros,
    /// The class of its first failure since it was last accepted, skipped or invalidated.
    first_failure: Option<FailureClass>,
    is_contradicted: bool,
    is_exhausted: bool,
}

/// A part of a whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ratio {
    /// The part.
    pub part: u64,
    /// The whole.
    pub of: u64,
}

/// The metrics of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunMetrics {
    /// Microseconds that planners took / how often a planner ended.
    pub plan_generation: Ratio,
    /// Activated versions after the first, without extensions / runs.
    pub replan_frequency: Ratio,
    /// Steps that used up their attempts / steps with a failed attempt. A step counts again after it
    /// was accepted or invalidated.
    pub retry_exhaustion: Ratio,
    /// First failures with a class that was not contradicted later / first failures with a class. A
    /// class is contradicted if a later failure of the same work has another class; if it was
    /// `transient` and the attempts were used up; or if it was `deterministic` or
    /// `assumption_broken` and the same work was accepted in the end, without another version of
    /// the plan.
    pub first_classification: Ratio,
    /// Replans after which all failed steps were accepted, without another replan for a problem /
    /// replans for a problem, not for a change of scope.
    pub replan_precision: Ratio,
    /// Variables that later versions trusted when they became active / variables at these times.
    pub state_trust: Ratio,
    /// Spent / limit, for each limited part of the budget.
    pub budget_use: BTreeMap<BudgetPart, Ratio>,
    /// Microseconds from dispatch to receipt, all attempts / estimated microseconds, over the steps that
    /// reported and have an estimate.
    pub step_time: Ratio,
}

impl RunMetrics {
    /// Adds the metrics of another run.
    pub fn add(&mut self, other: &Self) {
        self.plan_generation.add(other.plan_generation);
        self.replan_frequency.add(other.replan_frequency);
        self.retry_exhaustion.add(other.retry_exhaustion);
        self.first_classification.add(other.first_classification);
        self.replan_precision.add(other.replan_precision);
        self.state_trust.add(other.state_trust);
        self.step_time.add(other.step_time);
        for (part, ratio) in &other.budget_use {
            self.budget_use.entry(*part).or_default().add(*ratio);
        }
    }
}

impl Ratio {
    fn add(&mut self, other: Self) {
        self.part = self.part.saturating_add(other.part);
        self.of = self.of.saturating_add(other.of);
    }

    fn new(part: u64, of: u64) -> Self {
        Self { part, of }
    }

    /// The part in a thousand; `None` if the whole is 0.
    #[must_use]
    pub fn per_mille(self) -> Option<u64> {
        self.part.saturating_mul(1000).checked_div(self.of)
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.part, self.of)
    }
}

impl Metrics {
    /// The metrics of a run, after the last counted record.
    #[must_use]
    pub fn of(&self, run: &Run) -> RunMetrics {
        let none = MetricCounters::default();
        let counts = self.runs.get(&run.id).unwrap_or(&none);
        RunMetrics {
            plan_generation: Ratio::new(counts.planning, counts.planned),
            replan_frequency: Ratio::new(counts.replans, 1),
            retry_exhaustion: Ratio::new(counts.exhausted, counts.failed),
            first_classification: Ratio::new(
                counts.classified.saturating_sub(counts.contradicted),
                counts.classified,
            ),
            replan_precision: Ratio::new(counts.solved, counts.problems),
            state_trust: Ratio::new(
                counts.trusted,
                counts.trusted.saturating_add(counts.untrusted),
            ),
            budget_use: budget_use(run),
            step_time: counts.step_time(run),
        }
    }
}

fn count(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

fn budget_use(run: &Run) -> BTreeMap<BudgetPart, Ratio> {
    let Limits { money_micros, tokens, attempts, wall_seconds } = run.limits();
    let (account, spent) = (&run.account, run.account.spent);
    let ended = run.end_record.map(|(_, time)| time.saturating_sub(run.started) / 1_000_000);
    let parts = [
        (BudgetPart::Money, money_micros, Some(spent.money_micros)),
        (BudgetPart::Tokens, tokens, Some(spent.tokens)),
        (BudgetPart::Attempts, attempts, Some(account.attempts)),
        // An open run has no end: a view measures up to its own time.
        (BudgetPart::Wall, wall_seconds, ended),
    ];
    let used = parts.into_iter().filter_map(|(part, limit, spent)| Some((part, limit?, spent?)));
    used.map(|(part, limit, spent)| (part, Ratio::new(spent, limit))).collect()
}

impl MetricCounters {
    fn step(&mut self, number: StepNumber) -> &mut StepCounters {
        self.steps.entry(number).or_default()
    }

    fn step_time(&self, run: &Run) -> Ratio {
        let mut ratio = Ratio::default();
        for (number, step) in self.steps.iter().filter(|(_, step)| step.total_duration > 0) {
            let plan = run.plan_step(*number);
            if let Some(seconds) = plan.and_then(CompactStep::estimate_seconds) {
                ratio.part = ratio.part.saturating_add(step.total_duration);
                ratio.of = ratio.of.saturating_add(Micros::from(seconds).saturating_mul(1_000_000));
            }
        }
        ratio
    }

    fn activated(&mut self, activated: &PlanActivated) {
        let is_extension = std::mem::take(&mut self.is_extension);
        let is_copy = activated.since != 0;
        let is_problem = std::mem::take(&mut self.is_problem);
        let is_replan = activated.version > 1 && !is_extension && !is_copy;
        self.replans += u64::from(is_replan);
        if is_replan {
            let is_own = |name: &&String| !name.starts_with(LEDGER_PREFIX);
            self.trusted += count(activated.trusted.iter().filter(is_own).count());
            self.untrusted += count(activated.untrusted.iter().filter(is_own).count());
        }
        if is_replan && is_problem {
            self.problems += 1;
            let has_failed = |number: &&StepNumber| {
                self.steps.get(number).is_some_and(|step| step.first_failure.is_some())
            };
            self.unsolved = Some(activated.numbers.iter().filter(has_failed).copied().collect());
        }
        for number in activated.invalidated.iter().chain(&activated.removed) {
            self.step(*number).close();
        }
        // Another version answers these failures, so an acceptance no longer contradicts them.
        let answered = |step: &&mut StepCounters| {
            step.first_failure.is_some_and(|first| HOPELESS.contains(&first))
        };
        self.steps.values_mut().filter(answered).for_each(StepCounters::close);
    }

    fn solve(&mut self) {
        self.solved += u64::from(self.unsolved.take().is_some());
    }

    fn decided(&mut self, number: StepNumber, decided: &FailureDecided) {
        // The failure was already counted when its question was asked.
        if decided.rule.starts_with("answer:") {
            return;
        }
        let step = self.step(number);
        let is_first = step.first_failure.is_none();
        let first = *step.first_failure.get_or_insert(decided.class);
        // A false criterion says nothing about the cause.
        let is_known = !matches!(first, FailureClass::Unknown | FailureClass::CriterionFailed);
        let is_exhausted = decided.is_exhausted() && !step.is_exhausted;
        step.is_exhausted |= decided.is_exhausted();
        let is_transient = first == FailureClass::Transient;
        let differs = decided.class != first || (is_transient && decided.is_exhausted());
        self.failed += u64::from(is_first);
        self.exhausted += u64::from(is_exhausted);
        self.classified += u64::from(is_first && is_known);
        if is_known && differs {
            self.contradict(number);
        }
    }

    fn contradict(&mut self, number: StepNumber) {
        let step = self.step(number);
        let is_new = !std::mem::replace(&mut step.is_contradicted, true);
        self.contradicted += u64::from(is_new);
    }

    fn accepted(&mut self, number: StepNumber, accepted: &Accepted) {
        let is_work = matches!(
            accepted.basis,
            AcceptedBasis::Receipt | AcceptedBasis::Verdicts | AcceptedBasis::WorkersWord
        );
        if is_work && self.step(number).first_failure.is_some_and(|first| HOPELESS.contains(&first))
        {
            self.contradict(number);
        }
        self.step(number).close();
        if let Some(unsolved) = &mut self.unsolved
            && unsolved.remove(&number)
            && unsolved.is_empty()
        {
            self.solve();
        }
    }

    fn add(&mut self, time: Timestamp, record: &StepRecord) {
        let number = record.step;
        match &record.event {
            StepEvent::Dispatched(_) => {
                self.attempts += 1;
                self.step(number).dispatched = time;
            }
            StepEvent::ReceiptRecorded(_) => {
                let step = self.step(number);
                step.total_duration =
                    step.total_duration.saturating_add(time.saturating_sub(step.dispatched));
            }
            StepEvent::FailureDecided(decided) => self.decided(number, decided),
            StepEvent::Accepted(accepted) => self.accepted(number, accepted),
            StepEvent::Skipped(_) => self.step(number).close(),
            _ => {}
        }
    }
}

impl StepCounters {
    /// Start again: the next failure is a first failure.
    fn close(&mut self) {
        self.first_failure = None;
        self.is_contradicted = false;
        self.is_exhausted = false;
    }
}

impl Projection for Metrics {
    const NAME: &'static str = "metrics";
    const VERSION: u32 = 2;
    const OWNER: ProjectionOwner = ProjectionOwner::Ledger;

    fn apply(&mut self, record: &RecordedEvent) {
        let Some(event) = &record.event else { return };
        let Some(run) = event.run() else { return };
        let counts = self.runs.entry(run).or_default();
        match event {
            Event::PlanActivated(activated) => counts.activated(activated),
            Event::ReplanRequested(requested) => {
                counts.is_extension = requested.trigger == ReplanTrigger::Extension;
                counts.is_problem = !matches!(
                    requested.trigger,
                    ReplanTrigger::Extension
                        | ReplanTrigger::ScopeChange { .. }
                        | ReplanTrigger::NewEvidence { .. }
                );
            }
            Event::ReplanWithdrawn(_) => {
                counts.is_extension = false;
                counts.is_problem = false;
            }
            Event::RunEnded(ended) if ended.ending == Ending::Done => counts.solve(),
            Event::HelperEnded(ended) if ended.role == HelperRole::Planner => {
                counts.planning = counts.planning.saturating_add(ended.duration);
                counts.planned += 1;
            }
            Event::Step(event) => counts.add(record.time, event),
            _ => {}
        }
    }

    fn encode(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let ids: BTreeSet<RunId> = self.runs.keys().copied().collect();
        put(out, &ids)?;
        self.runs.values().try_for_each(|counts| put(out, counts))
    }

    fn decode(input: &mut dyn io::Read) -> io::Result<Self> {
        let ids: BTreeSet<RunId> = take(input)?;
        let counts = ids.into_iter().map(|id| Ok((id, take(input)?)));
        Ok(Self { runs: counts.collect::<io::Result<_>>()? })
    }
}

#[doc(hidden)]
impl LedgerView {
    /// The sum of the metrics of all runs in a state, including those that are only kept as a
    /// summary. Nothing is replayed if there are no summaries. Runs that ended before the first
    /// record are not counted.
    ///
    /// # Errors
    /// As [`crate::Ledger::metrics`].
    pub fn metrics_of_all(&self, state: &State) -> Result<RunMetrics> {
        let counted = store::project::<Metrics>(&self.reader, state.seq)?.value;
        let mut sum = RunMetrics::default();
        let mut add = |run: &Run| sum.add(&counted.of(run));
        state.runs.values().for_each(&mut add);
        if !state.summaries.is_empty() {
            // A run is complete at the record that ended it.
            self.fold_with(state.seq, &mut |fold, _| {
                let then = &fold.state;
                let ended = then.ended.last().filter(|(seq, _)| *seq == then.seq);
                let run = ended.filter(|(_, id)| state.summaries.contains_key(id));
                if let Some(run) = run.and_then(|(_, id)| then.runs.get(id)) {
                    add(run);
                }
                ControlFlow::Continue(())
            })?;
        }
        Ok(sum)
    }

    /// The metrics of a run.
    ///
    /// # Errors
    /// As [`crate::Ledger::metrics`].
    pub fn metrics(&self, run: RunId) -> Result<RunMetrics> {
        let found = run_of(&self.reader, run)?;
        Ok(count_run(&self.reader, run)?.of(&found))
    }
}

/// The counters of a run: from a snapshot of all metrics if there is one, or else from the records
/// of this run.
fn count_run(reader: &LogReader, run: RunId) -> Result<Metrics> {
    let has_snapshot = store::names::<Metrics>(reader).is_ok_and(|names| !names.is_empty());
    if !has_snapshot && let Some(counted) = count_records_of(reader, run)? {
        return Ok(counted);
    }
    Ok(store::project::<Metrics>(reader, u64::MAX)?.value)
}

/// The counters of one run from its records; `None` if some may be missing because of damage.
///
/// # Errors
/// `Pruned` if some of its records were pruned.
fn count_records_of(reader: &LogReader, run: RunId) -> Result<Option<Metrics>> {
    let mut counted = Metrics::default();
    let mut is_first = reader.first_seq() > 1;
    for item in reader.walk_of_stream(u64::from(run.0), RUN_STREAMS, reader.first_seq()) {
        match item? {
            LogItem::Record(_, RecordStatus::Unacknowledged)
                if reader.head_names_present_segment() => {}
            LogItem::Record(record, _) => match decode_record(&record) {
                Ok(record) => {
                    if std::mem::take(&mut is_first) && !begins_run(&record) {
                        return Err(pruned_run(reader, run, reader.first_seq()));
                    }
                    counted.apply(&record);
                }
                Err(_) => return Ok(None),
            },
            LogItem::Damage(_) => return Ok(None),
            LogItem::DerivedDamage(_) | LogItem::OpenEnd { .. } => {}
        }
    }
    // A run without any record was pruned.
    if is_first { Err(pruned_run(reader, run, reader.first_seq())) } else { Ok(Some(counted)) }
}

/// Whether this record begins a run.
fn begins_run(record: &RecordedEvent) -> bool {
    matches!(record.event, Some(Event::RunStarted(_) | Event::RunForked(_)))
}
