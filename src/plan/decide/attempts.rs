//! Commands about attempts: lease renewals, losses, receipts and verdicts.

use std::collections::BTreeSet;

use crate::plan::event::Event;
use crate::plan::event::receipt::{Outcome, Output, Receipt};
use crate::plan::event::run_event::PauseCause;
use crate::plan::event::step_event::{
    AfterLoss, AttemptLost, LeaseRenewed, LostCause, ReceiptRecorded, ReceiptRefused, Verdict,
    VerdictRecorded,
};
use crate::plan::event::step_status::StepStatus;
use crate::plan::event::table::StepEvent;
use crate::plan::model::budget::Cost;
use crate::plan::model::step::Idempotence;
use crate::plan::rejection::Rejection;
use crate::plan::settle::budget::pause_for_budget;
use crate::plan::state::State;
use crate::plan::state::compact::step::CompactStep;
use crate::plan::state::run::{Run, RunStatus};
use crate::plan::state::step_state::Attempt;
use crate::plan::value::ids::{AttemptToken, Micros, StepNumber, Timestamp};

/// Finds an attempt in flight.
fn find_in_flight(
    state: &State,
    token: AttemptToken,
) -> Result<(&Run, StepNumber, &Attempt), Rejection> {
    let find = || {
        let (run, number) = state.in_flight.get(&token)?;
        let run = state.runs.get(run)?;
        let attempt = run.step(*number)?.attempt()?;
        Some((run, *number, attempt))
    };
    find().ok_or(Rejection::StaleToken(token))
}

pub(super) fn renew(
    state: &State,
    now: Timestamp,
    token: AttemptToken,
    lease: Option<Micros>,
) -> Result<Vec<Event>, Rejection> {
    let (run, number, attempt) = find_in_flight(state, token)?;
    let planned = || run.plan().zip(run.plan_step(number)).map(|(plan, step)| plan.lease_of(step));
    let lease = lease.or_else(planned).unwrap_or(0);
    // A renewal never shortens a lease, even if a new plan version has a shorter one.
    let lease_until = now.saturating_add(lease).max(attempt.lease_until);
    let lease_until = if mutant!(LeaseRenewalIgnored) { attempt.lease_until } else { lease_until };
    let renewed = LeaseRenewed { token, lease_until };
    Ok(vec![Event::step(run.id, number, StepEvent::LeaseRenewed(renewed))])
}

pub(super) fn report_lost(
    state: &State,
    token: AttemptToken,
    cause: LostCause,
    detail: &str,
) -> Result<Vec<Event>, Rejection> {
    let (run, number, _) = find_in_flight(state, token)?;
    Ok(vec![loss_event(run, number, token, cause, detail)])
}

/// The loss of an attempt of a step.
pub(crate) fn loss_event(
    run: &Run,
    number: StepNumber,
    token: AttemptToken,
    cause: LostCause,
    detail: &str,
) -> Event {
    let is_unknown = leaves_unknown_outcome(run, number, cause) || is_last_loss(run, number, cause);
    let then = if is_unknown { AfterLoss::OutcomeUnknown } else { AfterLoss::Redispatch };
    let lost = AttemptLost { token, cause, detail: detail.to_owned(), then };
    Event::step(run.id, number, StepEvent::AttemptLost(lost))
}

/// Minimum number of losses after which a step is no longer dispatched again.
const LOSSES_MIN: u32 = 3;

/// Whether a step that limits its attempts has none left after the loss of one. A person must look
/// at it, because the step itself may kill its workers.
fn is_last_loss(run: &Run, number: StepNumber, cause: LostCause) -> bool {
    if !run.states_retry(number) {
        return false;
    }
    let limit = run.plan().zip(run.plan_step(number)).map(|(plan, step)| plan.retry_of(step));
    let limit = limit.unwrap_or_default().max_attempts.max(LOSSES_MIN);
    let failures = run.step(number).map_or(0, |step| step.failures);
    cause.is_failure() && failures.saturating_add(1) >= limit && !mutant!(LostAttemptUncounted)
}

/// Whether the loss of an attempt leaves an unknown outcome: it may have done work that must not be
/// repeated.
pub(crate) fn leaves_unknown_outcome(run: &Run, number: StepNumber, cause: LostCause) -> bool {
    let idempotence = run
        .plan()
        .zip(run.plan_step(number))
        .map_or(Idempotence::Yes, |(plan, step)| plan.idempotence_of(step));
    let attempt = run.step(number).and_then(|step| step.attempt());
    let has_intent = attempt.is_some_and(|attempt| !attempt.effects.is_empty());
    // The worker returned a released attempt before it started, unless it announced a side effect.
    let must_not_repeat = idempotence == Idempotence::No && !mutant!(NonIdempotentStepRedispatched);
    must_not_repeat && (cause != LostCause::Released || has_intent)
}

