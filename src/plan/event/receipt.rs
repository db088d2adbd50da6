//! What a worker produced: in the receipt itself, or by reference to a blob.
//!
//! Invariants: nothing that `decide` or `settle` needs is in a blob: the values of the step's
//! declared outputs stay with the reference.

use serde::{Deserialize, Serialize};

use crate::plan::model::budget::Cost;
use crate::plan::model::policy::Disposition;
use crate::plan::model::step::FailureClass;
use crate::plan::value::ids::{ContentHash, Micros};
use crate::plan::value::json::Json;

/// What a worker produced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Output {
    /// The value itself.
    Inline(Json),
    /// Too large for a record: the value's canonical text is a blob of the ledger.
    Blob(BlobOutput),
}

/// An output that is a blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobOutput {
    /// BLAKE3 of the canonical text.
    pub hash: ContentHash,
    /// Its length in bytes.
    pub length: u64,
    /// The values of the outputs that the step declared when the receipt came, by name.
    pub values: Vec<(String, Json)>,
}

impl Output {
    /// The value, if it is here; `None` for a blob, which the ledger resolves.
    #[must_use]
    pub fn inline(&self) -> Option<&Json> {
        match self {
            Self::Inline(value) => Some(value),
            Self::Blob(_) => None,
        }
    }

    /// Whether there is none.
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

/// What a worker returns for an attempt: a claim, not a completion.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// How it went.
    pub outcome: Outcome,
    /// What it produced.
    pub output: Output,
    /// Variables that it wants set, beyond those that its outputs name.
    pub variables: Vec<(String, Json)>,
    /// Files that it made.
    pub artifacts: Vec<Artifact>,
    /// Side effects that it committed, by name or key.
    pub side_effects: Vec<String>,
    /// What it cost.
    pub cost: Cost,
    /// How long it took, in microseconds.
    pub duration: Micros,
    /// The end of what it wrote to standard error, or other notes.
    pub log_tail: String,
    /// What a failed attempt left in the world, where the worker knows.
    pub disposition: Option<Disposition>,
}

/// How an attempt went, in the worker's own view.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The work is done.
    #[default]
    Succeeded,
    /// The work is not done.
    Failed {
        /// Why.
        class: FailureClass,
        /// Why, for people.
        message: String,
        /// Why, for programs.
        payload: Json,
    },
    /// The plan should change first.
    ReplanRequested {
        /// Why.
        reason: String,
    },
}

/// A file that a worker made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// Where it is.
    pub path: String,
    /// Hash of its bytes, in hexadecimal, as the worker or the runner computed it.
    pub hash: String,
}
