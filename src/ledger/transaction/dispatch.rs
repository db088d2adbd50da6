//! Dispatches steps to workers.
//!
//! Invariant: everything that is due, and the backlog of earlier commands, is recorded first. A
//! worker therefore never learns that nothing is ready while a consequence is missing.

use crate::error::Result;
use crate::plan::{
    AttemptToken, Command, Event, Receipt, Rejection, RunId, State, StepEvent, StepNumber,
    StepStatus,
};

use super::backlog::Backlog;
use super::commit::status_of_attempt;
use super::definition::{CommandSource, Transaction};
use super::engine::Engine;
use super::task::{self, Task};
use super::tick::tick;

/// Dispatch the first step of a run's queue, if the condition holds; see [`crate::Ledger::dispatch`].
pub(crate) fn dispatch_if(
    engine: &Engine,
    run: RunId,
    worker: &str,
    condition: &dyn Fn(&State) -> bool,
) -> Result<Option<Task>> {
    let build = |state: &State| {
        let worker = worker.to_owned();
        let dispatch = Command::Dispatch { run, step: None, worker, lease: None };
        let nothing = Rejection::NothingReady { in_flight: 0, reported: 0, outcome_unknown: 0 };
        condition(state).then_some(dispatch).ok_or_else(|| nothing.into())
    };
    match dispatch(engine, &build, |_, task| task) {
        Ok(task) => Ok(task.map(|task| task::complete(engine, task))),
        Err(error) => match error.rejection() {
            Some(
                Rejection::NothingReady { .. }
                | Rejection::CapReached { .. }
                | Rejection::Paused(_)
                | Rejection::BudgetReserved(_)
                | Rejection::RunHasEnded(_)
                | Rejection::RunRetired(_),
            ) => Ok(None),
            _ => Err(error),
        },
    }
}

/// Dispatch one given step; see [`crate::Ledger::claim`].
pub(crate) fn claim(engine: &Engine, run: RunId, step: StepNumber, worker: &str) -> Result<Task> {
    let build = |_: &State| {
        let worker = worker.to_owned();
        Ok(Command::Dispatch { run, step: Some(step), worker, lease: None })
    };
    let dispatched = dispatch(engine, &build, |state, task| {
        task.ok_or_else(|| not_dispatched(state, run, step))
    })?;
    Ok(task::complete(engine, dispatched?))
}

/// See [`crate::Ledger::record_receipt_and_dispatch`].
pub(crate) fn record_receipt_and_dispatch(
    engine: &Engine,
    token: AttemptToken,
    receipt: Receipt,
    worker: &str,
) -> Result<(StepStatus, Option<Task>)> {
    let command = Command::RecordReceipt { token, receipt };
    let follow_up = |state: &State, events: &[Event]| next_dispatch(state, events, token, worker);
    let transaction = Transaction { follow_up: Some(&follow_up), ..Transaction::of(&command) };
    let (commit, (status, task)) = engine.transact(&transaction, |state, events| {
        (status_of_attempt(state, token), Task::dispatched(state, events))
    })?;
    if commit.rejects_receipt() {
        return Err(Rejection::StaleToken(token).into());
    }
    Ok((status, task.map(|task| task::complete(engine, task))))
}

/// The command that dispatches the next step of the run to a worker whose receipt was just recorded;
/// `None` if the receipt was rejected.
#[doc(hidden)]
pub fn next_dispatch(
    state: &State,
    events: &[Event],
    token: AttemptToken,
    worker: &str,
) -> Option<Command> {
    let is_recorded = |event: &Event| {
        matches!(event, Event::Step(record)
            if matches!(&record.event, StepEvent::ReceiptRecorded(event) if event.token == token))
    };
    let is_recorded = events.iter().any(is_recorded) || mutant!(RejectedReceiptDispatches);
    let (run, _) = state.dispatched.get(&token).filter(|_| is_recorded)?;
    Some(Command::Dispatch { run: *run, step: None, worker: worker.to_owned(), lease: None })
}

/// Record everything that is due, then execute a dispatch. `read` gets the task, if a step was
/// dispatched.
fn dispatch<T>(
    engine: &Engine,
    build: &dyn Fn(&State) -> Result<Command>,
    read: impl Fn(&State, Option<Task>) -> T,
) -> Result<T> {
    loop {
        tick(engine)?;
        let command = CommandSource::FromState(build);
        let transaction = Transaction { key: None, command, follow_up: None };
        let (_, (value, backlog)) = engine.transact(&transaction, |state, events| {
            let task = Task::dispatched(state, events);
            let backlog = if task.is_some() { Backlog::Empty } else { Backlog::of(events) };
            (read(state, task), backlog)
        })?;
        if backlog == Backlog::Empty {
            return Ok(value);
        }
    }
}

/// The rejection of a claim that was accepted but dispatched nothing, usually because it found that
/// a budget is used up and paused the run.
fn not_dispatched(state: &State, run: RunId, step: StepNumber) -> Rejection {
    let Some(run) = state.runs.get(&run) else { return Rejection::NoSuchRun };
    match (&run.pause, run.step(step)) {
        (Some(cause), _) => Rejection::Paused(cause.clone()),
        (None, Some(found)) => Rejection::NotReady(step, found.status),
        (None, None) => Rejection::NoSuchStep(step),
    }
}
