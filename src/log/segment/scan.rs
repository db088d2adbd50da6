//! Reading the frames of one segment. Every frame is checked before any of it is used.

use std::io;
use std::ops::Range;

use crate::format::{
    Chain, ChainKey, ChainLookahead, CheckedFrame, CheckedHeader, FrameFault, RecordHeader,
    SegmentHeader, SegmentSeed, frame_size,
};
use crate::log::bytes::to_u64;
use crate::log::folder::DATA_START;
use crate::log::record::LoggedRecord;
use crate::storage::{Map, StorageFile, read_sectors};

/// How much is read from a file at a time, in bytes.
const WINDOW: usize = 256 * 1024;

/// A segment's bytes: mapped, or read in windows. What the storage cannot read is zero, and is known
/// to be unreadable.
#[derive(Debug)]
pub(crate) struct SegmentBytes {
    file: Box<dyn StorageFile>,
    /// Used until a page of it cannot be read.
    map: Option<Map>,
    /// The part of the map that was proven to be readable last.
    proven: Range<u64>,
    /// Buffer for the bytes that were read.
    window: Vec<u8>,
    /// How much of it holds bytes of the file.
    filled: usize,
    /// Offset in the file of its first byte.
    start: u64,
    /// How often it was filled.
    fills: u64,
    /// The parts of it that cannot be read.
    unreadable: Vec<Range<u64>>,
}

impl SegmentBytes {
    /// Bytes of a file that may be damaged or still be written to.
    pub(crate) fn windowed(file: Box<dyn StorageFile>) -> Self {
        let (window, unreadable) = (Vec::new(), Vec::new());
        Self { file, map: None, proven: 0..0, window, filled: 0, start: 0, fills: 0, unreadable }
    }

    /// Bytes of a file that no longer changes.
    pub(crate) fn mapped(file: Box<dyn StorageFile>) -> Self {
        let map = file.map().ok();
        Self { map, ..Self::windowed(file) }
    }

    /// Up to `want` bytes at `offset`: fewer only at the end of the file.
    pub(crate) fn at(&mut self, offset: u64, want: usize) -> io::Result<&[u8]> {
        self.load(offset, want)?;
        Ok(self.loaded(offset, want))
    }

    /// As [`SegmentBytes::at`]; `None` if some of the bytes cannot be read.
    #[inline]
    fn readable_at(&mut self, offset: u64, want: usize) -> io::Result<Option<&[u8]>> {
        // Nearly all frames are in the window.
        if self.map.is_none()
            && self.unreadable.is_empty()
            && let Some(from) = self.place(offset, want)
        {
            return Ok(self.window.get(from..from + want));
        }
        self.load(offset, want)?;
        let is_readable = self.unreadable.is_empty() || self.unreadable_in(offset, want).is_empty();
        Ok(is_readable.then(|| self.loaded(offset, want)))
    }

    /// The ranges that cannot be read, among bytes that were read last.
    pub(crate) fn unreadable_in(&self, offset: u64, count: usize) -> Vec<Range<u64>> {
        let end = offset.saturating_add(to_u64(count));
        let clip = |range: &Range<u64>| range.start.max(offset)..range.end.min(end);
        self.unreadable.iter().map(clip).filter(|range| !range.is_empty()).collect()
    }

    /// The ranges from `from` to `end` that are not zero, and those that cannot be read.
    pub(crate) fn survey(&mut self, from: u64, end: u64) -> io::Result<ByteSurvey> {
        let mut survey = ByteSurvey::default();
        let mut offset = from;
        while offset < end {
            let room = usize::try_from(end - offset).unwrap_or(WINDOW).min(WINDOW);
            let bytes = self.at(offset, room)?;
            if bytes.is_empty() {
                break;
            }
            if let Some(found) = nonzero(bytes) {
                let start = survey.nonzero.map_or(offset + to_u64(found.start), |all| all.start);
                survey.nonzero = Some(start..offset + to_u64(found.end));
            }
            let count = bytes.len();
            survey.unreadable.extend(self.unreadable_in(offset, count));
            offset += to_u64(count);
        }
        Ok(survey)
    }

