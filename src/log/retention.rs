//! The retention note: which records were pruned, and what the log stands on since
//! (`format/retention.md`).
//!
//! Left out on purpose: who may prune, and whether the anchors are what they say (`prune`).

use serde::{Deserialize, Serialize};

use crate::format::{Chain, Codec, NewRecord, SnapshotHeader, SnapshotName};

use super::blob::parse;
use super::note::KIND_RETENTION_NOTE;
use super::walk::LoggedRecord;

/// The projection whose snapshots may be anchors.
const STATE: &str = "state";

/// What a prune took, and what vouches for the rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetentionNote {
    /// The first record that the log still held before.
    pub first_seq: u64,
    /// The last record that is pruned.
    pub last_seq: u64,
    /// Ordinal of the last segment that is pruned.
    pub last_ordinal: u64,
    /// Chain value of the last record that is pruned, in hexadecimal.
    pub chain: String,
    /// The two snapshots that take the place of what is gone, the older one first.
    pub anchors: Vec<Anchor>,
    /// The archive that took the segments, if one did.
    pub archive: Option<ArchivedIn>,
    /// Who asked for it.
    pub by: String,
}

/// A snapshot of the state that a pruned log stands on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    /// The last record that was folded in.
    pub seq: u64,
    /// Its chain value, in hexadecimal.
    pub chain: String,
    /// Hash of the state, in hexadecimal.
    pub state_hash: String,
    /// Its name in the folder of snapshots.
    pub file: String,
}

/// The archive that took what was pruned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchivedIn {
    /// Its name, for people.
    pub file: String,
    /// BLAKE3 of all of it, in hexadecimal.
    pub blake3: String,
}

/// A note, and the record that it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// The note's own record.
    pub seq: u64,
    /// What it says.
    pub note: RetentionNote,
}

impl Anchor {
    /// The anchor that a snapshot is.
    #[must_use]
    pub fn of(header: &SnapshotHeader) -> Self {
        Self {
            seq: header.seq,
            chain: header.chain.to_string(),
            state_hash: Chain(header.state_hash).to_string(),
            file: header.name().to_string(),
        }
    }

    /// Its file's name; `None` for one that is no snapshot of the state at its record.
    #[must_use]
    pub fn name(&self) -> Option<SnapshotName> {
        let hash = parse(&self.state_hash)?;
        SnapshotName::parse(&self.file).filter(|name| {
            name.seq == self.seq && name.projection == STATE && hash.starts_with(&name.hash)
        })
    }
}

impl RetentionNote {
    /// The record that holds the note.
    #[must_use]
    pub fn record(&self) -> NewRecord {
        let payload = serde_json_canonicalizer::to_vec(self)
            .expect("strings and integers always have a canonical form");
        NewRecord { kind: KIND_RETENTION_NOTE, codec: Codec::Json, schema: 1, payload }
    }

    /// The chain value of the last record that is pruned; `None` in a note that makes no sense.
    #[must_use]
    pub fn chain(&self) -> Option<Chain> {
        parse(&self.chain).map(Chain)
    }

    /// Whether the note, as record `seq`, keeps the rules that hold for any.
    #[must_use]
    pub fn is_sound(&self, seq: u64) -> bool {
        let [older, newer] = self.anchors.as_slice() else { return false };
        let is_anchor = |anchor: &Anchor| {
            let hashes = [&anchor.chain, &anchor.state_hash];
            anchor.name().is_some() && hashes.iter().all(|hash| parse(hash).is_some())
        };
        (1..=self.last_seq).contains(&self.first_seq)
            && self.chain().is_some()
            && self.last_seq <= older.seq
            && older.seq < newer.seq
            && newer.seq < seq
            && is_anchor(older)
            && is_anchor(newer)
            && self.archive.as_ref().is_none_or(|archive| parse(&archive.blake3).is_some())
    }
}

impl Retention {
    /// The note that a record is, if it is one that this program knows and that makes sense.
    #[must_use]
    pub fn in_record(record: &LoggedRecord) -> Option<Self> {
        let LoggedRecord { seq, kind, codec, schema, payload, .. } = record;
        Self::decode(*seq, (*kind, *codec, *schema), payload)
    }

    pub(super) fn decode(seq: u64, what: (u16, Codec, u16), payload: &[u8]) -> Option<Self> {
        if what != (KIND_RETENTION_NOTE, Codec::Json, 1) {
            return None;
        }
        let note: RetentionNote = serde_json::from_slice(payload).ok()?;
        note.is_sound(seq).then_some(Self { seq, note })
    }

    /// Whether the file is one that the log stands on.
    #[must_use]
    pub fn is_anchor(&self, name: &SnapshotName) -> bool {
        let file = name.to_string();
        self.note.anchors.iter().any(|anchor| anchor.file == file)
    }
}
