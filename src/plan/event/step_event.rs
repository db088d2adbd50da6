//! What can happen to a step: the events of [`crate::plan::Event::Step`].
//!
//! The invariants are those of [`crate::plan::Event`].

use serde::{Deserialize, Serialize};

use super::question::{Answered, Asked, Expired};
use super::receipt::Receipt;
use crate::plan::model::budget::Cost;
use crate::plan::model::policy::Disposition;
use crate::plan::model::step::FailureClass;
use crate::plan::value::ids::{AttemptToken, Micros, RunId, StepNumber};

impl FailureDecided {
    /// Whether the step was given up, or given to its fallback, because its attempts were used up.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.rule.ends_with(".attempts_exhausted")
    }
}

/// Something happened to a step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepRecord {
    /// The run.
    pub run: RunId,
    /// The step.
    pub step: StepNumber,
    /// Sequence number of the step's previous event; 0 for its first.
    pub previous: u64,
    /// What happened.
    pub event: StepEvent,
}

/// What can happen to a step.
#[derive(Debug, Clone, PartialEq)]
pub enum StepEvent {
    /// It was dealt to a worker. The record's sequence number is the attempt's token.
    Dispatched(Dispatched),
    /// The worker showed that it lives.
    LeaseRenewed(LeaseRenewed),
    /// The attempt will never report.
    AttemptLost(AttemptLost),
    /// The worker reported.
    ReceiptRecorded(ReceiptRecorded),
    /// A report came that may not count.
    ReceiptRefused(ReceiptRefused),
    /// One of its criteria was judged.
    VerdictRecorded(VerdictRecorded),
    /// It counts as done.
    Accepted(Accepted),
    /// It failed in one attempt, and this was decided.
    FailureDecided(FailureDecided),
    /// It will not be done, and that is all right.
    Skipped(Skipped),
    /// It had failed for good and may be tried again.
    Reopened(Reopened),
    /// Somebody said what became of a lost attempt.
    DoubtResolved(DoubtResolved),
    /// Its condition, or one of its preconditions, was judged.
    ConditionJudged(ConditionJudged),
    /// The time that it had to wait is over.
    DelayElapsed(DelayElapsed),
    /// Somebody was asked about it.
    Asked(Asked),
    /// A question about it was answered.
    Answered(Answered),
    /// Nobody answered a question about it in time.
    Expired(Expired),
    /// Its worker is about to do something to the world.
    EffectIntended(EffectIntended),
    /// Its worker has done it.
    EffectCommitted(EffectCommitted),
    /// What an attempt cost became known, or was put right.
    CostCorrected(CostCorrected),
    /// It failed for good without an attempt.
    Failed(StepFailed),
}

/// A step was dealt to a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispatched {
    /// The attempt's number at this step, from 1.
    pub attempt: u32,
    /// Who got it.
    pub worker: String,
    /// Until when it is theirs without a sign of life.
    pub lease_until: Micros,
    /// The key that a side effect should carry to the outside; the same for every attempt of a
    /// step whose idempotence is `with_key`, else one per attempt.
    pub idempotency_key: String,
    /// What it may cost: reserved until the receipt says what it did cost.
    pub reserved: Cost,
}

/// The worker showed that it lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRenewed {
    /// The attempt.
    pub token: AttemptToken,
    /// Until when it is theirs now.
    pub lease_until: Micros,
}

/// The attempt will never report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptLost {
    /// The attempt.
    pub token: AttemptToken,
    /// Why.
    pub cause: LostCause,
    /// Details for people.
    pub detail: String,
    /// What becomes of the step.
    pub then: AfterLoss,
}

/// Why an attempt is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LostCause {
    /// Its lease ran out.
    LeaseExpired,
    /// The process that hosted the worker ended.
    RunnerDied,
    /// The worker gave it back, or was stopped before it began.
    Released,
    /// A new plan version took the step away.
    Revoked,
}

/// What becomes of a step whose attempt was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AfterLoss {
    /// It is dealt again.
    DealAgain,
    /// Somebody must say what happened first, since doing it twice would do harm.
    InDoubt,
}

/// The worker reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptRecorded {
    /// The attempt.
    pub token: AttemptToken,
    /// What it said.
    pub receipt: Receipt,
}

/// A report came that may not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptRefused {
    /// The attempt that it names.
    pub token: AttemptToken,
    /// Why it may not count.
    pub reason: String,
    /// What it said.
    pub receipt: Receipt,
}

/// A criterion of a step was judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictRecorded {
    /// The attempt whose work was judged.
    pub token: AttemptToken,
    /// The judgement.
    pub verdict: Verdict,
}

