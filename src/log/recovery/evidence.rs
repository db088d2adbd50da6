//! Gathering the evidence about the end of the newest segment.

use std::io;
use std::ops::Range;

use crate::error::{Error, Result};
use crate::format::{
    Chain, ContentHasher, FRAME_ALIGNMENT, FrameFault, Head, HeadSlots, HeadState, HeadSync,
    Placement, SEEK_STEP, SegmentHeader, frame_size, looks_torn, peek_payload_length,
};
use crate::log::bytes::len_u64;
use crate::log::folder::{DATA_START, LedgerPaths};
use crate::log::notes::{DiscardedRange, LoggedRetentionNote};
use crate::log::record::LoggedRecord;
use crate::log::segment::{
    ByteSurvey, FramePosition, Scan, Segment, SegmentBytes, Segments, read_footer,
};
use crate::storage::{Access, Storage, StorageFile};

use super::table::{Evidence, EvidenceBit};

/// The end of the newest segment, and everything observed about it.
#[derive(Debug)]
pub(crate) struct Tail {
    /// After the last valid frame.
    pub(crate) end: FramePosition,
    /// After the last complete batch: everything up to here is kept.
    pub(crate) batch_end: FramePosition,
    /// The end that HEAD or the header proves to be durable.
    pub(crate) durable_end: FramePosition,
    /// Time of the last record of the last complete batch.
    pub(crate) time: u64,
    /// The reason why there is no valid frame at the end.
    pub(crate) fault: FrameFault,
    /// The newest retention note in the segment.
    pub(crate) retention: Option<LoggedRetentionNote>,
    /// Positions between batches at which a reader can resume.
    pub(crate) resume_points: Vec<FramePosition>,
    /// All observations.
    pub(crate) evidence: Evidence,
    /// The bytes from the last complete batch to the last byte that is not zero.
    pub(crate) discarded: Vec<DiscardedRange>,
}

/// The result of reading the frames of a segment.
struct FrameScan {
    at: FramePosition,
    batch_end: FramePosition,
    durable_end: Option<FramePosition>,
    time: u64,
    fault: FrameFault,
    retention: Option<LoggedRetentionNote>,
    resume_points: Vec<FramePosition>,
}

/// Read the frames of a segment up to the first invalid one.
fn scan_frames(scan: &mut Scan, start: FramePosition, durable_seq: u64) -> io::Result<FrameScan> {
    let mut at = start;
    let mut result = FrameScan {
        at,
        batch_end: start,
        durable_end: (durable_seq.checked_add(1) == Some(start.next_seq)).then_some(start),
        time: 0,
        fault: FrameFault::Empty,
        retention: None,
        resume_points: vec![start],
    };
    let mut previous = None;
    loop {
        let before = at;
        let next = scan.next(&mut at);
        mutant!(ReadErrorEndsLog => if next.is_err() { return Ok(FrameScan { at, ..result }) });
        let found = match next? {
            Ok(found) => found,
            Err(fault) => return Ok(FrameScan { at, fault, ..result }),
        };
        if !follows(previous, &found) && !mutant!(AdoptedRecordsUnchecked) {
            return Ok(FrameScan { at: before, fault: FrameFault::Malformed, ..result });
        }
        previous = Some((found.time, found.batch_left));
        if found.batch_left == 0 || mutant!(PartialBatchAccepted) {
            (result.batch_end, result.time) = (at, found.time);
            result.retention = LoggedRetentionNote::from_record(&found).or(result.retention);
            let is_far = |last: &FramePosition| at.offset - last.offset >= SEEK_STEP;
            result
                .resume_points
                .extend(result.resume_points.last().is_none_or(is_far).then_some(at));
        }
        if found.seq == durable_seq {
            result.durable_end = Some(at);
        }
    }
}

/// Whether an intact record obeys the rules that neither checksum nor link covers. `previous` has
/// the time of the record before it, and how many records of its batch remained.
fn follows(previous: Option<(u64, u16)>, record: &LoggedRecord<&[u8]>) -> bool {
    record.kind != 0
        && record.schema != 0
        && previous.is_none_or(|(time, batch_left)| {
            let left = batch_left.checked_sub(1);
            time <= record.time && left.is_none_or(|left| left == record.batch_left)
        })
}

