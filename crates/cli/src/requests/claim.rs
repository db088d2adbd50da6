//! Dispatches a step to a worker.
//!
//! A claim has one winner; the response to the others names the winner and the expiry of its lease. The
//! two answers and their texts are in `task` and `nothing`, since a receipt can have them, too.

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::plan::{Micros, NameKind, Route, Secret, StepEvent, decide};
use plan_ledger::{
    Command, Error, Event, Ledger, Rejection, Run, State, StepNumber, Task, Timestamp,
};

use crate::protocol::{Failure, LEASE_HELP, OWNER_HELP, TAG_HELP, WorkerKind, parse_lease};

use super::answer_line::AnswerLine;
use super::bound_to::BoundTo;
use super::context::RequestContext;
use super::find::{check_name, run_or_only, step_to_change};
use super::kind::{RequestAnswer, RequestKind};
use super::members::{RunArg, parse_name};
use super::nothing::NothingAnswer;
use super::pending_answer::PendingAnswer;
use super::rules::{HttpMethod, Role, Rules};
use super::task::TaskAnswer;

/// Dispatch a step to a worker: the named step, or the first one in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ClaimRequest {
    /// The run's name or number; by default the only run that has not ended.
    #[command(flatten)]
    #[serde(default)]
    pub run: RunArg,
    /// The step's id or number.
    #[arg(long, value_name = "STEP", conflicts_with = "tags")]
    #[arg(help = "Claim only this step, by id or number (#37)")]
    #[serde(default)]
    pub step: Option<String>,
    /// The worker's name.
    #[arg(skip)]
    pub worker: String,
    /// 16 random bytes that the client chooses, as 32 hexadecimal digits: the second part of the token.
    /// A repeated claim has the same ones.
    #[arg(skip = Secret([0; 16]))]
    pub secret: Secret,
    /// The length of the lease; that of the plan by default.
    #[arg(long = "lease", value_name = "DURATION", value_parser = parse_lease, help = LEASE_HELP)]
    #[serde(default)]
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub lease_seconds: Option<u32>,
    /// Only steps of these owners or without an owner; by default all but those of people.
    #[arg(long = "owner", value_name = "OWNER", value_parser = parse_name, help = OWNER_HELP)]
    #[serde(default)]
    pub owners: Vec<String>,
    /// No steps of these owners; null: none without an owner.
    #[arg(skip)]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Option<String>>,
    /// Another ready step of the same owner instead of one of these: they met a usage limit.
    #[arg(skip)]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last: Vec<RunStep>,
    /// Only steps with one of these tags; by default all. Not with `step`.
    #[arg(long = "tag", value_name = "TAG", value_parser = parse_name, help = TAG_HELP)]
    #[serde(default)]
    pub tags: Vec<String>,
    /// Without `run`: the next step of any run that has not ended, oldest run first.
    #[arg(skip)]
    #[serde(default)]
    pub every_run: bool,
    /// The process that the attempt is bound to: the attempt ends with this process or with its
    /// lease. The default is the process of the request.
    #[command(flatten)]
    #[serde(default, skip_serializing_if = "BoundTo::is_peer")]
    pub bound_to: BoundTo,
}

/// A step of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunStep {
    /// The name of the run.
    pub run: String,
    /// The number of the step.
    pub step: StepNumber,
}

impl RequestKind for ClaimRequest {
    // Without a token, executed once under its key, and quick: the defaults of `of`.
    const RULES: Rules = Rules::of(Role::Worker).at(HttpMethod::Post, "/v1/claims");

    type Answer = PendingAnswer;

    const LINES: &'static [&'static str] = &[TaskAnswer::WORD, NothingAnswer::WORD];

    /// A claim waits for the consequences of earlier commands, which may make a step ready.
    fn takes_long(&self, ledger: &Ledger) -> Result<bool, Failure> {
        Ok(ledger.has_backlog()?)
    }

    fn run(&self, context: RequestContext<'_, '_>) -> Result<PendingAnswer, Failure> {
        check_worker(&self.worker)?;
        let lease = lease(self.lease_seconds)?;
        let process = self.bound_to.process(context.origin.peer)?;
        if self.step.is_some() && !self.tags.is_empty() {
            let message = "a claim of one step has no tags; leave out one of them".to_owned();
            return Err(Failure::Usage(message));
        }
        // Record expired leases first, since they may make steps ready.
        context.tick()?;
        let held = self.held.iter().cloned().collect();
        let route = Route { held, ..Route::of(&self.owners, &self.tags) };
        let now = context.ledger.now();
        let dispatch = |run: &Run, step| {
            let last = self.last.iter().filter(|last| last.run == run.name);
            let last = last.map(|last| last.step).collect();
            let (worker, route) = (self.worker.clone(), Route { last, ..route.clone() });
            let (secret, process) = (self.secret.hash(), process.clone());
            Command::Dispatch { run: run.id, step, worker, route, lease, secret, process }
        };
        let make = |state: &State| {
            let run = match open_runs(state).filter(|_| self.serves_every_run()) {
                Some(runs) => first_with_step(state, now, &runs, &|run| dispatch(run, None)),
                None => None,
            };
            let run = run.map_or_else(|| run_or_only(state, self.run.name()), Ok)?;
            let step = self.step.as_ref().map(|step| step_to_change(run, step)).transpose()?;
            Ok(dispatch(run, step))
        };
        let read = |state: &State, events: &[(u64, Event)]| {
            let task = Task::dispatched(state, events, self.secret);
            task.map(|task| expect_held(state, &task).map(|()| task))
        };
        let mut outcome = context.execute(&make, &read);
        // Steps with claims of dead processes are ready.
        if is_blocked(&outcome) && context.release_gone()? {
            outcome = context.execute(&make, &read);
        }
        let why = match outcome {
            // Its earlier attempts and files are read only after the commit.
            Ok(Some(task)) => {
                return Ok(PendingAnswer::task(Box::new(task?), self.worker.clone()));
            }
            // The commit paused the run because of its budget, or recorded only consequences of an
            // earlier batch.
            Ok(None) => None,
            Err(Failure::Ledger(error)) if is_nothing(&error) => Some(error),
            Err(failure) => return Err(failure),
        };
        context.read(|state| {
            let nothing = match open_runs(state).filter(|_| self.serves_every_run()) {
                Some(runs) => NothingAnswer::of_runs(state, &runs),
                None => {
                    let run = run_or_only(state, self.run.name())?;
                    NothingAnswer::new(state, run, why.as_ref())
                }
            };
            Ok(nothing.pending())
        })?
    }
}