/// The events that revoke the attempts in flight of these steps.
pub(crate) fn revoke_attempts(
    run: &Run,
    numbers: impl Iterator<Item = StepNumber>,
    detail: &str,
) -> Vec<Event> {
    let revoke = |number: StepNumber| {
        let step = run.step(number).filter(|step| step.status == StepStatus::Dispatched)?;
        let token = step.attempt()?.token;
        Some(loss_event(run, number, token, LostCause::Revoked, detail))
    };
    numbers.filter_map(revoke).collect()
}

/// Whether an attempt exceeded the cost limit of its step.
fn is_over_limit(run: &Run, number: StepNumber, cost: Cost) -> bool {
    let limit = run.plan_step(number).and_then(CompactStep::cost_limit);
    // A part that is 0 has no limit.
    let is_over = |limit: u64, found: u64| limit > 0 && found > limit;
    limit.is_some_and(|limit| {
        is_over(limit.money_micros, cost.money_micros) || is_over(limit.tokens, cost.tokens)
    })
}

/// Rejects a receipt with a value that nests too deeply.
fn expect_readable(receipt: &Receipt) -> Result<(), Rejection> {
    if let Outcome::Failed { payload, .. } = &receipt.outcome {
        payload.expect_readable()?;
    }
    match &receipt.output {
        Output::Inline(value) => value.expect_readable(),
        Output::Blob(blob) => blob.values.iter().try_for_each(|(_, value)| value.expect_readable()),
    }
}

pub(super) fn record_receipt(
    state: &State,
    token: AttemptToken,
    receipt: &Receipt,
) -> Result<Vec<Event>, Rejection> {
    expect_readable(receipt)?;
    let receipt = receipt.clone();
    mutant!(StaleTokenAccepted => if let Some((run, step, _)) = state.dispatched.get(&token)
        && let Some(other) = state.runs.get(run).and_then(|run| run.step(*step)?.attempt())
        && other.token != token {
        return record_receipt(state, other.token, &receipt);
    });
    if let Ok((run, number, _)) = find_in_flight(state, token) {
        let is_over = is_over_limit(run, number, receipt.cost);
        let recorded = ReceiptRecorded { token, receipt };
        let mut events = vec![Event::step(run.id, number, StepEvent::ReceiptRecorded(recorded))];
        if is_over {
            events.extend(pause_for_budget(run, PauseCause::StepLimit { step: number }));
        }
        return Ok(events);
    }
    let (run, number, _) = state.dispatched.get(&token).ok_or(Rejection::StaleToken(token))?;
    let reason = match state.runs.get(run).and_then(|run| run.step(*number)) {
        Some(step) if step.attempt().is_some_and(|attempt| attempt.token == token) => {
            format!("the attempt is no longer in flight: the step is {}", step.status)
        }
        Some(step) => format!("the attempt has ended: the step is {}", step.status),
        None => return Err(Rejection::StaleToken(token)),
    };
    let refused = ReceiptRefused { token, reason, receipt };
    Ok(vec![Event::step(*run, *number, StepEvent::ReceiptRefused(refused))])
}

pub(super) fn judge(
    state: &State,
    token: AttemptToken,
    verdicts: &[Verdict],
) -> Result<Vec<Event>, Rejection> {
    let is_over = Rejection::StaleToken(token);
    let (run, number, _) = state.dispatched.get(&token).ok_or(is_over.clone())?;
    let run = state.runs.get(run).ok_or(is_over.clone())?;
    if let RunStatus::Ended(ending) = run.status {
        return Err(Rejection::RunHasEnded(ending));
    }
    let step = run.step(*number).filter(|step| step.status == StepStatus::Reported);
    let attempt = step
        .and_then(|step| step.attempt())
        .filter(|attempt| attempt.token == token)
        .ok_or(is_over)?;
    let criteria = run.plan_step(*number).map_or(0, |step| step.acceptance().len());
    let mut judged: BTreeSet<u32> = attempt.verdicts.keys().copied().collect();
    for verdict in verdicts {
        check_criterion(&mut judged, criteria, verdict.criterion)?;
        if verdict.by == attempt.worker && !mutant!(SelfReviewAccepted) {
            return Err(Rejection::JudgedByWorker(verdict.by.clone()));
        }
    }
    let event = |verdict: &Verdict| {
        let recorded = VerdictRecorded { token, verdict: verdict.clone() };
        Event::step(run.id, *number, StepEvent::VerdictRecorded(recorded))
    };
    Ok(verdicts.iter().map(event).collect())
}

/// Rejects a criterion that does not exist or has a verdict, and marks it as judged.
pub(crate) fn check_criterion(
    judged: &mut BTreeSet<u32>,
    criteria: usize,
    index: u32,
) -> Result<(), Rejection> {
    let exists = usize::try_from(index).is_ok_and(|place| place < criteria);
    if exists && judged.insert(index) { Ok(()) } else { Err(Rejection::NoSuchCriterion(index)) }
}
