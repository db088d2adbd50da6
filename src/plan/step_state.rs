//! One step, and one barrier, as the state holds them.
//!
//! The invariants are those of [`super::State`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{
    AcceptedBasis, AttemptToken, Blank, Cost, FailureClass, Micros, OnBreak, QuestionId, Receipt,
    Ruling, Seldom, StepNumber, Verdict,
};

/// One step of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepState {
    /// Its author's name for it.
    pub id: String,
    /// Its owner, after the plan's defaults and fallbacks.
    pub owner: Option<String>,
    /// Its tags in the active version.
    pub tags: Seldom<BTreeSet<String>>,
    /// Its priority in the active version.
    pub priority: i32,
    /// How it stands.
    pub status: StepStatus,
    /// Sequence number of its last event; 0 before the first.
    pub last_seq: u64,
    /// How many attempts it had.
    pub attempts: u32,
    /// How many of them failed since it was last reopened or invalidated.
    pub failures: u32,
    /// Dependencies that are not settled yet.
    pub unmet: u32,
    /// What else keeps it from being dealt.
    pub hold: Seldom<Hold>,
    /// The attempt that is in flight, reported, in doubt, or asked about.
    pub attempt: Option<Box<Attempt>>,
    /// On what grounds it was accepted.
    pub accepted: Option<AcceptedBasis>,
    /// Class and message of its last failure, until it is accepted.
    pub last_failure: Option<Box<(FailureClass, String)>>,
    /// The verdicts against its last attempt, until it is accepted.
    pub failed_criteria: Seldom<Vec<Verdict>>,
    /// Whether its fallback was used.
    pub has_fallen_back: bool,
}

/// What keeps a step from being dealt, once all that it depends on is settled.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Whether its condition holds, once it was judged.
    pub condition: Option<Ruling>,
    /// Whether its preconditions hold, those that were judged since a variable that they name was
    /// last set.
    pub preconditions: BTreeMap<u32, Ruling>,
    /// Whether its gate was opened.
    pub is_gate_open: bool,
    /// The open question about it.
    pub question: Option<QuestionId>,
    /// What was answered about its failure, and by whom, until that is done.
    pub answer: Option<(String, String)>,
    /// Until when it waits after a failure.
    pub delay: Option<Micros>,
    /// The step that stands in for it.
    pub stand_in: Option<StepNumber>,
    /// Whether it is only there to stand in for another, and has not been called.
    pub is_on_call: bool,
}

impl Blank for Hold {
    const BLANK: &'static Self = &Self {
        condition: None,
        preconditions: BTreeMap::new(),
        is_gate_open: false,
        question: None,
        answer: None,
        delay: None,
        stand_in: None,
        is_on_call: false,
    };
}

/// The current attempt of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// The right to report on it.
    pub token: AttemptToken,
    /// Who has it.
    pub worker: String,
    /// When it was dealt.
    pub dispatched: Micros,
    /// Until when it is theirs.
    pub lease_until: Micros,
    /// What it may cost, until the receipt says what it did.
    pub reserved: Cost,
    /// What the worker returned, until it is judged.
    pub receipt: Option<Receipt>,
    /// Verdicts on it so far, by criterion.
    pub verdicts: BTreeMap<u32, Verdict>,
    /// The keys of what it meant to do to the world, or did.
    pub effects: BTreeSet<String>,
}

/// How a step stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum StepStatus {
    /// Something that it depends on is not settled, or a condition is not known to hold.
    Waiting,
    /// It may be dealt.
    Ready,
    /// A worker has it.
    Dispatched,
    /// A lost attempt may have done it: somebody must say.
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

/// A barrier of the active version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BarrierState {
    /// Its members.
    pub members: BTreeSet<StepNumber>,
    /// Members that arrived: accepted or skipped.
    pub arrived: BTreeSet<StepNumber>,
    /// Members that have failed for good.
    pub failed: BTreeSet<StepNumber>,
    /// How many are needed.
    pub needed: u32,
    /// What happens when it can no longer be met.
    pub on_break: OnBreak,
    /// Until when it should be released.
    pub deadline: Option<Micros>,
    /// Whether that time has passed.
    pub is_late: bool,
    /// The open question about it.
    pub question: Option<QuestionId>,
    /// How it stands.
    pub status: BarrierStatus,
}

/// How a barrier stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BarrierStatus {
    /// Members are missing.
    Closed,
    /// Enough arrived.
    Released,
    /// Enough can no longer arrive.
    Broken,
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
