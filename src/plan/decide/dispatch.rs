//! Dispatch: chooses a ready step within caps and budgets, and leases it to one worker.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::budget::{BudgetCheck, check_budget};
use super::lookup::{expect_name, not_available, running_run, step_of};
use crate::plan::event::Event;
use crate::plan::event::run_event::CapScope;
use crate::plan::event::step_event::Dispatched;
use crate::plan::event::step_status::StepStatus;
use crate::plan::event::table::StepEvent;
use crate::plan::model::budget::Cost;
use crate::plan::model::route::{Route, Taker};
use crate::plan::model::step::Idempotence;
use crate::plan::rejection::Rejection;
use crate::plan::settle::budget::pause_for_budget;
use crate::plan::state::State;
use crate::plan::state::compact::plan::CompactPlan;
use crate::plan::state::compact::step::CompactStep;
use crate::plan::state::replan_hold::ReplanHold;
use crate::plan::state::run::{Lane, Run};
use crate::plan::state::step_state::StepState;
use crate::plan::value::ids::{Micros, RunId, StepNumber, Timestamp, WorkerProcess};
use crate::plan::value::names::NameKind;
use crate::plan::value::token::SecretHash;

/// The data about the worker that a dispatch records.
pub(super) struct Claimant<'a> {
    pub(super) worker: &'a str,
    pub(super) lease: Option<Micros>,
    pub(super) secret: SecretHash,
    pub(super) process: &'a Option<WorkerProcess>,
}

pub(super) fn dispatch(
    state: &State,
    now: Timestamp,
    run: RunId,
    (step, route): (Option<StepNumber>, &Route),
    claimant: &Claimant<'_>,
) -> Result<Vec<Event>, Rejection> {
    let Claimant { worker, lease, secret, process } = *claimant;
    let run = running_run(state, run)?;
    expect_name(NameKind::Worker, worker)?;
    let number = match step {
        Some(number) => check_step(state, run, number, route)?,
        None => first_within_caps(state, run, route)?,
    };
    let step = step_of(run, number)?;
    let (plan, plan_step) =
        run.plan().zip(run.plan_step(number)).ok_or(Rejection::NoSuchStep(number))?;
    let is_free = route.is_stub || mutant!(BudgetNotReserved);
    let reserved = if is_free { Cost::default() } else { reservation(plan_step) };
    match check_budget(state, run, now, reserved) {
        BudgetCheck::Covered => {}
        BudgetCheck::Reserved(part) => return Err(Rejection::BudgetReserved(part)),
        BudgetCheck::Exhausted(cause) => return Ok(pause_for_budget(run, cause)),
    }
    let attempt = step.attempts.saturating_add(1);
    let second_owner = match taker_of(plan, route, step.owner()) {
        Some(Taker::Second(owner)) => Some(owner.to_owned()),
        Some(Taker::Own) | None => None,
    };
    let dispatched = Dispatched {
        attempt,
        worker: worker.to_owned(),
        lease_until: now.saturating_add(lease.unwrap_or_else(|| plan.lease_of(plan_step))),
        idempotency_key: idempotency_key(run, step, plan, plan_step, attempt),
        reserved,
        secret_hash: secret,
        process: process.clone(),
        second_owner,
    };
    Ok(vec![Event::step(run.id, number, StepEvent::Dispatched(dispatched))])
}

/// The workers that take the steps of an owner, according to the active plan.
fn taker_of<'a>(plan: &'a CompactPlan, route: &Route, owner: Option<&str>) -> Option<Taker<'a>> {
    route.taker(owner, &plan.header().owners)
}

/// The reservation of an attempt: its cost estimate, else its cost limit.
pub(crate) fn reservation(step: CompactStep<'_>) -> Cost {
    step.cost_estimate().or(step.cost_limit()).unwrap_or_default()
}

/// Idempotency key: the same for all attempts of a step that is idempotent `with_key`, otherwise a
/// different one for each attempt.
fn idempotency_key(
    run: &Run,
    step: &StepState,
    plan: &CompactPlan,
    plan_step: CompactStep<'_>,
    attempt: u32,
) -> String {
    match plan.idempotence_of(plan_step) {
        Idempotence::WithKey if !mutant!(IdempotencyKeyPerAttempt) => {
            format!("{}/{}", run.name, step.id())
        }
        _ if mutant!(IdempotencyKeyPerStep) => format!("{}/{}", run.name, step.id()),
        _ => format!("{}/{}/{attempt}", run.name, step.id()),
    }
}

