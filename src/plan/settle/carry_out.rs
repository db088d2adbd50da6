//! Decisions about failed attempts, carried out: fallbacks, questions and their answers, requests.
//!
//! Invariant: every decision is one event, and what carries it out follows in the same batch.

use std::collections::BTreeMap;

use super::failure::{Failure, disposition_of, may_have_landed};
use super::{CompactStep, declared, set_all, step_event};
use crate::plan::{
    ABORT, Accepted, AcceptedBasis, AfterFailure, Asked, AttemptToken, Decision, Event, FAIL,
    FailureClass, FailureDecided, Fallback, Json, Micros, Origin, REPLAN, RETRY, ReplanRequested,
    ReplanTrigger, Run, SECOND, SKIP, Skipped, StepEvent, StepNumber, StepStatus, Subject,
};

/// Whether a step has a fallback that was not used yet and can stand in now.
pub(in crate::plan) fn may_fall_back(run: &Run, number: StepNumber, time: Micros) -> bool {
    let Some(step) = run.step(number).filter(|step| !step.has_fallen_back) else { return false };
    match run.plan_step(number).and_then(CompactStep::fallback) {
        None => false,
        Some(Fallback::Step(_)) => run.links.fallback_of(number).is_some_and(|other| {
            let status = run.step(other).map_or(StepStatus::Removed, |step| step.status);
            // One that was skipped did nothing that could stand in.
            other != number && (status.is_left() || status == StepStatus::Accepted)
        }),
        Some(Fallback::Owner(owner)) => step.owner() != Some(&owner),
        Some(fallback @ (Fallback::Value { .. } | Fallback::Variable { .. })) => {
            stand_in_value(run, &fallback, time).is_some()
        }
    }
}

/// The value that stands in, and where it is from, if it is not too old.
fn stand_in_value(run: &Run, fallback: &Fallback, time: Micros) -> Option<(Json, String)> {
    let fresh = |since: Micros, most: Option<u64>| {
        let age = time.saturating_sub(since) / SECOND;
        most.is_none_or(|most| age <= most).then_some(age)
    };
    match fallback {
        Fallback::Value { value, max_age_seconds } => {
            let age = fresh(run.activated, *max_age_seconds)?;
            Some((Json::new(value), format!("the plan's value, {age} s old")))
        }
        Fallback::Variable { name, max_age_seconds } => {
            let variable = run.variables.get(name)?;
            let age = fresh(variable.time, *max_age_seconds)?;
            Some((variable.value.clone(), format!("variable {name}, {age} s old")))
        }
        Fallback::Step(_) | Fallback::Owner(_) => None,
    }
}

/// A decision about a failed attempt, with the events that carry it out.
pub(in crate::plan) fn carried_out(
    run: &Run,
    number: StepNumber,
    mut decided: FailureDecided,
    from: Option<StepNumber>,
    time: Micros,
) -> Vec<Event> {
    let token = decided.token;
    let (class, reason) = (decided.class, decided.reason.clone());
    let decision = decided.decision;
    let is_final = matches!(decision, Decision::Fail | Decision::Replan | Decision::Abort);
    if is_final && may_have_landed(run, number) {
        decided.then = AfterFailure::Held;
    }
    let mut events = vec![step_event(run, number, StepEvent::FailureDecided(decided))];
    match decision {
        Decision::Replan if run.has_room_for_request() => {
            let trigger = match class {
                FailureClass::AssumptionBroken if asks_for_replan(run, number) => {
                    ReplanTrigger::ExecutorRequest { token }
                }
                FailureClass::AssumptionBroken => ReplanTrigger::AssumptionBroken { token },
                FailureClass::Transient | FailureClass::Unknown => {
                    ReplanTrigger::RetriesExhausted { token }
                }
                // The budget of the run may have much left: what failed is a step.
                FailureClass::Deterministic | FailureClass::BudgetExhausted => {
                    ReplanTrigger::Failure { token }
                }
            };
            let from = from.or(Some(number));
            events.push(Event::ReplanRequested(ReplanRequested {
                run: run.id,
                trigger,
                from,
                reason,
            }));
        }
        Decision::Escalate => events.push(asked(run, number, token, reason)),
        Decision::Fallback => events.extend(value_events(run, number, time)),
        _ => {}
    }
    events
}

