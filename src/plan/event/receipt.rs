//! Receipts: reports of workers about their attempts.
//!
//! A receipt is unverified; only verdicts or an explicit policy accept a step. A large output is
//! stored as a blob, and the receipt contains its hash.
//!
//! Invariant: `decide` and `settle` never read a blob. The values of the declared outputs are
//! stored with the reference.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::plan::model::budget::Cost;
use crate::plan::model::policy::Disposition;
use crate::plan::model::step::FailureClass;
use crate::plan::value::detached::Salt;
use crate::plan::value::ids::{ContentHash, Micros, SECOND};
use crate::plan::value::json::Json;

use super::json_form::{self, flattened, json_form, tagged};
use crate::plan::value::text::Text;

/// The output of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self", rename_all = "snake_case")]
pub enum Output {
    /// The value.
    Inline(Json),
    /// A value too large for a record, stored as a blob.
    Blob(BlobOutput),
}

/// An output that is stored as a blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlobOutput {
    /// BLAKE3 of the canonical text.
    pub hash: ContentHash,
    /// Length in bytes.
    pub length: u64,
    /// The values of the declared outputs, by name.
    #[serde(serialize_with = "json_form::map")]
    #[cfg_attr(feature = "schema", schemars(with = "std::collections::BTreeMap<String, Json>"))]
    pub values: Vec<(String, Json)>,
}

impl Output {
    /// The value; `None` for a blob, which the ledger resolves.
    #[must_use]
    pub fn inline(&self) -> Option<&Json> {
        match self {
            Self::Inline(value) => Some(value),
            Self::Blob(_) => None,
        }
    }

    /// Whether the value is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.inline().is_some_and(|value| value.as_str() == "null")
    }
}

impl Default for Output {
    /// `null`.
    fn default() -> Self {
        Self::Inline(Json::default())
    }
}

impl From<Json> for Output {
    fn from(value: Json) -> Self {
        Self::Inline(value)
    }
}

impl From<serde_json::Value> for Output {
    fn from(value: serde_json::Value) -> Self {
        Self::Inline(value.into())
    }
}

/// Report of a worker about an attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(remote = "Self")]
pub struct Receipt {
    /// Outcome of the attempt.
    pub outcome: Outcome,
    /// Output of the attempt.
    #[cfg_attr(feature = "schema", schemars(flatten, with = "OutputMembers"))]
    pub output: Output,
    /// Variables to set in addition to the declared outputs.
    #[serde(serialize_with = "named_values")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<NamedValue<'static>>"))]
    pub variables: Vec<(String, Json)>,
    /// Files that the attempt produced.
    pub artifacts: Vec<Artifact>,
    /// Side effects that took place, by name or key.
    pub side_effects: Vec<String>,
    /// Actual cost.
    pub cost: Cost,
    /// Duration in microseconds.
    #[serde(rename = "duration_micros")]
    pub duration: Micros,
    /// The end of the standard error output, or other notes.
    pub log_tail: Text,
    /// Whether the work of a failed attempt took effect, if the worker knows.
    pub disposition: Option<Disposition>,
}

impl Receipt {
    /// Its values: those of the output, of variables, and of a failure.
    fn values_mut(&mut self) -> impl Iterator<Item = &mut Json> {
        let output = match &mut self.output {
            Output::Inline(value) => (Some(value), None),
            Output::Blob(blob) => (None, Some(blob.values.iter_mut().map(|(_, value)| value))),
        };
        let failure = match &mut self.outcome {
            Outcome::Failed { payload, .. } => Some(payload),
            Outcome::Succeeded | Outcome::ReplanRequested { .. } => None,
        };
        let variables = self.variables.iter_mut().map(|(_, value)| value);
        output.0.into_iter().chain(output.1.into_iter().flatten()).chain(variables).chain(failure)
    }

    /// Whether the receipt has values that can be erased.
    pub(crate) fn has_values(&self) -> bool {
        let has_payload = matches!(&self.outcome, Outcome::Failed { .. });
        let has_value = !self.output.is_null() || !self.variables.is_empty();
        has_payload || has_value || !self.log_tail.is_empty()
    }

    /// Sets the salt of its values and of its log tail.
    pub(crate) fn set_salt(&mut self, salt: Salt) {
        self.values_mut().for_each(|value| value.salt(salt));
        mutant!(LogTailKept => return);
        self.log_tail.salt(salt);
    }
}