impl Run {
    /// Whether a step has a command, of its own or by the defaults of the plan.
    #[must_use]
    pub fn has_command(&self, number: StepNumber) -> bool {
        let found = self.plan().zip(self.plan_step(number));
        found.is_some_and(|(plan, step)| plan.with_defaults(step).command.is_some())
    }

    /// Idempotency key for the side effects of the last attempt of a step.
    #[must_use]
    pub fn idempotency_key(&self, number: StepNumber) -> Option<String> {
        let step = self.step(number).filter(|step| step.attempts > 0)?;
        let (plan, plan_step) = self.plan().zip(self.plan_step(number))?;
        Some(idempotency_key(self, step, plan, plan_step, step.attempts))
    }
}

/// Checks that this step may be dispatched to a worker that takes the steps of a route.
fn check_step(
    state: &State,
    run: &Run,
    number: StepNumber,
    route: &Route,
) -> Result<StepNumber, Rejection> {
    let step = step_of(run, number)?;
    if let Some(owner) = step.owner().filter(|owner| !route.admits_owner(Some(owner))) {
        return Err(Rejection::OtherOwner { step: number, owner: owner.to_owned() });
    }
    if step.status != StepStatus::Ready && !mutant!(ClaimedStepDispatched) {
        return Err(not_available(step, number));
    }
    check_not_stopping(run)?;
    match run.replan_hold() {
        Some(hold) if hold.holds(number) => return Err(held_for_replan(&hold)),
        _ => {}
    }
    check_shared_caps(state, run)?;
    check_lane_caps(state, run, step.owner(), step.tags())?;
    Ok(number)
}

/// The first ready step of a route within all caps, or another one of its owner if that is to be taken last.
fn first_within_caps(state: &State, run: &Run, route: &Route) -> Result<StepNumber, Rejection> {
    let first = first_of_lanes(state, run, route, None)?;
    let step = run.step(first).filter(|_| route.last.contains(&first));
    let other = step.and_then(|step| first_of_lanes(state, run, route, Some(step)).ok());
    Ok(other.unwrap_or(first))
}

/// The first ready step of a route within all caps. Instead of a step: of its owner, and none that is to be taken
/// last.
fn first_of_lanes(
    state: &State,
    run: &Run,
    route: &Route,
    instead_of: Option<&StepState>,
) -> Result<StepNumber, Rejection> {
    if run.lanes.is_empty() {
        return Err(run.pause.clone().map_or_else(|| nothing_ready(run), Rejection::Paused));
    }
    check_not_stopping(run)?;
    check_shared_caps(state, run)?;
    let hold = run.replan_hold();
    let takes_any = route.tags.is_empty() && hold.is_none() && instead_of.is_none();
    let is_last = |number| instead_of.is_some() && route.last.contains(&number);
    // Skip all steps of a lane if one of its caps is reached.
    let (mut refused, mut first) = (None, None);
    let plan = run.plan().ok_or_else(|| nothing_ready(run))?;
    for (head, lane) in &run.lane_heads {
        let (owner, tags) = lane;
        if instead_of.is_some_and(|step| step.owner() != owner.as_deref()) {
            continue;
        }
        let taker = taker_of(plan, route, owner.as_deref());
        let Some(taker) = taker.filter(|_| first.is_none_or(|first| first >= *head)) else {
            continue;
        };
        let owner = match taker {
            Taker::Own => owner.as_deref(),
            Taker::Second(owner) => Some(owner),
        };
        #[cfg(test)]
        crate::plan::state::run::LANES_LOOKED_AT.with(|count| count.set(count.get() + 1));
        match check_lane_caps(state, run, owner, tags) {
            Ok(()) if takes_any && taker == Taker::Own => return Ok(head.1),
            Ok(()) => {
                let lane = (lane, taker);
                let found =
                    first_admitted(run, lane, (route, hold.as_ref()), &is_last, &mut refused);
                first = first.into_iter().chain(found).min();
            }
            Err(reason) => refused = refused.or(Some(reason)),
        }
    }
    match (first, refused) {
        (Some((_, number)), _) => Ok(number),
        (None, Some(reason)) => Err(reason),
        (None, None) => Err(none_for_worker(run)),
    }
}

