//! What happened: the only things that a ledger remembers.
//!
//! Invariants:
//! - An event is a fact, in the past tense. Whatever could be judged differently tomorrow (a
//!   criterion, a policy, a clock) was judged before, and its outcome is what stands here.
//! - Each variant has its own record kind on disk (`format/events.md`). Variants and fields are
//!   only ever appended, each with a new schema number of its kind.
//! - The structs are plain: no flattened, skipped or renamed fields. JSON travels as [`Json`].
//! - A step event carries the sequence number of that step's previous event, so that a step's
//!   history can be walked without an index.

use serde::{Deserialize, Serialize};

use super::{
    AttemptToken, ContentHash, Cost, FailureClass, Json, Micros, Plan, RunId, Step, StepNumber,
};

/// One fact of the ledger.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A run exists.
    RunStarted(RunStarted),
    /// A plan version was proposed; its steps follow in the same batch.
    PlanProposed(PlanProposed),
    /// Some steps of the version that the same batch proposed, in plan order.
    PlanSteps(PlanSteps),
    /// A proposed version was approved or rejected.
    PlanReviewed(PlanReviewed),
    /// A version became the one that the run executes.
    PlanActivated(PlanActivated),
    /// Something happened to a step.
    Step(StepRecord),
    /// A criterion of the plan as a whole was judged.
    PlanVerdict(PlanVerdict),
    /// A variable got a value.
    VariableSet(VariableSet),
    /// A barrier was released or broken.
    Barrier(BarrierChanged),
    /// A cap was set or lifted.
    CapChanged(CapChanged),
    /// A run ended.
    RunEnded(RunEnded),
    /// A run that had failed goes on.
    RunReopened(RunReopened),
}

/// A run exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStarted {
    /// Its number.
    pub run: RunId,
    /// Its name: unique in the ledger.
    pub name: String,
    /// How it treats approval, criteria and failures.
    pub policy: RunPolicy,
}

/// How a run treats approval, criteria and failures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunPolicy {
    /// Whether a version waits for a person.
    pub approval: ApprovalPolicy,
    /// Who judges `text` criteria.
    pub text: TextPolicy,
    /// What a failed step means for the others.
    pub on_failure: OnFailure,
}

/// Whether a proposed version waits for a person.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ApprovalPolicy {
    /// It is approved by the policy itself.
    #[default]
    Automatic,
    /// It waits for an approval bound to its hash.
    Required,
}

/// Who judges `text` criteria.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TextPolicy {
    /// A person or a judge.
    #[default]
    Judge,
    /// Nobody: the worker's word is taken, and the verdict says so.
    Trust,
}

/// What a failed step means for the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnFailure {
    /// Branches that do not depend on it go on.
    #[default]
    Continue,
    /// Nothing more is dealt.
    FailFast,
}

/// A plan version was proposed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanProposed {
    /// The run.
    pub run: RunId,
    /// The version's number in the run, from 1.
    pub version: u32,
    /// Hash of the whole plan's canonical bytes: what an approval binds to.
    pub hash: ContentHash,
    /// Why there is a new version; empty for the first.
    pub reason: String,
    /// The plan with its list of steps empty.
    pub header: Box<Plan>,
    /// How many steps follow.
    pub step_count: u32,
}

/// Some steps of a proposed version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanSteps {
    /// The run.
    pub run: RunId,
    /// The version.
    pub version: u32,
    /// The steps, each with the hash of what makes it the same work.
    pub steps: Vec<HashedStep>,
}

/// A step and the hash of what makes it the same work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HashedStep {
    /// Hash of goal, command, inputs, condition, changes and acceptance.
    pub hash: ContentHash,
    /// The step.
    pub step: Step,
}

/// A proposed version was approved or rejected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanReviewed {
    /// The run.
    pub run: RunId,
    /// The version.
    pub version: u32,
    /// The hash that the reviewer was shown.
    pub hash: ContentHash,
    /// What they said.
    pub review: Review,
    /// Who: a person, or `policy:automatic`.
    pub by: String,
    /// Why, in their words.
    pub note: String,
}

/// What a reviewer said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Review {
    /// It may be activated.
    Approved,
    /// It may not.
    Rejected,
}

/// A version became the one that the run executes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanActivated {
    /// The run.
    pub run: RunId,
    /// The version.
    pub version: u32,
    /// The number of each of its steps, in plan order.
    pub numbers: Vec<StepNumber>,
    /// Steps that keep what they had: same work, same trusted inputs.
    pub preserved: Vec<StepNumber>,
    /// Steps whose work falls: changed, or downstream of one that fell.
    pub invalidated: Vec<StepNumber>,
    /// Steps of the version before that are no longer there.
    pub removed: Vec<StepNumber>,
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
    pub output: Json,
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
}

/// What is done about a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// The step is dealt again.
    Retry,
    /// The step has failed for good.
    Fail,
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
}

/// What became of a lost attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Finding {
    /// It did its work.
    Landed,
    /// It did nothing.
    DidNotHappen,
}

/// A criterion of the plan as a whole was judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanVerdict {
    /// The run.
    pub run: RunId,
    /// The version whose criterion it is.
    pub version: u32,
    /// The judgement.
    pub verdict: Verdict,
}

/// A variable got a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariableSet {
    /// The run.
    pub run: RunId,
    /// The variable's name.
    pub name: String,
    /// Its value.
    pub value: Json,
    /// How often it has been set, this time included.
    pub version: u64,
    /// Who set it.
    pub origin: Origin,
}

/// Who set a variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// A step's accepted work.
    Step {
        /// The step.
        step: StepNumber,
        /// The attempt.
        token: AttemptToken,
    },
    /// Somebody, by hand.
    Person(String),
}

/// A barrier changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BarrierChanged {
    /// The run.
    pub run: RunId,
    /// The barrier's id, as its author wrote it.
    pub barrier: String,
    /// What happened to it.
    pub change: BarrierChange,
    /// How many members had arrived.
    pub arrived: u32,
    /// How many were needed.
    pub needed: u32,
}

/// What happened to a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BarrierChange {
    /// Enough members arrived.
    Released,
    /// Too few members can still arrive.
    Broken,
}

/// A cap was set or lifted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapChanged {
    /// What it holds for.
    pub scope: CapScope,
    /// How many attempts may be in flight at once; `None` lifts it.
    pub limit: Option<u32>,
    /// Who said so.
    pub by: String,
}

/// What a cap holds for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CapScope {
    /// The whole ledger.
    Ledger,
    /// One run.
    Run(RunId),
    /// One owner, over all runs.
    Owner(String),
}

/// A run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnded {
    /// The run.
    pub run: RunId,
    /// How.
    pub ending: Ending,
    /// Why, for people.
    pub reason: String,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// Every step is accepted or skipped, and the plan's own criteria hold.
    Done,
    /// It cannot get there.
    Failed,
    /// Somebody ended it.
    Cancelled,
}

/// A run that had failed goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunReopened {
    /// The run.
    pub run: RunId,
    /// Who said so.
    pub by: String,
}
