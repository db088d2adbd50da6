//! Events of a run as a whole: start and end, variables, barriers, caps, pauses, budgets,
//! questions, replan requests and forks.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

use super::json_form::{json_form, tagged};
use super::question::{QuestionAnswer, QuestionBody, QuestionExpiry};
use super::step_event::AcceptedBasis;
use super::step_status::StepStatus;
use crate::plan::model::budget::{BudgetPart, Cost, Limits};
use crate::plan::model::policy::FailureSettings;
use crate::plan::model::step::FailureClass;
use crate::plan::value::ids::{AttemptToken, ContentHash, Micros, RunId, StepNumber, Timestamp};
use crate::plan::value::json::Json;
use crate::plan::value::text::Text;
use crate::plan::value::time;
#[cfg(feature = "schema")]
use crate::plan::value::time::UtcTime;

/// A run was paused: no step is dispatched until it is unpaused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunPaused {
    /// The run.
    pub run: RunId,
    /// Cause.
    pub cause: PauseCause,
    /// Human-readable reason.
    pub reason: String,
}

/// Why a run pauses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(remote = "Self", rename_all = "snake_case")]
#[cfg_attr(feature = "schema", schemars(tag = "is"))]
pub enum PauseCause {
    /// A command of a person or a program paused it.
    Person {
        /// Actor.
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
    /// An attempt of the step exceeded its cost limit.
    StepLimit {
        /// The step.
        step: StepNumber,
    },
    /// The runner paused it: more work would only have failed.
    Runner {
        /// Human-readable reason.
        reason: String,
    },
}

impl PauseCause {
    /// Whether the cause is a budget or a cost limit, not a command or the runner.
    #[must_use]
    pub fn is_cost_pause(&self) -> bool {
        !matches!(self, Self::Person { .. } | Self::Runner { .. })
    }

    /// Whether the money or the tokens of a budget are used up.
    #[must_use]
    pub fn is_of_cost(&self) -> bool {
        matches!(
            self,
            Self::RunBudget { part: BudgetPart::Money | BudgetPart::Tokens }
                | Self::LedgerBudget { part: BudgetPart::Money | BudgetPart::Tokens }
        )
    }
}

/// A paused run was unpaused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunResumed {
    /// The run.
    pub run: RunId,
    /// Actor.
    pub by: String,
}

/// A budget was set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BudgetChanged {
    /// The run; `None` is the whole ledger.
    pub run: Option<RunId>,
    /// Total limits, past spending included; `None` uses the plan's budget.
    pub limits: Option<Limits>,
    /// Actor.
    pub by: String,
}

/// A question about a run was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuestionAsked {
    /// The run.
    pub run: RunId,
    /// The question.
    pub asked: QuestionBody,
}

/// A question about a run was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuestionAnswered {
    /// The run.
    pub run: RunId,
    /// The answer.
    pub answered: QuestionAnswer,
}

/// A question about a run timed out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuestionExpired {
    /// The run.
    pub run: RunId,
    /// The question and the next action.
    pub expired: QuestionExpiry,
}

/// A new plan version was requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReplanRequested {
    /// The run.
    pub run: RunId,
    /// Trigger.
    pub trigger: ReplanTrigger,
    /// The first step whose work should be redone, if known.
    pub from: Option<StepNumber>,
    /// Reason, shown to people and to the planner.
    pub reason: Text,
}

/// Why a new plan version is needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(remote = "Self", rename_all = "snake_case")]
#[cfg_attr(feature = "schema", schemars(tag = "is"))]
pub enum ReplanTrigger {
    /// A precondition is false, and no remaining step can change that.
    PreconditionFalse {
        /// The step.
        step: StepNumber,
        /// 0-based index of the precondition.
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
    /// A worker (an executor of steps) requested a new plan.
    ExecutorRequest {
        /// The attempt.
        token: AttemptToken,
    },
    /// The budget is exhausted before all work is done.
    BudgetExhausted,
    /// The goal changed.
    ScopeChange {
        /// Actor.
        by: String,
    },
    /// New information is available, for example a criterion of the whole plan that does not hold.
    NewEvidence {
        /// Actor.
        by: String,
    },
    /// A plan with `continues: true` has fewer open steps than `extend_at`.
    Extension,
    /// A failure rule, or the answer to a question about a failure, requested it.
    Failure {
        /// The attempt that failed.
        token: AttemptToken,
    },
    /// A person or a program requested it.
    Requested {
        /// Actor.
        by: String,
    },
}

/// The failure settings of a run were set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailureSettingsChanged {
    /// The run.
    pub run: RunId,
    /// The settings.
    pub settings: FailureSettings,
    /// Actor.
    pub by: String,
}

