//! The footer of a sealed segment: its range of records, the position of its index, and a replica of
//! the segment header.
//!
//! Invariants: the CRC covers every byte and is seeded with the footer's position; reserved bytes
//! are zero. The fields of a decoded footer are consistent with each other. Whether they match the
//! data is known only after reading the frames.

use std::fmt;

use super::bytes::{Uid, all_zero, array, put, to_u64, u32_at, u64_at};
use super::frame::FRAME_ALIGNMENT;
use super::hash::{Chain, Placement, crc32};
use super::segment::{HeaderFault, HeaderReplica, SEGMENT_HEADER_SIZE, SegmentHeader};

/// Size of a footer: the last bytes of a sealed segment.
pub const FOOTER_SIZE: usize = 4096;
/// Size of an index header, which precedes the entries.
pub const INDEX_HEADER_SIZE: usize = 64;
/// The longest index, in bytes.
pub const INDEX_LENGTH_MAX: u64 = 16 * 1024 * 1024;
/// The most records of an indexed segment.
pub const INDEX_RECORDS_MAX: u64 = 1 << 20;

const MAGIC: [u8; 8] = *b"PLFOOT\r\n";
/// Offsets in a sealed segment are below this limit, so that a posting fits into 32 bits.
const DATA_END_MAX: u64 = 1 << 38;

mod at {
    pub(super) const MAGIC: usize = 0;
    pub(super) const SEGMENT: usize = 8;
    pub(super) const FIRST_SEQ: usize = 24;
    pub(super) const LAST_SEQ: usize = 32;
    pub(super) const COUNT: usize = 40;
    pub(super) const DATA_END: usize = 48;
    pub(super) const INDEX_OFFSET: usize = 56;
    pub(super) const INDEX_LENGTH: usize = 64;
    pub(super) const INDEX_CRC: usize = 72;
    pub(super) const STREAM_RULE: usize = 76;
    pub(super) const TIME_FIRST: usize = 80;
    pub(super) const TIME_LAST: usize = 88;
    pub(super) const CHAIN_LAST: usize = 96;
    pub(super) const DATA_HASH: usize = 128;
    pub(super) const REPLICA: usize = 160;
    pub(super) const RESERVED: usize = 368;
    pub(super) const CRC: usize = 4092;
}

/// A segment footer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footer {
    /// The segment's header.
    pub replica: HeaderReplica,
    /// Sequence number of the last record; `base_seq - 1` if the segment is empty.
    pub last_seq: u64,
    /// Offset of the end of the last record, where the index starts.
    pub data_end: u64,
    /// Length of the index, in bytes.
    pub index_length: u64,
    /// CRC of the index, seeded with its position.
    pub index_crc: u32,
    /// Number of the rule that assigned records to streams; 0 for none.
    pub stream_rule: u32,
    /// Time of the first record, in microseconds; 0 without records.
    pub time_first: u64,
    /// Time of the last record, in microseconds; 0 without records.
    pub time_last: u64,
    /// Chain value of the last record.
    pub chain_last: Chain,
    /// BLAKE3 of the file from its first frame to `data_end`.
    pub data_hash: [u8; 32],
}

/// Why bytes are not a usable footer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FooterFault {
    /// There are fewer bytes than a footer has.
    Truncated,
    /// The storage cannot read some of its bytes.
    Unreadable,
    /// The bytes are not a footer.
    Magic,
    /// The checksum is wrong.
    Checksum,
    /// Its replica is not a usable segment header.
    Header(HeaderFault),
    /// Intact, but a field is outside its range.
    Malformed(&'static str),
}

impl fmt::Display for FooterFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the file is too short for a footer"),
            Self::Unreadable => f.write_str("the storage cannot read the footer"),
            Self::Magic => f.write_str("a sealed segment must end in a footer: wrong magic"),
            Self::Checksum => f.write_str("footer checksum mismatch"),
            Self::Header(fault) => {
                write!(f, "intact footer with an invalid header replica: {fault}")
            }
            Self::Malformed(field) => {
                write!(f, "intact footer with an invalid value in {field}")
            }
        }
    }
}

/// Whether a segment file of that length is sealed, if a rotation created its successor. Any other
/// segment has its preallocated length, or was extended on the way to being sealed.
#[must_use]
pub fn is_sealed_length(length: u64, prealloc_len: u64) -> bool {
    length < prealloc_len || !length.is_multiple_of(4096)
}