    /// Bring bytes into memory.
    fn load(&mut self, offset: u64, want: usize) -> io::Result<()> {
        if self.map.is_some() {
            if self.is_proven(offset, want) {
                return Ok(());
            }
            // The rest of the segment is read, so that an unreadable page costs only itself.
            self.map = None;
        }
        if self.place(offset, want).is_none() {
            if self.window.len() < want.max(WINDOW) {
                self.window = vec![0; want.max(WINDOW)];
            }
            // If the read fails, the window must not be used.
            (self.filled, self.start) = (0, offset);
            self.fills += 1;
            self.unreadable.clear();
            let read = read_sectors(&*self.file, &mut self.window, offset)?;
            self.filled = read.count;
            mutant!(UnreadableBytesAreZeros => return Ok(()));
            self.unreadable = read.unreadable;
        }
        Ok(())
    }

    /// Whether the map can be used for a range. A window around it is read into memory first.
    fn is_proven(&mut self, offset: u64, want: usize) -> bool {
        let Some(map) = &self.map else { return false };
        let end = offset.saturating_add(to_u64(want)).min(map.length());
        if end <= offset || (self.proven.start <= offset && end <= self.proven.end) {
            return true;
        }
        let window = offset.saturating_add(to_u64(WINDOW)).min(map.length());
        let ranges = [offset..end.max(window), offset..end];
        let Some(proven) = ranges.into_iter().find(|range| map.populate(range.clone()).is_ok())
        else {
            return false;
        };
        self.proven = proven;
        true
    }

    /// The place of bytes in the window, if it holds all of them.
    #[inline]
    fn place(&self, offset: u64, want: usize) -> Option<usize> {
        let from = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        (from.checked_add(want)? <= self.filled).then_some(from)
    }

    /// Bytes after [`SegmentBytes::load`].
    fn loaded(&self, offset: u64, want: usize) -> &[u8] {
        if let Some(map) = &self.map {
            return map.get(offset..offset.saturating_add(to_u64(want)));
        }
        let from = self.place(offset, want).unwrap_or(0);
        let rest = self.window.get(from..self.filled).unwrap_or_default();
        rest.get(..want).unwrap_or(rest)
    }

    fn is_mapped(&self) -> bool {
        self.map.is_some()
    }

    /// Bytes that are still in memory from the last read.
    fn held(&self, offset: u64, length: usize) -> Option<&[u8]> {
        if let Some(map) = &self.map {
            let end = offset.checked_add(to_u64(length))?;
            let is_proven = self.proven.start <= offset && end <= self.proven.end;
            return is_proven.then(|| map.get(offset..end));
        }
        self.in_window(offset)?.get(..length)
    }

    /// All bytes of the window from `offset` on.
    fn in_window(&self, offset: u64) -> Option<&[u8]> {
        let from = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        self.window.get(..self.filled)?.get(from..)
    }

    /// Changes whenever the bytes in memory may have changed; unknown for a map.
    fn fills(&self) -> Option<u64> {
        (!self.is_mapped()).then_some(self.fills)
    }

    /// Drop the window: the file may have been written to since.
    pub(crate) fn refresh(&mut self) {
        self.filled = 0;
        self.fills += 1;
        self.unreadable.clear();
    }
}

/// The content of a range of bytes.
#[derive(Debug, Default)]
pub(crate) struct ByteSurvey {
    /// From the first byte that is not zero to the end of the last one.
    pub(crate) nonzero: Option<Range<u64>>,
    /// In order.
    pub(crate) unreadable: Vec<Range<u64>>,
}

/// From the first byte that is not zero to the end of the last one. Whole pages of zeros are skipped
/// at once.
fn nonzero(bytes: &[u8]) -> Option<Range<usize>> {
    let mut pages = bytes.chunks(ZEROS.len()).enumerate();
    let is_used = |(_, page): &(usize, &[u8])| !ZEROS.starts_with(page);
    let (first, page) = pages.find(is_used)?;
    let start = page.iter().position(|byte| *byte != 0)?;
    let (last, page) = pages.rfind(is_used).unwrap_or((first, page));
    let end = page.iter().rposition(|byte| *byte != 0)? + 1;
    Some(first * ZEROS.len() + start..last * ZEROS.len() + end)
}

