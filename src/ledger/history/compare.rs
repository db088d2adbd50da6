//! Compares two runs: their first divergence, and the differences of their results.
//!
//! Invariants:
//! - Steps correspond by id, attempts by number. The order in which independent steps were
//!   dispatched is not a difference.
//! - The records of a fork begin with those of its parent.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::error::Result;
use crate::ledger::codec::hash::output_hash;
use crate::ledger::view::LedgerView;
use crate::plan::{
    AttemptToken, CompactPlan, ContentHash, Cost, Event, FailureClass, Json, LostCause, Outcome,
    PlanDiff, Receipt, Run, RunId, RunStatus, StepEvent, StepRecord, StepStatus, diff,
};

use super::lineage::Lineage;

/// A pair of values, one of each run.
pub type Pair<T> = [T; 2];

/// The differences between two runs.
#[derive(Debug, Clone)]
pub struct RunComparison {
    pub runs: Pair<RunId>,
    pub status: Pair<RunStatus>,
    /// The first difference, if there is one.
    pub divergence: Option<Divergence>,
    /// Attempts that ended differently, or that only one run had.
    pub attempts: Vec<AttemptDifference>,
    /// Steps with a different status or cost.
    pub steps: Vec<StepDifference>,
    /// Variables with different values, by name.
    pub variables: BTreeMap<String, Pair<Option<Json>>>,
    /// Hashes of their plan versions, from the first that differs.
    pub versions: Vec<Pair<Option<ContentHash>>>,
    /// The difference between their active plans.
    pub plan: PlanDiff,
    /// Their spending; for a fork, including its parent's.
    pub spent: Pair<Cost>,
}

/// The first difference between two runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divergence {
    /// The records.
    pub seqs: Pair<Option<u64>>,
    /// The difference.
    pub what: DivergenceCause,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DivergenceCause {
    /// An attempt ended differently, or only one run had it.
    Attempt {
        /// The step's id.
        step: String,
        /// The attempt's number.
        attempt: u32,
    },
    /// A version of the plan differs.
    Version(u32),
}

/// An attempt that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptDifference {
    /// The step's id.
    pub step: String,
    /// The attempt's number.
    pub attempt: u32,
    /// How it ended.
    pub ends: Pair<Option<AttemptEnd>>,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptEnd {
    /// The record that ended it; if it is in flight, the one that dispatched it.
    pub seq: u64,
    pub worker: String,
    /// How it ended.
    pub kind: AttemptEndKind,
    /// Hash of its output, if it reported.
    pub output: Option<ContentHash>,
    pub receipt: Option<Receipt>,
}

/// The class of the end of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptEndKind {
    /// It is still in flight.
    InFlight,
    Lost(LostCause),
    /// It reported success.
    Succeeded,
    /// It reported a failure.
    Failed(FailureClass),
    /// It asked for another plan.
    ReplanRequested,
}

/// A step that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepDifference {
    /// Its id.
    pub step: String,
    /// Its status; `None` if the step does not exist.
    pub status: Pair<Option<StepStatus>>,
    /// The number of its attempts.
    pub attempts: Pair<u32>,
    /// Its cost according to its receipts.
    pub cost: Pair<Cost>,
}

#[doc(hidden)]
impl LedgerView {
    /// The differences between two runs.
    ///
    /// # Errors
    /// As [`crate::Ledger::compare`].
    pub fn compare(&self, one: RunId, other: RunId) -> Result<RunComparison> {
        let runs = [one, other];
        let (one, other) = (Lineage::of(&self.reader, one)?, Lineage::of(&self.reader, other)?);
        let outcomes = [RunOutcomes::of(&one), RunOutcomes::of(&other)];
        let attempts = attempts(&outcomes);
        let states = [&one.run, &other.run];
        let plans = states.map(|run| run.plan().map(CompactPlan::decode).unwrap_or_default());
        let [before, after] = &plans;
        Ok(RunComparison {
            runs,
            status: states.map(|run| run.status),
            divergence: divergence(&outcomes, &attempts),
            steps: steps(states, &outcomes),
            attempts,
            variables: variables(states),
            versions: versions(&outcomes),
            plan: diff(before, after),
            spent: states.map(|run| {
                let before = run.fork.as_ref().map(|fork| fork.spent).unwrap_or_default();
                run.account.spent.plus(before)
            }),
        })
    }
}

