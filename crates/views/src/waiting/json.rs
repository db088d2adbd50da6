//! The JSON of an item that a run waits for.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::plan::{PauseCause, QuestionBody};
use plan_ledger::{ContentHash, QuestionId, ReplanTrigger, StepNumber, Timestamp};

use super::item::WaitingItem;
use crate::words::StepName;

/// An item that a run waits for.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PendingJson {
    /// The answer to a question.
    Question {
        /// The question.
        asked: QuestionBody,
        /// The number of the step; null for a question about the run.
        number: Option<StepNumber>,
        /// The number of the question.
        question: QuestionId,
        /// The id of the step; null for a question about the run.
        step: Option<String>,
    },
    /// The review of a version of the plan.
    Review {
        /// The hash of the version.
        hash: ContentHash,
        /// The version.
        version: u32,
    },
    /// A higher budget, or a decision to resume the run.
    Paused {
        /// Why it is paused.
        cause: PauseCause,
    },
    /// A new version of the plan.
    Replan {
        /// The number of the first step to do again.
        number: Option<StepNumber>,
        /// The reason, for people.
        reason: String,
        /// The id of the first step to do again.
        step: Option<String>,
        /// The event that caused the request.
        trigger: ReplanTrigger,
    },
    /// A decision about a failure.
    Decision {
        /// The reason for the failure.
        message: String,
        /// The number of the step.
        number: StepNumber,
        /// The id of the step.
        step: String,
    },
    /// Verdicts of a person on the text criteria of a step.
    Verdicts {
        /// The criteria.
        criteria: Vec<String>,
        /// The number of the step.
        number: StepNumber,
        /// The id of the step.
        step: String,
    },
    /// The checks of a step, which a runner or a judge makes.
    Checks {
        /// The criteria.
        criteria: Vec<String>,
        /// The number of the step.
        number: StepNumber,
        /// The id of the step.
        step: String,
    },
    /// The approval of the active version's commands.
    Commands {
        /// Its commands.
        commands: Vec<String>,
        /// The version.
        version: u32,
    },
    /// The approval of the active version's commands, for the folder of a step's work.
    Misplaced {
        /// The folder of the approval.
        approved_in: String,
        /// The folder of the claim.
        claimed_in: String,
        /// The number of the step.
        number: StepNumber,
        /// Why the work is not checked.
        reason: String,
        /// The id of the step.
        step: String,
    },
    /// Verdicts of a person on the text criteria of the plan.
    PlanVerdicts {
        /// The criteria.
        criteria: Vec<String>,
    },
    /// The checks of the plan, which a runner or a judge makes.
    PlanChecks {
        /// The criteria.
        criteria: Vec<String>,
    },
    /// The outcome of a lost attempt.
    OutcomeUnknown {
        /// The number of the step.
        number: StepNumber,
        /// The id of the step.
        step: String,
    },
    /// A worker that this runner did not start.
    Held {
        /// The end of the worker's lease.
        lease_until_micros: Timestamp,
        /// The number of the step.
        number: StepNumber,
        /// The id of the step.
        step: String,
        /// The worker.
        worker: String,
    },
    /// A step of a person.
    Person {
        /// The number of the step.
        number: StepNumber,
        /// Its owner.
        owner: String,
        /// The id of the step.
        step: String,
    },
    /// Workers that take other steps than those of this runner.
    Routed {
        /// The owners of the steps.
        owners: Vec<String>,
        /// The number of ready steps.
        ready: u32,
    },
    /// A cap that other runs use up.
    Caps {
        /// The number of ready steps.
        ready: u32,
    },
    /// Nothing: these steps are blocked permanently.
    Blocked {
        /// The number of steps.
        steps: u32,
    },
}

impl From<&WaitingItem> for PendingJson {
    fn from(item: &WaitingItem) -> Self {
        match item.clone() {
            WaitingItem::Question { id, step, asked, .. } => Self::Question {
                asked,
                number: number_of(step.as_ref()),
                question: id,
                step: step.map(|step| step.id),
            },
            WaitingItem::Review { version, hash } => Self::Review { hash, version },
            WaitingItem::Paused { cause, .. } => Self::Paused { cause },
            WaitingItem::Replan { trigger, from, reason, .. } => Self::Replan {
                number: number_of(from.as_ref()),
                reason,
                step: from.map(|step| step.id),
                trigger,
            },
            WaitingItem::Decision { step: StepName { number, id: step }, message, .. } => {
                Self::Decision { message, number, step }
            }
            WaitingItem::Verdicts { step: StepName { number, id: step }, criteria } => {
                Self::Verdicts { criteria, number, step }
            }
            WaitingItem::Checks { step: StepName { number, id: step }, criteria } => {
                Self::Checks { criteria, number, step }
            }
            WaitingItem::Commands { version, commands, .. } => Self::Commands { commands, version },
            WaitingItem::Misplaced {
                step: StepName { number, id },
                approved,
                work,
                reason,
                ..
            } => Self::Misplaced {
                approved_in: approved,
                claimed_in: work,
                number,
                reason,
                step: id,
            },
            WaitingItem::PlanVerdicts { criteria } => Self::PlanVerdicts { criteria },
            WaitingItem::PlanChecks { criteria } => Self::PlanChecks { criteria },
            WaitingItem::OutcomeUnknown { step: StepName { number, id: step } } => {
                Self::OutcomeUnknown { number, step }
            }
            WaitingItem::Held { step: StepName { number, id: step }, worker, lease_until } => {
                Self::Held { lease_until_micros: lease_until, number, step, worker }
            }
            WaitingItem::Person { step: StepName { number, id: step }, owner } => {
                Self::Person { number, owner, step }
            }
            WaitingItem::Routed { ready, owners } => Self::Routed { owners, ready },
            WaitingItem::Caps { ready } => Self::Caps { ready },
            WaitingItem::Blocked { steps } => Self::Blocked { steps },
        }
    }
}

fn number_of(step: Option<&StepName>) -> Option<StepNumber> {
    step.map(|step| step.number)
}
