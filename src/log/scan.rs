//! Walking over the frames of one segment, checking each before it is believed.

use std::io;

use crate::format::{
    Chain, ChainKey, CheckedFrame, CheckedHead, FrameFault, LinksAhead, RecordHeader, Seeds,
    SegmentHeader, frame_size,
};
use crate::storage::{Map, StorageFile};

use super::layout::DATA_START;

/// How much is read from a file at a time, in bytes.
const WINDOW: usize = 256 * 1024;

/// A segment's bytes: mapped, or read in windows.
#[derive(Debug)]
pub(super) enum Source {
    /// All of them at hand.
    Mapped(Map),
    /// Read as needed.
    Windowed {
        /// The file.
        file: Box<dyn StorageFile>,
        /// Room for what is read.
        window: Vec<u8>,
        /// How much of it holds bytes of the file.
        filled: usize,
        /// Where that starts in the file.
        start: u64,
        /// How often it was filled.
        fills: u64,
    },
}

impl Source {
    /// Bytes of a file that may still be written to, or that may be damaged.
    pub(super) fn windowed(file: Box<dyn StorageFile>) -> Self {
        Self::Windowed { file, window: Vec::new(), filled: 0, start: 0, fills: 0 }
    }

    /// Up to `want` bytes at `offset`: fewer only where the file ends.
    pub(super) fn at(&mut self, offset: u64, want: usize) -> io::Result<&[u8]> {
        match self {
            Self::Mapped(map) => {
                let rest = usize::try_from(offset).ok().and_then(|from| map.get(from..));
                let rest = rest.unwrap_or_default();
                Ok(rest.get(..want).unwrap_or(rest))
            }
            Self::Windowed { file, window, filled, start, fills } => {
                let place = |start: u64, filled: usize| {
                    let from = usize::try_from(offset.checked_sub(start)?).ok()?;
                    (from.checked_add(want)? <= filled).then_some(from)
                };
                if place(*start, *filled).is_none() {
                    if window.len() < want.max(WINDOW) {
                        *window = vec![0; want.max(WINDOW)];
                    }
                    // If the read fails, the window holds nothing that may be believed.
                    (*filled, *start) = (0, offset);
                    *fills += 1;
                    *filled = file.read_at(window, offset)?;
                }
                let from = place(*start, *filled).unwrap_or(0);
                let rest = window.get(from..*filled).unwrap_or_default();
                Ok(rest.get(..want).unwrap_or(rest))
            }
        }
    }

    /// Bytes that were read last, and that nothing was read since.
    fn held(&self, offset: u64, length: usize) -> Option<&[u8]> {
        self.at_hand(offset)?.get(..length)
    }

    /// All bytes from `offset` on that need no reading.
    fn at_hand(&self, offset: u64) -> Option<&[u8]> {
        let (bytes, start) = match self {
            Self::Mapped(map) => (&**map, 0),
            Self::Windowed { window, filled, start, .. } => (window.get(..*filled)?, *start),
        };
        bytes.get(usize::try_from(offset.checked_sub(start)?).ok()?..)
    }

    /// Differs when bytes at hand may differ from those that were. Nobody can say that of a map.
    fn fills(&self) -> Option<u64> {
        match self {
            Self::Mapped(_) => None,
            Self::Windowed { fills, .. } => Some(*fills),
        }
    }

    /// Drop what was read: somebody may have written to the file since.
    pub(super) fn refresh(&mut self) {
        if let Self::Windowed { filled, fills, .. } = self {
            *filled = 0;
            *fills += 1;
        }
    }
}

/// A position between two frames of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    /// Where the next frame starts.
    pub(super) offset: u64,
    /// The sequence number that it must have.
    pub(super) next_seq: u64,
    /// The chain value before it; unknown behind damage.
    pub(super) chain: Option<Chain>,
}

impl Position {
    /// Before a segment's first frame.
    pub(super) fn start(header: &SegmentHeader) -> Self {
        let (next_seq, chain) = (header.base_seq, Some(header.prev_chain));
        Self { offset: DATA_START, next_seq, chain }
    }
}

