//! How well plans and policies do: counts over the records of runs.
//!
//! Invariants:
//! - Every figure is a ratio of two counts, so that figures of several runs can be added up.
//! - [`Metrics`] is a pure fold of the records. What the state knows already (trust, budgets) is
//!   read off the state.
//!
//! Left out on purpose: what is good. A run that never replans may have had a wrong plan.

use std::collections::{BTreeMap, BTreeSet};
use std::{fmt, io};

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::log::{Item, LogReader, Proof};
use crate::plan::{
    Accepted, AcceptedBasis, BudgetPart, ContentHash, Event, FailureClass, FailureDecided, Limits,
    Micros, PlanActivated, ReplanTrigger, Run, RunId, StepEvent, StepNumber, StepRecord,
};

use super::codec::{put, take};
use super::history::{output_hash, run_of};
use super::projection::{KeptFor, Projection};
use super::replay::{LedgerView, Recorded, recorded};
use super::streams::RUNS;
use super::{Ledger, snapshots};

/// The field of a step's `extra` that says how many seconds its author thinks that it takes.
pub const ESTIMATE: &str = "estimate_seconds";

/// Counts of all runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metrics {
    runs: BTreeMap<RunId, Counts>,
}

/// Counts of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Counts {
    attempts: u64,
    replans: u64,
    /// The request that is open is one for an extension.
    is_extension: bool,
    failed: u64,
    exhausted: u64,
    classified: u64,
    contradicted: u64,
    redone: u64,
    changed: u64,
    steps: BTreeMap<StepNumber, StepCounts>,
}

/// What is remembered of a step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct StepCounts {
    dispatched: Micros,
    /// From dispatch to receipt, of all attempts.
    took: Micros,
    /// The class of its first failure since it was last accepted, skipped or invalidated.
    first: Option<FailureClass>,
    is_contradicted: bool,
    is_exhausted: bool,
    /// What its last receipt brought.
    output: ContentHash,
    is_accepted: bool,
    /// What it had brought before a replan took that away.
    fallen: Option<ContentHash>,
}

/// So many of so many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Ratio {
    /// How many.
    pub part: u64,
    /// Of how many.
    pub of: u64,
}

/// How well a run does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunMetrics {
    /// Later versions that became active, extensions not counted / attempts dealt.
    pub replan_frequency: Ratio,
    /// Steps whose attempts were used up / steps of which an attempt failed. A step counts again
    /// after it was accepted or invalidated.
    pub retry_exhaustion: Ratio,
    /// First failures whose class was not contradicted later / first failures that had a class.
    /// Contradicted is: a later failure of the same work has another class; `transient`, and the
    /// attempts were used up; `deterministic` or `assumption_broken`, and the same work was
    /// accepted in the end.
    pub first_classification: Ratio,
    /// Steps that brought another output than before / steps that had been accepted, were
    /// invalidated by a replan and accepted again. The others were done again for nothing.
    pub replan_precision: Ratio,
    /// Variables that count / variables.
    pub state_trust: Ratio,
    /// Spent / limit, for each part of the budget that has a limit.
    pub budget_use: BTreeMap<BudgetPart, Ratio>,
    /// Microseconds from dispatch to receipt, all attempts / microseconds estimated, over the
    /// steps that reported and whose author wrote [`ESTIMATE`] down.
    pub step_time: Ratio,
}

impl Ratio {
    fn new(part: u64, of: u64) -> Self {
        Self { part, of }
    }

