//! Answers that are completed after their commit is durable.
//!
//! A request runs under the ledger's lock and must not read files there. Facts from the log or the disk that an answer
//! needs, such as the earlier attempts of a task, are read later, by `finish`.

use plan_ledger::{Ledger, Task};

use crate::protocol::Answer;

use super::answer_line::answer_of;
use super::task::TaskAnswer;

/// Requests and inputs with more bytes than this get their own thread.
pub(crate) const QUICK_LENGTH_MAX: usize = 64 << 10;

/// An answer that may wait for its commit to become durable.
#[derive(Debug)]
pub(crate) enum PendingAnswer {
    /// Nothing more is read.
    Complete(Answer),
    /// A step was dispatched to the worker of this name; the task follows the given answer. Earlier attempts and
    /// files are read after the commit.
    Dispatched(Answer, Box<Task>, String),
}

impl PendingAnswer {
    /// The answer that a step was dispatched to a worker.
    pub(super) fn task(task: Box<Task>, worker: String) -> Self {
        Self::Dispatched(Answer::default(), task, worker)
    }

    /// This answer, if it is complete, followed by another one.
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Complete(first), Self::Complete(other)) => Self::Complete(first.and(other)),
            (Self::Complete(first), Self::Dispatched(before, task, worker)) => {
                Self::Dispatched(first.and(before), task, worker)
            }
            (dispatched, _) => dispatched,
        }
    }

    /// Whether completing the answer may take long.
    pub(crate) fn takes_time(&self) -> bool {
        match self {
            Self::Complete(_) => false,
            Self::Dispatched(_, task, _) => {
                let inputs: usize = task.inputs.iter().map(|(_, value)| value.as_str().len()).sum();
                task.attempt > 1 || !task.step.changes.is_empty() || inputs > QUICK_LENGTH_MAX
            }
        }
    }

    /// Completes the answer from durable records.
    pub(crate) fn finish(self, ledger: &Ledger) -> Answer {
        match self {
            Self::Complete(answer) => answer,
            Self::Dispatched(before, task, worker) => {
                let task = ledger.complete_task(*task);
                before.and(answer_of(&TaskAnswer::new(&task, worker)))
            }
        }
    }
}
