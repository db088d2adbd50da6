//! Making a slot. Its frames are verified first, so that no process puts a slot that others refuse.

use std::result::Result as FaultResult;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Chain, SEGMENT_HEADER_SIZE, SegmentHeader, Uid, content_hash, to_u64};
use crate::store::binding::LedgerIdentity;
use crate::store::protocol::SlotFacts;

use super::bytes::{SegmentPlace, check_place};
use super::frames::{FrameWalk, walk_frames};
use super::header::{DATA_START, SLOT_SIZE_MAX, SlotFault, SlotHeader};

/// A process that makes slots, in an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotWriter {
    /// The ledger.
    pub identity: LedgerIdentity,
    /// The process.
    pub node: Uid,
    /// Its epoch.
    pub epoch: u64,
}

/// Frames of one segment that become a slot.
#[derive(Debug, Clone, Copy)]
pub struct SlotPart<'a> {
    /// The segment.
    pub segment: &'a SegmentHeader,
    /// Offset of the first frame in the segment.
    pub offset: u64,
    /// The frames: complete batches.
    pub frames: &'a [u8],
    /// Sequence number of the record before.
    pub last_seq: u64,
    /// Its chain value.
    pub chain: Chain,
    /// Its time.
    pub time: u64,
}

/// The bytes of a slot that this process made. They never change: a try that follows another one sends
/// the same bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedSlot {
    header: SlotHeader,
    place: SegmentPlace,
    bytes: Vec<u8>,
}

impl SlotWriter {
    /// Make a slot.
    ///
    /// # Errors
    /// `TooLarge`; `Corrupt` if the frames are not a part of the log that may become a slot.
    pub fn encode(&self, part: &SlotPart<'_>) -> Result<EncodedSlot> {
        let SlotPart { segment, offset, frames, last_seq, chain, time } = *part;
        let invalid = |fault: &SlotFault| {
            Error::new(ErrorKind::Corrupt, format!("these records cannot become a slot: {fault}"))
                .at_seq(last_seq.saturating_add(1))
        };
        let first_seq = last_seq.saturating_add(1);
        let start = FrameWalk { next_seq: first_seq, chain, time, offset, note: None };
        let walk = walk_frames(frames, segment, start, u64::MAX, &mut |_| ())
            .map_err(|fault| invalid(&fault))?;
        let opens = walk.opens(self.epoch, &self.node);
        if walk.note.is_some() != opens {
            return Err(invalid(&SlotFault::Malformed("a writer note: it opens another epoch")));
        }
        let mut body = Vec::new();
        if offset == DATA_START {
            body.reserve_exact(SEGMENT_HEADER_SIZE + frames.len());
            body.extend_from_slice(&segment.encode());
        }
        body.extend_from_slice(frames);
        let header = SlotHeader {
            ledger: self.identity.ledger,
            genesis: self.identity.genesis,
            node: self.node,
            epoch: self.epoch,
            opens,
            first_seq,
            last_seq: walk.next_seq - 1,
            chain_before: chain,
            chain_after: walk.chain,
            segment: segment.segment,
            ordinal: segment.ordinal,
            offset,
            end: offset.saturating_add(to_u64(frames.len())),
            time: walk.time,
            body_hash: content_hash(&body),
        };
        if header.slot_length().is_none_or(|length| length > SLOT_SIZE_MAX) {
            let message = format!(
                "slot: expected at most {SLOT_SIZE_MAX} bytes, found {} bytes of records; commit \
                 them in smaller batches",
                frames.len()
            );
            return Err(Error::new(ErrorKind::TooLarge, message).at_seq(first_seq));
        }
        if let Some(field) = header.problem() {
            return Err(invalid(&SlotFault::Malformed(field)));
        }
        let bytes = [header.encode().as_slice(), &body].concat();
        let place = SegmentPlace { header: segment.clone(), end: header.end };
        Ok(EncodedSlot { header, place, bytes })
    }
}

impl EncodedSlot {
    /// The header.
    #[must_use]
    pub fn header(&self) -> &SlotHeader {
        &self.header
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where the log ends after this slot.
    #[must_use]
    pub fn place(&self) -> &SegmentPlace {
        &self.place
    }

    /// Check that the slot continues the segments of the log. A segment without a record is in no slot, so
    /// a log with one in its middle cannot be in a store.
    pub(in crate::store) fn continues(
        &self,
        place: Option<&SegmentPlace>,
    ) -> FaultResult<(), SlotFault> {
        check_place(&self.header, &self.place.header, place)
    }

    /// What the protocol needs to know about the slot.
    #[must_use]
    pub fn facts(&self) -> SlotFacts {
        SlotFacts {
            first_seq: self.header.first_seq,
            last_seq: self.header.last_seq,
            chain_before: self.header.chain_before,
            chain_after: self.header.chain_after,
            epoch: self.header.epoch,
            opens: self.header.opens,
            node: self.header.node,
            bytes: content_hash(&self.bytes),
            at: None,
        }
    }
}