/// Gather the evidence about the end of the log from its newest segment; `prepare` gets the file
/// first. The file is opened for reading only: a sealed segment without a successor is damage, and
/// cannot be opened for writing.
pub(crate) fn examine(
    storage: &dyn Storage,
    paths: &LedgerPaths,
    segments: &Segments,
    newest: &Segment,
    head_slots: &HeadSlots,
    prepare: impl FnOnce(&dyn StorageFile) -> io::Result<()>,
) -> Result<Tail> {
    let header = &newest.header;
    let path = paths.segment(header.name());
    let open = || storage.open(&path, Access::Read);
    let open = || open().map_err(|error| Error::io("open the segment", &path, error));
    let file = open()?;
    prepare(&*file).map_err(|error| Error::io("sync the segment", &path, error))?;
    let mut scan = Scan::new(SegmentBytes::windowed(open()?), header, header.prealloc_len);
    let mut tail = scan_newest(&mut scan, header, head_slots)
        .map_err(|error| Error::io("read the segment", &path, error))?;
    if let Some(bit) =
        length_fault(newest, &*file).map_err(|error| Error::io("read the footer", &path, error))?
    {
        tail.evidence = tail.evidence.with(bit);
    }
    if head_slots.newest().is_some_and(|(_, head)| segments.contradicts(head)) {
        tail.evidence = tail.evidence.with(EvidenceBit::HeadDisagrees);
    }
    Ok(tail)
}

/// The fault in the length of the newest segment: it has its preallocated length until it is
/// sealed, and it is sealed only if it has a successor.
fn length_fault(newest: &Segment, file: &dyn StorageFile) -> io::Result<Option<EvidenceBit>> {
    let header = &newest.header;
    if newest.length == header.prealloc_len {
        return Ok(None);
    }
    let footer = read_footer(file, newest.length)?.ok();
    let is_sealed = footer.is_some_and(|footer| footer.header().as_ref() == Ok(header));
    Ok(Some(if is_sealed { EvidenceBit::SegmentMissing } else { EvidenceBit::StructureInvalid }))
}

/// Scan the newest segment and collect the observations about its end.
fn scan_newest(
    scan: &mut Scan,
    header: &SegmentHeader,
    head_slots: &HeadSlots,
) -> io::Result<Tail> {
    let start = FramePosition::start(header);
    let head = head_slots.newest().map(|(_, head)| head);
    let head_here = head.filter(|head| head.ordinal == header.ordinal);
    let (durable_seq, durable_offset) = watermark(header, head_here);
    let result = scan_frames(scan, start, durable_seq)?;
    let FrameScan { at, batch_end, durable_end, time, fault, retention, resume_points } = result;
    let agrees = |head: &Head| {
        head.segment == header.segment
            && head.ledger == header.ledger
            && durable_end
                .is_none_or(|end| end.chain == Some(head.chain) && end.offset == durable_offset)
    };
    let tail_scan = scan_tail(scan, batch_end.offset, at.offset)?;
    let is_at_end = head_here.is_some_and(|head| {
        head.state != HeadState::Poisoned
            && head.durable_seq.checked_add(1) == Some(at.next_seq)
            && head.data_end == at.offset
            && Some(head.chain) == at.chain
    });
    let is_end = mutant!(ZerosEndLog) && fault == FrameFault::Empty;
    let n = if is_end || mutant!(DurabilityEvidenceIgnored) { u64::MAX } else { at.next_seq };
    let proves = |inflight: u32, seq: u64| seq.saturating_sub(u64::from(inflight)) >= n;
    let later_frame_proves_sync = !tail_scan.is_zero_from_fault
        && scan
            .find(at.offset + 64, |frame| proves(frame.stamp.inflight, frame.stamp.seq))?
            .is_some();
    let evidence = Evidence::of([
        (EvidenceBit::HeadInvalid, head.is_none()),
        (
            EvidenceBit::SegmentMissing,
            head.is_some_and(|head| head.ordinal > header.ordinal)
                && !mutant!(MissingNewestSegmentIgnored),
        ),
        (EvidenceBit::HeadDisagrees, head_here.is_some_and(|head| !agrees(head))),
        (EvidenceBit::IntactButWrong, fault.is_intact()),
        (EvidenceBit::CoveredByWatermark, durable_seq >= n),
        (EvidenceBit::LaterFrameProvesSync, later_frame_proves_sync),
        (EvidenceBit::ZerosToEnd, tail_scan.is_zero_from_fault),
        (EvidenceBit::BatchComplete, batch_end == at),
        (EvidenceBit::HeadAtEnd, is_at_end || at.offset == header.born_end),
        (
            EvidenceBit::EveryCommit,
            head_slots.are_valid() && head.is_some_and(|head| head.mode == HeadSync::EveryCommit),
        ),
        (
            EvidenceBit::UnwrittenSector,
            tail_scan.is_zero_after_line || has_unwritten_sector(scan, header, at.offset)?,
        ),
        (EvidenceBit::ReadError, tail_scan.has_read_error),
        (EvidenceBit::SlotInvalid, is_slot_lost(head_slots, is_at_end)),
    ]);
    let durable_end = durable_end.unwrap_or(start);
    let batch_end = if mutant!(IntactTailDropped) { durable_end } else { batch_end };
    let discarded = tail_scan.discarded;
    Ok(Tail {
        end: at,
        batch_end,
        durable_end,
        time,
        fault,
        retention,
        resume_points,
        evidence,
        discarded,
    })
}

