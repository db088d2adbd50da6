//! The state and the end of each segment, without reading its records.

use crate::error::Result;
use crate::format::Footer;
use crate::log::folder::DATA_START;
use crate::log::record::DerivedDamage;
use crate::log::segment::{SealState, SegmentEntry, valid_segment};

use super::log_reader::{LogReader, SegmentSummary};
use super::sequence::{SegmentSequence, SequenceItem};

/// A segment, its state and its end.
#[derive(Debug, Clone)]
pub struct SegmentInfo {
    /// Its file and header.
    pub summary: SegmentSummary,
    /// Whether it is active, full, fenced, sealed or damaged.
    pub state: SegmentState,
    /// Its logical end in bytes and its last record, if known.
    pub end: Option<(u64, u64)>,
}

/// The state of a segment.
#[derive(Debug, Clone)]
pub enum SegmentState {
    /// The header is invalid, or does not match the file name.
    Unknown,
    /// The writer appends to it.
    Active,
    /// It is full and not sealed yet.
    Full,
    /// A fence follows: the bytes after its logical end are discarded.
    Fenced,
    /// It has an index and a footer.
    Sealed(Box<Footer>),
    /// It was sealed, but its footer is invalid.
    Damaged(DerivedDamage),
}

#[doc(hidden)]
impl LogReader {
    /// All segments in order, according to their headers, their footers and HEAD.
    ///
    /// # Errors
    /// `Io`.
    pub fn segment_infos(&self) -> Result<Vec<SegmentInfo>> {
        let summaries = self.segments().into_iter().zip(&self.segments.list);
        summaries.map(|(summary, entry)| self.segment_info(summary, entry)).collect()
    }

    /// Whether every segment is present, with a valid header that continues the one before. Records
    /// are not read.
    ///
    /// # Errors
    /// `Io`.
    pub fn segments_intact(&self) -> Result<bool> {
        let mut sequence = SegmentSequence::new(self, 0);
        while let Some(item) = sequence.next().transpose()? {
            let SequenceItem::Segment(segment) = item else { return Ok(false) };
            let Some((end, next_seq)) = segment.expected_end() else { return Ok(false) };
            if segment.damaged_header().is_some() {
                return Ok(false);
            }
            sequence.advance(end, next_seq);
        }
        Ok(true)
    }

    fn segment_info(&self, summary: SegmentSummary, entry: &SegmentEntry) -> Result<SegmentInfo> {
        let Some(segment) = valid_segment(entry) else {
            return Ok(SegmentInfo { summary, state: SegmentState::Unknown, end: None });
        };
        let header = &segment.header;
        let next = self.segments.successor(header);
        let head = self.head().filter(|head| head.segment == header.segment);
        let state = match self.segments.seal_state(&*self.storage, &entry.1, segment)? {
            SealState::Never => SegmentState::Fenced,
            SealState::NotYet if next.is_some() => SegmentState::Full,
            SealState::NotYet => SegmentState::Active,
            SealState::Sealed(footer) => SegmentState::Sealed(footer),
            SealState::Damaged(damage) => SegmentState::Damaged(damage),
        };
        let end = match (next, &state, head) {
            (Some(next), ..) => Some((next.prev_data_end, next.prev_last_seq)),
            (_, SegmentState::Sealed(footer), _) => Some((footer.data_end, footer.last_seq)),
            (.., Some(head)) => Some((head.data_end, head.durable_seq)),
            (None, _, None) => {
                Some((header.born_end, header.born_last)).filter(|(end, _)| *end > DATA_START)
            }
        };
        Ok(SegmentInfo { summary, state, end })
    }
}
