//! A reference model: small, slow and plain. It reads the same events as the fold does, keeps its
//! own books in its own words, and shares no code with `decide`, `apply` and `settle` beyond the
//! public types. After every command both must agree, and these must hold:
//!
//! 1. One winner per claim: a step is dealt only if nobody has it.
//! 2. Caps (ledger, run, owner, tag) are never exceeded.
//! 3. What is spent and set aside never exceeds a budget when a step is dealt.
//! 4. A step is dealt only if all that it waits for is settled, its condition and preconditions
//!    hold by the values of that moment, its gate was opened by a yes bound to what the step is
//!    now, and no delay, question or stand-in holds it back; and then it is ready, too.
//! 5. What must not be done twice and is in doubt is not dealt before somebody said what happened,
//!    whatever becomes of the plan meanwhile.
//! 6. Accepted needs a passed verdict for every criterion, or a basis that is written down; no
//!    verdict is the worker's own; an expression is judged as it reads.
//! 7. A stale token never changes a step, and what a lost attempt cost is charged until known.
//! 8. Every failure has exactly one decision, with a rule; one that was escalated has one more.
//! 9. At most one request for another plan is open; one for more steps gives way to any other.
//! 10. Nothing that stands on work that fell stays accepted, nothing of it stays in flight.
//! 11. An ended run has no live attempt, timer or question; a done one has all it was to have.
//! 12. Every open question is about something that still is as it was when it was asked.

mod plans;
mod runs;
mod steps;

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::*;

/// How a step stands, in the model's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    Dealt,
    Reported,
    /// Somebody was asked about its failure.
    Asked,
    Doubt,
    Accepted,
    Skipped,
    Failed,
    Gone,
    Cancelled,
}

/// One step.
#[expect(clippy::struct_excessive_bools, reason = "facts that have nothing to do with each other")]
#[derive(Debug, Clone)]
pub(crate) struct Work {
    id: String,
    phase: Phase,
    owner: Option<String>,
    token: Option<AttemptToken>,
    worker: String,
    reserved: Cost,
    receipt: Option<Receipt>,
    verdicts: BTreeMap<u32, Verdict>,
    /// The hash to which somebody said yes.
    yes: Option<ContentHash>,
    run_if: Option<bool>,
    delay: Option<Micros>,
    stand_in: Option<StepNumber>,
    is_on_call: bool,
    has_fallen_back: bool,
    /// An answer about its failure, or its gate, that is not carried out.
    answer: Option<String>,
    has_landed: bool,
    stands_for_value: bool,
    /// Its last failed attempt did, or may have done, its work.
    may_have_landed: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Value {
    json: Json,
    version: u64,
    writer: Option<StepNumber>,
}

/// One run.
#[derive(Debug)]
pub(crate) struct Life {
    name: String,
    policy: RunPolicy,
    started: Micros,
    status: RunStatus,
    is_paused: bool,
    is_complete: bool,
    versions: Vec<(ContentHash, Plan, Vec<ContentHash>, Option<Review>)>,
    active: u32,
    numbers: Vec<StepNumber>,
    works: Vec<Work>,
    request: Option<(u64, ReplanTrigger)>,
    /// Versions that count towards the plan's limit.
    replans: u32,
    questions: BTreeMap<QuestionId, (Option<StepNumber>, Asked)>,
    released: BTreeSet<String>,
    /// Barriers that were not released in time.
    late: BTreeSet<String>,
    /// What somebody said about barriers.
    said: BTreeMap<String, String>,
    values: BTreeMap<String, Value>,
    plan_verdicts: BTreeMap<u32, Ruling>,
    effects: BTreeMap<String, (AttemptToken, bool)>,
    limits: Option<Limits>,
    spent: Cost,
    reserved: Cost,
    attempts: u64,
    estimates: BTreeMap<AttemptToken, Cost>,
    decisions: BTreeMap<AttemptToken, Vec<Decision>>,
    keys: BTreeSet<String>,
    is_forked: bool,
}

/// The whole ledger, as the model sees it.
#[derive(Default)]
pub(crate) struct Reference {
    runs: BTreeMap<RunId, Life>,
    caps: BTreeMap<CapScope, u32>,
    limits: Option<Limits>,
    /// What the dice reached, and how often.
    pub(super) seen: BTreeMap<&'static str, u32>,
}

pub(crate) fn sum(costs: impl Iterator<Item = Cost>) -> Cost {
    costs.fold(Cost::default(), |sum, cost| Cost {
        money_micros: sum.money_micros + cost.money_micros,
        tokens: sum.tokens + cost.tokens,
    })
}

impl Reference {
    /// Reads the events of a batch of which the first is record `first`, and compares the books.
    pub(super) fn after(&mut self, state: &State, first: u64, events: &[Event]) {
        let mut activated = BTreeSet::new();
        for (seq, event) in (first..).zip(events) {
            if let Event::PlanActivated(change) = event {
                activated.insert(change.run);
            }
            self.read(seq, state.time, event);
        }
        for (id, life) in &mut self.runs {
            let Some(run) = state.runs.get(id) else {
                assert_eq!(state.summaries[id].spent, life.spent);
                assert!(matches!(life.status, RunStatus::Ended(_)));
                continue;
            };
            if activated.contains(id) {
                // What a new version leaves without an object is closed without an answer.
                life.questions.retain(|question, _| run.questions.contains_key(question));
            }
            life.is_forked = false;
            life.compare(run);
        }
        assert_eq!(state.account.spent, sum(self.runs.values().map(|life| life.spent)));
        assert_eq!(state.account.reserved, sum(self.runs.values().map(|life| life.reserved)));
        assert_eq!(state.caps, self.caps);
    }

