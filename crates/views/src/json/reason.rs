//! The reasons that block a step or a run.

use std::collections::BTreeSet;

use plan_ledger::plan::{
    BarrierStatus, BlockReason, BlockingAttempt, BlockingBarrier, BudgetPart, BudgetShortage,
    CapScope, PauseCause, QuestionSubject, StepReasons,
};
use plan_ledger::{
    AttemptToken, ContentHash, Ending, QuestionId, Ruling, RunId, StepNumber, StepStatus,
};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::failure::FailureJson;
use super::time::TimeJson;

/// A step, and the reasons that block it.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StepReasonsJson<'a> {
    /// Its id.
    id: &'a str,
    /// The reasons.
    reasons: Vec<ReasonJson<'a>>,
    /// Its status.
    status: StepStatus,
    /// Its number.
    step: StepNumber,
}

impl<'a> StepReasonsJson<'a> {
    /// The reasons of a step.
    #[must_use]
    pub fn of((number, entry): (&StepNumber, &'a StepReasons)) -> Self {
        let StepReasons { id, status, reasons } = entry;
        let reasons = reasons.iter().map(ReasonJson::from).collect();
        Self { id, reasons, status: *status, step: *number }
    }
}

/// A reason that blocks a step or a run.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum ReasonJson<'a> {
    /// The run has ended.
    RunEnded {
        /// How it ended.
        ending: Ending,
    },
    /// No version of the plan is active yet.
    NoActivePlan {
        /// The versions that wait for a review.
        proposed: Vec<ProposedJson>,
    },
    /// The run is paused.
    Paused {
        /// Why.
        cause: &'a PauseCause,
    },
    /// The run ends as soon as no attempt is in flight.
    Stopping {
        /// Why, for people.
        why: &'a str,
    },
    /// The active version has no such step.
    Removed,
    /// A dependency on a step that is neither accepted nor skipped.
    Step {
        /// Its id.
        id: &'a str,
        /// Its status.
        status: StepStatus,
        /// Its number.
        step: StepNumber,
    },
    /// A dependency on a barrier that is not released.
    Barrier {
        /// The members that arrived.
        arrived: &'a BTreeSet<StepNumber>,
        /// Its id.
        barrier: &'a str,
        /// The deadline for its release.
        deadline: Option<TimeJson>,
        /// The members that failed permanently.
        failed: &'a BTreeSet<StepNumber>,
        /// Whether the deadline has passed.
        late: bool,
        /// The members that can still arrive.
        missing: &'a BTreeSet<StepNumber>,
        /// The number of members that must arrive.
        needed: u32,
        /// The open question about it.
        question: Option<QuestionId>,
        /// Its status.
        status: BarrierStatus,
    },
    /// A dependency on a name that the plan does not have.
    Unknown {
        /// The name.
        name: &'a str,
    },
    /// The step's condition does not hold, or was not evaluated yet.
    Condition {
        /// The expression.
        expression: &'a str,
        /// The ruling; null before it is judged.
        ruling: Option<Ruling>,
    },
    /// A precondition that does not hold, or was not evaluated yet.
    Precondition {
        /// The expression.
        expression: &'a str,
        /// The precondition, from 0.
        precondition: u32,
        /// The ruling; null before it is judged.
        ruling: Option<Ruling>,
        /// The variables that it reads.
        variables: &'a BTreeSet<String>,
        /// The remaining steps that set one of them.
        writers: &'a BTreeSet<StepNumber>,
    },
    /// An open question.
    Question {
        /// The time until which it can be answered.
        deadline: Option<TimeJson>,
        /// The possible answers.
        options: &'a [String],
        /// Its number.
        question: QuestionId,
        /// The subject.
        subject: &'a QuestionSubject,
        /// Its text.
        text: &'a str,
        /// The addressee; null for any person.
        to: Option<&'a str>,
    },
    /// An open request for a new plan holds the step, since the next version may change it.
    Replan {
        /// The first step to do again; null if the request names none.
        from: Option<StepNumber>,
        /// The record of the request.
        request: u64,
        /// The reason for the request.
        why: &'a str,
    },
    /// The gate is closed, and its question was not asked yet.
    Gate,
    /// A delay before the next attempt.
    Delay {
        /// The message of the failure.
        after: &'a str,
        /// The end of the delay.
        until: TimeJson,
    },
    /// The step failed and waits for its fallback step.
    Fallback {
        /// The fallback step.
        step: StepNumber,
    },
    /// The step is only a fallback, and no step needs it.
    FallbackFor {
        /// The steps that use it as their fallback.
        steps: &'a [StepNumber],
    },
    /// A cap is reached.
    Cap {
        /// The attempts that count against it.
        attempts: Vec<BlockingAttemptJson<'a>>,
        /// The number of attempts that may be in flight.
        limit: u32,
        /// The scope of the cap.
        scope: &'a CapScope,
        /// The run that the cap of the plan applies to; null for the whole ledger.
        within: Option<RunId>,
    },
    /// A budget does not cover another attempt.
    Budget {
        /// The limit.
        limit: u64,
        /// The expected cost of another attempt.
        needed: u64,
        /// The part of the budget.
        part: BudgetPart,
        /// The amount reserved for attempts in flight.
        reserved: u64,
        /// The run; null for the budget of the ledger.
        run: Option<RunId>,
        /// The amount spent.
        spent: u64,
    },
    /// The step is dispatched.
    Dispatched {
        /// The attempt.
        attempt: BlockingAttemptJson<'a>,
    },
    /// The worker has reported; verdicts or a decision are missing.
    Reported {
        /// The attempt.
        token: AttemptToken,
        /// The failure about which a person must decide.
        undecided: Option<FailureJson<'a>>,
        /// The criteria without a verdict, from 0.
        unjudged: &'a [u32],
    },
    /// The outcome of an attempt is unknown.
    OutcomeUnknown {
        /// The attempt.
        attempt: BlockingAttemptJson<'a>,
    },
    /// The step failed permanently.
    Failed {
        /// Its failure.
        failure: Option<FailureJson<'a>>,
    },
    /// The run ended before the step was done.
    Cancelled,
}

