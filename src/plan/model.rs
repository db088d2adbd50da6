//! What a plan *is*: typed data that can be read, compared, hashed and stored.
//!
//! Invariants: a `Plan` is only data. Nothing here reads a clock or a file, and a plan that is
//! not valid (a cycle, a dangling name) can still be held and shown; [`super::validate`] judges.
//! Every field that an importer may leave out has a default and is omitted from the canonical
//! form when it holds it, so a plan's hash does not move when a field is added to the type.
//!
//! Left out on purpose: step numbers (a run assigns them), done marks (they are facts about a
//! run, not about the plan) and anything that changes while a run goes on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Criterion;

/// Names and settings of fields that the author's tool wrote and this crate does not know.
pub type Extra = BTreeMap<String, Value>;

/// A whole plan, as its author wrote it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Plan {
    /// One line that names the plan.
    #[serde(skip_serializing_if = "is_default")]
    pub title: String,
    /// What is true when the plan has succeeded.
    #[serde(skip_serializing_if = "is_default")]
    pub outcome: String,
    /// Why the plan exists; every worker is told.
    #[serde(skip_serializing_if = "is_default")]
    pub goal: String,
    /// Background that every worker is told.
    #[serde(skip_serializing_if = "is_default")]
    pub context: String,
    /// Named groups of steps, in order. They order nothing by themselves.
    #[serde(skip_serializing_if = "is_default")]
    pub phases: Vec<Phase>,
    /// The steps, in plan order.
    pub steps: Vec<Step>,
    /// Join points over named steps; a step waits for one by naming it in `after`.
    #[serde(skip_serializing_if = "is_default")]
    pub barriers: Vec<Barrier>,
    /// How many attempts may be in flight at once in a run of this plan.
    #[serde(skip_serializing_if = "is_default")]
    pub caps: Caps,
    /// What a run of this plan may spend.
    #[serde(skip_serializing_if = "is_default")]
    pub budget: Budget,
    /// What must hold, beyond every step, before a run is done.
    #[serde(skip_serializing_if = "is_default")]
    pub test_criteria: Vec<Criterion>,
    /// What may go wrong.
    #[serde(skip_serializing_if = "is_default")]
    pub risks: Vec<String>,
    /// What is not yet known.
    #[serde(skip_serializing_if = "is_default")]
    pub open_questions: Vec<String>,
    /// The plan is extended as it goes: it does not end when its steps do.
    #[serde(skip_serializing_if = "is_default")]
    pub continues: bool,
    /// Below this many open steps the planner is asked for more.
    #[serde(skip_serializing_if = "is_default")]
    pub extend_at: Option<u32>,
    /// Values for steps that do not say.
    #[serde(skip_serializing_if = "is_default")]
    pub defaults: Defaults,
    /// Fields of the author's tool, kept as they were.
    #[serde(skip_serializing_if = "is_default")]
    pub extra: Extra,
}

/// A named group of steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// The name that steps use.
    pub id: String,
    /// One line for people.
    #[serde(default, skip_serializing_if = "is_default")]
    pub title: String,
}

/// One piece of work, done by one worker in one attempt.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
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
    pub preconditions: Vec<String>,
    /// CEL expression: run only if it holds, else skip.
    #[serde(default, skip_serializing_if = "is_default")]
    pub condition: Option<String>,
    /// Tools that the worker may use.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tools: Vec<String>,
    /// Tags and resources, for caps.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tags: Vec<String>,
    /// Files that it is expected to change.
    #[serde(default, skip_serializing_if = "is_default")]
    pub changes: Vec<String>,
    /// What must hold before it counts as accepted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub acceptance: Vec<Criterion>,
    /// What a failure of this step most likely means, by a word found in its message.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failure_hints: BTreeMap<String, FailureClass>,
    /// How often, and how soon, it is tried again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retry: Option<RetryPolicy>,
    /// What stands in for it when it fails for good.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fallback: Option<Fallback>,
    /// What it does to the world outside.
    #[serde(default, skip_serializing_if = "is_default")]
    pub side_effects: Vec<String>,
    /// Whether doing it twice is as good as doing it once.
    #[serde(default, skip_serializing_if = "is_default")]
    pub idempotent: Option<Idempotence>,
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
    pub gate: Option<Gate>,
    /// Fields of the author's tool, kept as they were.
    #[serde(default, skip_serializing_if = "is_default")]
    pub extra: Extra,
}

