//! Gathering the evidence about the newest segment's end.

use std::io;

use crate::format::{
    Chain, ContentHasher, FrameFault, Head, HeadState, HeadSync, HeadView, Placement, RecordHeader,
    SEEK_STEP, SegmentHeader, frame_size, looks_torn, peek_payload_length,
};
use crate::storage::StorageFile;

use super::layout::DATA_START;
use super::note::DiscardedRange;
use super::recovery::{Bit, Evidence};
use super::retention::Retention;
use super::scan::{Position, Scan};
use super::sealed::read_footer;
use super::segments::{Segment, Segments};

/// What a scan of the newest segment found.
#[derive(Debug)]
pub(super) struct Tail {
    /// Behind the last valid frame.
    pub(super) end: Position,
    /// Behind the last complete batch: what is taken over ends here.
    pub(super) whole_end: Position,
    /// The end of what HEAD, or the header, proves to be durable.
    pub(super) durable_end: Position,
    /// Time of the last record of the last complete batch.
    pub(super) time: u64,
    /// Why there is no frame at the end.
    pub(super) fault: FrameFault,
    /// The newest retention note in the segment.
    pub(super) retention: Option<Retention>,
    /// Places between whole batches, from which one can go on.
    pub(super) places: Vec<Position>,
    /// All observations.
    pub(super) evidence: Evidence,
    /// What stands between the last complete batch and the last byte that is not zero.
    pub(super) discarded: Vec<DiscardedRange>,
}

/// What walking over the frames of a segment came to.
struct Walked {
    at: Position,
    whole_end: Position,
    durable_end: Option<Position>,
    time: u64,
    fault: FrameFault,
    retention: Option<Retention>,
    places: Vec<Position>,
}

/// Walk over the frames of a segment, up to where there is none.
fn walk(scan: &mut Scan, start: Position, durable_seq: u64) -> io::Result<Walked> {
    let mut at = start;
    let mut walked = Walked {
        at,
        whole_end: start,
        durable_end: (durable_seq.checked_add(1) == Some(start.next_seq)).then_some(start),
        time: 0,
        fault: FrameFault::Empty,
        retention: None,
        places: vec![start],
    };
    let mut previous = None;
    loop {
        let before = at;
        let next = scan.next(&mut at);
        bug!(ReadErrorIsEnd => if next.is_err() { return Ok(Walked { at, ..walked }) });
        let found = match next? {
            Ok(found) => found,
            Err(fault) => return Ok(Walked { at, fault, ..walked }),
        };
        if !follows(previous.as_ref(), &found.header) && !bug!(RulesUnchecked) {
            return Ok(Walked { at: before, fault: FrameFault::Malformed, ..walked });
        }
        previous = Some(found.header);
        if found.header.stamp.batch_left == 0 || bug!(BatchLeftIgnored) {
            (walked.whole_end, walked.time) = (at, found.header.stamp.time);
            walked.retention = note_in(&found.header, found.payload).or(walked.retention);
            let is_far = |last: &Position| at.offset - last.offset >= SEEK_STEP;
            walked.places.extend(walked.places.last().is_none_or(is_far).then_some(at));
        }
        if found.header.stamp.seq == durable_seq {
            walked.durable_end = Some(at);
        }
    }
}

/// Whether an intact record keeps the rules that no checksum and no link vouch for.
fn follows(previous: Option<&RecordHeader>, header: &RecordHeader) -> bool {
    header.kind != 0
        && header.schema != 0
        && previous.is_none_or(|RecordHeader { stamp, .. }| {
            let is_next = stamp.batch_left.checked_sub(1);
            stamp.time <= header.stamp.time
                && is_next.is_none_or(|left| left == header.stamp.batch_left)
        })
}

/// Scan the newest segment and gather what can be observed about its end.
pub(super) fn examine(
    scan: &mut Scan,
    header: &SegmentHeader,
    view: &HeadView,
) -> io::Result<Tail> {
    let start = Position::start(header);
    let head = view.newest().map(|(_, head)| head);
    let here = head.filter(|head| head.ordinal == header.ordinal);
    let (durable_seq, durable_offset) = watermark(header, here);
    let walked = walk(scan, start, durable_seq)?;
    let Walked { at, whole_end, durable_end, time, fault, retention, places } = walked;
    let agrees = |head: &Head| {
        head.segment == header.segment
            && head.ledger == header.ledger
            && durable_end
                .is_none_or(|end| end.chain == Some(head.chain) && end.offset == durable_offset)
    };
    let rest = look_behind(scan, whole_end.offset, at.offset)?;
    let is_at_end = here.is_some_and(|head| {
        head.state != HeadState::Poisoned
            && head.durable_seq.checked_add(1) == Some(at.next_seq)
            && head.data_end == at.offset
            && Some(head.chain) == at.chain
    });
    let is_end = bug!(ZeroIsEnd) && fault == FrameFault::Empty;
    let n = if is_end || bug!(WitnessIgnored) { u64::MAX } else { at.next_seq };
    let proves = |inflight: u32, seq: u64| seq.saturating_sub(u64::from(inflight)) >= n;
    let later = !rest.is_zero_from_fault
        && scan
            .find(at.offset + 64, |frame| proves(frame.stamp.inflight, frame.stamp.seq))?
            .is_some();
    let evidence = Evidence::of([
        (Bit::HeadMissing, head.is_none()),
        (
            Bit::SegmentMissing,
            head.is_some_and(|head| head.ordinal > header.ordinal) && !bug!(NewestMissingIgnored),
        ),
        (Bit::HeadDisagrees, here.is_some_and(|head| !agrees(head))),
        (Bit::IntactButWrong, fault.is_intact()),
        (Bit::Witness, durable_seq >= n),
        (Bit::Later, later),
        (Bit::RestZero, rest.is_zero_from_fault),
        (Bit::BatchComplete, whole_end == at),
        (Bit::HeadAtEnd, is_at_end || at.offset == header.born_end),
        (
            Bit::EveryCommit,
            view.is_whole() && head.is_some_and(|head| head.mode == HeadSync::EveryCommit),
        ),
        (Bit::ZeroMark, has_zero_mark(scan, header, at.offset)?),
    ]);
    let durable_end = durable_end.unwrap_or(start);
    let whole_end = if bug!(SurvivorsDropped) { durable_end } else { whole_end };
    let discarded = rest.discarded;
    Ok(Tail {
        end: at,
        whole_end,
        durable_end,
        time,
        fault,
        retention,
        places,
        evidence,
        discarded,
    })
}

