//! The gap note: the placeholder in a salvaged ledger for a record that could not be read.

use serde::{Deserialize, Serialize};

use crate::format::NewRecord;

use super::kinds::{KIND_GAP, note_record};

/// The placeholder for a record that was lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GapNote {
    /// Sequence number of the lost record, and of the note.
    pub seq: u64,
    /// First sequence number of the lost range.
    pub first: u64,
    /// The range, in the note of its first record only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<LostRange>,
    /// Whether the record was an intact note that has no meaning in the new ledger.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_loss: bool,
}

/// Consecutive lost records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LostRange {
    /// Last sequence number of the range.
    pub last: u64,
    /// The damaged file, relative to the damaged ledger's folder.
    pub file: String,
    /// Start of the damage in bytes.
    pub offset: u64,
    /// End of the damage in bytes.
    pub end: u64,
    /// Description of the damage.
    pub what: String,
    /// Chain value of the record before the range in the damaged ledger, if known.
    pub chain_before: Option<String>,
    /// Chain value of the record after the range, if known.
    pub chain_after: Option<String>,
}

impl GapNote {
    /// The record that holds the note.
    #[must_use]
    pub fn record(&self) -> NewRecord {
        note_record(KIND_GAP, self)
    }

    /// The note in a payload, if it is valid.
    #[must_use]
    pub fn decode(payload: &[u8]) -> Option<Self> {
        serde_json::from_slice(payload).ok()
    }

    /// Whether the payload of a gap record stands for a lost record. An invalid payload does.
    pub(crate) fn is_loss(payload: &[u8]) -> bool {
        Self::decode(payload).is_none_or(|note| !note.no_loss)
    }
}
