//! Budgets: whether they cover an attempt, and the commands that pause, unpause and change them.

use super::ask::{close_questions, withdraw_questions};
use super::lookup::{not_available, open_run, running_run, step_of};
use crate::plan::event::Event;
use crate::plan::event::question::{QuestionSubject, RAISE};
use crate::plan::event::run_event::{
    BudgetChanged, HelperEnded, HelperRole, PauseCause, ReplanTrigger, ReplanWithdrawn, RunPaused,
    RunResumed,
};
use crate::plan::event::step_event::CostCorrected;
use crate::plan::event::step_status::StepStatus;
use crate::plan::event::table::StepEvent;
use crate::plan::model::budget::{BudgetPart, Cost, Limits};
use crate::plan::rejection::Rejection;
use crate::plan::settle::budget::{pause_and_ask, pause_for_budget};
use crate::plan::state::State;
use crate::plan::state::account::Account;
use crate::plan::state::overview::RunOverview;
use crate::plan::state::run::Run;
use crate::plan::value::ids::{AttemptToken, Micros, RunId, Timestamp};

/// Whether the budgets of a run and of the ledger cover another attempt.
pub(crate) enum BudgetCheck {
    Covered,
    /// They cover it only if attempts in flight cost less than their reservations.
    Reserved(BudgetPart),
    /// A budget is exhausted; the cause of the pause.
    Exhausted(PauseCause),
}

/// Checks the budgets of a run and of the ledger for an attempt of this cost.
pub(crate) fn check_budget(state: &State, run: &Run, now: Timestamp, cost: Cost) -> BudgetCheck {
    let of_ledger = state.account.limits.unwrap_or_default();
    check_limits(state, run, (run.limits(), of_ledger), now, cost)
}

fn check_limits(
    state: &State,
    run: &Run,
    (of_run, of_ledger): (Limits, Limits),
    now: Timestamp,
    cost: Cost,
) -> BudgetCheck {
    if of_run.until(run.started).is_some_and(|until| now >= until) {
        return BudgetCheck::Exhausted(PauseCause::RunBudget { part: BudgetPart::Wall });
    }
    let books = [(&run.account, of_run), (&state.account, of_ledger)];
    let causes: [fn(BudgetPart) -> PauseCause; 2] =
        [|part| PauseCause::RunBudget { part }, |part| PauseCause::LedgerBudget { part }];
    let mut later = None;
    for ((account, limits), cause) in books.into_iter().zip(causes) {
        if let Some(part) = account.shortage(&limits, cost) {
            return BudgetCheck::Exhausted(cause(part));
        }
        let with_reserved = cost.plus(account.reserved);
        later = later.or_else(|| account.shortage(&limits, with_reserved));
    }
    later.map_or(BudgetCheck::Covered, BudgetCheck::Reserved)
}

impl Account {
    /// The first part of the budget that does not cover another attempt of this cost.
    fn shortage(&self, limits: &Limits, cost: Cost) -> Option<BudgetPart> {
        // An attempt of unknown cost needs a budget that is not exhausted.
        let is_exceeded = |limit: Option<u64>, spent: u64, more: u64| {
            limit.is_some_and(|limit| spent.saturating_add(more.max(1)) > limit)
        };
        let parts = [
            (BudgetPart::Attempts, limits.attempts, self.attempts, 1),
            (BudgetPart::Money, limits.money_micros, self.spent.money_micros, cost.money_micros),
            (BudgetPart::Tokens, limits.tokens, self.spent.tokens, cost.tokens),
        ];
        let is_short = |(_, limit, spent, more): &(_, _, _, _)| is_exceeded(*limit, *spent, *more);
        parts.into_iter().find(is_short).map(|(part, ..)| part)
    }
}

