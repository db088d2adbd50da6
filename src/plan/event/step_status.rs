//! The status of a step.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The status of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// A dependency is not met, or a condition does not hold or is not evaluated yet.
    Waiting,
    /// It may be dispatched.
    Ready,
    /// A worker has the lease of an attempt.
    Dispatched,
    /// An attempt may have done the work, and the outcome must be resolved.
    OutcomeUnknown,
    /// The worker returned a receipt; verdicts or a decision are missing.
    Reported,
    /// It is done.
    Accepted,
    /// It failed, and no attempt is left.
    Failed,
    /// It is not done, and its dependents do not wait for it.
    Skipped,
    /// The active version has no such step.
    Removed,
    /// It waits for the answer to a question about its gate or its failure.
    Gated,
    /// It failed, and is dispatched again after a delay.
    Delayed,
    /// Its run ended before it was done.
    Cancelled,
}

impl StepStatus {
    /// Every status.
    pub const ALL: [Self; 12] = [
        Self::Waiting,
        Self::Ready,
        Self::Dispatched,
        Self::OutcomeUnknown,
        Self::Reported,
        Self::Accepted,
        Self::Failed,
        Self::Skipped,
        Self::Removed,
        Self::Gated,
        Self::Delayed,
        Self::Cancelled,
    ];

    /// Whether the step is accepted or skipped, so that dependents no longer wait for it.
    #[must_use]
    pub fn is_closed(self) -> bool {
        matches!(self, Self::Accepted | Self::Skipped)
    }

    /// Whether the step is open or has an attempt that is not decided: its work may still be done
    /// under the current plan.
    #[must_use]
    pub fn is_remaining(self) -> bool {
        self.is_open() || matches!(self, Self::Dispatched | Self::OutcomeUnknown | Self::Reported)
    }

    /// Whether the step is waiting, ready, gated or delayed: it may still be dispatched under the
    /// current plan.
    #[must_use]
    pub fn is_open(self) -> bool {
        matches!(self, Self::Waiting | Self::Ready | Self::Gated | Self::Delayed)
    }
}

impl fmt::Display for StepStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waiting => "waiting",
            Self::Ready => "ready",
            Self::Dispatched => "dispatched",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::Reported => "reported",
            Self::Accepted => "accepted",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Removed => "removed",
            Self::Gated => "gated",
            Self::Delayed => "delayed",
            Self::Cancelled => "cancelled",
        })
    }
}