    fn note(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn read(&mut self, seq: u64, time: Micros, event: &Event) {
        match event {
            Event::RunStarted(started) => {
                let life = Life::new(started, time);
                assert!(self.runs.insert(started.run, life).is_none(), "one run per number");
            }
            Event::CapChanged(changed) => {
                match changed.limit {
                    Some(limit) => self.caps.insert(changed.scope.clone(), limit),
                    None => self.caps.remove(&changed.scope),
                };
            }
            Event::BudgetChanged(changed) => match changed.run {
                Some(run) => self.life(run).limits = changed.limits,
                None => self.limits = changed.limits,
            },
            Event::Step(record) => {
                self.note_step(&record.event);
                let number = record.step;
                if let StepEvent::Dispatched(dispatched) = &record.event {
                    self.life(record.run).dealt(seq, time, number, dispatched);
                    self.check_caps(record.run, number);
                    self.check_budgets(record.run, time);
                } else {
                    self.life(record.run).step(seq, time, number, &record.event);
                }
            }
            other => {
                self.note_other(other);
                let run = other.run().unwrap();
                self.life(run).read(seq, time, other);
            }
        }
    }

    fn life(&mut self, run: RunId) -> &mut Life {
        self.runs.get_mut(&run).expect("a run that was started")
    }

    fn note_step(&mut self, event: &StepEvent) {
        self.note(match event {
            StepEvent::Dispatched(_) => "dispatched",
            StepEvent::AttemptLost(_) => "lost",
            StepEvent::ReceiptRefused(_) => "refused",
            StepEvent::Accepted(accepted) => match accepted.basis {
                AcceptedBasis::StoodIn { .. } => "stood in",
                AcceptedBasis::Fallback { .. } => "value",
                _ => "accepted",
            },
            StepEvent::FailureDecided(decided) => match decided.decision {
                Decision::Retry => "retry",
                Decision::RetryAt(_) => "retry later",
                Decision::Fail => "fail",
                Decision::Fallback => "fallback",
                Decision::Replan => "replan",
                Decision::Escalate => "escalate",
                Decision::Abort => "abort",
                Decision::Doubt => "doubt",
            },
            StepEvent::Skipped(_) => "skipped",
            StepEvent::DoubtResolved(_) => "resolved",
            StepEvent::ConditionJudged(_) => "judged",
            StepEvent::DelayElapsed(_) => "elapsed",
            StepEvent::Asked(_) => "asked",
            StepEvent::Answered(_) => "answered",
            StepEvent::Expired(_) => "expired",
            StepEvent::EffectCommitted(_) => "effect",
            StepEvent::CostCorrected(_) => "corrected",
            StepEvent::Failed(_) => "failed without attempt",
            _ => "other step event",
        });
    }

    fn note_other(&mut self, event: &Event) {
        self.note(match event {
            Event::Barrier(barrier) => match barrier.change {
                BarrierChange::Released => "released",
                BarrierChange::Broken => "broken",
                BarrierChange::Late => "late",
                BarrierChange::Overruled => "overruled",
            },
            Event::PlanActivated(change) if change.version > 1 => "replanned",
            Event::RunEnded(end) => match end.ending {
                Ending::Done => "done",
                Ending::Failed => "run failed",
                Ending::Cancelled => "cancelled",
                Ending::Aborted => "aborted",
            },
            Event::RunReopened(_) => "reopened",
            Event::RunPaused(_) => "paused",
            Event::RunResumed(_) => "resumed",
            Event::QuestionAsked(_) => "run asked",
            Event::QuestionAnswered(_) => "run answered",
            Event::QuestionExpired(_) => "run expired",
            Event::ReplanRequested(_) => "requested",
            Event::ReplanWithdrawn(_) => "withdrawn",
            Event::RunForked(_) => "forked",
            _ => "other event",
        });
    }

    /// Invariant 2, by counting.
    fn check_caps(&self, run: RunId, number: StepNumber) {
        let life = &self.runs[&run];
        let caps = &life.plan().caps;
        let work = life.work(number);
        let dealt = |life: &Life, is_meant: &dyn Fn(&Life, StepNumber) -> bool| {
            let numbers = life.numbers.iter();
            let flying = numbers.filter(|each| life.work(**each).phase == Phase::Dealt);
            flying.filter(|each| is_meant(life, **each)).count()
        };
        let all = |is_meant: &dyn Fn(&Life, StepNumber) -> bool| -> usize {
            self.runs.values().map(|life| dealt(life, is_meant)).sum()
        };
        let below = |limit: Option<&u32>, count: usize, what: &str| {
            assert!(limit.is_none_or(|limit| u32::try_from(count).unwrap() <= *limit), "{what}");
        };
        let of_ledger = |scope: CapScope| self.caps.get(&scope);
        below(of_ledger(CapScope::Ledger), all(&|_, _| true), "cap of the ledger");
        below(of_ledger(CapScope::Run(run)), dealt(life, &|_, _| true), "cap of the run");
        below(caps.run.as_ref(), dealt(life, &|_, _| true), "the plan's cap of the run");
        if let Some(owner) = work.owner.clone() {
            let is_his = |life: &Life, each| life.work(each).owner.as_ref() == Some(&owner);
            below(of_ledger(CapScope::Owner(owner.clone())), all(&is_his), "cap of an owner");
            below(caps.owners.get(&owner), dealt(life, &is_his), "the plan's cap of an owner");
        }
        for tag in &life.text(number).tags {
            let has_it = |life: &Life, each| life.text(each).tags.contains(tag);
            below(of_ledger(CapScope::Tag(tag.clone())), all(&has_it), "cap of a tag");
            below(caps.tags.get(tag), dealt(life, &has_it), "the plan's cap of a tag");
        }
    }

    /// Invariant 3, by adding up.
    fn check_budgets(&self, run: RunId, time: Micros) {
        let life = &self.runs[&run];
        let limits = life.limits.unwrap_or_else(|| life.plan().budget.into());
        let within = |limits: &Limits, cost: Cost, attempts: u64| {
            assert!(limits.money_micros.is_none_or(|limit| cost.money_micros <= limit), "money");
            assert!(limits.tokens.is_none_or(|limit| cost.tokens <= limit), "tokens");
            assert!(limits.attempts.is_none_or(|limit| attempts <= limit), "attempts");
        };
        within(&limits, sum([life.spent, life.reserved].into_iter()), life.attempts);
        let end = limits.wall_seconds.map(|seconds| life.started + seconds * 1_000_000);
        assert!(end.is_none_or(|end| time < end), "wall time");
        let all = self.runs.values().flat_map(|life| [life.spent, life.reserved]);
        let attempts = self.runs.values().map(|life| life.attempts).sum();
        within(&self.limits.unwrap_or_default(), sum(all), attempts);
    }
}

/// Whether what a decision leads to does the work once more, or other work for the same end.
pub(crate) fn is_done_again(decided: &FailureDecided, fallback: Option<&Fallback>) -> bool {
    match decided.decision {
        Decision::Retry | Decision::RetryAt(_) => true,
        Decision::Fallback => matches!(fallback, Some(Fallback::Owner(_) | Fallback::Step(_))),
        _ => false,
    }
}

/// Whether an expression of the kind that the dice make (`name op number`) holds.
pub(crate) fn holds(
    expression: &str,
    values: &BTreeMap<String, Value>,
    output: Option<&Json>,
) -> bool {
    let words: Vec<&str> = expression.split(' ').collect();
    let [name, op, number] = words[..] else { unreachable!("no expression of the dice") };
    let found = match name.strip_prefix("output.") {
        Some(field) => output.and_then(|output| output.value().get(field)?.as_i64()),
        None => values.get(name).and_then(|value| value.json.value().as_i64()),
    };
    let number: i64 = number.parse().unwrap();
    found.is_some_and(|found| match op {
        "<" => found < number,
        ">=" => found >= number,
        _ => found == number,
    })
}