/// The first step of a lane that has one of the tags of a route and that no replan request holds. A
/// lane has only the capped tags. A second owner has nothing to do at a step with its own command.
fn first_admitted(
    run: &Run,
    (lane, taker): (&Lane, Taker<'_>),
    (route, hold): (&Route, Option<&ReplanHold<'_>>),
    is_last: &dyn Fn(StepNumber) -> bool,
    refused: &mut Option<Rejection>,
) -> Option<(Reverse<i32>, StepNumber)> {
    let has_tag = |number| run.step(number).is_some_and(|step| route.admits_tags(step.tags()));
    let suits = |number| (taker == Taker::Own || !run.has_command(number)) && !is_last(number);
    let admitted = run.lanes.get(lane)?.iter();
    let mut admitted = admitted.filter(|(_, number)| has_tag(*number) && suits(*number));
    let Some(hold) = hold else { return admitted.next().copied() };
    let is_free = |(_, number): &&(_, StepNumber)| {
        let is_held = hold.holds(*number);
        if is_held && refused.is_none() {
            *refused = Some(held_for_replan(hold));
        }
        !is_held
    };
    admitted.find(is_free).copied()
}

fn held_for_replan(hold: &ReplanHold<'_>) -> Rejection {
    Rejection::HeldForReplan { request: hold.request().seq }
}

/// The rejection of a claim whose route admits none of the ready steps.
fn none_for_worker(run: &Run) -> Rejection {
    let ready = u32::try_from(run.ready_count()).unwrap_or(u32::MAX);
    let owners: BTreeSet<&String> =
        run.lanes.keys().filter_map(|(owner, _)| owner.as_ref()).collect();
    Rejection::NoneForWorker { ready, owners: owners.into_iter().cloned().collect() }
}

fn nothing_ready(run: &Run) -> Rejection {
    let count = |status| run.count(status);
    Rejection::NothingReady {
        in_flight: run.in_flight,
        reported: count(StepStatus::Reported),
        outcome_unknown: count(StepStatus::OutcomeUnknown),
    }
}

fn check_not_stopping(run: &Run) -> Result<(), Rejection> {
    match &run.pause {
        Some(cause) => Err(Rejection::Paused(cause.clone())),
        None if run.why_stopping().is_some() => Err(nothing_ready(run)),
        None => Ok(()),
    }
}

/// The caps of the ledger and of the run.
fn check_shared_caps(state: &State, run: &Run) -> Result<(), Rejection> {
    let all = u32::try_from(state.in_flight.len()).unwrap_or(u32::MAX);
    check_cap(CapScope::Ledger, state.caps.get(&CapScope::Ledger).copied(), all, false)?;
    let scope = CapScope::Run { run: run.id };
    let planned = run.plan().and_then(|plan| plan.header().caps.run);
    let recorded = state.caps.get(&scope).copied();
    let is_of_plan = planned.is_some_and(|planned| recorded.is_none_or(|cap| planned <= cap));
    check_cap(scope, if is_of_plan { planned } else { recorded }, run.in_flight, is_of_plan)
}

/// The caps of an owner and of tags: the ledger's across all runs, the plan's within the run.
fn check_lane_caps(
    state: &State,
    run: &Run,
    owner: Option<&str>,
    tags: &BTreeSet<String>,
) -> Result<(), Rejection> {
    let caps = run.plan().map(|plan| &plan.header().caps);
    if let Some(owner) = owner {
        let scope = CapScope::Owner { owner: owner.to_owned() };
        let in_ledger = state.in_flight_by_owner.get(owner).copied().unwrap_or(0);
        check_cap(scope.clone(), state.caps.get(&scope).copied(), in_ledger, false)?;
        let in_run = run.in_flight_by_owner.get(owner).copied().unwrap_or(0);
        check_cap(scope, caps.and_then(|caps| caps.owners.get(owner)).copied(), in_run, true)?;
    }
    for tag in tags {
        let scope = CapScope::Tag { tag: tag.clone() };
        let in_ledger = state.in_flight_by_tag.get(tag).copied().unwrap_or(0);
        check_cap(scope.clone(), state.caps.get(&scope).copied(), in_ledger, false)?;
        let in_run = run.in_flight_by_tag.get(tag).copied().unwrap_or(0);
        check_cap(scope, caps.and_then(|caps| caps.tags.get(tag)).copied(), in_run, true)?;
    }
    Ok(())
}

fn check_cap(
    scope: CapScope,
    limit: Option<u32>,
    in_flight: u32,
    is_of_plan: bool,
) -> Result<(), Rejection> {
    match limit {
        Some(limit) if in_flight >= limit + u32::from(mutant!(CapExceededByOne)) => {
            Err(Rejection::CapReached { scope, limit, is_of_plan })
        }
        _ => Ok(()),
    }
}
