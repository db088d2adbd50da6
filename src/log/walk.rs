//! Walking over a whole log, record by record, naming damage and going on behind it.

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::format::{Chain, Codec, FrameFault, SegmentHeader};
use crate::storage::Access;

use super::layout::DATA_START;
use super::open::damaged;
use super::reader::{LogReader, Segment, Superseded, link_problem};
use super::scan::{Found, Position, Scan, Source};

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
    next_segment: usize,
    current: Option<Current>,
    /// What the next segment must follow from.
    before: Before,
}

/// What is known of the records before a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// Nothing was looked at: the first header looked at is the anchor.
    Anchor,
    /// The last record, by the sequence number behind it and its chain value.
    Record(u64, Chain),
    /// Damage.
    Damage,
}

#[derive(Debug)]
struct Current {
    scan: Scan,
    path: PathBuf,
    at: Position,
    /// Behind the last acknowledged record that was read.
    durable_at: Position,
    /// Everything before this offset was acknowledged.
    durable_end: u64,
    /// The last sequence number that was acknowledged in this segment, as far as it is known.
    last_seq: u64,
    /// The chain value that the successor, or HEAD, says the last record has.
    last_chain: Option<Chain>,
    proof: Proof,
}

impl<'a> Walk<'a> {
    pub(super) fn new(reader: &'a LogReader, from: u64) -> Self {
        let from = from.max(1);
        // Start in the last segment that begins at or before the record.
        let starts = reader.segments.list.iter().map(|(name, _, _)| name.base_seq);
        let next_segment = starts.take_while(|base| *base <= from).count().saturating_sub(1);
        let before =
            if next_segment == 0 { Before::Record(1, Chain::GENESIS) } else { Before::Anchor };
        Self { reader, from, next_segment, current: None, before }
    }

    /// Turn to the next segment: its items follow, or one that says why there are none.
    fn open_next(&mut self) -> Option<Result<Option<Item>>> {
        let place = self.next_segment;
        let (name, path, read) = self.reader.segments.list.get(place)?;
        self.next_segment += 1;
        let ordinal = u64::try_from(place).unwrap_or(u64::MAX);
        let previous = place
            .checked_sub(1)
            .and_then(|before| self.reader.segments.list.get(before))
            .and_then(|(_, _, read)| read.as_ref().ok());
        let problem = match read {
            Err(fault) => Some(fault.to_string()),
            Ok(segment) if place == 0 || previous.is_some() => {
                link_problem(*name, ordinal, previous, segment)
            }
            Ok(_) => None,
        };
        let (Ok(segment), None) = (read, &problem) else {
            let damage = Damage {
                path: path.clone(),
                offset: 0,
                end: read.as_ref().map_or(0, |segment| segment.length),
                first_seq: name.base_seq,
                last_seq: self.last_seq_of(place),
                what: problem.unwrap_or_default(),
            };
            self.before = Before::Damage;
            return Some(Ok(Some(Item::Damage(damage))));
        };
        Some(self.start(place, path.clone(), segment).map(|()| None))
    }

    fn start(&mut self, place: usize, path: PathBuf, segment: &Segment) -> Result<()> {
        let header = &segment.header;
        let (durable_end, last_seq, last_chain) = self.extent(place, header);
        let storage = &self.reader.storage;
        let io = |what, error| Error::io(what, &path, error);
        let file =
            storage.open(&path, Access::Read).map_err(|error| io("open the segment", error))?;
        let is_newest = place + 1 == self.reader.segments.list.len();
        let source = if is_newest || self.reader.access == Superseded::Windowed {
            Source::windowed(file)
        } else {
            Source::Mapped(file.map().map_err(|error| io("map the segment", error))?)
        };
        let end = if is_newest { segment.length.max(durable_end) } else { durable_end };
        let follows = match self.before {
            Before::Anchor => true,
            Before::Record(seq, chain) => seq == header.base_seq && chain == header.prev_chain,
            Before::Damage => false,
        };
        let proof = if follows { Proof::Proven } else { Proof::BehindDamage };
        let at = Position {
            offset: DATA_START,
            next_seq: header.base_seq,
            chain: Some(header.prev_chain),
        };
        let scan = Scan::new(source, header, end);
        let durable_at = at;
        self.current =
            Some(Current { scan, path, at, durable_at, durable_end, last_seq, last_chain, proof });
        Ok(())
    }

    /// How far a segment is known to be acknowledged: offset, sequence number, chain value.
    fn extent(&self, place: usize, header: &SegmentHeader) -> (u64, u64, Option<Chain>) {
        let successor = self.reader.segments.list.get(place + 1);
        if let Some((_, _, Ok(next))) = successor
            && next.header.prev_segment == header.segment
        {
            let next = &next.header;
            return (next.prev_data_end, next.prev_last_seq, Some(next.prev_chain));
        }
        let born = (
            header.born_end.max(DATA_START),
            header.born_last.max(header.base_seq.saturating_sub(1)),
            None,
        );
        match self.reader.head() {
            Some(head) if head.segment == header.segment && head.durable_seq >= born.1 => {
                (head.data_end, head.durable_seq, Some(head.chain))
            }
            _ => born,
        }
    }