/// A frame that was found where it should be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found<P = Vec<u8>> {
    pub(super) header: RecordHeader,
    pub(super) payload: P,
    pub(super) chain: Chain,
    pub(super) offset: u64,
    pub(super) size: u64,
}

impl<P> Found<P> {
    /// Where it ends.
    fn end(&self) -> u64 {
        self.offset + self.size
    }
}

impl Found<&[u8]> {
    /// The frame with a payload of its own.
    pub(super) fn into_owned(self) -> Found {
        let Self { header, payload, chain, offset, size } = self;
        Found { header, payload: payload.to_vec(), chain, offset, size }
    }
}

/// A payload that stays where it was read, until something else is.
#[derive(Debug, Clone, Copy)]
struct Held {
    length: usize,
}

/// What is done about the links of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Each is computed again from the record's content.
    Computed,
    /// The stored values are taken for what they are: only checksums and order are checked.
    Trusted,
}

/// The frames of one segment.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) source: Source,
    seeds: Seeds,
    ordinal: u64,
    key: ChainKey,
    prev_chain: Chain,
    /// No frame reaches beyond this offset.
    pub(super) end: u64,
    pub(super) links: Links,
    /// Links that were computed ahead, of bytes of which fill.
    ahead: (LinksAhead, u64),
    /// The frame that came last. It is written in place and read there: one that is handed on by
    /// value is copied at every step of the way, which costs as much as checking it.
    passed: Option<Found<Held>>,
    /// Its payload, if it lies in a map.
    copied: Vec<u8>,
}

impl Scan {
    pub(super) fn new(source: Source, header: &SegmentHeader, end: u64) -> Self {
        let key = ChainKey::new(&header.genesis);
        let seeds = Seeds::new(&header.segment);
        let (ordinal, prev_chain) = (header.ordinal, header.prev_chain);
        let (links, ahead) = (Links::Computed, (LinksAhead::default(), 0));
        let (passed, copied) = (None, Vec::new());
        Self { source, seeds, ordinal, key, prev_chain, end, links, ahead, passed, copied }
    }

    pub(super) fn ordinal(&self) -> u64 {
        self.ordinal
    }

