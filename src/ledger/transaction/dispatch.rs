//! Dispatches steps to workers.
//!
//! Invariant: due events, and the backlog of earlier commands, are recorded first. A worker
//! therefore never learns that nothing is ready while a consequence is missing.

use crate::error::{Error, Result};
use crate::plan::{
    AttemptToken, Command, Event, Receipt, Rejection, Route, RunId, Secret, State, StepEvent,
    StepNumber, StepStatus, Token, WorkerProcess,
};

use super::commit::status_of_attempt;
use super::engine::Engine;
use super::execution::Transaction;
use super::prepared::Prepared;
use super::submit::CommitOptions;
use super::task::{self, Task};
use super::tick::tick;

/// Dispatch the first step of a run's queue, if the condition holds; see [`crate::Ledger::dispatch`].
/// If nothing can be dispatched now, the inner error has the reason, unless the command was accepted
/// and paused the run.
pub(crate) fn try_dispatch(
    engine: &Engine,
    run: RunId,
    (worker, route): (&str, &Route),
    condition: &dyn Fn(&State) -> bool,
) -> Result<std::result::Result<Task, Option<Rejection>>> {
    let secret = engine.environment.new_secret();
    let build = |state: &State| {
        let (worker, route) = (worker.to_owned(), route.clone());
        let (lease, secret) = (None, secret.hash());
        let dispatch =
            Command::Dispatch { process: None, run, step: None, worker, route, lease, secret };
        let nothing = Rejection::NothingReady { in_flight: 0, reported: 0, outcome_unknown: 0 };
        condition(state).then_some(dispatch).ok_or_else(|| nothing.into())
    };
    match dispatch(engine, secret, &build, |_, task| task) {
        Ok(task) => Ok(task.map(|task| task::complete(engine, task)).ok_or(None)),
        Err(error) => match error.rejection() {
            Some(
                rejection @ (Rejection::NothingReady { .. }
                | Rejection::NoneForWorker { .. }
                | Rejection::CapReached { .. }
                | Rejection::Paused(_)
                | Rejection::HeldForReplan { .. }
                | Rejection::BudgetReserved(_)
                | Rejection::RunHasEnded(_)
                | Rejection::RunRetired(_)),
            ) => Ok(Err(Some(rejection.clone()))),
            _ => Err(error),
        },
    }
}

/// Dispatch one given step; see [`crate::Ledger::claim`].
pub(crate) fn claim(engine: &Engine, run: RunId, step: StepNumber, worker: &str) -> Result<Task> {
    let secret = engine.environment.new_secret();
    let build = |_: &State| {
        let (worker, route) = (worker.to_owned(), Route::default());
        let (lease, secret) = (None, secret.hash());
        Ok(Command::Dispatch { process: None, run, step: Some(step), worker, route, lease, secret })
    };
    let dispatched = dispatch(engine, secret, &build, |state, task| {
        task.ok_or_else(|| not_dispatched(state, run, step))
    })?;
    Ok(task::complete(engine, dispatched?))
}

/// See [`crate::Ledger::record_receipt_and_dispatch`].
pub(crate) fn record_receipt_and_dispatch(
    engine: &Engine,
    token: Token,
    receipt: Receipt,
    worker: &str,
) -> Result<(StepStatus, Option<Task>)> {
    let secret = engine.environment.new_secret();
    let command = Command::RecordReceipt { token: token.seq, proof: token.into(), receipt };
    let options = CommitOptions { command: Some(&command), ..CommitOptions::default() };
    let route = Route::default();
    let next = NextClaim { worker, route: &route, secret, process: None };
    let submitted = engine.transact(options, |transaction| {
        transaction.record_receipt(Some(&next))?;
        let (state, events) = (transaction.state(), transaction.events());
        let task = Task::dispatched(state, events, secret);
        Ok::<_, Error>((status_of_attempt(state, token.seq), task))
    });
    let (commit, (status, task)) = submitted.wait_commit()?;
    if commit.rejects_receipt() {
        return Err(Rejection::StaleToken(token.seq).into());
    }
    Ok((status, task.map(|task| task::complete(engine, task))))
}

