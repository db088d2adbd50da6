//! The kinds of the records that the log writes about itself, and the JSON form of notes.

#[cfg(feature = "ledger")]
use crate::format::{Codec, NewRecord};

/// A recovery note: the bytes and records that a fence discarded and kept.
pub const KIND_RECOVERY_NOTE: u16 = 0x8001;

/// A retention note: the pruned records, and the snapshots from which the log now starts.
pub const KIND_RETENTION_NOTE: u16 = 0x8002;

/// The idempotency key of a batch: the record before the other records of the batch.
pub const KIND_BATCH_KEY: u16 = 0x8003;

/// A snapshot note: the state hash of a projection at a sequence number.
pub const KIND_SNAPSHOT_NOTE: u16 = 0x8004;

/// A gap note: in a salvaged ledger, the placeholder for a lost record.
pub const KIND_GAP: u16 = 0x8005;

/// An erasure note: which values were erased.
pub const KIND_ERASURE: u16 = 0x8007;

/// A writer note: in a log that has a store, the process that writes from here on. It is the first record of a
/// segment.
pub const KIND_WRITER_NOTE: u16 = 0x8008;

/// The record that holds a note, in canonical JSON.
#[cfg(feature = "ledger")]
pub(crate) fn note_record(kind: u16, note: &impl serde::Serialize) -> NewRecord {
    let payload = serde_json_canonicalizer::to_vec(note)
        .expect("strings and integers always have a canonical form");
    NewRecord { kind, codec: Codec::Json, schema: 1, payload }
}
