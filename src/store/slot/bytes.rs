//! From the bytes of a store to verified records.

use crate::format::{Chain, Record, SEGMENT_HEADER_SIZE, SegmentHeader, Uid, content_hash};
use crate::store::name::LedgerIdentity;
use crate::store::objects::StoreTime;
use crate::store::protocol::{SlotFacts, StorePosition};

use super::frames::{FrameWalk, walk_frames};
use super::header::{DATA_START, SLOT_HEADER_SIZE, SlotFault, SlotHeader};

/// Bytes under the name of a slot, which are not verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotBytes(pub Vec<u8>);

/// A slot with a valid name, ledger, checksums and fields. Its frames and its place in the log are
/// not verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedSlot {
    header: SlotHeader,
    bytes: Vec<u8>,
}

/// A slot with verified frames that continue the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedSlot {
    header: SlotHeader,
    bytes: Vec<u8>,
    place: SegmentPlace,
    time_before: u64,
}

/// The end of the log in its newest segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentPlace {
    pub header: SegmentHeader,
    /// Offset after the last frame.
    pub end: u64,
}

impl SlotBytes {
    /// Check everything about a slot except its frames and its place in the log.
    pub fn check(
        self,
        first_seq: u64,
        identity: &LedgerIdentity,
    ) -> Result<CheckedSlot, SlotFault> {
        let header = SlotHeader::decode(&self.0)?;
        if header.first_seq != first_seq {
            return Err(SlotFault::Name);
        }
        if (header.ledger, header.genesis) != (identity.ledger, identity.genesis) {
            return Err(SlotFault::Ledger);
        }
        if header.slot_length() != Some(self.0.len()) {
            return Err(SlotFault::Length);
        }
        let body = self.0.get(SLOT_HEADER_SIZE..).unwrap_or_default();
        if content_hash(body) != header.body_hash {
            return Err(SlotFault::BodyHash);
        }
        Ok(CheckedSlot { header, bytes: self.0 })
    }

    /// The identity of the bytes: equal bytes have equal hashes.
    #[must_use]
    pub fn hash(&self) -> [u8; 32] {
        content_hash(&self.0)
    }
}

impl CheckedSlot {
    #[must_use]
    pub fn header(&self) -> &SlotHeader {
        &self.header
    }

    /// The bytes of the slot.
    pub(in crate::store) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The parts of the slot that the protocol needs. The slot has this time in the store.
    #[must_use]
    pub fn facts(&self, at: Option<StoreTime>) -> SlotFacts {
        let SlotHeader { first_seq, last_seq, chain_before, chain_after, .. } = self.header;
        let (epoch, opens, node) = (self.header.epoch, self.header.opens, self.header.node);
        let bytes = content_hash(&self.bytes);
        SlotFacts { first_seq, last_seq, chain_before, chain_after, epoch, opens, node, bytes, at }
    }

    /// The chain value of a record, if the slot has it in this segment and everything before it is valid.
    pub(in crate::store) fn chain_at(&self, seq: u64, segment: &SegmentHeader) -> Option<Chain> {
        let SlotHeader { first_seq, chain_before, offset, .. } = self.header;
        if self.header.segment != segment.segment || seq < first_seq {
            return None;
        }
        let start = if self.header.starts_segment() { SEGMENT_HEADER_SIZE } else { 0 };
        let frames = self.bytes.get(SLOT_HEADER_SIZE + start..)?;
        let walk = FrameWalk::at(first_seq, chain_before, offset);
        let walk = walk_frames(frames, segment, walk, seq, &mut |_| ()).ok()?;
        (walk.next_seq == seq + 1).then_some(walk.chain)
    }

