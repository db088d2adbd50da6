//! Records a worker's receipt and, if requested, dispatches the next step to it.
//!
//! A receipt is recorded whether or not a next step is ready, and a rejected receipt dispatches no
//! step.

use std::fmt;
use std::path::Path;

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::internals::ledger::NextClaim;
use plan_ledger::plan::{
    Micros, ReplanKind, Route, Secret, SecretHash, StepEvent, Token, Warning, decide,
};
use plan_ledger::{
    AttemptToken, Command, Error, Event, Ledger, Receipt, Rejection, State, StepStatus, Task,
    Timestamp, Transaction,
};

use crate::protocol::{
    Answer, BudgetUse, Failure, OWNER_HELP, OutcomeWord, ReceiptFile, TAG_HELP, Unchecked,
    WorkElsewhere,
};

use super::answer_line::AnswerLine;
use super::attempt_status::AttemptStatus;
use super::bound_to::BoundTo;
use super::claim::{check_worker, expect_held};
use super::context::RequestContext;
use super::find::attempt_of;
use super::kind::{RequestAnswer, RequestKind};
use super::members::parse_name;
use super::nothing::NothingAnswer;
use super::pending_answer::PendingAnswer;
use super::rules::{HttpMethod, Role, Rules, TokenRule};
use super::task::TaskAnswer;

/// Record a worker's receipt; with `next`, dispatch the next step to the worker in the same commit.
#[derive(Debug, Clone, PartialEq, Args, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReceiptRequest {
    /// The attempt's token, as `claim` printed it.
    #[arg(value_name = "TOKEN", env = "LEDGER_TOKEN", hide_env_values = true)]
    pub token: Token,
    /// The receipt (`hand-off.md`).
    #[command(flatten)]
    pub receipt: ReceiptFile,
    /// The duration of the attempt.
    #[arg(skip)]
    #[serde(default)]
    pub duration_micros: Micros,
    /// The end of its standard error.
    #[arg(skip)]
    #[serde(default)]
    pub log_tail: String,
    /// The worker of the next step, if the next step is to be dispatched.
    #[arg(skip)]
    #[serde(default)]
    pub next: Option<NextStep>,
}

/// The worker of the next step.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NextStep {
    /// The worker's name; by default the one that reported.
    #[arg(long, value_name = "NAME", env = "LEDGER_WORKER", hide_env_values = true)]
    #[arg(help = "The worker of the next step [default: the worker of this one]")]
    #[serde(default)]
    pub worker: Option<String>,
    /// As in a claim.
    #[arg(skip = Secret([0; 16]))]
    pub secret: Secret,
    /// As in a claim.
    #[arg(long = "owner", value_name = "OWNER", value_parser = parse_name, help = OWNER_HELP)]
    #[serde(default)]
    pub owners: Vec<String>,
    /// As in a claim.
    #[arg(long = "tag", value_name = "TAG", value_parser = parse_name, help = TAG_HELP)]
    #[serde(default)]
    pub tags: Vec<String>,
    /// As in a claim.
    #[command(flatten)]
    #[serde(default, skip_serializing_if = "BoundTo::is_peer")]
    pub bound_to: BoundTo,
}

/// A receipt was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ReceiptAnswer {
    /// The attempt.
    #[serde(flatten)]
    pub attempt: AttemptStatus,
    /// The parts of the run's budget that are used to 80 % or more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budget_used: Vec<BudgetUse>,
    /// Why a successful result was not accepted, such as a declared output that is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_accepted: Option<String>,
    /// The reason why no process checks the commands of the step, and the remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unchecked: Option<String>,
    /// The request of the worker for a new plan version; null for other outcomes.
    #[serde(default)]
    pub replan: Option<ReplanAsked>,
}

/// The new plan version that a receipt requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ReplanAsked {
    /// The id of the first step to do again, as the receipt names it.
    pub from: Option<String>,
    /// Why the plan should change.
    pub kind: ReplanKind,
    /// The record of an earlier open request, which must be resolved first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}

impl RequestKind for ReceiptRequest {
    const RULES: Rules = Rules::of(Role::Worker)
        .token(TokenRule::Required)
        .with_attempts()
        .at(HttpMethod::Post, "/v1/claims/{token}/receipt");

    type Answer = PendingAnswer;

