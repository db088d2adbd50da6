//! The row of a log's segments: which follow each other, which are damaged or missing, and how
//! far each is known to be acknowledged.
//!
//! A segment that is missing, unreadable or not what its name says costs its own records and no
//! others. A damaged header costs nothing where the footer holds a replica of it. Left out on
//! purpose: the records of other segments whose header is damaged.

use std::io;
use std::path::Path;

use crate::error::{Error, Result};
use crate::format::{Chain, SegmentHeader, SegmentName};
use crate::storage::{Access, StorageFile};

use super::layout::DATA_START;
use super::reader::{LogReader, Superseded};
use super::scan::{Scan, Source};
use super::sealed::Seal;
use super::segment_walk::{Ending, Extent, ExtentSource, SegmentWalk};
use super::segments::{Entry, NO_NOTE, Segment, good};
use super::walk::{Beside, Damage, Item, Proof};

/// A way along the row.
#[derive(Debug)]
pub(super) struct Row<'a> {
    reader: &'a LogReader,
    /// Place of the next segment in the list.
    place: usize,
    /// The ordinal that it should have.
    expected: u64,
    /// The sequence number behind what was yielded, or named as missing.
    next_seq: u64,
    /// The last segment, if it is the one before `expected`.
    previous: Option<&'a Segment>,
    /// What the next segment must follow from.
    before: Before,
    /// Whether the last segment says that it has a successor.
    is_sealed: bool,
    is_over: bool,
}

/// What is known of the records before a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    /// Nothing was looked at: the first header looked at is the anchor.
    Anchor,
    /// The last record, by the sequence number behind it and its chain value.
    Record(u64, Chain),
    /// Damage.
    Damage,
}

/// What stands next in the row.
#[derive(Debug)]
pub(super) enum Next<'a> {
    /// Something that is wrong.
    Item(Beside),
    /// A segment that can be read.
    Segment(Opened<'a>),
}

/// A segment that can be read, and what is known of it before its records are.
#[derive(Debug, Clone)]
pub(super) struct Opened<'a> {
    reader: &'a LogReader,
    pub(super) path: &'a Path,
    pub(super) segment: &'a Segment,
    pub(super) extent: Extent,
    pub(super) seal: Seal,
    proof: Proof,
    is_newest: bool,
}

impl<'a> Row<'a> {
    /// The row from the segment on that holds record `from`.
    pub(super) fn new(reader: &'a LogReader, from: u64) -> Self {
        // Start in the last good segment that begins at or before the record.
        let (list, beginning) = (&reader.segments.list, &reader.segments.beginning);
        let starts = |entry: &Entry| good(entry).is_some_and(|each| each.header.base_seq <= from);
        let start = list.iter().enumerate().rfind(|(_, entry)| starts(entry));
        let start = start.and_then(|(place, entry)| Some((place, &good(entry)?.header)));
        let (place, expected, next_seq, before) = match start {
            Some((place, header)) if header.ordinal > beginning.ordinal => {
                (place, header.ordinal, header.base_seq, Before::Anchor)
            }
            _ => (0, beginning.ordinal, beginning.seq, beginning.before()),
        };
        let (previous, is_sealed, is_over) = (None, false, false);
        Self { reader, place, expected, next_seq, previous, before, is_sealed, is_over }
    }

