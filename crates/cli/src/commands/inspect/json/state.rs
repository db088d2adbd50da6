//! The JSON form of the parts of a state: steps, variables, barriers and questions.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};

use plan_ledger::internals::plan::BarrierState;
use plan_ledger::{
    AttemptToken, Question, QuestionId, Run, RunId, StepNumber, StepState, Variable,
};

use crate::commands::inspect::lookup::barrier_word;
use crate::commands::inspect::output::time_json;
use crate::commands::inspect::style::words;
use crate::json::TimeJson;
use crate::output::question_json as asked_json;

use super::event::origin_json;

/// The fields of a step. A state has many steps, so they are serialized directly.
#[derive(Serialize)]
pub(crate) struct StepLine<'a> {
    attempts: u32,
    failures: u32,
    id: &'a str,
    last_failure: Option<Value>,
    last_seq: u64,
    lease_until: Option<TimeJson>,
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
    pub(crate) fn of(run: RunId, number: StepNumber, step: &'a StepState) -> Self {
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

pub(crate) fn variable_json(run: RunId, name: &str, variable: &Variable) -> Value {
    let Variable { value, version, origin, time, is_trusted } = variable;
    json!({
        "run": run, "name": name, "value": value.as_str(), "version": version,
        "origin": origin_json(origin), "time": time_json(*time), "trusted": is_trusted,
    })
}

pub(crate) fn barrier_json(run: &Run, id: &str, barrier: &BarrierState) -> Value {
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

pub(crate) fn question_json(run: RunId, id: QuestionId, question: &Question) -> Value {
    let Question { step, time, asked } = question;
    json!({
        "run": run, "question": id, "step": step, "time": time_json(*time),
        "asked": asked_json(asked),
    })
}