impl Footer {
    /// Offset of the footer in its file.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.data_end.saturating_add(self.index_length)
    }

    /// Length of the sealed file, in bytes.
    #[must_use]
    pub fn file_length(&self) -> u64 {
        self.offset().saturating_add(to_u64(FOOTER_SIZE))
    }

    /// The segment header.
    ///
    /// # Errors
    /// The replica is invalid, which never happens in a decoded footer.
    pub fn header(&self) -> Result<SegmentHeader, HeaderFault> {
        self.replica.header()
    }

    /// The initial CRC of bytes at `offset` of a segment.
    pub(super) fn seed(segment: Uid, offset: u64) -> u32 {
        Placement { segment, offset }.seed().value()
    }

    /// Encode the footer. `header` is the header that the replica copies.
    #[must_use]
    pub fn encode(&self, header: &SegmentHeader) -> Vec<u8> {
        let mut bytes = vec![0; FOOTER_SIZE];
        let out = bytes.as_mut_slice();
        let count = self.last_seq.wrapping_sub(header.base_seq).wrapping_add(1);
        put(out, at::MAGIC, &MAGIC);
        put(out, at::SEGMENT, &header.segment);
        put(out, at::FIRST_SEQ, &header.base_seq.to_le_bytes());
        put(out, at::LAST_SEQ, &self.last_seq.to_le_bytes());
        put(out, at::COUNT, &count.to_le_bytes());
        put(out, at::DATA_END, &self.data_end.to_le_bytes());
        put(out, at::INDEX_OFFSET, &self.data_end.to_le_bytes());
        put(out, at::INDEX_LENGTH, &self.index_length.to_le_bytes());
        put(out, at::INDEX_CRC, &self.index_crc.to_le_bytes());
        put(out, at::STREAM_RULE, &self.stream_rule.to_le_bytes());
        put(out, at::TIME_FIRST, &self.time_first.to_le_bytes());
        put(out, at::TIME_LAST, &self.time_last.to_le_bytes());
        put(out, at::CHAIN_LAST, &self.chain_last.0);
        put(out, at::DATA_HASH, &self.data_hash);
        put(out, at::REPLICA, self.replica.bytes());
        let seed = Self::seed(header.segment, self.offset());
        let crc = crc32(seed, &[bytes.get(..at::CRC).unwrap_or_default()]);
        put(&mut bytes, at::CRC, &crc.to_le_bytes());
        bytes
    }

    /// Validate and decode a footer at `offset` of its file.
    pub fn decode(bytes: &[u8], offset: u64) -> Result<Self, FooterFault> {
        let bytes = bytes.get(..FOOTER_SIZE).ok_or(FooterFault::Truncated)?;
        if array(bytes, at::MAGIC) != Some(MAGIC) {
            return Err(FooterFault::Magic);
        }
        let segment: Uid = array(bytes, at::SEGMENT).ok_or(FooterFault::Truncated)?;
        let covered = bytes.get(..at::CRC).ok_or(FooterFault::Truncated)?;
        if crc32(Self::seed(segment, offset), &[covered]) != u32_at(bytes, at::CRC) {
            return Err(FooterFault::Checksum);
        }
        if !all_zero(bytes.get(at::RESERVED..at::CRC).unwrap_or_default()) {
            return Err(FooterFault::Malformed("reserved bytes"));
        }
        let footer = Self {
            replica: bytes
                .get(at::REPLICA..)
                .and_then(HeaderReplica::of)
                .ok_or(FooterFault::Truncated)?,
            last_seq: u64_at(bytes, at::LAST_SEQ),
            data_end: u64_at(bytes, at::DATA_END),
            index_length: u64_at(bytes, at::INDEX_LENGTH),
            index_crc: u32_at(bytes, at::INDEX_CRC),
            stream_rule: u32_at(bytes, at::STREAM_RULE),
            time_first: u64_at(bytes, at::TIME_FIRST),
            time_last: u64_at(bytes, at::TIME_LAST),
            chain_last: Chain(array(bytes, at::CHAIN_LAST).ok_or(FooterFault::Truncated)?),
            data_hash: array(bytes, at::DATA_HASH).ok_or(FooterFault::Truncated)?,
        };
        let header = footer.header().map_err(FooterFault::Header)?;
        footer.check(&header, offset)?;
        // Redundant fields must match, so that encoding a decoded footer gives the same bytes.
        let is_same = (segment, u64_at(bytes, at::FIRST_SEQ)) == (header.segment, header.base_seq)
            && u64_at(bytes, at::INDEX_OFFSET) == footer.data_end
            && Some(u64_at(bytes, at::COUNT)) == footer.count(&header);
        if is_same { Ok(footer) } else { Err(FooterFault::Malformed("redundant fields")) }
    }

    /// Check that the fields are consistent.
    fn check(&self, header: &SegmentHeader, offset: u64) -> Result<(), FooterFault> {
        let malformed = |field| Err(FooterFault::Malformed(field));
        let first_frame = to_u64(SEGMENT_HEADER_SIZE);
        let is_aligned = |offset: u64| offset.is_multiple_of(to_u64(FRAME_ALIGNMENT));
        if !(first_frame..=DATA_END_MAX).contains(&self.data_end) || !is_aligned(self.data_end) {
            return malformed("data_end");
        }
        let lengths = to_u64(INDEX_HEADER_SIZE)..=INDEX_LENGTH_MAX;
        if !lengths.contains(&self.index_length) || !is_aligned(self.index_length) {
            return malformed("index_length");
        }
        if self.offset() != offset || offset.is_multiple_of(4096) {
            return malformed("the position of the footer");
        }
        let Some(count) = self.count(header).filter(|count| *count <= INDEX_RECORDS_MAX) else {
            return malformed("last_seq");
        };
        let has_times = count > 0 || (self.time_first, self.time_last) == (0, 0);
        if self.time_first > self.time_last || !has_times {
            return malformed("times");
        }
        let is_empty = self.data_end == first_frame;
        if is_empty != (count == 0) || (is_empty && self.chain_last != header.prev_chain) {
            return malformed("count");
        }
        Ok(())
    }

    /// The number of records; `None` if no segment can have that many.
    fn count(&self, header: &SegmentHeader) -> Option<u64> {
        self.last_seq.checked_add(1)?.checked_sub(header.base_seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::HEADER_REPLICA_SIZE;
    use crate::format::bytes::in_miri;

    fn footer() -> Footer {
        Footer {
            replica: HeaderReplica::of(&SegmentHeader::sample().encode()).unwrap(),
            last_seq: 9,
            data_end: 8128,
            index_length: 128,
            index_crc: 7,
            stream_rule: 1,
            time_first: 20,
            time_last: 21,
            chain_last: Chain([8; 32]),
            data_hash: [9; 32],
        }
    }

    /// Goal: encoding and decoding round-trip, the replica is the segment's header, and every flipped
    /// bit is detected, as is a copy at another offset.
    #[test]
    fn every_flipped_bit_of_a_footer_is_detected() {
        let (footer, bytes) = (footer(), footer().encode(&SegmentHeader::sample()));
        assert_eq!(Footer::decode(&bytes, 8256), Ok(footer.clone()));
        assert_eq!(footer.header(), Ok(SegmentHeader::sample()));
        for bit in (0..bytes.len() * 8).step_by(in_miri(1009)) {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Footer::decode(&damaged, 8256).is_err(), "bit {bit}");
        }
        assert_eq!(Footer::decode(&bytes, 8256 + 64), Err(FooterFault::Checksum));
        assert_eq!(Footer::decode(&bytes[..4095], 8256), Err(FooterFault::Truncated));
    }

    /// Goal: an intact footer with inconsistent fields is rejected.
    /// Method: change one field of a valid footer at a time.
    #[test]
    fn inconsistent_footers_are_rejected() {
        let odd: &[fn(&mut Footer)] = &[
            |footer| footer.last_seq = 2,
            |footer| footer.last_seq = 3,
            |footer| footer.last_seq = u64::MAX,
            |footer| footer.data_end = 8100,
            |footer| footer.data_end = 4096,
            |footer| footer.data_end = DATA_END_MAX + 64,
            |footer| footer.index_length = 0,
            |footer| footer.index_length = 64,
            |footer| footer.index_length = INDEX_LENGTH_MAX + 64,
            |footer| footer.time_first = 22,
            |footer| footer.replica = HeaderReplica([0; HEADER_REPLICA_SIZE]),
        ];
        for (number, change) in odd.iter().enumerate() {
            let mut footer = footer();
            change(&mut footer);
            let bytes = footer.encode(&SegmentHeader::sample());
            assert!(Footer::decode(&bytes, footer.offset()).is_err(), "change {number}");
        }
    }

    /// Goal: each fault has its own message, nonzero reserved bytes included.
    #[test]
    fn footer_faults_have_distinct_messages() {
        let mut bytes = footer().encode(&SegmentHeader::sample());
        bytes[at::RESERVED] = 1;
        let crc = crc32(Footer::seed([2; 16], 8256), &[&bytes[..at::CRC]]);
        put(&mut bytes, at::CRC, &crc.to_le_bytes());
        let reserved = Footer::decode(&bytes, 8256).unwrap_err();
        let mut none = footer();
        none.replica = HeaderReplica([0; HEADER_REPLICA_SIZE]);
        let no_header = Footer::decode(&none.encode(&SegmentHeader::sample()), 8256).unwrap_err();
        let cases = [
            (reserved, "reserved bytes"),
            (no_header, "not a ledger segment"),
            (Footer::decode(&[], 8256).unwrap_err(), "too short"),
            (Footer::decode(&[0; 4096], 8256).unwrap_err(), "wrong magic"),
            (
                Footer::decode(&footer().encode(&SegmentHeader::sample()), 64).unwrap_err(),
                "checksum",
            ),
        ];
        for (fault, words) in cases {
            assert!(fault.to_string().contains(words), "{fault:?}: {fault}");
        }
    }
}
