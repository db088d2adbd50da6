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

pub(crate) mod plan_event;
pub(crate) mod question;
pub(crate) mod receipt;
pub(crate) mod run_event;
pub(crate) mod step_event;
pub(crate) mod step_status;

use crate::plan::value::ids::{RunId, StepNumber};
use plan_event::{PlanActivated, PlanProposed, PlanReviewed, PlanSteps, PlanVerdict};
use run_event::{
    BarrierChanged, BudgetChanged, CapChanged, QuestionAnswered, QuestionAsked, QuestionExpired,
    ReplanRequested, ReplanWithdrawn, RunEnded, RunForked, RunPaused, RunReopened, RunResumed,
    RunStarted, StepsInherited, VariableSet,
};
use step_event::{StepEvent, StepRecord};

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

impl Event {
    /// An event of a step. `previous` is filled in when the batch is put together.
    pub(crate) fn step(run: RunId, step: StepNumber, event: StepEvent) -> Self {
        Self::Step(StepRecord { run, step, previous: 0, event })
    }

    /// The run that the event is about, if it is about one.
    #[must_use]
    pub fn run(&self) -> Option<RunId> {
        match self {
            Self::RunStarted(event) => Some(event.run),
            Self::PlanProposed(event) => Some(event.run),
            Self::PlanSteps(event) => Some(event.run),
            Self::PlanReviewed(event) => Some(event.run),
            Self::PlanActivated(event) => Some(event.run),
            Self::Step(event) => Some(event.run),
            Self::PlanVerdict(event) => Some(event.run),
            Self::VariableSet(event) => Some(event.run),
            Self::Barrier(event) => Some(event.run),
            Self::CapChanged(_) => None,
            Self::RunEnded(event) => Some(event.run),
            Self::RunReopened(event) => Some(event.run),
            Self::RunPaused(event) => Some(event.run),
            Self::RunResumed(event) => Some(event.run),
            Self::BudgetChanged(event) => event.run,
            Self::QuestionAsked(event) => Some(event.run),
            Self::QuestionAnswered(event) => Some(event.run),
            Self::QuestionExpired(event) => Some(event.run),
            Self::ReplanRequested(event) => Some(event.run),
            Self::ReplanWithdrawn(event) => Some(event.run),
            Self::RunForked(event) => Some(event.run),
            Self::StepsInherited(event) => Some(event.run),
        }
    }
}
