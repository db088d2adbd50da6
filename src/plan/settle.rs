//! What follows by itself: acceptance, failure, barriers, and the end of a run.
//!
//! Invariants:
//! - A consequence is judged from the state alone: no clock, no command.
//! - One call answers with the events of one consequence. Folding them in makes that one
//!   disappear, so that asking again until nothing follows always ends.
//! - Nothing is searched for: the fold keeps the lists of what is due.
//!
//! Left out on purpose: leases that ran out, which need a clock (`Command::Tick`).

use std::collections::BTreeMap;

use super::{
    Accepted, AcceptedBasis, Attempt, BarrierChanged, Criterion, Decision, Ending, Event,
    FailureClass, FailureDecided, Json, OnFailure, Origin, Outcome, Output, PlanVerdict,
    RetryPolicy, Ruling, Run, RunEnded, RunId, RunStatus, State, Step, StepEvent, StepNumber,
    StepRecord, StepStatus, TextPolicy, VariableSet, Verdict, VerdictRecorded,
};

/// Who judges `text` criteria where the run takes the worker's word.
pub(super) const TRUST: &str = "policy:trust";

/// The events of one thing that follows by itself in a run; none when all is settled.
#[must_use]
pub fn settle(state: &State, run: RunId) -> Vec<Event> {
    let Some(run) = state.runs.get(&run) else { return Vec::new() };
    if run.status != RunStatus::Running {
        return Vec::new();
    }
    if let Some(number) = run.due.first() {
        return step_consequence(run, *number);
    }
    if let Some(id) = run.due_barriers.first() {
        return barrier_consequence(run, id);
    }
    run_consequence(run)
}

/// What a reported step calls for.
enum Call<'a> {
    Trust(Vec<u32>),
    Accept,
    Decide(FailureClass, String, &'a Attempt),
}

/// Whether something follows from how a step stands.
pub(super) fn has_consequence(run: &Run, number: StepNumber) -> bool {
    call(run, number).is_some()
}

/// Class and message of a reported step's failure, if it failed.
pub(super) fn failure_of(run: &Run, number: StepNumber) -> Option<(FailureClass, String)> {
    match call(run, number)? {
        Call::Decide(class, message, _) => Some((class, message)),
        Call::Trust(_) | Call::Accept => None,
    }
}

fn call(run: &Run, number: StepNumber) -> Option<Call<'_>> {
    let step = run.step(number).filter(|step| step.status == StepStatus::Reported)?;
    let attempt = step.attempt.as_ref()?;
    match &attempt.receipt.as_ref()?.outcome {
        Outcome::Succeeded => {}
        Outcome::Failed { class, message, .. } => {
            return Some(Call::Decide(*class, message.clone(), attempt));
        }
        Outcome::ReplanRequested { reason } => {
            let message = format!("the worker asks for another plan: {reason}");
            return Some(Call::Decide(FailureClass::AssumptionBroken, message, attempt));
        }
    }
    let criteria = run.plan_step(number).map_or(&[][..], |step| &step.acceptance);
    if let Some(failed) = attempt.verdicts.values().find(|each| each.ruling == Ruling::Fail) {
        let message = failed_criterion(criteria, failed);
        return Some(Call::Decide(FailureClass::Unknown, message, attempt));
    }
    let missing = unjudged(criteria, &attempt.verdicts);
    if missing.is_empty() {
        return Some(Call::Accept);
    }
    let trusted = trusted(run, criteria, &missing);
    (!trusted.is_empty()).then_some(Call::Trust(trusted))
}

fn failed_criterion(criteria: &[Criterion], verdict: &Verdict) -> String {
    let place = usize::try_from(verdict.criterion).ok();
    let body = place.and_then(|place| criteria.get(place)).map_or("", Criterion::body);
    // People count from 1.
    let number = u64::from(verdict.criterion) + 1;
    format!("criterion {number} (`{body}`) does not hold: {}", verdict.evidence)
}

/// The criteria that no verdict names.
fn unjudged(criteria: &[Criterion], verdicts: &BTreeMap<u32, Verdict>) -> Vec<u32> {
    (0..u32::try_from(criteria.len()).unwrap_or(u32::MAX))
        .filter(|index| !verdicts.contains_key(index))
        .collect()
}

/// Those of the missing criteria for which the run takes the worker's word.
fn trusted(run: &Run, criteria: &[Criterion], missing: &[u32]) -> Vec<u32> {
    if run.policy.text != TextPolicy::Trust {
        return Vec::new();
    }
    let is_text = |index: &u32| {
        let place = usize::try_from(*index).ok();
        matches!(place.and_then(|place| criteria.get(place)), Some(Criterion::Text(_)))
    };
    missing.iter().copied().filter(is_text).collect()
}

