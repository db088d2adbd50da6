//! A walk over a log, record by record, which reports damage and continues after it. It can be
//! limited to the records of one kind or one stream.
//!
//! Invariants:
//! - Everything that is not yielded is reported. An index only gives positions; the records there
//!   are checked like all others.
//! - A walk with a filter yields the matching records of a walk over everything, and all damaged
//!   ranges that may contain such records.

use std::collections::VecDeque;

use crate::error::{Error, Result};
use crate::log::record::{Anomaly, LogItem, RecordStatus, StreamRule};
use crate::log::segment::{CursorStep, SegmentCursor};

use super::filter::RecordFilter;
use super::log_reader::LogReader;
use super::open_segment::OpenSegment;
use super::seek::{resume_points, seek};
use super::sequence::{SegmentSequence, SequenceItem};

impl LogReader {
    /// Everything from record `from` on: records, and damage in the place where it is found. Pruned
    /// records are skipped: the walk begins after them.
    #[must_use]
    pub fn walk(&self, from: u64) -> Walk<'_> {
        Walk::new(self, from)
    }

    /// The records of a kind from record `from` on, and all damaged ranges that may contain such
    /// records. In sealed segments only those records are read.
    #[must_use]
    pub fn walk_of_kind(&self, kind: u16, from: u64) -> Walk<'_> {
        Walk { filter: Some(RecordFilter::Kind(kind)), ..Walk::new(self, from) }
    }

    /// The records of a stream from record `from` on, and all damaged ranges that may contain such
    /// records. In segments that were sealed with the same rule only those records are read.
    #[must_use]
    #[doc(hidden)]
    pub fn walk_of_stream(&self, stream: u64, streams: StreamRule, from: u64) -> Walk<'_> {
        Walk { filter: Some(RecordFilter::Stream(stream, streams)), ..Walk::new(self, from) }
    }

    /// A walk for random access: later walks resume from the points that it finds.
    pub(crate) fn walk_with_resume_points(&self, from: u64) -> Walk<'_> {
        Walk::new(self, from).with_resume_points()
    }
}

/// The items of a log, in order.
#[derive(Debug)]
pub struct Walk<'a> {
    reader: &'a LogReader,
    sequence: SegmentSequence<'a>,
    filter: Option<RecordFilter>,
    from: u64,
    last: u64,
    current: Option<CurrentSegment<'a>>,
    /// Whether to scan a segment without an index for resume points before reading it.
    resume_point_scan: ResumePointScan,
    /// Anomalies to yield before anything else.
    ready: VecDeque<Anomaly>,
    is_done: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResumePointScan {
    Never,
    BeforeReading,
}

/// The segment that is being read.
#[derive(Debug)]
struct CurrentSegment<'a> {
    segment: OpenSegment<'a>,
    cursor: SegmentCursor,
    /// Offsets of the matching records from the index, in descending order; `None` to read all
    /// records.
    postings: Option<Vec<u64>>,
    /// The storage knows that no record matches: nothing of the segment is read.
    is_absent: bool,
}

impl<'a> Walk<'a> {
    fn new(reader: &'a LogReader, from: u64) -> Self {
        let from = from.max(1);
        Self {
            reader,
            sequence: SegmentSequence::new(reader, from),
            filter: None,
            from,
            last: u64::MAX,
            current: None,
            resume_point_scan: ResumePointScan::Never,
            ready: VecDeque::new(),
            is_done: false,
        }
    }

    /// The same walk without the records after `last`.
    #[must_use]
    pub fn up_to(self, last: u64) -> Self {
        Self { last, ..self }
    }

    /// The same walk; later walks resume from the points that it finds.
    pub(crate) fn with_resume_points(self) -> Self {
        Self { resume_point_scan: ResumePointScan::BeforeReading, ..self }
    }

    /// Open the next segment; `None` if there is none.
    fn open_next_segment(&mut self) -> Result<Option<()>> {
        match self.sequence.next().transpose()? {
            None => return Ok(None),
            Some(SequenceItem::Anomaly(item)) => self.ready.push_back(item),
            Some(SequenceItem::Segment(segment)) if segment.segment.header.base_seq > self.last => {
                return Ok(None);
            }
            Some(SequenceItem::Segment(segment)) => {
                self.ready.extend(segment.damaged_header());
                let is_absent = self.filter.is_some_and(|filter| filter.is_absent(&segment));
                let postings = match &self.filter {
                    Some(_) if is_absent => Some(Vec::new()),
                    Some(filter) => filter.postings(&segment, self.from)?,
                    None => None,
                };
                let mut cursor = segment.cursor()?;
                if postings.is_none() {
                    if self.resume_point_scan == ResumePointScan::BeforeReading {
                        resume_points(self.reader, &segment, self.from)?;
                    }
                    seek(self.reader, &segment, &mut cursor, self.from)?;
                }
                self.current = Some(CurrentSegment { segment, cursor, postings, is_absent });
            }
        }
        Ok(Some(()))
    }

