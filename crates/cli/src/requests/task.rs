//! The answer that a step was dispatched to a worker.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use plan_ledger::internals::ledger::time_text;
use plan_ledger::{Step, Task, Timestamp};

use crate::protocol::{HandOff, title};

use super::answer_line::AnswerLine;

/// A step was dispatched to a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskAnswer {
    /// The task, as a worker gets it (`hand-off.md`).
    #[serde(flatten)]
    #[schemars(with = "HandOff<'static>")]
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
    token: u64,
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