    /// Pass the frame at a position, or say why there is none. Moves the position behind it.
    pub(super) fn pass(&mut self, at: &mut Position) -> io::Result<Result<(), FrameFault>> {
        let (key, seq) = (self.key, at.next_seq);
        let chain = at.chain.filter(|_| self.links == Links::Computed);
        let link = chain.and_then(|chain| self.link_ahead(at.offset, &chain));
        let prove = |frame: &CheckedFrame<'_>| match (link, chain) {
            _ if bug!(ChainUnchecked) => Ok(()),
            (Some(link), _) if frame.verify_link(seq, &link).is_ok() => Ok(()),
            (_, Some(chain)) => frame.verify(seq, &key, &chain).map(drop),
            _ if frame.header().stamp.seq == seq => Ok(()),
            _ => Err(FrameFault::Seq),
        };
        let found = match self.frame(at.offset, prove, |payload| Held { length: payload.len() })? {
            Ok(found) => found,
            Err(fault) => return Ok(Err(fault)),
        };
        // No writer comes to the last number; a header that says so is none of a writer's.
        let Some(next_seq) = seq.checked_add(1) else { return Ok(Err(FrameFault::Seq)) };
        at.offset = found.end();
        at.next_seq = next_seq;
        at.chain = Some(found.chain);
        if let Source::Mapped(_) = &self.source {
            // What lies in a map is copied before anybody makes something of it.
            let bytes = self.source.held(found.offset + HEADER_SIZE, found.payload.length);
            self.copied.clear();
            self.copied.extend_from_slice(bytes.unwrap_or_default());
        }
        self.passed = Some(found);
        Ok(Ok(()))
    }

    /// Pass the frame at a position, and look at it.
    pub(super) fn next(
        &mut self,
        at: &mut Position,
    ) -> io::Result<Result<Found<&[u8]>, FrameFault>> {
        let passed = self.pass(at)?;
        Ok(passed.map(|()| self.passed()))
    }

    /// The frame that was passed last, if nothing else was read since.
    #[inline]
    pub(super) fn passed(&self) -> Found<&[u8]> {
        let found = self.passed.as_ref().and_then(|passed| {
            let Found { header, payload: Held { length }, chain, offset, size } = *passed;
            let payload = match &self.source {
                Source::Mapped(_) => self.copied.get(..length),
                Source::Windowed { .. } => self.source.held(offset + HEADER_SIZE, length),
            };
            Some(Found { header, payload: payload?, chain, offset, size })
        });
        found.expect("what was passed is held until something else is read")
    }

    /// The link that the frame at an offset must have behind a chain value, if its bytes were read
    /// already and it is one of many that are asked for in order.
    fn link_ahead(&mut self, offset: u64, previous: &Chain) -> Option<Chain> {
        let fills = self.source.fills()?;
        let (ahead, of) = &mut self.ahead;
        if *of != fills {
            ahead.forget();
            *of = fills;
        }
        if ahead.is_empty() && self.passed.is_some_and(|passed| passed.end() == offset) {
            let room = usize::try_from(self.end.saturating_sub(offset)).unwrap_or(usize::MAX);
            let bytes = self.source.at_hand(offset)?;
            ahead.look(bytes.get(..room).unwrap_or(bytes), offset, previous, &self.key);
        }
        ahead.take(offset, previous)
    }

    /// The first frame at or behind `offset` that passes its CRCs and that `wanted` wants.
    pub(super) fn find(
        &mut self,
        offset: u64,
        wanted: impl Fn(&RecordHeader) -> bool,
    ) -> io::Result<Option<Found>> {
        let mut at = offset.next_multiple_of(FRAME_STEP);
        while at < self.end {
            // Whole pages of zeros are passed over at once.
            let page = self.source.at(at, ZEROS.len())?;
            if page == ZEROS {
                at += PAGE;
                continue;
            }
            let prove = |frame: &CheckedFrame<'_>| {
                if wanted(frame.header()) { Ok(()) } else { Err(FrameFault::Seq) }
            };
            let found = self.frame(at, prove, <[u8]>::to_vec)?;
            match found {
                Ok(found) => return Ok(Some(found)),
                Err(_) => at += FRAME_STEP,
            }
        }
        Ok(None)
    }

    /// The frame at an offset that somebody says is one: whatever its number, it must be intact
    /// and follow from the chain value that the frame before it ends in.
    pub(super) fn linked(&mut self, offset: u64) -> io::Result<Result<Found, FrameFault>> {
        let Some(chain) = self.chain_before(offset)? else { return Ok(Err(FrameFault::Cut)) };
        let key = self.key;
        let prove = |frame: &CheckedFrame<'_>| {
            frame.verify(frame.header().stamp.seq, &key, &chain).map(drop)
        };
        self.frame(offset, prove, <[u8]>::to_vec)
    }

    /// What the bytes before an offset say is the chain value of the record before it.
    pub(super) fn chain_before(&mut self, offset: u64) -> io::Result<Option<Chain>> {
        if offset == DATA_START {
            return Ok(Some(self.prev_chain));
        }
        let Some(start) = offset.checked_sub(CHAIN_SIZE).filter(|start| *start >= DATA_START)
        else {
            return Ok(None);
        };
        Ok(self.source.at(start, 32)?.first_chunk().copied().map(Chain))
    }

    #[inline]
    fn frame<P>(
        &mut self,
        offset: u64,
        prove: impl Fn(&CheckedFrame<'_>) -> Result<(), FrameFault>,
        keep: fn(&[u8]) -> P,
    ) -> io::Result<Result<Found<P>, FrameFault>> {
        let seed = self.seeds.at(offset);
        let room = usize::try_from(self.end.saturating_sub(offset)).unwrap_or(usize::MAX);
        let head = self.source.at(offset, room.min(frame_size(0)))?;
        // A header that is not what was written says nothing about a body, and costs no reading.
        let head = match CheckedHead::check(head, &seed) {
            Ok(head) => head,
            Err(fault) => return Ok(Err(fault)),
        };
        let bytes = self.source.at(offset, room.min(head.frame_size()))?;
        let frame = match head.frame(bytes, &seed, self.ordinal) {
            Ok(frame) => frame,
            Err(fault) => return Ok(Err(fault)),
        };
        Ok(prove(&frame).map(|()| {
            let record = frame.trust();
            let size = u64::try_from(frame.size()).unwrap_or(u64::MAX);
            let payload = keep(record.payload);
            Found { header: record.header, payload, chain: record.chain, offset, size }
        }))
    }
}