/// A position between two frames of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FramePosition {
    /// Start of the next frame.
    pub(crate) offset: u64,
    /// The sequence number that it must have.
    pub(crate) next_seq: u64,
    /// The chain value before it; unknown after damage.
    pub(crate) chain: Option<Chain>,
}

impl FramePosition {
    /// Before a segment's first frame.
    pub(crate) fn start(header: &SegmentHeader) -> Self {
        let (next_seq, chain) = (header.base_seq, Some(header.prev_chain));
        Self { offset: DATA_START, next_seq, chain }
    }
}

/// A payload that stays in the read buffer until something else is read.
#[derive(Debug, Clone)]
struct HeldPayload {
    length: usize,
    /// How many records were not durable when the frame was written, this one included.
    inflight: u32,
}

impl HeldPayload {
    fn of(header: &RecordHeader, payload: &[u8]) -> Self {
        Self { length: payload.len(), inflight: header.stamp.inflight }
    }
}

/// Whether the links of the chain are recomputed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChainCheck {
    /// Each link is recomputed from the record's content.
    Recompute,
    /// The stored values are used: only checksums and order are checked.
    Trust,
}

/// The frames of one segment.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) source: SegmentBytes,
    seeds: SegmentSeed,
    ordinal: u64,
    key: ChainKey,
    prev_chain: Chain,
    /// No frame reaches beyond this offset.
    pub(crate) end: u64,
    pub(crate) chain_check: ChainCheck,
    /// Links computed ahead, and the value of `fills` for the bytes that they cover.
    ahead: (ChainLookahead, u64),
    /// The last record. It is stored and read in place: passing it by value copies it at each call,
    /// which costs as much as checking it.
    current: Option<LoggedRecord<HeldPayload>>,
    /// Its payload, if the source is mapped.
    copied: Vec<u8>,
}

impl Scan {
    pub(crate) fn new(source: SegmentBytes, header: &SegmentHeader, end: u64) -> Self {
        let key = ChainKey::new(&header.genesis);
        let seeds = SegmentSeed::new(&header.segment);
        let (ordinal, prev_chain) = (header.ordinal, header.prev_chain);
        let (chain_check, ahead) = (ChainCheck::Recompute, (ChainLookahead::default(), 0));
        let (current, copied) = (None, Vec::new());
        Self { source, seeds, ordinal, key, prev_chain, end, chain_check, ahead, current, copied }
    }

