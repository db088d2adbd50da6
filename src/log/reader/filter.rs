//! The records of one kind or one stream, and where the index of a segment says that they are.
//!
//! Invariant: a posting only says where to look. If the record there is missing or wrong, the walk
//! reads the segment as if it had no index.

use crate::error::Result;
use crate::log::record::{LoggedRecord, StreamRule};
use crate::log::segment::SealState;
use crate::storage::IndexList;

use super::open_segment::OpenSegment;

/// The records that a walk yields.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RecordFilter {
    Kind(u16),
    Stream(u64, StreamRule),
}

impl RecordFilter {
    pub(crate) fn matches(&self, record: &LoggedRecord<&[u8]>) -> bool {
        match self {
            Self::Kind(kind) => record.kind == *kind,
            Self::Stream(stream, streams) => streams.stream(record) == Some(*stream),
        }
    }

    /// Whether the storage knows that the index of a segment names no such record. The index is not read then.
    pub(crate) fn is_absent(&self, segment: &OpenSegment<'_>) -> bool {
        let list = match self {
            Self::Kind(kind) => IndexList::Kind(*kind),
            Self::Stream(stream, streams) => {
                IndexList::Stream { stream: *stream, rule: streams.id }
            }
        };
        matches!(segment.seal, SealState::Sealed(_))
            && segment.reader.storage.has_list(segment.path, list) == Some(false)
    }

    /// Offsets of the matching records from `from` on according to a segment's index, in descending
    /// order; `None` without such an index.
    pub(crate) fn postings(
        &self,
        segment: &OpenSegment<'_>,
        from: u64,
    ) -> Result<Option<Vec<u64>>> {
        let Some(Ok(index)) = segment.index()? else { return Ok(None) };
        let mut found: Vec<u64> = match self {
            Self::Kind(kind) => index.of_kind(*kind).collect(),
            Self::Stream(stream, streams) if segment.has_streams(streams.id) => {
                index.of_stream(*stream).collect()
            }
            Self::Stream(..) => return Ok(None),
        };
        // The records from the last seek entry before `from` up to `from` are read too, because the
        // sequence numbers in the index are not trusted.
        let start = index.seeks().take_while(|seek| seek.seq <= from).last();
        let start = start.map_or(0, |seek| seek.offset);
        found.drain(..found.partition_point(|offset| *offset < start));
        found.reverse();
        Ok(Some(found))
    }
}