    /// The next segment, or what is wrong where one should be.
    pub(super) fn next(&mut self) -> Option<Result<Next<'a>>> {
        if self.is_over {
            return None;
        }
        let Some(entry) = self.reader.segments.list.get(self.place) else {
            return self.missing_at_end().map(|item| Ok(Next::Item(item)));
        };
        let (name, path, read) = entry;
        if let Some(segment) = good(entry)
            && segment.header.ordinal > self.expected
        {
            let last_seq = segment.header.base_seq.saturating_sub(1);
            let item = self.missing(segment.header.ordinal, last_seq);
            return Some(Ok(Next::Item(item)));
        }
        self.place += 1;
        let item = match read {
            Err(fault) => self.unreadable(*name, path, fault.to_string()),
            Ok(segment) => match self.rejection(*name, segment) {
                Some(problem) => self.rejected(path, segment, problem),
                None => return Some(self.open(path, segment).map(Next::Segment)),
            },
        };
        Some(Ok(Next::Item(item)))
    }

    /// Why a segment whose header is intact has no place in the row, if so.
    fn rejection(&self, name: SegmentName, segment: &Segment) -> Option<String> {
        let header = &segment.header;
        if header.name() == name && header.ordinal < self.expected {
            return Some(format!("there is another segment {} already", header.ordinal));
        }
        if self.reader.head().is_some_and(|head| head.ledger != header.ledger) {
            return Some("the segment belongs to another ledger".to_owned());
        }
        let segments = &self.reader.segments;
        let is_first = header.ordinal == segments.beginning.ordinal;
        if header.name() == name && !is_first && self.previous.is_none() {
            return None;
        }
        segments.link_problem(name, header.ordinal, self.previous, segment)
    }

    /// An intact file that is not what its name, or its place, says. Its records belong somewhere
    /// else: what is missing because of it is named when the row turns out to have a gap.
    fn rejected(&mut self, path: &Path, segment: &Segment, what: String) -> Beside {
        self.damage(path, segment.length, self.next_seq.saturating_sub(1), what)
    }

    /// A file whose header is damaged, and with it all of its records.
    fn unreadable(&mut self, name: SegmentName, path: &Path, what: String) -> Beside {
        if self.reader.segments.with_ordinal(name.ordinal).is_some() {
            return self.damage(path, 0, self.next_seq.saturating_sub(1), what);
        }
        let next = self.reader.segments.list.get(self.place);
        let head = self.reader.head().map_or(0, |head| head.durable_seq);
        let last_seq = next.map_or(head, |(name, _, _)| name.base_seq.saturating_sub(1));
        self.expected = name.ordinal.saturating_add(1);
        self.before = Before::Damage;
        self.previous = None;
        // Whether this one was sealed, and so had a successor, it can no longer say.
        self.is_sealed = false;
        self.damage(path, 0, last_seq, what)
    }

    /// There is a gap in the row before the segment `ordinal`.
    fn missing(&mut self, ordinal: u64, last_seq: u64) -> Beside {
        let last = ordinal.saturating_sub(1);
        let is_first = self.expected == self.reader.segments.beginning.ordinal;
        let note = if is_first { NO_NOTE } else { "" };
        let what = if last > self.expected {
            format!("segments {} to {last} are missing{note}", self.expected)
        } else {
            format!("segment {last} is missing{note}")
        };
        self.expected = ordinal;
        self.before = Before::Damage;
        self.previous = None;
        self.damage(&self.reader.segments.folder, 0, last_seq, what)
    }

    /// The row ends before HEAD does, or before its last segment says that it does.
    fn missing_at_end(&mut self) -> Option<Beside> {
        self.is_over = true;
        if self.reader.segments.ending.is_some() {
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
        let what = "there is no segment, though a ledger always has one".to_owned();
        is_empty.then(|| self.damage(folder, 0, 0, what))
    }

    /// Damage from the next record on up to `last_seq`, in a file as a whole.
    fn damage(&mut self, path: &Path, end: u64, last_seq: u64, what: String) -> Beside {
        let first_seq = self.next_seq;
        self.next_seq = first_seq.max(last_seq.saturating_add(1));
        Item::Damage(Damage { path: path.to_owned(), offset: 0, end, first_seq, last_seq, what })
    }

    fn open(&mut self, path: &'a Path, segment: &'a Segment) -> Result<Opened<'a>> {
        let header = &segment.header;
        let seal = self.reader.seal(path, segment)?;
        let extent = self.extent(segment, &seal);
        let follows = match self.before {
            Before::Anchor => true,
            Before::Record(seq, chain) => seq == header.base_seq && chain == header.prev_chain,
            Before::Damage => false,
        };
        let proof = if follows { Proof::Proven } else { Proof::BehindDamage };
        let segments = &self.reader.segments;
        let is_newest = self.place >= segments.list.len() && segments.ending.is_none();
        self.expected = header.ordinal.saturating_add(1);
        self.previous = Some(segment);
        self.next_seq = header.base_seq;
        self.is_sealed = matches!(seal, Seal::Whole(_));
        Ok(Opened { reader: self.reader, path, segment, extent, seal, proof, is_newest })
    }

    /// How far a segment is known to be acknowledged. `place` is behind it already.
    fn extent(&self, segment: &Segment, seal: &Seal) -> Extent {
        let (header, segments) = (&segment.header, &self.reader.segments);
        let source = ExtentSource::Known;
        if let Some(next) = segments.successor(header) {
            let (end, last_seq) = (next.prev_data_end, next.prev_last_seq);
            return Extent { end, last_seq, chain: Some(next.prev_chain), source };
        }
        if let Seal::Whole(footer) = seal {
            let (end, last_seq) = (footer.data_end, footer.last_seq);
            return Extent { end, last_seq, chain: Some(footer.chain_last), source };
        }
        let born = born(header);
        let head = self.reader.head();
        match head.filter(|head| head.segment == header.segment) {
            Some(head) if head.durable_seq >= born.last_seq => {
                let (end, last_seq) = (head.data_end, head.durable_seq);
                return Extent { end, last_seq, chain: Some(head.chain), source };
            }
            Some(_) => return born,
            None => {}
        }
        let Some(next) = segments.list.get(self.place) else { return born };
        // A damaged file still has its name, and what is intact further on its header. What
        // lies behind this record is not in this segment.
        let named = Some(next)
            .filter(|(name, _, read)| {
                read.is_err() && Some(name.ordinal) == header.ordinal.checked_add(1)
            })
            .map(|(name, _, _)| name.base_seq)
            .filter(|base| *base >= header.base_seq);
        let intact = segments.list.iter().skip(self.place).find_map(good);
        let base = named.or(intact.map(|segment| segment.header.base_seq));
        let bound = base.map(|base| base.saturating_sub(1)).or(head.map(|head| head.durable_seq));
        let last_seq = bound.unwrap_or(u64::MAX);
        Extent { end: segment.length, last_seq, chain: None, source: ExtentSource::Guessed }
    }

    /// Turn away from a segment that was read, or that will be read later.
    pub(super) fn closed(&mut self, before: Before, next_seq: u64) {
        self.before = before;
        self.next_seq = self.next_seq.max(next_seq);
    }
}

