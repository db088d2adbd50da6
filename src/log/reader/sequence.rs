//! The sequence of a log's segments: which follow each other, which are damaged or missing, and
//! where the acknowledged part of each ends.
//!
//! If a segment is missing, unreadable or misnamed, only its own records are lost. If its header is
//! damaged but the footer holds a copy, no record is lost.

use std::path::Path;

use crate::error::Result;
use crate::format::{SegmentHeader, SegmentName};
use crate::log::folder::DATA_START;
use crate::log::record::{Anomaly, Damage, LogItem, RecordStatus};
use crate::log::segment::{
    DurableEnd, EndSource, NO_NOTE, Predecessor, SealState, Segment, SegmentEntry, valid_segment,
};

use super::log_reader::LogReader;
use super::open_segment::OpenSegment;

/// An iteration over the segments.
#[derive(Debug)]
pub(crate) struct SegmentSequence<'a> {
    reader: &'a LogReader,
    /// Index of the next segment in the list.
    index: usize,
    /// Ordinal that it should have.
    expected: u64,
    /// The sequence number after everything that was yielded or reported as missing.
    next_seq: u64,
    /// The last segment, if it is the one before `expected`.
    previous: Option<&'a Segment>,
    /// The required predecessor of the next segment.
    predecessor: Predecessor,
    /// Whether the last segment is sealed, and so must have a successor.
    is_sealed: bool,
    is_done: bool,
}

/// The next element of the sequence.
#[derive(Debug)]
pub(crate) enum SequenceItem<'a> {
    /// A missing or invalid segment.
    Anomaly(Anomaly),
    /// A readable segment.
    Segment(OpenSegment<'a>),
}

impl<'a> SegmentSequence<'a> {
    /// The sequence from the segment that holds record `from`.
    pub(crate) fn new(reader: &'a LogReader, from: u64) -> Self {
        // Start in the last valid segment that begins at or before the record.
        let (list, beginning) = (&reader.segments.list, &reader.segments.start);
        let starts = |entry: &SegmentEntry| {
            valid_segment(entry).is_some_and(|each| each.header.base_seq <= from)
        };
        let start = list.iter().enumerate().rfind(|(_, entry)| starts(entry));
        let start = start.and_then(|(index, entry)| Some((index, &valid_segment(entry)?.header)));
        let (index, expected, next_seq, predecessor) = match start {
            Some((index, header)) if header.ordinal > beginning.ordinal => {
                (index, header.ordinal, header.base_seq, Predecessor::Unknown)
            }
            _ => (0, beginning.ordinal, beginning.seq, beginning.predecessor()),
        };
        let (previous, is_sealed, is_done) = (None, false, false);
        Self { reader, index, expected, next_seq, previous, predecessor, is_sealed, is_done }
    }

