//! The header of a slot.
//!
//! Invariant: magic, version and checksum keep their places in every later version.

use std::fmt;

use crate::format::{
    Chain, FORMAT_MAJOR, FrameFault, HeaderFault, SEGMENT_HEADER_SIZE, Uid, all_zero, array, crc32,
    put, to_u64, u16_at, u32_at, u64_at,
};

pub const SLOT_HEADER_SIZE: usize = 256;
/// The largest slot, header included.
pub const SLOT_SIZE_MAX: usize = 64 << 20;

const FORMAT_MINOR: u16 = 0;
const MAGIC: [u8; 8] = [0x89, b'P', b'L', b'T', 0x0D, 0x0A, 0x1A, 0x0A];
const FLAG_OPENS: u32 = 1;
const FLAG_SEGMENT_HEADER: u32 = 1 << 1;
/// Offset of a segment's first frame.
pub(super) const DATA_START: u64 = 4096;
/// Frames start and end at multiples of this size.
const ALIGNMENT: u64 = 64;

const _: () = assert!(SEGMENT_HEADER_SIZE == 4096, "DATA_START is the size of a segment header");

mod at {
    pub(super) const MAGIC: usize = 0;
    pub(super) const MAJOR: usize = 8;
    pub(super) const MINOR: usize = 10;
    pub(super) const INCOMPAT: usize = 12;
    pub(super) const LEDGER: usize = 16;
    pub(super) const GENESIS: usize = 32;
    pub(super) const NODE: usize = 48;
    pub(super) const EPOCH: usize = 64;
    pub(super) const FLAGS: usize = 72;
    pub(super) const COUNT: usize = 76;
    pub(super) const FIRST_SEQ: usize = 80;
    pub(super) const LAST_SEQ: usize = 88;
    pub(super) const CHAIN_BEFORE: usize = 96;
    pub(super) const CHAIN_AFTER: usize = 128;
    pub(super) const SEGMENT: usize = 160;
    pub(super) const ORDINAL: usize = 176;
    pub(super) const OFFSET: usize = 184;
    pub(super) const END: usize = 192;
    pub(super) const TIME: usize = 200;
    pub(super) const BODY_LENGTH: usize = 208;
    pub(super) const BODY_HASH: usize = 216;
    pub(super) const RESERVED: usize = 248;
    pub(super) const CRC: usize = 252;
}

/// The content of a slot, and its place in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotHeader {
    pub ledger: Uid,
    /// The uid that gives the key of the chain.
    pub genesis: Uid,
    /// The process that wrote it.
    pub node: Uid,
    /// The epoch of that process.
    pub epoch: u64,
    /// Whether its last record opens the epoch.
    pub opens: bool,
    /// Sequence number of its first record: its name.
    pub first_seq: u64,
    /// Sequence number of its last record.
    pub last_seq: u64,
    /// Chain value of the record before.
    pub chain_before: Chain,
    /// Chain value of its last record.
    pub chain_after: Chain,
    /// The segment that has the frames.
    pub segment: Uid,
    /// Position of that segment in the ledger.
    pub ordinal: u64,
    /// Offset of the first frame in the segment.
    pub offset: u64,
    /// Offset after the last frame.
    pub end: u64,
    /// Time of the last record.
    pub time: u64,
    /// BLAKE3 of the bytes after the header.
    pub body_hash: [u8; 32],
}

