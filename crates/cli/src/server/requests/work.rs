//! Requests of workers: claim, renew, release, receipt, effect.
//!
//! A claim has one winner; the response to the others names the winner and the expiry of its lease.
//! A receipt is recorded whether or not a next step is ready, and a rejected receipt dispatches no
//! step.

use serde_json::{Value, json};

use crate::runner::{WorkerKind, receipt_of_json};
use plan_ledger::error::Error;
use plan_ledger::ledger::{Task, Transaction, time_text};
use plan_ledger::plan::{
    Attempt, AttemptToken, Command, Event, LostCause, Micros, NameKind, Rejection, Run, RunStatus,
    State, StepEvent, StepNumber, StepState, Timestamp, decide,
};

use super::context::RequestContext;
use super::find::{
    attempt_of, check_name, name, run_or_only, status, step_json, step_to_change, with,
};
use super::pending_answer::PendingAnswer;
use crate::protocol::{Answer, Code, EffectState, Failure, NextStep, Work, counted};

/// Dispatches a step.
pub(crate) fn claim(
    context: RequestContext<'_, '_>,
    (run, step): (Option<&str>, Option<&str>),
    worker: &str,
    lease_seconds: Option<u32>,
) -> Result<PendingAnswer, Failure> {
    check_worker(worker)?;
    let lease = lease(lease_seconds)?;
    // Record expired leases first, since they may make steps ready.
    context.tick()?;
    let make = |state: &State| {
        let run = run_or_only(state, run)?;
        let step = step.map(|step| step_to_change(run, step)).transpose()?;
        Ok(Command::Dispatch { run: run.id, step, worker: worker.to_owned(), lease })
    };
    let why = match context.execute(&make, Task::dispatched) {
        Ok(Some(task)) => {
            return Ok(PendingAnswer::Dispatched(
                Answer::default(),
                Box::new(task),
                worker.to_owned(),
            ));
        }
        // The commit paused the run because of its budget, or recorded only consequences of an
        // earlier batch.
        Ok(None) => None,
        Err(Failure::Ledger(error)) if is_nothing(&error) => Some(error),
        Err(failure) => return Err(failure),
    };
    let why_not = |state: &State| {
        Ok(PendingAnswer::Complete(nothing(state, run_or_only(state, run)?, why.as_ref())))
    };
    context.read(why_not)?
}

/// Rejects names that are reserved for a runner's own workers. When such a runner has died, its
/// attempts are recorded as lost, so other workers must not use these names.
fn check_worker(worker: &str) -> Result<(), Failure> {
    check_name(NameKind::Worker, worker)?;
    if WorkerKind::hosted(worker) {
        let message =
            format!("`{worker}` is reserved for workers of a runner; choose another name");
        return Err(Failure::Usage(message));
    }
    Ok(())
}

/// The requested lease in microseconds.
fn lease(seconds: Option<u32>) -> Result<Option<Micros>, Failure> {
    match seconds {
        Some(0) => Err(Failure::Usage("a lease lasts at least one second".to_owned())),
        seconds => Ok(seconds.map(|seconds| Micros::from(seconds).saturating_mul(1_000_000))),
    }
}

/// Whether the error means that nothing can be dispatched now, which is a regular response. A claim
/// of a given step gets this response while the step may still become ready; if the step is settled
/// or claimed, the claim is rejected.
fn is_nothing(error: &Error) -> bool {
    match error.rejection() {
        Some(Rejection::NotReady(_, status)) => status.is_remaining(),
        Some(
            Rejection::NothingReady { .. }
            | Rejection::CapReached { .. }
            | Rejection::Paused(_)
            | Rejection::BudgetReserved(_)
            | Rejection::NoActivePlan
            | Rejection::RunHasEnded(_),
        ) => true,
        _ => false,
    }
}

/// The maximum number of claims in a message.
const NAMED_MAX: usize = 3;

/// The response if nothing can be dispatched, with the active claims.
fn nothing(state: &State, run: &Run, why: Option<&Error>) -> Answer {
    let is_over = matches!(run.status, RunStatus::Ended(_));
    let written = if run.pause.is_some() { "paused" } else { "nothing_ready" };
    let reason = why.and_then(Error::rejection).map_or(written, Rejection::name);
    let message = match (why, &run.pause) {
        (Some(error), _) => error.to_string(),
        (None, Some(cause)) => Rejection::Paused(cause.clone()).to_string(),
        (None, None) => "nothing is ready".to_owned(),
    };
    let held: Vec<_> = claimed_steps(state, run).collect();
    let held_json = held.iter().map(|(number, step, attempt)| {
        json!({
            "step": step.id(), "number": number.0, "worker": attempt.worker,
            "lease_until_micros": attempt.lease_until,
        })
    });
    let code = if is_over { Code::Failed } else { Code::Waiting };
    let line = json!({
        "type": "nothing", "run": run.name, "status": status(Some(run)), "reason": reason,
        "message": message, "in_flight": run.in_flight, "held": held_json.collect::<Vec<_>>(),
        "next_due_micros": state.next_due().filter(|_| !is_over),
    });
    let mut messages = vec![format!("run {}: nothing to dispatch: {message}", run.name)];
    messages.extend(held.iter().take(NAMED_MAX).map(|(number, step, attempt)| {
        let until = time_text(attempt.lease_until);
        format!("step {number} ({}) is claimed by {} until {until}", step.id(), attempt.worker)
    }));
    if held.len() > NAMED_MAX {
        let more = u64::try_from(held.len() - NAMED_MAX).unwrap_or(u64::MAX);
        messages.push(format!("and {} by others: `ledger inspect queue`", counted(more, "step")));
    }
    Answer { code: code.number(), lines: vec![line], text: String::new(), messages }
}