/// The claim of the next step that comes with a receipt.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct NextClaim<'a> {
    /// The worker of the next step.
    pub worker: &'a str,
    /// The steps that it takes.
    pub route: &'a Route,
    /// The secret of the next token.
    pub secret: Secret,
    /// The process of the worker, if the attempt ends with it.
    pub process: Option<&'a WorkerProcess>,
}

impl Transaction<'_> {
    /// Record the receipt of the options and, if there is a next claim, dispatch the next step of the
    /// same run to its worker. The receipt that the attempt has already is accepted again without a
    /// record.
    ///
    /// # Errors
    /// As [`Transaction::run`]: then nothing is dispatched.
    #[doc(hidden)]
    pub fn record_receipt(&mut self, next_claim: Option<&NextClaim<'_>>) -> Result<()> {
        let Some(Prepared { command, earlier, receipts }) = self.prepared() else { return Ok(()) };
        let Command::RecordReceipt { token, proof, receipt } = &**command else {
            return self.run(command);
        };
        let token = *token;
        if !self.state().is_proven(token, *proof) {
            return Err(Rejection::StaleToken(token).into());
        }
        let is_in_flight = self.state().in_flight.contains_key(&token);
        let earlier = receipts.get(token).unwrap_or(*earlier);
        let is_repeated = !is_in_flight && earlier.is(receipt);
        if !is_repeated {
            if !is_in_flight && earlier.is_full() && !self.is_repetition() {
                return Err(Rejection::StaleToken(token).into());
            }
            self.run(command)?;
        }
        match (is_in_flight, self.is_repetition()) {
            (true, false) => receipts.add(token, receipt),
            (false, false) if !is_repeated => receipts.add_late(token),
            _ => {}
        }
        if let Some(NextClaim { worker, route, secret, process }) = next_claim
            && let Some(run) = run_of_receipt(self, token, is_repeated)
        {
            let (worker, route) = ((*worker).to_owned(), (*route).clone());
            let (lease, secret) = (None, secret.hash());
            let process = process.cloned();
            let next = Command::Dispatch { process, run, step: None, worker, route, lease, secret };
            // The receipt is recorded whether or not a step can be dispatched.
            let _ = self.run(&next);
        }
        Ok(())
    }
}

/// The run of an attempt with a recorded receipt; `None` if the receipt was rejected.
fn run_of_receipt(
    transaction: &Transaction<'_>,
    token: AttemptToken,
    is_repeated: bool,
) -> Option<RunId> {
    let is_recorded = |(_, event): &(u64, Event)| {
        matches!(event, Event::Step(record)
            if matches!(&record.event, StepEvent::ReceiptRecorded(event) if event.token == token))
    };
    let is_recorded = is_repeated
        || transaction.events().iter().any(is_recorded)
        || mutant!(RejectedReceiptDispatches);
    let (run, ..) = transaction.state().dispatched.get(&token).filter(|_| is_recorded)?;
    Some(*run)
}

/// Record everything that is due, then execute a dispatch. `read` gets the task, if a step was
/// dispatched.
fn dispatch<T>(
    engine: &Engine,
    secret: Secret,
    build: &dyn Fn(&State) -> Result<Command>,
    read: impl Fn(&State, Option<Task>) -> T,
) -> Result<T> {
    loop {
        tick(engine)?;
        let submitted = engine.transact(CommitOptions::default(), |transaction| {
            transaction.run_with(build)?;
            let (state, events) = (transaction.state(), transaction.events());
            let task = Task::dispatched(state, events, secret);
            let must_repeat = task.is_none() && !transaction.is_settled();
            Ok::<_, Error>((read(state, task), must_repeat))
        });
        let (value, must_repeat) = submitted.wait()?;
        if !must_repeat {
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
