//! Decoding the record frame: `header(48) || payload || zero pad || chain(32)`, aligned to 64 bytes.
//!
//! A frame is validated in stages, each with its own type: [`CheckedHeader`] (the header CRC holds),
//! [`CheckedFrame`] (the body CRC holds), [`Record`] (the chain holds). `encode.rs` writes frames.

use super::bytes::{all_zero, array, put, u16_at, u32_at, u64_at};
use super::codec::{Codec, covered_part, read_detached};
use super::hash::{Chain, ChainKey, CrcSeed, LOGICAL_SIZE, Placement, content_hash};

/// The first bytes of a frame. All-zero is invalid by construction.
pub const FRAME_MAGIC: [u8; 4] = *b"PLF1";
/// Size of a frame header.
pub const FRAME_HEADER_SIZE: usize = 48;
/// Frames start and end at multiples of this size.
pub const FRAME_ALIGNMENT: usize = 64;
/// The longest payload.
pub const PAYLOAD_LENGTH_MAX: u32 = 16 * 1024 * 1024;
/// A reader may skip unknown kinds from this number on.
pub const SKIPPABLE_KINDS_FROM: u16 = 0x8000;

pub(super) const CHAIN_SIZE: usize = 32;
/// A run of this many zeros looks like a sector that was never written.
pub(super) const SECTOR: usize = 512;
pub(super) const FLAG_NO_ZERO_RUN: u8 = 1;
const FLAG_COMPRESSED: u8 = 1 << 1;

pub(super) mod at {
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const PAYLOAD_LENGTH: usize = 4;
    pub(crate) const SEQ: usize = 8;
    pub(crate) const TIME: usize = 16;
    pub(crate) const ORDINAL: usize = 24;
    pub(crate) const INFLIGHT: usize = 28;
    pub(crate) const KIND: usize = 32;
    pub(crate) const CODEC: usize = 34;
    pub(crate) const FLAGS: usize = 35;
    pub(crate) const BATCH_LEFT: usize = 36;
    pub(crate) const SCHEMA: usize = 38;
    pub(crate) const BODY_CRC: usize = 40;
    pub(crate) const HEADER_CRC: usize = 44;
}

/// A record to append; the log adds the [`Stamp`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRecord {
    /// The type of the payload, not 0. Those from 0x8000 on are notes of the log about itself.
    pub kind: u16,
    /// The encoding of the payload.
    pub codec: Codec,
    /// The version of the payload's layout, from 1.
    pub schema: u16,
    /// The payload, up to 16 MiB.
    pub payload: Vec<u8>,
}

impl NewRecord {
    /// A record with opaque bytes as its payload, in the first version of their layout. `kind` is from 1
    /// to 0x7FFF.
    #[must_use]
    pub fn new(kind: u16, payload: impl Into<Vec<u8>>) -> Self {
        Self { kind, codec: Codec::Raw, schema: 1, payload: payload.into() }
    }
}

/// The fields that the log adds to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Sequence number, gapless from 1.
    pub seq: u64,
    /// Microseconds since the Unix epoch, never less than that of the previous record.
    pub time: u64,
    /// Low 32 bits of the segment's ordinal.
    pub ordinal: u32,
    /// `seq` minus the last synced seq when the write starts: older records were synced.
    pub inflight: u32,
    /// The number of later records of the same batch.
    pub batch_left: u16,
}

/// A frame's header fields, without the CRCs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader {
    /// The fields that the log added.
    pub stamp: Stamp,
    /// The type of the payload.
    pub kind: u16,
    /// The encoding of the payload.
    pub codec: Codec,
    /// The version of the payload's layout.
    pub schema: u16,
    /// Length of the payload in bytes.
    pub payload_length: u32,
}

impl RecordHeader {
    /// Decode the first bytes of a frame; `None` for an unknown codec.
    #[inline]
    pub(super) fn read(head: &[u8; FRAME_HEADER_SIZE]) -> Option<Self> {
        let [codec] = array(head, at::CODEC)?;
        Some(Self {
            stamp: Stamp {
                seq: u64_at(head, at::SEQ),
                time: u64_at(head, at::TIME),
                ordinal: u32_at(head, at::ORDINAL),
                inflight: u32_at(head, at::INFLIGHT),
                batch_left: u16_at(head, at::BATCH_LEFT),
            },
            kind: u16_at(head, at::KIND),
            codec: Codec::from_number(codec)?,
            schema: u16_at(head, at::SCHEMA),
            payload_length: u32_at(head, at::PAYLOAD_LENGTH),
        })
    }