/// The claimed steps of a run.
fn claimed_steps<'a>(
    state: &'a State,
    run: &'a Run,
) -> impl Iterator<Item = (StepNumber, &'a StepState, &'a Attempt)> {
    let of_run = state.in_flight.values().filter(|(id, _)| *id == run.id);
    of_run.filter_map(|(_, number)| {
        let step = run.step(*number)?;
        Some((*number, step, step.attempt()?))
    })
}

/// Renews a lease.
pub(crate) fn renew(
    context: RequestContext<'_, '_>,
    token: u64,
    lease_seconds: Option<u32>,
) -> Result<Answer, Failure> {
    let (token, lease) = (AttemptToken(token), lease(lease_seconds)?);
    let make = |_: &State| Ok(Command::Renew { token, lease });
    context.execute(&make, |state, _| {
        let (run, number, step) = attempt_of(state, token)?;
        let until = step.attempt().map_or(0, |attempt| attempt.lease_until);
        let more = json!({ "token": token.0, "lease_until_micros": until });
        let line = with(step_json("renewed", run, number), more);
        let text = format!("{}: attempt {token} until {}", name(run, number), time_text(until));
        Ok(Answer::success(line, text))
    })?
}

/// Releases an attempt.
pub(crate) fn release(
    context: RequestContext<'_, '_>,
    token: u64,
    work: Work,
    reason: &str,
) -> Result<Answer, Failure> {
    let token = AttemptToken(token);
    let detail = if reason.is_empty() { "released" } else { reason }.to_owned();
    let cause = match work {
        Work::NotBegun => LostCause::Released,
        // There may have been side effects, as after the death of a runner.
        Work::Begun => LostCause::RunnerDied,
    };
    let make = |_: &State| Ok(Command::ReportLost { token, cause, detail: detail.clone() });
    context.execute(&make, |state, _| token_answer("released", state, token))?
}

/// The response with the status of an attempt's step.
fn token_answer(kind: &str, state: &State, token: AttemptToken) -> Result<Answer, Failure> {
    let (run, number, step) = attempt_of(state, token)?;
    let (step, now) = (step.status.to_string(), status(Some(run)));
    let more = json!({ "token": token.0, "status": step, "run_status": now });
    let line = with(step_json(kind, run, number), more);
    Ok(Answer::success(line, format!("{}: {kind}; the step is {step}", name(run, number))))
}

/// The parts of a receipt request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Returned<'a> {
    pub(crate) receipt: &'a Value,
    pub(crate) duration: Micros,
    pub(crate) log_tail: &'a str,
}

/// Records a receipt and, if requested, dispatches the next step.
pub(crate) fn receipt(
    context: RequestContext<'_, '_>,
    token: u64,
    returned: &Returned<'_>,
    next: Option<&NextStep>,
) -> Result<PendingAnswer, Failure> {
    let token = AttemptToken(token);
    let mut receipt = receipt_of_json(returned.receipt)
        .map_err(|message| Failure::Usage(format!("invalid receipt: {message}")))?;
    receipt.duration = returned.duration;
    returned.log_tail.clone_into(&mut receipt.log_tail);
    let worker = match next {
        Some(NextStep { worker: Some(worker) }) => {
            check_worker(worker)?;
            worker.clone()
        }
        Some(NextStep { worker: None }) => {
            let worker = context.read(|state| worker_of(state, token))?;
            worker.map_or(Ok(String::new()), |name| check_worker(&name).map(|()| name))?
        }
        None => String::new(),
    };
    let next_worker = next.map(|_| worker.as_str());
    let read = |transaction: &Transaction<'_>| {
        let (state, events) = (transaction.state(), transaction.events());
        if let Some(reason) = rejected(events) {
            return Ok(ReceiptOutcome::Rejected(reason.to_owned()));
        }
        let answer = token_answer("receipt", state, token)?;
        Ok::<_, Failure>(match Task::dispatched(state, events) {
            _ if next.is_none() => ReceiptOutcome::Recorded(answer),
            Some(task) => ReceiptOutcome::RecordedAndDispatched(answer, Box::new(task)),
            None => ReceiptOutcome::NoNextStep(answer),
        })
    };
    match context.record_receipt(token, receipt, next_worker, read)?? {
        ReceiptOutcome::Recorded(answer) => Ok(PendingAnswer::Complete(answer)),
        ReceiptOutcome::RecordedAndDispatched(answer, task) => {
            Ok(PendingAnswer::Dispatched(answer, task, worker))
        }
        ReceiptOutcome::NoNextStep(answer) => {
            let now = context.ledger.now();
            let none = |state: &State| {
                Ok(PendingAnswer::Complete(answer.and(why_none(state, token, &worker, now)?)))
            };
            context.read(none)?
        }
        ReceiptOutcome::Rejected(reason) => {
            let mut answer = Answer::from(Failure::from(Error::from(Rejection::StaleToken(token))));
            answer.messages.push(format!("the receipt was recorded as rejected: {reason}"));
            Ok(PendingAnswer::Complete(answer))
        }
    }
}

