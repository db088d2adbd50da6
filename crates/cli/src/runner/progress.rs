//! Progress events of a loop, and the observer that displays them and can stop the loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plan_ledger::plan::{Micros, ResolvedOutcome};
use plan_ledger::{AttemptToken, Ruling, StepStatus, Timestamp};
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

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

/// An event of a loop. As JSON it is a line of `ledger run`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Progress {
    /// An attempt was lost: it will never report.
    Lost {
        #[serde(flatten)]
        step: StepName,
        /// The attempt.
        token: AttemptToken,
        /// The reason, for people.
        detail: String,
        /// The status of the step afterwards.
        status: StepStatus,
    },
    /// A step was dispatched.
    Dispatched {
        #[serde(flatten)]
        step: StepName,
        /// The title of the step, or the first line of its goal.
        title: String,
        /// The number of the attempt at its step, from 1.
        attempt: u32,
        /// The attempt.
        token: AttemptToken,
        /// The worker.
        worker: String,
        /// The second owner, if its worker has the attempt; null for a worker of the step's own
        /// owner.
        second_owner: Option<String>,
    },
    /// The worker of a step started.
    #[serde(skip)]
    Started { step: StepName },
    /// A receipt was recorded.
    Receipt {
        #[serde(flatten)]
        step: StepName,
        /// The attempt.
        token: AttemptToken,
        /// The outcome: `succeeded`, `failed` or `replan_requested`.
        outcome: &'static str,
        /// The reason for a failure; empty if it succeeded.
        message: String,
        /// The duration of the attempt.
        #[serde(rename = "duration_micros")]
        duration: Micros,
        /// The status of the step afterwards.
        status: StepStatus,
    },
    /// A receipt came too late and was recorded as rejected.
    Refused {
        #[serde(flatten)]
        step: StepName,
        /// The attempt.
        token: AttemptToken,
        /// The reason, for people.
        reason: String,
    },
    /// The runner or a judge judged a criterion; without a step, one of the plan.
    Verdict {
        #[serde(flatten)]
        step: Option<StepName>,
        /// The criterion, from 0.
        criterion: u32,
        /// Whether the criterion holds.
        ruling: Ruling,
        /// The runner or the judge.
        by: String,
        /// The evidence, for people.
        evidence: String,
        /// The status of the step afterwards; null for a criterion of the plan.
        status: Option<StepStatus>,
    },
    /// A planner's plan was proposed.
    Proposed {
        /// The version.
        version: u32,
        /// The planner.
        by: String,
        /// Whether the version is active; otherwise it waits for approval.
        is_active: bool,
    },
    /// A warning; without a step, about the run.
    Noted {
        #[serde(flatten)]
        step: Option<StepName>,
        /// The warning, for people.
        note: String,
    },
    /// A probe looked for the effect of a lost attempt.
    Probed {
        #[serde(flatten)]
        step: StepName,
        /// The finding; null if it is inconclusive.
        finding: Option<ResolvedOutcome>,
        /// The evidence, for people.
        evidence: String,
        /// The status of the step afterwards.
        status: StepStatus,
    },
    /// No work is possible until then.
    Waiting {
        /// The end of the wait.
        #[serde(rename = "until_micros")]
        until: Timestamp,
        /// The reason, for people.
        reason: String,
    },
    /// The steps of an owner are not dispatched until then, or until a person answers; then one of them is tried.
    Held {
        /// The owner, or null for the steps without one.
        owner: Option<String>,
        /// The second owner: its workers take the steps meanwhile; or null.
        second_owner: Option<String>,
        /// The end of the wait; null: no time ends it, but the answer to the question about the step that met the limit.
        #[serde(rename = "until_micros")]
        until: Option<Timestamp>,
        /// The reason, for people.
        reason: String,
        /// Whether a person should know it, although nothing waits for an answer.
        #[serde(skip)]
        is_news: bool,
    },
    /// The disk is nearly full, and no step is dispatched, or it has room again.
    #[serde(skip)]
    Disk {
        /// Why no step is dispatched; `None`: steps are dispatched again.
        problem: Option<String>,
    },
    /// No more steps are dispatched.
    Draining {
        /// The reason, for people.
        reason: String,
        /// The number of running workers and checks.
        running: usize,
    },
    /// Most of a part of the run's budget is used: 80 % or more.
    BudgetUsed(BudgetUse),
    /// The progress of the run, sent after every change.
    #[serde(skip)]
    Counted {
        /// Steps that are accepted or skipped.
        settled: u32,
        /// Steps of the active version.
        steps: u32,
    },
}