    /// Verify every frame, and that the slot continues the log at a position. `time` is that of the
    /// record before, and `place` the end of the newest segment, if it is known.
    pub fn verify(
        self,
        after: &StorePosition,
        time: u64,
        place: Option<&SegmentPlace>,
    ) -> Result<VerifiedSlot, SlotFault> {
        let Self { header, bytes } = self;
        if let Some(what) = after.mismatch(header.first_seq, &header.chain_before, header.epoch) {
            return Err(SlotFault::Link(what));
        }
        if (header.epoch > after.epoch) != header.opens {
            return Err(SlotFault::Link("a new epoch begins without an opening slot, or again"));
        }
        let body = bytes.get(SLOT_HEADER_SIZE..).unwrap_or_default();
        let (segment, frames) = if header.starts_segment() {
            let segment = SegmentHeader::decode(body).map_err(SlotFault::Segment)?;
            check_successor(&header, &segment, place)?;
            (segment, body.get(SEGMENT_HEADER_SIZE..).unwrap_or_default())
        } else {
            let place = place.ok_or(SlotFault::Place("its segment header is missing"))?;
            check_same_segment(&header, place)?;
            (place.header.clone(), body)
        };
        let verified = VerifiedSlot {
            place: SegmentPlace { header: segment, end: header.end },
            time_before: time,
            bytes: Vec::new(),
            header,
        };
        let walk = verified.walk(frames, &mut |_| ())?;
        let header = &verified.header;
        let is_opened = walk.opens(header.epoch, &header.node);
        let is_complete = walk.next_seq == header.last_seq + 1
            && walk.chain == header.chain_after
            && walk.time == header.time
            && walk.offset == header.end;
        if !is_complete {
            return Err(SlotFault::Malformed("last_seq, chain_after, time or end"));
        }
        if is_opened != header.opens || walk.note.is_some() != header.opens {
            return Err(SlotFault::Malformed("flags: opening slots, and no others, end in a note"));
        }
        Ok(VerifiedSlot { bytes, ..verified })
    }
}

/// Check that a slot with frames of a segment continues the segments of the log.
pub(super) fn check_place(
    header: &SlotHeader,
    segment: &SegmentHeader,
    place: Option<&SegmentPlace>,
) -> Result<(), SlotFault> {
    if header.starts_segment() {
        return check_successor(header, segment, place);
    }
    check_same_segment(header, place.ok_or(SlotFault::Place("its segment header is missing"))?)
}

/// Check that a slot continues in the segment of the record before.
fn check_same_segment(header: &SlotHeader, place: &SegmentPlace) -> Result<(), SlotFault> {
    if (place.header.segment, place.header.ordinal) != (header.segment, header.ordinal) {
        return Err(SlotFault::Place("it belongs to another segment"));
    }
    if place.end != header.offset {
        return Err(SlotFault::Place("it does not start where the records before it end"));
    }
    Ok(())
}

/// Check that a segment header in a slot continues the segments of the log.
fn check_successor(
    header: &SlotHeader,
    segment: &SegmentHeader,
    place: Option<&SegmentPlace>,
) -> Result<(), SlotFault> {
    let is_own = (segment.ledger, segment.genesis) == (header.ledger, header.genesis)
        && (segment.segment, segment.ordinal) == (header.segment, header.ordinal);
    if !is_own {
        return Err(SlotFault::Place("its segment header is of another segment"));
    }
    let starts_here = segment.base_seq == header.first_seq
        && segment.prev_last_seq == header.first_seq - 1
        && segment.prev_chain == header.chain_before;
    if !starts_here {
        return Err(SlotFault::Place("its segment header states another start"));
    }
    let (ordinal, uid, end) = match place {
        Some(before) => (before.header.ordinal + 1, before.header.segment, before.end),
        None if header.first_seq == 1 => (0, Uid::default(), 0),
        None => return Err(SlotFault::Place("the segment before it is unknown")),
    };
    if (segment.ordinal, segment.prev_segment, segment.prev_data_end) != (ordinal, uid, end) {
        return Err(SlotFault::Place("its segment header names another predecessor"));
    }
    Ok(())
}

impl VerifiedSlot {
    #[must_use]
    pub fn header(&self) -> &SlotHeader {
        &self.header
    }

    /// The end of the log after this slot.
    #[must_use]
    pub fn place(&self) -> &SegmentPlace {
        &self.place
    }

    /// The frames, byte for byte as they are in their segment.
    #[must_use]
    pub fn frames(&self) -> &[u8] {
        let start = if self.header.starts_segment() { SEGMENT_HEADER_SIZE } else { 0 };
        self.bytes.get(SLOT_HEADER_SIZE + start..).unwrap_or_default()
    }

    /// The bytes of the slot.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Pass each record to `take`, in order.
    pub fn for_each_record(&self, take: &mut dyn FnMut(&Record<'_>)) {
        self.walk(self.frames(), take).expect("the frames of a verified slot are valid");
    }

    fn walk(
        &self,
        frames: &[u8],
        take: &mut dyn FnMut(&Record<'_>),
    ) -> Result<FrameWalk, SlotFault> {
        let SlotHeader { first_seq, chain_before, offset, last_seq, .. } = self.header;
        let (time, note) = (self.time_before, None);
        let start = FrameWalk { next_seq: first_seq, chain: chain_before, time, offset, note };
        walk_frames(frames, &self.place.header, start, last_seq, take)
    }
}

const _: () = assert!(DATA_START == 4096, "the place of the first frame");