    /// The fields that the chain covers, in the chain's order.
    pub(super) fn logical(&self) -> [u8; LOGICAL_SIZE] {
        let mut bytes = [0; LOGICAL_SIZE];
        put(&mut bytes, 0, &self.payload_length.to_le_bytes());
        put(&mut bytes, 4, &self.stamp.seq.to_le_bytes());
        put(&mut bytes, 12, &self.stamp.time.to_le_bytes());
        put(&mut bytes, 20, &self.kind.to_le_bytes());
        put(&mut bytes, 22, &[self.codec.number()]);
        put(&mut bytes, 23, &self.stamp.batch_left.to_le_bytes());
        put(&mut bytes, 25, &self.schema.to_le_bytes());
        bytes
    }
}

/// The checksum of a frame header: over all bytes before the checksum itself.
#[inline]
pub(super) fn header_crc(seed: &CrcSeed, head: &[u8]) -> u32 {
    mutant!(LengthOutsideCrc => return seed.crc(head.get(at::SEQ..at::HEADER_CRC).unwrap_or(head)));
    seed.crc(head.get(..at::HEADER_CRC).unwrap_or(head))
}

/// Size of a frame on disk.
#[must_use]
pub fn frame_size(payload_length: usize) -> usize {
    (FRAME_HEADER_SIZE + payload_length + CHAIN_SIZE).next_multiple_of(FRAME_ALIGNMENT)
}

/// The payload length in an unvalidated frame header, if it is within the limit: how many bytes to
/// read next.
#[must_use]
pub fn peek_payload_length(bytes: &[u8]) -> Option<usize> {
    let head = bytes.get(..FRAME_HEADER_SIZE)?;
    let claimed = u32_at(head, at::PAYLOAD_LENGTH);
    let is_frame = u32_at(head, at::MAGIC).to_le_bytes() == FRAME_MAGIC;
    (is_frame && claimed <= PAYLOAD_LENGTH_MAX).then(|| usize::try_from(claimed).ok()).flatten()
}

/// The kind in an unvalidated frame header.
#[must_use]
pub fn peek_kind(bytes: &[u8]) -> Option<u16> {
    let head = bytes.get(..FRAME_HEADER_SIZE)?;
    let is_frame = u32_at(head, at::MAGIC).to_le_bytes() == FRAME_MAGIC;
    is_frame.then(|| u16_at(head, at::KIND))
}

/// Why bytes are not a valid frame at their position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameFault {
    /// The position holds zeros: nothing was written.
    Empty,
    /// The bytes end before the frame does.
    Truncated,
    /// The storage cannot read some of its bytes.
    Unreadable,
    /// The magic is wrong.
    Magic,
    /// The header's CRC is wrong.
    HeaderCrc,
    /// The CRC of payload, pad and chain is wrong.
    BodyCrc,
    /// The CRCs are valid but the content breaks the format: a length over the limit, an unknown
    /// codec or flag, a nonzero pad, the ordinal of another segment; or the record cannot follow
    /// its predecessor: its time is earlier, or it interrupts a batch.
    Malformed,
    /// The CRCs are valid but the sequence number is not the next one.
    Seq,
    /// The CRCs are valid but the chain does not continue the previous record.
    Chain,
}

impl FrameFault {
    /// A description for people.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Empty => "nothing was written here",
            Self::Truncated => "the bytes end inside a frame",
            Self::Unreadable => "the storage cannot read the bytes",
            Self::Magic => "no frame starts here",
            Self::HeaderCrc => "frame header checksum mismatch",
            Self::BodyCrc => "frame body checksum mismatch",
            Self::Malformed => "intact frame with invalid fields",
            Self::Seq => "intact frame with the wrong sequence number",
            Self::Chain => "intact frame whose chain does not continue the previous record",
        }
    }

    /// Whether the checksums hold, so that no crash explains the fault.
    #[must_use]
    pub fn is_intact(self) -> bool {
        matches!(self, Self::Malformed | Self::Seq | Self::Chain)
    }
}

/// A frame header with a valid CRC, so that its length can be trusted. It is a copy: the body may be
/// read later.
#[derive(Debug, Clone, Copy)]
pub struct CheckedHeader {
    bytes: [u8; FRAME_HEADER_SIZE],
    length: usize,
}

/// A frame with valid CRCs. Its position in the chain is not verified.
#[derive(Debug, Clone, Copy)]
pub struct CheckedFrame<'a> {
    header: RecordHeader,
    payload: &'a [u8],
    chain: Chain,
}

/// A record with a verified frame and a verified position in the chain.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// The header.
    pub header: RecordHeader,
    /// The payload.
    pub payload: &'a [u8],
    /// The chain value.
    pub chain: Chain,
}

