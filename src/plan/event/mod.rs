//! Events: the facts that a ledger stores.
//!
//! The log is a sequence of events, and the state is their fold. Each file of this module holds one
//! family: plan versions, runs, steps, receipts and questions.
//!
//! Invariants:
//! - An event states what happened. Anything with a result that could differ later (a criterion, a
//!   policy, a clock) is evaluated before, and the event records the result.
//! - Each variant has its own record kind on disk (`format/events.md`).
//! - The structs use no serde attribute that flattens, skips or renames a field. JSON is stored as
//!   [`crate::plan::Json`].
//! - A step event carries the sequence number of the step's previous event, so that the history of
//!   a step can be read without an index.

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

/// One event of the ledger.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A run was started.
    RunStarted(RunStarted),
    /// A plan version was proposed. Its steps follow in the same batch.
    PlanProposed(PlanProposed),
    /// Steps of the version proposed in the same batch, in plan order.
    PlanSteps(PlanSteps),
    /// A proposed version was approved or rejected.
    PlanReviewed(PlanReviewed),
    /// A version became the active one.
    PlanActivated(PlanActivated),
    /// An event of one step.
    Step(StepRecord),
    /// A criterion of the whole plan was judged.
    PlanVerdict(PlanVerdict),
    /// A variable was set.
    VariableSet(VariableSet),
    /// A barrier was released or broken.
    Barrier(BarrierChanged),
    /// A cap was set or removed.
    CapChanged(CapChanged),
    /// A run ended.
    RunEnded(RunEnded),
    /// A failed run was reopened.
    RunReopened(RunReopened),
    /// A run was paused.
    RunPaused(RunPaused),
    /// A run was unpaused.
    RunResumed(RunResumed),
    /// A budget was set.
    BudgetChanged(BudgetChanged),
    /// A question about a run was asked.
    QuestionAsked(QuestionAsked),
    /// A question about a run was answered.
    QuestionAnswered(QuestionAnswered),
    /// A question about a run timed out.
    QuestionExpired(QuestionExpired),
    /// A new plan version was requested.
    ReplanRequested(ReplanRequested),
    /// A replan request was withdrawn.
    ReplanWithdrawn(ReplanWithdrawn),
    /// A run was started as a copy of another run.
    RunForked(RunForked),
    /// The initial status of steps of a forked run.
    StepsInherited(StepsInherited),
}

impl Event {
    /// An event of a step. `execute` fills in `previous`.
    pub(crate) fn step(run: RunId, step: StepNumber, event: StepEvent) -> Self {
        Self::Step(StepRecord { run, step, previous: 0, event })
    }

    /// The run that the event belongs to; `None` for events of the whole ledger.
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
