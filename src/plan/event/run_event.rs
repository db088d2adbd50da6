//! Events about a run as a whole, beyond its plan and its end: pauses, budgets, questions,
//! requests for another plan, forks.
//!
//! The invariants are those of [`crate::plan::Event`].

use std::fmt;

use serde::{Deserialize, Serialize};

use super::question::{Answered, Asked, Expired};
use super::step_event::AcceptedBasis;
use super::step_status::StepStatus;
use crate::plan::model::budget::{BudgetPart, Cost, Limits};
use crate::plan::model::step::FailureClass;
use crate::plan::value::ids::{AttemptToken, ContentHash, Micros, RunId, StepNumber};
use crate::plan::value::json::Json;

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

impl fmt::Display for CapScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ledger => f.write_str("the ledger"),
            Self::Run(run) => write!(f, "run {run}"),
            Self::Owner(owner) => write!(f, "owner {owner}"),
            Self::Tag(tag) => write!(f, "tag {tag}"),
        }
    }
}

impl fmt::Display for PauseCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person(by) => write!(f, "{by} said so"),
            Self::RunBudget(part) => write!(f, "its budget of {part} is used up"),
            Self::LedgerBudget(part) => write!(f, "the ledger's budget of {part} is used up"),
            Self::StepLimit(step) => write!(f, "an attempt of step {step} cost more than it may"),
        }
    }
}