/// Whether a slot of HEAD is lost that may have named a later end than the other one. At rest both
/// slots are CLEAN and name the end, so one of them is enough.
fn is_slot_lost(head_slots: &HeadSlots, is_at_end: bool) -> bool {
    mutant!(LostHeadSlotIgnored => return false);
    let Some((_, head)) = head_slots.newest().filter(|_| !head_slots.are_valid()) else {
        return false;
    };
    !(is_at_end && head.state == HeadState::Clean)
}

/// The durable end in this segment: a sequence number and an offset.
fn watermark(header: &SegmentHeader, head_here: Option<&Head>) -> (u64, u64) {
    let born = (header.born_last.max(header.base_seq.saturating_sub(1)), header.born_end);
    match head_here {
        Some(head) if head.durable_seq >= born.0 => (head.durable_seq, head.data_end),
        _ => (born.0, born.1.max(DATA_START)),
    }
}

struct TailScan {
    is_zero_from_fault: bool,
    /// All bytes are zero after the first 64 of the first invalid frame: no frame is that short.
    is_zero_after_line: bool,
    /// Some bytes from `fault` on cannot be read.
    has_read_error: bool,
    discarded: Vec<DiscardedRange>,
}

/// Read everything from `from` to the end of the segment; `fault` is the first invalid frame.
fn scan_tail(scan: &mut Scan, from: u64, fault: u64) -> io::Result<TailScan> {
    let ByteSurvey { nonzero, mut unreadable } = scan.source.survey(from, scan.end)?;
    let last = nonzero.map_or(from, |nonzero| nonzero.end);
    let has_read_error = unreadable.iter().any(|range| range.end > fault);
    let is_zero_from_fault = last <= fault && !has_read_error;
    let line = [0; FRAME_ALIGNMENT];
    let line = if mutant!(TornByLaterZeros) { 2 * len_u64(&line) } else { len_u64(&line) };
    let is_zero_after_line = last <= fault.saturating_add(line) && !has_read_error;
    let mut discarded = Vec::new();
    let mut start = from;
    // Unreadable bytes are a gap between two ranges.
    unreadable.push(last..u64::MAX);
    for gap in unreadable {
        if start < gap.start.min(last) {
            discarded.push(discarded_range(scan, start..gap.start.min(last))?);
        }
        start = start.max(gap.end);
    }
    Ok(TailScan { is_zero_from_fault, is_zero_after_line, has_read_error, discarded })
}

fn discarded_range(scan: &mut Scan, range: Range<u64>) -> io::Result<DiscardedRange> {
    const STEP: usize = 64 * 1024;
    let (mut hasher, mut offset) = (ContentHasher::default(), range.start);
    while offset < range.end {
        let room = usize::try_from(range.end - offset).unwrap_or(STEP);
        let bytes = scan.source.at(offset, room.min(STEP))?;
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        hasher.update(bytes);
        offset += u64::try_from(bytes.len()).map_err(io::Error::other)?;
    }
    let (blake3, length) = (Chain(hasher.finish()).to_string(), range.end - range.start);
    Ok(DiscardedRange { offset: range.start, length, blake3 })
}

/// Whether the bytes at the first invalid frame contain a sector that was never written.
fn has_unwritten_sector(scan: &mut Scan, header: &SegmentHeader, offset: u64) -> io::Result<bool> {
    let placement = Placement { segment: header.segment, offset };
    let room = usize::try_from(scan.end.saturating_sub(offset)).unwrap_or(usize::MAX);
    // Without a valid frame header only the first 64 bytes are examined.
    let head = scan.source.at(offset, room.min(frame_size(0)))?;
    let want = peek_payload_length(head).map_or(frame_size(0), frame_size);
    let bytes = scan.source.at(offset, room.min(want))?;
    Ok(looks_torn(bytes, placement))
}
