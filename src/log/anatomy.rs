//! What is known of each segment without reading its records: where it ends, and whether it is
//! sealed.

use crate::error::Result;
use crate::format::Footer;

use super::layout::DATA_START;
use super::reader::{LogReader, SegmentSummary};
use super::row::{Next, Row};
use super::sealed::Seal;
use super::segments::{Entry, good};
use super::walk::DerivedDamage;

/// A segment, and how it stands in the log.
#[derive(Debug, Clone)]
pub struct Anatomy {
    /// Its file and header.
    pub summary: SegmentSummary,
    /// How it stands.
    pub stage: Stage,
    /// Where it logically ends, in bytes, and its last record there; as far as it is known.
    pub end: Option<(u64, u64)>,
}

/// How a segment stands.
#[derive(Debug, Clone)]
pub enum Stage {
    /// Its header does not hold, or it is another one than its name says.
    Unknown,
    /// It is written to.
    Active,
    /// It is full, and not sealed yet.
    Full,
    /// A later one says where it ends; what lies behind is dead.
    Fenced,
    /// It has an index and a footer.
    Sealed(Box<Footer>),
    /// It should have, but its footer does not hold.
    Damaged(DerivedDamage),
}

impl LogReader {
    /// All segments, in order, as their headers, footers and HEAD describe them.
    ///
    /// # Errors
    /// `Io`.
    pub fn anatomy(&self) -> Result<Vec<Anatomy>> {
        let summaries = self.segments().into_iter().zip(&self.segments.list);
        summaries.map(|(summary, entry)| self.anatomy_of(summary, entry)).collect()
    }

    /// Whether every segment is there, with a header that holds and follows from the one before.
    /// Records are not read.
    ///
    /// # Errors
    /// `Io`.
    pub fn is_row_whole(&self) -> Result<bool> {
        let mut row = Row::new(self, 0);
        while let Some(next) = row.next().transpose()? {
            let Next::Segment(opened) = next else { return Ok(false) };
            let Some((before, next_seq)) = opened.expected_ending() else { return Ok(false) };
            if opened.damaged_header().is_some() {
                return Ok(false);
            }
            row.closed(before, next_seq);
        }
        Ok(true)
    }

    fn anatomy_of(&self, summary: SegmentSummary, entry: &Entry) -> Result<Anatomy> {
        let Some(segment) = good(entry) else {
            return Ok(Anatomy { summary, stage: Stage::Unknown, end: None });
        };
        let header = &segment.header;
        let next = self.segments.successor(header);
        let head = self.head().filter(|head| head.segment == header.segment);
        let stage = match self.seal(&entry.1, segment)? {
            Seal::Never => Stage::Fenced,
            Seal::NotYet if next.is_some() => Stage::Full,
            Seal::NotYet => Stage::Active,
            Seal::Whole(footer) => Stage::Sealed(footer),
            Seal::Damaged(damage) => Stage::Damaged(damage),
        };
        let end = match (next, &stage, head) {
            (Some(next), ..) => Some((next.prev_data_end, next.prev_last_seq)),
            (_, Stage::Sealed(footer), _) => Some((footer.data_end, footer.last_seq)),
            (.., Some(head)) => Some((head.data_end, head.durable_seq)),
            (None, _, None) => {
                Some((header.born_end, header.born_last)).filter(|(end, _)| *end > DATA_START)
            }
        };
        Ok(Anatomy { summary, stage, end })
    }
}
