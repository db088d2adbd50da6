//! Dispatches steps to workers.
//!
//! Invariant: due events, and the backlog of earlier commands, are recorded first. A worker
//! therefore never learns that nothing is ready while a consequence is missing.

use crate::error::{Error, Result};
use crate::ledger::blobs::KeepOutput;
use crate::plan::{
    AttemptToken, Command, Event, Proof, Receipt, Rejection, Route, RunId, Secret, State,
    StepEvent, StepNumber, StepStatus, Token, WorkerProcess,
};

use super::commit::{status_of_attempt, step_of_attempt};
use super::engine::Engine;
use super::execution::Transaction;
use super::repeated_receipt::EarlierReceipt;
use super::submit::CommitOptions;
use super::submitted::Submitted;
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
    let read = |transaction: &Transaction<'_>| {
        let (state, events) = (transaction.state(), transaction.events());
        (status_of_attempt(state, token.seq), Task::dispatched(state, events, secret))
    };
    let options = CommitOptions::default();
    let route = Route::default();
    let next = Some(NextClaim { worker, route: &route, secret, process: None });
    let proven = (token.seq, token.into());
    let submitted = submit_receipt::<_, Error>(engine, options, proven, receipt, next, read);
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

/// Submit a receipt and, if there is a next worker, dispatch the next step of the same run to it in
/// the same commit. `read` reads the result. The receipt that the attempt has already is accepted again
/// without a record.
pub(crate) fn submit_receipt<'a, T, E: From<Error>>(
    engine: &'a Engine,
    options: CommitOptions<'_>,
    (token, proof): (AttemptToken, Proof),
    receipt: Receipt,
    next_claim: Option<NextClaim<'_>>,
    mut read: impl FnMut(&Transaction<'_>) -> T,
) -> Submitted<'a, T, E> {
    let earlier = match earlier_receipt(engine, token) {
        Ok(earlier) => earlier,
        Err(error) => return Submitted::failed(engine, error.into()),
    };
    let earlier = engine.receipts.get(token).unwrap_or(earlier);
    // No output of a receipt that will be rejected fills the disk.
    let keep = match is_rejected(engine, token, earlier) {
        Ok(false) => KeepOutput::Stored,
        Ok(true) => KeepOutput::Compared,
        Err(error) => return Submitted::failed(engine, error.into()),
    };
    let command = Command::RecordReceipt { token, proof, receipt };
    engine.submit_command(options, &command, keep, |transaction, command| {
        let Command::RecordReceipt { receipt, .. } = command else { return Ok(read(transaction)) };
        if !transaction.state().is_proven(token, proof) {
            return Err(Error::from(Rejection::StaleToken(token)).into());
        }
        let is_in_flight = transaction.state().in_flight.contains_key(&token);
        let earlier = engine.receipts.get(token).unwrap_or(earlier);
        let is_repeated = !is_in_flight && earlier.is(receipt);
        if !is_repeated {
            if !is_in_flight && earlier.is_full() && !transaction.is_repetition() {
                return Err(Error::from(Rejection::StaleToken(token)).into());
            }
            transaction.run(command)?;
        }
        match (is_in_flight, transaction.is_repetition()) {
            (true, false) => engine.receipts.add(token, receipt),
            (false, false) if !is_repeated => engine.receipts.add_late(token),
            _ => {}
        }
        if let Some(NextClaim { worker, route, secret, process }) = next_claim
            && let Some(run) = run_of_receipt(transaction, token, is_repeated)
        {
            let (worker, route) = (worker.to_owned(), route.clone());
            let (lease, secret) = (None, secret.hash());
            let process = process.cloned();
            let next = Command::Dispatch { process, run, step: None, worker, route, lease, secret };
            // The receipt is recorded whether or not a step can be dispatched.
            let _ = transaction.run(&next);
        }
        Ok(read(transaction))
    })
}

/// Whether no more receipts of an attempt are recorded: it is over, and too many receipts came
/// late.
fn is_rejected(engine: &Engine, token: AttemptToken, earlier: EarlierReceipt) -> Result<bool> {
    if !earlier.is_full() {
        return Ok(false);
    }
    let mut shared = engine.lock()?;
    shared.refresh(&engine.log)?;
    Ok(!shared.state.in_flight.contains_key(&token))
}

/// The recorded receipt of an attempt that is no longer in flight, unless this process remembers
/// it.
fn earlier_receipt(engine: &Engine, token: AttemptToken) -> Result<EarlierReceipt> {
    match unremembered_attempt(engine, token)? {
        Some(last) => {
            // A reader sees durable records only, and reads them backwards from the last one.
            if last > engine.log.last_durable().seq {
                engine.flush()?;
            }
            EarlierReceipt::find(&engine.reader()?, last, token)
        }
        None => Ok(EarlierReceipt::default()),
    }
}

/// Whether a receipt of this attempt comes late, and must be compared with one in the log, which
/// takes time.
pub(crate) fn must_read_receipt(engine: &Engine, token: AttemptToken) -> Result<bool> {
    unremembered_attempt(engine, token).map(|last| last.is_some())
}

/// The last record of the step, for an attempt that is no longer in flight and has no remembered
/// receipt.
fn unremembered_attempt(engine: &Engine, token: AttemptToken) -> Result<Option<u64>> {
    if engine.receipts.get(token).is_some() {
        return Ok(None);
    }
    let mut shared = engine.lock()?;
    shared.refresh(&engine.log)?;
    let state = &shared.state;
    if state.in_flight.contains_key(&token) {
        return Ok(None);
    }
    Ok(step_of_attempt(state, token).map(|step| step.last_seq))
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
        let submitted = engine.submit(CommitOptions::default(), |transaction| {
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