impl CheckedHeader {
    /// Validate the header at the start of `bytes`. `seed` belongs to their position.
    #[inline]
    pub fn check(bytes: &[u8], seed: &CrcSeed) -> Result<Self, FrameFault> {
        let head = bytes.first_chunk::<FRAME_HEADER_SIZE>().ok_or(FrameFault::Truncated)?;
        if u32_at(head, at::MAGIC).to_le_bytes() != FRAME_MAGIC {
            let sector = bytes.get(..FRAME_ALIGNMENT).unwrap_or(head.as_slice());
            return Err(if all_zero(sector) { FrameFault::Empty } else { FrameFault::Magic });
        }
        if header_crc(seed, head) != u32_at(head, at::HEADER_CRC) {
            return Err(FrameFault::HeaderCrc);
        }
        // The header is intact, so its length can be trusted, within the limit.
        let payload_length = u32_at(head, at::PAYLOAD_LENGTH);
        let length = usize::try_from(payload_length).map_err(|_| FrameFault::Malformed)?;
        if payload_length > PAYLOAD_LENGTH_MAX {
            return Err(FrameFault::Malformed);
        }
        Ok(Self { bytes: *head, length })
    }

    /// Size of the frame on disk.
    #[must_use]
    pub fn frame_size(&self) -> usize {
        frame_size(self.length)
    }

    /// Validate the whole frame. `bytes` start with the header, at the same position.
    #[expect(clippy::inline_always, reason = "a call would copy the returned value")]
    #[inline(always)]
    pub fn frame<'a>(
        &self,
        bytes: &'a [u8],
        seed: &CrcSeed,
        ordinal: u64,
    ) -> Result<CheckedFrame<'a>, FrameFault> {
        let Self { bytes: head, length } = self;
        let length = *length;
        let body = bytes.get(FRAME_HEADER_SIZE..frame_size(length)).ok_or(FrameFault::Truncated)?;
        if seed.crc(body) != u32_at(head, at::BODY_CRC) {
            return Err(FrameFault::BodyCrc);
        }
        let (padded, chain) = body.split_last_chunk::<CHAIN_SIZE>().ok_or(FrameFault::Malformed)?;
        let (payload, pad) = padded.split_at_checked(length).ok_or(FrameFault::Malformed)?;
        let [flags] = array(head, at::FLAGS).ok_or(FrameFault::Malformed)?;
        let header = RecordHeader::read(head).ok_or(FrameFault::Malformed)?;
        let is_known = flags & !(FLAG_NO_ZERO_RUN | FLAG_COMPRESSED) == 0;
        let is_here = u64::from(header.stamp.ordinal) == ordinal & u64::from(u32::MAX);
        // Compressed payloads are reserved for a later minor version.
        let is_plain = flags & FLAG_COMPRESSED == 0;
        if !is_known || !is_here || !is_plain || !all_zero(pad) {
            return Err(FrameFault::Malformed);
        }
        Ok(CheckedFrame { header, payload, chain: Chain(*chain) })
    }
}

impl<'a> CheckedFrame<'a> {
    /// Validate the frame at the start of `bytes`, which are at `placement`.
    pub fn check(bytes: &'a [u8], placement: Placement, ordinal: u64) -> Result<Self, FrameFault> {
        let seed = placement.seed();
        CheckedHeader::check(bytes, &seed)?.frame(bytes, &seed, ordinal)
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> &RecordHeader {
        &self.header
    }

    /// Size of the frame on disk.
    #[must_use]
    pub fn size(&self) -> usize {
        frame_size(self.payload.len())
    }

    /// Verify that this is record `seq` with the given chain value.
    #[inline]
    pub fn verify_link(&self, seq: u64, link: &Chain) -> Result<Record<'a>, FrameFault> {
        if self.header.stamp.seq != seq {
            return Err(FrameFault::Seq);
        }
        if *link != self.chain {
            return Err(FrameFault::Chain);
        }
        // The chain covers a detached value by its digest only.
        if self.header.codec == Codec::Detached && read_detached(self.payload).is_none() {
            return Err(FrameFault::Chain);
        }
        Ok(self.trust())
    }

    /// Verify that this is record `seq` and continues the chain value `previous`.
    pub fn verify(
        &self,
        seq: u64,
        key: &ChainKey,
        previous: &Chain,
    ) -> Result<Record<'a>, FrameFault> {
        if self.header.stamp.seq != seq {
            return Err(FrameFault::Seq);
        }
        let payload_hash = content_hash(covered_part(self.header.codec, self.payload));
        self.verify_link(seq, &key.link(previous, &self.header.logical(), &payload_hash))
    }

    /// The record without verification of its chain, for readers of damaged ledgers: the previous
    /// record is missing.
    #[must_use]
    #[inline]
    pub fn trust(&self) -> Record<'a> {
        Record { header: self.header, payload: self.payload, chain: self.chain }
    }
}

