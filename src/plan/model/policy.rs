//! Failure policy of a plan: rules that decide what happens after a failed attempt.
//!
//! The first rule that matches decides, and the record of the decision names its id. If no rule
//! matches, the built-in rules of `settle` decide.

use serde::{Deserialize, Serialize};

use super::fields::is_default;
use super::step::{FailureClass, OnTimeout};

/// How failures are handled in a run of the plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct FailurePolicy {
    /// Decider.
    #[serde(skip_serializing_if = "is_default")]
    pub decider: Decider,
    /// Rules of the plan: the first that matches decides.
    #[serde(skip_serializing_if = "is_default")]
    pub rules: Vec<FailureRule>,
    /// Maximum number of replacement versions in one run. Changes of scope, extensions and the
    /// first active version do not count.
    #[serde(skip_serializing_if = "is_default")]
    pub max_replans: Option<u32>,
    /// The action before a step whose files changed since the plan was made. The option of a runner
    /// overrides it.
    #[serde(skip_serializing_if = "is_default")]
    pub on_stale: OnStale,
}

/// The action before a step whose files changed since its plan was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnStale {
    /// It is reported.
    #[default]
    Warn,
    /// The run is paused, and a person decides.
    Ask,
    /// Another plan is requested from the step on.
    Replan,
}

/// The decider about failures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Decider {
    /// The rules.
    #[default]
    Rules,
    /// An external decider: a failed attempt waits for a decision.
    External,
}

/// A failure rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FailureRule {
    /// Name in the records of its decisions, unique among the rules.
    pub id: String,
    /// The failures that it matches; all by default.
    #[serde(default, skip_serializing_if = "is_default")]
    pub when: FailureMatch,
    /// The action.
    pub then: FailureAction,
}

/// The failures that a rule matches: every field that is set must match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct FailureMatch {
    /// Class of the failure.
    #[serde(skip_serializing_if = "is_default")]
    pub class: Option<FailureClass>,
    /// Whether the work of the attempt took effect.
    #[serde(skip_serializing_if = "is_default")]
    pub disposition: Option<Disposition>,
    /// Id of the step.
    #[serde(skip_serializing_if = "is_default")]
    pub step: Option<String>,
    /// Owner of the step.
    #[serde(skip_serializing_if = "is_default")]
    pub owner: Option<String>,
    /// A tag of the step.
    #[serde(skip_serializing_if = "is_default")]
    pub tag: Option<String>,
    /// Text that the message contains.
    #[serde(skip_serializing_if = "is_default")]
    pub message: Option<String>,
    /// Number of the failure of the step, from 1: the rule matches this failure and every later
    /// one.
    #[serde(skip_serializing_if = "is_default")]
    pub failures: Option<u32>,
    /// The step's own name for its failures: see `failure_class` of a step.
    #[serde(skip_serializing_if = "is_default")]
    pub failure_class: Option<String>,
    /// CEL expression over the variables, `output`, `failure` and `budget`.
    #[serde(skip_serializing_if = "is_default")]
    pub cel: Option<String>,
}

/// How a run handles failures that its plan does not cover: the runner sets it, and may change it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailureSettings {
    /// The action after a failure of unknown class, if the step states no `retry`.
    pub on_unknown: OnUnknown,
    /// Maximum number of replacement versions, if the plan does not set one.
    pub max_replans: Option<u32>,
}

/// The action after a failure of unknown class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnUnknown {
    /// A person is asked.
    #[default]
    Ask,
    /// The step is dispatched again while attempts are left.
    Retry,
    /// The step fails.
    Fail,
}

/// The action of a failure rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FailureAction {
    /// Dispatch the step again according to its retry policy. If no attempt is left, the next
    /// matching rule decides.
    #[default]
    Retry,
    /// Use the fallback of the step.
    Fallback,
    /// Request a new plan, from a named step or from the failed one.
    Replan {
        /// Id of the first step to redo.
        #[serde(default, skip_serializing_if = "is_default")]
        from: Option<String>,
    },
    /// Ask a person.
    Escalate {
        /// Addressee.
        #[serde(default, skip_serializing_if = "is_default")]
        to: Option<String>,
        /// Seconds until the question times out.
        #[serde(default, skip_serializing_if = "is_default")]
        deadline_seconds: Option<u64>,
        /// The action if the answer does not come in time.
        #[serde(default, skip_serializing_if = "is_default")]
        on_timeout: Option<OnTimeout>,
    },
    /// Fail the step.
    Fail,
    /// Abort the run.
    Abort,
}

/// Whether the work of a failed or lost attempt took effect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Disposition {
    /// It did not take effect.
    #[default]
    DidNotHappen,
    /// It is unknown whether the work took effect.
    Unknown,
    /// It took effect.
    Landed,
}