    /// Of a thousand; `None` of nothing.
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
    /// The metrics of a run, as it stood when the last record was counted.
    #[must_use]
    pub fn of(&self, run: &Run) -> RunMetrics {
        let none = Counts::default();
        let counts = self.runs.get(&run.id).unwrap_or(&none);
        let trusted = run.variables.values().filter(|variable| variable.is_trusted).count();
        RunMetrics {
            replan_frequency: Ratio::new(counts.replans, counts.attempts),
            retry_exhaustion: Ratio::new(counts.exhausted, counts.failed),
            first_classification: Ratio::new(
                counts.classified.saturating_sub(counts.contradicted),
                counts.classified,
            ),
            replan_precision: Ratio::new(counts.changed, counts.redone),
            state_trust: Ratio::new(count(trusted), count(run.variables.len())),
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
    let ended = run.ended.map(|(_, time)| time.saturating_sub(run.started) / 1_000_000);
    let parts = [
        (BudgetPart::Money, money_micros, Some(spent.money_micros)),
        (BudgetPart::Tokens, tokens, Some(spent.tokens)),
        (BudgetPart::Attempts, attempts, Some(account.attempts)),
        // A run that goes on has no end to measure to: a view does that, which is given the time.
        (BudgetPart::Wall, wall_seconds, ended),
    ];
    let used = parts.into_iter().filter_map(|(part, limit, spent)| Some((part, limit?, spent?)));
    used.map(|(part, limit, spent)| (part, Ratio::new(spent, limit))).collect()
}

impl Counts {
    fn step(&mut self, number: StepNumber) -> &mut StepCounts {
        self.steps.entry(number).or_default()
    }

    fn step_time(&self, run: &Run) -> Ratio {
        let mut ratio = Ratio::default();
        for (number, step) in self.steps.iter().filter(|(_, step)| step.took > 0) {
            let plan = run.plan_step(*number);
            let estimate = plan.and_then(|plan| plan.extra().get(ESTIMATE)?.as_u64());
            if let Some(seconds) = estimate {
                ratio.part = ratio.part.saturating_add(step.took);
                ratio.of = ratio.of.saturating_add(seconds.saturating_mul(1_000_000));
            }
        }
        ratio
    }

    fn activated(&mut self, activated: &PlanActivated) {
        let is_extension = std::mem::take(&mut self.is_extension);
        let is_copy = activated.since != 0;
        self.replans += u64::from(activated.version > 1 && !is_extension && !is_copy);
        for number in activated.invalidated.iter().chain(&activated.removed) {
            let step = self.step(*number);
            step.close();
            step.fallen = step.is_accepted.then_some(step.output);
            step.is_accepted = false;
        }
        for number in &activated.removed {
            self.step(*number).fallen = None;
        }
    }

    fn decided(&mut self, number: StepNumber, decided: &FailureDecided) {
        // The answer to a question about a failure that was counted when it was asked.
        if decided.rule.starts_with("answer:") {
            return;
        }
        let step = self.step(number);
        let is_first = step.first.is_none();
        let first = *step.first.get_or_insert(decided.class);
        let is_known = first != FailureClass::Unknown;
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
        let hopeless = [FailureClass::Deterministic, FailureClass::AssumptionBroken];
        if is_work && self.step(number).first.is_some_and(|first| hopeless.contains(&first)) {
            self.contradict(number);
        }
        let step = self.step(number);
        step.close();
        step.is_accepted = is_work;
        let (output, fallen) = (step.output, step.fallen.take());
        if let Some(before) = fallen.filter(|_| is_work) {
            self.redone += 1;
            self.changed += u64::from(before != output);
        }
    }

    fn note(&mut self, time: Micros, record: &StepRecord) {
        let number = record.step;
        match &record.event {
            StepEvent::Dispatched(_) => {
                self.attempts += 1;
                self.step(number).dispatched = time;
            }
            StepEvent::ReceiptRecorded(recorded) => {
                let step = self.step(number);
                step.output = output_hash(&recorded.receipt.output);
                step.took = step.took.saturating_add(time.saturating_sub(step.dispatched));
            }
            StepEvent::FailureDecided(decided) => self.decided(number, decided),
            StepEvent::Accepted(accepted) => self.accepted(number, accepted),
            StepEvent::Skipped(_) => self.step(number).close(),
            _ => {}
        }
    }
}

impl StepCounts {
    /// The next failure is the first again.
    fn close(&mut self) {
        self.first = None;
        self.is_contradicted = false;
        self.is_exhausted = false;
    }
}

impl Projection for Metrics {
    const NAME: &'static str = "metrics";
    const VERSION: u32 = 1;
    const KEPT_FOR: KeptFor = KeptFor::Ledger;

    fn apply(&mut self, recorded: &Recorded) {
        let Some(event) = &recorded.event else { return };
        let Some(run) = event.run() else { return };
        let counts = self.runs.entry(run).or_default();
        match event {
            Event::PlanActivated(activated) => counts.activated(activated),
            Event::ReplanRequested(requested) => {
                counts.is_extension = requested.trigger == ReplanTrigger::Extension;
            }
            Event::ReplanWithdrawn(_) => counts.is_extension = false,
            Event::Step(record) => counts.note(recorded.time, record),
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

impl Ledger {
    /// The metrics of a run.
    ///
    /// # Errors
    /// `Rejected` if there is no such run; `Pruned` if a part of its records is not in the log any
    /// more, and no snapshot of all counts is kept; `Corrupt` and `Io`.
    pub fn metrics(&self, run: RunId) -> Result<RunMetrics> {
        let reader = self.reader()?;
        of(&reader, run)
    }
}

fn of(reader: &LogReader, run: RunId) -> Result<RunMetrics> {
    let found = run_of(reader, run)?;
    Ok(counted(reader, run)?.of(&found))
}

/// Counts, those of the run among them: of all runs, where a snapshot of that is kept, or else of what
/// the log has about this one.
fn counted(reader: &LogReader, run: RunId) -> Result<Metrics> {
    let is_kept = snapshots::names::<Metrics>(reader).is_ok_and(|names| !names.is_empty());
    if !is_kept && let Some(counted) = of_run(reader, run)? {
        return Ok(counted);
    }
    Ok(snapshots::project::<Metrics>(reader, u64::MAX)?.value)
}

/// Counts of one run; `None` if it cannot be told whether all of its records are there.
///
/// # Errors
/// `Pruned` if a part of them is not in the log any more.
fn of_run(reader: &LogReader, run: RunId) -> Result<Option<Metrics>> {
    let mut counted = Metrics::default();
    let mut is_first = reader.first_seq() > 1;
    for item in reader.walk_of_stream(u64::from(run.0), RUNS, reader.first_seq()) {
        match item? {
            Item::Record(_, Proof::Unproven) if reader.has_witness() => {}
            Item::Record(record, _) => match recorded(&record) {
                Ok(recorded) => {
                    if std::mem::take(&mut is_first) && !begins(&recorded) {
                        return Err(cut_off(reader, run));
                    }
                    counted.apply(&recorded);
                }
                Err(_) => return Ok(None),
            },
            Item::Damage(_) => return Ok(None),
            Item::Derived(_) | Item::OpenEnd { .. } => {}
        }
    }
    // Of a run that is not pruned, and has ended long ago, there is one record at least.
    if is_first { Err(cut_off(reader, run)) } else { Ok(Some(counted)) }
}

fn cut_off(reader: &LogReader, run: RunId) -> Error {
    let first = reader.first_seq();
    let message = format!(
        "the log begins at record {first}, and run {run} began before: what was pruned cannot be \
         counted, and an archive may have it"
    );
    Error::new(ErrorKind::Pruned, message).at_path(reader.dir()).at_seq(first)
}

/// Whether a run begins with that record.
fn begins(recorded: &Recorded) -> bool {
    matches!(recorded.event, Some(Event::RunStarted(_) | Event::RunForked(_)))
}

impl LedgerView {
    /// The metrics of a run.
    ///
    /// # Errors
    /// As [`Ledger::metrics`].
    pub fn metrics(&self, run: RunId) -> Result<RunMetrics> {
        of(self.log(), run)
    }
}
