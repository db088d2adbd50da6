//! The answer that a step was dispatched to a worker.

use std::collections::BTreeMap;
use std::fmt;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use plan_ledger::internals::ledger::time_text;
use plan_ledger::{Step, Task, Timestamp};

use crate::protocol::{Answer, HandOff, encode, title, too_long};

use super::answer_line::AnswerLine;

/// A step was dispatched to a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct TaskAnswer {
    /// The task, as a worker gets it (`hand-off.md`).
    #[serde(flatten)]
    #[cfg_attr(test, schemars(with = "HandOff<'static>"))]
    pub hand_off: Map<String, Value>,
    /// The worker.
    pub worker: String,
    /// The end of its lease.
    pub lease_until_micros: Timestamp,
}

/// The members of a hand-off that a person reads.
#[derive(Deserialize)]
struct TaskBrief {
    run: String,
    step: Step,
    number: u32,
    attempt: u32,
    token: String,
    inputs: BTreeMap<String, Value>,
    last_failure: Option<String>,
}

impl TaskAnswer {
    pub(super) fn new(task: &Task, worker: String) -> Self {
        let hand_off = match serde_json::to_value(HandOff::new(task)) {
            Ok(Value::Object(members)) => members,
            _ => Map::new(),
        };
        Self { hand_off, worker, lease_until_micros: task.lease_until }
    }
}

/// The members that identify the task; the rest can be read from the ledger.
const KEPT: [&str; 10] = [
    "type",
    "schema",
    "run",
    "number",
    "attempt",
    "token",
    "worker",
    "lease_until_micros",
    "idempotency_key",
    "traceparent",
];

/// Shortens an answer that exceeds the limit of a message. A worker still gets token and lease of
/// its task; `omitted` names the members without their values.
pub(crate) fn shortened(answer: &Answer) -> Answer {
    let without_inputs = without(answer, |name| name == "inputs");
    if encode(&without_inputs).is_ok() {
        return without_inputs;
    }
    let short = without(answer, |name| !KEPT.contains(&name));
    if encode(&short).is_ok() { short } else { Answer::from(too_long("the answer")) }
}

/// The answer without the values of some members of its tasks.
fn without(answer: &Answer, is_omitted: impl Fn(&str) -> bool) -> Answer {
    let mut answer = answer.clone();
    for line in &mut answer.lines {
        let Value::Object(members) = line else { continue };
        if members.get("type").is_none_or(|word| word != TaskAnswer::WORD) {
            continue;
        }
        let id = members.get("step").and_then(|step| step.get("id")).cloned();
        let names: Vec<String> = members.keys().filter(|name| is_omitted(name)).cloned().collect();
        for name in &names {
            let empty = match members.get(name) {
                Some(Value::Object(_)) => Value::Object(Map::new()),
                Some(Value::Array(_)) => Value::Array(Vec::new()),
                _ => Value::Null,
            };
            members.insert(name.clone(), empty);
        }
        if let Some(Value::Object(step)) = members.get_mut("step")
            && let Some(id) = id
        {
            step.entry("id").or_insert(id);
        }
        members.insert("omitted".to_owned(), names.into());
        answer.messages.push(OMITTED.to_owned());
    }
    answer
}

const OMITTED: &str = "the task exceeds the limit of a message, and is shortened: `ledger get` reads \
                       its inputs, and `ledger inspect` the step";

impl AnswerLine for TaskAnswer {
    const WORD: &'static str = "task";
}

impl fmt::Display for TaskAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hand_off = Value::Object(self.hand_off.clone());
        let TaskBrief { run, step, number, attempt, token, inputs, last_failure } =
            serde_json::from_value(hand_off).map_err(|_| fmt::Error)?;
        let (id, until, title) = (&step.id, time_text(self.lease_until_micros), title(&step));
        write!(
            f,
            "token {token}: step {number} ({id}) of run {run}, attempt {attempt}, until {until}\n  \
             {title}"
        )?;
        for (name, value) in &inputs {
            write!(f, "\n  {name}: {value}")?;
        }
        if let Some(failure) = &last_failure {
            write!(f, "\n  the previous attempt failed: {failure}")?;
        }
        Ok(())
    }
}