impl ReplanTrigger {
    /// Whether a person changed the goal. Such versions do not count as replans.
    #[must_use]
    pub fn is_change_of_scope(&self) -> bool {
        matches!(self, Self::ScopeChange { .. } | Self::Requested { .. })
    }
}

/// A replan request was withdrawn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReplanWithdrawn {
    /// The run.
    pub run: RunId,
    /// Actor.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// A run was started as a copy of another run at a given record. Its plan versions and steps follow
/// in the same batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunForked {
    /// The new run.
    pub run: RunId,
    /// The run that was copied.
    pub parent: RunId,
    /// Sequence number of the last record that was copied.
    pub at_seq: u64,
    /// Chain hash of the log at `at_seq`.
    pub chain: ContentHash,
    /// The costs of the parent before the fork. They do not count against the budget of the fork.
    pub spent: Cost,
    /// Actor; empty if it is not known.
    pub by: String,
}

/// The initial status of steps of a forked run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepsInherited {
    /// The new run.
    pub run: RunId,
    /// The steps; all others are open.
    pub steps: Vec<InheritedStep>,
}

/// The initial status of one step of a forked run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InheritedStep {
    /// Its number.
    pub step: StepNumber,
    /// Accepted, skipped or failed; a step of any other status starts from the beginning.
    pub status: StepStatus,
    /// Number of attempts so far.
    pub attempts: u32,
    /// Number of failures so far.
    pub failures: u32,
    /// Why it was accepted.
    pub accepted: Option<AcceptedBasis>,
    /// Class and message of the last failure.
    #[serde(serialize_with = "failure")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Failure<'static>>"))]
    pub last_failure: Option<(FailureClass, Text)>,
}

/// A run was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunStarted {
    /// Number of the run.
    pub run: RunId,
    /// Name of the run, unique in the ledger.
    pub name: String,
    /// How the run handles approval, text criteria and failures.
    pub policy: RunPolicy,
}

/// How a run handles approval, text criteria and failures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RunPolicy {
    /// Whether a plan version needs approval.
    pub approval: ApprovalPolicy,
    /// How `text` criteria are judged.
    pub text: TextPolicy,
    /// Whether the run continues after a step has failed.
    pub on_failure: OnFailure,
}

/// Whether a proposed version needs approval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ApprovalPolicy {
    /// It is approved automatically.
    #[default]
    Automatic,
    /// A reviewer must approve its hash.
    Required,
}

/// The policy that decides who judges `text` criteria.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TextPolicy {
    /// A person or a judge.
    #[default]
    Judge,
    /// No one: the worker is trusted, and the verdict records that.
    Trust,
}

/// The effect of a failed step on the other steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// Steps that do not depend on it continue.
    #[default]
    Continue,
    /// No further step is dispatched.
    FailFast,
}

/// A variable was set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VariableSet {
    /// The run.
    pub run: RunId,
    /// The variable's name.
    pub name: String,
    /// Its value: any JSON.
    pub value: Json,
    /// Version of the variable: how often it was set, this time included.
    pub version: u64,
    /// The source of the value.
    pub origin: Origin,
    /// In a fork, when the parent run set it; otherwise 0.
    #[serde(serialize_with = "time::unless_zero")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<UtcTime>"))]
    pub since: Timestamp,
}

/// The source of a variable's value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(remote = "Self", rename_all = "snake_case")]
#[cfg_attr(feature = "schema", schemars(tag = "is"))]
pub enum Origin {
    /// A step: its accepted receipt, or its worker during the attempt.
    Step {
        /// The step.
        step: StepNumber,
        /// The attempt.
        token: AttemptToken,
    },
    /// A person or program.
    Person {
        /// Actor.
        who: String,
    },
    /// The fallback value of a failed step.
    Fallback {
        /// The step.
        step: StepNumber,
    },
    /// A session of an agent host, for no person.
    Agent {
        /// The host and the session.
        who: String,
    },
}

