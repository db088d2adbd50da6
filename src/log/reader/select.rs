//! A walk over the records of one kind or one stream.
//!
//! Invariants:
//! - The result is that of a walk over everything: the matching records, and all damaged ranges
//!   that may contain such records.
//! - A posting only says where to look. If the frame there is missing or wrong, the rest of the
//!   segment is read as if it had no index.

use std::collections::VecDeque;

use crate::error::{Error, Result};
use crate::log::record::{Anomaly, LogItem, LoggedRecord, StreamRule};
use crate::log::segment::SegmentCursor;

use super::log_reader::LogReader;
use super::open_segment::OpenSegment;
use super::seek::seek;
use super::sequence::{SegmentSequence, SequenceItem};

impl LogReader {
    /// The records of a kind from record `from` on, and all damaged ranges that may contain such
    /// records. In sealed segments only those records are read.
    #[must_use]
    pub fn walk_of_kind(&self, kind: u16, from: u64) -> FilteredWalk<'_> {
        FilteredWalk::new(self, RecordFilter::Kind(kind), from)
    }

    /// The records of a stream from record `from` on, and all damaged ranges that may contain such
    /// records. In segments that were sealed with the same rule only those records are read.
    #[must_use]
    pub fn walk_of_stream(&self, stream: u64, streams: StreamRule, from: u64) -> FilteredWalk<'_> {
        FilteredWalk::new(self, RecordFilter::Stream(stream, streams), from)
    }
}

/// A walk that yields the records of one kind or stream, and the damaged ranges that may contain
/// some.
#[derive(Debug)]
pub struct FilteredWalk<'a> {
    reader: &'a LogReader,
    sequence: SegmentSequence<'a>,
    selector: RecordFilter,
    from: u64,
    last: u64,
    current: Option<Current<'a>>,
    ready: VecDeque<LogItem>,
    is_done: bool,
}

/// Which records a filtered walk yields.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RecordFilter {
    Kind(u16),
    Stream(u64, StreamRule),
}

impl RecordFilter {
    fn matches(&self, record: &LoggedRecord) -> bool {
        match self {
            Self::Kind(kind) => record.kind == *kind,
            Self::Stream(stream, streams) => streams.stream(record) == Some(*stream),
        }
    }
}

/// The segment that is being read.
#[derive(Debug)]
struct Current<'a> {
    segment: OpenSegment<'a>,
    cursor: SegmentCursor,
    /// Offsets of the matching records from the index, in descending order; `None` to read all
    /// records.
    postings: Option<Vec<u64>>,
}

impl<'a> FilteredWalk<'a> {
    pub(crate) fn new(reader: &'a LogReader, selector: RecordFilter, from: u64) -> Self {
        let from = from.max(1);
        let (sequence, ready) = (SegmentSequence::new(reader, from), VecDeque::new());
        let last = u64::MAX;
        Self { reader, sequence, selector, from, last, current: None, ready, is_done: false }
    }

    /// The same walk without the records after `last`, which are not read.
    #[must_use]
    pub fn up_to(self, last: u64) -> Self {
        Self { last, ..self }
    }

    /// Open the next segment; `None` if there is none.
    fn open_next_segment(&mut self) -> Result<Option<()>> {
        match self.sequence.next().transpose()? {
            None => return Ok(None),
            Some(SequenceItem::Anomaly(item)) => self.ready.push_back(item.into_item()),
            Some(SequenceItem::Segment(segment)) if segment.segment.header.base_seq > self.last => {
                return Ok(None);
            }
            Some(SequenceItem::Segment(segment)) => {
                self.ready.extend(segment.damaged_header().map(Anomaly::into_item));
                let postings = self.postings(&segment)?;
                let mut cursor = segment.cursor()?;
                if postings.is_none() {
                    seek(self.reader, &segment, &mut cursor, self.from)?;
                }
                self.current = Some(Current { segment, cursor, postings });
            }
        }
        Ok(Some(()))
    }

