//! The retention note: the pruned records, and the two snapshots from which the log now starts
//! (`format/retention.md`).

use crate::format::{Chain, Codec, SnapshotHeader, SnapshotName};
use crate::log::bytes::parse_hash;
use crate::log::record::LoggedRecord;

use super::kinds::KIND_RETENTION_NOTE;

/// The projection that can have anchors.
const STATE: &str = "state";

/// A prune, and the anchors of the remaining log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "ledger", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RetentionNote {
    /// The first record in the log before the prune.
    pub first_seq: u64,
    /// The last pruned record.
    pub last_seq: u64,
    /// Ordinal of the last pruned segment.
    pub last_ordinal: u64,
    /// Chain value of the last pruned record, in hexadecimal.
    pub chain: String,
    /// The two snapshots that replace the pruned records, the older one first.
    pub anchors: Vec<Anchor>,
    /// The archive that holds the segments, if there is one.
    pub archive: Option<ArchiveReference>,
    /// The actor that requested the prune.
    pub by: String,
}

/// A snapshot of the state from which a pruned log starts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "ledger", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Anchor {
    /// The last record that its state includes.
    pub seq: u64,
    /// Its chain value, in hexadecimal.
    pub chain: String,
    /// Hash of the state, in hexadecimal.
    pub state_hash: String,
    /// Its file name in the folder of snapshots.
    pub file: String,
}

/// The archive that holds the pruned segments.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "ledger", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "ledger", serde(deny_unknown_fields))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ArchiveReference {
    /// Its name, for people.
    pub file: String,
    /// BLAKE3 of the whole archive, in hexadecimal.
    pub blake3: String,
}

/// A retention note and its sequence number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedRetentionNote {
    /// Sequence number of the note.
    pub seq: u64,
    /// The note.
    pub note: RetentionNote,
}

impl Anchor {
    #[doc(hidden)]
    #[must_use]
    pub fn of(header: &SnapshotHeader) -> Self {
        Self {
            seq: header.seq,
            chain: header.chain.to_string(),
            state_hash: Chain(header.state_hash).to_string(),
            file: header.name().to_string(),
        }
    }

    /// Its file name; `None` if it does not name a snapshot of the state at its record.
    #[doc(hidden)]
    #[must_use]
    pub fn name(&self) -> Option<SnapshotName> {
        let hash = parse_hash(&self.state_hash)?;
        SnapshotName::parse(&self.file).filter(|name| {
            name.seq == self.seq && name.projection == STATE && hash.starts_with(&name.hash)
        })
    }
}

impl RetentionNote {
    /// The record that holds the note.
    #[cfg(feature = "ledger")]
    #[must_use]
    pub fn record(&self) -> crate::format::NewRecord {
        super::kinds::note_record(KIND_RETENTION_NOTE, self)
    }

    #[cfg(feature = "ledger")]
    fn decode(payload: &[u8]) -> Option<Self> {
        serde_json::from_slice(payload).ok()
    }

    /// A log alone is never pruned, and refuses one that was.
    #[cfg(not(feature = "ledger"))]
    fn decode(_: &[u8]) -> Option<Self> {
        None
    }

    /// The chain value of the last pruned record; `None` if it is not valid.
    #[must_use]
    pub fn chain(&self) -> Option<Chain> {
        parse_hash(&self.chain).map(Chain)
    }

    /// Whether the note, as record `seq`, obeys the rules that can be checked without the log.
    #[must_use]
    pub fn is_valid(&self, seq: u64) -> bool {
        let [older, newer] = self.anchors.as_slice() else { return false };
        let is_anchor = |anchor: &Anchor| {
            let hashes = [&anchor.chain, &anchor.state_hash];
            anchor.name().is_some() && hashes.iter().all(|hash| parse_hash(hash).is_some())
        };
        (1..=self.last_seq).contains(&self.first_seq)
            && self.chain().is_some()
            && self.last_seq <= older.seq
            && older.seq < newer.seq
            && newer.seq < seq
            && is_anchor(older)
            && is_anchor(newer)
            && self.archive.as_ref().is_none_or(|archive| parse_hash(&archive.blake3).is_some())
    }
}

impl LoggedRetentionNote {
    /// The note in a record, if it is a valid retention note that this version supports.
    #[must_use]
    pub fn from_record<P: AsRef<[u8]>>(record: &LoggedRecord<P>) -> Option<Self> {
        if (record.kind, record.codec, record.schema) != (KIND_RETENTION_NOTE, Codec::Json, 1) {
            return None;
        }
        let note = RetentionNote::decode(record.payload.as_ref())?;
        note.is_valid(record.seq).then_some(Self { seq: record.seq, note })
    }

    /// Whether the file is an anchor of this note.
    #[must_use]
    pub fn is_anchor(&self, name: &SnapshotName) -> bool {
        let file = name.to_string();
        self.note.anchors.iter().any(|anchor| anchor.file == file)
    }
}