    /// Advance over the frame at a position, or return the fault there.
    pub(crate) fn advance(&mut self, at: &mut FramePosition) -> io::Result<Result<(), FrameFault>> {
        let (key, seq) = (self.key, at.next_seq);
        let chain = at.chain.filter(|_| self.chain_check == ChainCheck::Recompute);
        let link = chain.and_then(|chain| self.link_ahead(at.offset, &chain));
        let prove = |frame: &CheckedFrame<'_>| match (link, chain) {
            _ if mutant!(ChainUnchecked) => Ok(()),
            (Some(link), _) if frame.verify_link(seq, &link).is_ok() => Ok(()),
            (_, Some(chain)) => frame.verify(seq, &key, &chain).map(drop),
            _ if frame.header().stamp.seq == seq => Ok(()),
            _ => Err(FrameFault::Seq),
        };
        let found = match self.record(at.offset, prove, HeldPayload::of)? {
            Ok(found) => found,
            Err(fault) => return Ok(Err(fault)),
        };
        // No writer reaches the last sequence number, so no writer made a header with it.
        let Some(next_seq) = seq.checked_add(1) else { return Ok(Err(FrameFault::Seq)) };
        at.offset = found.offset + found.size;
        at.next_seq = next_seq;
        at.chain = Some(found.chain);
        self.hold(found);
        Ok(Ok(()))
    }

    /// Make a record the last one.
    #[inline]
    fn hold(&mut self, found: LoggedRecord<HeldPayload>) {
        if self.source.is_mapped() {
            // A payload in a map is copied before it is interpreted.
            let bytes = self.source.held(found.offset + HEADER_SIZE, found.payload.length);
            self.copied.clear();
            self.copied.extend_from_slice(bytes.unwrap_or_default());
        }
        self.current = Some(found);
    }

    /// Advance over the frame at a position and return its record.
    pub(crate) fn next(
        &mut self,
        at: &mut FramePosition,
    ) -> io::Result<Result<LoggedRecord<&[u8]>, FrameFault>> {
        let passed = self.advance(at)?;
        Ok(passed.map(|()| self.current()))
    }

    /// The last record, if nothing else was read since.
    #[inline]
    pub(crate) fn current(&self) -> LoggedRecord<&[u8]> {
        let found = self.current.as_ref().and_then(|passed| {
            let length = passed.payload.length;
            let payload = if self.source.is_mapped() {
                self.copied.get(..length)
            } else {
                self.source.held(passed.offset + HEADER_SIZE, length)
            };
            let payload = payload?;
            Some(passed.with_payload(payload))
        });
        found.expect("the current frame is in memory until something else is read")
    }

    /// The last record that was durable when the current one was written; 0 without one.
    pub(crate) fn durable_before(&self) -> u64 {
        let last = self.current.as_ref();
        last.map_or(0, |last| last.seq.saturating_sub(u64::from(last.payload.inflight)))
    }

    /// The link that the frame at an offset must have after a chain value, if its bytes are in
    /// memory and frames are being read in order.
    fn link_ahead(&mut self, offset: u64, previous: &Chain) -> Option<Chain> {
        let fills = self.source.fills()?;
        let (ahead, fill) = &mut self.ahead;
        if *fill != fills {
            ahead.clear();
            *fill = fills;
        }
        if ahead.is_empty()
            && self.current.as_ref().is_some_and(|last| last.offset + last.size == offset)
        {
            let room = usize::try_from(self.end.saturating_sub(offset)).unwrap_or(usize::MAX);
            let bytes = self.source.in_window(offset)?;
            ahead.fill(bytes.get(..room).unwrap_or(bytes), offset, previous, &self.key);
        }
        ahead.take(offset, previous)
    }

    /// The position of the first frame at or after `offset` that passes its CRCs and that `wanted`
    /// accepts.
    pub(crate) fn find(
        &mut self,
        offset: u64,
        wanted: impl Fn(&RecordHeader) -> bool,
    ) -> io::Result<Option<FramePosition>> {
        let mut at = offset.next_multiple_of(FRAME_STEP);
        while at < self.end {
            // Whole pages of zeros are skipped at once.
            let page = self.source.at(at, ZEROS.len())?;
            if page == ZEROS {
                at += PAGE;
                continue;
            }
            let prove = |frame: &CheckedFrame<'_>| {
                if wanted(frame.header()) { Ok(()) } else { Err(FrameFault::Seq) }
            };
            if let Ok(found) = self.record(at, prove, |_, _| ())? {
                return Ok(Some(FramePosition { offset: at, next_seq: found.seq, chain: None }));
            }
            at += FRAME_STEP;
        }
        Ok(None)
    }

    /// Jump over the record at an offset from an index. It may have any sequence number, but must be intact
    /// and follow from the chain value in the bytes before it.
    pub(crate) fn jump(&mut self, offset: u64) -> io::Result<Result<(), FrameFault>> {
        let Some(chain) = self.chain_before(offset)? else { return Ok(Err(FrameFault::Truncated)) };
        let key = self.key;
        let prove = |frame: &CheckedFrame<'_>| {
            frame.verify(frame.header().stamp.seq, &key, &chain).map(drop)
        };
        let found = self.record(offset, prove, HeldPayload::of)?;
        Ok(found.map(|found| self.hold(found)))
    }

    /// The chain value of the previous record, as stored in the bytes before an offset.
    pub(crate) fn chain_before(&mut self, offset: u64) -> io::Result<Option<Chain>> {
        if offset == DATA_START {
            return Ok(Some(self.prev_chain));
        }
        let Some(start) = offset.checked_sub(CHAIN_SIZE).filter(|start| *start >= DATA_START)
        else {
            return Ok(None);
        };
        let bytes = self.source.readable_at(start, 32)?;
        Ok(bytes.and_then(<[u8]>::first_chunk).copied().map(Chain))
    }

    #[inline]
    fn record<P>(
        &mut self,
        offset: u64,
        prove: impl Fn(&CheckedFrame<'_>) -> Result<(), FrameFault>,
        keep: fn(&RecordHeader, &[u8]) -> P,
    ) -> io::Result<Result<LoggedRecord<P>, FrameFault>> {
        let seed = self.seeds.at(offset);
        let room = usize::try_from(self.end.saturating_sub(offset)).unwrap_or(usize::MAX);
        let Some(head) = self.source.readable_at(offset, room.min(frame_size(0)))? else {
            return Ok(Err(FrameFault::Unreadable));
        };
        // An invalid header says nothing about a body, so no body is read.
        let head = match CheckedHeader::check(head, &seed) {
            Ok(head) => head,
            Err(fault) => return Ok(Err(fault)),
        };
        let Some(bytes) = self.source.readable_at(offset, room.min(head.frame_size()))? else {
            return Ok(Err(FrameFault::Unreadable));
        };
        let frame = match head.frame(bytes, &seed, self.ordinal) {
            Ok(frame) => frame,
            Err(fault) => return Ok(Err(fault)),
        };
        Ok(prove(&frame).map(|()| {
            let record = frame.trust();
            let payload = keep(&record.header, record.payload);
            LoggedRecord::of(&record, payload, self.ordinal, offset)
        }))
    }
}

