//! The lines of the views of a run.

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::ledger::{TracedRecord, ValueChange};
use plan_ledger::plan::{
    Account, BarrierSummary, ExecutionState, Micros, OperatorView, PauseCause, Remaining,
    RunCounters, VersionSummary, Warning,
};
use plan_ledger::{
    AttemptToken, Event, FailureClass, RecordedEvent, Run, RunId, StepNumber, StepState, StepStatus,
};

use crate::commands::inspect::answers::AnswerOfAnother;
use crate::commands::inspect::json::activity::{ActivityJson, RunActivityJson};
use crate::commands::inspect::json::checks::CheckJson;
use crate::commands::inspect::json::repeats::RepeatJson;
use crate::commands::inspect::json::waits::{InsideWaitJson, WaitJson};
use crate::commands::inspect::ledger_at::LedgerAt;
use crate::commands::inspect::next_action::{NextAction, NextActionJson, items_of_persons};
use crate::commands::inspect::text::units::span;
use crate::json::{ReplanRequestJson, TimeJson};
use crate::output::PendingJson;
use crate::protocol::TrustedCheckJson;
use crate::server::RunnerStatus;
use plan_ledger_views::{
    GoneClaim, RunActivity, RunProgress, WaitsFor, gone_steps, steps_in_flight,
};

use super::run::FlightJson;
use plan_ledger_views::RunStatusJson;
use plan_ledger_views::{QuestionLine, StaleFilesJson};

/// A run for its user.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct UserViewLine<'a> {
    /// The next actions, most urgent first, with their commands.
    actions: Vec<NextActionJson>,
    /// How it stands.
    activity: RunActivityJson,
    /// The checks that run now; none for a past state.
    checks: Vec<CheckJson>,
    /// The claims of processes that are gone; none for a past state.
    dead_claims: Vec<DeadClaimJson>,
    /// Whether more steps will follow: the plan continues, and the run has not ended.
    continues: bool,
    /// The number of accepted or skipped steps.
    done: u32,
    /// The expected remaining time.
    expected_micros: Option<Micros>,
    /// The attempts in flight, in the order of dispatch.
    in_flight: Vec<FlightJson<'a>>,
    /// What waits for a person.
    needs: Vec<NeedJson>,
    /// What happens at the moment, the most important first.
    now: Vec<ActivityJson>,
    /// Repeated output of workers; empty for a past state.
    repeats: Vec<RepeatJson>,
    /// The run.
    run: RunId,
    /// Whether a runner is at work on the ledger; null for a past state, or if it is unknown.
    runner_at_work: Option<bool>,
    /// The questions that were answered by a person other than their addressee.
    answers_of_others: Vec<AnswerOfAnother>,
    /// The steps that did not begin and have files that changed since the plan was made although no
    /// other step may change them; null if that is not known.
    stale_files: Option<Vec<StaleFilesJson>>,
    /// The number of steps in the active version.
    steps: u32,
    /// The title of its plan.
    title: &'a str,
    /// The checks that were taken on the worker's word.
    trusted_checks: Vec<TrustedCheckJson>,
    /// The waits of the runner before it dispatches ready steps; empty for a past state.
    waits: Vec<WaitJson>,
    /// The workers that wait in their processes for the end of a usage limit; none for a past state.
    waits_inside: Vec<InsideWaitJson>,
    /// Warnings for a person.
    warnings: Vec<Warning>,
}

