//! Dealing a step: one winner per claim, never more in flight than a cap allows.

use super::{not_available, running, step_event, step_of};
use crate::plan::{
    CapScope, Dispatched, Event, Idempotence, Micros, Plan, Rejection, Run, RunId, State, Step,
    StepEvent, StepNumber, StepState, StepStatus,
};

pub(super) fn dispatch(
    state: &State,
    now: Micros,
    run: RunId,
    step: Option<StepNumber>,
    worker: &str,
) -> Result<Vec<Event>, Rejection> {
    let run = running(state, run)?;
    let number = match step {
        Some(number) => named(state, run, number)?,
        None => first(state, run)?,
    };
    let step = step_of(run, number)?;
    let (plan, plan_step) =
        run.plan().zip(run.plan_step(number)).ok_or(Rejection::NoSuchStep(number))?;
    let attempt = step.attempts.saturating_add(1);
    let dispatched = Dispatched {
        attempt,
        worker: worker.to_owned(),
        lease_until: now.saturating_add(plan.lease_of(plan_step)),
        idempotency_key: idempotency_key(run, step, plan, plan_step, attempt),
    };
    Ok(vec![step_event(run.id, number, StepEvent::Dispatched(dispatched))])
}

/// The same for every attempt where the world refuses a second use of it, else one per attempt.
fn idempotency_key(
    run: &Run,
    step: &StepState,
    plan: &Plan,
    plan_step: &Step,
    attempt: u32,
) -> String {
    match plan.idempotence_of(plan_step) {
        Idempotence::WithKey => format!("{}/{}", run.name, step.id),
        Idempotence::Yes | Idempotence::No => format!("{}/{}/{attempt}", run.name, step.id),
    }
}

/// The step that was asked for, if it may be dealt.
fn named(state: &State, run: &Run, number: StepNumber) -> Result<StepNumber, Rejection> {
    let step = step_of(run, number)?;
    if step.status != StepStatus::Ready {
        return Err(not_available(step, number));
    }
    check_stopping(run)?;
    check_shared_caps(state, run)?;
    check_owner_caps(state, run, step.owner.as_deref())?;
    Ok(number)
}

/// The first step of the queue whose owner may have one more.
fn first(state: &State, run: &Run) -> Result<StepNumber, Rejection> {
    if run.ready.is_empty() {
        return Err(nothing_ready(run));
    }
    check_stopping(run)?;
    check_shared_caps(state, run)?;
    let mut best = None;
    let mut refused = None;
    for (owner, queue) in &run.queues {
        let Some(head) = queue.first() else { continue };
        match check_owner_caps(state, run, owner.as_deref()) {
            Ok(()) if best.is_none_or(|best| head < best) => best = Some(head),
            Ok(()) => {}
            Err(reason) => refused = refused.or(Some(reason)),
        }
    }
    match best {
        Some((_, number)) => Ok(*number),
        None => Err(refused.unwrap_or_else(|| nothing_ready(run))),
    }
}

fn nothing_ready(run: &Run) -> Rejection {
    let count = |status| run.count(status);
    Rejection::NothingReady {
        in_flight: run.in_flight,
        reported: count(StepStatus::Reported),
        in_doubt: count(StepStatus::InDoubt),
    }
}

fn check_stopping(run: &Run) -> Result<(), Rejection> {
    if run.why_stopping().is_some() { Err(nothing_ready(run)) } else { Ok(()) }
}

/// The caps of the ledger and of the run.
fn check_shared_caps(state: &State, run: &Run) -> Result<(), Rejection> {
    let all = u32::try_from(state.in_flight.len()).unwrap_or(u32::MAX);
    check_cap(CapScope::Ledger, state.caps.get(&CapScope::Ledger).copied(), all)?;
    let scope = CapScope::Run(run.id);
    let planned = run.plan().and_then(|plan| plan.caps.run);
    let limit = planned.into_iter().chain(state.caps.get(&scope).copied()).min();
    check_cap(scope, limit, run.in_flight)
}

/// The caps of an owner: the ledger's over all runs, the plan's within the run.
fn check_owner_caps(state: &State, run: &Run, owner: Option<&str>) -> Result<(), Rejection> {
    let Some(owner) = owner else { return Ok(()) };
    let scope = CapScope::Owner(owner.to_owned());
    let limit = state.caps.get(&scope).copied();
    let in_flight = state.in_flight_by_owner.get(owner).copied().unwrap_or(0);
    check_cap(scope.clone(), limit, in_flight)?;
    let limit = run.plan().and_then(|plan| plan.caps.owners.get(owner)).copied();
    let in_flight = run.in_flight_by_owner.get(owner).copied().unwrap_or(0);
    check_cap(scope, limit, in_flight)
}

fn check_cap(scope: CapScope, limit: Option<u32>, in_flight: u32) -> Result<(), Rejection> {
    match limit {
        Some(limit) if in_flight >= limit => Err(Rejection::CapReached { scope, limit }),
        _ => Ok(()),
    }
}
