//! The reasons that can block a step, as data.

use std::collections::BTreeSet;

use crate::plan::event::question::{QuestionId, QuestionSubject};
use crate::plan::event::run_event::{CapScope, Ending, PauseCause};
use crate::plan::event::step_event::Ruling;
use crate::plan::event::step_status::StepStatus;
use crate::plan::model::budget::BudgetPart;
use crate::plan::model::step::FailureClass;
use crate::plan::state::barrier_state::BarrierStatus;
use crate::plan::value::ids::{AttemptToken, ContentHash, RunId, StepNumber, Timestamp};
use crate::plan::value::text::Text;

/// A reason that blocks a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockReason {
    /// The run has ended.
    RunEnded(Ending),
    /// No version of the plan is active yet; the proposed ones wait for review.
    NoActivePlan {
        /// Version and hash of each.
        proposed: Vec<(u32, ContentHash)>,
    },
    /// The run is paused.
    Paused(PauseCause),
    /// The run ends once no attempt is in flight.
    Stopping(String),
    /// The active version has no such step.
    Removed,
    /// A dependency on a step that is neither accepted nor skipped.
    Step {
        /// Its number.
        step: StepNumber,
        /// Its id in the plan.
        id: String,
        /// Its status.
        status: StepStatus,
    },
    /// A dependency on a barrier that is not released.
    Barrier(Box<BlockingBarrier>),
    /// A dependency on a name that the plan does not have.
    Unknown(String),
    /// The step's condition does not hold, or was not evaluated yet.
    Condition {
        /// The expression.
        expression: String,
        /// The ruling; `None` before it is judged.
        ruling: Option<Ruling>,
    },
    /// A precondition that does not hold, or was not evaluated yet.
    Precondition {
        /// Its 0-based index in the step's list.
        index: u32,
        /// The expression.
        expression: String,
        /// The ruling; `None` before it is judged.
        ruling: Option<Ruling>,
        /// The variables that it reads.
        variables: BTreeSet<String>,
        /// The remaining steps that set one of them.
        writers: BTreeSet<StepNumber>,
    },
    /// A replan request holds the step, since the next version may change it.
    Replan {
        /// Sequence number of the request.
        request: u64,
        /// The first step to do again, if the request names one.
        from: Option<StepNumber>,
        /// The reason for the request.
        reason: String,
    },
    /// An open question.
    Question {
        /// Its id.
        question: QuestionId,
        /// Its subject.
        subject: QuestionSubject,
        /// Its text.
        text: String,
        /// The person to ask, if named.
        to: Option<String>,
        /// The deadline.
        deadline: Option<Timestamp>,
        /// The valid answers.
        options: Vec<String>,
    },
    /// The gate is closed, and its question has not been asked yet.
    Gate,
    /// A delay before the next attempt.
    Delay {
        /// When it ends.
        until: Timestamp,
        /// The message of the failure.
        after: String,
    },
    /// The step failed and waits for its fallback step.
    Fallback(StepNumber),
    /// The step is only a fallback for these steps, and all of them are without a failure.
    FallbackFor(Vec<StepNumber>),
    /// A cap is reached.
    Cap {
        /// Its scope.
        scope: CapScope,
        /// The run that it is limited to, if the plan set it; `None`: the whole ledger.
        within: Option<RunId>,
        /// The number of attempts that may be in flight.
        limit: u32,
        /// The attempts that count against it.
        attempts: Vec<BlockingAttempt>,
    },
    /// A budget does not cover another attempt.
    Budget(BudgetShortage),
    /// The step is dispatched.
    Dispatched(BlockingAttempt),
    /// The worker has reported; verdicts or a decision are missing.
    Reported {
        /// The attempt.
        token: AttemptToken,
        /// The indices of the criteria without a verdict.
        unjudged: Vec<u32>,
        /// Class and message of its failure, if an external decider must decide about it.
        undecided: Option<(FailureClass, Text)>,
    },
    /// The outcome of an attempt is unknown, and a person must resolve it.
    OutcomeUnknown(BlockingAttempt),
    /// The step failed permanently.
    Failed(Option<(FailureClass, Text)>),
    /// The run ended before the step was done.
    Cancelled,
}

/// A barrier that is not released.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockingBarrier {
    /// Its id.
    pub id: String,
    /// Its status.
    pub status: BarrierStatus,
    /// The number of members that must arrive.
    pub needed: u32,
    /// The members that arrived.
    pub arrived: BTreeSet<StepNumber>,
    /// The members that can still arrive.
    pub missing: BTreeSet<StepNumber>,
    /// The members that failed permanently.
    pub failed: BTreeSet<StepNumber>,
    /// The deadline for its release.
    pub deadline: Option<Timestamp>,
    /// Whether the deadline has passed.
    pub is_late: bool,
    /// The open question about it.
    pub question: Option<QuestionId>,
}

/// An attempt that is in flight or has an unknown outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockingAttempt {
    /// The run.
    pub run: RunId,
    /// The step.
    pub step: StepNumber,
    /// The step's id.
    pub id: String,
    /// The attempt.
    pub token: AttemptToken,
    /// The worker.
    pub worker: String,
    /// The second owner whose worker does the attempt; `None` for a worker of the step's own owner.
    pub second_owner: Option<String>,
    /// The end of its lease.
    pub lease_until: Timestamp,
}

/// A budget that does not cover another attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetShortage {
    /// The run that the budget belongs to; `None`: the ledger.
    pub run: Option<RunId>,
    /// The part of the budget.
    pub part: BudgetPart,
    /// The amount spent.
    pub spent: u64,
    /// The amount reserved for attempts in flight.
    pub reserved: u64,
    /// The expected cost of another attempt.
    pub needed: u64,
    /// The limit; for wall time, in seconds.
    pub limit: u64,
}

impl BlockReason {
    /// The steps that must finish before the reason no longer applies.
    #[must_use]
    pub fn leads_to(&self) -> Vec<StepNumber> {
        match self {
            Self::Step { step, .. } | Self::Fallback(step) => vec![*step],
            Self::Barrier(missing) => missing.missing.union(&missing.failed).copied().collect(),
            Self::Precondition { writers, .. } => writers.iter().copied().collect(),
            Self::FallbackFor(steps) => steps.clone(),
            _ => Vec::new(),
        }
    }
}
