//! TODO

use crate::plan::event::step_status::StepStatus;
use crate::plan::rejection::Rejection;
use crate::plan::state::State;
use crate::plan::state::run::{Run, RunStatus};
use crate::plan::state::step_state::StepState;
use crate::plan::value::ids::{RunId, StepNumber};
use crate::plan::value::names::{Named, name_fault};

pub(crate) fn run_of(state: &State, run: RunId) -> Result<&Run, Rejection> {
    state.runs.get(&run).ok_or_else(|| match state.summaries.get(&run) {
        Some(summary) => Rejection::RunRetired(summary.ending),
        None => Rejection::NoSuchRun,
    })
}

/// That something new may be called that.
pub(crate) fn expect_name(of: Named, name: &str) -> Result<(), Rejection> {
    name_fault(of, name).map_or(Ok(()), |fault| Err(Rejection::BadName(fault)))
}

/// The run, if it has not ended.
pub(crate) fn open_run(state: &State, run: RunId) -> Result<&Run, Rejection> {
    let run = run_of(state, run)?;
    match run.status {
        RunStatus::Ended(ending) => Err(Rejection::RunHasEnded(ending)),
        RunStatus::Proposed | RunStatus::Running => Ok(run),
    }
}

/// The run, if it executes a plan.
pub(crate) fn running(state: &State, run: RunId) -> Result<&Run, Rejection> {
    let run = open_run(state, run)?;
    if run.status == RunStatus::Proposed { Err(Rejection::NoActivePlan) } else { Ok(run) }
}

/// A step of the active version.
pub(crate) fn step_of(run: &Run, number: StepNumber) -> Result<&StepState, Rejection> {
    run.step(number)
        .filter(|step| step.status != StepStatus::Removed)
        .ok_or(Rejection::NoSuchStep(number))
}

/// Why a step that somebody has in flight, or that is in a wrong status, may not be had.
pub(crate) fn not_available(step: &StepState, number: StepNumber) -> Rejection {
    match step.attempt() {
        Some(attempt) if step.status == StepStatus::Dispatched => Rejection::HeldBy {
            step: number,
            worker: attempt.worker.clone(),
            lease_until: attempt.lease_until,
        },
        _ => Rejection::NotReady(number, step.status),
    }
}
