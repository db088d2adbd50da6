//! The segment header, its replica in the footer, and the names of segment files.
//!
//! Invariant: magic, major version and CRC keep their positions in every later version, so that a
//! reader tells a header of a newer version from a damaged one.

use std::fmt;

use super::bytes::{Uid, all_zero, array, put, u16_at, u32_at, u64_at};
use super::frame::{FRAME_ALIGNMENT, PAYLOAD_LENGTH_MAX};
use super::hash::{Chain, content_hash, crc32};

/// Size of a segment header. The first frame follows it.
pub const SEGMENT_HEADER_SIZE: usize = 4096;
/// The length of the header prefix that a footer repeats: everything but reserved bytes and checksums.
pub const HEADER_REPLICA_SIZE: usize = at::RESERVED;
/// The major version of the format. A reader rejects any other.
pub const FORMAT_MAJOR: u16 = 1;

const FORMAT_MINOR: u16 = 0;
const MAGIC: [u8; 8] = [0x89, b'P', b'L', b'G', 0x0D, 0x0A, 0x1A, 0x0A];

mod at {
    pub(super) const MAGIC: usize = 0;
    pub(super) const MAJOR: usize = 8;
    pub(super) const MINOR: usize = 10;
    pub(super) const INCOMPAT: usize = 12;
    pub(super) const RO_COMPAT: usize = 16;
    pub(super) const LEDGER: usize = 24;
    pub(super) const SEGMENT: usize = 40;
    pub(super) const ORDINAL: usize = 56;
    pub(super) const BASE_SEQ: usize = 64;
    pub(super) const PREV_CHAIN: usize = 72;
    pub(super) const PREV_SEGMENT: usize = 104;
    pub(super) const PREV_DATA_END: usize = 120;
    pub(super) const PREV_LAST_SEQ: usize = 128;
    pub(super) const WRITER_EPOCH: usize = 136;
    pub(super) const CREATED: usize = 144;
    pub(super) const PAYLOAD_LIMIT: usize = 152;
    pub(super) const ALIGNMENT_LOG2: usize = 156;
    pub(super) const PREALLOC_LEN: usize = 160;
    pub(super) const REASON: usize = 168;
    pub(super) const PAD: usize = 170;
    pub(super) const BORN_LAST: usize = 176;
    pub(super) const BORN_END: usize = 184;
    pub(super) const GENESIS: usize = 192;
    pub(super) const RESERVED: usize = 208;
    pub(super) const HASH: usize = 4060;
    pub(super) const CRC: usize = 4092;
}

/// Why a segment was created. The numbers are on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "ledger", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum SegmentReason {
    /// It is the first of the ledger.
    Create,
    /// Its predecessor was full.
    Rotate,
    /// Its predecessor ends in a crash.
    FenceAfterCrash,
    /// Its predecessor ends in a failed write or sync.
    FenceAfterIoError,
    /// It was imported.
    Import,
    /// It starts a fork.
    Fork,
}

impl SegmentReason {
    const ALL: [Self; 6] = [
        Self::Create,
        Self::Rotate,
        Self::FenceAfterCrash,
        Self::FenceAfterIoError,
        Self::Import,
        Self::Fork,
    ];

    fn number(self) -> u16 {
        match self {
            Self::Create => 0,
            Self::Rotate => 1,
            Self::FenceAfterCrash => 2,
            Self::FenceAfterIoError => 3,
            Self::Import => 4,
            Self::Fork => 5,
        }
    }
}

/// The header of a segment: its identity, and the end of its predecessor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The ledger that it belongs to.
    pub ledger: Uid,
    /// Its random identifier, which seeds the CRCs of its frames.
    pub segment: Uid,
    /// Its position in the ledger: 0, 1, 2 without gaps.
    pub ordinal: u64,
    /// Sequence number of its first record.
    pub base_seq: u64,
    /// Chain value of the record before its first.
    pub prev_chain: Chain,
    /// Uid of its predecessor; zeros for the first segment.
    pub prev_segment: Uid,
    /// Offset of the logical end of its predecessor; 0 for the first segment.
    pub prev_data_end: u64,
    /// Last sequence number of its predecessor; 0 for the first segment.
    pub prev_last_seq: u64,
    /// The number of times the ledger was opened for writing.
    pub writer_epoch: u64,
    /// Time of creation, in microseconds.
    pub created: u64,
    /// The file's exact length until it is sealed.
    pub prealloc_len: u64,
    /// Why it was created.
    pub reason: SegmentReason,
    /// Sequence number of the last record that was synced together with this header, before the
    /// file got its name; 0 without such a record.
    pub born_last: u64,
    /// Offset past that record; 0 without such a record.
    pub born_end: u64,
    /// The uid that gives the key of the chain.
    pub genesis: Uid,
    /// Features that a writer must support and a reader may ignore. This version has none.
    pub ro_compat: u32,
}