    const LINES: &'static [&'static str] =
        &[ReceiptAnswer::WORD, TaskAnswer::WORD, NothingAnswer::WORD];

    /// A late receipt is compared with the one in the log, the next claim waits for the consequences of earlier
    /// commands, and the folder of the work is checked if its commands were approved in another one.
    fn takes_long(&self, ledger: &Ledger) -> Result<bool, Failure> {
        let must_wait = self.next.is_some() && ledger.has_backlog()?;
        let state = ledger.state()?;
        let elsewhere = attempt_of(&state, self.token.seq)
            .is_ok_and(|(run, number, _)| WorkElsewhere::of(run, number).is_some());
        Ok(must_wait || elsewhere || ledger.must_read_receipt(self.token.seq)?)
    }

    fn run(&self, context: RequestContext<'_, '_>) -> Result<PendingAnswer, Failure> {
        if self.next.is_some() && context.may_wait() && context.ledger.has_backlog()? {
            context.tick()?;
        }
        let token = self.token.seq;
        let receipt = self.receipt()?;
        let worker = self.next_worker(context)?;
        let route = self.next.as_ref().map(|next| Route::of(&next.owners, &next.tags));
        let next = self.next.as_ref().zip(route.as_ref());
        let bound_to = self.next.as_ref().map(|next| next.bound_to.process(context.origin.peer));
        let process = bound_to.transpose()?.flatten();
        let next_claim = next.map(|(next, route)| NextClaim {
            worker: worker.as_str(),
            route,
            secret: next.secret,
            process: process.as_ref(),
        });
        let command = Command::RecordReceipt { token, proof: self.token.into(), receipt };
        let read = |transaction: &Transaction<'_>| {
            let (state, events) = (transaction.state(), transaction.events());
            if let Some(reason) = rejected(events) {
                return Ok((Err(late(token, reason)), None, None));
            }
            let used =
                attempt_of(state, token).map(|(run, ..)| run.warnings(state.time, state.time));
            let part = |warning: &Warning| match warning {
                Warning::BudgetUsed { part, used, limit } => {
                    Some(BudgetUse::of(*part, *used, *limit))
                }
                Warning::SlowStep { .. } | Warning::Stalled { .. } => None,
            };
            let budget_used = used.unwrap_or_default().iter().filter_map(part).collect();
            let (attempt, replan) = (AttemptStatus::of(state, token)?, self.replan(state));
            let not_accepted = self.not_accepted(state, attempt.status);
            let unchecked = self.unchecked(state, context.origin.looks.map(|(dir, _)| dir));
            let answer =
                ReceiptAnswer { attempt, budget_used, not_accepted, unchecked: None, replan };
            // Under its key a receipt may be answered again after the next claim is over.
            let next = self.next.as_ref();
            let next = next.and_then(|next| Task::dispatched(state, events, next.secret));
            let next = next.filter(|task| expect_held(state, task).is_ok());
            Ok::<_, Failure>((Ok(answer), next, unchecked))
        };
        // The receipt is recorded even if its answer cannot be read.
        let (recorded, task, unchecked) =
            context.with_command(&command).transact(|transaction| {
                transaction.record_receipt(next_claim.as_ref())?;
                Ok(read(transaction))
            })??;
        let mut answer = match recorded {
            Ok(answer) => answer,
            Err(late) => return Ok(late),
        };
        // No other command waits for the look at the folder of the work.
        answer.unchecked = unchecked.and_then(Unchecked::text);
        let recorded = answer.pending();
        if let Some(task) = task {
            return Ok(recorded.and(PendingAnswer::task(Box::new(task), worker)));
        }
        let Some(route) = &route else { return Ok(recorded) };
        let now = context.ledger.now();
        let nothing = context.read(|state| why_none(state, token, (&worker, route), now))??;
        Ok(recorded.and(nothing.pending()))
    }
}

impl ReceiptRequest {
    /// The failure of a step after its worker reported success.
    fn not_accepted(&self, state: &State, status: StepStatus) -> Option<String> {
        let is_fine = matches!(status, StepStatus::Accepted | StepStatus::Reported);
        if self.receipt.outcome != OutcomeWord::Succeeded || is_fine {
            return None;
        }
        let (_, message) = attempt_of(state, self.token.seq).ok()?.2.last_failure()?;
        Some(message.to_string())
    }

