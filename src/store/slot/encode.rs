//! Making a slot. Its frames are verified first, so that no process puts a slot that others refuse.

use std::result::Result as FaultResult;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Chain, SEGMENT_HEADER_SIZE, SegmentHeader, Uid, content_hash, to_u64};
use crate::store::name::{LedgerIdentity, parse_uid};
use crate::store::protocol::SlotFacts;

use super::bytes::{SegmentPlace, check_place};
use super::frames::{FrameWalk, walk_frames};
use super::header::{DATA_START, SLOT_SIZE_MAX, SlotFault, SlotHeader};

/// A process that makes slots, in an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotWriter {
    pub identity: LedgerIdentity,
    /// The process.
    pub node: Uid,
    pub epoch: u64,
}

/// Frames of one segment that become a slot.
#[derive(Debug, Clone, Copy)]
pub struct SlotPart<'a> {
    pub segment: &'a SegmentHeader,
    /// Offset of the first frame in the segment.
    pub offset: u64,
    /// The frames: complete batches.
    pub frames: &'a [u8],
    /// Sequence number of the record before.
    pub last_seq: u64,
    /// Its chain value.
    pub chain: Chain,
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

impl SlotPart<'_> {
    /// Verify the frames.
    fn walk(&self) -> Result<FrameWalk> {
        let Self { segment, offset, frames, last_seq, chain, time } = *self;
        let next_seq = last_seq.saturating_add(1);
        let start = FrameWalk { next_seq, chain, time, offset, note: None };
        let walked = walk_frames(frames, segment, start, u64::MAX, &mut |_| ());
        walked.map_err(|fault| self.invalid(&fault))
    }

    fn invalid(&self, fault: &SlotFault) -> Error {
        let message = format!("these records cannot become a slot: {fault}");
        Error::new(ErrorKind::Corrupt, message).at_seq(self.last_seq.saturating_add(1))
    }
}

impl SlotWriter {
    /// Make a slot.
    ///
    /// # Errors
    /// `TooLarge`; `Corrupt` if the frames are not a part of the log that may become a slot.
    pub fn encode(&self, part: &SlotPart<'_>) -> Result<EncodedSlot> {
        let walk = part.walk()?;
        if walk.note.is_some() != walk.opens(self.epoch, &self.node) {
            let fault = SlotFault::Malformed("a writer note: it opens another epoch");
            return Err(part.invalid(&fault));
        }
        self.encode_walked(part, &walk)
    }

    /// Make a slot of records that a folder brings along: a writer note becomes an opening slot again, of the epoch and
    /// the process that it names. Other records are in the epoch of this writer.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn encode_copied(&self, part: &SlotPart<'_>) -> Result<EncodedSlot> {
        let walk = part.walk()?;
        let Some((_, note)) = &walk.note else { return self.encode_walked(part, &walk) };
        let node = parse_uid(&note.node).filter(|node| walk.opens(note.epoch, node));
        let node = node.ok_or_else(|| {
            part.invalid(&SlotFault::Malformed("a writer note: it is not the last record"))
        })?;
        Self { node, epoch: note.epoch, ..*self }.encode_walked(part, &walk)
    }

    /// Make a slot of verified frames. If they have a writer note, it opens the epoch of this writer.
    fn encode_walked(&self, part: &SlotPart<'_>, walk: &FrameWalk) -> Result<EncodedSlot> {
        let SlotPart { segment, offset, frames, last_seq, chain, .. } = *part;
        let first_seq = last_seq.saturating_add(1);
        let opens = walk.note.is_some();
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
            return Err(part.invalid(&SlotFault::Malformed(field)));
        }
        let bytes = [header.encode().as_slice(), &body].concat();
        let place = SegmentPlace { header: segment.clone(), end: header.end };
        Ok(EncodedSlot { header, place, bytes })
    }
}

impl EncodedSlot {
    #[must_use]
    pub fn header(&self) -> &SlotHeader {
        &self.header
    }

    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The end of the log after this slot.
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

    /// The parts of the slot that the protocol needs.
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
