//! The recovery note: each fence writes one, to document the discarded bytes permanently.

use crate::format::{Codec, NewRecord};

use super::kinds::KIND_RECOVERY_NOTE;

/// The findings and effects of a fence.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "ledger", derive(serde::Serialize, serde::Deserialize))]
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

/// A discarded range. The bytes stay in the file but are no longer part of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "ledger", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiscardedRange {
    /// Its start in the predecessor.
    pub offset: u64,
    /// Its length without trailing zeros.
    pub length: u64,
    /// Its BLAKE3 hash in hexadecimal.
    pub blake3: String,
}

/// The records that a fence rewrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "ledger", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RewrittenRecords {
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
}

impl RecoveryNote {
    /// The record that holds the note, in canonical JSON.
    pub(crate) fn record(&self) -> NewRecord {
        let (kind, payload) = (KIND_RECOVERY_NOTE, self.json().into_bytes());
        NewRecord { kind, codec: Codec::Json, schema: 1, payload }
    }

    /// Words, letters, hashes and numbers need no escapes, so a log alone writes them without a crate
    /// for JSON.
    fn json(&self) -> String {
        let discarded: Vec<String> = self.discarded.iter().map(DiscardedRange::json).collect();
        let evidence: Vec<String> =
            self.evidence.iter().map(|letter| format!("\"{letter}\"")).collect();
        let survivors = match self.survivors {
            Some(RewrittenRecords { first, last }) => {
                format!("{{\"first\":{first},\"last\":{last}}}")
            }
            None => "null".to_owned(),
        };
        format!(
            "{{\"discarded\":[{}],\"evidence\":[{}],\"predecessor\":{},\"survivors\":{survivors},\
             \"verdict\":\"{}\"}}",
            discarded.join(","),
            evidence.join(","),
            self.predecessor,
            self.verdict
        )
    }

    /// The note in a payload, if it is valid.
    #[cfg(feature = "ledger")]
    #[must_use]
    pub fn decode(payload: &[u8]) -> Option<Self> {
        serde_json::from_slice(payload).ok()
    }
}

impl DiscardedRange {
    fn json(&self) -> String {
        let Self { offset, length, blake3 } = self;
        format!("{{\"blake3\":\"{blake3}\",\"length\":{length},\"offset\":{offset}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the bytes are canonical JSON, with and without each list, and read back as the same note.
    #[test]
    fn recovery_note_is_canonical_json() {
        let range = |offset| DiscardedRange { offset, length: 70, blake3: "0f".repeat(32) };
        let whole = RecoveryNote {
            verdict: "unacknowledged_tail".to_owned(),
            evidence: ["K", "Q"].map(str::to_owned).to_vec(),
            predecessor: 3,
            discarded: vec![range(4096), range(8192)],
            survivors: Some(RewrittenRecords { first: 7, last: 9 }),
        };
        let empty = RecoveryNote {
            verdict: "torn".to_owned(),
            evidence: Vec::new(),
            predecessor: 0,
            discarded: Vec::new(),
            survivors: None,
        };
        for note in [whole, empty] {
            let payload = note.record().payload;
            assert_eq!(payload, serde_json_canonicalizer::to_vec(&note).unwrap());
            assert_eq!(RecoveryNote::decode(&payload), Some(note));
        }
    }
}
