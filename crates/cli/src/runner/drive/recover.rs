//! Recovery: handles attempts that an earlier runner left in flight.
//!
//! Invariants:
//! - A worker that is still at work is taken over. With `--kill-orphans` it is killed, unless its step must not be done
//!   twice: after a kill the outcome would be unknown. If its supervisor is gone, the worker cannot be taken over, and
//!   the runner waits for it.
//! - A result that a worker left is recorded, and its files are deleted only then.
//! - An attempt is recorded as lost only after its worker is known to be dead. Attempts of workers
//!   without a runner keep their leases, and so do attempts that a runner on another machine may
//!   host. A stub worker is part of its runner, which can no longer write.

use std::path::Path;
use std::thread;
use std::time::Duration;

use plan_ledger::plan::{Idempotence, Micros, Proof};
use plan_ledger::{
    AttemptToken, Command, Error, ErrorKind, Ledger, LostCause, Receipt, Result, Run, RunId, State,
    StepNumber, StepStatus,
};

use crate::protocol::hand_off::describe;
use crate::protocol::{StepName, WorkerKind};
use crate::runner::check_lock::end_left_checks;
use crate::runner::process::{LeftBehind, ProcessOptions, ProcessWorkers, unusable};
use crate::runner::progress::{Observer, Progress, StopRequest};
use crate::runner::workers::{LeftAttempt, Workers};

/// The remains of an earlier runner.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Attempts that were recorded as lost.
    pub lost: u32,
    /// Receipts that were recorded for it.
    pub receipts: u32,
    /// The attempts with workers that were taken over.
    pub adopted: Vec<AttemptToken>,
}

/// The treatment of the workers of an earlier runner that are still at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftWorkers {
    /// They are taken over.
    Adopt,
    /// They are killed, except those on steps that must not be done twice, which are taken over.
    Kill,
    /// They are left at work: their run has no runner now.
    Leave,
}

/// Record the results that the in-flight attempts of an earlier runner left. Once their workers are known to be dead,
/// record the other attempts as lost; then resolve the unknown outcomes that these workers can resolve.
///
/// No other thread of this process may drive the run during this call.
pub fn recover(
    ledger: &Ledger,
    run: RunId,
    workers: &mut dyn Workers,
    observer: &mut dyn Observer,
    left: LeftWorkers,
) -> Result<Recovered> {
    let adopted = adopt(ledger, run, workers, observer, left)?;
    let mut recovered = Recovered { adopted, ..Recovered::default() };
    let unrepeatable = unrepeatable_at_work(ledger, run, workers, &recovered.adopted)?;
    if !unrepeatable.is_empty() {
        if left == LeftWorkers::Kill {
            // They would work on, perhaps for hours, while this one waits.
            let tokens: Vec<AttemptToken> = unrepeatable.iter().map(|(token, _)| *token).collect();
            workers.kill_left(&tokens)?;
        }
        wait_for_unrepeatable(ledger, run, workers, observer, &unrepeatable)?;
    }
    workers.confirm_dead()?;
    let notes = workers.notes();
    let state = ledger.state()?;
    for (token, (_, number)) in state.in_flight.iter().filter(|(_, (of, _))| *of == run) {
        if recovered.adopted.contains(token) {
            continue;
        }
        let Some(the_run) = state.runs.get(&run) else { continue };
        let attempt = the_run.step(*number).and_then(|step| step.attempt());
        let Some(attempt) = attempt.filter(|attempt| WorkerKind::hosted(&attempt.worker)) else {
            continue;
        };
        let is_process = !WorkerKind::Stub.has_hosted(&attempt.worker);
        let step = StepName::of(the_run, *number);
        if let Some(receipt) = left_receipt(workers, the_run, *number, *token) {
            let status = record_left(ledger, *token, &receipt)?;
            recovered.receipts += 1;
            let (outcome, message) = describe(&receipt.outcome);
            let (token, duration) = (*token, receipt.duration);
            observer.progress(&Progress::Noted {
                step: Some(step.clone()),
                note: "its worker had ended, and its runner had not recorded the result".to_owned(),
            });
            observer.progress(&Progress::Receipt {
                step,
                token,
                outcome,
                message,
                duration,
                status,
            });
            continue;
        }
        if is_process && workers.may_be_elsewhere(*token) {
            let note =
                "its worker may be at work on another machine: it keeps its lease".to_owned();
            observer.progress(&Progress::Noted { step: Some(step), note });
            continue;
        }
        let note = notes.iter().find(|note| note.token == Some(*token));
        let note = note.map(|note| format!("; it {}", note.text)).unwrap_or_default();
        let detail = format!("its runner ended before the worker reported{note}");
        ledger.report_lost(*token, LostCause::RunnerDied, &detail)?;
        recovered.lost += 1;
        observer.progress(&Progress::Lost {
            step,
            token: *token,
            detail,
            status: status_of(&*ledger.state()?, run, *number),
        });
    }
    record_late(ledger, &state, run, workers)?;
    workers.forget_left()?;
    // These processes belong to attempts that are over, or to checks.
    for note in notes.iter().filter(|note| !is_in_flight(&state, run, note.token)) {
        let note = format!("an attempt or a check of an earlier runner {}", note.text);
        observer.progress(&Progress::Noted { step: None, note });
    }
    let left_checks = workers.shared_folder().map(end_left_checks).unwrap_or_default();
    for note in left_checks {
        observer.progress(&Progress::Noted { step: None, note });
    }
    if let Some(finding) = workers.resolve_outcome() {
        let by = workers.kind().judge().to_owned();
        let outcome_unknown = ledger
            .state()?
            .runs
            .get(&run)
            .map(|run| run.outcome_unknown.clone())
            .unwrap_or_default();
        for step in outcome_unknown {
            let (by, evidence) = (by.clone(), String::new());
            ledger.execute(&Command::ResolveOutcome { run, step, finding, by, evidence })?;
        }
    }
    Ok(recovered)
}

