//! What is done about failures: rules, as data of the plan.
//!
//! Invariants: the first rule that matches decides, and each has an id that the record of the
//! decision names. Where no rule of the plan matches, the built-in table does (`settle`).
//!
//! Left out on purpose: judging. The types only say what somebody wants.

use serde::{Deserialize, Serialize};

use super::fields::is_default;
use super::step::{FailureClass, OnTimeout};

/// What is done about failures in a run of the plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "plan-files", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct FailurePolicy {
    /// Who decides.
    #[serde(skip_serializing_if = "is_default")]
    pub decider: Decider,
    /// The plan's own rules: the first that matches decides.
    #[serde(skip_serializing_if = "is_default")]
    pub rules: Vec<FailureRule>,
    /// How many later versions may become active in one run, those that a person proposes as a
    /// change of scope not counted.
    #[serde(skip_serializing_if = "is_default")]
    pub max_replans: Option<u32>,
}

/// Who decides what is done about a failure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "plan-files", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Decider {
    /// The rules.
    #[default]
    Rules,
    /// Somebody else: a failed attempt waits until a decision is brought.
    External,
}

/// One rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "plan-files", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FailureRule {
    /// Its name in the records of its decisions: unique among the rules.
    pub id: String,
    /// Which failures it is about: all, where nothing is said.
    #[serde(default, skip_serializing_if = "is_default")]
    pub when: FailureMatch,
    /// What is done about them.
    pub then: FailureAction,
}

/// Which failures a rule is about. Everything that is said must be so.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "plan-files", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct FailureMatch {
    /// Of this class.
    #[serde(skip_serializing_if = "is_default")]
    pub class: Option<FailureClass>,
    /// With this left of the attempt in the world.
    #[serde(skip_serializing_if = "is_default")]
    pub disposition: Option<Disposition>,
    /// Of the step with this id.
    #[serde(skip_serializing_if = "is_default")]
    pub step: Option<String>,
    /// Of a step with this owner.
    #[serde(skip_serializing_if = "is_default")]
    pub owner: Option<String>,
    /// Of a step with this tag.
    #[serde(skip_serializing_if = "is_default")]
    pub tag: Option<String>,
    /// With this text in the message.
    #[serde(skip_serializing_if = "is_default")]
    pub message: Option<String>,
    /// From this failure of the step on, counted from 1.
    #[serde(skip_serializing_if = "is_default")]
    pub failures: Option<u32>,
}

/// What is done about a failure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "plan-files", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FailureAction {
    /// The step is dealt again, as its retry policy says; once that is exhausted, the next rule
    /// that matches decides.
    #[default]
    Retry,
    /// The step's fallback stands in.
    Fallback,
    /// Another plan is asked for, from this step or, where none is named, from the failed one.
    Replan {
        /// The id of the step from which work is done anew.
        #[serde(default, skip_serializing_if = "is_default")]
        from: Option<String>,
    },
    /// Somebody is asked.
    Escalate {
        /// Who, where it is known.
        #[serde(default, skip_serializing_if = "is_default")]
        to: Option<String>,
        /// Seconds to answer in.
        #[serde(default, skip_serializing_if = "is_default")]
        deadline_seconds: Option<u64>,
        /// What happens when nobody answers.
        #[serde(default, skip_serializing_if = "is_default")]
        on_timeout: Option<OnTimeout>,
    },
    /// The step has failed for good.
    Fail,
    /// The run ends.
    Abort,
}

/// What a failed or lost attempt left in the world.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "plan-files", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Disposition {
    /// Nothing.
    #[default]
    DidNotHappen,
    /// Nobody knows.
    InDoubt,
    /// What it was meant to do.
    Landed,
}
