//! What a plan *is*: typed data that can be read, compared, hashed and stored.
//!
//! Invariants: a `Plan` is only data. Nothing here reads a clock or a file, and a plan that is
//! not valid (a cycle, a dangling name) can still be held and shown; [`crate::plan::validate`] judges.
//! Every field that an importer may leave out has a default and is omitted from the canonical
//! form when it holds it, so a plan's hash does not move when a field is added to the type.
//!
//! Left out on purpose: step numbers (a run assigns them), done marks (they are facts about a
//! run, not about the plan) and anything that changes while a run goes on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::budget::Budget;
use super::criterion::Criterion;
use super::fields::{Extra, is_default};
use super::policy::FailurePolicy;
use super::step::{Gate, Idempotence, RetryPolicy, Step};

/// A whole plan, as its author wrote it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "plan-files", derive(schemars::JsonSchema))]
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
    /// What is done about failures.
    #[serde(skip_serializing_if = "is_default")]
    pub failure: FailurePolicy,
    /// A person who must say yes before a version becomes active.
    #[serde(skip_serializing_if = "is_default")]
    pub gate: Option<Gate>,
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
#[cfg_attr(feature = "plan-files", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// The name that steps use.
    pub id: String,
    /// One line for people.
    #[serde(default, skip_serializing_if = "is_default")]
    pub title: String,
}

/// A join point over named steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "plan-files", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "plan-files", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "plan-files", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "plan-files", derive(schemars::JsonSchema))]
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

/// Values for steps that do not say.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "plan-files", derive(schemars::JsonSchema))]
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
