//! The arguments of the tools. A model reads their descriptions, so they are short, and the schemas
//! are flat: texts, numbers, and lists of texts.

mod expected;
#[cfg(test)]
mod generated;

pub(super) use expected::{arguments_of, refused_action, schema_of};
#[cfg(test)]
pub(super) use generated::flat_schema;

#[cfg(test)]
use std::borrow::Cow;

#[cfg(test)]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use plan_ledger::FailureClass;
use plan_ledger::plan::{ReplanKind, Token};

use crate::protocol::OutcomeWord;
use crate::requests::{Actor, EffectState, rules_of_requests};

/// Reads a token. Some models write its number alone.
fn token<'de, D: Deserializer<'de>>(from: D) -> Result<Token, D::Error> {
    let value = Value::deserialize(from)?;
    let token = value.as_str().and_then(|text| text.trim().parse().ok());
    token.ok_or_else(|| {
        D::Error::custom(
            "token: expected the whole token in the answer to the claim, such as `412-9f2c...`",
        )
    })
}

/// Reads the name of a person.
fn author<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let name = String::deserialize(from)?;
    let is_name = !name.trim().is_empty();
    if !is_name {
        return Err(D::Error::custom("by: expected the name of a person"));
    }
    Actor::expect_own_name(&name).map_err(|error| D::Error::custom(format!("by: {error}")))?;
    Ok(name)
}

/// `ledger_claim`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimArguments {
    /// Run, if several are active
    pub(super) run: Option<String>,
    /// Only this step, by id or number
    pub(super) step: Option<String>,
    /// Your worker name
    pub(super) worker: Option<String>,
    /// Only steps of these owners
    #[serde(default)]
    pub(super) owners: Vec<String>,
    /// Only steps with one of these tags
    #[serde(default)]
    pub(super) tags: Vec<String>,
    /// Wait until a step is ready, 0 to 50
    pub(super) wait_seconds: Option<u64>,
    /// Lease; the plan's by default
    pub(super) lease_seconds: Option<u32>,
    /// Repeat the call with the same key to get the same answer
    pub(super) key: Option<String>,
}

/// `ledger_report`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct ReportArguments {
    /// From the claim
    #[serde(deserialize_with = "token")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub(super) token: Token,
    pub(super) outcome: OutcomeWord,
    /// The result: JSON, or else text
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(super) output: Option<Value>,
    /// Why it failed, or needs a new plan
    pub(super) message: Option<String>,
    /// Of a failure
    pub(super) class: Option<FailureClass>,
    /// Of a new plan: first step to do again
    pub(super) from: Option<String>,
    /// Of a new plan
    pub(super) kind: Option<ReplanKind>,
    /// Paths of files that it made
    #[serde(default)]
    pub(super) artifacts: Vec<String>,
    /// Tokens used
    #[serde(default)]
    pub(super) tokens: u64,
    /// Cost in millionths
    #[serde(default)]
    pub(super) money_micros: u64,
    /// Variables to set, by name
    #[serde(default)]
    pub(super) variables: Map<String, Value>,
    /// Claim the next step, too
    #[serde(default)]
    pub(super) next: bool,
}

/// `ledger_heartbeat`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct HeartbeatArguments {
    #[serde(deserialize_with = "token")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub(super) token: Token,
    pub(super) lease_seconds: Option<u32>,
    /// Key of a side effect
    pub(super) effect: Option<String>,
    /// Before the effect, and after it
    pub(super) effect_state: Option<EffectState>,
}

/// `ledger_release`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct ReleaseArguments {
    #[serde(deserialize_with = "token")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub(super) token: Token,
    /// Whether anything was done that cannot be repeated
    pub(super) began: bool,
    pub(super) reason: Option<String>,
}

/// `ledger_status`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct StatusArguments {
    pub(super) run: Option<String>,
}

/// `ledger_show`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct ShowArguments {
    pub(super) what: ShowWhat,
    /// The step, for step and why
    pub(super) id: Option<String>,
    pub(super) run: Option<String>,
    /// As of this record
    pub(super) at: Option<u64>,
    /// `next_cursor` of the last answer
    pub(super) cursor: Option<String>,
}

/// The subject to show.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(super) enum ShowWhat {
    Step,
    Why,
    Plan,
    Queue,
    Variables,
    Questions,
    Records,
}

/// `ledger_plan`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct PlanArguments {
    pub(super) mode: PlanMode,
    /// The plan's text: YAML, JSON or Markdown
    pub(super) plan: Option<String>,
    /// Or its file
    pub(super) path: Option<String>,
    /// Of a plan with two readings, the one to use
    pub(super) reading: Option<String>,
    /// Name of a new run, or the run to change
    pub(super) run: Option<String>,
    pub(super) reason: Option<String>,
    /// The new step, to add one
    pub(super) id: Option<String>,
    pub(super) goal: Option<String>,
    /// Steps that it needs
    #[serde(default)]
    pub(super) after: Vec<String>,
    /// Criteria in words
    #[serde(default)]
    pub(super) acceptance: Vec<String>,
}

/// The action on a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(super) enum PlanMode {
    Check,
    Propose,
    AddStep,
}

/// `ledger_answer`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerArguments {
    pub(super) run: Option<String>,
    /// Number of the question
    pub(super) question: Option<u64>,
    /// Or the step; `plan` for the plan's criteria
    pub(super) step: Option<String>,
    /// An option of the question, pass, fail, retry, skip, landed, did-not-happen, approve or reject
    pub(super) answer: String,
    /// The person who decided
    #[serde(deserialize_with = "author")]
    pub(super) by: String,
    pub(super) note: Option<String>,
    /// Hash that the person was shown
    pub(super) shown: Option<String>,
}

/// `ledger_control`: beside `action`, the members of the request. What the model leaves out is no member.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct ControlArguments {
    #[serde(rename(serialize = "act"))]
    pub(super) action: ControlAction,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) run: Option<String>,
    /// Of set: the variable
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Of set: JSON, or else text
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(super) value: Option<Value>,
    /// Of set: only if the variable has this version
    #[serde(skip_serializing_if = "Option::is_none")]
    if_version: Option<u64>,
    /// Of note
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// Of note: the step
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<String>,
    /// Of cap: attempts at once
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u32>,
    /// Of budget: `{"raise": {"tokens": 50000}}`; also `money_micros`, attempts, `wall_seconds`
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<Map<String, Value>>,
    /// Of pause, cancel, withdraw
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// The person who decided
    #[serde(deserialize_with = "author")]
    pub(super) by: String,
}

/// The action on a run: the word of a request that controls one.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ControlAction(String);

impl ControlAction {
    fn words() -> impl Iterator<Item = String> {
        rules_of_requests().filter(|(_, rules)| rules.control).map(|(act, _)| act)
    }
}

impl<'de> Deserialize<'de> for ControlAction {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let word = String::deserialize(from)?;
        if Self::words().any(|each| each == word) {
            return Ok(Self(word));
        }
        let words: Vec<String> = Self::words().map(|word| format!("`{word}`")).collect();
        let words = words.join(", ");
        Err(D::Error::custom(format!("action: unknown value `{word}`, expected one of {words}")))
    }
}

#[cfg(test)]
impl JsonSchema for ControlAction {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ControlAction".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": Self::words().collect::<Vec<_>>() })
    }
}
