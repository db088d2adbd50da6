//! What a worker produced: in the receipt itself, or by reference to a blob.
//!
//! Invariants: nothing that `decide` or `settle` needs is in a blob: the values of the step's
//! declared outputs stay with the reference.

use serde::{Deserialize, Serialize};

use super::{ContentHash, Json};

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
