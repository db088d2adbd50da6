//! What can happen to a step: the events of [`super::Event::Step`].
//!
//! The invariants are those of [`super::Event`].

use serde::{Deserialize, Serialize};

use super::{
    Answered, Asked, AttemptToken, ConditionJudged, Cost, CostCorrected, DelayElapsed, Disposition,
    EffectCommitted, EffectIntended, Expired, FailureClass, Json, Micros, Output, RunId,
    StepFailed, StepNumber,
};

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

/// What a worker returns for an attempt: a claim, not a completion.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// How it went.
    pub outcome: Outcome,
    /// What it produced.
    pub output: Output,
    /// Variables that it wants set, beyond those that its outputs name.
    pub variables: Vec<(String, Json)>,
    /// Files that it made.
    pub artifacts: Vec<Artifact>,
    /// Side effects that it committed, by name or key.
    pub side_effects: Vec<String>,
    /// What it cost.
    pub cost: Cost,
    /// How long it took, in microseconds.
    pub duration: Micros,
    /// The end of what it wrote to standard error, or other notes.
    pub log_tail: String,
    /// What a failed attempt left in the world, where the worker knows.
    pub disposition: Option<Disposition>,
}

/// How an attempt went, in the worker's own view.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The work is done.
    #[default]
    Succeeded,
    /// The work is not done.
    Failed {
        /// Why.
        class: FailureClass,
        /// Why, for people.
        message: String,
        /// Why, for programs.
        payload: Json,
    },
    /// The plan should change first.
    ReplanRequested {
        /// Why.
        reason: String,
    },
}

/// A file that a worker made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// Where it is.
    pub path: String,
    /// Hash of its bytes, in hexadecimal, as the worker or the runner computed it.
    pub hash: String,
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
