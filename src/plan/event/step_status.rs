//! How a step stands, in a word.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How a step stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum StepStatus {
    /// Something that it depends on is not settled, or a condition is not known to hold.
    Waiting,
    /// It may be dealt.
    Ready,
    /// A worker has it.
    Dispatched,
    /// An attempt may have done it: somebody must say.
    InDoubt,
    /// The worker reported; verdicts, or a decision, are missing.
    Reported,
    /// It counts as done.
    Accepted,
    /// It failed for good.
    Failed,
    /// It will not be done, and that is all right.
    Skipped,
    /// The active version has no such step.
    Removed,
    /// Somebody must answer first.
    Gated,
    /// It failed, and is dealt again when some time has passed.
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
        Self::InDoubt,
        Self::Reported,
        Self::Accepted,
        Self::Failed,
        Self::Skipped,
        Self::Removed,
        Self::Gated,
        Self::Delayed,
        Self::Cancelled,
    ];

    /// Whether what waits for the step need wait no longer.
    #[must_use]
    pub fn is_closed(self) -> bool {
        matches!(self, Self::Accepted | Self::Skipped)
    }

    /// Whether its work may still be done without anybody changing the plan.
    #[must_use]
    pub fn is_left(self) -> bool {
        self.is_open() || matches!(self, Self::Dispatched | Self::InDoubt | Self::Reported)
    }

    /// Whether the step may still be dealt without anybody changing the plan.
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
            Self::InDoubt => "in doubt",
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
