//! The erasure note: the values that were erased, and the actor. So the log itself explains its
//! zero bytes.

use serde::{Deserialize, Serialize};

use crate::format::{Codec, NewRecord};
use crate::log::bytes::parse_hash;
use crate::log::record::LoggedRecord;

use super::kinds::{KIND_ERASURE, note_record};

/// An erasure that a person requested.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErasureNote {
    /// The person.
    pub by: String,
    /// The records with an erased value, in order.
    pub records: Vec<u64>,
    /// The digests of the erased values, in hexadecimal, in order.
    pub values: Vec<String>,
    /// The hashes of the removed blobs, in hexadecimal, in order.
    pub blobs: Vec<String>,
    /// The records that keep a text of an erased value in one of their own values, in order.
    pub erasable: Vec<u64>,
    /// The records that kept a text of an erased value where it cannot be erased, in order.
    pub left: Vec<u64>,
}

impl ErasureNote {
    /// The record that holds the note.
    #[must_use]
    pub fn record(&self) -> NewRecord {
        note_record(KIND_ERASURE, self)
    }

    /// The note in a record, if it is an erasure note that this version supports.
    #[must_use]
    pub fn from_record<P: AsRef<[u8]>>(record: &LoggedRecord<P>) -> Option<Self> {
        let is_ours = (record.kind, record.codec, record.schema) == (KIND_ERASURE, Codec::Json, 1);
        is_ours.then(|| serde_json::from_slice(record.payload.as_ref()).ok()).flatten()
    }

    /// The digests of the erased values.
    pub fn digests(&self) -> impl Iterator<Item = [u8; 32]> + '_ {
        self.values.iter().filter_map(|text| parse_hash(text))
    }

    /// The hashes of the removed blobs.
    pub fn blob_hashes(&self) -> impl Iterator<Item = [u8; 32]> + '_ {
        self.blobs.iter().filter_map(|text| parse_hash(text))
    }
}
