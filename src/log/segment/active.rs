//! The active segment, and positions in it.

use std::sync::Arc;

use crate::format::SegmentHeader;
use crate::log::record::Ack;
use crate::storage::StorageFile;

/// The segment that the writer extends.
#[derive(Debug, Clone)]
pub(crate) struct ActiveSegment {
    pub(crate) header: SegmentHeader,
    pub(crate) file: Arc<dyn StorageFile>,
}

/// A position between two records of the active segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WritePosition {
    /// The record before the position.
    pub(crate) ack: Ack,
    /// Offset of the position.
    pub(crate) end: u64,
    /// Time of the record before the position.
    pub(crate) time: u64,
}

pub(crate) fn low_bits(ordinal: u64) -> u32 {
    u32::try_from(ordinal & u64::from(u32::MAX)).expect("masked to 32 bits")
}