/// Take over the workers of an earlier runner that are still at work.
fn adopt(
    ledger: &Ledger,
    run: RunId,
    workers: &mut dyn Workers,
    observer: &mut dyn Observer,
    left_workers: LeftWorkers,
) -> Result<Vec<AttemptToken>> {
    let state = ledger.state()?;
    let mut adopted = Vec::new();
    let Some(the_run) = state.runs.get(&run) else { return Ok(adopted) };
    for (token, (_, number)) in state.in_flight.iter().filter(|(_, (of, _))| *of == run) {
        let Some(left) = left_attempt(the_run, *number, *token) else { continue };
        let Some((plan, plan_step)) = the_run.plan().zip(the_run.plan_step(*number)) else {
            continue;
        };
        let is_killed = left_workers == LeftWorkers::Kill;
        if is_killed && left.idempotence != Idempotence::No || !workers.adopt(left) {
            continue;
        }
        // Its lease may have expired in the meantime: no other worker has the step.
        ledger.renew_hosted(*token)?;
        adopted.push(*token);
        if left_workers == LeftWorkers::Leave {
            continue;
        }
        let limit = plan_step.timeout_seconds().or(plan.header().defaults.timeout_seconds);
        let limit = if limit.is_some() { "" } else { ", without a time limit" };
        let why = if is_killed { ", and the step must not be done twice" } else { "" };
        observer.progress(&Progress::Noted {
            step: Some(StepName::of(the_run, *number)),
            note: format!(
                "the worker of an earlier runner is still at work{limit}{why}: taken over"
            ),
        });
    }
    Ok(adopted)
}

/// An attempt in flight, if its worker is a process that a runner hosted.
fn left_attempt(run: &Run, number: StepNumber, token: AttemptToken) -> Option<LeftAttempt> {
    let step = run.step(number)?;
    let worker = &step.attempt()?.worker;
    if !WorkerKind::hosted(worker) || WorkerKind::Stub.has_hosted(worker) {
        return None;
    }
    let (plan, plan_step) = run.plan().zip(run.plan_step(number))?;
    Some(LeftAttempt {
        token,
        number: step.attempts,
        idempotence: plan.idempotence_of(plan_step),
        has_retry: plan_step.decode().retry.is_some(),
        repeat_limit: plan_step.repeat_limit().or(plan.header().defaults.repeat_limit),
        changes: plan_step.changes().owned(),
    })
}