/// Why bytes are not a usable segment header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderFault {
    /// There are fewer bytes than a header has.
    Truncated,
    /// The storage cannot read some of its bytes.
    Unreadable,
    /// The bytes are not a segment of this format.
    Magic,
    /// A checksum is wrong.
    Checksum,
    /// It has another major version.
    Major(u16),
    /// It requires features that this version does not have.
    Incompatible(u32),
    /// Intact, but a reserved byte is not zero or a field is out of range.
    Malformed(&'static str),
}

impl HeaderFault {
    /// Whether the ledger is intact but requires another version of the program.
    #[must_use]
    pub fn is_version(&self) -> bool {
        matches!(self, Self::Major(_) | Self::Incompatible(_))
    }
}

impl fmt::Display for HeaderFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the file is shorter than a segment header"),
            Self::Unreadable => f.write_str("the storage cannot read the segment header"),
            Self::Magic => f.write_str("this is not a ledger segment: wrong magic"),
            Self::Checksum => f.write_str("segment header checksum mismatch"),
            Self::Major(major) => write!(
                f,
                "written in format version {major}, this program reads version {FORMAT_MAJOR}; \
                 use a newer `ledger`"
            ),
            Self::Incompatible(flags) => write!(
                f,
                "it uses features that this program does not know (incompat flags {flags:#x}); \
                 use a newer `ledger`"
            ),
            Self::Malformed(field) => {
                write!(f, "intact segment header with an invalid value in {field}")
            }
        }
    }
}