/// The outcomes in a run's records.
#[derive(Debug, Default)]
struct RunOutcomes {
    /// The end of each attempt, by step and attempt.
    ends: BTreeMap<(String, u32), AttemptEnd>,
    /// Activated versions: hash and record, by number.
    versions: BTreeMap<u32, (ContentHash, u64)>,
    /// The position, among all outcomes, of each record that `ends` and `versions` name.
    order: BTreeMap<u64, usize>,
}

impl RunOutcomes {
    fn of(lineage: &Lineage) -> Self {
        let run = &lineage.run;
        let mut outcomes = Self::default();
        let mut keys: BTreeMap<AttemptToken, (String, u32)> = BTreeMap::new();
        for record in &lineage.records {
            match &record.event {
                Some(Event::Step(event)) => outcomes.add_step(run, record.seq, event, &mut keys),
                // A fork activates the versions of its parent again.
                Some(Event::PlanActivated(event))
                    if !outcomes.versions.contains_key(&event.version) =>
                {
                    let place = usize::try_from(event.version).ok().and_then(|n| n.checked_sub(1));
                    let hash = place.and_then(|place| run.versions.get(place)).map(|v| v.hash);
                    outcomes.versions.insert(event.version, (hash.unwrap_or_default(), record.seq));
                }
                _ => {}
            }
        }
        let seqs = outcomes.ends.values().map(|end| end.seq);
        let seqs: BTreeSet<u64> =
            seqs.chain(outcomes.versions.values().map(|(_, seq)| *seq)).collect();
        outcomes.order = seqs.into_iter().zip(0..).collect();
        outcomes
    }

    fn add_step(
        &mut self,
        run: &Run,
        seq: u64,
        record: &StepRecord,
        keys: &mut BTreeMap<AttemptToken, (String, u32)>,
    ) {
        match &record.event {
            StepEvent::Dispatched(dispatched) => {
                let id = run.step(record.step).map(|step| step.id().to_owned()).unwrap_or_default();
                let key = (id, dispatched.attempt);
                keys.insert(AttemptToken(seq), key.clone());
                let (worker, kind) = (dispatched.worker.clone(), AttemptEndKind::InFlight);
                let end = AttemptEnd { seq, worker, kind, output: None, receipt: None };
                self.ends.insert(key, end);
            }
            StepEvent::AttemptLost(lost) => {
                if let Some(end) = keys.get(&lost.token).and_then(|key| self.ends.get_mut(key)) {
                    (end.seq, end.kind) = (seq, AttemptEndKind::Lost(lost.cause));
                }
            }
            StepEvent::ReceiptRecorded(recorded) => {
                if let Some(end) = keys.get(&recorded.token).and_then(|key| self.ends.get_mut(key))
                {
                    end.seq = seq;
                    end.kind = AttemptEndKind::of(&recorded.receipt.outcome);
                    end.output = Some(output_hash(&recorded.receipt.output));
                    end.receipt = Some(recorded.receipt.clone());
                }
            }
            _ => {}
        }
    }

    fn rank(&self, seq: Option<u64>) -> Option<usize> {
        self.order.get(&seq?).copied()
    }

    fn cost(&self, id: &str) -> Cost {
        let of_step = self.ends.range((id.to_owned(), 0)..=(id.to_owned(), u32::MAX));
        let costs = of_step.filter_map(|(_, end)| Some(end.receipt.as_ref()?.cost));
        costs.fold(Cost::default(), Cost::plus)
    }
}

impl AttemptEndKind {
    fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Succeeded => Self::Succeeded,
            Outcome::Failed { class, .. } => Self::Failed(*class),
            Outcome::ReplanRequested { .. } => Self::ReplanRequested,
        }
    }
}

