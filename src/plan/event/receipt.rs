//! Receipts: what a worker reports about an attempt.
//!
//! A receipt is unverified; only verdicts or an explicit policy accept a step. A large output is
//! stored as a blob, and the receipt contains its hash.
//!
//! Invariant: `decide` and `settle` never read a blob. The values of the declared outputs are
//! stored with the reference.

use serde::{Deserialize, Serialize};

use crate::plan::model::budget::Cost;
use crate::plan::model::policy::Disposition;
use crate::plan::model::step::FailureClass;
use crate::plan::value::ids::{ContentHash, Micros};
use crate::plan::value::json::Json;

/// The output of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// The value.
    Inline(Json),
    /// A value too large for a record, stored as a blob.
    Blob(BlobOutput),
}

/// An output that is stored as a blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobOutput {
    /// BLAKE3 of the canonical text.
    pub hash: ContentHash,
    /// Length in bytes.
    pub length: u64,
    /// The values of the declared outputs, by name.
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

    /// Whether it is empty.
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

/// Report of a worker about an attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Outcome of the attempt.
    pub outcome: Outcome,
    /// Output of the attempt.
    pub output: Output,
    /// Variables to set in addition to the declared outputs.
    pub variables: Vec<(String, Json)>,
    /// Files that the attempt produced.
    pub artifacts: Vec<Artifact>,
    /// Side effects that took place, by name or key.
    pub side_effects: Vec<String>,
    /// Actual cost.
    pub cost: Cost,
    /// Duration in microseconds.
    pub duration: Micros,
    /// The end of the standard error output, or other notes.
    pub log_tail: String,
    /// Whether the work of a failed attempt took effect, if the worker knows.
    pub disposition: Option<Disposition>,
}

/// Outcome of an attempt, as the worker reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
        /// Machine-readable details.
        payload: Json,
    },
    /// The worker requests a new plan.
    ReplanRequested {
        /// Human-readable reason.
        reason: String,
    },
}

/// A file that a worker produced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// Path of the file.
    pub path: String,
    /// Hash of the content in hexadecimal, computed by the worker or the runner.
    pub hash: String,
}