/// The judgement of one criterion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The criterion's 0-based place in the list.
    pub criterion: u32,
    /// The judgement.
    pub ruling: Ruling,
    /// Who judged: never the worker itself. `policy:trust` marks the worker's word.
    pub by: String,
    /// On what grounds.
    pub evidence: String,
}

/// Whether a criterion holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ruling {
    /// It holds.
    Pass,
    /// It does not.
    Fail,
}

/// A step counts as done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// On what grounds.
    pub basis: AcceptedBasis,
}

/// On what grounds a step counts as done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AcceptedBasis {
    /// It has no criteria: its successful receipt is enough.
    Receipt,
    /// Every criterion was judged by somebody other than the worker.
    Verdicts,
    /// Every criterion was judged, some of them on the worker's word.
    WorkersWord,
    /// It was done before the run began.
    DoneBefore {
        /// Where that was written.
        source: String,
    },
    /// A lost attempt turned out to have done it.
    Landed {
        /// Who said so.
        by: String,
    },
    /// The step that stands in for it is accepted.
    StoodIn {
        /// That step.
        step: StepNumber,
    },
    /// A value stands in for its output.
    Fallback {
        /// Where the value is from, and how old it was.
        reason: String,
    },
}

/// What was decided about a failed attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureDecided {
    /// The attempt that failed.
    pub token: AttemptToken,
    /// The failure's class.
    pub class: FailureClass,
    /// What is done about it.
    pub decision: Decision,
    /// The rule that decided.
    pub rule: String,
    /// Why, for people.
    pub reason: String,
    /// What the attempt left in the world, as far as it is known.
    pub disposition: Disposition,
    /// What becomes of the attempt where the step has failed for good.
    pub then: AfterFailure,
}

/// What becomes of the attempt of a step that has failed for good.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AfterFailure {
    /// It is over.
    #[default]
    Over,
    /// It did, or may have done, what must not be done twice: before the step is ever dealt again
    /// somebody says what happened.
    Held,
}

/// What is done about a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// The step is dealt again.
    Retry,
    /// The step has failed for good.
    Fail,
    /// The step is dealt again, but not before that time.
    RetryAt(Micros),
    /// The step's fallback stands in for it.
    Fallback,
    /// Another plan is asked for; until it comes, the step has failed.
    Replan,
    /// Somebody is asked.
    Escalate,
    /// The run ends.
    Abort,
    /// Somebody must say what the attempt did, before anything else is decided.
    Doubt,
}

/// A step will not be done, and that is all right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Who said so.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// A step that had failed for good may be tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reopened {
    /// Who said so.
    pub by: String,
}

/// Somebody said what became of a lost attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoubtResolved {
    /// The lost attempt.
    pub token: AttemptToken,
    /// What happened.
    pub finding: Finding,
    /// Who said so.
    pub by: String,
    /// On what grounds: what a probe found, or what they saw.
    pub evidence: String,
}

/// What became of a lost attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Finding {
    /// It did its work.
    Landed,
    /// It did nothing.
    DidNotHappen,
}

/// A condition or a precondition of a step was judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConditionJudged {
    /// Which.
    pub which: Condition,
    /// Whether it holds.
    pub ruling: Ruling,
    /// What it was judged by: the variables that it names, or why it could not be evaluated.
    pub evidence: String,
}

/// A condition of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Condition {
    /// Its run-if condition.
    RunIf,
    /// One of its preconditions, by its 0-based place.
    Pre(u32),
}

/// The time that a step had to wait is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelayElapsed {
    /// When it was over.
    pub due: Micros,
}

/// A worker is about to do something to the world.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectIntended {
    /// Its attempt.
    pub token: AttemptToken,
    /// What, in the words of the plan or the worker.
    pub effect: String,
    /// The key that makes it happen once: the attempt's, or one of the worker's own.
    pub key: String,
}

/// A worker has done something to the world.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectCommitted {
    /// Its attempt.
    pub token: AttemptToken,
    /// The key of the intent.
    pub key: String,
}

/// What an attempt cost became known, or was put right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostCorrected {
    /// The attempt.
    pub token: AttemptToken,
    /// What it cost.
    pub cost: Cost,
    /// What it was charged with before.
    pub charged: Cost,
    /// Who said so.
    pub by: String,
}

/// A step failed for good without an attempt: a precondition, a gate, or what stood in for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepFailed {
    /// The failure's class.
    pub class: FailureClass,
    /// The rule that decided.
    pub rule: String,
    /// Why, for people.
    pub reason: String,
}
