//! Two runs side by side: where they part, and what came of it.
//!
//! Invariants:
//! - Steps are the same if their ids are, attempts if their numbers are. In which order
//!   independent steps were dealt is no difference.
//! - A fork's history begins with that of the run that it was.
//!
//! Left out on purpose: which of the two is better.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::error::Result;
use crate::log::LogReader;
use crate::plan::{
    AttemptToken, CompactPlan, ContentHash, Cost, Event, FailureClass, Json, LostCause, Outcome,
    PlanDiff, Receipt, Run, RunId, RunStatus, StepEvent, StepRecord, StepStatus, diff,
};

use super::Ledger;
use super::history::{History, output_hash};
use super::replay::LedgerView;

/// Two of something: of the one run, and of the other.
pub type Pair<T> = [T; 2];

/// What differs between two runs.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// The runs.
    pub runs: Pair<RunId>,
    /// How they stand.
    pub status: Pair<RunStatus>,
    /// The first thing in which they differ, if they do.
    pub parting: Option<Parting>,
    /// Attempts that ended differently, or that only one of the two had.
    pub attempts: Vec<AttemptDifference>,
    /// Steps that stand differently, or cost something else.
    pub steps: Vec<StepDifference>,
    /// Variables with different values: name, and the two values.
    pub variables: BTreeMap<String, Pair<Option<Json>>>,
    /// Hashes of the versions of their plans, from the first one that differs on.
    pub versions: Vec<Pair<Option<ContentHash>>>,
    /// What differs between their active plans.
    pub plan: PlanDiff,
    /// What they spent, a fork's parent included.
    pub spent: Pair<Cost>,
}

/// The first thing in which two runs differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parting {
    /// The records.
    pub seqs: Pair<Option<u64>>,
    /// What differs.
    pub what: Parted,
}

/// What two runs part by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parted {
    /// An attempt ended differently, or only one of them had it.
    Attempt {
        /// The step's id.
        step: String,
        /// Which attempt of the step.
        attempt: u32,
    },
    /// A version of the plan.
    Version(u32),
}

/// An attempt that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptDifference {
    /// The step's id.
    pub step: String,
    /// Which attempt of the step.
    pub attempt: u32,
    /// How it went.
    pub ends: Pair<Option<AttemptEnd>>,
}

/// How an attempt went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptEnd {
    /// The record that says so; of one in flight, the one that dealt it.
    pub seq: u64,
    /// Who did it.
    pub worker: String,
    /// How it went.
    pub kind: EndKind,
    /// Hash of what it brought, if it reported.
    pub output: Option<ContentHash>,
    /// What its receipt says.
    pub receipt: Option<Receipt>,
}

/// In which way an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum EndKind {
    /// It has not.
    InFlight,
    /// It was lost.
    Lost(LostCause),
    /// The work was done.
    Succeeded,
    /// The work was not done.
    Failed(FailureClass),
    /// The worker asked for another plan.
    ReplanRequested,
}

/// A step that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepDifference {
    /// Its id.
    pub step: String,
    /// How it stands; `None` where there is no such step.
    pub status: Pair<Option<StepStatus>>,
    /// How many attempts it had.
    pub attempts: Pair<u32>,
    /// What its receipts say that it cost.
    pub cost: Pair<Cost>,
}

impl Ledger {
    /// What differs between two runs.
    ///
    /// # Errors
    /// `Rejected` if there is no such run; `Pruned` if one began before what is left of the log;
    /// `Corrupt` and `Io`.
    pub fn compare(&self, one: RunId, other: RunId) -> Result<Comparison> {
        compare(&self.reader()?, [one, other])
    }
}

impl LedgerView {
    /// What differs between two runs.
    ///
    /// # Errors
    /// As [`Ledger::compare`].
    pub fn compare(&self, one: RunId, other: RunId) -> Result<Comparison> {
        compare(self.log(), [one, other])
    }
}

fn compare(reader: &LogReader, runs: Pair<RunId>) -> Result<Comparison> {
    let [one, other] = runs;
    let (one, other) = (History::of(reader, one)?, History::of(reader, other)?);
    let past = [Past::of(&one), Past::of(&other)];
    let attempts = attempts(&past);
    let states = [&one.run, &other.run];
    let plans = states.map(|run| run.plan().map(CompactPlan::whole).unwrap_or_default());
    let [before, after] = &plans;
    Ok(Comparison {
        runs,
        status: states.map(|run| run.status),
        parting: parting(&past, &attempts),
        steps: steps(states, &past),
        attempts,
        variables: variables(states),
        versions: versions(&past),
        plan: diff(before, after),
        spent: states.map(|run| {
            let before = run.forked.as_ref().map(|fork| fork.spent).unwrap_or_default();
            run.account.spent.plus(before)
        }),
    })
}