impl<'a> From<&'a BlockReason> for ReasonJson<'a> {
    fn from(reason: &'a BlockReason) -> Self {
        match reason {
            BlockReason::RunEnded(ending) => Self::RunEnded { ending: *ending },
            BlockReason::NoActivePlan { proposed } => {
                let version = |(version, hash): &_| ProposedJson { hash: *hash, version: *version };
                Self::NoActivePlan { proposed: proposed.iter().map(version).collect() }
            }
            BlockReason::Paused(cause) => Self::Paused { cause },
            BlockReason::Stopping(why) => Self::Stopping { why },
            BlockReason::Removed => Self::Removed,
            BlockReason::Step { step, id, status } => {
                Self::Step { id, status: *status, step: *step }
            }
            BlockReason::Barrier(missing) => Self::barrier(missing),
            BlockReason::Unknown(name) => Self::Unknown { name },
            BlockReason::Condition { expression, ruling } => {
                Self::Condition { expression, ruling: *ruling }
            }
            BlockReason::Precondition { index, expression, ruling, variables, writers } => {
                Self::Precondition {
                    expression,
                    precondition: *index,
                    ruling: *ruling,
                    variables,
                    writers,
                }
            }
            BlockReason::Question { question, subject, text, to, deadline, options } => {
                Self::Question {
                    deadline: deadline.map(TimeJson::from),
                    options,
                    question: *question,
                    subject,
                    text,
                    to: to.as_deref(),
                }
            }
            BlockReason::Replan { request, from, reason } => {
                Self::Replan { from: *from, request: *request, why: reason }
            }
            BlockReason::Gate => Self::Gate,
            BlockReason::Delay { until, after } => Self::Delay { after, until: (*until).into() },
            BlockReason::Fallback(step) => Self::Fallback { step: *step },
            BlockReason::FallbackFor(steps) => Self::FallbackFor { steps },
            BlockReason::Cap { scope, within, limit, attempts } => Self::Cap {
                attempts: attempts.iter().map(BlockingAttemptJson::from).collect(),
                limit: *limit,
                scope,
                within: *within,
            },
            BlockReason::Budget(shortage) => {
                let BudgetShortage { run, part, spent, reserved, needed, limit } = *shortage;
                Self::Budget { limit, needed, part, reserved, run, spent }
            }
            BlockReason::Dispatched(attempt) => Self::Dispatched { attempt: attempt.into() },
            BlockReason::Reported { token, unjudged, undecided } => Self::Reported {
                token: *token,
                undecided: undecided.as_ref().map(FailureJson::from),
                unjudged,
            },
            BlockReason::OutcomeUnknown(attempt) => {
                Self::OutcomeUnknown { attempt: attempt.into() }
            }
            BlockReason::Failed(failure) => {
                Self::Failed { failure: failure.as_ref().map(FailureJson::from) }
            }
            BlockReason::Cancelled => Self::Cancelled,
        }
    }
}

impl<'a> ReasonJson<'a> {
    fn barrier(missing: &'a BlockingBarrier) -> Self {
        let BlockingBarrier {
            id,
            status,
            needed,
            arrived,
            missing,
            failed,
            deadline,
            is_late,
            question,
        } = missing;
        Self::Barrier {
            arrived,
            barrier: id,
            deadline: deadline.map(TimeJson::from),
            failed,
            late: *is_late,
            missing,
            needed: *needed,
            question: *question,
            status: *status,
        }
    }
}

/// A version that waits for a review.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ProposedJson {
    /// Its hash.
    hash: ContentHash,
    /// Its number.
    version: u32,
}

/// An attempt that blocks a step.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct BlockingAttemptJson<'a> {
    /// The id of its step.
    id: &'a str,
    /// The end of its lease.
    lease_until: TimeJson,
    /// The run.
    run: RunId,
    /// The second owner, if its worker has the attempt; null for a worker of the step's own owner.
    second_owner: Option<&'a str>,
    /// The number of its step.
    step: StepNumber,
    /// Its token.
    token: AttemptToken,
    /// Its worker.
    worker: &'a str,
}

impl<'a> From<&'a BlockingAttempt> for BlockingAttemptJson<'a> {
    fn from(attempt: &'a BlockingAttempt) -> Self {
        let BlockingAttempt { run, step, id, token, worker, second_owner, lease_until } = attempt;
        let second_owner = second_owner.as_deref();
        let (lease_until, run, step, token) = ((*lease_until).into(), *run, *step, *token);
        Self { id, lease_until, run, second_owner, step, token, worker }
    }
}