/// What a segment's own header knows to be durable in it.
fn born(header: &SegmentHeader) -> Extent {
    Extent {
        end: header.born_end.max(DATA_START),
        last_seq: header.born_last.max(header.base_seq.saturating_sub(1)),
        chain: None,
        source: ExtentSource::Known,
    }
}

impl Opened<'_> {
    /// Its file, for reading.
    pub(super) fn file(&self) -> io::Result<Box<dyn StorageFile>> {
        self.reader.storage.open(self.path, Access::Read)
    }

    /// The records of the segment, from its start.
    pub(super) fn walk(&self) -> Result<SegmentWalk> {
        let Segment { header, length, .. } = self.segment;
        let io = |what, error| Error::io(what, self.path, error);
        let file = self.file().map_err(|error| io("open the segment", error))?;
        // What is still going to be sealed is being written to behind its data.
        let is_settled = !self.is_newest && self.seal.is_settled();
        let source = if is_settled && self.reader.access == Superseded::Mapped {
            Source::Mapped(file.map().map_err(|error| io("map the segment", error))?)
        } else {
            Source::windowed(file)
        };
        let is_open = self.is_newest && !matches!(self.seal, Seal::Whole(_));
        let end = if is_open { self.extent.end.max(*length) } else { self.extent.end };
        let mut scan = Scan::new(source, header, end);
        scan.links = self.reader.links;
        Ok(SegmentWalk::new(scan, self.path, header, self.extent, self.proof))
    }

    /// What is wrong with the segment, and costs no record: a header that its footer replaces.
    pub(super) fn damaged_header(&self) -> Option<Beside> {
        let fault = self.segment.fault.as_ref()?;
        let base_seq = self.segment.header.base_seq;
        Some(Item::Damage(Damage {
            path: self.path.to_owned(),
            offset: 0,
            end: DATA_START,
            first_seq: base_seq,
            last_seq: base_seq.saturating_sub(1),
            what: format!("{fault}; the segment is read with the header that its footer repeats"),
        }))
    }

    /// What follows a segment's records, in order: its end, if that is not where it should be;
    /// its index or footer, if they do not hold; its length.
    pub(super) fn trailer(&self, ending: Option<Beside>) -> Result<Vec<Beside>> {
        let is_whole = ending.is_none();
        let mut items: Vec<_> = ending.into_iter().collect();
        items.extend(self.derived()?.map(Item::Derived));
        items.extend(self.wrong_length().filter(|_| is_whole));
        Ok(items)
    }

    /// The newest file has the length that it was made with. A part that is gone, or new, may
    /// have held nothing that counts; the writer refuses all the same.
    fn wrong_length(&self) -> Option<Beside> {
        let Segment { header, length, .. } = self.segment;
        let expected = header.prealloc_len;
        let is_wrong = self.is_newest && *length != expected;
        if !is_wrong || matches!(self.seal, Seal::Whole(_)) {
            return None;
        }
        let last_seq = self.extent.last_seq;
        Some(Item::Damage(Damage {
            path: self.path.to_owned(),
            offset: 0,
            end: *length,
            first_seq: last_seq.saturating_add(1),
            last_seq,
            what: format!("expected a file of {expected} bytes, found {length}"),
        }))
    }

    /// What the end of the segment will turn out to be, if that is known before it is read.
    pub(super) fn expected_ending(&self) -> Option<(Before, u64)> {
        (self.extent.source == ExtentSource::Known).then(|| {
            let next_seq = self.extent.last_seq.saturating_add(1);
            let before = self.extent.chain.map(|chain| Before::Record(next_seq, chain));
            (before.unwrap_or(Before::Anchor), next_seq)
        })
    }
}

/// What a row is told of a segment's end.
pub(super) fn told(ending: &Ending) -> (Before, u64) {
    (ending.before, ending.next_seq)
}
