//! Events of one step: dispatch, lease, receipt, verdicts, failure decisions, conditions, side
//! effects and cost.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::json_form::{flattened, json_form, tagged};
use super::receipt::Receipt;
use crate::plan::model::budget::Cost;
use crate::plan::model::policy::Disposition;
use crate::plan::model::step::FailureClass;
use crate::plan::value::ids::{AttemptToken, StepNumber, Timestamp, WorkerProcess};
use crate::plan::value::text::Text;
use crate::plan::value::time;
#[cfg(feature = "schema")]
use crate::plan::value::time::UtcTime;
use crate::plan::value::token::SecretHash;

impl FailureDecided {
    /// Whether no attempt was left, so that the step failed, its fallback was used, or a replan was
    /// requested.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.rule.ends_with(".attempts_exhausted")
    }

    /// Whether the attempt met a usage limit, which uses up no attempt of the step.
    #[must_use]
    pub fn is_usage_limit(&self) -> bool {
        self.rule.ends_with(".usage_limit")
    }
}

/// Rule of a precondition that is false permanently, with `on_false: abort`.
pub(crate) const ABORT_BY_PRECONDITION: &str = "abort.precondition";

impl StepFailed {
    /// Whether the run ends with the step.
    #[must_use]
    pub fn aborts_run(&self) -> bool {
        self.rule == ABORT_BY_PRECONDITION
    }
}

/// A step was dispatched to a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Dispatched {
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// The worker.
    pub worker: String,
    /// End of the lease, unless it is renewed.
    #[serde(serialize_with = "time::serialize")]
    #[cfg_attr(feature = "schema", schemars(with = "UtcTime"))]
    pub lease_until: Timestamp,
    /// Idempotency key for the side effects of the attempt: the same for all attempts of a step
    /// that is idempotent `with_key`, otherwise one per attempt.
    pub idempotency_key: String,
    /// Reserved cost, released by the receipt.
    pub reserved: Cost,
    /// Hash of the secret of the attempt's token.
    pub secret_hash: SecretHash,
    /// The process of the worker: when it ends, the attempt is lost. `None`: only the lease
    /// decides.
    pub process: Option<WorkerProcess>,
    /// The second owner of the step if its worker got the attempt because a usage limit held the
    /// step's own owner. `None`: a worker of the step's own owner got it.
    pub second_owner: Option<String>,
}

/// The worker renewed its lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeaseRenewed {
    /// The attempt.
    pub token: AttemptToken,
    /// New end of the lease.
    #[serde(serialize_with = "time::serialize")]
    #[cfg_attr(feature = "schema", schemars(with = "UtcTime"))]
    pub lease_until: Timestamp,
}

/// An attempt was lost: it will never return a receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AttemptLost {
    /// The attempt.
    pub token: AttemptToken,
    /// Why.
    pub cause: LostCause,
    /// Human-readable details.
    pub detail: String,
    /// The next state of the step.
    pub then: AfterLoss,
}

/// Why an attempt was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LostCause {
    /// Its lease expired.
    LeaseExpired,
    /// The process that ran the worker ended.
    RunnerDied,
    /// The worker returned it before it started, or was stopped before that.
    Released,
    /// A new plan version revoked it.
    Revoked,
}

impl LostCause {
    /// Whether the loss counts towards the attempt limit of the step.
    #[must_use]
    pub fn is_failure(self) -> bool {
        matches!(self, Self::LeaseExpired | Self::RunnerDied)
    }
}

/// The next state of a step after an attempt was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AfterLoss {
    /// It is dispatched again.
    Redispatch,
    /// The outcome must be resolved first, since the work must not be repeated.
    OutcomeUnknown,
}

/// The worker returned a receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReceiptRecorded {
    /// The attempt.
    pub token: AttemptToken,
    /// The receipt.
    pub receipt: Receipt,
}

/// A receipt came too late and was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReceiptRefused {
    /// The attempt that the receipt names.
    pub token: AttemptToken,
    /// Why it was refused.
    pub reason: String,
    /// The receipt.
    pub receipt: Receipt,
}

/// A criterion of a step was judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VerdictRecorded {
    /// The attempt that was judged.
    pub token: AttemptToken,
    /// The verdict.
    pub verdict: Verdict,
}

/// The verdict on one criterion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verdict {
    /// 0-based index of the criterion.
    pub criterion: u32,
    /// Whether the criterion holds.
    pub ruling: Ruling,
    /// The judge: never the worker itself. `policy:trust` marks a trusted receipt.
    pub by: String,
    /// Evidence.
    pub evidence: Text,
}

/// Whether a criterion holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Ruling {
    /// It holds.
    Pass,
    /// It does not hold.
    Fail,
}

/// A step was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Accepted {
    /// Why it was accepted.
    pub basis: AcceptedBasis,
}

/// Why a step was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(remote = "Self", rename_all = "snake_case")]
#[cfg_attr(feature = "schema", schemars(tag = "is"))]
pub enum AcceptedBasis {
    /// It has no criteria: a successful receipt suffices.
    Receipt,
    /// Every criterion passed; the worker judged none of them.
    Verdicts,
    /// Every criterion passed, at least one of them because the run trusts its workers.
    WorkersWord,
    /// It was done before the run began.
    DoneBefore {
        /// The source that lists it as done.
        source: String,
    },
    /// The outcome of an attempt was resolved: it did the work.
    Landed {
        /// Actor.
        by: String,
    },
    /// Its fallback step was accepted.
    FallbackStep {
        /// The fallback step.
        step: StepNumber,
    },
    /// A fallback value replaced its output.
    Fallback {
        /// Source and age of the value.
        reason: String,
    },
    /// The answer to its gate is its output.
    Answered {
        /// Author of the answer.
        by: String,
    },
}

