//! What follows by itself: acceptance, failure, barriers, and the end of a run.
//!
//! Invariants:
//! - A consequence is judged from the state alone: no clock, no command.
//! - One call answers with the events of one consequence. Folding them in makes that one
//!   disappear, so that asking again until nothing follows always ends.
//! - Nothing is searched for: the fold keeps the lists of what is due.
//!
//! Left out on purpose: what falls due, which needs a clock (`Command::Tick`).

mod budget;
mod carry_out;
mod criteria;
mod ending;
mod failure;
mod opening;

use std::collections::BTreeMap;

use super::{
    Accepted, AcceptedBasis, Attempt, CompactStep, Decider, Event, FailureClass, Json, Micros,
    Origin, Outcome, Output, Ruling, Run, RunId, RunStatus, State, StepEvent, StepNumber,
    StepRecord, StepStatus, VariableSet, VerdictRecorded,
};
pub(super) use budget::used_up;
pub(super) use carry_out::{carried_out, may_fall_back};
use criteria::{TRUST, failed_criterion, judged, trust, trusted, unjudged};
pub use failure::is_said_to_have_landed;
pub(super) use failure::{Failure, may_have_landed};
pub(super) use opening::writers_left;

/// The events of one thing that follows by itself in a run; none when all is settled.
#[must_use]
pub fn settle(state: &State, run: RunId) -> Vec<Event> {
    let Some(run) = state.runs.get(&run) else { return Vec::new() };
    match run.status {
        RunStatus::Running => {}
        RunStatus::Proposed => return ending::of_proposed(run),
        RunStatus::Ended(_) => return Vec::new(),
    }
    let of_steps = run.due.iter().map(|number| step_consequence(run, *number, state.time));
    let of_barriers = run.due_barriers.iter().map(|id| ending::of_barrier(run, id));
    let of_late = run.links.timed_barriers().iter().map(|id| ending::of_late_barrier(run, id));
    let first = of_steps.chain(of_barriers).chain(of_late).find(|events| !events.is_empty());
    first.unwrap_or_else(|| ending::of_run(state, run))
}

/// What a reported step calls for.
enum Call<'a> {
    Judge(Vec<u32>),
    Trust(Vec<u32>),
    Accept,
    Decide(FailureClass, String, &'a Attempt),
}

/// Whether something follows from how a step stands.
pub(super) fn has_consequence(run: &Run, number: StepNumber) -> bool {
    match call(run, number) {
        Some(Call::Decide(..)) => is_decided_by_rules(run),
        Some(_) => true,
        None => {
            carry_out::is_answered(run, number)
                || carry_out::is_unasked(run, number)
                || opening::has_consequence(run, number)
        }
    }
}

/// Whether the rules decide about failures, and nobody else.
fn is_decided_by_rules(run: &Run) -> bool {
    run.plan().is_none_or(|plan| plan.header().failure.decider == Decider::Rules)
}

/// Class and message of a reported step's failure, if it failed.
pub(super) fn failure_of(run: &Run, number: StepNumber) -> Option<(FailureClass, String)> {
    match call(run, number)? {
        Call::Decide(class, message, _) => Some((class, message)),
        Call::Judge(_) | Call::Trust(_) | Call::Accept => None,
    }
}

/// The criteria of a reported step that wait for a verdict.
pub(super) fn unjudged_of(run: &Run, number: StepNumber) -> Vec<u32> {
    let attempt = run.step(number).and_then(|step| step.attempt());
    let criteria = run.plan_step(number).map(CompactStep::acceptance).unwrap_or_default();
    attempt.map_or_else(Vec::new, |attempt| unjudged(&criteria, &attempt.verdicts))
}

