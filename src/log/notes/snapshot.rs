//! The snapshot note: the state hash of a projection, protected by the chain of the log.

use serde::{Deserialize, Serialize};

use crate::format::{Codec, NewRecord, SnapshotHeader};
use crate::log::bytes::hex;
use crate::log::record::LoggedRecord;

use super::kinds::{KIND_SNAPSHOT_NOTE, note_record};

/// The state of a projection at a record, as computed by the program that wrote the snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SnapshotNote {
    /// The projection's name.
    pub projection: String,
    /// Its version.
    pub version: u32,
    /// The last record that the state includes.
    pub seq: u64,
    /// Its chain value, in hexadecimal.
    pub chain: String,
    /// Hash of the state, in hexadecimal.
    pub state_hash: String,
}

impl SnapshotNote {
    /// The note for a snapshot.
    #[must_use]
    pub fn of(header: &SnapshotHeader) -> Self {
        Self {
            projection: header.projection.clone(),
            version: header.version,
            seq: header.seq,
            chain: header.chain.to_string(),
            state_hash: hex(&header.state_hash),
        }
    }

    /// The record that holds the note.
    #[must_use]
    pub fn record(&self) -> NewRecord {
        note_record(KIND_SNAPSHOT_NOTE, self)
    }

    /// The note in a record, if it is a snapshot note that this version supports.
    #[must_use]
    pub fn from_record<P: AsRef<[u8]>>(record: &LoggedRecord<P>) -> Option<Self> {
        let is_ours =
            (record.kind, record.codec, record.schema) == (KIND_SNAPSHOT_NOTE, Codec::Json, 1);
        is_ours.then(|| serde_json::from_slice(record.payload.as_ref()).ok()).flatten()
    }

    /// Whether the note is about this snapshot and contradicts it.
    #[must_use]
    pub fn contradicts(&self, header: &SnapshotHeader) -> bool {
        let own = Self::of(header);
        let is_about_it =
            (&self.projection, self.version, self.seq) == (&own.projection, own.version, own.seq);
        is_about_it && *self != own
    }
}
