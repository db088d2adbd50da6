//! Walking over a whole log, record by record, naming damage and going on behind it.
//!
//! A segment that is missing, unreadable or not what its name says costs its own records and no
//! others. Left out on purpose: the records of a segment whose header is damaged (its successor
//! still knows the uid that they are checked with, so this can come later).

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::{Chain, Codec, FrameFault, SegmentHeader, SegmentName};
use crate::storage::Access;

use super::layout::DATA_START;
use super::open::damaged;
use super::reader::{Entry, LogReader, Segment, Superseded, good, link_problem};
use super::scan::{Scan, Source};
use super::segment_walk::{Extent, ExtentSource, SegmentWalk};

/// A record and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedRecord {
    /// Sequence number.
    pub seq: u64,
    /// Microseconds since the Unix epoch.
    pub time: u64,
    /// What the payload is.
    pub kind: u16,
    /// How it is encoded.
    pub codec: Codec,
    /// Version of its layout.
    pub schema: u16,
    /// Records of the same batch that follow.
    pub batch_left: u16,
    /// The bytes.
    pub payload: Vec<u8>,
    /// Chain value.
    pub chain: Chain,
    /// Ordinal of the segment.
    pub segment: u64,
    /// Offset of the frame in it, in bytes.
    pub offset: u64,
    /// Size of the frame, in bytes.
    pub size: u64,
}

/// How much is known about a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// It is durable, and follows from the record before.
    Proven,
    /// It is intact, but the record before it is damaged or missing.
    BehindDamage,
    /// It is intact, but stands beyond what HEAD says is durable.
    Unproven,
}

/// Something that a walk comes upon.
#[derive(Debug)]
pub enum Item {
    /// A record.
    Record(LoggedRecord, Proof),
    /// Acknowledged bytes that cannot be read.
    Damage(Damage),
    /// Bytes beyond the durable end that are no whole record: a write that is going on, or that
    /// a crash cut short.
    OpenEnd {
        /// The segment's file.
        path: PathBuf,
        /// Where they start.
        offset: u64,
        /// Why they are no record.
        fault: FrameFault,
    },
}

/// Acknowledged bytes that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The segment's file.
    pub path: PathBuf,
    /// Where the damage starts, in bytes.
    pub offset: u64,
    /// Where the next readable record, or the segment's logical end, is.
    pub end: u64,
    /// The first record that is missing.
    pub first_seq: u64,
    /// The last record that is missing, as far as it is known; less than `first_seq` for none.
    pub last_seq: u64,
    /// What is wrong.
    pub what: String,
}

impl Damage {
    /// The damage as an error.
    #[must_use]
    pub fn into_error(self) -> Error {
        let what = if self.last_seq > self.first_seq {
            format!(
                "{} (records {} to {} cannot be read)",
                self.what, self.first_seq, self.last_seq
            )
        } else {
            self.what
        };
        damaged(&self.path, self.offset, self.first_seq, &what)
    }
}

/// The items of a log, in order.
#[derive(Debug)]
pub struct Walk<'a> {
    reader: &'a LogReader,
    from: u64,
    /// Place of the next segment in the list.
    place: usize,
    /// The ordinal that it should have.
    expected: u64,
    /// The sequence number behind what was yielded, or named as missing.
    next_seq: u64,
    current: Option<SegmentWalk>,
    /// The last segment, if it is the one before `expected`.
    previous: Option<&'a Segment>,
    /// What the next segment must follow from.
    before: Before,
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

impl<'a> Walk<'a> {
    pub(super) fn new(reader: &'a LogReader, from: u64) -> Self {
        let from = from.max(1);
        // Start in the last good segment that begins at or before the record.
        let list = &reader.segments.list;
        let starts = |entry: &Entry| good(entry).is_some_and(|each| each.header.base_seq <= from);
        let start = list.iter().enumerate().rfind(|(_, entry)| starts(entry));
        let start = start.and_then(|(place, entry)| Some((place, &good(entry)?.header)));
        let (place, expected, next_seq, before) = match start {
            Some((place, header)) if header.ordinal > 0 => {
                (place, header.ordinal, header.base_seq, Before::Anchor)
            }
            _ => (0, 0, 1, Before::Record(1, Chain::GENESIS)),
        };
        let (current, previous, is_over) = (None, None, false);
        Self { reader, from, place, expected, next_seq, current, previous, before, is_over }
    }

    /// Turn to the next segment: its items follow, or one that says why there are none.
    fn open_next(&mut self) -> Option<Result<Option<Item>>> {
        let Some(entry) = self.reader.segments.list.get(self.place) else {
            return self.missing_at_end().map(|item| Ok(Some(item)));
        };
        let (name, path, read) = entry;
        if let Some(segment) = good(entry)
            && segment.header.ordinal > self.expected
        {
            let last_seq = segment.header.base_seq.saturating_sub(1);
            return Some(Ok(Some(self.missing(segment.header.ordinal, last_seq))));
        }
        self.place += 1;
        let item = match read {
            Err(fault) => self.unreadable(*name, path, fault.to_string()),
            Ok(segment) => match self.rejection(*name, segment) {
                Some(problem) => self.rejected(path, segment, problem),
                None => return Some(self.start(path, segment).map(|()| None)),
            },
        };
        Some(Ok(Some(item)))
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
        if header.name() == name && header.ordinal > 0 && self.previous.is_none() {
            return None;
        }
        link_problem(name, header.ordinal, self.previous, segment)
    }