/// Outcome of an attempt, as the worker reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(remote = "Self", rename_all = "snake_case")]
#[cfg_attr(feature = "schema", schemars(tag = "is"))]
pub enum Outcome {
    /// The work is done.
    #[default]
    Succeeded,
    /// The work is not done.
    Failed {
        /// Class of the failure.
        class: FailureClass,
        /// Human-readable reason.
        message: String,
        /// Machine-readable details: any JSON.
        payload: Json,
    },
    /// The worker requests a new plan.
    ReplanRequested {
        /// Human-readable reason.
        reason: String,
        /// The id of the step from which work should be redone; `None` means the step itself.
        from: Option<String>,
        /// Why the plan should change.
        kind: ReplanKind,
    },
}

/// Why a worker requests a new plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ReplanKind {
    /// The plan does not work.
    #[default]
    Replan,
    /// It found out something that the plan does not know.
    NewEvidence,
    /// The goal changed.
    ScopeChange,
}

impl ReplanKind {
    /// The kind as words after the request; empty for the usual kind.
    #[must_use]
    pub fn note(self) -> &'static str {
        match self {
            Self::Replan => "",
            Self::NewEvidence => " (new evidence)",
            Self::ScopeChange => " (scope change)",
        }
    }
}

/// The payload member with the delay after which a worker expects another attempt to succeed.
pub const RETRY_AFTER: &str = "retry_after_seconds";

/// The payload member with the default delay of a runner.
pub const BACKOFF: &str = "backoff_seconds";

/// The payload member in which a runner reports that the attempt met a usage limit: a word of
/// [`UsageLimit`].
pub const USAGE_LIMIT: &str = "usage_limit";

/// The evidence that an attempt met a usage limit, and the end of the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageLimit {
    /// The worker said when to try again.
    Worker,
    /// The last output says it, and time ends the limit.
    Output,
    /// The last output says it, and only a person ends the limit.
    Person,
}

impl UsageLimit {
    /// The usage limit that the attempt met, as its runner found.
    #[must_use]
    pub fn of(outcome: &Outcome) -> Option<Self> {
        let Outcome::Failed { payload, .. } = outcome else { return None };
        if !payload.as_str().contains(USAGE_LIMIT) {
            return None;
        }
        let value = payload.value();
        let word = value.get(USAGE_LIMIT)?.as_str()?;
        [Self::Worker, Self::Output, Self::Person].into_iter().find(|limit| limit.word() == word)
    }

    /// The word in a payload.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Output => "output",
            Self::Person => "person",
        }
    }
}

/// The longest time that a failure can ask for, in seconds: 30 days.
const DELAY_MAX: u64 = 30 * 24 * 3600;

impl Outcome {
    /// How long the worker asks to wait before the next attempt, as for a usage limit.
    #[must_use]
    pub fn retry_after(&self) -> Option<Micros> {
        self.seconds_in_payload(RETRY_AFTER)
    }

    /// How long to wait before the next attempt at least, as the worker or its runner asks.
    #[must_use]
    pub fn delay(&self) -> Option<Micros> {
        self.retry_after().max(self.seconds_in_payload(BACKOFF))
    }

    fn seconds_in_payload(&self, name: &str) -> Option<Micros> {
        let Self::Failed { payload, .. } = self else { return None };
        // Most payloads have no such member: look before parsing.
        if !payload.as_str().contains(name) {
            return None;
        }
        let seconds = payload.value().get(name)?.as_u64()?;
        Some(seconds.min(DELAY_MAX).saturating_mul(SECOND))
    }
}

/// A file that a worker produced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Artifact {
    /// Path of the file.
    pub path: String,
    /// Hash of the content in hexadecimal, computed by the worker or the runner.
    pub hash: String,
}

json_form! {
    Output => output_members,
    Outcome => tagged,
    Receipt => with_output_members,
}

/// The JSON members of a receipt about its output.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct OutputMembers {
    /// The output, any JSON; `null` if it is a blob.
    output: Option<Value>,
    /// The blob; `null` if the output is in the record itself.
    #[cfg_attr(feature = "schema", schemars(with = "Option<BlobOutput>"))]
    output_blob: Option<Value>,
}

fn output_members(mut derived: Value) -> OutputMembers {
    let mut take = |variant| derived.get_mut(variant).map(Value::take);
    OutputMembers { output: take("inline"), output_blob: take("blob") }
}

fn with_output_members(derived: Value) -> Value {
    flattened(derived, "output")
}

/// The JSON form of a variable in a receipt.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct NamedValue<'a> {
    name: &'a str,
    /// Any JSON.
    value: &'a Json,
}

fn named_values<S: Serializer>(
    variables: &[(String, Json)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    if !serializer.is_human_readable() {
        return variables.serialize(serializer);
    }
    serializer.collect_seq(variables.iter().map(|(name, value)| NamedValue { name, value }))
}