    /// Offsets of the matching records according to the segment's index, in descending order.
    fn postings(&self, segment: &OpenSegment<'_>) -> Result<Option<Vec<u64>>> {
        let Some(Ok(index)) = segment.index()? else { return Ok(None) };
        let mut found: Vec<u64> = match self.selector {
            RecordFilter::Kind(kind) => index.of_kind(kind).collect(),
            RecordFilter::Stream(stream, streams) if segment.has_streams(streams.id) => {
                index.of_stream(stream).collect()
            }
            RecordFilter::Stream(..) => return Ok(None),
        };
        // The records from the last seek entry before `from` up to `from` are read too, because the
        // sequence numbers in the index are not trusted.
        let start = index.seeks().take_while(|seek| seek.seq <= self.from).last();
        let start = start.map_or(0, |seek| seek.offset);
        found.drain(..found.partition_point(|offset| *offset < start));
        found.reverse();
        Ok(Some(found))
    }

    fn next_item(&mut self) -> Result<Option<LogItem>> {
        if let Some(item) = self.ready.pop_front() {
            return Ok(Some(item));
        }
        let Some(mut current) = self.current.take() else {
            self.is_done = self.open_next_segment()?.is_none();
            return Ok(None);
        };
        let item = match current.next(&self.selector)? {
            Step::Item(item) => item,
            Step::End => {
                self.close_segment(current)?;
                return Ok(None);
            }
            Step::IndexWrong => {
                // Read from the start: the index is wrong.
                current.cursor = current.segment.cursor()?;
                current.postings = None;
                self.current = Some(current);
                return Ok(None);
            }
        };
        self.current = Some(current);
        Ok(self.accept(item))
    }

    /// The item, if it matches and was not yielded before.
    fn accept(&mut self, item: LogItem) -> Option<LogItem> {
        match item {
            LogItem::Record(record, _) if record.seq > self.last => {
                self.is_done = true;
                None
            }
            LogItem::Record(record, status) => {
                let is_wanted = record.seq >= self.from && self.selector.matches(&record);
                is_wanted.then(|| {
                    self.from = record.seq.saturating_add(1);
                    LogItem::Record(record, status)
                })
            }
            LogItem::OpenEnd { .. } => None,
            item => Some(item),
        }
    }

    /// Finish a segment.
    fn close_segment(&mut self, current: Current<'_>) -> Result<()> {
        let Current { segment, cursor, postings } = current;
        // If only some of its records were read, its end is taken from the headers.
        let known_end = postings.and_then(|_| segment.expected_end());
        let ending = if let Some((before, next_seq)) = known_end {
            self.sequence.advance(before, next_seq);
            None
        } else {
            let ending = cursor.finish();
            let (before, next_seq) = (ending.before, ending.next_seq);
            self.sequence.advance(before, next_seq);
            ending.anomaly
        };
        let trailer = segment.trailer(ending)?;
        self.ready.extend(trailer.into_iter().map(Anomaly::into_item));
        Ok(())
    }
}

/// The next step in a segment.
enum Step {
    Item(LogItem),
    End,
    /// The index names an offset without a matching record.
    IndexWrong,
}

impl Current<'_> {
    fn next(&mut self, selector: &RecordFilter) -> Result<Step> {
        let Some(postings) = &mut self.postings else {
            return Ok(self.cursor.next_item()?.map_or(Step::End, Step::Item));
        };
        let Some(offset) = postings.pop() else { return Ok(Step::End) };
        let durable_end = self.segment.durable_end;
        let io = |error| Error::io("read a record", self.segment.path, error).at_offset(offset);
        let Ok(record) = self.cursor.record_at_index_offset(offset).map_err(io)? else {
            return Ok(Step::IndexWrong);
        };
        let header = &self.segment.segment.header;
        let is_inside = (header.base_seq..=durable_end.last_seq).contains(&record.seq)
            && record.offset.saturating_add(record.size) <= durable_end.end;
        if !is_inside || !selector.matches(&record) {
            return Ok(Step::IndexWrong);
        }
        Ok(Step::Item(LogItem::Record(record, self.cursor.resume_point().status)))
    }
}

impl Iterator for FilteredWalk<'_> {
    type Item = Result<LogItem>;

    fn next(&mut self) -> Option<Result<LogItem>> {
        while !self.is_done {
            match self.next_item() {
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