/// Whether a frame with an invalid CRC has the signature of a torn write: zeros in a part that is
/// never zero in a complete frame (the first 64 bytes, the last 8, which end the chain value, or, with the flag
/// `NO_ZERO_SECTOR`, any sector of payload and pad). `bytes` run from the start of the frame to the end of the file.
#[must_use]
pub fn looks_torn(bytes: &[u8], placement: Placement) -> bool {
    let (Some(head), Some(line)) = (bytes.get(..FRAME_HEADER_SIZE), bytes.get(..FRAME_ALIGNMENT))
    else {
        return false;
    };
    if all_zero(line) {
        return true;
    }
    let payload_length = u32_at(head, at::PAYLOAD_LENGTH);
    let is_header_intact = u32_at(head, at::MAGIC).to_le_bytes() == FRAME_MAGIC
        && header_crc(&placement.seed(), head) == u32_at(head, at::HEADER_CRC)
        && payload_length <= PAYLOAD_LENGTH_MAX;
    if !is_header_intact {
        return false;
    }
    let length = usize::try_from(payload_length).unwrap_or(usize::MAX);
    let Some(frame) = bytes.get(..frame_size(length)) else { return false };
    let end = if mutant!(TornByFewerZeros) { 7 } else { 8 };
    if frame.rchunks(end).next().is_some_and(all_zero) {
        return true;
    }
    let flags = head.get(at::FLAGS).copied().unwrap_or(0);
    flags & FLAG_NO_ZERO_RUN != 0 && has_zero_sector(frame, placement.offset)
}

