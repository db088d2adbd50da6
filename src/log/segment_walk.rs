//! Walking over the records of one segment, naming damage and going on behind it.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::{Chain, FrameFault, SegmentHeader};

use super::row::Before;
use super::scan::{Found, Position, Scan};
use super::walk::{Beside, Damage, Item, LoggedRecord, Proof};

/// How far a segment is known to be acknowledged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    /// Everything before this offset was acknowledged.
    pub(super) end: u64,
    /// The last sequence number that was.
    pub(super) last_seq: u64,
    /// Its chain value, as the successor, or HEAD, says.
    pub(super) chain: Option<Chain>,
    pub(super) source: ExtentSource,
}

/// How an extent is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExtentSource {
    /// From the successor's header, HEAD or the segment's own header: exactly.
    Known,
    /// The successor is damaged or missing: `last_seq` is before whatever comes next, and `end`
    /// is the end of the file. What is missing is named with the successor.
    Guessed,
}

/// The items of one segment.
#[derive(Debug)]
pub(super) struct SegmentWalk {
    scan: Scan,
    path: PathBuf,
    at: Position,
    /// Behind the last acknowledged record that was read, if that is not where it stands.
    durable_at: Option<Position>,
    extent: Extent,
    proof: Proof,
}

/// What a walk came by.
#[derive(Debug)]
pub(super) enum Passed {
    /// A record: see [`SegmentWalk::record`].
    Record(Proof),
    /// What is no record. In a box, since records are many and these are few.
    Beside(Box<Beside>),
}

/// A place in a segment from which one can go on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) at: Position,
    pub(super) durable_at: Position,
    pub(super) proof: Proof,
    pub(super) source: Told,
}

/// Who says that a record begins at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// An index, which may be wrong.
    ByIndex,
    /// A walk that was there.
    ByScan,
}

/// What is known at a segment's end.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) before: Before,
    pub(super) next_seq: u64,
    /// What is wrong there.
    pub(super) item: Option<Beside>,
}

impl SegmentWalk {
    pub(super) fn new(
        scan: Scan,
        path: &Path,
        header: &SegmentHeader,
        extent: Extent,
        proof: Proof,
    ) -> Self {
        let at = Position::start(header);
        Self { scan, path: path.to_owned(), at, durable_at: None, extent, proof }
    }

    /// Where it stands.
    pub(super) fn place(&self) -> Place {
        let Self { at, proof, .. } = *self;
        Place { at, durable_at: self.durable_at.unwrap_or(at), proof, source: Told::ByScan }
    }

    /// Go on from a place. An index is never trusted: if what it names is no such record, the walk
    /// stays where it is; and so it does if it cannot be told how much of what a walk came by has
    /// been acknowledged since.
    pub(super) fn resume(&mut self, place: &Place) -> Result<bool> {
        let mut at = place.at;
        if place.source == Told::ByIndex {
            let chain = self.scan.chain_before(at.offset).map_err(|e| self.unreadable(e))?;
            at.chain = chain;
            let mut behind = at;
            let found = self.scan.pass(&mut behind).map_err(|error| self.unreadable(error))?;
            if (chain.is_none() || found.is_err()) && !bug!(IndexTrusted) {
                return Ok(false);
            }
            self.durable_at = None;
        } else {
            let end = self.extent.end;
            let is_acknowledged = at.offset <= end;
            if !is_acknowledged && place.durable_at.offset != end {
                return Ok(false);
            }
            self.durable_at = (!is_acknowledged).then_some(place.durable_at);
            self.proof = place.proof;
        }
        self.at = at;
        Ok(true)
    }

    /// The frame at an offset, which follows from the bytes before it.
    pub(super) fn linked(
        &mut self,
        offset: u64,
    ) -> io::Result<std::result::Result<Found, FrameFault>> {
        self.scan.linked(offset)
    }

    /// The next item that begins before `stop`; `None` at the end.
    pub(super) fn step_before(&mut self, stop: u64) -> Result<Option<Item>> {
        if self.at.offset >= stop { Ok(None) } else { self.step() }
    }

    /// The next item; `None` at the end.
    pub(super) fn step(&mut self) -> Result<Option<Item>> {
        Ok(self.pass()?.map(|passed| match passed {
            Passed::Record(proof) => Item::Record(self.record().into_owned(), proof),
            Passed::Beside(item) => item.among_records(),
        }))
    }

    /// The record that was passed last. Its payload is where it was read.
    #[inline]
    pub(super) fn record(&self) -> LoggedRecord<&[u8]> {
        logged(self.scan.passed(), self.scan.ordinal())
    }

    /// Up to which record everything was durable when the one that was passed last was written.
    pub(super) fn durable_before(&self) -> u64 {
        let stamp = self.scan.passed().header.stamp;
        stamp.seq.saturating_sub(u64::from(stamp.inflight))
    }

    /// Where the record begins that comes next.
    pub(super) fn next_seq(&self) -> u64 {
        self.at.next_seq
    }

    /// Go on to the next item; `None` at the end.
    pub(super) fn pass(&mut self) -> Result<Option<Passed>> {
        let is_guessed = self.extent.source == ExtentSource::Guessed;
        let is_behind_guess = is_guessed && self.at.next_seq > self.extent.last_seq;
        if self.at.offset >= self.scan.end || is_behind_guess {
            return Ok(None);
        }
        let fault = match self.pass_record()? {
            Ok(proof) => return Ok(Some(Passed::Record(proof))),
            Err(fault) => fault,
        };
        self.beside(fault)
    }