/// The retention note that a record is, if it is one.
pub(super) fn note_in(header: &RecordHeader, payload: &[u8]) -> Option<Retention> {
    let what = (header.kind, header.codec, header.schema);
    Retention::decode(header.stamp.seq, what, payload)
}

/// The evidence with what the newest segment's length says: it is the one that it was made with,
/// until it is sealed, and it is sealed only when it has a successor.
pub(super) fn with_length(
    evidence: Evidence,
    newest: &Segment,
    file: &dyn StorageFile,
) -> io::Result<Evidence> {
    let header = &newest.header;
    if newest.length == header.prealloc_len {
        return Ok(evidence);
    }
    let footer = read_footer(file, newest.length)?.ok();
    let is_sealed = footer.is_some_and(|footer| footer.header().as_ref() == Ok(header));
    Ok(evidence.with(if is_sealed { Bit::SegmentMissing } else { Bit::LinkBad }))
}

/// The evidence with what HEAD says of a segment that another one has taken the place of.
pub(super) fn with_head(evidence: Evidence, segments: &Segments, view: &HeadView) -> Evidence {
    let disagrees = view.newest().is_some_and(|(_, head)| segments.contradict(head));
    if disagrees { evidence.with(Bit::HeadDisagrees) } else { evidence }
}

/// What is proved to be durable in this segment: a sequence number, and where it ends.
fn watermark(header: &SegmentHeader, here: Option<&Head>) -> (u64, u64) {
    let born = (header.born_last.max(header.base_seq.saturating_sub(1)), header.born_end);
    match here {
        Some(head) if head.durable_seq >= born.0 => (head.durable_seq, head.data_end),
        _ => (born.0, born.1.max(DATA_START)),
    }
}

struct Rest {
    is_zero_from_fault: bool,
    discarded: Vec<DiscardedRange>,
}

/// Look at everything from `from` to the segment's end, `fault` being the first invalid frame.
fn look_behind(scan: &mut Scan, from: u64, fault: u64) -> io::Result<Rest> {
    const STEP: usize = 64 * 1024;
    let (mut offset, mut last) = (from, None);
    while offset < scan.end {
        let room = usize::try_from(scan.end - offset).unwrap_or(STEP);
        let bytes = scan.source.at(offset, room.min(STEP))?;
        if bytes.is_empty() {
            break;
        }
        if let Some(place) = last_nonzero(bytes) {
            last = Some(offset + u64::try_from(place).map_err(io::Error::other)?);
        }
        offset += u64::try_from(bytes.len()).map_err(io::Error::other)?;
    }
    let Some(last) = last else {
        return Ok(Rest { is_zero_from_fault: true, discarded: Vec::new() });
    };
    let (length, mut hasher, mut offset) = (last + 1 - from, ContentHasher::default(), from);
    while offset <= last {
        let room = usize::try_from(last + 1 - offset).unwrap_or(STEP);
        let bytes = scan.source.at(offset, room.min(STEP))?;
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        hasher.update(bytes);
        offset += u64::try_from(bytes.len()).map_err(io::Error::other)?;
    }
    let blake3 = Chain(hasher.finish()).to_string();
    let discarded = vec![DiscardedRange { offset: from, length, blake3 }];
    Ok(Rest { is_zero_from_fault: last < fault, discarded })
}

/// Where the last byte is that is not zero. Whole pages of zeros are passed over at once.
fn last_nonzero(bytes: &[u8]) -> Option<usize> {
    const ZEROS: [u8; 4096] = [0; 4096];
    let (number, page) =
        bytes.chunks(ZEROS.len()).enumerate().rfind(|(_, page)| !ZEROS.starts_with(page))?;
    Some(number * ZEROS.len() + page.iter().rposition(|byte| *byte != 0)?)
}

/// Whether the bytes at the first invalid frame bear the mark of an unwritten sector.
fn has_zero_mark(scan: &mut Scan, header: &SegmentHeader, offset: u64) -> io::Result<bool> {
    let placement = Placement { segment: header.segment, offset };
    let room = usize::try_from(scan.end.saturating_sub(offset)).unwrap_or(usize::MAX);
    // Of bytes that do not even begin as a frame does, the first line says it all.
    let head = scan.source.at(offset, room.min(frame_size(0)))?;
    let want = peek_payload_length(head).map_or(frame_size(0), frame_size);
    let bytes = scan.source.at(offset, room.min(want))?;
    Ok(looks_torn(bytes, placement))
}
