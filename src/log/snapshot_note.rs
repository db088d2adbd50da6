//! The snapshot note: the record that says, under the log's own chain, what a projection came to.

use serde::{Deserialize, Serialize};

use crate::format::{Codec, NewRecord, SnapshotHeader};

use super::note::KIND_SNAPSHOT_NOTE;
use super::walk::LoggedRecord;

/// What a projection came to at a record, by the word of the program that made the snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotNote {
    /// The projection's name.
    pub projection: String,
    /// Its version.
    pub version: u32,
    /// The last record that was folded in.
    pub seq: u64,
    /// Its chain value, in hexadecimal.
    pub chain: String,
    /// Hash of the state, in hexadecimal.
    pub state_hash: String,
}

impl SnapshotNote {
    /// The note on a snapshot.
    #[must_use]
    pub fn of(header: &SnapshotHeader) -> Self {
        Self {
            projection: header.projection.clone(),
            version: header.version,
            seq: header.seq,
            chain: header.chain.to_string(),
            state_hash: hexadecimal(&header.state_hash),
        }
    }

    /// The record that holds the note.
    #[must_use]
    pub fn record(&self) -> NewRecord {
        let payload = serde_json_canonicalizer::to_vec(self)
            .expect("strings and integers always have a canonical form");
        NewRecord { kind: KIND_SNAPSHOT_NOTE, codec: Codec::Json, schema: 1, payload }
    }

    /// The note that a record is, if it is one that this program knows.
    #[must_use]
    pub fn in_record<P: AsRef<[u8]>>(record: &LoggedRecord<P>) -> Option<Self> {
        let is_ours =
            (record.kind, record.codec, record.schema) == (KIND_SNAPSHOT_NOTE, Codec::Json, 1);
        is_ours.then(|| serde_json::from_slice(record.payload.as_ref()).ok()).flatten()
    }

    /// Whether the note speaks of that snapshot and says something else of it.
    #[must_use]
    pub fn contradicts(&self, header: &SnapshotHeader) -> bool {
        let own = Self::of(header);
        let is_about_it =
            (&self.projection, self.version, self.seq) == (&own.projection, own.version, own.seq);
        is_about_it && *self != own
    }
}

/// A hash as people write it.
fn hexadecimal(bytes: &[u8; 32]) -> String {
    crate::format::Chain(*bytes).to_string()
}