fn trust(criterion: u32) -> Verdict {
    Verdict {
        criterion,
        ruling: Ruling::Pass,
        by: TRUST.to_owned(),
        evidence: "the run takes the worker's word for text criteria".to_owned(),
    }
}

fn step_consequence(run: &Run, number: StepNumber) -> Vec<Event> {
    let Some(attempt) = run.step(number).and_then(|step| step.attempt.as_ref()) else {
        return Vec::new();
    };
    let event = |event| Event::Step(StepRecord { run: run.id, step: number, previous: 0, event });
    match call(run, number) {
        None => Vec::new(),
        Some(Call::Trust(criteria)) => criteria
            .into_iter()
            .map(|criterion| VerdictRecorded { token: attempt.token, verdict: trust(criterion) })
            .map(|recorded| event(StepEvent::VerdictRecorded(recorded)))
            .collect(),
        Some(Call::Accept) => {
            let accepted = Accepted { basis: basis(run, number, attempt) };
            let mut events = vec![event(StepEvent::Accepted(accepted))];
            events.extend(variables(run, number, attempt));
            events
        }
        Some(Call::Decide(class, message, attempt)) => {
            let decided = decision(run, number, attempt, class, &message);
            vec![event(StepEvent::FailureDecided(decided))]
        }
    }
}

fn basis(run: &Run, number: StepNumber, attempt: &Attempt) -> AcceptedBasis {
    if run.plan_step(number).is_none_or(|step| step.acceptance.is_empty()) {
        AcceptedBasis::Receipt
    } else if attempt.verdicts.values().any(|verdict| verdict.by == TRUST) {
        AcceptedBasis::WorkersWord
    } else {
        AcceptedBasis::Verdicts
    }
}

/// The variables that an accepted attempt sets: the step's outputs, then what its receipt adds.
fn variables(run: &Run, number: StepNumber, attempt: &Attempt) -> Vec<Event> {
    let Some(receipt) = &attempt.receipt else { return Vec::new() };
    let mut values =
        run.plan_step(number).map(|step| outputs(step, &receipt.output)).unwrap_or_default();
    values.extend(receipt.variables.iter().cloned());
    let origin = Origin::Step { step: number, token: attempt.token };
    let set = |(name, value): (String, Json)| {
        let version = run.variables.get(&name).map_or(0, |variable| variable.version);
        Event::VariableSet(VariableSet {
            run: run.id,
            name,
            value,
            version: version.saturating_add(1),
            origin: origin.clone(),
        })
    };
    values.into_iter().map(set).collect()
}

/// The values of a step's outputs. With an output that is a blob they are those that were taken
/// out of it when the receipt came.
fn outputs(step: &Step, output: &Output) -> BTreeMap<String, Json> {
    match output {
        Output::Inline(value) => declared(step, value),
        Output::Blob(blob) => {
            let named = |(name, _): &&(String, Json)| step.outputs.contains(name);
            blob.values.iter().filter(named).cloned().collect()
        }
    }
}

/// The values of the outputs that a step declares: each its key of the output, or a single one
/// all of it.
pub(crate) fn declared(step: &Step, output: &Json) -> BTreeMap<String, Json> {
    if step.outputs.is_empty() {
        return BTreeMap::new();
    }
    let whole = output.value();
    let value_of = |name: &String| match whole.get(name.as_str()) {
        Some(value) => Some(Json::new(value)),
        None if step.outputs.len() == 1 => Some(output.clone()),
        None => None,
    };
    step.outputs.iter().filter_map(|name| Some((name.clone(), value_of(name)?))).collect()
}

fn decision(
    run: &Run,
    number: StepNumber,
    attempt: &Attempt,
    class: FailureClass,
    message: &str,
) -> FailureDecided {
    let step = run.plan_step(number);
    let policy =
        run.plan().zip(step).map_or_else(RetryPolicy::default, |(plan, step)| plan.retry_of(step));
    let failures = run.step(number).map_or(0, |step| step.failures).saturating_add(1);
    let (decision, rule, limit) = judge_failure(&policy, class, failures);
    let reason = match limit {
        Some(limit) => format!("failure {failures} of at most {limit}: {message}"),
        None => message.to_owned(),
    };
    FailureDecided { token: attempt.token, class, decision, rule: rule.to_owned(), reason }
}

