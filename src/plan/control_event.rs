//! Events about a run as a whole, beyond its plan and its end: pauses, budgets, questions,
//! requests for another plan, forks.
//!
//! The invariants are those of [`super::Event`].

use serde::{Deserialize, Serialize};

use super::{
    AcceptedBasis, Answered, Asked, AttemptToken, BudgetPart, ContentHash, Cost, Expired,
    FailureClass, Limits, RunId, StepNumber, StepStatus,
};

/// Nothing more is dealt in a run until it is resumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunPaused {
    /// The run.
    pub run: RunId,
    /// Why.
    pub cause: PauseCause,
    /// Why, for people.
    pub reason: String,
}

/// Why a run pauses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PauseCause {
    /// Somebody said so.
    Person(String),
    /// Its own budget is used up.
    RunBudget(BudgetPart),
    /// The ledger's budget is used up.
    LedgerBudget(BudgetPart),
    /// An attempt of a step cost more than one may.
    StepLimit(StepNumber),
}

impl PauseCause {
    /// Whether the run pauses for what it costs, and not for what somebody said.
    #[must_use]
    pub fn is_of_cost(&self) -> bool {
        !matches!(self, Self::Person(_))
    }
}

/// A run that had paused goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunResumed {
    /// The run.
    pub run: RunId,
    /// Who said so.
    pub by: String,
}

/// A budget was set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetChanged {
    /// Of a run, or of the whole ledger.
    pub run: Option<RunId>,
    /// What may be spent in all, what was spent before included; `None` leaves it to the plan.
    pub limits: Option<Limits>,
    /// Who said so.
    pub by: String,
}

/// Somebody was asked about a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionAsked {
    /// The run.
    pub run: RunId,
    /// The question.
    pub asked: Asked,
}

/// A question about a run was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionAnswered {
    /// The run.
    pub run: RunId,
    /// The answer.
    pub answered: Answered,
}

/// Nobody answered a question about a run in time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionExpired {
    /// The run.
    pub run: RunId,
    /// Which, and what then.
    pub expired: Expired,
}

/// Another plan version is needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplanRequested {
    /// The run.
    pub run: RunId,
    /// Why.
    pub trigger: ReplanTrigger,
    /// The step from which work is done anew, if it is known.
    pub from: Option<StepNumber>,
    /// Why, for people and for the planner.
    pub reason: String,
}

/// Why another plan version is needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReplanTrigger {
    /// A precondition is false, and nothing that is left to do can change that.
    PreconditionFalse {
        /// The step.
        step: StepNumber,
        /// The precondition's 0-based place in its list.
        precondition: u32,
    },
    /// Something that the plan takes for granted is not so.
    AssumptionBroken {
        /// The attempt that found it.
        token: AttemptToken,
    },
    /// The attempts of a step are used up.
    RetriesExhausted {
        /// The last of them.
        token: AttemptToken,
    },
    /// A worker asks for another plan.
    ExecutorRequest {
        /// Its attempt.
        token: AttemptToken,
    },
    /// The budget is used up with work left.
    BudgetExhausted,
    /// Somebody wants something else.
    ScopeChange {
        /// Who.
        by: String,
    },
    /// Something has become known.
    NewEvidence {
        /// Who says so.
        by: String,
    },
    /// A plan that is extended as it goes has few open steps left.
    Extension,
    /// A rule, or somebody who was asked about a failure, wants it.
    Failure {
        /// The attempt that failed.
        token: AttemptToken,
    },
}

/// A request for another plan version is no longer open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplanWithdrawn {
    /// The run.
    pub run: RunId,
    /// Who said so.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// A run begins as what another one was at some record. Its plan versions and its steps follow in
/// the same batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunForked {
    /// The new run.
    pub run: RunId,
    /// The run that it was.
    pub parent: RunId,
    /// The last record that counts.
    pub at_seq: u64,
    /// chain(`at_seq`) of the log.
    pub chain: ContentHash,
    /// What the parent had spent until then. It does not count against the fork's own budget.
    pub spent: Cost,
}

/// How some steps of a forked run stand when it begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepsInherited {
    /// The new run.
    pub run: RunId,
    /// The steps. All that are not named are open.
    pub steps: Vec<InheritedStep>,
}

/// How one step of a forked run stands when it begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InheritedStep {
    /// Its number.
    pub step: StepNumber,
    /// Its status: accepted, skipped or failed; all others begin anew.
    pub status: StepStatus,
    /// How many attempts it had.
    pub attempts: u32,
    /// How many of them failed.
    pub failures: u32,
    /// On what grounds it was accepted.
    pub accepted: Option<AcceptedBasis>,
    /// Class and message of its last failure.
    pub last_failure: Option<(FailureClass, String)>,
}
