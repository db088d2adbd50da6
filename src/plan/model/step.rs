//! The step of a plan, with its retry policy, fallback, gate and failure classes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::budget::Cost;
use super::criterion::Criterion;
use super::fields::{Extra, is_default};
use crate::plan::value::rare_field::RareField;

/// One piece of work, done by one worker in one attempt.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Name of the step, unique among steps and barriers.
    pub id: String,
    /// Title in one line.
    #[serde(default, skip_serializing_if = "is_default")]
    pub title: String,
    /// The result that the worker must achieve.
    #[serde(default, skip_serializing_if = "is_default")]
    pub goal: String,
    /// Phase of the step.
    #[serde(default, skip_serializing_if = "is_default")]
    pub phase: Option<String>,
    /// The role or capability that may do it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub owner: Option<String>,
    /// Shell command that does the work, for steps without an agent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub command: Option<String>,
    /// Variables that it reads.
    #[serde(default, skip_serializing_if = "is_default")]
    pub inputs: Vec<String>,
    /// Variables that its output sets.
    #[serde(default, skip_serializing_if = "is_default")]
    pub outputs: Vec<String>,
    /// Those of `outputs` that may be missing. An attempt that does not report another one fails.
    #[serde(default, skip_serializing_if = "is_default")]
    pub optional_outputs: RareField<Vec<String>>,
    /// Ids of the steps and barriers that it depends on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub after: Vec<String>,
    /// CEL expressions that must hold before it is dispatched.
    #[serde(default, skip_serializing_if = "is_default")]
    pub preconditions: RareField<Vec<String>>,
    /// The action while a precondition is false.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_false: OnFalse,
    /// CEL expression: the step is skipped unless it holds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub condition: Option<String>,
    /// Tools that the worker may use.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tools: RareField<Vec<String>>,
    /// Tags and resources, used by caps.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tags: RareField<Vec<String>>,
    /// Files that it may change.
    #[serde(default, skip_serializing_if = "is_default")]
    pub changes: RareField<Vec<String>>,
    /// Criteria that must hold before it is accepted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub acceptance: Vec<Criterion>,
    /// Name of the failures of the step, for the rules of the plan. If it is the name of a failure
    /// class, failures get this class when the worker reports none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failure_class: Option<String>,
    /// Failure class for a word in the failure message; used when the worker does not report a
    /// class.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failure_hints: RareField<BTreeMap<String, FailureClass>>,
    /// Retry policy.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retry: Option<Box<RetryPolicy>>,
    /// Fallback, used when it fails.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fallback: Option<Box<Fallback>>,
    /// Side effects.
    #[serde(default, skip_serializing_if = "is_default")]
    pub side_effects: RareField<Vec<String>>,
    /// Whether the step may be repeated.
    #[serde(default, skip_serializing_if = "is_default")]
    pub idempotent: Option<Idempotence>,
    /// Shell command that finds out whether a lost attempt did its work: exit status 0 if it did, 1
    /// if it did not.
    #[serde(default, skip_serializing_if = "is_default")]
    pub probe: Option<String>,
    /// Seconds until the worker is stopped.
    #[serde(default, skip_serializing_if = "is_default")]
    pub timeout_seconds: Option<u32>,
    /// How long an attempt should take, in seconds. A warning is given at twice this time.
    #[serde(default, skip_serializing_if = "is_default")]
    pub estimate_seconds: Option<u32>,
    /// How often in a row a worker may print the same lines before it is stopped.
    #[serde(default, skip_serializing_if = "is_default")]
    pub repeat_limit: Option<u32>,
    /// Lease of an attempt in seconds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lease_seconds: Option<u32>,
    /// Expected cost of an attempt.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cost_estimate: Option<Cost>,
    /// Maximum cost of an attempt.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cost_limit: Option<Cost>,
    /// Steps with a higher priority are dispatched first; equal ones in plan order.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: i32,
    /// A person must approve the step first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gate: Option<Box<Gate>>,
    /// Data of other tools, stored unchanged.
    #[serde(default, skip_serializing_if = "is_default")]
    pub extra: Extra,
}