/// Whether the frame contains a complete 512-byte sector of zeros.
fn has_zero_sector(frame: &[u8], offset: u64) -> bool {
    let into_sector = usize::try_from(offset % 512).unwrap_or(0);
    let first = (SECTOR - into_sector) % SECTOR;
    frame.get(first..).is_some_and(|rest| rest.chunks_exact(SECTOR).any(all_zero))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::bytes::in_miri;
    use crate::format::encode_frame;

    const HERE: Placement = Placement { segment: [7; 16], offset: 4096 };

    fn stamp() -> Stamp {
        Stamp { seq: 1, time: 2, ordinal: 3, inflight: 1, batch_left: 0 }
    }

    fn encode(payload: &[u8]) -> (Vec<u8>, Chain) {
        let mut bytes = Vec::new();
        let record = NewRecord { kind: 1, codec: Codec::Raw, schema: 1, payload: payload.to_vec() };
        let key = ChainKey::new(&[9; 16]);
        let chain = encode_frame(&mut bytes, &record, stamp(), HERE, &key, &Chain::GENESIS);
        (bytes, chain)
    }

    /// Goal: frames round-trip at every payload length around the alignments.
    #[test]
    fn frames_round_trip_at_every_small_length() {
        for length in (0..300).step_by(in_miri(7)) {
            let payload = vec![0xA5; length];
            let (bytes, chain) = encode(&payload);
            assert_eq!(bytes.len() % FRAME_ALIGNMENT, 0);
            let frame = CheckedFrame::check(&bytes, HERE, 3).unwrap();
            let record = frame.verify(1, &ChainKey::new(&[9; 16]), &Chain::GENESIS).unwrap();
            assert_eq!((record.payload, record.chain), (payload.as_slice(), chain));
            assert_eq!(record.header.stamp, stamp());
        }
    }

    /// Goal: a header whose checksum is zero is valid (H8, H9).
    /// Method: a CRC is an affine function of the bits that it covers, so the 32 bits of
    /// `inflight`, which nothing else covers, can be solved for.
    #[test]
    fn a_checksum_of_zero_is_valid() {
        let with = |inflight: u32| {
            let mut bytes = Vec::new();
            let record = NewRecord { kind: 1, codec: Codec::Raw, schema: 1, payload: vec![5; 9] };
            let stamp = Stamp { seq: u64::MAX / 2, inflight, ..stamp() };
            let key = ChainKey::new(&[9; 16]);
            encode_frame(&mut bytes, &record, stamp, HERE, &key, &Chain::GENESIS);
            bytes
        };
        let crc = |inflight| u32_at(&with(inflight), at::HEADER_CRC);
        let constant = crc(0);
        let mut pivots: Vec<(u32, u32)> = Vec::new();
        for bit in 0..32 {
            let (mut column, mut inputs) = (crc(1 << bit) ^ constant, 1_u32 << bit);
            for (value, combination) in &pivots {
                if column ^ value < column {
                    (column, inputs) = (column ^ value, inputs ^ combination);
                }
            }
            assert_ne!(column, 0, "a CRC over 32 bits in a row is a bijection");
            pivots.push((column, inputs));
            pivots.sort_unstable_by_key(|pivot| std::cmp::Reverse(*pivot));
        }
        let (mut left, mut inflight) = (constant, 0);
        for (value, combination) in &pivots {
            if left ^ value < left {
                (left, inflight) = (left ^ value, inflight ^ combination);
            }
        }
        assert_eq!(left, 0);
        let bytes = with(inflight);
        assert_eq!(crc(inflight), 0, "solved for a checksum of zero");
        let frame = CheckedFrame::check(&bytes, HERE, 3).unwrap();
        assert_eq!(frame.header().stamp.inflight, inflight);
        let mut damaged = bytes.clone();
        damaged[at::SEQ] ^= 1;
        assert!(CheckedFrame::check(&damaged, HERE, 3).is_err());
    }

    /// Goal: every flipped bit of a frame, pad included, is detected (H7, H13), and every truncation.
    #[test]
    fn every_flipped_bit_and_truncation_is_detected() {
        let (bytes, _) = encode(b"the payload of a frame with a pad after it");
        for bit in (0..bytes.len() * 8).step_by(in_miri(7)) {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(CheckedFrame::check(&damaged, HERE, 3).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(
                CheckedFrame::check(&bytes[..length], HERE, 3).is_err(),
                "truncated to {length}"
            );
        }
    }

    /// Goal: a copy of a frame at another offset or in another segment is invalid (H24, H47).
    #[test]
    fn a_misplaced_frame_is_invalid() {
        let (bytes, _) = encode(b"misdirected");
        let elsewhere = Placement { offset: 8192, ..HERE };
        let other_segment = Placement { segment: [8; 16], ..HERE };
        assert_eq!(CheckedFrame::check(&bytes, elsewhere, 3).err(), Some(FrameFault::HeaderCrc));
        assert_eq!(
            CheckedFrame::check(&bytes, other_segment, 3).err(),
            Some(FrameFault::HeaderCrc)
        );
        assert_eq!(CheckedFrame::check(&bytes, HERE, 4).err(), Some(FrameFault::Malformed));
    }

    /// Goal: zeros of any length are never a frame (H8).
    #[test]
    fn zeros_are_never_a_frame() {
        for length in [48, 64, 128, 4096] {
            let found = CheckedFrame::check(&vec![0; length], HERE, 0).err();
            assert_eq!(found, Some(FrameFault::Empty));
        }
    }

    /// Goal: an impossible length is rejected before anything is allocated for it (H4, H5).
    #[test]
    fn impossible_lengths_are_rejected() {
        for length in [PAYLOAD_LENGTH_MAX + 1, u32::MAX - 79, u32::MAX - 1, u32::MAX] {
            let (mut bytes, _) = encode(b"x");
            put(&mut bytes, at::PAYLOAD_LENGTH, &length.to_le_bytes());
            let crc = HERE.seed().crc(&bytes[..at::HEADER_CRC]);
            put(&mut bytes, at::HEADER_CRC, &crc.to_le_bytes());
            assert_eq!(CheckedFrame::check(&bytes, HERE, 3).err(), Some(FrameFault::Malformed));
        }
    }

    /// Goal: a missing sector is recognised as torn, and a flipped bit is not.
    #[test]
    fn a_missing_sector_looks_torn_and_a_flipped_bit_does_not() {
        let (bytes, _) = encode(&vec![0x5A; 3000]);
        for sector in 0..bytes.len() / 512 {
            let mut torn = bytes.clone();
            torn[sector * 512..(sector + 1) * 512].fill(0);
            assert!(looks_torn(&torn, HERE), "sector {sector}");
        }
        // A write that was cut: only inside of its last 8 bytes it may have been complete and damaged.
        for end in (FRAME_HEADER_SIZE..bytes.len()).step_by(in_miri(41)) {
            let mut cut = bytes.clone();
            cut[end..].fill(0);
            assert_eq!(looks_torn(&cut, HERE), end <= bytes.len() - 8, "cut at {end}");
        }
        for bit in (0..bytes.len() * 8).step_by(97 * in_miri(11)) {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!looks_torn(&flipped, HERE), "bit {bit}");
        }
    }
}
