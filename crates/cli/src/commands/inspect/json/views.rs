//! The line of a run for its user.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::plan::{Micros, Warning};
use plan_ledger::{AttemptToken, Run, RunId, StepNumber, StepState};

use crate::commands::inspect::answers::AnswerOfAnother;
use crate::commands::inspect::json::activity::{ActivityJson, RunActivityJson};
use crate::commands::inspect::json::checks::CheckJson;
use crate::commands::inspect::json::repeats::RepeatJson;
use crate::commands::inspect::json::waits::{InsideWaitJson, WaitJson};
use crate::commands::inspect::ledger_at::LedgerAt;
use crate::commands::inspect::next_action::{NextAction, NextActionJson, items_of_persons};
use crate::json::TimeJson;
use crate::output::PendingJson;
use crate::protocol::TrustedCheckJson;
use crate::server::RunnerStatus;
use plan_ledger_views::{
    FlightJson, GoneClaim, RunActivity, RunProgress, StaleFilesJson, WaitsFor, gone_steps,
    steps_in_flight,
};

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
