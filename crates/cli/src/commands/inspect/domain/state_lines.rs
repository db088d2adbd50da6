//! Parts of a state, each as one line: steps, variables, barriers, questions; and how the status
//! of a step looks, with and without colour.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};

use plan_ledger::plan::{
    AttemptToken, BarrierState, BarrierStatus, Question, QuestionId, Run, RunId, StepNumber,
    StepState, StepStatus, Variable,
};

use super::super::control_json::asked_json;
use super::super::event_json::origin_json;
use super::super::page::time_json;
use super::super::reference::barrier_word;
use super::super::text::{Paint, words};

/// How a status stands out.
pub(super) fn status_paint(status: StepStatus) -> Paint {
    match status {
        StepStatus::Accepted => Paint::Good,
        StepStatus::Failed => Paint::Bad,
        StepStatus::OutcomeUnknown
        | StepStatus::Reported
        | StepStatus::Gated
        | StepStatus::Delayed => Paint::Notice,
        StepStatus::Dispatched | StepStatus::Ready => Paint::Heading,
        StepStatus::Waiting => Paint::None,
        StepStatus::Skipped | StepStatus::Removed | StepStatus::Cancelled => Paint::Faint,
    }
}

/// A status as one character, for who sees no colours.
pub(super) fn status_mark(status: StepStatus) -> char {
    match status {
        StepStatus::Accepted => '+',
        StepStatus::Failed => 'x',
        StepStatus::OutcomeUnknown => '?',
        StepStatus::Reported => '~',
        StepStatus::Gated => '!',
        StepStatus::Delayed => ':',
        StepStatus::Dispatched => '>',
        StepStatus::Ready => '*',
        StepStatus::Waiting => ' ',
        StepStatus::Skipped | StepStatus::Removed | StepStatus::Cancelled => '-',
    }
}

/// What the marks mean, of those statuses.
pub(super) fn legend(statuses: &[StepStatus]) -> String {
    let known = StepStatus::ALL.iter().filter(|status| statuses.contains(status));
    let entries = known.map(|status| format!("[{}] {status}", status_mark(*status)));
    entries.collect::<Vec<_>>().join("  ")
}

/// How a barrier stands out.
pub(super) fn barrier_paint(status: BarrierStatus) -> Paint {
    match status {
        BarrierStatus::Closed => Paint::None,
        BarrierStatus::Released => Paint::Good,
        BarrierStatus::Broken => Paint::Bad,
    }
}

/// A step's fields. A state has many steps: they are written as they are, and not made into values
/// first.
#[derive(Serialize)]
pub(super) struct StepLine<'a> {
    attempts: u32,
    failures: u32,
    id: &'a str,
    last_failure: Option<Value>,
    last_seq: u64,
    lease_until: Option<Value>,
    owner: Option<&'a str>,
    priority: i32,
    run: RunId,
    status: String,
    step: StepNumber,
    tags: &'a BTreeSet<String>,
    token: Option<AttemptToken>,
    worker: Option<&'a str>,
}

impl<'a> StepLine<'a> {
    pub(super) fn of(run: RunId, number: StepNumber, step: &'a StepState) -> Self {
        let attempt = step.attempt();
        Self {
            attempts: step.attempts,
            failures: step.failures,
            id: step.id(),
            last_failure: step
                .last_failure()
                .map(|(class, message)| json!({ "class": words(class, '_'), "message": message })),
            last_seq: step.last_seq,
            lease_until: attempt.map(|attempt| time_json(attempt.lease_until)),
            owner: step.owner(),
            priority: step.priority(),
            run,
            status: words(&step.status, '_'),
            step: number,
            tags: step.tags(),
            token: attempt.map(|attempt| attempt.token),
            worker: attempt.map(|attempt| attempt.worker.as_str()),
        }
    }
}

/// A variable's fields.
pub(super) fn variable_json(run: RunId, name: &str, variable: &Variable) -> Value {
    let Variable { value, version, origin, time, is_trusted } = variable;
    json!({
        "run": run, "name": name, "value": value, "version": version,
        "origin": origin_json(origin), "time": time_json(*time), "trusted": is_trusted,
    })
}

/// A barrier's fields.
pub(super) fn barrier_json(run: &Run, id: &str, barrier: &BarrierState) -> Value {
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
    json!({
        "run": run.id,
        "barrier": id,
        "status": barrier_word(*status),
        "needed": needed,
        "members": members,
        "arrived": arrived,
        "failed": failed,
        "missing": members.iter().filter(|each| !arrived.contains(each)).collect::<Vec<_>>(),
        "on_break": words(on_break, '_'),
        "deadline": deadline.map(time_json),
        "late": is_late,
        "question": question,
    })
}

/// A question's fields.
pub(super) fn question_json(run: RunId, id: QuestionId, question: &Question) -> Value {
    let Question { step, time, asked } = question;
    json!({
        "run": run, "question": id, "step": step, "time": time_json(*time),
        "asked": asked_json(asked),
    })
}
