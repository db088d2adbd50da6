//! What a step *is*, and the values that only steps have.
//!
//! The invariants are those of [`crate::plan::Plan`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::budget::Cost;
use super::criterion::Criterion;
use super::fields::{Extra, is_default};
use crate::plan::value::rare_field::Seldom;

/// One piece of work, done by one worker in one attempt.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "plan-files", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The author's name for the step: unique among steps and barriers.
    pub id: String,
    /// One line for people.
    #[serde(default, skip_serializing_if = "is_default")]
    pub title: String,
    /// What the worker is asked to achieve.
    #[serde(default, skip_serializing_if = "is_default")]
    pub goal: String,
    /// The phase it belongs to.
    #[serde(default, skip_serializing_if = "is_default")]
    pub phase: Option<String>,
    /// The role or capability that may do it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub owner: Option<String>,
    /// A shell command that does it, for steps that need no agent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub command: Option<String>,
    /// Names of the variables that it reads.
    #[serde(default, skip_serializing_if = "is_default")]
    pub inputs: Vec<String>,
    /// Names of the variables that its output sets.
    #[serde(default, skip_serializing_if = "is_default")]
    pub outputs: Vec<String>,
    /// Ids of the steps and barriers that it waits for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub after: Vec<String>,
    /// CEL expressions that must hold before it is dealt.
    #[serde(default, skip_serializing_if = "is_default")]
    pub preconditions: Seldom<Vec<String>>,
    /// What happens while a precondition is false.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_false: OnFalse,
    /// CEL expression: run only if it holds, else skip.
    #[serde(default, skip_serializing_if = "is_default")]
    pub condition: Option<String>,
    /// Tools that the worker may use.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tools: Seldom<Vec<String>>,
    /// Tags and resources, for caps.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tags: Seldom<Vec<String>>,
    /// Files that it is expected to change.
    #[serde(default, skip_serializing_if = "is_default")]
    pub changes: Seldom<Vec<String>>,
    /// What must hold before it counts as accepted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub acceptance: Vec<Criterion>,
    /// What a failure of this step most likely means, by a word found in its message.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failure_hints: Seldom<BTreeMap<String, FailureClass>>,
    /// How often, and how soon, it is tried again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retry: Option<Box<RetryPolicy>>,
    /// What stands in for it when it fails for good.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fallback: Option<Box<Fallback>>,
    /// What it does to the world outside.
    #[serde(default, skip_serializing_if = "is_default")]
    pub side_effects: Seldom<Vec<String>>,
    /// Whether doing it twice is as good as doing it once.
    #[serde(default, skip_serializing_if = "is_default")]
    pub idempotent: Option<Idempotence>,
    /// A shell command that tells what a lost attempt did: exit status 0 if it landed, 1 if it
    /// did not happen.
    #[serde(default, skip_serializing_if = "is_default")]
    pub probe: Option<String>,
    /// Seconds after which the worker is stopped.
    #[serde(default, skip_serializing_if = "is_default")]
    pub timeout_seconds: Option<u32>,
    /// Seconds for which an attempt is held without a sign of life.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lease_seconds: Option<u32>,
    /// What one attempt is expected to cost.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cost_estimate: Option<Cost>,
    /// What one attempt may cost.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cost_limit: Option<Cost>,
    /// Higher is dealt first; equal priorities go in plan order.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: i32,
    /// A person who must say yes first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gate: Option<Box<Gate>>,
    /// Fields of the author's tool, kept as they were.
    #[serde(default, skip_serializing_if = "is_default")]
    pub extra: Extra,
}

/// Why an attempt failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "plan-files", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// It may work when tried again.
    Transient,
    /// It will fail again in the same way.
    Deterministic,
    /// Something that the plan takes for granted is not so.
    AssumptionBroken,
    /// The money, tokens or time ran out.
    BudgetExhausted,
    /// Nobody said.
    #[default]
    Unknown,
}

/// How often, and how soon, a failed step is tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "plan-files", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RetryPolicy {
    /// Attempts in all, the first included; at least 1.
    pub max_attempts: u32,
    /// Seconds before the second attempt.
    #[serde(skip_serializing_if = "is_default")]
    pub backoff_seconds: u32,
    /// By how much each further wait grows, in percent; 100 keeps it equal.
    #[serde(skip_serializing_if = "is_default")]
    pub backoff_percent: Option<u32>,
    /// The longest wait in seconds, however often it grew.
    #[serde(skip_serializing_if = "is_default")]
    pub backoff_max_seconds: Option<u32>,
    /// By how much a wait may differ, in percent, so that not all come back at once.
    #[serde(skip_serializing_if = "is_default")]
    pub jitter_percent: Option<u32>,
    /// Attempts in all, for one failure class.
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

/// What stands in for a step that failed for good.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "plan-files", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Fallback {
    /// Another step of the plan.
    Step(String),
    /// The same step by another owner.
    Owner(String),
    /// A value instead of an output, no older than so many seconds.
    Value {
        /// The value.
        value: Value,
        /// Its greatest age in seconds.
        #[serde(default, skip_serializing_if = "is_default")]
        max_age_seconds: Option<u64>,
    },
    /// The value of a variable, if it was set no longer ago than so many seconds.
    Variable {
        /// The variable.
        name: String,
        /// Its greatest age in seconds.
        #[serde(default, skip_serializing_if = "is_default")]
        max_age_seconds: Option<u64>,
    },
}

/// What happens to a step while one of its preconditions is false.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "plan-files", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnFalse {
    /// It waits. When nothing that is left to do can make the precondition true, another plan is
    /// asked for.
    #[default]
    Wait,
    /// It fails.
    Fail,
    /// It is skipped.
    Skip,
}

/// Whether doing a step twice is as good as doing it once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "plan-files", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Idempotence {
    /// It may be dealt again after a lost attempt.
    #[default]
    Yes,
    /// A lost attempt leaves it in doubt: somebody must say what happened first.
    No,
    /// It may be dealt again, because the world refuses a second use of its key.
    WithKey,
}

/// A person who must say yes before a step is dealt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "plan-files", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Gate {
    /// What they are asked.
    pub question: String,
    /// Who, where it is known.
    #[serde(default, skip_serializing_if = "is_default")]
    pub to: Option<String>,
    /// Seconds to answer in.
    #[serde(default, skip_serializing_if = "is_default")]
    pub deadline_seconds: Option<u64>,
    /// What happens when nobody answers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_timeout: Option<OnTimeout>,
}

/// What happens when nobody answers a gate in time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "plan-files", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    /// Ask somebody else.
    EscalateTo(String),
    /// Take this answer.
    Answer(String),
    /// Abort the run.
    Abort,
}
