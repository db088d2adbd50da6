//! Walking over a whole log, record by record, naming damage and going on behind it.
//!
//! Invariants: what is not served is named; an index only says where to look, and what is found
//! there is checked like everything else.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::format::{Chain, Codec, FrameFault};

use super::open::damaged;
use super::reader::LogReader;
use super::row::{Next, Opened, Row, told};
use super::segment_walk::{Passed, SegmentWalk};

/// A record and where it stands. Its payload is its own, or one that is looked at in passing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedRecord<P = Vec<u8>> {
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
    pub payload: P,
    /// Chain value.
    pub chain: Chain,
    /// Ordinal of the segment.
    pub segment: u64,
    /// Offset of the frame in it, in bytes.
    pub offset: u64,
    /// Size of the frame, in bytes.
    pub size: u64,
}

impl<P> LoggedRecord<P> {
    /// The record with its payload in another form.
    fn with<Q>(self, change: impl FnOnce(P) -> Q) -> LoggedRecord<Q> {
        let Self { seq, time, kind, codec, schema, batch_left, payload, .. } = self;
        let Self { chain, segment, offset, size, .. } = self;
        let payload = change(payload);
        LoggedRecord {
            seq,
            time,
            kind,
            codec,
            schema,
            batch_left,
            payload,
            chain,
            segment,
            offset,
            size,
        }
    }
}

impl LoggedRecord<&[u8]> {
    /// The record with a payload of its own.
    #[must_use]
    pub fn into_owned(self) -> LoggedRecord {
        self.with(<[u8]>::to_vec)
    }

    /// Keep the record in the place of another, whose room for a payload is used again.
    pub fn keep(self, place: &mut Option<LoggedRecord>) {
        let mut room = place.take().map(|before| before.payload).unwrap_or_default();
        *place = Some(self.with(|payload| {
            room.clear();
            room.extend_from_slice(payload);
            room
        }));
    }
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
pub enum Item<P = Vec<u8>> {
    /// A record.
    Record(LoggedRecord<P>, Proof),
    /// Acknowledged bytes that cannot be read.
    Damage(Damage),
    /// An index or a footer that does not hold. It costs no record: the segment was read without.
    Derived(DerivedDamage),
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

impl<P> Item<P> {
    /// The item with the payload of its record in another form.
    fn map<Q>(self, change: impl FnOnce(P) -> Q) -> Item<Q> {
        match self {
            Self::Record(record, proof) => Item::Record(record.with(change), proof),
            Self::Damage(damage) => Item::Damage(damage),
            Self::Derived(damage) => Item::Derived(damage),
            Self::OpenEnd { path, offset, fault } => Item::OpenEnd { path, offset, fault },
        }
    }
}

/// An item that is no record.
pub(super) type Beside = Item<Infallible>;

impl Beside {
    /// The item, where records are, too.
    pub(super) fn among_records<P>(self) -> Item<P> {
        self.map(|payload| match payload {})
    }
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

/// Bytes that follow from records, and are damaged: an index or a footer. Every record can be read
/// all the same, and writing goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DerivedDamage {
    /// The segment's file.
    pub path: PathBuf,
    /// Where the index or the footer starts, in bytes.
    pub offset: u64,
    /// Where it ends.
    pub end: u64,
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
    row: Row<'a>,
    from: u64,
    current: Option<(Opened<'a>, SegmentWalk)>,
    /// Whether a segment without an index is walked over first to find places in it.
    looks_ahead: LooksAhead,
    /// What comes before anything else: no records.
    ready: VecDeque<Beside>,
    is_over: bool,
}

/// What a walk does before it reads a segment that has no index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LooksAhead {
    /// Nothing: it reads from the start.
    No,
    /// It finds places in it, and keeps them for the next walk.
    Once,
}

impl<'a> Walk<'a> {
    pub(super) fn new(reader: &'a LogReader, from: u64) -> Self {
        let from = from.max(1);
        let (row, ready) = (Row::new(reader, from), VecDeque::new());
        let looks_ahead = LooksAhead::No;
        Self { reader, row, from, current: None, looks_ahead, ready, is_over: false }
    }

    /// A walk for one record of many that are asked for in any order.
    pub(super) fn with_places(reader: &'a LogReader, from: u64) -> Self {
        Self { looks_ahead: LooksAhead::Once, ..Self::new(reader, from) }
    }

    /// Turn to the next segment. `None` when there is no more.
    fn turn(&mut self) -> Result<Option<()>> {
        match self.row.next().transpose()? {
            None => return Ok(None),
            Some(Next::Item(item)) => self.ready.push_back(item),
            Some(Next::Segment(opened)) => {
                self.ready.extend(opened.damaged_header());
                if self.looks_ahead == LooksAhead::Once {
                    self.reader.places(&opened, self.from)?;
                }
                let mut walk = opened.walk()?;
                self.reader.seek(&opened, &mut walk, self.from)?;
                self.current = Some((opened, walk));
            }
        }
        Ok(Some(()))
    }

    /// Turn away from a segment that was read.
    fn close(&mut self) -> Result<()> {
        if let Some((opened, walk)) = self.current.take() {
            let ending = walk.finish();
            let (before, next_seq) = told(&ending);
            self.row.closed(before, next_seq);
            self.ready.extend(opened.trailer(ending.item)?);
        }
        Ok(())
    }

    /// Go on to the next item, or to where there may be one after another step.
    fn step(&mut self) -> Result<Option<Passed>> {
        if let Some(item) = self.ready.pop_front() {
            return Ok(Some(Passed::Beside(Box::new(item))));
        }
        let Some((_, walk)) = &mut self.current else {
            self.is_over = self.turn()?.is_none();
            return Ok(None);
        };
        let is_before = walk.next_seq() < self.from;
        let passed = walk.pass()?;
        match passed {
            None => self.close()?,
            Some(Passed::Record(_)) if is_before => return Ok(None),
            Some(_) => {}
        }
        Ok(passed)
    }

    /// Up to which record everything had been durable when the one that was passed last was written,
    /// as that one says itself; 0 where none was passed.
    pub(super) fn durable_before(&self) -> u64 {
        self.current.as_ref().map_or(0, |(_, walk)| walk.durable_before())
    }

    /// The next item, as a record is seen in passing: its payload is not copied, and is gone when
    /// the walk goes on.
    ///
    /// # Errors
    /// As [`Walk::next`]: none follows.
    #[expect(clippy::inline_always, reason = "what is handed on by value is copied, then read")]
    #[inline(always)]
    pub fn pass(&mut self) -> Option<Result<Item<&[u8]>>> {
        let passed = loop {
            if self.is_over {
                return None;
            }
            match self.step() {
                Ok(None) => {}
                Ok(Some(passed)) => break passed,
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
            }
        };
        match passed {
            Passed::Beside(item) => Some(Ok(item.among_records())),
            Passed::Record(proof) => {
                let (_, walk) = self.current.as_ref()?;
                Some(Ok(Item::Record(walk.record(), proof)))
            }
        }
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<Item>;

    fn next(&mut self) -> Option<Result<Item>> {
        let item = self.pass()?;
        Some(item.map(|item| item.map(<[u8]>::to_vec)))
    }
}
