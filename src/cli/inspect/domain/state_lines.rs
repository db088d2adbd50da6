//! Parts of a state, each as one line: steps, variables, barriers, questions; and how the status
//! of a step looks, with and without colour.

use serde_json::{Value, json};

use crate::plan::{
    BarrierState, BarrierStatus, Question, QuestionId, Run, RunId, StepNumber, StepState,
    StepStatus, Variable,
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
        StepStatus::InDoubt | StepStatus::Reported | StepStatus::Gated | StepStatus::Delayed => {
            Paint::Notice
        }
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
        StepStatus::InDoubt => '?',
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

/// A step's fields.
pub(super) fn step_json(run: RunId, number: StepNumber, step: &StepState) -> Value {
    let failure = step.last_failure.as_deref();
    json!({
        "run": run,
        "step": number,
        "id": step.id,
        "status": words(&step.status, '_'),
        "owner": step.owner,
        "priority": step.priority,
        "tags": step.tags,
        "attempts": step.attempts,
        "failures": step.failures,
        "last_seq": step.last_seq,
        "worker": step.attempt.as_ref().map(|attempt| &attempt.worker),
        "token": step.attempt.as_ref().map(|attempt| attempt.token),
        "lease_until": step.attempt.as_ref().map(|attempt| time_json(attempt.lease_until)),
        "last_failure": failure.map(|(class, message)| {
            json!({ "class": words(class, '_'), "message": message })
        }),
    })
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
