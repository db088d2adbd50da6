//! The line of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::plan::{
    Account, BarrierState, BarrierStatus, OnBreak, PauseCause, QuestionBody, RunForked,
};
use plan_ledger::{
    ContentHash, Cost, Limits, Question, QuestionId, Run, RunId, RunPolicy, StepNumber, StepState,
    StepStatus,
};
use plan_ledger_views::{FlightJson, steps_in_flight};

use crate::commands::inspect::health::LedgerOverview;
use crate::commands::inspect::json::activity::RunActivityJson;
use crate::commands::inspect::lookup::{missing_members, steps_in_status};
use crate::commands::inspect::next_action::{NextActionJson, actions, limited};
use crate::json::{ReplanRequestJson, TimeJson};
use crate::protocol::TrustedCheckJson;
use plan_ledger_views::RunStatusJson;

/// A run.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct RunLine<'a> {
    /// The barriers of the active version.
    barriers: Vec<RunBarrierJson<'a>>,
    /// How it stands.
    activity: RunActivityJson,
    /// The limits of its budget, and their used parts.
    budget: BudgetJson,
    /// The spending.
    cost: Cost,
    /// The number of steps by status.
    counts: BTreeMap<StepStatus, u32>,
    /// Steps that wait after a failure.
    delayed: Vec<DelayedStepJson<'a>>,
    /// Steps that failed permanently.
    failed: Vec<StepNameJson<'a>>,
    /// The origin of a forked run.
    forked: Option<&'a RunForked>,
    /// Steps with an open question.
    gated: Vec<StepNameJson<'a>>,
    /// The hash of the active version.
    hash: Option<ContentHash>,
    /// The attempts in flight, in the order of dispatch.
    in_flight: Vec<FlightJson<'a>>,
    /// Its name.
    name: &'a str,
    /// The next actions, most urgent first.
    next: Vec<NextActionJson>,
    /// Steps with an unknown outcome.
    outcome_unknown: Vec<StepNameJson<'a>>,
    /// Why it is paused; null if it is not.
    pause: Option<&'a PauseCause>,
    /// How it handles approval, text criteria and failures.
    policy: RunPolicy,
    /// The open questions.
    questions: Vec<RunQuestionJson<'a>>,
    /// Steps that wait for verdicts.
    reported: Vec<StepNameJson<'a>>,
    /// The open request for another plan.
    request: Option<ReplanRequestJson>,
    /// Its number.
    run: RunId,
    /// The start time.
    started: TimeJson,
    /// Its status.
    status: RunStatusJson,
    /// The number of steps in the active version.
    steps: u32,
    /// The title of the active version.
    title: Option<&'a str>,
    /// The checks that were taken on the worker's word.
    trusted_checks: Vec<TrustedCheckJson>,
    /// The number of variables.
    variables: usize,
    /// The active version of the plan; 0 before the first.
    version: u32,
    /// The number of plan versions.
    versions: usize,
}

impl<'a> RunLine<'a> {
    pub(crate) fn of(overview: &'a LedgerOverview, run: &'a Run, dir: &Path) -> Self {
        let state = &overview.fold.state;
        let flights = steps_in_flight(state, run).filter_map(|(number, step)| {
            Some(FlightJson::of(run, number, step.attempts, step.attempt()?))
        });
        let names =
            |status| steps_in_status(run, status).map(|number| StepNameJson::of(run, number));
        Self {
            barriers: run.barriers.iter().map(RunBarrierJson::of).collect(),
            activity: (&overview.activity(run, dir)).into(),
            budget: BudgetJson::of(run),
            cost: run.spent(),
            counts: COUNTED.into_iter().map(|status| (status, run.count(status))).collect(),
            delayed: steps_in_status(run, StepStatus::Delayed)
                .map(|number| DelayedStepJson::of(run, number))
                .collect(),
            failed: names(StepStatus::Failed).collect(),
            forked: run.fork.as_ref(),
            gated: names(StepStatus::Gated).collect(),
            hash: run.active_version().map(|version| version.hash),
            in_flight: flights.collect(),
            name: &run.name,
            next: limited(&actions(state, run, overview.surroundings(dir)), run, dir)
                .into_iter()
                .map(Into::into)
                .collect(),
            outcome_unknown: run
                .outcome_unknown
                .iter()
                .map(|number| StepNameJson::of(run, *number))
                .collect(),
            pause: run.pause.as_ref(),
            policy: run.policy,
            questions: run.questions.iter().map(RunQuestionJson::of).collect(),
            reported: run.reported.iter().map(|number| StepNameJson::of(run, *number)).collect(),
            request: run.request.as_ref().map(ReplanRequestJson::from),
            run: run.id,
            started: run.started.into(),
            status: run.status.into(),
            steps: run.active_version().map_or(0, |version| version.step_count),
            title: run.plan().map(|plan| plan.header().title.as_str()),
            trusted_checks: TrustedCheckJson::of_run(run),
            variables: run.variables.len(),
            version: run.active,
            versions: run.versions.len(),
        }
    }
}