/// Size of a frame's header.
const HEADER_SIZE: u64 = 48;
/// Size of the chain value at a frame's end.
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

    /// Write a frame with a payload of 200 bytes as record `seq`.
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

    /// Links that were computed ahead are used only for the bytes from which they were computed. A
    /// record that is overwritten with valid checksums and the old link is rejected after a
    /// refresh; once it is restored it is accepted.
    #[test]
    fn links_computed_ahead_are_dropped_on_refresh() {
        let disk = SimDisk::new();
        let file = disk.create(Path::new("/segment")).unwrap();
        let key = ChainKey::new(&[9; 16]);
        let mut chains = vec![Chain::GENESIS];
        for seq in 1..=6 {
            let last = *chains.last().unwrap();
            chains.push(write(&*file, &key, seq, 1, last));
        }
        let source =
            SegmentBytes::windowed(disk.open(Path::new("/segment"), Access::Read).unwrap());
        let mut scan = Scan {
            source,
            seeds: SegmentSeed::new(&SEGMENT),
            ordinal: 1,
            key,
            prev_chain: Chain::GENESIS,
            end: DATA_START + 6 * 320,
            chain_check: ChainCheck::Recompute,
            ahead: (ChainLookahead::default(), 0),
            current: None,
            copied: Vec::new(),
        };
        let mut at = FramePosition { offset: DATA_START, next_seq: 1, chain: Some(Chain::GENESIS) };
        for _ in 1..=3 {
            scan.next(&mut at).unwrap().unwrap();
        }
        assert!(!scan.ahead.0.is_empty(), "the link of the fourth frame was computed ahead");

        // A forged payload under the stored link.
        write(&*file, &key, 4, 2, chains[3]);
        file.write_at(&chains[4].0, DATA_START + 4 * 320 - CHAIN_SIZE).unwrap();
        reseal(&*file, 4);
        scan.source.refresh();
        assert_eq!(scan.next(&mut at).unwrap().map(drop), Err(FrameFault::Chain));

        write(&*file, &key, 4, 1, chains[3]);
        scan.source.refresh();
        for seq in 4..=6 {
            assert_eq!(scan.next(&mut at).unwrap().unwrap().seq, seq);
        }
    }

    /// Recompute the checksums of a frame.
    fn reseal(file: &dyn StorageFile, seq: u64) {
        let offset = DATA_START + (seq - 1) * 320;
        let mut bytes = vec![0; 320];
        file.read_at(&mut bytes, offset).unwrap();
        crate::format::stamp_frame(&mut bytes, 0, &Placement { segment: SEGMENT, offset }.seed());
        file.write_at(&bytes, offset).unwrap();
    }
}