impl Origin {
    /// A person or a program as the source.
    #[must_use]
    pub fn person(who: impl Into<String>) -> Self {
        Self::Person { who: who.into() }
    }
}

/// A barrier was released or broken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BarrierChanged {
    /// The run.
    pub run: RunId,
    /// Id of the barrier in the plan.
    pub barrier: String,
    /// The change.
    pub change: BarrierChange,
    /// Number of members that had arrived.
    pub arrived: u32,
    /// Number of members that were needed.
    pub needed: u32,
}

/// A change of a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BarrierChange {
    /// Enough members arrived.
    Released,
    /// Too few members can still arrive.
    Broken,
    /// The deadline passed: the barrier is broken even if members can still arrive.
    Late,
    /// A decision released it although not enough members had arrived.
    Overruled,
}

/// A cap was set or removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CapChanged {
    /// Scope of the cap.
    pub scope: CapScope,
    /// Maximum number of attempts in flight; `None` removes the cap.
    pub limit: Option<u32>,
    /// Actor.
    pub by: String,
}

/// Scope of a cap.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(remote = "Self", rename_all = "snake_case")]
#[cfg_attr(feature = "schema", schemars(tag = "is"))]
pub enum CapScope {
    /// All attempts of the ledger.
    Ledger,
    /// All attempts of one run.
    Run {
        /// The run.
        run: RunId,
    },
    /// One owner, across all runs.
    Owner {
        /// The owner.
        owner: String,
    },
    /// One tag or resource, across all runs.
    Tag {
        /// The tag.
        tag: String,
    },
}

/// A run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunEnded {
    /// The run.
    pub run: RunId,
    /// How the run ended.
    pub ending: Ending,
    /// Human-readable reason.
    pub reason: Text,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// All steps are accepted or skipped, and the plan's criteria hold.
    Done,
    /// The run cannot complete.
    Failed,
    /// A person or program cancelled it.
    Cancelled,
    /// A failure rule or the answer to a question aborted it.
    Aborted,
}

/// A planner, judge or decider of a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HelperEnded {
    /// The run.
    pub run: RunId,
    /// The task of the helper.
    pub role: HelperRole,
    /// Its name, such as `planner:plan.sh`.
    pub by: String,
    /// Cost of the helper.
    pub cost: Cost,
    /// How long it took, in microseconds.
    #[serde(rename = "duration_micros")]
    pub duration: Micros,
}

/// The task of a helper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HelperRole {
    /// It writes plans.
    Planner,
    /// It judges criteria.
    Judge,
    /// It decides about failures.
    Decider,
}

/// A failed run was reopened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunReopened {
    /// The run.
    pub run: RunId,
    /// Actor.
    pub by: String,
}

impl fmt::Display for CapScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ledger => f.write_str("the ledger"),
            Self::Run { run } => write!(f, "run {run}"),
            Self::Owner { owner } => write!(f, "owner {owner}"),
            Self::Tag { tag } => write!(f, "tag {tag}"),
        }
    }
}

/// States the pause of the run: `paused by ana`, `paused: its token budget is exhausted`.
impl fmt::Display for PauseCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person { by } => write!(f, "paused by {by}"),
            Self::RunBudget { part } => {
                write!(f, "paused: its {} budget is exhausted", part.adjective())
            }
            Self::LedgerBudget { part } => {
                write!(f, "paused: the ledger's {} budget is exhausted", part.adjective())
            }
            Self::StepLimit { step } => {
                write!(f, "paused: an attempt of step #{step} exceeded its cost limit")
            }
            Self::Runner { reason } => write!(f, "paused: {reason}"),
        }
    }
}

json_form! {
    PauseCause => tagged,
    ReplanTrigger => tagged,
    Origin => tagged,
    CapScope => tagged,
}

/// The failure of a step.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Failure<'a> {
    /// The class of the failure.
    class: FailureClass,
    /// The reason, for people.
    message: &'a str,
}

#[expect(clippy::ref_option, reason = "serde passes references")]
pub(crate) fn failure<S: Serializer>(
    failure: &Option<(FailureClass, Text)>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    if !serializer.is_human_readable() {
        return failure.serialize(serializer);
    }
    let failure = failure.as_ref().map(|(class, message)| Failure { class: *class, message });
    failure.serialize(serializer)
}