/// For how long the lease of a worker without a runner is renewed.
const KEPT_LEASE: Micros = 60_000_000;

/// A lease that ends sooner than this is renewed.
const KEPT_MARGIN: Micros = 10_000_000;

/// Keep the results of the workers of a dead runner without taking the workers over: a result is
/// recorded, and the lease of a worker at work does not end. The caller has the lock of the ledger,
/// and is not a runner, except of that run.
pub(crate) fn keep_left(ledger: &Ledger, dir: &Path, except: Option<RunId>) -> Result<()> {
    plan_ledger::mutant!(LeftWorkerExpires => return Ok(()));
    let state = ledger.state()?;
    let failed = |error| Error::io("find the folder of the workers", dir, error);
    for (token, (run, number)) in &state.in_flight {
        let the_run = state.runs.get(run).filter(|_| Some(*run) != except);
        let Some(the_run) = the_run else { continue };
        let Some(left) = left_attempt(the_run, *number, *token) else { continue };
        let options = ProcessOptions {
            ledger: std::path::absolute(dir).map_err(failed)?,
            run: *run,
            worker: None,
        };
        let mut workers = ProcessWorkers::new(options);
        let kept = match workers.left_behind(left) {
            LeftBehind::Result(receipt) => record_left(ledger, *token, &receipt).map(|_| {
                workers.settled(*token);
            }),
            LeftBehind::AtWork => {
                let attempt = the_run.step(*number).and_then(|step| step.attempt());
                let until = attempt.map_or(0, |attempt| attempt.lease_until);
                if until > ledger.now().saturating_add(KEPT_MARGIN) {
                    continue;
                }
                let (token, proof, lease) = (*token, Proof::LockHolder, Some(KEPT_LEASE));
                ledger.execute(&Command::Renew { token, proof, lease }).map(drop)
            }
            LeftBehind::Nothing => Ok(()),
        };
        match kept {
            Err(error) if error.rejection().is_none() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// How long such a worker is waited for if its step has no time limit.
const WAIT_MAX: Micros = 600_000_000;

/// The pause between two checks of a worker of an earlier runner.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// The workers of an earlier runner that are still at work on steps which must not be done twice.
fn unrepeatable_at_work(
    ledger: &Ledger,
    run: RunId,
    workers: &dyn Workers,
    adopted: &[AttemptToken],
) -> Result<Vec<(AttemptToken, StepNumber)>> {
    let state = ledger.state()?;
    let Some(the_run) = state.runs.get(&run) else { return Ok(Vec::new()) };
    let is_waited_for = |token: AttemptToken, number: StepNumber| {
        let attempt = the_run.step(number).and_then(|step| step.attempt());
        let found = the_run.plan().zip(the_run.plan_step(number));
        attempt.is_some_and(|attempt| WorkerKind::hosted(&attempt.worker))
            && found.is_some_and(|(plan, step)| plan.idempotence_of(step) == Idempotence::No)
            && workers.is_left_at_work(token)
            && !plan_ledger::mutant!(LiveWorkerKilled)
    };
    let of_run = state.in_flight.iter().filter(|(_, (of, _))| *of == run);
    let tokens = of_run.map(|(token, (_, number))| (*token, *number));
    Ok(tokens
        .filter(|(token, number)| !adopted.contains(token) && is_waited_for(*token, *number))
        .collect())
}

/// Wait for the workers of an earlier runner that must not be interrupted, because their steps must
/// not be repeated, up to the time limit of each step.
fn wait_for_unrepeatable(
    ledger: &Ledger,
    run: RunId,
    workers: &mut dyn Workers,
    observer: &mut dyn Observer,
    unrepeatable: &[(AttemptToken, StepNumber)],
) -> Result<()> {
    let state = ledger.state()?;
    let Some(the_run) = state.runs.get(&run) else { return Ok(()) };
    for (token, number) in unrepeatable {
        let attempt = the_run.step(*number).and_then(|step| step.attempt());
        let Some(attempt) = attempt else { continue };
        let Some((plan, step)) = the_run.plan().zip(the_run.plan_step(*number)) else { continue };
        let limit = step.timeout_seconds().or(plan.header().defaults.timeout_seconds);
        let limit = limit.map(|seconds| u64::from(seconds).saturating_mul(1_000_000));
        let until = match limit {
            Some(limit) => attempt.dispatched.saturating_add(limit),
            None => ledger.now().saturating_add(WAIT_MAX),
        };
        let step = StepName::of(the_run, *number);
        let note =
            "its worker is still at work, and the step must not be done twice: waiting for it";
        observer.progress(&Progress::Noted { step: Some(step.clone()), note: note.to_owned() });
        let mut renew_at = 0;
        while workers.is_left_at_work(*token) && ledger.now() < until {
            if observer.stop_request() != StopRequest::None {
                let message = format!("{step}: its worker is still at work, and continues");
                return Err(Error::new(ErrorKind::Locked, message));
            }
            if renew_at <= ledger.now() {
                // The ledger rejects this if the lease has expired: then the loop checks again.
                let _ = ledger.execute(&Command::Renew {
                    proof: Proof::LockHolder,
                    token: *token,
                    lease: None,
                });
                renew_at = ledger.now().saturating_add(10_000_000);
            }
            thread::sleep(LOOK_INTERVAL);
        }
    }
    Ok(())
}

/// The receipt that a worker of an earlier runner left.
fn left_receipt(
    workers: &mut dyn Workers,
    run: &Run,
    number: StepNumber,
    token: AttemptToken,
) -> Option<Receipt> {
    let found = run.plan().zip(run.plan_step(number));
    let idempotence = found.map_or(Idempotence::No, |(plan, step)| plan.idempotence_of(step));
    let changes = found.map(|(_, step)| step.changes().owned()).unwrap_or_default();
    workers.left_receipt(token, idempotence, &changes)
}

/// Record the receipt that a worker of an earlier runner left.
fn record_left(ledger: &Ledger, token: AttemptToken, receipt: &Receipt) -> Result<StepStatus> {
    match ledger.record_hosted_receipt(token, receipt.clone()) {
        Err(error) if error.kind() == ErrorKind::TooLarge => {
            let message = format!("its receipt is too large: {error}; name an artifact");
            ledger.record_hosted_receipt(token, unusable(message, receipt))
        }
        recorded => recorded,
    }
}

/// Record the receipts that earlier workers left after their attempts were over. The ledger refuses and keeps them; a
/// receipt that it already has changes nothing.
fn record_late(
    ledger: &Ledger,
    state: &State,
    run: RunId,
    workers: &mut dyn Workers,
) -> Result<()> {
    for token in workers.left_attempts() {
        let Some((of, number, _)) = state.dispatched.get(&token) else { continue };
        let Some(the_run) = state.runs.get(&run).filter(|_| *of == run) else { continue };
        if is_in_flight(state, run, Some(token)) {
            continue;
        }
        let Some(receipt) = left_receipt(workers, the_run, *number, token) else { continue };
        match record_left(ledger, token, &receipt) {
            Err(error) if error.rejection().is_none() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn is_in_flight(state: &State, run: RunId, token: Option<AttemptToken>) -> bool {
    token.and_then(|token| state.in_flight.get(&token)).is_some_and(|(of, _)| *of == run)
}

/// The current status of a step.
pub(crate) fn status_of(state: &State, run: RunId, number: StepNumber) -> StepStatus {
    let step = state.runs.get(&run).and_then(|run| run.step(number));
    step.map_or(StepStatus::Removed, |step| step.status)
}
