//! A walk over a log from its newest record to its oldest.
//!
//! Invariants:
//! - The items are those of a forward walk in reverse order: records, and damage in the place where
//!   it is found. Only [`RecordStatus::AfterDamage`](crate::log::RecordStatus::AfterDamage) may
//!   differ, because it depends on where reading started.
//! - Memory: the items of one block, about 256 KiB and a record, and the positions where blocks can
//!   begin. A segment without an index is scanned once to find them.

use std::sync::Arc;

use crate::error::Result;
use crate::log::record::{Anomaly, LogItem};
use crate::log::segment::{ResumePoint, SegmentCursor};

use super::log_reader::LogReader;
use super::open_segment::OpenSegment;
use super::seek::resume_points;
use super::sequence::{SegmentSequence, SequenceItem};

impl LogReader {
    /// Everything up to record `from`, newest first: the items of [`LogReader::walk`] in reverse
    /// order. In a damaged log the two may differ in which intact records are
    /// [`RecordStatus::AfterDamage`](crate::log::RecordStatus::AfterDamage).
    #[must_use]
    #[doc(hidden)]
    pub fn walk_reverse(&self, from: u64) -> ReverseWalk<'_> {
        ReverseWalk::new(self, from)
    }
}

/// The items of a log, newest first.
#[derive(Debug)]
pub struct ReverseWalk<'a> {
    reader: &'a LogReader,
    from: u64,
    /// Segments and anomalies still to come, the newest last; `None` before the first step.
    pending_segments: Option<Vec<SequenceItem<'a>>>,
    current: Option<Blocks<'a>>,
    /// Items to yield, the newest last.
    ready: Vec<LogItem>,
    is_done: bool,
}

/// A segment that is read block by block, the last block first.
#[derive(Debug)]
struct Blocks<'a> {
    segment: OpenSegment<'a>,
    points: Arc<[ResumePoint]>,
    /// Number of resume points still to come.
    left: usize,
    /// Start of the next block; `None` at the end of the segment.
    stop: Option<u64>,
}

/// Minimum size of a block in bytes where possible: the size of one read.
const BLOCK: u64 = 256 * 1024;

impl<'a> ReverseWalk<'a> {
    pub(crate) fn new(reader: &'a LogReader, from: u64) -> Self {
        let (pending_segments, ready) = (None, Vec::new());
        Self { reader, from, pending_segments, current: None, ready, is_done: false }
    }

    /// Read all headers from the first one on; otherwise a gap in the sequence would go unnoticed.
    fn list_segments(reader: &'a LogReader, from: u64) -> Result<Vec<SequenceItem<'a>>> {
        let mut sequence = SegmentSequence::new(reader, 0);
        let mut items = Vec::new();
        while let Some(next) = sequence.next().transpose()? {
            match next {
                SequenceItem::Segment(segment) => {
                    let (before, next_seq) = match segment.expected_end() {
                        Some(ending) => ending,
                        None => {
                            let end = read_to_end(&segment)?.finish();
                            (end.before, end.next_seq)
                        }
                    };
                    sequence.advance(before, next_seq);
                    if segment.segment.header.base_seq <= from {
                        items.push(SequenceItem::Segment(segment));
                    }
                }
                anomaly @ SequenceItem::Anomaly(_) => items.push(anomaly),
            }
        }
        Ok(items)
    }

    /// Move to the previous segment or anomaly; `None` if there is none.
    fn next_segment(&mut self) -> Result<Option<()>> {
        if self.pending_segments.is_none() {
            self.pending_segments = Some(Self::list_segments(self.reader, self.from)?);
        }
        match self.pending_segments.as_mut().and_then(Vec::pop) {
            None => return Ok(None),
            Some(SequenceItem::Anomaly(item)) => self.ready.push(item.into_item()),
            Some(SequenceItem::Segment(segment)) => {
                self.current = Some(Blocks::new(self.reader, segment, self.from)?);
            }
        }
        Ok(Some(()))
    }

    fn step(&mut self) -> Result<Option<LogItem>> {
        if let Some(item) = self.ready.pop() {
            return Ok(Some(item).filter(|item| self.wants(item)));
        }
        let Some(blocks) = &mut self.current else {
            self.is_done = self.next_segment()?.is_none();
            return Ok(None);
        };
        if blocks.read(&mut self.ready)? {
            self.current = None;
        }
        Ok(None)
    }

    fn wants(&self, item: &LogItem) -> bool {
        match item {
            LogItem::Record(record, _) => record.seq <= self.from,
            LogItem::Damage(damage) => damage.first_seq <= self.from,
            LogItem::DerivedDamage(_) | LogItem::OpenEnd { .. } => true,
        }
    }
}

/// A cursor at the end of a segment, after reading all of it.
fn read_to_end(segment: &OpenSegment<'_>) -> Result<SegmentCursor> {
    let mut cursor = segment.cursor()?;
    while cursor.advance()?.is_some() {}
    Ok(cursor)
}

impl<'a> Blocks<'a> {
    fn new(reader: &LogReader, segment: OpenSegment<'a>, from: u64) -> Result<Self> {
        let points = resume_points(reader, &segment, from)?;
        let left = points.partition_point(|point| point.at.next_seq <= from);
        // Records after `from` are not read, but a block may only end where a record begins.
        let mut stop = None;
        for point in points.get(left..).unwrap_or_default() {
            if segment.cursor()?.resume(point)? {
                stop = Some(point.at.offset);
                break;
            }
        }
        Ok(Self { segment, points, left, stop })
    }

    /// Read the previous block into `items`, in forward order. True if it was the first one of the
    /// segment.
    fn read(&mut self, items: &mut Vec<LogItem>) -> Result<bool> {
        let mut cursor = self.segment.cursor()?;
        let end = self.stop.unwrap_or(self.segment.durable_end.end);
        let mut start = None;
        while start.is_none() && self.left > 1 {
            self.left -= 1;
            let Some(point) = self.points.get(self.left) else { break };
            let is_far = point.at.offset.saturating_add(BLOCK) <= end;
            if is_far && cursor.resume(point)? {
                start = Some(point.at.offset);
            }
        }
        if start.is_none() {
            items.extend(self.segment.damaged_header().map(Anomaly::into_item));
        }
        while let Some(item) = cursor.next_item_before(self.stop.unwrap_or(u64::MAX))? {
            items.push(item);
        }
        if self.stop.is_none() {
            let trailer = self.segment.trailer(cursor.finish().anomaly)?;
            items.extend(trailer.into_iter().map(Anomaly::into_item));
        }
        self.stop = start;
        Ok(start.is_none())
    }
}

impl Iterator for ReverseWalk<'_> {
    type Item = Result<LogItem>;

    fn next(&mut self) -> Option<Result<LogItem>> {
        while !self.is_done {
            match self.step() {
                Ok(None) => {}
                Ok(Some(item)) => return Some(Ok(item)),
                Err(error) => {
                    self.is_done = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}
