//! Lines of the parts of a state: steps and questions.

use std::collections::BTreeSet;

use plan_ledger::plan::{QuestionBody, UtcTime};
use plan_ledger::{
    AttemptToken, Question, QuestionId, Run, RunId, StepNumber, StepState, StepStatus,
};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::failure::FailureJson;

/// The state of a step.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StepStateLine<'a> {
    /// The number of its attempts.
    attempts: u32,
    /// The number of failed attempts since it was last reopened.
    failures: u32,
    /// Its id.
    id: &'a str,
    /// Its last failure.
    last_failure: Option<FailureJson<'a>>,
    /// The last record about it; 0 for none.
    last_seq: u64,
    /// The end of the lease of the current attempt.
    lease_until: Option<UtcTime>,
    /// Its owner, with the plan's defaults applied.
    owner: Option<&'a str>,
    /// Its priority.
    priority: i32,
    /// The run.
    run: RunId,
    /// The second owner, if its worker has the current attempt; null for a worker of the step's own
    /// owner.
    second_owner: Option<&'a str>,
    /// Its status.
    status: StepStatus,
    /// Its number.
    step: StepNumber,
    /// Its tags.
    tags: &'a BTreeSet<String>,
    /// The token of the current attempt.
    token: Option<AttemptToken>,
    /// The worker of the current attempt.
    worker: Option<&'a str>,
}

impl<'a> StepStateLine<'a> {
    /// The line of it.
    #[must_use]
    pub fn of(run: RunId, number: StepNumber, step: &'a StepState) -> Self {
        let attempt = step.attempt();
        Self {
            attempts: step.attempts,
            failures: step.failures,
            id: step.id(),
            last_failure: step.last_failure().map(FailureJson::from),
            last_seq: step.last_seq,
            lease_until: attempt.map(|attempt| attempt.lease_until.into()),
            owner: step.owner(),
            priority: step.priority(),
            run,
            second_owner: attempt.and_then(|attempt| attempt.second_owner.as_deref()),
            status: step.status,
            step: number,
            tags: step.tags(),
            token: attempt.map(|attempt| attempt.token),
            worker: attempt.map(|attempt| attempt.worker.as_str()),
        }
    }
}

/// An open question.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct QuestionLine {
    /// The text of the question.
    asked: QuestionBody,
    /// Its number.
    question: QuestionId,
    /// The run.
    run: RunId,
    /// The step; null if it is about the run.
    step: Option<StepNumber>,
    /// The time when it was asked.
    time: UtcTime,
}

impl QuestionLine {
    /// The open questions of a run.
    #[must_use]
    pub fn of_run(run: &Run) -> Vec<Self> {
        run.asked_questions().map(|(id, question)| Self::of(run.id, id, question)).collect()
    }

    fn of(run: RunId, id: QuestionId, question: &Question) -> Self {
        let Question { step, time, asked } = question;
        Self { asked: asked.clone(), question: id, run, step: *step, time: (*time).into() }
    }
}