    fn last_seq_of(&self, place: usize) -> u64 {
        let own = self.reader.segments.list.get(place).map_or(0, |(name, _, _)| name.base_seq);
        let next = self.reader.segments.list.get(place + 1);
        let head = self.reader.head().map_or(0, |head| head.durable_seq);
        next.map_or(head, |(name, _, _)| name.base_seq.saturating_sub(1)).max(own.saturating_sub(1))
    }

    /// The next item of the current segment; `None` at its end.
    fn step(current: &mut Current) -> Result<Option<Item>> {
        let read = |error| Error::io("read a record", &current.path, error);
        let mut at = current.at;
        if at.offset >= current.scan.end {
            return Ok(None);
        }
        let is_durable = at.offset < current.durable_end;
        match current.scan.next(&mut at).map_err(|error| read(error).at_offset(at.offset))? {
            Ok(found) => {
                let proof = if is_durable { current.proof } else { Proof::Unproven };
                current.at = at;
                if is_durable {
                    current.durable_at = at;
                }
                Ok(Some(Item::Record(logged(found, current.scan.ordinal()), proof)))
            }
            Err(FrameFault::Empty | FrameFault::Cut) if !is_durable => {
                current.at.offset = current.scan.end;
                Ok(None)
            }
            Err(fault) if !is_durable => {
                let offset = current.at.offset;
                current.at.offset = current.scan.end;
                Ok(Some(Item::OpenEnd { path: current.path.clone(), offset, fault }))
            }
            Err(fault) => Self::skip_damage(current, fault).map(Some),
        }
    }

    /// Find the next readable record behind damage, and say what lies between.
    fn skip_damage(current: &mut Current, fault: FrameFault) -> Result<Item> {
        let start = current.at;
        let limit = current.durable_end;
        let read = |error| Error::io("read a record", &current.path, error);
        let found = current
            .scan
            .find(start.offset + 64, |frame| frame.stamp.seq > start.next_seq)
            .map_err(|error| read(error).at_offset(start.offset))?
            .filter(|found| found.offset < limit);
        let (end, next_seq) = match &found {
            Some(found) => (found.offset, found.header.stamp.seq),
            None => (limit, current.last_seq.max(start.next_seq - 1) + 1),
        };
        current.proof = Proof::BehindDamage;
        current.at = Position { offset: end, next_seq, chain: None };
        current.durable_at = current.at;
        Ok(Item::Damage(Damage {
            path: current.path.clone(),
            offset: start.offset,
            end,
            first_seq: start.next_seq,
            last_seq: next_seq - 1,
            what: fault.describe().to_owned(),
        }))
    }

    /// At a segment's end: is it where, and what, its successor or HEAD says?
    fn finish(&mut self) -> Option<Item> {
        let current = self.current.take()?;
        let Current { durable_at: at, durable_end, last_seq, last_chain, proof, path, .. } =
            current;
        self.before = match (proof, at.chain) {
            (Proof::Proven, Some(chain)) => Before::Record(at.next_seq, chain),
            _ => Before::Damage,
        };
        let is_reached = at.next_seq == last_seq + 1 && at.offset == durable_end;
        let is_same = last_chain.is_none() || at.chain == last_chain;
        if proof == Proof::BehindDamage || (is_reached && is_same) {
            return None;
        }
        let what = if is_reached {
            "the last record is not the one that the successor, or HEAD, names"
        } else {
            "acknowledged records are missing at the end of the segment"
        };
        self.before = Before::Damage;
        Some(Item::Damage(Damage {
            path,
            offset: at.offset.min(durable_end),
            end: durable_end,
            first_seq: at.next_seq.min(last_seq),
            last_seq,
            what: what.to_owned(),
        }))
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<Item>;

    fn next(&mut self) -> Option<Result<Item>> {
        loop {
            let Some(current) = &mut self.current else {
                match self.open_next()? {
                    Ok(None) => continue,
                    Ok(Some(item)) => return Some(Ok(item)),
                    Err(error) => {
                        self.next_segment = usize::MAX;
                        return Some(Err(error));
                    }
                }
            };
            match Self::step(current) {
                Ok(Some(Item::Record(record, _))) if record.seq < self.from => {}
                Ok(Some(item)) => return Some(Ok(item)),
                Ok(None) => {
                    if let Some(item) = self.finish() {
                        return Some(Ok(item));
                    }
                }
                Err(error) => {
                    self.current = None;
                    self.next_segment = usize::MAX;
                    return Some(Err(error));
                }
            }
        }
    }
}

fn logged(found: Found, segment: u64) -> LoggedRecord {
    let stamp = found.header.stamp;
    LoggedRecord {
        seq: stamp.seq,
        time: stamp.time,
        kind: found.header.kind,
        codec: found.header.codec,
        schema: found.header.schema,
        batch_left: stamp.batch_left,
        payload: found.payload,
        chain: found.chain,
        segment,
        offset: found.offset,
        size: found.size,
    }
}
