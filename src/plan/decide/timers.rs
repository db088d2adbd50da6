//! The tick: fires timers that are due.

use super::answers::expiry_events;
use super::ask::barrier_event;
use super::attempts::loss_event;
use super::lookup::run_of;
use crate::plan::event::Event;
use crate::plan::event::run_event::{BarrierChange, PauseCause};
use crate::plan::event::step_event::{DelayElapsed, LostCause};
use crate::plan::event::table::StepEvent;
use crate::plan::model::budget::BudgetPart;
use crate::plan::rejection::Rejection;
use crate::plan::settle::budget::pause_for_budget;
use crate::plan::state::State;
use crate::plan::state::run::{Run, Timer};
use crate::plan::value::ids::{RunId, StepNumber, Timestamp};

/// The events of the first timer that is due and has events. [`crate::plan::execute`] repeats this
/// until no timer is due, so that each timer fires on the state after the previous one.
pub(super) fn tick(state: &State, now: Timestamp) -> Vec<Event> {
    for (_, id) in state.due.iter().take_while(|(due, _)| *due <= now) {
        let Some(run) = state.runs.get(id) else { continue };
        for (due, timer) in run.timers.iter().take_while(|(due, _)| *due <= now) {
            let events = timer_events(state, run, (*due, timer), now);
            if !events.is_empty() {
                return events;
            }
        }
    }
    Vec::new()
}

/// The end of a step's delay, whether it is due or not.
pub(super) fn end_delay(
    state: &State,
    run: RunId,
    step: StepNumber,
    by: &str,
) -> Result<Vec<Event>, Rejection> {
    let run = run_of(state, run)?;
    let is_own = |timer: &Timer| matches!(timer, Timer::Delay(number) if *number == step);
    let delay = run.timers.iter().find(|(_, timer)| is_own(timer));
    let elapsed = |due| {
        let by = Some(by.to_owned());
        Event::step(run.id, step, StepEvent::DelayElapsed(DelayElapsed { due, by }))
    };
    Ok(delay.map(|(due, _)| elapsed(*due)).into_iter().collect())
}

fn timer_events(
    state: &State,
    run: &Run,
    (due, timer): (Timestamp, &Timer),
    now: Timestamp,
) -> Vec<Event> {
    match timer {
        Timer::Lease(token) => {
            let number = state.in_flight.get(token).map(|(_, step)| *step);
            let detail = "the lease expired without a renewal";
            let lost =
                number.map(|step| loss_event(run, step, *token, LostCause::LeaseExpired, detail));
            lost.into_iter().collect()
        }
        Timer::Delay(number) => {
            let elapsed = StepEvent::DelayElapsed(DelayElapsed { due, by: None });
            vec![Event::step(run.id, *number, elapsed)]
        }
        Timer::Question(id) => expiry_events(state, run, *id, now),
        Timer::Barrier(id) => barrier_event(run, id, BarrierChange::Late).into_iter().collect(),
        Timer::Wall => pause_for_budget(run, PauseCause::RunBudget { part: BudgetPart::Wall }),
    }
}