/// What is done about a step's `failures`-th failure, by which rule, and the limit if one counted.
fn judge_failure(
    policy: &RetryPolicy,
    class: FailureClass,
    failures: u32,
) -> (Decision, &'static str, Option<u32>) {
    let (name, hopeless) = match class {
        FailureClass::Transient => ("transient", None),
        FailureClass::Unknown => ("unknown", None),
        FailureClass::Deterministic => ("deterministic", Some("fail.class_deterministic")),
        FailureClass::AssumptionBroken => {
            ("assumption_broken", Some("fail.class_assumption_broken"))
        }
        FailureClass::BudgetExhausted => ("budget_exhausted", Some("fail.class_budget_exhausted")),
    };
    // What the author wrote for a class goes before what is known about the class.
    let limit = match (policy.per_class.get(name), hopeless) {
        (Some(limit), _) => *limit,
        (None, Some(rule)) => return (Decision::Fail, rule, None),
        (None, None) => policy.max_attempts,
    };
    if failures < limit {
        (Decision::Retry, "retry.attempts_left", Some(limit))
    } else {
        (Decision::Fail, "fail.attempts_exhausted", Some(limit))
    }
}

fn barrier_consequence(run: &Run, id: &str) -> Vec<Event> {
    let Some(barrier) = run.barriers.get(id) else { return Vec::new() };
    let Some(change) = barrier.due() else { return Vec::new() };
    vec![Event::Barrier(BarrierChanged {
        run: run.id,
        barrier: id.to_owned(),
        change,
        arrived: u32::try_from(barrier.arrived.len()).unwrap_or(u32::MAX),
        needed: barrier.needed,
    })]
}

fn run_consequence(run: &Run) -> Vec<Event> {
    if run.in_flight > 0 {
        return Vec::new();
    }
    let end = |ending, reason| vec![Event::RunEnded(RunEnded { run: run.id, ending, reason })];
    if let Some(reason) = run.why_stopping() {
        return end(Ending::Failed, reason);
    }
    if run.all_closed() {
        return closed_consequence(run);
    }
    let can_go_on = !(run.ready.is_empty() && run.reported.is_empty() && run.in_doubt.is_empty());
    if can_go_on {
        return Vec::new();
    }
    let failed = run.count(StepStatus::Failed);
    let waiting = run.count(StepStatus::Waiting);
    let reason =
        format!("no step can go on: {failed} failed, {waiting} waiting for what will not come");
    end(Ending::Failed, reason)
}

/// What follows when every step is accepted or skipped.
fn closed_consequence(run: &Run) -> Vec<Event> {
    let Some(plan) = run.plan() else { return Vec::new() };
    let end = |ending, reason| vec![Event::RunEnded(RunEnded { run: run.id, ending, reason })];
    if let Some(failed) = run.plan_verdicts.values().find(|each| each.ruling == Ruling::Fail) {
        return end(Ending::Failed, failed_criterion(&plan.test_criteria, failed));
    }
    let missing = unjudged(&plan.test_criteria, &run.plan_verdicts);
    if missing.is_empty() {
        if plan.continues {
            // It is the planner who says that there is no more to do.
            return Vec::new();
        }
        let accepted = run.count(StepStatus::Accepted);
        let skipped = run.count(StepStatus::Skipped);
        return end(Ending::Done, format!("{accepted} steps accepted, {skipped} skipped"));
    }
    trusted(run, &plan.test_criteria, &missing)
        .into_iter()
        .map(|criterion| {
            let verdict = trust(criterion);
            Event::PlanVerdict(PlanVerdict { run: run.id, version: run.active, verdict })
        })
        .collect()
}

impl Run {
    /// Whether every step of the active version is accepted or skipped.
    #[must_use]
    pub fn all_closed(&self) -> bool {
        let closed =
            self.count(StepStatus::Accepted).saturating_add(self.count(StepStatus::Skipped));
        self.active_version().is_some_and(|version| version.step_count == closed)
    }

    /// Why nothing more is dealt although the run goes on until nothing is in flight.
    #[must_use]
    pub fn why_stopping(&self) -> Option<String> {
        if let Some(id) = self.fatal_barriers.first() {
            return Some(format!("barrier {id} is broken: too few members can still arrive"));
        }
        let failed = self.count(StepStatus::Failed);
        (self.policy.on_failure == OnFailure::FailFast && failed > 0)
            .then(|| format!("{failed} failed, and the run stops at the first failure"))
    }
}