/// The result of a receipt request.
enum ReceiptOutcome {
    /// Recorded; no next step was requested.
    Recorded(Answer),
    /// Recorded, and the next step was dispatched.
    RecordedAndDispatched(Answer, Box<Task>),
    /// Recorded, and no next step could be dispatched.
    NoNextStep(Answer),
    /// The receipt arrived after the attempt had ended.
    Rejected(String),
}

/// The response that explains why there is no next step for the worker.
fn why_none(
    state: &State,
    token: AttemptToken,
    worker: &str,
    now: Timestamp,
) -> Result<Answer, Failure> {
    let (run, ..) = attempt_of(state, token)?;
    let command =
        Command::Dispatch { run: run.id, step: None, worker: worker.to_owned(), lease: None };
    let why = decide(state, now, &command).err().map(Error::from);
    Ok(nothing(state, run, why.as_ref()))
}

/// The worker of an attempt, if the state knows it.
fn worker_of(state: &State, token: AttemptToken) -> Option<String> {
    let attempt = attempt_of(state, token).ok()?.2.attempt()?;
    Some(attempt.worker.clone())
}

/// The reason why a receipt was rejected, if it was.
fn rejected(events: &[(u64, Event)]) -> Option<&str> {
    events.iter().find_map(|(_, event)| match event {
        Event::Step(record) => match &record.event {
            StepEvent::ReceiptRefused(refused) => Some(refused.reason.as_str()),
            _ => None,
        },
        _ => None,
    })
}

/// Records the start or the end of a side effect.
pub(crate) fn effect(
    context: RequestContext<'_, '_>,
    token: u64,
    (key, effect): (&str, &str),
    effect_state: EffectState,
) -> Result<Answer, Failure> {
    let token = AttemptToken(token);
    let word = match effect_state {
        EffectState::Intended => "intended",
        EffectState::Committed => "committed",
    };
    let make = |_: &State| {
        let key = key.to_owned();
        Ok(match effect_state {
            EffectState::Intended => {
                let effect = if effect.is_empty() { &key } else { effect };
                Command::IntendEffect { token, effect: effect.to_owned(), key: key.clone() }
            }
            EffectState::Committed => Command::CommitEffect { token, key },
        })
    };
    context.execute(&make, |state, _| {
        let (run, number, _) = attempt_of(state, token)?;
        let more = json!({ "token": token.0, "key": key, "state": word });
        let line = with(step_json("effect", run, number), more);
        Ok(Answer::success(line, format!("{}: side effect {key} is {word}", name(run, number))))
    })?
}

/// The verdicts of a commit.
pub(crate) struct Judged {
    pub(crate) count: usize,
    /// The judged step; `None` for the plan.
    pub(crate) step: Option<StepNumber>,
}

/// The verdicts by one author among the events of a commit.
pub(crate) fn judged(events: &[(u64, Event)], by: &str) -> Judged {
    let mut judged = Judged { count: 0, step: None };
    for (_, event) in events {
        match event {
            Event::PlanVerdict(event) if event.verdict.by == by => judged.count += 1,
            Event::Step(record) => match &record.event {
                StepEvent::VerdictRecorded(event) if event.verdict.by == by => {
                    judged.count += 1;
                    judged.step = Some(record.step);
                }
                _ => {}
            },
            _ => {}
        }
    }
    judged
}

/// The step whose question was answered in a commit.
pub(crate) fn answered(events: &[(u64, Event)]) -> Option<StepNumber> {
    events.iter().find_map(|(_, event)| match event {
        Event::Step(record) if matches!(record.event, StepEvent::StepAnswered(_)) => {
            Some(record.step)
        }
        _ => None,
    })
}
