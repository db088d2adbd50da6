//! Responses that are completed after their commit is durable.

use std::fmt::Write as _;

use serde_json::json;

use plan_ledger::ledger::{Ledger, Task, time_text};

use crate::protocol::Answer;
use crate::runner::{HandOff, title};

use super::find::with;

/// Requests and inputs with more bytes than this get their own thread.
pub(crate) const QUICK_LENGTH_MAX: usize = 64 << 10;

/// The response to a request whose commit may not be durable yet.
#[derive(Debug)]
pub(crate) enum PendingAnswer {
    Complete(Answer),
    /// A step was dispatched to a worker; the task follows the given response. Earlier attempts and
    /// files are read after the commit.
    Dispatched(Answer, Box<Task>, String),
}

impl PendingAnswer {
    /// Whether completing the response may take long.
    pub(crate) fn takes_time(&self) -> bool {
        match self {
            Self::Complete(_) => false,
            Self::Dispatched(_, task, _) => {
                let inputs: usize = task.inputs.iter().map(|(_, value)| value.as_str().len()).sum();
                task.attempt > 1 || !task.step.changes.is_empty() || inputs > QUICK_LENGTH_MAX
            }
        }
    }

    /// Completes the response from durable records.
    pub(crate) fn finish(self, ledger: &Ledger) -> Answer {
        match self {
            Self::Complete(answer) => answer,
            Self::Dispatched(before, task, worker) => {
                before.and(task_answer(&ledger.complete_task(*task), &worker))
            }
        }
    }
}

/// The response for a dispatched step: its hand-off, worker and lease.
fn task_answer(task: &Task, worker: &str) -> Answer {
    let hand_off = serde_json::to_value(HandOff::new(task)).unwrap_or_default();
    let more = json!({ "type": "task", "worker": worker, "lease_until_micros": task.lease_until });
    let mut text = format!(
        "token {}: step {} ({}) of run {}, attempt {}, until {}\n  {}",
        task.token,
        task.number,
        task.step.id,
        task.run_name,
        task.attempt,
        time_text(task.lease_until),
        title(task)
    );
    for (name, value) in &task.inputs {
        let _ = write!(text, "\n  {name}: {value}");
    }
    if let Some(failure) = &task.last_failure {
        let _ = write!(text, "\n  the previous attempt failed: {failure}");
    }
    Answer::success(with(hand_off, more), text)
}