    /// An intact file that is not what its name, or its place, says. Its records belong somewhere
    /// else: what is missing because of it is named when the row turns out to have a gap.
    fn rejected(&mut self, path: &Path, segment: &Segment, what: String) -> Item {
        self.damage(path, segment.length, self.next_seq.saturating_sub(1), what)
    }

    /// A file whose header is damaged, and with it all of its records.
    fn unreadable(&mut self, name: SegmentName, path: &Path, what: String) -> Item {
        if self.reader.segments.with_ordinal(name.ordinal).is_some() {
            return self.damage(path, 0, self.next_seq.saturating_sub(1), what);
        }
        let next = self.reader.segments.list.get(self.place);
        let head = self.reader.head().map_or(0, |head| head.durable_seq);
        let last_seq = next.map_or(head, |(name, _, _)| name.base_seq.saturating_sub(1));
        self.expected = name.ordinal.saturating_add(1);
        self.before = Before::Damage;
        self.previous = None;
        self.damage(path, 0, last_seq, what)
    }

    /// There is a gap in the row before the segment `ordinal`.
    fn missing(&mut self, ordinal: u64, last_seq: u64) -> Item {
        let last = ordinal.saturating_sub(1);
        let what = if last > self.expected {
            format!("segments {} to {last} are missing", self.expected)
        } else {
            format!("segment {last} is missing")
        };
        self.expected = ordinal;
        self.before = Before::Damage;
        self.previous = None;
        self.damage(&self.reader.segments.folder, 0, last_seq, what)
    }

    /// The row ends before HEAD does.
    fn missing_at_end(&mut self) -> Option<Item> {
        self.is_over = true;
        if let Some(head) = self.reader.head()
            && head.ordinal >= self.expected
        {
            return Some(self.missing(head.ordinal.saturating_add(1), head.durable_seq));
        }
        let is_empty = self.reader.segments.list.is_empty();
        let what = "there is no segment, though a ledger always has one".to_owned();
        is_empty.then(|| self.damage(&self.reader.segments.folder, 0, 0, what))
    }

    /// Damage from the next record on up to `last_seq`, in a file as a whole.
    fn damage(&mut self, path: &Path, end: u64, last_seq: u64, what: String) -> Item {
        let first_seq = self.next_seq;
        self.next_seq = first_seq.max(last_seq.saturating_add(1));
        Item::Damage(Damage { path: path.to_owned(), offset: 0, end, first_seq, last_seq, what })
    }

    fn start(&mut self, path: &Path, segment: &'a Segment) -> Result<()> {
        let header = &segment.header;
        let extent = self.extent(segment);
        let storage = &self.reader.storage;
        let io = |what, error| Error::io(what, path, error);
        let file =
            storage.open(path, Access::Read).map_err(|error| io("open the segment", error))?;
        let is_newest = self.place >= self.reader.segments.list.len();
        let source = if is_newest || self.reader.access == Superseded::Windowed {
            Source::windowed(file)
        } else {
            Source::Mapped(file.map().map_err(|error| io("map the segment", error))?)
        };
        let end = if is_newest { segment.length.max(extent.end) } else { extent.end };
        let follows = match self.before {
            Before::Anchor => true,
            Before::Record(seq, chain) => seq == header.base_seq && chain == header.prev_chain,
            Before::Damage => false,
        };
        let proof = if follows { Proof::Proven } else { Proof::BehindDamage };
        let mut scan = Scan::new(source, header, end);
        scan.links = self.reader.links;
        self.current = Some(SegmentWalk::new(scan, path, header, extent, proof));
        self.expected = header.ordinal.saturating_add(1);
        self.previous = Some(segment);
        self.next_seq = header.base_seq;
        Ok(())
    }

    /// How far a segment is known to be acknowledged. `place` is behind it already.
    fn extent(&self, segment: &Segment) -> Extent {
        let (header, segments) = (&segment.header, &self.reader.segments);
        let source = ExtentSource::Known;
        if let Some(next) = segments.successor(header) {
            let (end, last_seq) = (next.prev_data_end, next.prev_last_seq);
            return Extent { end, last_seq, chain: Some(next.prev_chain), source };
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

    /// Turn away from a segment, whose end may be missing.
    fn close(&mut self) -> Option<Item> {
        let ending = self.current.take()?.finish();
        self.before = ending.before;
        self.next_seq = self.next_seq.max(ending.next_seq);
        ending.item.or_else(|| self.wrong_length())
    }

    /// The newest file has the length that it was made with. A part that is gone, or new, may
    /// have held nothing that counts; the writer refuses all the same.
    fn wrong_length(&mut self) -> Option<Item> {
        let is_newest = self.place >= self.reader.segments.list.len();
        let Segment { header, length } = self.previous.filter(|_| is_newest)?;
        let (_, path, _) = self.reader.segments.list.last()?;
        let expected = header.prealloc_len;
        let what = format!("expected a file of {expected} bytes, found {length}");
        let last_seq = self.next_seq.saturating_sub(1);
        (*length != expected).then(|| self.damage(path, *length, last_seq, what))
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

impl Iterator for Walk<'_> {
    type Item = Result<Item>;

    fn next(&mut self) -> Option<Result<Item>> {
        while !self.is_over {
            let item = match &mut self.current {
                None => self.open_next()?,
                Some(current) => match current.step() {
                    Ok(None) => Ok(self.close()),
                    Ok(Some(Item::Record(record, _))) if record.seq < self.from => continue,
                    stepped => stepped,
                },
            };
            match item {
                Ok(None) => {}
                Ok(Some(item)) => return Some(Ok(item)),
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}