/// The decision about a failed attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailureDecided {
    /// The attempt that failed.
    pub token: AttemptToken,
    /// Class of the failure.
    pub class: FailureClass,
    /// The decision.
    pub decision: Decision,
    /// Name of the rule that decided.
    pub rule: String,
    /// Human-readable reason.
    pub reason: Text,
    /// Whether the work of the attempt took effect, as far as is known.
    pub disposition: Disposition,
    /// The state of the attempt if the step failed.
    pub then: AfterFailure,
    /// The author of the decision; empty for the rules.
    pub by: String,
}

/// The state of the last attempt of a failed step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AfterFailure {
    /// The attempt is finished.
    #[default]
    Over,
    /// The step keeps the attempt, because it did, or may have done, work that must not be
    /// repeated. The outcome must be resolved before the step is dispatched again.
    Held,
}

/// A decision about a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(remote = "Self", rename_all = "snake_case")]
#[cfg_attr(feature = "schema", schemars(tag = "is"))]
pub enum Decision {
    /// Dispatch the step again.
    Retry,
    /// Fail the step.
    Fail,
    /// Dispatch the step again, not before that time.
    RetryAt {
        /// The time.
        #[serde(serialize_with = "time::serialize")]
        #[cfg_attr(feature = "schema", schemars(with = "UtcTime"))]
        due: Timestamp,
    },
    /// Use the fallback of the step.
    Fallback,
    /// Fail the step and request a new plan.
    Replan,
    /// Ask a person.
    Escalate,
    /// Abort the run.
    Abort,
    /// Resolve the unknown outcome of the attempt first.
    OutcomeUnknown,
}

/// A step was skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Skipped {
    /// Actor.
    pub by: String,
    /// Why.
    pub reason: Text,
}

/// A failed step was reopened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reopened {
    /// Actor.
    pub by: String,
}

/// The unknown outcome of an attempt was resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutcomeResolved {
    /// The attempt.
    pub token: AttemptToken,
    /// Whether the work was done.
    pub finding: ResolvedOutcome,
    /// Actor.
    pub by: String,
    /// Evidence: the output of a probe, or an observation.
    pub evidence: String,
}

/// The resolved outcome of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ResolvedOutcome {
    /// The work was done.
    Landed,
    /// The work was not done.
    DidNotHappen,
}

/// A condition or a precondition of a step was evaluated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(remote = "Self")]
pub struct ConditionJudged {
    /// The condition.
    #[cfg_attr(feature = "schema", schemars(flatten, with = "ConditionMembers"))]
    pub which: Condition,
    /// Whether the expression holds.
    pub ruling: Ruling,
    /// The variables that it read, or why it could not be evaluated.
    pub evidence: Text,
}

/// A condition of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(remote = "Self", rename_all = "snake_case")]
pub enum Condition {
    /// The `condition` of the step: if it does not hold, the step is skipped.
    #[serde(rename = "condition")]
    RunIf,
    /// A precondition of the step, by its 0-based index.
    #[serde(rename = "precondition")]
    Pre(u32),
}

/// The JSON members about a condition.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct ConditionMembers {
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["condition", "precondition"])))]
    which: String,
    /// The 0-based index of the precondition.
    precondition: Option<u32>,
}

fn condition_members(derived: Value) -> ConditionMembers {
    match derived {
        Value::String(which) => ConditionMembers { which, precondition: None },
        derived => {
            let index = derived.get("precondition").and_then(Value::as_u64);
            let precondition = index.and_then(|index| u32::try_from(index).ok());
            ConditionMembers { which: "precondition".to_owned(), precondition }
        }
    }
}

fn with_condition_members(derived: Value) -> Value {
    flattened(derived, "which")
}

/// The delay before the next attempt elapsed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DelayElapsed {
    /// When the delay ended.
    #[serde(serialize_with = "time::serialize")]
    #[cfg_attr(feature = "schema", schemars(with = "UtcTime"))]
    pub due: Timestamp,
    /// The author of an early end: a person, or the runner. `None`: the delay was due.
    pub by: Option<String>,
}

/// A worker announced a side effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EffectIntended {
    /// The attempt.
    pub token: AttemptToken,
    /// Description of the side effect.
    pub effect: String,
    /// Idempotency key: that of the attempt, or one chosen by the worker.
    pub key: String,
}

/// A worker confirmed a side effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EffectCommitted {
    /// The attempt.
    pub token: AttemptToken,
    /// Key of the announced side effect.
    pub key: String,
}

/// The cost of an attempt was corrected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostCorrected {
    /// The attempt.
    pub token: AttemptToken,
    /// The actual cost.
    pub cost: Cost,
    /// The previous charge.
    pub charged: Cost,
    /// Actor.
    pub by: String,
}

/// A step failed without an attempt: by a precondition, a gate, or a failed fallback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepFailed {
    /// Class of the failure.
    pub class: FailureClass,
    /// Name of the rule that decided.
    pub rule: String,
    /// Human-readable reason.
    pub reason: Text,
}

json_form! {
    AcceptedBasis => tagged,
    Decision => tagged,
    Condition => condition_members,
    ConditionJudged => with_condition_members,
}
