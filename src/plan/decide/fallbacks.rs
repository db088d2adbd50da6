//! What becomes of steps that stand in for others, when somebody decides about those.
//!
//! Invariant: a step that is only there to stand in is dealt only while a step waits for it, or when
//! somebody says of itself that it is tried again. No event puts one back on call: so one that is
//! not needed any more is skipped, and never one of which somebody must say what it did.

use std::collections::BTreeSet;
use std::iter::successors;

use crate::plan::event::Event;
use crate::plan::event::step_event::{Skipped, StepEvent};
use crate::plan::event::step_status::StepStatus;
use crate::plan::state::run::Run;
use crate::plan::value::ids::StepNumber;

/// Skips what was called to stand in for steps that are over now, and is not dealt.
pub(super) fn let_go(run: &Run, mut over: BTreeSet<StepNumber>) -> Vec<Event> {
    let mut events = Vec::new();
    let mut callers: Vec<StepNumber> = over.iter().copied().collect();
    while let Some(caller) = callers.pop() {
        let called = run.step(caller).and_then(|step| step.hold().stand_in);
        let Some(called) = called.filter(|called| is_idle(run, *called)) else { continue };
        let waits = |other: &StepNumber| {
            !over.contains(other)
                && run.step(*other).is_some_and(|step| step.hold().stand_in == Some(called))
        };
        if !run.links.stands_in_for(called).iter().any(waits) && over.insert(called) {
            events.push(skipped(run, called, "what it was to stand in for needs it no more"));
            callers.push(called);
        }
    }
    events
}

/// Whether a step may still be dealt, and nobody has or had an attempt of it that is not over.
fn is_idle(run: &Run, number: StepNumber) -> bool {
    run.step(number).is_some_and(|step| step.status.is_open() && step.attempt().is_none())
}

/// Whether a step that failed is only there to stand in, so that it is not tried again beside what it
/// stands in for.
pub(super) fn is_spare(run: &Run, number: StepNumber) -> bool {
    let has_failed = |number| {
        run.step(number)
            .is_some_and(|step| step.status == StepStatus::Failed && step.attempt().is_none())
    };
    has_failed(number) && !run.links.stands_in_for(number).is_empty()
}

/// The steps that failed in the place of a step, each in that of the one before.
pub(super) fn of(run: &Run, number: StepNumber) -> impl Iterator<Item = StepNumber> {
    let next = |number: &StepNumber| {
        run.links.fallback_of(*number).filter(|fallback| is_spare(run, *fallback))
    };
    successors(Some(number), next).take(run.steps.len()).skip(1)
}

/// That such a step is not tried again.
pub(super) fn spared(run: &Run, number: StepNumber) -> Event {
    skipped(run, number, "it failed, and nothing calls it to stand in")
}

fn skipped(run: &Run, number: StepNumber, reason: &str) -> Event {
    let skipped = Skipped { by: "policy:fallback".to_owned(), reason: reason.to_owned() };
    Event::step(run.id, number, StepEvent::Skipped(skipped))
}
