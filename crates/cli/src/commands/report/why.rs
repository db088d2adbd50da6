//! Why a step has its status, in one line.
//!
//! The line depends on the step and on its direct dependencies, so that a page can update it record by record. Reasons
//! that depend on other steps in flight, such as caps, are only in the explanation of the last record.

use plan_ledger::plan::{CompactStep, Dependency, Hold};
use plan_ledger::{Criterion, Ruling, Run, StepNumber, StepState, StepStatus};

use crate::output::phrase;
use plan_ledger_views::{barrier_text, basis_text, seconds, step_name};

/// Up to this many dependencies, the line names them: each record of one of them computes the line again.
const UNMET_MAX: u32 = 1_000;

/// Why a step has its status; empty if the status alone explains it.
pub(super) fn why(run: &Run, number: StepNumber) -> String {
    let Some(state) = run.step(number) else { return String::new() };
    match state.status {
        StepStatus::Accepted => state.accepted().map(basis_text).unwrap_or_default(),
        StepStatus::Waiting => waiting(run, number, state.hold()),
        StepStatus::Gated => match state.hold().question {
            Some(question) => format!("waits for the answer to question {}", question.0),
            None => "waits for a person".to_owned(),
        },
        StepStatus::Delayed => match state.hold().delay {
            Some(until) => format!("waits until {}", seconds(until)),
            None => "waits before the next attempt".to_owned(),
        },
        StepStatus::Dispatched => match state.attempt() {
            Some(attempt) => {
                format!("{} has it, lease until {}", attempt.worker, seconds(attempt.lease_until))
            }
            None => String::new(),
        },
        StepStatus::OutcomeUnknown => match state.attempt() {
            Some(attempt) => format!(
                "the attempt of {} was lost, and may have done its work: a person decides",
                attempt.worker
            ),
            None => "the last attempt was lost, and may have done its work".to_owned(),
        },
        StepStatus::Reported => reported(run, number, state),
        StepStatus::Failed | StepStatus::Ready => failure(state),
        _ => String::new(),
    }
}

fn waiting(run: &Run, number: StepNumber, hold: &Hold) -> String {
    let count = run.step(number).map_or(0, |step| step.unmet);
    if count > UNMET_MAX {
        return format!("waits for {count} steps");
    }
    let unmet = run.unmet_dependencies(number);
    let mut parts: Vec<_> =
        unmet.iter().take(NAMES_MAX).map(|dependency| dependency_text(run, dependency)).collect();
    if unmet.len() > NAMES_MAX {
        parts.push(format!("{} more", unmet.len() - NAMES_MAX));
    }
    let mut all = Vec::new();
    if !parts.is_empty() {
        all.push(format!("waits for {}", parts.join(", ")));
    }
    if hold.is_standby {
        all.push("is a fallback that no step uses yet".to_owned());
    }
    if let Some(fallback) = hold.fallback_step {
        all.push(format!("waits for its fallback {}", step_name(run, fallback)));
    }
    let fails = hold.preconditions.iter().filter(|(_, ruling)| **ruling == Ruling::Fail);
    all.extend(
        fails.map(|(place, _)| format!("precondition {} does not hold", u64::from(*place) + 1)),
    );
    all.join("; ")
}

fn dependency_text(run: &Run, dependency: &Dependency) -> String {
    match dependency {
        Dependency::Step(number) => {
            let status = run.step(*number).map_or(StepStatus::Removed, |step| step.status);
            match status {
                StepStatus::Failed | StepStatus::Removed | StepStatus::Cancelled => {
                    format!("{} ({status})", step_name(run, *number))
                }
                _ => step_name(run, *number),
            }
        }
        Dependency::Barrier(id) => {
            let text = run.barrier(id).map(barrier_text).unwrap_or_default();
            format!("barrier {id} ({text})")
        }
        Dependency::Unknown(id) => format!("{id} (unknown)"),
    }
}

fn reported(run: &Run, number: StepNumber, state: &StepState) -> String {
    let criteria = run.plan_step(number).map(CompactStep::acceptance).unwrap_or_default();
    let judged = |index: u32| state.attempt().is_some_and(|it| it.verdicts.contains_key(&index));
    let open: Vec<_> = (0_u32..).zip(&criteria).filter(|(index, _)| !judged(*index)).collect();
    let numbers: Vec<_> = open.iter().map(|(index, _)| (index + 1).to_string()).collect();
    let for_person = open.iter().all(|(_, criterion)| matches!(criterion, Criterion::Text(_)));
    match numbers.as_slice() {
        [] => failure(state),
        [one] if for_person => format!("criterion {one} waits for a judge"),
        [one] => format!("criterion {one} is not judged yet"),
        all if for_person => format!("criteria {} wait for a judge", all.join(", ")),
        all => format!("criteria {} are not judged yet", all.join(", ")),
    }
}

/// The last failure, if any.
fn failure(state: &StepState) -> String {
    let last = state.last_failure();
    last.map_or_else(String::new, |(class, message)| match message.lines().next() {
        Some(first) => format!("last failure: {}: {first}", phrase(class)),
        None => format!("last failure: {}", phrase(class)),
    })
}

/// The most names in a cell.
pub(super) const NAMES_MAX: usize = 5;
