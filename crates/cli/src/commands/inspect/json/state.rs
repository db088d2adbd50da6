//! Lines of the parts of a state: steps, variables, barriers and questions.

use std::collections::BTreeSet;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::plan::{
    BarrierState, BarrierStatus, OnBreak, Origin, QuestionBody, Text, Variable,
};
use plan_ledger::{
    AttemptToken, FailureClass, Question, QuestionId, Run, RunId, StepNumber, StepState, StepStatus,
};

use crate::json::{AnyJson, TimeJson};

/// The failure of a step.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct FailureJson<'a> {
    /// The class of the failure.
    class: FailureClass,
    /// The reason, for people.
    message: &'a str,
}

impl<'a> From<&'a (FailureClass, Text)> for FailureJson<'a> {
    fn from((class, message): &'a (FailureClass, Text)) -> Self {
        Self { class: *class, message }
    }
}

/// The state of a step.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct StepStateLine<'a> {
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
    lease_until: Option<TimeJson>,
    /// Its owner, with the plan's defaults applied.
    owner: Option<&'a str>,
    /// Its priority.
    priority: i32,
    /// The run.
    run: RunId,
    /// The second owner whose worker does the current attempt; null: one of its own owner.
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
    pub(crate) fn of(run: RunId, number: StepNumber, step: &'a StepState) -> Self {
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

/// A variable.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct VariableStateLine<'a> {
    /// Its name.
    name: &'a str,
    /// The author of the value.
    origin: &'a Origin,
    /// The run.
    run: RunId,
    /// The time when it was set.
    time: TimeJson,
    /// Whether the work that set it is still accepted.
    trusted: bool,
    /// Its value: any JSON.
    value: AnyJson,
    /// How often it was set.
    version: u64,
}

impl<'a> VariableStateLine<'a> {
    pub(crate) fn of(run: RunId, name: &'a str, variable: &'a Variable) -> Self {
        let Variable { value, version, origin, time, is_trusted } = variable;
        Self {
            name,
            origin,
            run,
            time: (*time).into(),
            trusted: *is_trusted,
            value: value.value().into(),
            version: *version,
        }
    }
}

/// A barrier.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct BarrierLine<'a> {
    /// The members that arrived.
    arrived: &'a BTreeSet<StepNumber>,
    /// Its id.
    barrier: &'a str,
    /// Its deadline.
    deadline: Option<TimeJson>,
    /// The members that failed permanently.
    failed: &'a BTreeSet<StepNumber>,
    /// Whether the deadline has passed.
    late: bool,
    /// Its member steps.
    members: &'a BTreeSet<StepNumber>,
    /// The members that have not arrived.
    missing: Vec<StepNumber>,
    /// The number of members that must arrive.
    needed: u32,
    /// What happens if too few members can still arrive.
    on_break: OnBreak,
    /// The open question about it.
    question: Option<QuestionId>,
    /// The run.
    run: RunId,
    /// Its status.
    status: BarrierStatus,
}

impl<'a> BarrierLine<'a> {
    pub(crate) fn of(run: &Run, id: &'a str, barrier: &'a BarrierState) -> Self {
        let BarrierState {
            members,
            arrived,
            failed,
            needed,
            on_break,
            deadline,
            is_late,
            question,
            status,
        } = barrier;
        Self {
            arrived,
            barrier: id,
            deadline: deadline.map(TimeJson::from),
            failed,
            late: *is_late,
            members,
            missing: members.difference(arrived).copied().collect(),
            needed: *needed,
            on_break: *on_break,
            question: *question,
            run: run.id,
            status: *status,
        }
    }
}

/// An open question.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct QuestionLine {
    /// What is asked.
    asked: QuestionBody,
    /// Its number.
    question: QuestionId,
    /// The run.
    run: RunId,
    /// The step; null if it is about the run.
    step: Option<StepNumber>,
    /// The time when it was asked.
    time: TimeJson,
}

impl QuestionLine {
    pub(crate) fn of(run: RunId, id: QuestionId, question: &Question) -> Self {
        let Question { step, time, asked } = question;
        Self { asked: asked.clone(), question: id, run, step: *step, time: (*time).into() }
    }
}
