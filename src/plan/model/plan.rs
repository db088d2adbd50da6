//! The plan: typed data that can be read, compared, hashed and stored.
//!
//! A plan has no step numbers, which a run assigns, and nothing that changes during a run. An
//! invalid plan, with a cycle or an unknown name, can still be held and shown;
//! [`crate::plan::validate`] reports its problems.
//!
//! Invariant: every optional field has a default and is omitted from the canonical form while it
//! holds it, so a new field does not change the hashes of existing plans.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::budget::Budget;
use super::criterion::Criterion;
use super::fields::{Extra, is_default};
use super::input::PlanInput;
use super::policy::FailurePolicy;
use super::route::OwnersOfPlan;
use super::step::{Gate, Idempotence, RetryPolicy, Step};

/// A plan, as its author wrote it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Plan {
    /// Title in one line.
    #[serde(skip_serializing_if = "is_default")]
    pub title: String,
    /// The state that the plan leads to.
    #[serde(skip_serializing_if = "is_default")]
    pub outcome: String,
    /// Purpose of the plan, passed to every worker.
    #[serde(skip_serializing_if = "is_default")]
    pub goal: String,
    /// Background, passed to every worker.
    #[serde(skip_serializing_if = "is_default")]
    pub context: String,
    /// Values that a run needs from its start, by the name of their variable.
    #[serde(skip_serializing_if = "is_default")]
    pub inputs: BTreeMap<String, PlanInput>,
    /// Named groups of steps. They impose no order.
    #[serde(skip_serializing_if = "is_default")]
    pub phases: Vec<Phase>,
    /// The steps, in plan order.
    pub steps: Vec<Step>,
    /// Join points over steps; a step depends on one by naming it in `after`.
    #[serde(skip_serializing_if = "is_default")]
    pub barriers: Vec<Barrier>,
    /// Maximum numbers of attempts in flight in a run of this plan.
    #[serde(skip_serializing_if = "is_default")]
    pub caps: Caps,
    /// The settings of owners, by their names.
    #[serde(skip_serializing_if = "is_default")]
    pub owners: OwnersOfPlan,
    /// Budget of a run of this plan.
    #[serde(skip_serializing_if = "is_default")]
    pub budget: Budget,
    /// Criteria of the whole plan, which must hold before a run is done.
    #[serde(skip_serializing_if = "is_default")]
    pub test_criteria: Vec<Criterion>,
    /// How failures are handled.
    #[serde(skip_serializing_if = "is_default")]
    pub failure: FailurePolicy,
    /// A person must approve the plan before it becomes active.
    #[serde(skip_serializing_if = "is_default")]
    pub gate: Option<Gate>,
    /// Known risks.
    #[serde(skip_serializing_if = "is_default")]
    pub risks: Vec<String>,
    /// Open questions.
    #[serde(skip_serializing_if = "is_default")]
    pub open_questions: Vec<String>,
    /// Whether the plan is extended during the run: the run does not end when its steps are done,
    /// and the planner is asked for more steps.
    #[serde(skip_serializing_if = "is_default")]
    pub continues: bool,
    /// With `continues`: the planner is asked for more steps when fewer than this are open.
    #[serde(skip_serializing_if = "is_default")]
    pub extend_at: Option<u32>,
    /// Default values for steps.
    #[serde(skip_serializing_if = "is_default")]
    pub defaults: Defaults,
    /// Data of other tools, stored unchanged.
    #[serde(skip_serializing_if = "is_default")]
    pub extra: Extra,
}

/// A named group of steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Name that steps use.
    pub id: String,
    /// Title in one line.
    #[serde(default, skip_serializing_if = "is_default")]
    pub title: String,
}

/// A join point over named steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Barrier {
    /// Name that `after` uses, unique among steps and barriers.
    pub id: String,
    /// Title in one line.
    #[serde(default, skip_serializing_if = "is_default")]
    pub title: String,
    /// Ids of the member steps.
    pub members: Vec<String>,
    /// How many members must arrive.
    #[serde(default, skip_serializing_if = "is_default")]
    pub needs: BarrierNeeds,
    /// Seconds after the start of the run until it breaks unless it was released.
    #[serde(default, skip_serializing_if = "is_default")]
    pub deadline_seconds: Option<u32>,
    /// The effect of a break.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_break: OnBreak,
}

/// How many members of a barrier must arrive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// The effect of a broken barrier.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnBreak {
    /// The run fails.
    #[default]
    Fail,
    /// The run continues; dependents keep waiting.
    Wait,
    /// Ask a person.
    Ask,
}

/// Maximum numbers of attempts in flight.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// Default values for steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// See [`Step::repeat_limit`].
    #[serde(skip_serializing_if = "is_default")]
    pub repeat_limit: Option<u32>,
    /// See [`Step::lease_seconds`].
    #[serde(skip_serializing_if = "is_default")]
    pub lease_seconds: Option<u32>,
}

impl Plan {
    /// The names of the inputs that have neither a value nor a default.
    #[must_use]
    pub fn missing_inputs(&self, is_set: impl Fn(&str) -> bool) -> Vec<String> {
        let is_missing =
            |(name, input): &(&String, &PlanInput)| input.default.is_none() && !is_set(name);
        self.inputs.iter().filter(is_missing).map(|(name, _)| name.clone()).collect()
    }
}
