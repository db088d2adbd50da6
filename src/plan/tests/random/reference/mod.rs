//! The reference model: small, slow and simple. It reads the same events as `apply`, keeps its own
//! records, and shares no code with `decide`, `apply` and `settle` beyond the public types. After
//! every command both must agree, and these invariants must hold:
//!
//! 1. A step has at most one active attempt.
//! 2. Caps (ledger, run, owner, tag) are never exceeded.
//! 3. Spent and reserved costs never exceed a budget when a step is dispatched.
//! 4. A step is ready, and can be dispatched, if and only if all its dependencies are met, its
//!    condition and preconditions hold by the current values, its gate was opened for its current
//!    content, and no delay, question or fallback blocks it.
//! 5. A non-idempotent attempt with an unknown outcome is not repeated before a person has resolved
//!    it, regardless of changes of the plan.
//! 6. An accepted step has a passed verdict for every criterion, or another recorded reason. No
//!    verdict is by the worker itself, and expressions are judged by their value.
//! 7. A stale token never changes a step, and the reserved cost of a lost attempt stays charged
//!    until its real cost is known.
//! 8. Every failure has exactly one decision, with a rule; an escalated failure has one more. A worker's
//!    request for another plan has it once no other request is open.
//! 9. At most one replan request is open; any other request replaces a request for more steps. While it
//!    is open, the run neither is done nor fails, and what it holds is not dispatched.
//! 10. No step that depends on invalidated work stays accepted or in flight.
//! 11. An ended run has no active attempt, timer or question; a done run is complete.
//! 12. Every open question is about a subject that has not changed since it was asked.

mod plans;
mod runs;
mod steps;

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::*;

/// The status of a step in the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepPhase {
    Open,
    Dispatched,
    Reported,
    /// A person was asked about its failure.
    Asked,
    OutcomeUnknown,
    Accepted,
    Skipped,
    Failed,
    Gone,
    Cancelled,
}

#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Debug, Clone)]
struct StepModel {
    id: String,
    phase: StepPhase,
    owner: Option<String>,
    token: Option<AttemptToken>,
    worker: String,
    reserved: Cost,
    receipt: Option<Receipt>,
    verdicts: BTreeMap<u32, Verdict>,
    /// It was accepted, must not be done twice, and was invalidated.
    is_repetition: bool,
    /// The hash for which its gate was opened.
    yes: Option<ContentHash>,
    run_if: Option<bool>,
    delay: Option<Timestamp>,
    waiting_for_fallback: Option<StepNumber>,
    is_uncalled_fallback: bool,
    has_used_fallback: bool,
    /// An answer about its failure or gate that has not been applied yet.
    answer: Option<String>,
    has_landed: bool,
    stands_for_value: bool,
    /// Its last failed attempt has landed, or may have.
    may_have_landed: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct Value {
    json: Json,
    version: u64,
    writer: Option<StepNumber>,
}

#[derive(Debug)]
struct RunModel {
    name: String,
    policy: RunPolicy,
    started: Timestamp,
    status: RunStatus,
    is_paused: bool,
    is_complete: bool,
    versions: Vec<(ContentHash, Plan, Vec<ContentHash>, Option<Review>)>,
    active: u32,
    numbers: Vec<StepNumber>,
    works: Vec<StepModel>,
    /// Its record, its trigger, and the step that it names.
    request: Option<(u64, ReplanTrigger, Option<StepNumber>)>,
    /// Versions that count against the replan limit.
    replans: u32,
    questions: BTreeMap<QuestionId, (Option<StepNumber>, QuestionBody)>,
    released: BTreeSet<String>,
    /// Barriers that were not released in time.
    late: BTreeSet<String>,
    /// The answers of people about barriers.
    barrier_answers: BTreeMap<String, String>,
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

/// The whole ledger.
#[derive(Default)]
pub(super) struct Reference {
    runs: BTreeMap<RunId, RunModel>,
    caps: BTreeMap<CapScope, u32>,
    limits: Option<Limits>,
    /// How often each event was reached.
    pub(super) seen: BTreeMap<&'static str, u32>,
}

fn sum(costs: impl Iterator<Item = Cost>) -> Cost {
    costs.fold(Cost::default(), |sum, cost| Cost {
        money_micros: sum.money_micros + cost.money_micros,
        tokens: sum.tokens + cost.tokens,
    })
}

impl Reference {
    /// Reads the events of a batch that starts at record `first`, and compares the result with
    /// `state`.
    pub(super) fn check_batch(&mut self, state: &State, first: u64, events: &[Event]) {
        let mut activated = BTreeSet::new();
        for (seq, event) in (first..).zip(events) {
            if let Event::PlanActivated(change) = event {
                activated.insert(change.run);
            }
            self.read(seq, state.time, event);
        }
        for (id, run_model) in &mut self.runs {
            let Some(run) = state.runs.get(id) else {
                assert_eq!(state.summaries[id].spent, run_model.spent);
                assert!(matches!(run_model.status, RunStatus::Ended(_)));
                continue;
            };
            if activated.contains(id) {
                // Questions whose subject a new version removed are closed without an answer.
                run_model.questions.retain(|question, _| run.questions.contains_key(question));
            }
            run_model.is_forked = false;
            run_model.compare(run);
        }
        assert_eq!(state.account.spent, sum(self.runs.values().map(|run_model| run_model.spent)));
        assert_eq!(
            state.account.reserved,
            sum(self.runs.values().map(|run_model| run_model.reserved))
        );
        assert_eq!(state.caps, self.caps);
    }

