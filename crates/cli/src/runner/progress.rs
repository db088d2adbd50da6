//! Progress events of a loop, and the observer that displays them and can stop the loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plan_ledger::plan::{Micros, ResolvedOutcome};
use plan_ledger::{AttemptToken, Ruling, StepStatus, Timestamp};

use crate::protocol::{BudgetUse, StepName};

/// The reason of the first request to stop: the workers finish, and a second request ends them.
pub(crate) const STOPPING: &str = "stopping";

/// A request to a running loop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopRequest {
    /// Continue.
    #[default]
    None,
    /// Stop dispatching and wait for running workers.
    Drain,
    /// Also stop the workers.
    Kill,
}

/// Another thread closes this to stop the workers of a loop, because another machine may do their steps. Once it is
/// closed, it stays closed, and this process hosts no more workers.
#[derive(Debug, Clone, Default)]
pub struct Fence(Arc<AtomicBool>);

impl Fence {
    /// Whether no worker may run any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// From now on no worker starts, and those that end were stopped. Their processes are to be ended after this.
    pub fn close(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Observes a loop and can stop it.
pub trait Observer {
    /// Receives an event. Everything except [`Progress::Started`] is already durable.
    fn progress(&mut self, progress: &Progress);

    /// Polled between the steps of the loop.
    fn stop_request(&mut self) -> StopRequest;
}

/// An event of a loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// An attempt was lost: it belonged to an earlier runner, or a stop request ended it.
    Lost {
        step: StepName,
        token: AttemptToken,
        /// The human-readable reason.
        detail: String,
        /// The resulting status of the step.
        status: StepStatus,
    },
    /// A step was dispatched.
    Dispatched {
        step: StepName,
        /// Its title, or the first line of its goal.
        title: String,
        /// The attempt, from 1.
        attempt: u32,
        token: AttemptToken,
        worker: String,
        /// The second owner of the step, if a worker of it has the attempt.
        second_owner: Option<String>,
    },
    /// The worker of a step started.
    Started { step: StepName },
    /// A receipt was recorded.
    Receipt {
        step: StepName,
        token: AttemptToken,
        /// The outcome: `succeeded`, `failed` or `replan_requested`.
        outcome: &'static str,
        /// The reason for a failure; empty if it succeeded.
        message: String,
        /// The duration of the attempt.
        duration: Micros,
        /// The resulting status of the step.
        status: StepStatus,
    },
    /// A receipt arrived after its attempt had ended, and was recorded as rejected.
    Refused { step: StepName, token: AttemptToken, reason: String },
    /// A criterion was judged.
    Verdict {
        /// The step, or `None` for the plan as a whole.
        step: Option<StepName>,
        /// The criterion's 0-based index.
        criterion: u32,
        ruling: Ruling,
        /// The judge.
        by: String,
        evidence: String,
        /// The resulting status of the step.
        status: Option<StepStatus>,
    },
    /// A planner's plan was proposed.
    Proposed {
        /// Its version in the run.
        version: u32,
        /// The planner.
        by: String,
        /// Whether it is already active; otherwise it awaits approval.
        is_active: bool,
    },
    /// A note.
    Noted {
        /// The step that the note is about, if any.
        step: Option<StepName>,
        /// The text of the note.
        note: String,
    },
    /// A lost attempt was probed.
    Probed {
        step: StepName,
        /// The result; `None` if the probe cannot tell.
        finding: Option<ResolvedOutcome>,
        evidence: String,
        /// The resulting status of the step.
        status: StepStatus,
    },
    /// The loop is idle until a due time.
    Waiting {
        /// The due time in microseconds since the Unix epoch.
        until: Timestamp,
        reason: String,
    },
    /// The steps of an owner are not dispatched until a time.
    Held {
        /// The owner; `None`: the steps without one.
        owner: Option<String>,
        /// The second owner: its workers take the steps in the meantime.
        second_owner: Option<String>,
        /// The time in microseconds since the Unix epoch; `None`: until a person answers. Then one step is dispatched,
        /// as a probe.
        until: Option<Timestamp>,
        reason: String,
        /// Whether a person should know it, although nothing waits for an answer.
        is_news: bool,
    },
    /// The disk is nearly full, and no step is dispatched, or it has room again.
    Disk {
        /// Why no step is dispatched; `None`: steps are dispatched again.
        problem: Option<String>,
    },
    /// Dispatch stopped; the loop waits for running workers and checks.
    Draining {
        reason: String,
        /// The number of running workers and checks.
        running: usize,
    },
    /// Most of a part of the run's budget is spent: 80 % or more.
    BudgetUsed(BudgetUse),
    /// The progress of the run, sent after every change.
    Counted {
        /// Steps that are accepted or skipped.
        settled: u32,
        /// Steps of the active version.
        steps: u32,
    },
}