pub(super) fn set_budget(
    state: &State,
    now: Timestamp,
    changed: Option<RunId>,
    limits: Option<Limits>,
    by: &str,
) -> Result<Vec<Event>, Rejection> {
    if let Some(run) = changed {
        open_run(state, run)?;
    }
    let event = BudgetChanged { run: changed, limits, by: by.to_owned() };
    let mut events = vec![Event::BudgetChanged(event)];
    let waiting = state.runs.overviews().filter(|(_, overview)| is_paused_by_budget(overview));
    for run in waiting.filter_map(|(id, _)| state.runs.get(&id)) {
        let planned = || run.plan().map(|plan| plan.header().budget.into()).unwrap_or_default();
        let of_run =
            if changed == Some(run.id) { limits.unwrap_or_else(planned) } else { run.limits() };
        let of_ledger = if changed.is_none() { limits } else { state.account.limits };
        let both = (of_run, of_ledger.unwrap_or_default());
        match check_limits(state, run, both, now, Cost::default()) {
            BudgetCheck::Exhausted(cause) if run.pause.as_ref() == Some(&cause) => {}
            // Another part is exhausted now: people must know which one.
            BudgetCheck::Exhausted(cause) => {
                events.extend(raise_events(run, by));
                events.extend(pause_and_ask(run, cause));
            }
            BudgetCheck::Covered | BudgetCheck::Reserved(_) => {
                events.extend(raise_events(run, by));
                events.extend(withdraw_obsolete_request(run));
            }
        }
    }
    Ok(events)
}

/// Unpauses a run that a budget had paused, if the budget of a newly activated version covers more.
pub(super) fn resume_if_covered(
    state: &State,
    now: Timestamp,
    run: &Run,
    planned: Limits,
    by: &str,
) -> Vec<Event> {
    let pauses = run.pause.as_ref().is_some_and(PauseCause::is_cost_pause);
    let of_run = run.account.limits.unwrap_or(planned);
    let both = (of_run, state.account.limits.unwrap_or_default());
    if pauses && has_budget(state, run, both, now) { resume_events(run, by) } else { Vec::new() }
}

/// Whether the budgets of a run and of the ledger cover an attempt of minimal cost.
fn has_budget(state: &State, run: &Run, limits: (Limits, Limits), now: Timestamp) -> bool {
    !matches!(check_limits(state, run, limits, now, Cost::default()), BudgetCheck::Exhausted(_))
}

fn is_paused_by_budget(overview: &RunOverview) -> bool {
    matches!(overview.pause, Some(PauseCause::RunBudget { .. } | PauseCause::LedgerBudget { .. }))
}

/// Unpauses a run and withdraws the question about its budget.
fn resume_events(run: &Run, by: &str) -> Vec<Event> {
    let mut events = withdraw_questions(run, &QuestionSubject::Budget, by);
    events.push(Event::RunResumed(RunResumed { run: run.id, by: by.to_owned() }));
    events
}

/// Unpauses a run whose budget was raised, which answers the question about it.
fn raise_events(run: &Run, by: &str) -> Vec<Event> {
    let mut events = close_questions(run, &QuestionSubject::Budget, RAISE, by);
    events.push(Event::RunResumed(RunResumed { run: run.id, by: by.to_owned() }));
    events
}

/// Withdraws the replan request if an exhausted budget caused it, unless a step has failed or a
/// version waits for a review.
fn withdraw_obsolete_request(run: &Run) -> Option<Event> {
    let request = run.request.as_ref()?;
    let is_free = run.count(StepStatus::Failed) == 0 && run.newest_proposal().is_none();
    (request.trigger == ReplanTrigger::BudgetExhausted && is_free).then(|| {
        let (by, reason) = ("policy:replan".to_owned(), "its cause no longer applies".to_owned());
        Event::ReplanWithdrawn(ReplanWithdrawn { run: run.id, by, reason })
    })
}

pub(super) fn pause(
    state: &State,
    run: RunId,
    by: &str,
    reason: &str,
) -> Result<Vec<Event>, Rejection> {
    pause_for(state, run, PauseCause::Person { by: by.to_owned() }, reason)
}

