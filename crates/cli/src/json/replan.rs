//! Requests for a new plan version.

use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::plan::ReplanRequest;
use plan_ledger::{AttemptToken, ReplanTrigger, StepNumber};

use super::time::TimeJson;

/// An open request for a new plan version.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ReplanRequestJson {
    /// The first step whose work should be done again, if known.
    from: Option<StepNumber>,
    /// The reason, for people and planners.
    reason: String,
    /// The record of the request.
    seq: u64,
    /// The time of the request.
    time: TimeJson,
    /// The event that caused the request.
    trigger: TriggerJson,
}

impl From<&ReplanRequest> for ReplanRequestJson {
    fn from(request: &ReplanRequest) -> Self {
        let ReplanRequest { seq, time, trigger, from, reason } = request;
        Self {
            from: *from,
            reason: reason.clone(),
            seq: *seq,
            time: (*time).into(),
            trigger: trigger.into(),
        }
    }
}

/// Why a new plan version is requested.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(crate) enum TriggerJson {
    /// A precondition cannot become true.
    PreconditionFalse {
        /// The step.
        step: StepNumber,
        /// The precondition, from 0.
        precondition: u32,
    },
    /// An assumption of the plan does not hold.
    AssumptionBroken {
        /// The attempt that reported it.
        token: AttemptToken,
    },
    /// A step has no attempts left.
    RetriesExhausted {
        /// The last attempt.
        token: AttemptToken,
    },
    /// A worker requested it.
    ExecutorRequest {
        /// The attempt.
        token: AttemptToken,
    },
    /// The budget is exhausted.
    BudgetExhausted,
    /// The goal changed.
    ScopeChange {
        /// The person or program that changed it.
        by: String,
    },
    /// New information is available.
    NewEvidence {
        /// The person or program that reported it.
        by: String,
    },
    /// A plan with `continues: true` has few open steps.
    Extension,
    /// A failure rule or a person requested it after a failure.
    Failure {
        /// The attempt that failed.
        token: AttemptToken,
    },
}

impl From<&ReplanTrigger> for TriggerJson {
    fn from(trigger: &ReplanTrigger) -> Self {
        match *trigger {
            ReplanTrigger::PreconditionFalse { step, precondition } => {
                Self::PreconditionFalse { step, precondition }
            }
            ReplanTrigger::AssumptionBroken { token } => Self::AssumptionBroken { token },
            ReplanTrigger::RetriesExhausted { token } => Self::RetriesExhausted { token },
            ReplanTrigger::ExecutorRequest { token } => Self::ExecutorRequest { token },
            ReplanTrigger::BudgetExhausted => Self::BudgetExhausted,
            ReplanTrigger::ScopeChange { ref by } => Self::ScopeChange { by: by.clone() },
            ReplanTrigger::NewEvidence { ref by } => Self::NewEvidence { by: by.clone() },
            ReplanTrigger::Extension => Self::Extension,
            ReplanTrigger::Failure { token } => Self::Failure { token },
        }
    }
}
