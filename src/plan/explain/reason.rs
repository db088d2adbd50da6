//! The reasons that can block a step, as data and in JSON.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::plan::event::question::{QuestionId, QuestionSubject};
use crate::plan::event::run_event::{self, CapScope, Ending, PauseCause};
use crate::plan::event::step_event::Ruling;
use crate::plan::event::step_status::StepStatus;
use crate::plan::model::budget::BudgetPart;
use crate::plan::model::step::FailureClass;
use crate::plan::state::barrier_state::BarrierStatus;
use crate::plan::value::ids::{AttemptToken, ContentHash, RunId, StepNumber, Timestamp};
use crate::plan::value::text::Text;
use crate::plan::value::time;
#[cfg(feature = "schema")]
use crate::plan::value::time::UtcTime;

/// A reason that blocks a step or a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum BlockReason {
    /// The run has ended.
    RunEnded {
        /// How it ended.
        ending: Ending,
    },
    /// No version of the plan is active yet.
    NoActivePlan {
        /// The versions that wait for a review.
        proposed: Vec<ProposedVersion>,
    },
    /// The run is paused.
    Paused {
        /// Why.
        cause: PauseCause,
    },
    /// The run ends once no attempt is in flight.
    Stopping {
        /// Why, for people.
        why: String,
    },
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
    Barrier {
        /// It, and its members.
        #[serde(flatten)]
        barrier: Box<BlockingBarrier>,
    },
    /// A dependency on a name that the plan does not have.
    Unknown {
        /// The name.
        name: String,
    },
    /// The step's condition does not hold, or was not evaluated yet.
    Condition {
        /// The expression.
        expression: String,
        /// The ruling; null before it is judged.
        ruling: Option<Ruling>,
    },
    /// A precondition that does not hold, or was not evaluated yet.
    Precondition {
        /// The precondition, from 0.
        #[serde(rename = "precondition")]
        index: u32,
        /// The expression.
        expression: String,
        /// The ruling; null before it is judged.
        ruling: Option<Ruling>,
        /// The variables that it reads.
        variables: BTreeSet<String>,
        /// The remaining steps that set one of them.
        writers: BTreeSet<StepNumber>,
    },
    /// A replan request holds the step, since the next version may change it.
    Replan {
        /// The record of the request.
        request: u64,
        /// The first step to do again; null if the request names none.
        from: Option<StepNumber>,
        /// The reason for the request.
        #[serde(rename = "why")]
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
        /// The addressee; null for any person.
        to: Option<String>,
        /// The time until which it can be answered.
        #[serde(serialize_with = "time::serialize")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<UtcTime>"))]
        deadline: Option<Timestamp>,
        /// The valid answers.
        options: Vec<String>,
    },
    /// The gate is closed, and its question has not been asked yet.
    Gate,
    /// A delay before the next attempt.
    Delay {
        /// The end of the delay.
        #[serde(serialize_with = "time::serialize")]
        #[cfg_attr(feature = "schema", schemars(with = "UtcTime"))]
        until: Timestamp,
        /// The message of the failure.
        after: String,
    },
    /// The step failed and waits for its fallback step.
    Fallback {
        /// The fallback step.
        step: StepNumber,
    },
    /// The step is only a fallback, and no step needs it.
    FallbackFor {
        /// The steps that use it as their fallback.
        steps: Vec<StepNumber>,
    },
    /// A cap is reached.
    Cap {
        /// Its scope.
        scope: CapScope,
        /// The run that the cap of the plan applies to; null for the whole ledger.
        within: Option<RunId>,
        /// The number of attempts that may be in flight.
        limit: u32,
        /// The attempts that count against it.
        attempts: Vec<BlockingAttempt>,
    },
    /// A budget does not cover another attempt.
    Budget {
        /// What is missing.
        #[serde(flatten)]
        shortage: BudgetShortage,
    },
    /// The step is dispatched.
    Dispatched {
        /// The attempt.
        attempt: BlockingAttempt,
    },
    /// The worker has reported; verdicts or a decision are missing.
    Reported {
        /// The attempt.
        token: AttemptToken,
        /// The criteria without a verdict, from 0.
        unjudged: Vec<u32>,
        /// The failure about which a person must decide.
        #[serde(serialize_with = "run_event::failure")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<run_event::Failure<'static>>"))]
        undecided: Option<(FailureClass, Text)>,
    },
    /// The outcome of an attempt is unknown, and a person must resolve it.
    OutcomeUnknown {
        /// The attempt.
        attempt: BlockingAttempt,
    },
    /// The step failed permanently.
    Failed {
        /// Its failure.
        #[serde(serialize_with = "run_event::failure")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<run_event::Failure<'static>>"))]
        failure: Option<(FailureClass, Text)>,
    },
    /// The run ended before the step was done.
    Cancelled,
}

/// A version of the plan that waits for a review.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProposedVersion {
    /// Its number.
    pub version: u32,
    /// Its hash.
    pub hash: ContentHash,
}

/// A barrier that is not released.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlockingBarrier {
    /// Its id.
    #[serde(rename = "barrier")]
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
    #[serde(serialize_with = "time::serialize")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<UtcTime>"))]
    pub deadline: Option<Timestamp>,
    /// Whether the deadline has passed.
    #[serde(rename = "late")]
    pub is_late: bool,
    /// The open question about it.
    pub question: Option<QuestionId>,
}

/// An attempt that is in flight or has an unknown outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// The second owner, if its worker has the attempt; null for a worker of the step's own owner.
    pub second_owner: Option<String>,
    /// The end of its lease.
    #[serde(serialize_with = "time::serialize")]
    #[cfg_attr(feature = "schema", schemars(with = "UtcTime"))]
    pub lease_until: Timestamp,
}

/// A budget that does not cover another attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BudgetShortage {
    /// The run; null for the budget of the ledger.
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
            Self::Step { step, .. } | Self::Fallback { step } => vec![*step],
            Self::Barrier { barrier } => barrier.missing.union(&barrier.failed).copied().collect(),
            Self::Precondition { writers, .. } => writers.iter().copied().collect(),
            Self::FallbackFor { steps } => steps.clone(),
            _ => Vec::new(),
        }
    }
}
