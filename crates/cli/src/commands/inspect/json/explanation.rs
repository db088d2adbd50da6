//! The line of an explanation: why a step is not dispatched.

use std::collections::BTreeSet;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::plan::Explanation;
use plan_ledger::{Run, RunId, StepNumber};
use plan_ledger_views::{ReasonJson, ReplanRequestJson, StepReasonsJson, TimeJson};

use crate::commands::inspect::json::repeats::RepeatJson;
use crate::commands::inspect::json::waits::WaitJson;
use crate::runner::RepeatingAttempt;
use plan_ledger_views::RunnerWait;

/// Why a step is not dispatched.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct WhyLine<'a> {
    /// Whether the step may be dispatched.
    may_be_dispatched: bool,
    /// Repeated output of the workers of the step, and of the steps that it waits for.
    repeats: Vec<RepeatJson>,
    /// The time for which the answer is valid.
    time: TimeJson,
    /// The open request for another plan.
    request: Option<ReplanRequestJson>,
    /// The steps among them that wait for no other step.
    roots: BTreeSet<StepNumber>,
    /// The run.
    run: RunId,
    /// Its name.
    run_name: &'a str,
    /// The reasons that block the whole run.
    run_reasons: Vec<ReasonJson<'a>>,
    /// The step in question.
    step: StepNumber,
    /// The step and all steps that it waits for.
    steps: Vec<StepReasonsJson<'a>>,
    /// The wait of the runner before it dispatches the step, if the step is ready.
    waits: Vec<WaitJson>,
}

impl<'a> WhyLine<'a> {
    pub(crate) fn of(
        run: &'a Run,
        found: &'a Explanation,
        waits: &[RunnerWait],
        repeats: &[&RepeatingAttempt],
    ) -> Self {
        let is_ready = run.ready().any(|(_, number)| number == found.step);
        let of_step = waits.iter().filter(|wait| is_ready && wait.holds(run, found.step));
        Self {
            may_be_dispatched: found.may_be_dispatched(),
            repeats: repeats.iter().map(|attempt| RepeatJson::of(attempt)).collect(),
            time: found.now.into(),
            request: found.request.as_ref().map(ReplanRequestJson::from),
            roots: found.roots(),
            run: run.id,
            run_name: &run.name,
            run_reasons: found.run_reasons.iter().map(ReasonJson::from).collect(),
            step: found.step,
            steps: found.steps.iter().map(StepReasonsJson::of).collect(),
            waits: of_step.map(|wait| WaitJson::of(wait, run)).collect(),
        }
    }
}
