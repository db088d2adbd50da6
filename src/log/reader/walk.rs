//! A walk over a whole log, record by record, which reports damage and continues after it.
//!
//! Invariants: everything that is not yielded is reported. An index only says where to look; what
//! is found there is checked like every other record.

use std::collections::VecDeque;

use crate::error::Result;
use crate::log::record::{Anomaly, LogItem};
use crate::log::segment::{CursorStep, SegmentCursor};

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
}

/// The items of a log, in order.
#[derive(Debug)]
pub struct Walk<'a> {
    reader: &'a LogReader,
    sequence: SegmentSequence<'a>,
    from: u64,
    current: Option<(OpenSegment<'a>, SegmentCursor)>,
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

impl<'a> Walk<'a> {
    pub(crate) fn new(reader: &'a LogReader, from: u64) -> Self {
        let from = from.max(1);
        let (sequence, ready) = (SegmentSequence::new(reader, from), VecDeque::new());
        let resume_point_scan = ResumePointScan::Never;
        Self { reader, sequence, from, current: None, resume_point_scan, ready, is_done: false }
    }

    /// A walk for random access: later walks resume from the points that it finds.
    pub(crate) fn with_resume_points(reader: &'a LogReader, from: u64) -> Self {
        Self { resume_point_scan: ResumePointScan::BeforeReading, ..Self::new(reader, from) }
    }

    /// Open the next segment; `None` if there is none.
    fn open_next_segment(&mut self) -> Result<Option<()>> {
        match self.sequence.next().transpose()? {
            None => return Ok(None),
            Some(SequenceItem::Anomaly(item)) => self.ready.push_back(item),
            Some(SequenceItem::Segment(segment)) => {
                self.ready.extend(segment.damaged_header());
                if self.resume_point_scan == ResumePointScan::BeforeReading {
                    resume_points(self.reader, &segment, self.from)?;
                }
                let mut cursor = segment.cursor()?;
                seek(self.reader, &segment, &mut cursor, self.from)?;
                self.current = Some((segment, cursor));
            }
        }
        Ok(Some(()))
    }

    /// Finish the current segment.
    fn close_segment(&mut self) -> Result<()> {
        if let Some((segment, cursor)) = self.current.take() {
            let ending = cursor.finish();
            let (before, next_seq) = (ending.before, ending.next_seq);
            self.sequence.advance(before, next_seq);
            self.ready.extend(segment.trailer(ending.anomaly)?);
        }
        Ok(())
    }

    /// Advance to the next item, or to a place where the next step may find one.
    fn step(&mut self) -> Result<Option<CursorStep>> {
        if let Some(item) = self.ready.pop_front() {
            return Ok(Some(CursorStep::Anomaly(Box::new(item))));
        }
        let Some((_, cursor)) = &mut self.current else {
            self.is_done = self.open_next_segment()?.is_none();
            return Ok(None);
        };
        let is_before_start = cursor.next_seq() < self.from;
        let passed = cursor.advance()?;
        match passed {
            None => self.close_segment()?,
            Some(CursorStep::Record(_)) if is_before_start => return Ok(None),
            Some(_) => {}
        }
        Ok(passed)
    }

    /// The record up to which everything was durable when the current one was written, according to
    /// the current one; 0 without a current record.
    pub(crate) fn durable_before(&self) -> u64 {
        self.current.as_ref().map_or(0, |(_, cursor)| cursor.durable_before())
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
                let (_, cursor) = self.current.as_ref()?;
                Some(Ok(LogItem::Record(cursor.current(), status)))
            }
        }
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<LogItem>;

    fn next(&mut self) -> Option<Result<LogItem>> {
        let item = self.next_ref()?;
        Some(item.map(|item| item.map(<[u8]>::to_vec)))
    }
}