/// A join point over named steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Barrier {
    /// The name that `after` uses: unique among steps and barriers.
    pub id: String,
    /// One line for people.
    #[serde(default, skip_serializing_if = "is_default")]
    pub title: String,
    /// Ids of its member steps.
    pub members: Vec<String>,
    /// How many members must arrive.
    #[serde(default, skip_serializing_if = "is_default")]
    pub needs: BarrierNeeds,
    /// Seconds after the run's start by which it should be released.
    #[serde(default, skip_serializing_if = "is_default")]
    pub deadline_seconds: Option<u32>,
    /// What happens when it can no longer be met.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_break: OnBreak,
}

/// How many members of a barrier must arrive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BarrierNeeds {
    /// Every member.
    #[default]
    All,
    /// One member.
    Any,
    /// This many members.
    AtLeast(u32),
}

/// What happens when a barrier can no longer be met.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnBreak {
    /// The run fails.
    #[default]
    Fail,
    /// The run goes on; what waits for the barrier goes on waiting.
    Wait,
    /// Somebody is asked.
    Ask,
}

/// How many attempts may be in flight at once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Caps {
    /// In the whole run.
    #[serde(skip_serializing_if = "is_default")]
    pub run: Option<u32>,
    /// For each named owner.
    #[serde(skip_serializing_if = "is_default")]
    pub owners: BTreeMap<String, u32>,
    /// For each named tag or resource.
    #[serde(skip_serializing_if = "is_default")]
    pub tags: BTreeMap<String, u32>,
}

/// What a run may spend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    /// Money, in millionths of the currency unit.
    #[serde(skip_serializing_if = "is_default")]
    pub money_micros: Option<u64>,
    /// Tokens, in and out together.
    #[serde(skip_serializing_if = "is_default")]
    pub tokens: Option<u64>,
    /// Attempts.
    #[serde(skip_serializing_if = "is_default")]
    pub attempts: Option<u64>,
    /// Seconds of wall time.
    #[serde(skip_serializing_if = "is_default")]
    pub wall_seconds: Option<u64>,
}

/// What one attempt costs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Cost {
    /// Money, in millionths of the currency unit.
    pub money_micros: u64,
    /// Tokens, in and out together.
    pub tokens: u64,
}

/// Why an attempt failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
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
    /// Attempts in all, for one failure class.
    #[serde(skip_serializing_if = "is_default")]
    pub per_class: BTreeMap<String, u32>,
}

impl Default for RetryPolicy {
    /// Three attempts, no wait.
    fn default() -> Self {
        Self { max_attempts: 3, backoff_seconds: 0, backoff_percent: None, per_class: BTreeMap::new() }
    }
}

/// What stands in for a step that failed for good.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
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
}

/// Whether doing a step twice is as good as doing it once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Idempotence {
    /// It may be dealt again after a lost attempt.
    Yes,
    /// A lost attempt leaves it in doubt: somebody must say what happened first.
    No,
    /// It may be dealt again, because the world refuses a second use of its key.
    WithKey,
}

/// A person who must say yes before a step is dealt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Gate {
    /// What they are asked.
    pub question: String,
    /// Seconds to answer in.
    #[serde(default, skip_serializing_if = "is_default")]
    pub deadline_seconds: Option<u64>,
    /// What happens when nobody answers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_timeout: Option<OnTimeout>,
}

/// What happens when nobody answers a gate in time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    /// Ask somebody else.
    EscalateTo(String),
    /// Take this answer.
    Answer(String),
    /// Abort the run.
    Abort,
}

/// Values for steps that do not say.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Defaults {
    /// See [`Step::owner`].
    #[serde(skip_serializing_if = "is_default")]
    pub owner: Option<String>,
    /// See [`Step::command`].
    #[serde(skip_serializing_if = "is_default")]
    pub command: Option<String>,
    /// See [`Step::retry`].
    #[serde(skip_serializing_if = "is_default")]
    pub retry: Option<RetryPolicy>,
    /// See [`Step::idempotent`].
    #[serde(skip_serializing_if = "is_default")]
    pub idempotent: Option<Idempotence>,
    /// See [`Step::timeout_seconds`].
    #[serde(skip_serializing_if = "is_default")]
    pub timeout_seconds: Option<u32>,
    /// See [`Step::lease_seconds`].
    #[serde(skip_serializing_if = "is_default")]
    pub lease_seconds: Option<u32>,
}

/// Whether a field holds its default and is left out of the canonical form.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