fn call(run: &Run, number: StepNumber) -> Option<Call<'_>> {
    let step = run.step(number).filter(|step| step.status == StepStatus::Reported)?;
    let attempt = step.attempt()?;
    match &attempt.receipt.as_ref()?.outcome {
        Outcome::Succeeded => {}
        Outcome::Failed { class, message, .. } => {
            let class = failure::classified(run, number, *class, message);
            return Some(Call::Decide(class, message.clone(), attempt));
        }
        Outcome::ReplanRequested { reason } => {
            let message = format!("the worker asks for another plan: {reason}");
            return Some(Call::Decide(FailureClass::AssumptionBroken, message, attempt));
        }
    }
    let criteria = run.plan_step(number).map(CompactStep::acceptance).unwrap_or_default();
    if let Some(failed) = attempt.verdicts.values().find(|each| each.ruling == Ruling::Fail) {
        let message = failed_criterion(&criteria, failed);
        return Some(Call::Decide(FailureClass::Unknown, message, attempt));
    }
    let missing = unjudged(&criteria, &attempt.verdicts);
    if missing.is_empty() {
        return Some(Call::Accept);
    }
    let judgeable = criteria::of_cel(&criteria, &missing);
    if !judgeable.is_empty() {
        return Some(Call::Judge(judgeable));
    }
    let trusted = trusted(run, &criteria, &missing);
    (!trusted.is_empty()).then_some(Call::Trust(trusted))
}

fn step_event(run: &Run, step: StepNumber, event: StepEvent) -> Event {
    Event::Step(StepRecord { run: run.id, step, previous: 0, event })
}

fn step_consequence(run: &Run, number: StepNumber, time: Micros) -> Vec<Event> {
    let Some(attempt) = run.step(number).and_then(|step| step.attempt()) else {
        return opening::consequence(run, number, time);
    };
    let event = |event| step_event(run, number, event);
    let verdict = |verdict| {
        event(StepEvent::VerdictRecorded(VerdictRecorded { token: attempt.token, verdict }))
    };
    match call(run, number) {
        None if carry_out::is_unasked(run, number) => carry_out::asked_again(run, number, time),
        None => carry_out::of_answer(run, number, time),
        Some(Call::Judge(criteria)) => {
            criteria.into_iter().map(|place| verdict(judged(run, number, attempt, place))).collect()
        }
        Some(Call::Trust(criteria)) => criteria.into_iter().map(trust).map(verdict).collect(),
        Some(Call::Accept) => {
            let accepted = Accepted { basis: basis(run, number, attempt) };
            let mut events = vec![event(StepEvent::Accepted(accepted))];
            events.extend(variables(run, number, attempt));
            events
        }
        Some(Call::Decide(class, message, attempt)) => {
            let failure = Failure::of(run, number, attempt, class, message);
            failure.consequence(time)
        }
    }
}

fn basis(run: &Run, number: StepNumber, attempt: &Attempt) -> AcceptedBasis {
    if run.plan_step(number).is_none_or(|step| !step.has_acceptance()) {
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
    set_all(run, values, &Origin::Step { step: number, token: attempt.token })
}

fn set_all(run: &Run, values: BTreeMap<String, Json>, origin: &Origin) -> Vec<Event> {
    let set = |(name, value): (String, Json)| {
        let version = run.variables.get(&name).map_or(0, |variable| variable.version);
        Event::VariableSet(VariableSet {
            run: run.id,
            name,
            value,
            version: version.saturating_add(1),
            origin: origin.clone(),
            since: 0,
        })
    };
    values.into_iter().map(set).collect()
}

/// The values of a step's outputs. With an output that is a blob they are those that were taken
/// out of it when the receipt came.
fn outputs(step: CompactStep<'_>, output: &Output) -> BTreeMap<String, Json> {
    match output {
        Output::Inline(value) => declared(step.outputs(), value),
        Output::Blob(blob) => {
            let named = |(name, _): &&(String, Json)| step.outputs().contains(name);
            blob.values.iter().filter(named).cloned().collect()
        }
    }
}

/// The values of the outputs that a step declares, by their names: each its key of the output, or a single one
/// all of it.
pub(crate) fn declared<'a>(
    outputs: impl Iterator<Item = &'a str> + Clone,
    output: &Json,
) -> BTreeMap<String, Json> {
    let is_only = match outputs.clone().take(2).count() {
        0 => return BTreeMap::new(),
        count => count == 1,
    };
    let whole = output.value();
    let value_of = |name: &str| match whole.get(name) {
        Some(value) => Some(Json::new(value)),
        None if is_only => Some(output.clone()),
        None => None,
    };
    outputs.filter_map(|name| Some((name.to_owned(), value_of(name)?))).collect()
}