impl Run {
    /// Whether another plan may be asked for. One that is asked for because few steps are left waits
    /// for any that is needed: the planner is asked for more again behind it.
    pub(in crate::plan) fn has_room_for_request(&self) -> bool {
        let open = self.request.as_ref();
        open.is_none_or(|request| request.trigger == ReplanTrigger::Extension)
    }
}

fn asked(run: &Run, number: StepNumber, token: AttemptToken, text: String) -> Event {
    let asked = Asked {
        subject: Subject::Failure(token),
        text,
        shown: run.step_hash(number).unwrap_or_default(),
        options: [RETRY, SKIP, FAIL, REPLAN, ABORT].map(str::to_owned).to_vec(),
        to: None,
        deadline: None,
        on_timeout: None,
    };
    step_event(run, number, StepEvent::Asked(asked))
}

fn asks_for_replan(run: &Run, number: StepNumber) -> bool {
    let attempt = run.step(number).and_then(|step| step.attempt());
    let receipt = attempt.and_then(|attempt| attempt.receipt.as_ref());
    receipt.is_some_and(|receipt| {
        matches!(receipt.outcome, crate::plan::Outcome::ReplanRequested { .. })
    })
}

/// The acceptance of a step for which a value stands in, and the variables that it sets.
fn value_events(run: &Run, number: StepNumber, time: Micros) -> Vec<Event> {
    let step = run.plan_step(number);
    let fallback = step.and_then(CompactStep::fallback);
    let Some((value, reason)) = fallback.and_then(|each| stand_in_value(run, &each, time)) else {
        return Vec::new();
    };
    let basis = AcceptedBasis::Fallback { reason };
    let mut events = vec![step_event(run, number, StepEvent::Accepted(Accepted { basis }))];
    let values = step.map_or_else(BTreeMap::new, |step| declared(step.outputs(), &value));
    events.extend(set_all(run, values, &Origin::Fallback { step: number }));
    events
}

/// Whether a failure that somebody was asked about has an answer that is not carried out yet.
pub(super) fn is_answered(run: &Run, number: StepNumber) -> bool {
    run.step(number).is_some_and(|step| {
        step.status == StepStatus::Gated && step.attempt().is_some() && step.hold().answer.is_some()
    })
}

/// Whether somebody must be asked again about a failure: the run's end closed the question, and
/// then the run went on.
pub(super) fn is_unasked(run: &Run, number: StepNumber) -> bool {
    run.step(number).is_some_and(|step| {
        step.status == StepStatus::Gated
            && step.attempt().is_some()
            && step.hold().question.is_none()
            && step.hold().answer.is_none()
    })
}

/// Whoever is asked again has as much time as at first.
pub(super) fn asked_again(run: &Run, number: StepNumber, time: Micros) -> Vec<Event> {
    let step = run.step(number);
    let Some((step, attempt)) = step.and_then(|step| Some((step, step.attempt()?))) else {
        return Vec::new();
    };
    let (class, message) = step.last_failure().cloned().unwrap_or_default();
    let mut events = vec![asked(run, number, attempt.token, message.clone())];
    if let Some(ask) = Failure::of(run, number, attempt, class, message).ask() {
        ask.complete(&mut events, time);
    }
    events
}

/// What follows from the answer to a question about a failure.
pub(super) fn of_answer(run: &Run, number: StepNumber, time: Micros) -> Vec<Event> {
    let Some(step) = run.step(number).filter(|_| is_answered(run, number)) else {
        return Vec::new();
    };
    let (Some(attempt), Some((answer, by))) = (step.attempt(), &step.hold().answer) else {
        return Vec::new();
    };
    if answer == SKIP {
        let reason = "the answer to its failure".to_owned();
        let skipped = Skipped { by: by.clone(), reason };
        return vec![step_event(run, number, StepEvent::Skipped(skipped))];
    }
    let decision = match answer.as_str() {
        RETRY => Decision::Retry,
        REPLAN => Decision::Replan,
        ABORT => Decision::Abort,
        _ => Decision::Fail,
    };
    let (class, message) = step.last_failure().cloned().unwrap_or_default();
    let decided = FailureDecided {
        token: attempt.token,
        class,
        decision,
        rule: format!("answer:{by}"),
        reason: message,
        disposition: disposition_of(run, number, attempt),
        then: AfterFailure::Over,
    };
    carried_out(run, number, decided, None, time)
}
