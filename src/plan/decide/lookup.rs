//! Looks up runs and steps; rejects the command if they do not exist.

use crate::plan::event::step_status::StepStatus;
use crate::plan::rejection::Rejection;
use crate::plan::state::State;
use crate::plan::state::run::{Run, RunStatus};
use crate::plan::state::step_state::StepState;
use crate::plan::value::ids::{RunId, StepNumber};
use crate::plan::value::names::NameKind;

pub(crate) fn run_of(state: &State, run: RunId) -> Result<&Run, Rejection> {
    state.runs.get(&run).ok_or_else(|| match state.summaries.get(&run) {
        Some(summary) => Rejection::RunRetired(summary.ending),
        None => Rejection::NoSuchRun,
    })
}

/// Rejects an invalid name.
pub(crate) fn expect_name(kind: NameKind, name: &str) -> Result<(), Rejection> {
    kind.fault_in(name).map_or(Ok(()), |fault| Err(Rejection::InvalidName(fault)))
}

/// A run that has not ended.
pub(crate) fn open_run(state: &State, run: RunId) -> Result<&Run, Rejection> {
    let run = run_of(state, run)?;
    match run.status {
        RunStatus::Ended(ending) => Err(Rejection::RunHasEnded(ending)),
        RunStatus::Proposed | RunStatus::Running => Ok(run),
    }
}

/// A run that executes a plan.
pub(crate) fn running_run(state: &State, run: RunId) -> Result<&Run, Rejection> {
    let run = open_run(state, run)?;
    if run.status == RunStatus::Proposed { Err(Rejection::NoActivePlan) } else { Ok(run) }
}

/// A step of the active version.
pub(crate) fn step_of(run: &Run, number: StepNumber) -> Result<&StepState, Rejection> {
    run.step(number)
        .filter(|step| step.status != StepStatus::Removed)
        .ok_or(Rejection::NoSuchStep(number))
}

/// Why a step is not available: in flight, or in another status.
pub(crate) fn not_available(step: &StepState, number: StepNumber) -> Rejection {
    match step.attempt() {
        Some(attempt) if step.status == StepStatus::Dispatched => Rejection::Leased {
            step: number,
            worker: attempt.worker.clone(),
            lease_until: attempt.lease_until,
        },
        _ => Rejection::NotReady(number, step.status),
    }
}