impl SegmentHeader {
    /// Encode the header.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; SEGMENT_HEADER_SIZE];
        let out = bytes.as_mut_slice();
        put(out, at::MAGIC, &MAGIC);
        put(out, at::MAJOR, &FORMAT_MAJOR.to_le_bytes());
        put(out, at::MINOR, &FORMAT_MINOR.to_le_bytes());
        put(out, at::RO_COMPAT, &self.ro_compat.to_le_bytes());
        put(out, at::LEDGER, &self.ledger);
        put(out, at::SEGMENT, &self.segment);
        put(out, at::ORDINAL, &self.ordinal.to_le_bytes());
        put(out, at::BASE_SEQ, &self.base_seq.to_le_bytes());
        put(out, at::PREV_CHAIN, &self.prev_chain.0);
        put(out, at::PREV_SEGMENT, &self.prev_segment);
        put(out, at::PREV_DATA_END, &self.prev_data_end.to_le_bytes());
        put(out, at::PREV_LAST_SEQ, &self.prev_last_seq.to_le_bytes());
        put(out, at::WRITER_EPOCH, &self.writer_epoch.to_le_bytes());
        put(out, at::CREATED, &self.created.to_le_bytes());
        put(out, at::PAYLOAD_LIMIT, &PAYLOAD_LENGTH_MAX.to_le_bytes());
        put(out, at::ALIGNMENT_LOG2, &FRAME_ALIGNMENT.trailing_zeros().to_le_bytes());
        put(out, at::PREALLOC_LEN, &self.prealloc_len.to_le_bytes());
        put(out, at::REASON, &self.reason.number().to_le_bytes());
        put(out, at::BORN_LAST, &self.born_last.to_le_bytes());
        put(out, at::BORN_END, &self.born_end.to_le_bytes());
        put(out, at::GENESIS, &self.genesis);
        put_checksums(&mut bytes);
        bytes
    }

    /// Validate and decode a header.
    pub fn decode(bytes: &[u8]) -> Result<Self, HeaderFault> {
        let bytes = bytes.get(..SEGMENT_HEADER_SIZE).ok_or(HeaderFault::Truncated)?;
        if array(bytes, at::MAGIC) != Some(MAGIC) {
            return Err(HeaderFault::Magic);
        }
        let covered = bytes.get(..at::CRC).ok_or(HeaderFault::Truncated)?;
        if crc32(0, &[covered]) != u32_at(bytes, at::CRC) {
            return Err(HeaderFault::Checksum);
        }
        let major = u16_at(bytes, at::MAJOR);
        if major != FORMAT_MAJOR {
            return Err(HeaderFault::Major(major));
        }
        let hashed = bytes.get(..at::HASH).ok_or(HeaderFault::Truncated)?;
        if array(bytes, at::HASH) != Some(content_hash(hashed)) {
            return Err(HeaderFault::Checksum);
        }
        // Writers check the ro-compat flags. Compat flags and the minor version restrict no program.
        let incompatible = u32_at(bytes, at::INCOMPAT);
        if incompatible != 0 {
            return Err(HeaderFault::Incompatible(incompatible));
        }
        Self::decode_fields(bytes)
    }

    fn decode_fields(bytes: &[u8]) -> Result<Self, HeaderFault> {
        let uid = |offset| array::<16>(bytes, offset).ok_or(HeaderFault::Truncated);
        let reserved = bytes.get(at::RESERVED..at::HASH).unwrap_or_default();
        let pad = bytes.get(at::PAD..at::BORN_LAST).unwrap_or_default();
        if !all_zero(reserved) || !all_zero(pad) {
            return Err(HeaderFault::Malformed("reserved bytes"));
        }
        if u32_at(bytes, at::PAYLOAD_LIMIT) != PAYLOAD_LENGTH_MAX {
            return Err(HeaderFault::Malformed("payload limit"));
        }
        if u32_at(bytes, at::ALIGNMENT_LOG2) != FRAME_ALIGNMENT.trailing_zeros() {
            return Err(HeaderFault::Malformed("alignment"));
        }
        let number = u16_at(bytes, at::REASON);
        let reason = SegmentReason::ALL
            .into_iter()
            .find(|reason| reason.number() == number)
            .ok_or(HeaderFault::Malformed("reason"))?;
        Ok(Self {
            ledger: uid(at::LEDGER)?,
            segment: uid(at::SEGMENT)?,
            ordinal: u64_at(bytes, at::ORDINAL),
            base_seq: u64_at(bytes, at::BASE_SEQ),
            prev_chain: Chain(array(bytes, at::PREV_CHAIN).ok_or(HeaderFault::Truncated)?),
            prev_segment: uid(at::PREV_SEGMENT)?,
            prev_data_end: u64_at(bytes, at::PREV_DATA_END),
            prev_last_seq: u64_at(bytes, at::PREV_LAST_SEQ),
            writer_epoch: u64_at(bytes, at::WRITER_EPOCH),
            created: u64_at(bytes, at::CREATED),
            prealloc_len: u64_at(bytes, at::PREALLOC_LEN),
            reason,
            born_last: u64_at(bytes, at::BORN_LAST),
            born_end: u64_at(bytes, at::BORN_END),
            genesis: uid(at::GENESIS)?,
            ro_compat: u32_at(bytes, at::RO_COMPAT),
        })
    }

    /// The name of the segment file.
    #[must_use]
    pub fn name(&self) -> SegmentName {
        SegmentName { base_seq: self.base_seq, ordinal: self.ordinal }
    }
}

/// The prefix of a segment header that the footer repeats. The rest of the header derives from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderReplica(pub(super) [u8; HEADER_REPLICA_SIZE]);

impl HeaderReplica {
    /// The replica of an encoded header, or of its first bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        bytes.first_chunk().copied().map(Self)
    }

    /// The bytes of the replica.
    #[must_use]
    pub fn bytes(&self) -> &[u8; HEADER_REPLICA_SIZE] {
        &self.0
    }

    /// Reconstruct and validate the header.
    pub fn header(&self) -> Result<SegmentHeader, HeaderFault> {
        let mut bytes = vec![0; SEGMENT_HEADER_SIZE];
        put(&mut bytes, 0, &self.0);
        put_checksums(&mut bytes);
        SegmentHeader::decode(&bytes)
    }
}

/// Write the hash and the CRC at the end of a header.
fn put_checksums(bytes: &mut [u8]) {
    let hash = content_hash(bytes.get(..at::HASH).unwrap_or_default());
    put(bytes, at::HASH, &hash);
    let crc = crc32(0, &[bytes.get(..at::CRC).unwrap_or_default()]);
    put(bytes, at::CRC, &crc.to_le_bytes());
}

/// The name of a segment file: `<base_seq:020>-<ordinal:08x>.seg`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentName {
    /// Position of the segment in the ledger.
    pub ordinal: u64,
    /// Sequence number of its first record.
    pub base_seq: u64,
}