/// Why an attempt failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// A retry may succeed.
    Transient,
    /// A retry would fail in the same way.
    Deterministic,
    /// An assumption of the plan does not hold.
    AssumptionBroken,
    /// Money, tokens or time ran out.
    BudgetExhausted,
    /// The worker did not report a class.
    #[default]
    Unknown,
    /// A criterion does not hold for the work: the next worker gets the evidence.
    CriterionFailed,
}

impl FailureClass {
    /// The class with this name in plans.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        serde_json::from_value(Value::from(name)).ok()
    }
}

/// Retry policy: how often and how soon a failed step is dispatched again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RetryPolicy {
    /// Maximum number of attempts, at least 1.
    pub max_attempts: u32,
    /// Seconds before the second attempt.
    #[serde(skip_serializing_if = "is_default")]
    pub backoff_seconds: u32,
    /// Each further delay in percent of the previous one; 100 keeps it constant.
    #[serde(skip_serializing_if = "is_default")]
    pub backoff_percent: Option<u32>,
    /// Maximum delay in seconds.
    #[serde(skip_serializing_if = "is_default")]
    pub backoff_max_seconds: Option<u32>,
    /// Maximum percentage by which a delay is shortened, so that retries spread out.
    #[serde(skip_serializing_if = "is_default")]
    pub jitter_percent: Option<u32>,
    /// Maximum number of attempts by failure class.
    #[serde(skip_serializing_if = "is_default")]
    pub per_class: BTreeMap<String, u32>,
}

impl Default for RetryPolicy {
    /// Three attempts, no wait.
    fn default() -> Self {
        Self {
            max_attempts: 3,
            backoff_seconds: 0,
            backoff_percent: None,
            backoff_max_seconds: None,
            jitter_percent: None,
            per_class: BTreeMap::new(),
        }
    }
}

/// The fallback of a step, used when it fails.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fallback {
    /// Another step of the plan.
    Step(String),
    /// The same step, done by another owner.
    Owner(String),
    /// A value used as its output, up to a maximum age.
    Value {
        /// The value.
        value: Value,
        /// Maximum age in seconds.
        #[serde(default, skip_serializing_if = "is_default")]
        max_age_seconds: Option<u64>,
    },
    /// The value of a variable, up to a maximum age.
    Variable {
        /// The variable.
        name: String,
        /// Maximum age in seconds.
        #[serde(default, skip_serializing_if = "is_default")]
        max_age_seconds: Option<u64>,
    },
}

/// The action while a precondition is false.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnFalse {
    /// It waits. If no remaining step can make the precondition true, a new plan is requested.
    #[default]
    Wait,
    /// It fails.
    Fail,
    /// It is skipped.
    Skip,
    /// It waits. If no remaining step can make the precondition true, the run is aborted.
    Abort,
}

/// Whether a step may be repeated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Idempotence {
    /// It may be dispatched again after a lost or failed attempt.
    #[default]
    Yes,
    /// It must not be repeated. A person or the probe must first find out what happened if an
    /// attempt is lost, is stopped by its timeout or a signal, or reports success and is rejected
    /// by a criterion.
    No,
    /// It may be dispatched again, because the idempotency key prevents a second effect.
    WithKey,
}

/// A gate: a person must approve before the step is dispatched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Gate {
    /// The question.
    pub question: String,
    /// The answers that do the step, instead of yes and no: the chosen one is its output. `value`
    /// takes any JSON value.
    #[serde(default, skip_serializing_if = "is_default")]
    pub options: Vec<String>,
    /// Addressee.
    #[serde(default, skip_serializing_if = "is_default")]
    pub to: Option<String>,
    /// Seconds until the question times out.
    #[serde(default, skip_serializing_if = "is_default")]
    pub deadline_seconds: Option<u64>,
    /// The action if the answer does not come in time.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_timeout: Option<OnTimeout>,
}

/// The action when a question times out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    /// Ask another person.
    EscalateTo(String),
    /// Use this answer.
    Answer(String),
    /// Abort the run.
    Abort,
}