impl<'a> UserViewLine<'a> {
    pub(crate) fn of(
        (ledger, run): (&'a LedgerAt<'_>, &'a Run),
        (stands, progress): (&RunActivity, &'a RunProgress),
        actions: Vec<NextAction>,
        warnings: Vec<Warning>,
    ) -> Self {
        let RunProgress { title, done, steps, continues, expected } = progress;
        let flight = |(number, step): (StepNumber, &'a StepState)| {
            Some(FlightJson::of(run, number, step.attempts, step.attempt()?))
        };
        Self {
            actions: actions.into_iter().map(Into::into).collect(),
            activity: stands.into(),
            checks: CheckJson::of_run(ledger, run),
            dead_claims: DeadClaimJson::of_run(ledger, run),
            continues: *continues,
            done: *done,
            expected_micros: *expected,
            in_flight: steps_in_flight(&ledger.state, run).filter_map(flight).collect(),
            needs: NeedJson::of_run(ledger, run),
            now: ActivityJson::all(stands),
            repeats: ledger.repeats_of(run, |_| true).map(RepeatJson::of).collect(),
            run: run.id,
            runner_at_work: match &ledger.runner {
                RunnerStatus::Unknown | RunnerStatus::Unseen(..) => None,
                RunnerStatus::AtWork(_) => Some(true),
                RunnerStatus::Absent(_) => Some(false),
            },
            answers_of_others: Vec::new(),
            stale_files: None,
            steps: *steps,
            title,
            trusted_checks: TrustedCheckJson::of_run(run),
            waits: WaitJson::of_run(&ledger.waits, run),
            waits_inside: InsideWaitJson::of_run(ledger, run),
            warnings,
        }
    }

    /// The same with the questions that another person answered.
    pub(crate) fn with_answers(self, answers_of_others: Vec<AnswerOfAnother>) -> Self {
        Self { answers_of_others, ..self }
    }

    /// The same with the files that changed since the plan was made.
    pub(crate) fn with_stale_files(self, stale: Option<Vec<(StepNumber, Vec<String>)>>) -> Self {
        Self { stale_files: StaleFilesJson::of(stale), ..self }
    }
}

/// The claim of a process that is gone.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct DeadClaimJson {
    /// The process.
    process: u32,
    /// When the step was claimed.
    since: TimeJson,
    /// The step.
    step: StepNumber,
    /// The token of the attempt.
    token: AttemptToken,
    /// The worker that claimed it.
    worker: String,
}

impl DeadClaimJson {
    fn of_run(ledger: &LedgerAt<'_>, run: &Run) -> Vec<Self> {
        let gone = gone_steps(&ledger.state, run, &ledger.dead);
        let line = |(step, dead): (StepNumber, &GoneClaim)| {
            let attempt = run.step(step)?.attempt()?;
            let (process, token) = (dead.process, attempt.token);
            let (since, worker) = (attempt.dispatched.into(), attempt.worker.clone());
            Some(Self { process, since, step, token, worker })
        };
        gone.into_iter().filter_map(line).collect()
    }
}

/// An item that waits for a person.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct NeedJson {
    /// Commands that resolve it, after the one that shows what it lets the run execute.
    advice: Vec<String>,
    /// When it is resolved without a person; null if it is not.
    deadline: Option<TimeJson>,
    /// The item, as in `next`.
    item: PendingJson,
    /// The item, for people.
    text: String,
    /// The person for whom it waits; null for any person.
    to: Option<String>,
}

impl NeedJson {
    fn of_run(ledger: &LedgerAt<'_>, run: &Run) -> Vec<Self> {
        let need = |action: NextAction| {
            let item = action.waiting()?;
            let WaitsFor::Person(to) = item.waits_for() else { return None };
            Some(Self {
                deadline: item.deadline().map(TimeJson::from),
                to: to.map(str::to_owned),
                item: item.into(),
                advice: action.commands,
                text: action.text,
            })
        };
        items_of_persons(run, ledger.surroundings()).into_iter().filter_map(need).collect()
    }
}

