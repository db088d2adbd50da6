//! The recovery note: the record that a fence leaves behind, so that what was discarded stays
//! known for ever.

use serde::{Deserialize, Serialize};

use crate::format::{Codec, NewRecord};

/// The kind of a recovery note. Readers that do not know it may skip it.
pub const KIND_RECOVERY_NOTE: u16 = 0x8001;

/// The kind of a retention note: which records were pruned, and what they are anchored in.
pub const KIND_RETENTION_NOTE: u16 = 0x8002;
/// The kind of a batch's key: the record before the records of a batch that was given one.
pub const KIND_BATCH_KEY: u16 = 0x8003;
/// The kind of a snapshot note: the state hash of a projection at a sequence number.
pub const KIND_SNAPSHOT_NOTE: u16 = 0x8004;
/// The kind of a gap: a record that a salvaged ledger could not take over.
pub const KIND_GAP: u16 = 0x8005;

/// What a fence found and did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryNote {
    /// `torn`, `unproven_tail` or `ambiguous_forced`.
    pub verdict: String,
    /// Letters of the evidence bits.
    pub evidence: Vec<String>,
    /// Ordinal of the segment that was fenced off.
    pub predecessor: u64,
    /// What was not taken over: un-acknowledged bytes of a write that did not finish.
    pub discarded: Vec<DiscardedRange>,
    /// First and last sequence number of the records that were re-written.
    pub survivors: Option<Survivors>,
}

/// A range of bytes that logically no longer exists. The bytes themselves stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscardedRange {
    /// Where it starts in the predecessor.
    pub offset: u64,
    /// How long it is, trailing zeros left out.
    pub length: u64,
    /// BLAKE3 of it, in hexadecimal.
    pub blake3: String,
}

/// A range of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survivors {
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
}

impl RecoveryNote {
    /// The record that holds the note.
    pub(super) fn record(&self) -> NewRecord {
        let payload = serde_json_canonicalizer::to_vec(self)
            .expect("strings and integers always have a canonical form");
        NewRecord { kind: KIND_RECOVERY_NOTE, codec: Codec::Json, schema: 1, payload }
    }

    /// The note in a record's payload, if it is one.
    #[must_use]
    pub fn decode(payload: &[u8]) -> Option<Self> {
        serde_json::from_slice(payload).ok()
    }
}

/// What stands in a salvaged ledger for a record that could not be taken over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GapNote {
    /// Sequence number of the record that is missing, and of this one.
    pub seq: u64,
    /// First sequence number of the range that it belongs to.
    pub first: u64,
    /// The range, in the note of its first record only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<LostRange>,
}

/// Records that could not be taken over, one behind the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostRange {
    /// Last sequence number of the range.
    pub last: u64,
    /// The file, by its path in the damaged ledger's folder.
    pub file: String,
    /// Where in it the damage begins, in bytes.
    pub offset: u64,
    /// Where it ends.
    pub end: u64,
    /// What is wrong there.
    pub what: String,
    /// Chain value of the record before the range, in the damaged ledger; `None` if not known.
    pub chain_before: Option<String>,
    /// Chain value of the record behind the range, likewise.
    pub chain_after: Option<String>,
}

impl GapNote {
    /// The record that holds the note.
    #[must_use]
    pub fn record(&self) -> NewRecord {
        let payload = serde_json_canonicalizer::to_vec(self)
            .expect("strings and integers always have a canonical form");
        NewRecord { kind: KIND_GAP, codec: Codec::Json, schema: 1, payload }
    }

    /// The note in a record's payload, if it is one.
    #[must_use]
    pub fn decode(payload: &[u8]) -> Option<Self> {
        serde_json::from_slice(payload).ok()
    }
}
