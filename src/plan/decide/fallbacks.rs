//! Fallback steps, when a command decides about the steps that use them.
//!
//! Invariant: a step that is only a fallback is dispatched only while another step waits for it, or after
//! a retry of the fallback step itself. A fallback step that is no longer needed is skipped, unless its
//! outcome is unknown.

use std::collections::BTreeSet;
use std::iter::successors;

use crate::plan::event::Event;
use crate::plan::event::step_event::{Skipped, StepEvent};
use crate::plan::event::step_status::StepStatus;
use crate::plan::state::run::Run;
use crate::plan::value::ids::StepNumber;

/// Skips the fallback steps in use by steps that are closed now, unless they are in flight.
pub(super) fn let_go(run: &Run, mut over: BTreeSet<StepNumber>) -> Vec<Event> {
    let mut events = Vec::new();
    let mut callers: Vec<StepNumber> = over.iter().copied().collect();
    while let Some(caller) = callers.pop() {
        let called = run.step(caller).and_then(|step| step.hold().fallback_step);
        let Some(called) = called.filter(|called| is_idle(run, *called)) else { continue };
        let waits = |other: &StepNumber| {
            !over.contains(other)
                && run.step(*other).is_some_and(|step| step.hold().fallback_step == Some(called))
        };
        if !run.links.fallback_for(called).iter().any(waits) && over.insert(called) {
            events.push(skipped(run, called, "no step needs this fallback any longer"));
            callers.push(called);
        }
    }
    events
}

/// Whether a step is open and has no current attempt.
fn is_idle(run: &Run, number: StepNumber) -> bool {
    run.step(number).is_some_and(|step| step.status.is_open() && step.attempt().is_none())
}

/// Whether a failed step is only a fallback, so that it is not retried beside the step that uses it.
pub(super) fn is_spare(run: &Run, number: StepNumber) -> bool {
    let has_failed = |number| {
        run.step(number)
            .is_some_and(|step| step.status == StepStatus::Failed && step.attempt().is_none())
    };
    has_failed(number) && !run.links.fallback_for(number).is_empty()
}

/// The chain of failed fallback steps of a step.
pub(super) fn of(run: &Run, number: StepNumber) -> impl Iterator<Item = StepNumber> {
    let next = |number: &StepNumber| {
        run.links.fallback_of(*number).filter(|fallback| is_spare(run, *fallback))
    };
    successors(Some(number), next).take(run.steps.len()).skip(1)
}

/// Skips such a step.
pub(super) fn spared(run: &Run, number: StepNumber) -> Event {
    skipped(run, number, "it failed, and no step needs this fallback")
}

fn skipped(run: &Run, number: StepNumber, reason: &str) -> Event {
    let skipped = Skipped { by: "policy:fallback".to_owned(), reason: reason.to_owned() };
    Event::step(run.id, number, StepEvent::Skipped(skipped))
}