pub(super) fn pause_by_runner(
    state: &State,
    run: RunId,
    reason: &str,
) -> Result<Vec<Event>, Rejection> {
    pause_for(state, run, PauseCause::Runner { reason: reason.to_owned() }, "")
}

fn pause_for(
    state: &State,
    run: RunId,
    cause: PauseCause,
    reason: &str,
) -> Result<Vec<Event>, Rejection> {
    let run = running_run(state, run)?;
    if let Some(cause) = &run.pause {
        return Err(Rejection::Paused(cause.clone()));
    }
    Ok(vec![Event::RunPaused(RunPaused { run: run.id, cause, reason: reason.to_owned() })])
}

pub(super) fn unpause(
    state: &State,
    now: Timestamp,
    run: RunId,
    by: &str,
) -> Result<Vec<Event>, Rejection> {
    let run = running_run(state, run)?;
    if run.pause.is_none() {
        return Err(Rejection::NotPaused);
    }
    match check_budget(state, run, now, Cost::default()) {
        BudgetCheck::Exhausted(cause) => Err(Rejection::Paused(cause)),
        BudgetCheck::Covered | BudgetCheck::Reserved(_) => {
            let withdrawn = withdraw_obsolete_request(run)
                .filter(|_| run.pause.as_ref().is_some_and(PauseCause::is_cost_pause));
            Ok(resume_events(run, by).into_iter().chain(withdrawn).collect())
        }
    }
}

/// Pauses a run with exhausted money or tokens before it asks a helper. The limits on attempts and
/// on time apply to workers only. A run that is paused for another reason stays as it is.
pub(super) fn check_for_helper(
    state: &State,
    now: Timestamp,
    run: RunId,
) -> Result<Vec<Event>, Rejection> {
    let run = running_run(state, run)?;
    let of_helpers = |limits: Limits| Limits { attempts: None, wall_seconds: None, ..limits };
    let of_ledger = state.account.limits.unwrap_or_default();
    let limits = (of_helpers(run.limits()), of_helpers(of_ledger));
    match (check_limits(state, run, limits, now, Cost::default()), &run.pause) {
        (BudgetCheck::Exhausted(cause), None) => Ok(pause_for_budget(run, cause)),
        (BudgetCheck::Exhausted(_), Some(cause)) if cause.is_of_cost() => {
            Err(Rejection::Paused(cause.clone()))
        }
        _ => Ok(Vec::new()),
    }
}

/// Charges the cost of a helper. Its run is not paused here: the next dispatch, or the next helper, finds that
/// the budget is used up.
pub(super) fn report_helper(
    state: &State,
    run: RunId,
    (role, by): (HelperRole, &str),
    cost: Cost,
    duration: Micros,
) -> Result<Vec<Event>, Rejection> {
    let run = open_run(state, run)?.id;
    Ok(vec![Event::HelperEnded(HelperEnded { run, role, by: by.to_owned(), cost, duration })])
}

/// Corrects the cost of an attempt that ended.
pub(super) fn correct(
    state: &State,
    token: AttemptToken,
    cost: Cost,
    charged: Option<Cost>,
    by: &str,
) -> Result<Vec<Event>, Rejection> {
    let (run, number, _) = state.dispatched.get(&token).ok_or(Rejection::StaleToken(token))?;
    let run = open_run(state, *run)?;
    if state.in_flight.contains_key(&token) {
        return Err(not_available(step_of(run, *number)?, *number));
    }
    let estimated = run.estimates.get(&token).copied();
    if let (Some(found), Some(expected)) = (estimated, charged)
        && found != expected
    {
        return Err(Rejection::ChargeDiffers { expected, found });
    }
    // The cost of a receipt is in the log only, so the caller passes it.
    let charged = estimated.or(charged).ok_or(Rejection::NotEstimated(token))?;
    let corrected = CostCorrected { token, cost, charged, by: by.to_owned() };
    Ok(vec![Event::step(run.id, *number, StepEvent::CostCorrected(corrected))])
}