/// The statuses that are counted.
const COUNTED: [StepStatus; 11] = [
    StepStatus::Waiting,
    StepStatus::Ready,
    StepStatus::Dispatched,
    StepStatus::OutcomeUnknown,
    StepStatus::Reported,
    StepStatus::Accepted,
    StepStatus::Failed,
    StepStatus::Skipped,
    StepStatus::Gated,
    StepStatus::Delayed,
    StepStatus::Cancelled,
];

/// A step.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct StepNameJson<'a> {
    /// Its id.
    id: Option<&'a str>,
    /// Its number.
    step: StepNumber,
}

impl<'a> StepNameJson<'a> {
    fn of(run: &'a Run, number: StepNumber) -> Self {
        Self { id: run.step(number).map(StepState::id), step: number }
    }
}

/// A step that waits after a failure.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct DelayedStepJson<'a> {
    /// Its id.
    id: Option<&'a str>,
    /// Its number.
    step: StepNumber,
    /// The end of the delay.
    until: Option<TimeJson>,
}

impl<'a> DelayedStepJson<'a> {
    fn of(run: &'a Run, number: StepNumber) -> Self {
        let step = run.step(number);
        let until = step.and_then(|step| step.hold().delay).map(TimeJson::from);
        Self { id: step.map(StepState::id), step: number, until }
    }
}

/// An open question of a run.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct RunQuestionJson<'a> {
    /// The text of the question.
    asked: &'a QuestionBody,
    /// Its number.
    question: QuestionId,
    /// The step; null if it is about the run.
    step: Option<StepNumber>,
    /// The time when it was asked.
    time: TimeJson,
}

impl<'a> RunQuestionJson<'a> {
    fn of((id, question): (&QuestionId, &'a Question)) -> Self {
        let Question { step, time, asked } = question;
        Self { asked, question: *id, step: *step, time: (*time).into() }
    }
}

/// The budget of a run, and its used part.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct BudgetJson {
    /// Attempts dispatched so far.
    attempts: u64,
    /// The part of `spent` that no receipt confirmed.
    estimated: Cost,
    /// The limits; null is no limit.
    limits: Limits,
    /// The cost reserved for attempts in flight.
    reserved: Cost,
    /// The spending.
    spent: Cost,
}

impl BudgetJson {
    fn of(run: &Run) -> Self {
        let Account { limits: _, spent, estimated, reserved, attempts } = run.account;
        Self { attempts, estimated, limits: run.limits(), reserved, spent }
    }
}

/// A barrier of a run.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct RunBarrierJson<'a> {
    /// The number of members that arrived.
    arrived: usize,
    /// Its id.
    barrier: &'a str,
    /// The members that failed permanently.
    failed: &'a BTreeSet<StepNumber>,
    /// The members that have not arrived.
    missing: Vec<StepNumber>,
    /// The number of members that must arrive.
    needed: u32,
    /// The action if too few members can still arrive.
    on_break: OnBreak,
    /// Its status.
    status: BarrierStatus,
}

impl<'a> RunBarrierJson<'a> {
    fn of((id, barrier): (&'a String, &'a BarrierState)) -> Self {
        Self {
            arrived: barrier.arrived.len(),
            barrier: id,
            failed: &barrier.failed,
            missing: missing_members(barrier).collect(),
            needed: barrier.needed,
            on_break: barrier.on_break,
            status: barrier.status,
        }
    }
}
