//! The recovery note: the record that each fence writes, which documents permanently what was
//! discarded.

use serde::{Deserialize, Serialize};

use crate::format::NewRecord;

use super::kinds::{KIND_RECOVERY_NOTE, note_record};

/// What a fence found and did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecoveryNote {
    /// `torn`, `unacknowledged_tail` or `ambiguous_forced`.
    pub verdict: String,
    /// Letters of the evidence.
    pub evidence: Vec<String>,
    /// Ordinal of the segment that the fence closed.
    pub predecessor: u64,
    /// The discarded bytes of an incomplete, unacknowledged write.
    pub discarded: Vec<DiscardedRange>,
    /// The records that were rewritten.
    pub survivors: Option<RewrittenRecords>,
}

/// A discarded range. The bytes stay in the file, but are no longer part of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiscardedRange {
    /// Where it starts in the predecessor.
    pub offset: u64,
    /// Its length without trailing zeros.
    pub length: u64,
    /// Its BLAKE3 hash in hexadecimal.
    pub blake3: String,
}

/// The records that a fence rewrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RewrittenRecords {
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
}

impl RecoveryNote {
    /// The record that holds the note.
    pub(crate) fn record(&self) -> NewRecord {
        note_record(KIND_RECOVERY_NOTE, self)
    }

    /// The note in a payload, if it is valid.
    #[must_use]
    pub fn decode(payload: &[u8]) -> Option<Self> {
        serde_json::from_slice(payload).ok()
    }
}