/// A frame begins with its header.
const HEADER_SIZE: u64 = 48;
/// A frame ends in its chain value.
const CHAIN_SIZE: u64 = 32;
/// Frames start at multiples of this.
const FRAME_STEP: u64 = 64;
const PAGE: u64 = 4096;
const ZEROS: [u8; 4096] = [0; 4096];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::format::{Codec, NewRecord, Placement, Stamp, Uid, encode_frame};
    use crate::sim::SimDisk;
    use crate::storage::{Access, Storage};

    const SEGMENT: Uid = [3; 16];

    /// Write a frame of 200 bytes as record `seq`, whose payload and stored link follow from what
    /// is given.
    fn write(file: &dyn StorageFile, key: &ChainKey, seq: u64, byte: u8, previous: Chain) -> Chain {
        let record = NewRecord { kind: 9, codec: Codec::Raw, schema: 1, payload: vec![byte; 200] };
        let offset = DATA_START + (seq - 1) * 320;
        let placement = Placement { segment: SEGMENT, offset };
        let stamp = Stamp { seq, time: 5, ordinal: 1, inflight: 0, batch_left: 0 };
        let mut bytes = Vec::new();
        let chain = encode_frame(&mut bytes, &record, stamp, placement, key, &previous);
        file.write_at(&bytes, offset).unwrap();
        chain
    }

    /// Goal: links that were computed ahead count for the bytes they were computed of. A record
    /// that is written over meanwhile, and keeps its place, its checksums and its link, is refused
    /// when it is read anew; and one that is put right is served.
    #[test]
    fn links_ahead_are_not_those_of_bytes_that_were_read_anew() {
        let disk = SimDisk::new();
        let file = disk.create(Path::new("/segment")).unwrap();
        let key = ChainKey::new(&[9; 16]);
        let mut chains = vec![Chain::GENESIS];
        for seq in 1..=6 {
            let last = *chains.last().unwrap();
            chains.push(write(&*file, &key, seq, 1, last));
        }
        let source = Source::windowed(disk.open(Path::new("/segment"), Access::Read).unwrap());
        let mut scan = Scan {
            source,
            seeds: Seeds::new(&SEGMENT),
            ordinal: 1,
            key,
            prev_chain: Chain::GENESIS,
            end: DATA_START + 6 * 320,
            links: Links::Computed,
            ahead: (LinksAhead::default(), 0),
            passed: None,
            copied: Vec::new(),
        };
        let mut at = Position { offset: DATA_START, next_seq: 1, chain: Some(Chain::GENESIS) };
        for _ in 1..=3 {
            scan.next(&mut at).unwrap().unwrap();
        }
        assert!(!scan.ahead.0.is_empty(), "the fourth was looked at");

        // A forged payload over the link that was there.
        write(&*file, &key, 4, 2, chains[3]);
        file.write_at(&chains[4].0, DATA_START + 4 * 320 - CHAIN_SIZE).unwrap();
        reseal(&*file, 4);
        scan.source.refresh();
        assert_eq!(scan.next(&mut at).unwrap().map(drop), Err(FrameFault::Chain));

        write(&*file, &key, 4, 1, chains[3]);
        scan.source.refresh();
        for seq in 4..=6 {
            assert_eq!(scan.next(&mut at).unwrap().unwrap().header.stamp.seq, seq);
        }
    }

    /// Make the checksums of a frame those of its bytes.
    fn reseal(file: &dyn StorageFile, seq: u64) {
        let offset = DATA_START + (seq - 1) * 320;
        let mut bytes = vec![0; 320];
        file.read_at(&mut bytes, offset).unwrap();
        crate::format::stamp_frame(&mut bytes, 0, &Placement { segment: SEGMENT, offset }.seed());
        file.write_at(&bytes, offset).unwrap();
    }
}