/// Why bytes are not a slot of a log, at a place in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotFault {
    /// There are fewer or more bytes than the slot has.
    Length,
    /// The bytes are not a slot of this format.
    Magic,
    /// The checksum of the header is wrong.
    HeaderChecksum,
    /// It has another major version.
    Major(u16),
    /// It requires features that this version does not have.
    Incompatible(u32),
    /// The header is intact, but a field is out of range.
    Malformed(&'static str),
    /// It has the name of another slot.
    Name,
    /// It belongs to another ledger.
    Ledger,
    /// The hash of the body is wrong.
    BodyHash,
    /// The segment header in it is invalid.
    Segment(HeaderFault),
    /// The segment header in it, or the place of its frames, does not continue the log.
    Place(&'static str),
    /// A frame is invalid.
    Frame(u64, FrameFault),
    /// It does not exist, although later slots do.
    Missing,
    /// It does not continue the log: another record, chain value or epoch was expected.
    Link(&'static str),
}

impl SlotFault {
    /// Whether the slot is intact but requires another version of the program.
    #[must_use]
    pub fn is_version(&self) -> bool {
        match self {
            Self::Major(_) | Self::Incompatible(_) => true,
            Self::Segment(fault) => fault.is_version(),
            _ => false,
        }
    }
}

impl fmt::Display for SlotFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length => f.write_str("the length differs from that in the slot header"),
            Self::Magic => f.write_str("this is not a slot: wrong magic"),
            Self::HeaderChecksum => f.write_str("slot header checksum mismatch"),
            Self::Major(major) => write!(
                f,
                "written in format version {major}, this program reads version {FORMAT_MAJOR}; use \
                 a newer `ledger`"
            ),
            Self::Incompatible(flags) => write!(
                f,
                "the slot uses features that this program does not know (incompat flags \
                 {flags:#x}); use a newer `ledger`"
            ),
            Self::Malformed(field) => write!(f, "intact slot with an invalid value in {field}"),
            Self::Name => f.write_str("the slot has the name of another record"),
            Self::Ledger => f.write_str("the slot belongs to another ledger"),
            Self::BodyHash => f.write_str("the hash of the slot's body differs"),
            Self::Segment(fault) => fault.fmt(f),
            Self::Place(what) => write!(f, "the slot does not continue its segment: {what}"),
            Self::Frame(seq, fault) => write!(f, "record {seq}: {}", fault.describe()),
            Self::Missing => f.write_str("the slot is missing, although later ones exist"),
            Self::Link(what) => write!(f, "the slot does not continue the log: {what}"),
        }
    }
}

impl SlotHeader {
    /// Whether the slot carries the header of its segment.
    #[must_use]
    pub fn starts_segment(&self) -> bool {
        self.offset == DATA_START
    }

    /// Number of bytes after the slot's header; `None` if it is out of range.
    fn body_length(&self) -> Option<u64> {
        let frames = self.end.checked_sub(self.offset)?;
        frames.checked_add(if self.starts_segment() { DATA_START } else { 0 })
    }