    /// What stands where there is no record.
    fn beside(&mut self, fault: FrameFault) -> Result<Option<Passed>> {
        let is_guessed = self.extent.source == ExtentSource::Guessed;
        let (next, last_seq) = (self.at.next_seq, self.extent.last_seq);
        if is_guessed {
            let found = self.find(|seq, _| seq > next && seq <= last_seq)?;
            return Ok(match found {
                Some(found) => Some(self.skip(fault, found.offset, found.header.stamp.seq)),
                None => self.end(),
            });
        }
        if self.at.offset < self.extent.end {
            let limit = self.extent.end;
            let found = self.find(|seq, _| seq > next)?.filter(|found| found.offset < limit);
            let (end, seq) = found.map_or((limit, last_seq.saturating_add(1).max(next)), |found| {
                (found.offset, found.header.stamp.seq)
            });
            return Ok(Some(self.skip(fault, end, seq)));
        }
        self.step_beyond(fault)
    }

    /// Beyond what HEAD says: a write that is going on, or that a crash cut short; or HEAD is
    /// behind the times, and a later record proves that this one had been there.
    fn step_beyond(&mut self, fault: FrameFault) -> Result<Option<Passed>> {
        if matches!(fault, FrameFault::Empty | FrameFault::Cut) {
            return Ok(self.end());
        }
        let next = self.at.next_seq;
        let proof = |seq: u64, inflight: u32| seq.saturating_sub(u64::from(inflight)) >= next;
        let Some(found) = self.find(proof)? else {
            let offset = self.at.offset;
            self.end();
            let path = self.path.clone();
            return Ok(Some(Passed::Beside(Box::new(Item::OpenEnd { path, offset, fault }))));
        };
        // A writer may have been at it while it was read.
        self.scan.source.refresh();
        Ok(Some(match self.pass_record()? {
            Ok(proof) => Passed::Record(proof),
            Err(fault) => self.skip(fault, found.offset, found.header.stamp.seq),
        }))
    }

    /// Pass the record at the position, or say why there is none.
    fn pass_record(&mut self) -> Result<std::result::Result<Proof, FrameFault>> {
        let is_durable = self.at.offset < self.extent.end;
        if is_durable {
            self.durable_at = None;
        } else if self.durable_at.is_none() {
            self.durable_at = Some(self.at);
        }
        let passed = self.scan.pass(&mut self.at).map_err(|error| self.unreadable(error))?;
        Ok(passed.map(|()| if is_durable { self.proof } else { Proof::Unproven }))
    }

    /// The first intact frame behind the position whose seq and inflight are wanted.
    fn find(&mut self, wanted: impl Fn(u64, u32) -> bool) -> Result<Option<Found>> {
        self.scan
            .find(self.at.offset + 64, |frame| wanted(frame.stamp.seq, frame.stamp.inflight))
            .map_err(|error| self.unreadable(error))
    }

    fn unreadable(&self, error: std::io::Error) -> Error {
        Error::io("read a record", &self.path, error).at_offset(self.at.offset)
    }

    /// Nothing more in this segment.
    fn end(&mut self) -> Option<Passed> {
        self.durable_at.get_or_insert(self.at);
        self.at.offset = self.scan.end;
        None
    }

    /// Go on at `end` with record `next_seq`, and say what lies before.
    fn skip(&mut self, fault: FrameFault, end: u64, next_seq: u64) -> Passed {
        let start = self.at;
        self.proof = Proof::BehindDamage;
        self.at = Position { offset: end, next_seq, chain: None };
        if start.offset < self.extent.end {
            self.durable_at = None;
        } else {
            self.durable_at.get_or_insert(start);
        }
        Passed::Beside(Box::new(Item::Damage(Damage {
            path: self.path.clone(),
            offset: start.offset,
            end,
            first_seq: start.next_seq,
            last_seq: next_seq.saturating_sub(1),
            what: fault.describe().to_owned(),
        })))
    }

    /// At the end: is it where, and what, the successor or HEAD says?
    pub(super) fn finish(self) -> Ending {
        let Self { extent, proof, path, .. } = self;
        let at = self.durable_at.unwrap_or(self.at);
        let before = match (proof, at.chain) {
            (Proof::Proven, Some(chain)) => Before::Record(at.next_seq, chain),
            _ => Before::Damage,
        };
        let next_seq = at.next_seq;
        if extent.source == ExtentSource::Guessed {
            return Ending { before, next_seq, item: None };
        }
        // Right behind damage the chain is not known.
        let is_same = at.chain.is_none() || extent.chain.is_none() || at.chain == extent.chain;
        let is_reached =
            Some(next_seq) == extent.last_seq.checked_add(1) && at.offset == extent.end;
        if is_reached && is_same {
            return Ending { before, next_seq, item: None };
        }
        let what = if is_reached {
            "the last record is not the one that the successor, or HEAD, names"
        } else {
            "acknowledged records are missing at the end of the segment"
        };
        let item = Item::Damage(Damage {
            path,
            offset: at.offset.min(extent.end),
            end: extent.end,
            first_seq: next_seq.min(extent.last_seq),
            last_seq: extent.last_seq,
            what: what.to_owned(),
        });
        let next_seq = extent.last_seq.saturating_add(1);
        Ending { before: Before::Damage, next_seq, item: Some(item) }
    }
}

#[inline]
pub(super) fn logged<P>(found: Found<P>, segment: u64) -> LoggedRecord<P> {
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
