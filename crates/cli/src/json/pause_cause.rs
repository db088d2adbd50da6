//! Why a run is paused.

use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::plan::BudgetPart;
use plan_ledger::{PauseCause, StepNumber};

/// Why a run is paused.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(crate) enum PauseCauseJson {
    /// A person or a program paused it.
    Person {
        /// The person or program.
        by: String,
    },
    /// The budget of the run is exhausted.
    RunBudget {
        /// The exhausted part.
        part: BudgetPart,
    },
    /// The budget of the ledger is exhausted.
    LedgerBudget {
        /// The exhausted part.
        part: BudgetPart,
    },
    /// An attempt cost more than its step allows.
    StepLimit {
        /// The step.
        step: StepNumber,
    },
}

impl From<&PauseCause> for PauseCauseJson {
    fn from(cause: &PauseCause) -> Self {
        match cause {
            PauseCause::Person { by } => Self::Person { by: by.clone() },
            PauseCause::RunBudget { part } => Self::RunBudget { part: *part },
            PauseCause::LedgerBudget { part } => Self::LedgerBudget { part: *part },
            PauseCause::StepLimit { step } => Self::StepLimit { step: *step },
        }
    }
}
