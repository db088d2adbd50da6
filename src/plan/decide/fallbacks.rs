//! Fallback steps that commands skip because no other step needs them.
//!
//! Invariant: a pure fallback step is dispatched only while another step waits for it, or after a
//! retry of the fallback step itself. A fallback step that is no longer needed is skipped, unless
//! its outcome is unknown.

use std::collections::BTreeSet;
use std::iter::successors;

use crate::plan::event::Event;
use crate::plan::event::step_event::Skipped;
use crate::plan::event::step_status::StepStatus;
use crate::plan::event::table::StepEvent;
use crate::plan::state::run::Run;
use crate::plan::value::ids::StepNumber;

/// Skips the fallback steps that only these closed steps used, unless they are in flight, and then
/// the fallback steps of those.
pub(super) fn skip_unused(run: &Run, mut closed: BTreeSet<StepNumber>) -> Vec<Event> {
    let mut events = Vec::new();
    let mut steps: Vec<StepNumber> = closed.iter().copied().collect();
    while let Some(step) = steps.pop() {
        let fallback = run.step(step).and_then(|step| step.hold().fallback_step);
        let Some(fallback) = fallback.filter(|fallback| is_idle(run, *fallback)) else { continue };
        let waits = |other: &StepNumber| {
            !closed.contains(other)
                && run.step(*other).is_some_and(|step| step.hold().fallback_step == Some(fallback))
        };
        if !run.links.fallback_for(fallback).iter().any(waits) && closed.insert(fallback) {
            events.push(skip_event(run, fallback, "no step needs this fallback any longer"));
            steps.push(fallback);
        }
    }
    events
}

/// Whether a step is open and has no current attempt.
fn is_idle(run: &Run, number: StepNumber) -> bool {
    run.step(number).is_some_and(|step| step.status.is_open() && step.attempt().is_none())
}

/// Whether a step is a failed fallback step. It is not retried in addition to the step that uses
/// it.
pub(super) fn is_failed_fallback(run: &Run, number: StepNumber) -> bool {
    let has_failed = |number| {
        run.step(number)
            .is_some_and(|step| step.status == StepStatus::Failed && step.attempt().is_none())
    };
    has_failed(number) && !run.links.fallback_for(number).is_empty()
}

/// The chain of failed fallback steps of a step.
pub(super) fn failed_chain(run: &Run, number: StepNumber) -> impl Iterator<Item = StepNumber> {
    let next = |number: &StepNumber| {
        run.links.fallback_of(*number).filter(|fallback| is_failed_fallback(run, *fallback))
    };
    successors(Some(number), next).take(run.steps.len()).skip(1)
}

/// Skips a failed fallback step.
pub(super) fn skip_failed(run: &Run, number: StepNumber) -> Event {
    skip_event(run, number, "it failed, and no step needs this fallback")
}

fn skip_event(run: &Run, number: StepNumber, reason: &str) -> Event {
    let skipped = Skipped { by: "policy:fallback".to_owned(), reason: reason.into() };
    Event::step(run.id, number, StepEvent::Skipped(skipped))
}
