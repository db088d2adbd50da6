//! A second place that must have records before they are acknowledged, such as an object store.
//!
//! A keeper is asked for each group of records, after the sync of the segment and before HEAD is
//! written. If it returns after it has the group, HEAD never covers a record that the keeper does not have,
//! and neither does an acknowledgement. It may also return at once and take the records from the folder
//! later.

use std::fmt;

use crate::format::{Chain, SegmentHeader};

/// Records that are durable in their segment and not acknowledged yet: complete batches, in the order of
/// the log, each group after the one before.
#[derive(Debug, Clone, Copy)]
pub struct KeptGroup<'a> {
    /// Their segment.
    pub segment: &'a SegmentHeader,
    /// Offset of the first frame in it.
    pub offset: u64,
    /// The frames, byte for byte.
    pub frames: &'a [u8],
    /// Sequence number of the record before.
    pub last_seq: u64,
    /// Its chain value.
    pub chain: Chain,
    /// Its time.
    pub time: u64,
    /// Sequence number of the last record of the group.
    pub end_seq: u64,
}

/// Why a keeper does not have a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotKept {
    /// Another writer took over. The records are not in the log, and never will be.
    Fenced(String),
    /// The keeper may have the records, or may get them later.
    Unknown(String),
}

/// A second place that must have records before they are acknowledged.
pub trait Keeper: Send + Sync + fmt::Debug {
    /// Keep a group, or note that it is to be kept. The log stops after an error.
    fn keep(&self, group: &KeptGroup<'_>) -> Result<(), NotKept>;

    /// Keep a blob before a record refers to it; `hash` is in hexadecimal. After an error no record may refer
    /// to it.
    fn keep_blob(&self, hash: &str, bytes: &[u8]) -> Result<(), String>;

    /// The largest group that can be kept, in bytes. A larger batch is refused before it is written.
    fn size_max(&self) -> u64;

    /// The last record that the keeper has. Segments with later ones are not removed.
    fn kept_seq(&self) -> u64;
}