/// A run for its operator.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct OperatorViewLine<'a> {
    /// The spending, and the limits that a record set.
    account: Account,
    /// The active version.
    active: u32,
    /// The barriers that are not released.
    barriers: &'a [BarrierSummary],
    /// The number of steps by status, without zeros.
    counts: &'a BTreeMap<StepStatus, u32>,
    /// The time of its next timer.
    due: Option<TimeJson>,
    /// The time since its start, until its end.
    elapsed_micros: Micros,
    /// The attempts in flight, by the end of their lease.
    in_flight: Vec<FlightJson<'a>>,
    /// The last failure of a step.
    last_failure: Option<LastFailureJson<'a>>,
    /// Its name.
    name: &'a str,
    /// The first few steps that may be dispatched.
    next: &'a [StepNumber],
    /// The attempts with an unknown outcome.
    outcome_unknown: Vec<FlightJson<'a>>,
    /// Why it is paused; null if it is not.
    pause: Option<&'a PauseCause>,
    /// The open questions.
    questions: Vec<QuestionLine>,
    /// The rest of the budget.
    remaining: Remaining,
    /// The open request for another plan.
    request: Option<ReplanRequestJson>,
    /// Its number.
    run: RunId,
    /// Its status.
    status: RunStatusJson,
    /// Why no more steps are dispatched although the run continues.
    stopping: Option<&'a str>,
    /// Counters since its start.
    tally: RunCounters,
    /// The versions of its plan.
    versions: &'a [VersionSummary],
}

impl<'a> From<&'a OperatorView> for OperatorViewLine<'a> {
    fn from(view: &'a OperatorView) -> Self {
        let questions = view.questions.iter();
        Self {
            account: view.account,
            active: view.active,
            barriers: &view.barriers,
            counts: &view.counts,
            due: view.due.map(TimeJson::from),
            elapsed_micros: view.elapsed,
            in_flight: view.in_flight.iter().map(FlightJson::from).collect(),
            last_failure: view.last_failure.as_ref().map(|(step, class, message)| {
                LastFailureJson { class: *class, message, step: *step }
            }),
            name: &view.name,
            next: &view.next,
            outcome_unknown: view.outcome_unknown.iter().map(FlightJson::from).collect(),
            pause: view.pause.as_ref(),
            questions: questions.map(|(id, each)| QuestionLine::of(view.run, *id, each)).collect(),
            remaining: view.remaining,
            request: view.request.as_ref().map(ReplanRequestJson::from),
            run: view.run,
            status: view.status.into(),
            stopping: view.stopping.as_deref(),
            tally: view.counters,
            versions: &view.versions,
        }
    }
}

/// The last failure of a run.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct LastFailureJson<'a> {
    /// The class of the failure.
    class: FailureClass,
    /// The reason, for people.
    message: &'a str,
    /// The step.
    step: StepNumber,
}

/// The execution state of a run: its steps by progress, and the used budget.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ExecutionStateLine<'a> {
    /// The time since its start, until its end, as people read it.
    elapsed: String,
    /// The run.
    run: RunId,
    #[serde(flatten)]
    state: &'a ExecutionState,
}

impl<'a> ExecutionStateLine<'a> {
    pub(crate) fn of(run: RunId, state: &'a ExecutionState) -> Self {
        Self { elapsed: span(state.elapsed), run, state }
    }
}

/// The last record of a run without information about its changes.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct UnavailableLine {
    /// The run.
    pub(crate) run: RunId,
    /// The record.
    pub(crate) through: u64,
}

/// A record of a run with its changes.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct TracedLine<'a> {
    /// The changes; null if they are not known.
    changes: Option<&'a [ValueChange]>,
    /// The event of the record as text.
    #[cfg_attr(test, schemars(with = "plan_ledger_views::EventSchema"))]
    event: &'a Event,
    /// For an activation: the differences from the previous version, for people.
    replan: Option<String>,
    /// The record.
    seq: u64,
    /// Its time.
    time: TimeJson,
}

impl<'a> TracedLine<'a> {
    pub(crate) fn of(traced: &'a TracedRecord) -> Self {
        let TracedRecord { seq, time, event, changes, replan } = traced;
        Self {
            changes: Some(changes),
            event,
            replan: replan.as_ref().map(ToString::to_string),
            seq: *seq,
            time: (*time).into(),
        }
    }

    /// A record with changes that cannot be computed.
    pub(crate) fn without_changes(record: &RecordedEvent, event: &'a Event) -> Self {
        Self { changes: None, event, replan: None, seq: record.seq, time: record.time.into() }
    }
}