    /// The reasons that may keep the step from being checked.
    fn unchecked(&self, state: &State, ledger: Option<&Path>) -> Option<Unchecked> {
        let (run, number, _) = attempt_of(state, self.token.seq).ok()?;
        Unchecked::of(ledger?, run, number)
    }

    fn replan(&self, state: &State) -> Option<ReplanAsked> {
        let ReceiptFile { outcome, from, kind, .. } = &self.receipt;
        let of = state.dispatched.get(&self.token.seq);
        let waiting = of.and_then(|(run, number, _)| {
            state.runs.get(run).filter(|run| run.waits_to_request(*number))
        });
        let after = waiting.and_then(|run| Some(run.request.as_ref()?.seq));
        let asked = ReplanAsked { from: from.clone(), kind: kind.unwrap_or_default(), after };
        (*outcome == OutcomeWord::ReplanRequested).then_some(asked)
    }

    fn receipt(&self) -> Result<Receipt, Failure> {
        let invalid = |message| Failure::Usage(format!("invalid receipt: {message}"));
        let receipt = self.receipt.clone().into_receipt().map_err(invalid)?;
        let (duration, log_tail) = (self.duration_micros, self.log_tail.clone().into());
        Ok(Receipt { duration, log_tail, ..receipt })
    }

    /// The worker of the next step; empty if no step is requested, or the attempt is unknown.
    fn next_worker(&self, context: RequestContext<'_, '_>) -> Result<String, Failure> {
        let Some(next) = &self.next else { return Ok(String::new()) };
        let worker = match &next.worker {
            Some(worker) => Some(worker.clone()),
            None => context.read(|state| worker_of(state, self.token.seq))?,
        };
        worker.map_or(Ok(String::new()), |worker| check_worker(&worker).map(|()| worker))
    }
}

/// The answer to a receipt that arrived after its attempt had ended, and was recorded as rejected.
fn late(token: AttemptToken, reason: &str) -> PendingAnswer {
    let mut answer = Answer::from(Failure::from(Error::from(Rejection::StaleToken(token))));
    answer.messages.push(format!("the receipt was recorded as rejected: {reason}"));
    PendingAnswer::Complete(answer)
}

/// The answer that explains why the worker gets no next step.
fn why_none(
    state: &State,
    token: AttemptToken,
    (worker, route): (&str, &Route),
    now: Timestamp,
) -> Result<NothingAnswer, Failure> {
    let (run, ..) = attempt_of(state, token)?;
    if worker.is_empty() {
        let error = Error::from(Rejection::InvalidName(WORKER_UNKNOWN));
        return Ok(NothingAnswer::new(state, run, Some(&error)));
    }
    let (worker, route) = (worker.to_owned(), route.clone());
    let command = Command::Dispatch {
        process: None,
        secret: SecretHash::default(),
        run: run.id,
        step: None,
        worker,
        route,
        lease: None,
    };
    let why = decide(state, now, &command).err().map(Error::from);
    Ok(NothingAnswer::new(state, run, why.as_ref()))
}

/// Why a repeated receipt gets no next step, unless it names the worker.
const WORKER_UNKNOWN: &str = "this receipt was recorded before, and the worker of a finished \
                              attempt is no longer known: name the worker of the next step (`--worker NAME`), or claim it with \
                              `ledger claim`";

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

impl AnswerLine for ReceiptAnswer {
    const WORD: &'static str = "receipt";

    fn messages(&self) -> Vec<String> {
        self.budget_used.iter().map(ToString::to_string).collect()
    }
}

impl fmt::Display for ReceiptAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: receipt; the step is {}", self.attempt.step, self.attempt.status)?;
        self.not_accepted.as_ref().map_or(Ok(()), |why| write!(f, ": {why}"))?;
        self.unchecked.as_ref().map_or(Ok(()), |why| write!(f, "; {why}"))?;
        let Some(ReplanAsked { from, kind, after }) = &self.replan else { return Ok(()) };
        write!(f, "; another plan is requested{}", kind.note())?;
        from.as_ref().map_or(Ok(()), |from| write!(f, " from step {from} on"))?;
        after.map_or(Ok(()), |seq| {
            write!(f, "; it waits until the request for a new plan (record {seq}) is resolved")
        })
    }
}
