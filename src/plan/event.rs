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
    AttemptToken, BudgetChanged, ContentHash, Json, Micros, Plan, QuestionAnswered, QuestionAsked,
    QuestionExpired, ReplanRequested, ReplanWithdrawn, RunForked, RunId, RunPaused, RunResumed,
    Step, StepNumber, StepRecord, StepsInherited, Verdict,
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
    /// Nothing more is dealt in a run for now.
    RunPaused(RunPaused),
    /// A run that had paused goes on.
    RunResumed(RunResumed),
    /// A budget was set.
    BudgetChanged(BudgetChanged),
    /// Somebody was asked about a run.
    QuestionAsked(QuestionAsked),
    /// A question about a run was answered.
    QuestionAnswered(QuestionAnswered),
    /// Nobody answered a question about a run in time.
    QuestionExpired(QuestionExpired),
    /// Another plan version is needed.
    ReplanRequested(ReplanRequested),
    /// Another plan version is not needed after all.
    ReplanWithdrawn(ReplanWithdrawn),
    /// A run begins as another one was.
    RunForked(RunForked),
    /// How steps of a forked run stand when it begins.
    StepsInherited(StepsInherited),
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
    /// Steps that no version had before.
    pub added: Vec<StepNumber>,
    /// Variables that what is preserved, or somebody, vouches for.
    pub trusted: Vec<String>,
    /// Variables that were set by work that fell.
    pub untrusted: Vec<String>,
    /// The record that asked for this version; 0 if none did.
    pub request: u64,
    /// Steps whose last attempt did, or may have done, what must not be done twice: they keep it,
    /// whatever the version says of them, until somebody says what happened.
    pub held: Vec<StepNumber>,
    /// Answers about barriers of which the version says the same: they still count.
    pub answers: Vec<(String, String)>,
    /// In a fork, when the version became active in the run that it was copied from; else 0.
    pub since: Micros,
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
    /// In a fork, when it was set in the run that it was copied from; else 0.
    pub since: Micros,
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
    /// The value that stands in for a step that failed.
    Fallback {
        /// The step.
        step: StepNumber,
    },
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
    /// Its deadline passed: it is broken, whoever may still arrive.
    Late,
    /// Somebody let what waits for it go on.
    Overruled,
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
    /// One tag or resource, over all runs.
    Tag(String),
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
    /// A rule, or the answer to a question, ended it.
    Aborted,
}

/// A run that had failed goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunReopened {
    /// The run.
    pub run: RunId,
    /// Who said so.
    pub by: String,
}