/// What counts of a run's history.
#[derive(Debug, Default)]
struct Past {
    /// By step and attempt.
    ends: BTreeMap<(String, u32), AttemptEnd>,
    /// Versions that became active: hash and record, by number.
    versions: BTreeMap<u32, (ContentHash, u64)>,
    /// Everything in the order in which it was decided: what `ends` and `versions` name.
    order: BTreeMap<u64, usize>,
}

impl Past {
    fn of(history: &History) -> Self {
        let run = &history.run;
        let mut past = Self::default();
        let mut keys: BTreeMap<AttemptToken, (String, u32)> = BTreeMap::new();
        for record in &history.records {
            match &record.event {
                Some(Event::Step(event)) => past.step(run, record.seq, event, &mut keys),
                // A fork repeats the versions of the run that it was.
                Some(Event::PlanActivated(event))
                    if !past.versions.contains_key(&event.version) =>
                {
                    let place = usize::try_from(event.version).ok().and_then(|n| n.checked_sub(1));
                    let hash = place.and_then(|place| run.versions.get(place)).map(|v| v.hash);
                    past.versions.insert(event.version, (hash.unwrap_or_default(), record.seq));
                }
                _ => {}
            }
        }
        let seqs = past.ends.values().map(|end| end.seq);
        let seqs: BTreeSet<u64> = seqs.chain(past.versions.values().map(|(_, seq)| *seq)).collect();
        past.order = seqs.into_iter().zip(0..).collect();
        past
    }

    fn step(
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
                let (worker, kind) = (dispatched.worker.clone(), EndKind::InFlight);
                let end = AttemptEnd { seq, worker, kind, output: None, receipt: None };
                self.ends.insert(key, end);
            }
            StepEvent::AttemptLost(lost) => {
                if let Some(end) = keys.get(&lost.token).and_then(|key| self.ends.get_mut(key)) {
                    (end.seq, end.kind) = (seq, EndKind::Lost(lost.cause));
                }
            }
            StepEvent::ReceiptRecorded(recorded) => {
                if let Some(end) = keys.get(&recorded.token).and_then(|key| self.ends.get_mut(key))
                {
                    end.seq = seq;
                    end.kind = EndKind::of(&recorded.receipt.outcome);
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

impl EndKind {
    fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Succeeded => Self::Succeeded,
            Outcome::Failed { class, .. } => Self::Failed(*class),
            Outcome::ReplanRequested { .. } => Self::ReplanRequested,
        }
    }
}

fn attempts(past: &Pair<Past>) -> Vec<AttemptDifference> {
    let keys: BTreeSet<&(String, u32)> = past.iter().flat_map(|each| each.ends.keys()).collect();
    let differs = |key: &(String, u32)| {
        let ends = past.each_ref().map(|each| each.ends.get(key));
        let [one, other] = ends.map(|end| end.map(|end| (end.kind, end.output)));
        (one != other).then(|| ends.map(Option::<&AttemptEnd>::cloned))
    };
    let found = keys.into_iter().filter_map(|key| {
        let ends = differs(key)?;
        Some(AttemptDifference { step: key.0.clone(), attempt: key.1, ends })
    });
    found.collect()
}

/// The difference that came first, counted by what each run had decided before it.
fn parting(past: &Pair<Past>, attempts: &[AttemptDifference]) -> Option<Parting> {
    let of_attempts = attempts.iter().map(|each| Parting {
        seqs: each.ends.each_ref().map(|end| end.as_ref().map(|end| end.seq)),
        what: Parted::Attempt { step: each.step.clone(), attempt: each.attempt },
    });
    let numbers: BTreeSet<u32> =
        past.iter().flat_map(|each| each.versions.keys().copied()).collect();
    let of_versions = numbers.into_iter().filter_map(|number| {
        let found = past.each_ref().map(|each| each.versions.get(&number).copied());
        let [one, other] = found.map(|each| each.map(|(hash, _)| hash));
        let seqs = found.map(|each| each.map(|(_, seq)| seq));
        (one != other).then_some(Parting { seqs, what: Parted::Version(number) })
    });
    let [first, second] = past;
    let rank = |parting: &Parting| {
        let [one, other] = parting.seqs;
        let ranks = first.rank(one).into_iter().chain(second.rank(other));
        ranks.min().unwrap_or(usize::MAX)
    };
    of_versions.chain(of_attempts).min_by_key(rank)
}

fn steps(runs: Pair<&Run>, past: &Pair<Past>) -> Vec<StepDifference> {
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
            cost: past.each_ref().map(|each| each.cost(id)),
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

fn versions(past: &Pair<Past>) -> Vec<Pair<Option<ContentHash>>> {
    let numbers: BTreeSet<u32> =
        past.iter().flat_map(|each| each.versions.keys().copied()).collect();
    let hashes =
        |number: u32| past.each_ref().map(|each| each.versions.get(&number).map(|(hash, _)| *hash));
    numbers.into_iter().map(hashes).skip_while(|[one, other]| one == other).collect()
}