    /// Finish the current segment.
    fn close_segment(&mut self) -> Result<()> {
        let Some(CurrentSegment { segment, cursor, postings, is_absent }) = self.current.take()
        else {
            return Ok(());
        };
        // If only some of its records were read, its end is taken from the headers.
        let known_end = postings.and_then(|_| segment.expected_end());
        let (before, next_seq, anomaly) = if let Some((before, next_seq)) = known_end {
            (before, next_seq, None)
        } else {
            let end = cursor.finish();
            (end.before, end.next_seq, end.anomaly)
        };
        self.sequence.advance(before, next_seq);
        if !is_absent {
            self.ready.extend(segment.trailer(anomaly)?);
        }
        Ok(())
    }

    /// Advance to the next item, or to a place where the next step may find one.
    fn step(&mut self) -> Result<Option<CursorStep>> {
        if let Some(item) = self.ready.pop_front() {
            return Ok(Some(CursorStep::Anomaly(Box::new(item))));
        }
        let Some(current) = &mut self.current else {
            self.is_done = self.open_next_segment()?.is_none();
            return Ok(None);
        };
        if current.postings.is_some() {
            return self.step_by_index();
        }
        let seq = current.cursor.next_seq();
        let passed = current.cursor.advance()?;
        match &passed {
            None => self.close_segment()?,
            Some(CursorStep::Record(_)) if seq < self.from => return Ok(None),
            Some(CursorStep::Record(_)) if seq > self.last => {
                self.is_done = true;
                return Ok(None);
            }
            Some(passed) if self.filter.is_some() && !self.is_wanted(passed) => return Ok(None),
            Some(_) => {}
        }
        Ok(passed)
    }

    /// Whether the filter of the walk includes the current item of the cursor.
    fn is_wanted(&self, passed: &CursorStep) -> bool {
        match (passed, &self.filter, &self.current) {
            (CursorStep::Record(_), Some(filter), Some(current)) => {
                filter.matches(&current.cursor.current())
            }
            (CursorStep::Anomaly(item), ..) => !matches!(**item, LogItem::OpenEnd { .. }),
            _ => true,
        }
    }

    /// Advance to the next matching record that the index names.
    fn step_by_index(&mut self) -> Result<Option<CursorStep>> {
        let (Some(filter), Some(current)) = (&self.filter, &mut self.current) else {
            return Ok(None);
        };
        let Some(offset) = current.postings.as_mut().and_then(Vec::pop) else {
            self.close_segment()?;
            return Ok(None);
        };
        let Some((seq, status)) = current.record_at(offset, filter)? else {
            // The index is wrong: read the segment from the start.
            current.cursor = current.segment.cursor()?;
            current.postings = None;
            return Ok(None);
        };
        self.is_done = seq > self.last;
        if self.is_done || seq < self.from {
            return Ok(None);
        }
        // It must not be yielded again if the index turns out to be wrong.
        self.from = seq.saturating_add(1);
        Ok(Some(CursorStep::Record(status)))
    }

    /// The last record that was durable when the current one was written, according to the current
    /// one; 0 without a current record.
    pub(crate) fn durable_before(&self) -> u64 {
        self.current.as_ref().map_or(0, |current| current.cursor.durable_before())
    }

    /// The next item with a borrowed payload, which is valid until the walk continues.
    ///
    /// # Errors
    /// As [`Walk::next`]; the walk ends after an error.
    #[expect(clippy::inline_always, reason = "an item passed by value is copied at each call")]
    #[inline(always)]
    pub fn next_ref(&mut self) -> Option<Result<LogItem<&[u8]>>> {
        let passed = loop {
            if self.is_done {
                return None;
            }
            match self.step() {
                Ok(None) => {}
                Ok(Some(passed)) => break passed,
                Err(error) => {
                    self.is_done = true;
                    return Some(Err(error));
                }
            }
        };
        match passed {
            CursorStep::Anomaly(item) => Some(Ok(item.into_item())),
            CursorStep::Record(status) => {
                let current = self.current.as_ref()?;
                Some(Ok(LogItem::Record(current.cursor.current(), status)))
            }
        }
    }
}

impl CurrentSegment<'_> {
    /// Move to the record at an offset from the index; `None` if no matching record is there.
    fn record_at(
        &mut self,
        offset: u64,
        filter: &RecordFilter,
    ) -> Result<Option<(u64, RecordStatus)>> {
        let durable_end = self.segment.durable_end;
        let io = |error| Error::io("read a record", self.segment.path, error).at_offset(offset);
        if self.cursor.jump(offset).map_err(io)?.is_err() {
            return Ok(None);
        }
        let record = self.cursor.current();
        let is_inside = (self.segment.segment.header.base_seq..=durable_end.last_seq)
            .contains(&record.seq)
            && record.offset.saturating_add(record.size) <= durable_end.end;
        let is_wanted = is_inside && filter.matches(&record);
        Ok(is_wanted.then(|| (record.seq, self.cursor.resume_point().status)))
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<LogItem>;

    fn next(&mut self) -> Option<Result<LogItem>> {
        let item = self.next_ref()?;
        Some(item.map(|item| item.map(|payload| payload.to_vec())))
    }
}
