//! The writer note: the record with which a process opens an epoch of a log in a store (`format/store.md`, section 3).

use serde::{Deserialize, Serialize};

use crate::format::{Codec, Hex, NewRecord, RecordHeader, Uid};
use crate::log::folder::LostRecords;
use crate::log::record::LoggedRecord;

use super::kinds::{KIND_WRITER_NOTE, note_record};

/// The process that opens an epoch, and its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WriterNote {
    /// The epoch.
    pub epoch: u64,
    /// The process, in hexadecimal.
    pub node: String,
    /// Why it opens an epoch.
    pub why: WriterReason,
    /// The writer before; `None` in the first epoch.
    pub before: Option<EarlierWriter>,
    /// The records that only the previous folder had; `None` unless this folder joins the store again.
    pub lost: Option<LostRecords>,
    /// The version of the protocol: 1.
    pub store: u32,
}

/// The writer of the epoch before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EarlierWriter {
    /// Its epoch.
    pub epoch: u64,
    /// The process, in hexadecimal.
    pub node: String,
}

/// Why a process opens an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WriterReason {
    /// The log is new.
    Create,
    /// The folder that wrote last is open again.
    Open,
    /// Another folder takes over.
    Takeover,
    /// A restored folder takes over.
    Restore,
    /// A restored folder takes over in the place of one that diverged.
    Rejoin,
}

impl WriterNote {
    /// The note of a process. `before` is the epoch and process of the writer before.
    #[must_use]
    pub fn new(epoch: u64, node: &Uid, why: WriterReason, before: Option<(u64, Uid)>) -> Self {
        let text = |uid: &Uid| Hex(uid).to_string();
        let before = before.map(|(epoch, node)| EarlierWriter { epoch, node: text(&node) });
        Self { epoch, node: text(node), why, before, lost: None, store: 1 }
    }

    /// The note of a process that joins the store again, if it does.
    #[must_use]
    pub fn with_lost(self, lost: Option<LostRecords>) -> Self {
        let why = if lost.is_some() { WriterReason::Rejoin } else { self.why };
        Self { why, lost, ..self }
    }

    /// The record that holds the note.
    #[must_use]
    pub fn record(&self) -> NewRecord {
        note_record(KIND_WRITER_NOTE, self)
    }

    /// The note in a record, if it is a valid one.
    #[must_use]
    pub fn from_record(header: &RecordHeader, payload: &[u8]) -> Option<Self> {
        let form = (header.kind, header.codec, header.schema);
        Self::of_form(form, header.stamp.batch_left, payload)
    }

    /// The same in a record of a folder.
    #[must_use]
    pub fn from_logged<P: AsRef<[u8]>>(record: &LoggedRecord<P>) -> Option<Self> {
        let form = (record.kind, record.codec, record.schema);
        Self::of_form(form, record.batch_left, record.payload.as_ref())
    }

    fn of_form(form: (u16, Codec, u16), batch_left: u16, payload: &[u8]) -> Option<Self> {
        let is_note = form == (KIND_WRITER_NOTE, Codec::Json, 1) && batch_left == 0;
        let note: Self = is_note.then(|| serde_json::from_slice(payload).ok()).flatten()?;
        let is_rejoin = note.lost.as_ref().map(LostRecords::is_valid);
        let is_valid = match note.why {
            WriterReason::Rejoin => is_rejoin == Some(true),
            _ => is_rejoin.is_none(),
        };
        (note.store == 1 && note.epoch > 0 && is_valid).then_some(note)
    }

    /// Whether the note opens this epoch for this process.
    #[must_use]
    pub fn opens(&self, epoch: u64, node: &Uid) -> bool {
        self.epoch == epoch && self.node == Hex(node).to_string()
    }
}