fn attempts(outcomes: &Pair<RunOutcomes>) -> Vec<AttemptDifference> {
    let keys: BTreeSet<&(String, u32)> =
        outcomes.iter().flat_map(|each| each.ends.keys()).collect();
    let differs = |key: &(String, u32)| {
        let ends = outcomes.each_ref().map(|each| each.ends.get(key));
        let [one, other] = ends.map(|end| end.map(|end| (end.kind, end.output)));
        (one != other).then(|| ends.map(Option::<&AttemptEnd>::cloned))
    };
    let found = keys.into_iter().filter_map(|key| {
        let ends = differs(key)?;
        Some(AttemptDifference { step: key.0.clone(), attempt: key.1, ends })
    });
    found.collect()
}

/// The earliest difference: the one with the fewest outcomes before it in its run.
fn divergence(outcomes: &Pair<RunOutcomes>, attempts: &[AttemptDifference]) -> Option<Divergence> {
    let of_attempts = attempts.iter().map(|each| Divergence {
        seqs: each.ends.each_ref().map(|end| end.as_ref().map(|end| end.seq)),
        what: DivergenceCause::Attempt { step: each.step.clone(), attempt: each.attempt },
    });
    let numbers: BTreeSet<u32> =
        outcomes.iter().flat_map(|each| each.versions.keys().copied()).collect();
    let of_versions = numbers.into_iter().filter_map(|number| {
        let found = outcomes.each_ref().map(|each| each.versions.get(&number).copied());
        let [one, other] = found.map(|each| each.map(|(hash, _)| hash));
        let seqs = found.map(|each| each.map(|(_, seq)| seq));
        (one != other).then_some(Divergence { seqs, what: DivergenceCause::Version(number) })
    });
    let [first, second] = outcomes;
    let rank = |divergence: &Divergence| {
        let [one, other] = divergence.seqs;
        let ranks = first.rank(one).into_iter().chain(second.rank(other));
        ranks.min().unwrap_or(usize::MAX)
    };
    of_versions.chain(of_attempts).min_by_key(rank)
}

fn steps(runs: Pair<&Run>, outcomes: &Pair<RunOutcomes>) -> Vec<StepDifference> {
    let by_id = runs.map(|run| {
        let steps = run.steps.iter().filter(|step| step.status != StepStatus::Removed);
        steps.map(|step| (step.id(), step)).collect::<BTreeMap<_, _>>()
    });
    let ids: BTreeSet<&str> = by_id.iter().flat_map(|steps| steps.keys().copied()).collect();
    let difference = |id: &str| {
        let found = by_id.each_ref().map(|steps| steps.get(id));
        StepDifference {
            step: id.to_owned(),
            status: found.map(|step| step.map(|step| step.status)),
            attempts: found.map(|step| step.map_or(0, |step| step.attempts)),
            cost: outcomes.each_ref().map(|each| each.cost(id)),
        }
    };
    let differs = |each: &StepDifference| {
        let ([one, other], [tries, others]) = (each.status, each.attempts);
        one != other || tries != others || each.cost.first() != each.cost.last()
    };
    ids.into_iter().map(difference).filter(differs).collect()
}

fn variables(runs: Pair<&Run>) -> BTreeMap<String, Pair<Option<Json>>> {
    let names: BTreeSet<&String> = runs.iter().flat_map(|run| run.variables.keys()).collect();
    let values = |name: &String| {
        runs.map(|run| run.variables.get(name).map(|variable| variable.value.clone()))
    };
    let both = names.into_iter().map(|name| (name.clone(), values(name)));
    both.filter(|(_, [one, other])| one != other).collect()
}

fn versions(outcomes: &Pair<RunOutcomes>) -> Vec<Pair<Option<ContentHash>>> {
    let numbers: BTreeSet<u32> =
        outcomes.iter().flat_map(|each| each.versions.keys().copied()).collect();
    let hashes = |number: u32| {
        outcomes.each_ref().map(|each| each.versions.get(&number).map(|(hash, _)| *hash))
    };
    numbers.into_iter().map(hashes).skip_while(|[one, other]| one == other).collect()
}