impl SegmentName {
    /// Parse a file name; only the exact spelling of [`fmt::Display`] is a segment name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (base_seq, ordinal) = text.strip_suffix(".seg")?.split_once('-')?;
        let name = Self {
            ordinal: u64::from_str_radix(ordinal, 16).ok()?,
            base_seq: base_seq.parse().ok()?,
        };
        (name.to_string() == text).then_some(name)
    }
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}-{:08x}.seg", self.base_seq, self.ordinal)
    }
}

#[cfg(test)]
impl SegmentHeader {
    /// A header for tests, with another value in each field.
    pub(crate) fn sample() -> Self {
        Self {
            ledger: [1; 16],
            segment: [2; 16],
            ordinal: 3,
            base_seq: 4,
            prev_chain: Chain([5; 32]),
            prev_segment: [6; 16],
            prev_data_end: 7,
            prev_last_seq: 3,
            writer_epoch: 9,
            created: 10,
            prealloc_len: 1 << 20,
            reason: SegmentReason::FenceAfterCrash,
            born_last: 12,
            born_end: 13,
            genesis: [14; 16],
            ro_compat: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::bytes::in_miri;

    /// Goal: a header round-trips, and every flipped bit is detected.
    #[test]
    fn every_flipped_bit_of_a_segment_header_is_detected() {
        let bytes = SegmentHeader::sample().encode();
        assert_eq!(SegmentHeader::decode(&bytes), Ok(SegmentHeader::sample()));
        for bit in (0..bytes.len() * 8).step_by(in_miri(1009)) {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(SegmentHeader::decode(&damaged).is_err(), "bit {bit}");
        }
    }

    /// Goal: a header of a newer version is not reported as damage.
    #[test]
    fn newer_version_is_not_damage() {
        let mut bytes = SegmentHeader::sample().encode();
        put(&mut bytes, at::MAJOR, &2_u16.to_le_bytes());
        let crc = crc32(0, &[&bytes[..at::CRC]]);
        put(&mut bytes, at::CRC, &crc.to_le_bytes());
        assert_eq!(SegmentHeader::decode(&bytes), Err(HeaderFault::Major(2)));
    }

    /// Goal: an intact header with invalid fields is rejected and the field is named; a wrong hash is
    /// damage although the CRC holds.
    #[test]
    fn invalid_header_fields_are_rejected_and_named() {
        let odd = [
            (at::RESERVED, "reserved bytes"),
            (at::PAD, "reserved bytes"),
            (at::PAYLOAD_LIMIT, "payload limit"),
            (at::ALIGNMENT_LOG2, "alignment"),
            (at::REASON, "reason"),
        ];
        for (offset, field) in odd {
            let mut bytes = SegmentHeader::sample().encode();
            bytes[offset] ^= 0x40;
            put_checksums(&mut bytes);
            let fault = SegmentHeader::decode(&bytes).unwrap_err();
            assert_eq!(fault, HeaderFault::Malformed(field));
            assert!(fault.to_string().contains(field) && !fault.is_version());
        }
        let mut bytes = SegmentHeader::sample().encode();
        bytes[at::CREATED] ^= 1;
        let crc = crc32(0, &[&bytes[..at::CRC]]);
        put(&mut bytes, at::CRC, &crc.to_le_bytes());
        assert_eq!(SegmentHeader::decode(&bytes), Err(HeaderFault::Checksum));
    }

    /// Goal: every reason round-trips.
    #[test]
    fn every_segment_reason_round_trips() {
        for reason in SegmentReason::ALL {
            let header = SegmentHeader { reason, ..SegmentHeader::sample() };
            assert_eq!(SegmentHeader::decode(&header.encode()), Ok(header));
        }
    }

    /// Goal: only the exact spelling is a segment name.
    #[test]
    fn segment_names_round_trip_and_other_spellings_are_rejected() {
        let name = SegmentName { ordinal: 0x1a, base_seq: 37 };
        assert_eq!(name.to_string(), "00000000000000000037-0000001a.seg");
        assert_eq!(SegmentName::parse(&name.to_string()), Some(name));
        for odd in ["37-1a.seg", "00000000000000000037-0000001A.seg", "x.seg", "", "-.seg"] {
            assert_eq!(SegmentName::parse(odd), None, "{odd}");
        }
    }
}