    fn count(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn read(&mut self, seq: u64, time: Timestamp, event: &Event) {
        match event {
            Event::RunStarted(started) => {
                let run_model = RunModel::new(started, time);
                assert!(self.runs.insert(started.run, run_model).is_none(), "one run per number");
            }
            Event::CapChanged(changed) => {
                match changed.limit {
                    Some(limit) => self.caps.insert(changed.scope.clone(), limit),
                    None => self.caps.remove(&changed.scope),
                };
            }
            Event::BudgetChanged(changed) => match changed.run {
                Some(run) => self.run_model(run).limits = changed.limits,
                None => self.limits = changed.limits,
            },
            Event::Step(record) => {
                self.count_step(&record.event);
                let number = record.step;
                if let StepEvent::Dispatched(dispatched) = &record.event {
                    self.run_model(record.run).dispatched(seq, time, number, dispatched);
                    self.check_caps(record.run, number);
                    self.check_budgets(record.run, time);
                } else {
                    self.run_model(record.run).step(seq, time, number, &record.event);
                }
            }
            other => {
                self.count_other(other);
                let run = other.run().unwrap();
                self.run_model(run).read(seq, time, other);
            }
        }
    }

    fn run_model(&mut self, run: RunId) -> &mut RunModel {
        self.runs.get_mut(&run).expect("a run that was started")
    }

    fn count_step(&mut self, event: &StepEvent) {
        self.count(match event {
            StepEvent::Dispatched(_) => "dispatched",
            StepEvent::AttemptLost(_) => "lost",
            StepEvent::ReceiptRefused(_) => "refused",
            StepEvent::Accepted(accepted) => match accepted.basis {
                AcceptedBasis::FallbackStep { .. } => "fallback accepted",
                AcceptedBasis::Fallback { .. } => "value",
                _ => "accepted",
            },
            StepEvent::FailureDecided(decided) => match decided.decision {
                Decision::Retry => "retry",
                Decision::RetryAt { .. } => "retry later",
                Decision::Fail => "fail",
                Decision::Fallback => "fallback",
                Decision::Replan => "replan",
                Decision::Escalate => "escalate",
                Decision::Abort => "abort",
                Decision::OutcomeUnknown => "outcome_unknown",
            },
            StepEvent::Skipped(_) => "skipped",
            StepEvent::OutcomeResolved(_) => "resolved",
            StepEvent::ConditionJudged(_) => "judged",
            StepEvent::DelayElapsed(_) => "elapsed",
            StepEvent::StepAsked(_) => "asked",
            StepEvent::StepAnswered(_) => "answered",
            StepEvent::StepQuestionExpired(_) => "expired",
            StepEvent::EffectCommitted(_) => "effect",
            StepEvent::CostCorrected(_) => "corrected",
            StepEvent::StepFailed(_) => "failed without attempt",
            _ => "other step event",
        });
    }

    fn count_other(&mut self, event: &Event) {
        self.count(match event {
            Event::BarrierChanged(barrier) => match barrier.change {
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
        let run_model = &self.runs[&run];
        let caps = &run_model.plan().caps;
        let work = run_model.work(number);
        let dispatched =
            |run_model: &RunModel, is_meant: &dyn Fn(&RunModel, StepNumber) -> bool| {
                let numbers = run_model.numbers.iter();
                let flying =
                    numbers.filter(|each| run_model.work(**each).phase == StepPhase::Dispatched);
                flying.filter(|each| is_meant(run_model, **each)).count()
            };
        let all = |is_meant: &dyn Fn(&RunModel, StepNumber) -> bool| -> usize {
            self.runs.values().map(|run_model| dispatched(run_model, is_meant)).sum()
        };
        let below = |limit: Option<&u32>, count: usize, what: &str| {
            assert!(limit.is_none_or(|limit| u32::try_from(count).unwrap() <= *limit), "{what}");
        };
        let of_ledger = |scope: CapScope| self.caps.get(&scope);
        below(of_ledger(CapScope::Ledger), all(&|_, _| true), "cap of the ledger");
        below(
            of_ledger(CapScope::Run { run }),
            dispatched(run_model, &|_, _| true),
            "cap of the run",
        );
        below(caps.run.as_ref(), dispatched(run_model, &|_, _| true), "the plan's cap of the run");
        if let Some(owner) = work.owner.clone() {
            let has_owner =
                |run_model: &RunModel, each| run_model.work(each).owner.as_ref() == Some(&owner);
            below(
                of_ledger(CapScope::Owner { owner: owner.clone() }),
                all(&has_owner),
                "cap of an owner",
            );
            below(
                caps.owners.get(&owner),
                dispatched(run_model, &has_owner),
                "the plan's cap of an owner",
            );
        }
        for tag in &run_model.text(number).tags {
            let has_it = |run_model: &RunModel, each| run_model.text(each).tags.contains(tag);
            below(of_ledger(CapScope::Tag { tag: tag.clone() }), all(&has_it), "cap of a tag");
            below(caps.tags.get(tag), dispatched(run_model, &has_it), "the plan's cap of a tag");
        }
    }

    /// Invariant 3, by summing.
    fn check_budgets(&self, run: RunId, time: Timestamp) {
        let run_model = &self.runs[&run];
        let limits = run_model.limits.unwrap_or_else(|| run_model.plan().budget.into());
        let within = |limits: &Limits, cost: Cost, attempts: u64| {
            assert!(limits.money_micros.is_none_or(|limit| cost.money_micros <= limit), "money");
            assert!(limits.tokens.is_none_or(|limit| cost.tokens <= limit), "tokens");
            assert!(limits.attempts.is_none_or(|limit| attempts <= limit), "attempts");
        };
        within(&limits, sum([run_model.spent, run_model.reserved].into_iter()), run_model.attempts);
        let end = limits.wall_seconds.map(|seconds| run_model.started + seconds * 1_000_000);
        assert!(end.is_none_or(|end| time < end), "wall time");
        let all = self.runs.values().flat_map(|run_model| [run_model.spent, run_model.reserved]);
        let attempts = self.runs.values().map(|run_model| run_model.attempts).sum();
        within(&self.limits.unwrap_or_default(), sum(all), attempts);
    }
}

/// Whether a decision repeats the work, or does other work for the same purpose.
fn repeats_work(decided: &FailureDecided, fallback: Option<&Fallback>) -> bool {
    match decided.decision {
        Decision::Retry | Decision::RetryAt { .. } => true,
        Decision::Fallback => matches!(fallback, Some(Fallback::Owner(_) | Fallback::Step(_))),
        _ => false,
    }
}

/// Whether a random expression (`name op number`) holds.
fn holds(expression: &str, values: &BTreeMap<String, Value>, output: Option<&Json>) -> bool {
    let words: Vec<&str> = expression.split(' ').collect();
    let [name, op, number] = words[..] else { unreachable!("no expression of the rng") };
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