    /// The first field that is out of range.
    pub(super) fn problem(&self) -> Option<&'static str> {
        let count = self.last_seq.checked_sub(self.first_seq);
        let body = self.body_length();
        let is_aligned = [self.offset, self.end].iter().all(|at| at.is_multiple_of(ALIGNMENT));
        if self.node == Uid::default() {
            return Some("node_uid");
        }
        if self.opens && self.epoch == 0 {
            return Some("epoch");
        }
        if self.first_seq == 0 || self.last_seq == u64::MAX {
            return Some("first_seq");
        }
        if count.is_none_or(|more| more >= u64::from(u32::MAX)) {
            return Some("last_seq");
        }
        if self.offset < DATA_START || self.end <= self.offset || !is_aligned {
            return Some("offset");
        }
        let limit = to_u64(SLOT_SIZE_MAX - SLOT_HEADER_SIZE);
        body.is_none_or(|length| length > limit).then_some("body_length")
    }

    #[must_use]
    pub fn encode(&self) -> [u8; SLOT_HEADER_SIZE] {
        let mut bytes = [0; SLOT_HEADER_SIZE];
        let out = bytes.as_mut_slice();
        let opens = if self.opens { FLAG_OPENS } else { 0 };
        let starts = if self.starts_segment() { FLAG_SEGMENT_HEADER } else { 0 };
        let count = self.last_seq.saturating_sub(self.first_seq).saturating_add(1);
        put(out, at::MAGIC, &MAGIC);
        put(out, at::MAJOR, &FORMAT_MAJOR.to_le_bytes());
        put(out, at::MINOR, &FORMAT_MINOR.to_le_bytes());
        put(out, at::LEDGER, &self.ledger);
        put(out, at::GENESIS, &self.genesis);
        put(out, at::NODE, &self.node);
        put(out, at::EPOCH, &self.epoch.to_le_bytes());
        put(out, at::FLAGS, &(opens | starts).to_le_bytes());
        put(out, at::COUNT, &u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
        put(out, at::FIRST_SEQ, &self.first_seq.to_le_bytes());
        put(out, at::LAST_SEQ, &self.last_seq.to_le_bytes());
        put(out, at::CHAIN_BEFORE, &self.chain_before.0);
        put(out, at::CHAIN_AFTER, &self.chain_after.0);
        put(out, at::SEGMENT, &self.segment);
        put(out, at::ORDINAL, &self.ordinal.to_le_bytes());
        put(out, at::OFFSET, &self.offset.to_le_bytes());
        put(out, at::END, &self.end.to_le_bytes());
        put(out, at::TIME, &self.time.to_le_bytes());
        put(out, at::BODY_LENGTH, &self.body_length().unwrap_or(0).to_le_bytes());
        put(out, at::BODY_HASH, &self.body_hash);
        let crc = crc32(0, &[bytes.get(..at::CRC).unwrap_or_default()]);
        put(&mut bytes, at::CRC, &crc.to_le_bytes());
        bytes
    }

    /// Validate and decode a header. The body is not checked.
    pub fn decode(bytes: &[u8]) -> Result<Self, SlotFault> {
        let bytes = bytes.first_chunk::<SLOT_HEADER_SIZE>().ok_or(SlotFault::Length)?.as_slice();
        if array(bytes, at::MAGIC) != Some(MAGIC) {
            return Err(SlotFault::Magic);
        }
        if crc32(0, &[bytes.get(..at::CRC).unwrap_or_default()]) != u32_at(bytes, at::CRC) {
            return Err(SlotFault::HeaderChecksum);
        }
        let major = u16_at(bytes, at::MAJOR);
        if major != FORMAT_MAJOR {
            return Err(SlotFault::Major(major));
        }
        let incompatible = u32_at(bytes, at::INCOMPAT);
        if incompatible != 0 {
            return Err(SlotFault::Incompatible(incompatible));
        }
        if !all_zero(bytes.get(at::RESERVED..at::CRC).unwrap_or_default()) {
            return Err(SlotFault::Malformed("reserved bytes"));
        }
        let header = Self::decode_fields(bytes).ok_or(SlotFault::Length)?;
        if let Some(field) = header.problem() {
            return Err(SlotFault::Malformed(field));
        }
        // These fields follow from the others.
        let flags = u32_at(bytes, at::FLAGS);
        let starts = flags & FLAG_SEGMENT_HEADER != 0;
        if flags & !(FLAG_OPENS | FLAG_SEGMENT_HEADER) != 0 || starts != header.starts_segment() {
            return Err(SlotFault::Malformed("flags"));
        }
        if u64::from(u32_at(bytes, at::COUNT)) != header.last_seq - header.first_seq + 1 {
            return Err(SlotFault::Malformed("count"));
        }
        if Some(u64_at(bytes, at::BODY_LENGTH)) != header.body_length() {
            return Err(SlotFault::Malformed("body_length"));
        }
        Ok(header)
    }

    fn decode_fields(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            ledger: array(bytes, at::LEDGER)?,
            genesis: array(bytes, at::GENESIS)?,
            node: array(bytes, at::NODE)?,
            epoch: u64_at(bytes, at::EPOCH),
            opens: u32_at(bytes, at::FLAGS) & FLAG_OPENS != 0,
            first_seq: u64_at(bytes, at::FIRST_SEQ),
            last_seq: u64_at(bytes, at::LAST_SEQ),
            chain_before: Chain(array(bytes, at::CHAIN_BEFORE)?),
            chain_after: Chain(array(bytes, at::CHAIN_AFTER)?),
            segment: array(bytes, at::SEGMENT)?,
            ordinal: u64_at(bytes, at::ORDINAL),
            offset: u64_at(bytes, at::OFFSET),
            end: u64_at(bytes, at::END),
            time: u64_at(bytes, at::TIME),
            body_hash: array(bytes, at::BODY_HASH)?,
        })
    }

    /// Length of the whole slot in bytes.
    pub(super) fn slot_length(&self) -> Option<usize> {
        usize::try_from(self.body_length()?).ok()?.checked_add(SLOT_HEADER_SIZE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> SlotHeader {
        SlotHeader {
            ledger: [1; 16],
            genesis: [2; 16],
            node: [3; 16],
            epoch: 4,
            opens: true,
            first_seq: 5,
            last_seq: 7,
            chain_before: Chain([6; 32]),
            chain_after: Chain([7; 32]),
            segment: [8; 16],
            ordinal: 9,
            offset: 4160,
            end: 4544,
            time: 10,
            body_hash: [11; 32],
        }
    }

    /// Goal: a header round-trips, and every flipped bit is detected.
    #[test]
    fn every_flipped_bit_of_a_slot_header_is_detected() {
        for header in [header(), SlotHeader { offset: 4096, opens: false, ..header() }] {
            let bytes = header.encode();
            assert_eq!(SlotHeader::decode(&bytes), Ok(header));
            for bit in 0..bytes.len() * 8 {
                let mut damaged = bytes;
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(SlotHeader::decode(&damaged).is_err(), "bit {bit}");
            }
        }
    }

    fn patched(offset: usize, field: &[u8]) -> Result<SlotHeader, SlotFault> {
        let mut bytes = header().encode();
        put(&mut bytes, offset, field);
        let crc = crc32(0, &[&bytes[..at::CRC]]);
        put(&mut bytes, at::CRC, &crc.to_le_bytes());
        SlotHeader::decode(&bytes)
    }

    /// Goal: a newer slot is not reported as damage.
    #[test]
    fn newer_slot_version_is_not_damage() {
        assert_eq!(patched(at::MAJOR, &2_u16.to_le_bytes()), Err(SlotFault::Major(2)));
        assert_eq!(patched(at::INCOMPAT, &[1]), Err(SlotFault::Incompatible(1)));
        assert!(patched(at::MINOR, &[1]).is_ok());
    }

    /// Goal: an intact header with a field out of range is rejected, and the field is named.
    #[test]
    fn invalid_slot_fields_are_rejected_and_named() {
        let odd: [(usize, &[u8], &str); 12] = [
            (at::NODE, &[0; 16], "node_uid"),
            (at::EPOCH, &0_u64.to_le_bytes(), "epoch"),
            (at::FLAGS, &[5], "flags"),
            (at::FLAGS, &[3], "flags"),
            (at::COUNT, &[2], "count"),
            (at::FIRST_SEQ, &0_u64.to_le_bytes(), "first_seq"),
            (at::LAST_SEQ, &u64::MAX.to_le_bytes(), "first_seq"),
            (at::LAST_SEQ, &4_u64.to_le_bytes(), "last_seq"),
            (at::OFFSET, &4161_u64.to_le_bytes(), "offset"),
            (at::END, &4160_u64.to_le_bytes(), "offset"),
            (at::END, &(1_u64 << 40).to_le_bytes(), "body_length"),
            (at::RESERVED, &[1], "reserved bytes"),
        ];
        for (offset, field, name) in odd {
            assert_eq!(patched(offset, field), Err(SlotFault::Malformed(name)));
        }
    }
}