impl ClaimRequest {
    /// A claim of the next step of the only run, by a worker without a name.
    #[must_use]
    pub fn new(secret: Secret) -> Self {
        Self {
            run: RunArg::default(),
            step: None,
            worker: String::new(),
            secret,
            lease_seconds: None,
            owners: Vec::new(),
            held: Vec::new(),
            last: Vec::new(),
            tags: Vec::new(),
            every_run: false,
            bound_to: BoundTo::Peer,
        }
    }

    fn serves_every_run(&self) -> bool {
        self.every_run && self.run.name().is_none()
    }
}

/// The runs that have not ended, oldest first, if there are several.
fn open_runs(state: &State) -> Option<Vec<&Run>> {
    let runs: Vec<&Run> = state.runs.open().filter_map(|id| state.runs.get(&id)).collect();
    (runs.len() > 1).then_some(runs)
}

/// The first run that dispatches a step; else the first that accepts the command, which pauses it
/// because of its budget; else the first.
fn first_with_step<'a>(
    state: &State,
    now: Timestamp,
    runs: &[&'a Run],
    dispatch: &dyn Fn(&Run) -> Command,
) -> Option<&'a Run> {
    let decided = |run: &&&Run| decide(state, now, &dispatch(run)).ok();
    let is_dispatched = |event: &Event| matches!(event, Event::Step(record) if matches!(record.event, StepEvent::Dispatched(_)));
    let dispatches =
        |run: &&&Run| decided(run).is_some_and(|events| events.iter().any(is_dispatched));
    let run = runs.iter().find(dispatches);
    let run = run.or_else(|| runs.iter().find(|run| decided(run).is_some()));
    run.or_else(|| runs.first()).copied()
}

/// Rejects the task of an earlier claim under the same key if the attempt is over: the worker no longer
/// has the step.
pub(super) fn expect_held(state: &State, task: &Task) -> Result<(), Failure> {
    if state.in_flight.contains_key(&task.token.seq)
        || plan_ledger::mutant!(ClaimThatIsOverAnswered)
    {
        return Ok(());
    }
    Err(Error::from(Rejection::StaleToken(task.token.seq)).into())
}

/// Rejects names that are reserved for a runner's own workers. When such a runner has died, its
/// attempts are recorded as lost, so other workers must not use these names.
pub(super) fn check_worker(worker: &str) -> Result<(), Failure> {
    check_name(NameKind::Worker, worker)?;
    if WorkerKind::hosted(worker) {
        let message =
            format!("`{worker}` is reserved for workers of a runner; choose another name");
        return Err(Failure::Usage(message));
    }
    Ok(())
}

/// The requested lease in microseconds.
pub(super) fn lease(seconds: Option<u32>) -> Result<Option<Micros>, Failure> {
    match seconds {
        Some(0) => Err(Failure::Usage("a lease lasts at least one second".to_owned())),
        seconds => Ok(seconds.map(|seconds| Micros::from(seconds).saturating_mul(1_000_000))),
    }
}

/// Whether a claim got no step because none is ready, or because the step is dispatched.
fn is_blocked<T>(outcome: &Result<Option<T>, Failure>) -> bool {
    match outcome {
        Err(Failure::Ledger(error)) => {
            matches!(error.rejection(), Some(Rejection::Leased { .. })) || is_nothing(error)
        }
        Ok(_) | Err(_) => false,
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
            | Rejection::NoneForWorker { .. }
            | Rejection::CapReached { .. }
            | Rejection::Paused(_)
            | Rejection::HeldForReplan { .. }
            | Rejection::BudgetReserved(_)
            | Rejection::NoActivePlan
            | Rejection::RunHasEnded(_),
        ) => true,
        _ => false,
    }
}