    /// The next segment, or the fault in its place.
    pub(crate) fn next(&mut self) -> Option<Result<SequenceItem<'a>>> {
        if self.is_done {
            return None;
        }
        let Some(entry) = self.reader.segments.list.get(self.index) else {
            return self.missing_at_end().map(|item| Ok(SequenceItem::Anomaly(item)));
        };
        let (name, path, read) = entry;
        if let Some(segment) = valid_segment(entry)
            && segment.header.ordinal > self.expected
        {
            let last_seq = segment.header.base_seq.saturating_sub(1);
            let item = self.missing(segment.header.ordinal, last_seq);
            return Some(Ok(SequenceItem::Anomaly(item)));
        }
        self.index += 1;
        let item = match read {
            Err(fault) => self.unreadable(*name, path, fault.to_string()),
            Ok(segment) => match self.rejection(*name, segment) {
                Some(problem) => self.rejected(path, segment, problem),
                None => return Some(self.open(path, segment).map(SequenceItem::Segment)),
            },
        };
        Some(Ok(SequenceItem::Anomaly(item)))
    }

    /// The reason why a segment with a valid header does not fit into the sequence; `None` if it
    /// fits.
    fn rejection(&self, name: SegmentName, segment: &Segment) -> Option<String> {
        let header = &segment.header;
        if header.name() == name && header.ordinal < self.expected {
            return Some(format!("there is another segment {}", header.ordinal));
        }
        if self.reader.head().is_some_and(|head| head.ledger != header.ledger) {
            return Some("the segment belongs to another ledger".to_owned());
        }
        let segments = &self.reader.segments;
        let is_first = header.ordinal == segments.start.ordinal;
        if header.name() == name && !is_first && self.previous.is_none() {
            return None;
        }
        segments.link_problem(name, header.ordinal, self.previous, segment)
    }

    /// Reject a valid file with a wrong name or position. Its records belong elsewhere; records
    /// that are missing because of it are reported as a gap in the sequence.
    fn rejected(&mut self, path: &Path, segment: &Segment, what: String) -> Anomaly {
        self.damage(path, segment.length, self.next_seq.saturating_sub(1), what)
    }

    /// A file with a damaged header: its records cannot be read.
    fn unreadable(&mut self, name: SegmentName, path: &Path, what: String) -> Anomaly {
        if self.reader.segments.with_ordinal(name.ordinal).is_some() {
            return self.damage(path, 0, self.next_seq.saturating_sub(1), what);
        }
        let next = self.reader.segments.list.get(self.index);
        let head = self.reader.head().map_or(0, |head| head.durable_seq);
        let last_seq = next.map_or(head, |(name, _, _)| name.base_seq.saturating_sub(1));
        self.expected = name.ordinal.saturating_add(1);
        self.predecessor = Predecessor::Damage;
        self.previous = None;
        // It is unknown whether this segment was sealed.
        self.is_sealed = false;
        self.damage(path, 0, last_seq, what)
    }

    /// The sequence has a gap before segment `ordinal`.
    fn missing(&mut self, ordinal: u64, last_seq: u64) -> Anomaly {
        let last = ordinal.saturating_sub(1);
        let is_first = self.expected == self.reader.segments.start.ordinal;
        let note = if is_first { NO_NOTE } else { "" };
        let what = if last > self.expected {
            format!("segments {} to {last} are missing{note}", self.expected)
        } else {
            format!("segment {last} is missing{note}")
        };
        self.expected = ordinal;
        self.predecessor = Predecessor::Damage;
        self.previous = None;
        self.damage(&self.reader.segments.folder, 0, last_seq, what)
    }

    /// The sequence ends before the segment that HEAD names, or after a sealed segment.
    fn missing_at_end(&mut self) -> Option<Anomaly> {
        self.is_done = true;
        if self.reader.segments.end.is_some() {
            return None;
        }
        let folder = &self.reader.segments.folder;
        if let Some(head) = self.reader.head()
            && head.ordinal >= self.expected
        {
            return Some(self.missing(head.ordinal.saturating_add(1), head.durable_seq));
        }
        if self.is_sealed {
            let what = format!("segment {} is missing: the one before it is sealed", self.expected);
            return Some(self.damage(folder, 0, self.next_seq.saturating_sub(1), what));
        }
        let is_empty = self.reader.segments.list.is_empty();
        let what = "there is no segment, but a ledger always has one".to_owned();
        is_empty.then(|| self.damage(folder, 0, 0, what))
    }

    /// Damage of a whole file: the records from the next one up to `last_seq`.
    fn damage(&mut self, path: &Path, end: u64, last_seq: u64, what: String) -> Anomaly {
        let first_seq = self.next_seq;
        self.next_seq = first_seq.max(last_seq.saturating_add(1));
        LogItem::Damage(Damage { path: path.to_owned(), offset: 0, end, first_seq, last_seq, what })
    }

    fn open(&mut self, path: &'a Path, segment: &'a Segment) -> Result<OpenSegment<'a>> {
        let header = &segment.header;
        let seal = self.reader.segments.seal_state(&*self.reader.storage, path, segment)?;
        let durable_end = self.durable_end(segment, &seal);
        let follows = match self.predecessor {
            Predecessor::Unknown => true,
            Predecessor::Record(seq, chain) => seq == header.base_seq && chain == header.prev_chain,
            Predecessor::Damage => false,
        };
        let status = if follows { RecordStatus::Durable } else { RecordStatus::AfterDamage };
        let segments = &self.reader.segments;
        let is_newest = self.index >= segments.list.len() && segments.end.is_none();
        self.expected = header.ordinal.saturating_add(1);
        self.previous = Some(segment);
        self.next_seq = header.base_seq;
        self.is_sealed = matches!(seal, SealState::Sealed(_));
        Ok(OpenSegment { reader: self.reader, path, segment, durable_end, seal, status, is_newest })
    }

    /// The acknowledged end of a segment. `index` is already after it.
    fn durable_end(&self, segment: &Segment, seal: &SealState) -> DurableEnd {
        let (header, segments) = (&segment.header, &self.reader.segments);
        let source = EndSource::Known;
        if let Some(next) = segments.successor(header) {
            let (end, last_seq) = (next.prev_data_end, next.prev_last_seq);
            return DurableEnd { end, last_seq, chain: Some(next.prev_chain), source };
        }
        if let SealState::Sealed(footer) = seal {
            let (end, last_seq) = (footer.data_end, footer.last_seq);
            return DurableEnd { end, last_seq, chain: Some(footer.chain_last), source };
        }
        let header_durable_end = header_durable_end(header);
        let head = self.reader.head();
        match head.filter(|head| head.segment == header.segment) {
            Some(head) if head.durable_seq >= header_durable_end.last_seq => {
                let (end, last_seq) = (head.data_end, head.durable_seq);
                return DurableEnd { end, last_seq, chain: Some(head.chain), source };
            }
            Some(_) => return header_durable_end,
            None => {}
        }
        let Some(next) = segments.list.get(self.index) else { return header_durable_end };
        // The name of a damaged file, or the header of a later intact file, gives the record at
        // which the next segment starts.
        let named = Some(next)
            .filter(|(name, _, read)| {
                read.is_err() && Some(name.ordinal) == header.ordinal.checked_add(1)
            })
            .map(|(name, _, _)| name.base_seq)
            .filter(|base| *base >= header.base_seq);
        let intact = segments.list.iter().skip(self.index).find_map(valid_segment);
        let base = named.or(intact.map(|segment| segment.header.base_seq));
        let bound = base.map(|base| base.saturating_sub(1)).or(head.map(|head| head.durable_seq));
        let last_seq = bound.unwrap_or(u64::MAX);
        DurableEnd { end: segment.length, last_seq, chain: None, source: EndSource::Estimated }
    }

    /// Set the known state after a segment that was read or will be read later.
    pub(crate) fn advance(&mut self, predecessor: Predecessor, next_seq: u64) {
        self.predecessor = predecessor;
        self.next_seq = self.next_seq.max(next_seq);
    }
}

/// The durable end according to a segment's own header.
fn header_durable_end(header: &SegmentHeader) -> DurableEnd {
    DurableEnd {
        end: header.born_end.max(DATA_START),
        last_seq: header.born_last.max(header.base_seq.saturating_sub(1)),
        chain: None,
        source: EndSource::Known,
    }
}
