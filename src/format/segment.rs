//! The segment header, and the names of segment files.

use std::fmt;

use super::bytes::{all_zero, array, put, u16_at, u32_at, u64_at};
use super::hash::crc32;
use super::{Chain, FRAME_ALIGNMENT, PAYLOAD_LENGTH_MAX, Uid, content_hash};

/// Size of a segment's header; its first frame stands right behind it.
pub const SEGMENT_HEADER_SIZE: usize = 4096;
/// How much of a header a footer repeats: all that is not reserved or follows from the rest.
pub const HEADER_REPLICA_SIZE: usize = at::RESERVED;
/// The format's major version: another one is refused.
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

/// Why a segment exists. The numbers are on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It is the ledger's first.
    Create,
    /// The one before was full.
    Rotate,
    /// The one before ends in a crash.
    FenceAfterCrash,
    /// The one before ends in a failed write or sync.
    FenceAfterIoError,
    /// It was imported.
    Import,
    /// It begins a fork.
    Fork,
}

impl Reason {
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

/// Everything that a segment says about itself and its predecessor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The ledger that it belongs to.
    pub ledger: Uid,
    /// Its own random identifier, which seeds the CRCs of its frames.
    pub segment: Uid,
    /// Its place in the ledger: 0, 1, 2 without gaps.
    pub ordinal: u64,
    /// Sequence number of its first record.
    pub base_seq: u64,
    /// Chain value of the record before that.
    pub prev_chain: Chain,
    /// Its predecessor; zeros for the first.
    pub prev_segment: Uid,
    /// Where its predecessor logically ends, in bytes; 0 for the first.
    pub prev_data_end: u64,
    /// Its predecessor's last sequence number; 0 for the first.
    pub prev_last_seq: u64,
    /// How often the ledger had been opened for writing.
    pub writer_epoch: u64,
    /// When it was made, in microseconds.
    pub created: u64,
    /// The file's exact length until it is sealed.
    pub prealloc_len: u64,
    /// Why it exists.
    pub reason: Reason,
    /// Last sequence number of what was synced with this header, before the name existed; or 0.
    pub born_last: u64,
    /// Where that ends, in bytes; or 0.
    pub born_end: u64,
    /// The chain's key comes from this.
    pub genesis: Uid,
    /// Features that a writer must know and a reader need not; this version knows none.
    pub ro_compat: u32,
}

/// Why bytes are not a segment header that may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderFault {
    /// There are fewer bytes than a header has.
    Cut,
    /// It is not a segment of this format at all.
    Magic,
    /// A checksum is wrong.
    Checksum,
    /// Another major version wrote it.
    Major(u16),
    /// It needs features that this version does not know.
    Incompatible(u32),
    /// Intact, but a reserved byte is not zero or a field is outside its range.
    Malformed(&'static str),
}

impl HeaderFault {
    /// Whether the ledger is intact but needs another version of the program.
    #[must_use]
    pub fn is_version(&self) -> bool {
        matches!(self, Self::Major(_) | Self::Incompatible(_))
    }
}

impl fmt::Display for HeaderFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut => f.write_str("the file is shorter than a segment header"),
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
                write!(f, "intact segment header with a value that is not allowed in {field}")
            }
        }
    }
}

impl SegmentHeader {
    /// The header's bytes.
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
        put_sums(&mut bytes);
        bytes
    }

    /// Check and read a header.
    pub fn decode(bytes: &[u8]) -> Result<Self, HeaderFault> {
        let bytes = bytes.get(..SEGMENT_HEADER_SIZE).ok_or(HeaderFault::Cut)?;
        if array(bytes, at::MAGIC) != Some(MAGIC) {
            return Err(HeaderFault::Magic);
        }
        // Magic, major version and this CRC keep their places in every later version, so that a
        // header from the future is told from a damaged one.
        let covered = bytes.get(..at::CRC).ok_or(HeaderFault::Cut)?;
        if crc32(0, &[covered]) != u32_at(bytes, at::CRC) {
            return Err(HeaderFault::Checksum);
        }
        let major = u16_at(bytes, at::MAJOR);
        if major != FORMAT_MAJOR {
            return Err(HeaderFault::Major(major));
        }
        let hashed = bytes.get(..at::HASH).ok_or(HeaderFault::Cut)?;
        if array(bytes, at::HASH) != Some(content_hash(hashed)) {
            return Err(HeaderFault::Checksum);
        }
        // A ro-compat flag keeps writers out and is theirs to refuse; a compat flag and the minor
        // version keep nobody out.
        let incompatible = u32_at(bytes, at::INCOMPAT);
        if incompatible != 0 {
            return Err(HeaderFault::Incompatible(incompatible));
        }
        Self::decode_fields(bytes)
    }

    fn decode_fields(bytes: &[u8]) -> Result<Self, HeaderFault> {
        let uid = |offset| array::<16>(bytes, offset).ok_or(HeaderFault::Cut);
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
        let reason = Reason::ALL
            .into_iter()
            .find(|reason| reason.number() == number)
            .ok_or(HeaderFault::Malformed("reason"))?;
        Ok(Self {
            ledger: uid(at::LEDGER)?,
            segment: uid(at::SEGMENT)?,
            ordinal: u64_at(bytes, at::ORDINAL),
            base_seq: u64_at(bytes, at::BASE_SEQ),
            prev_chain: Chain(array(bytes, at::PREV_CHAIN).ok_or(HeaderFault::Cut)?),
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

    /// The name of this segment's file.
    #[must_use]
    pub fn name(&self) -> SegmentName {
        SegmentName { base_seq: self.base_seq, ordinal: self.ordinal }
    }
}

/// The first bytes of a segment's header, as its footer repeats them: the rest follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderReplica(pub(super) [u8; HEADER_REPLICA_SIZE]);

impl HeaderReplica {
    /// The replica of a header, of which these are the bytes, or the first of them.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        bytes.first_chunk().copied().map(Self)
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8; HEADER_REPLICA_SIZE] {
        &self.0
    }

    /// The header that it is a replica of, checked like the header itself.
    ///
    /// # Errors
    /// What would be wrong with such a header.
    pub fn header(&self) -> Result<SegmentHeader, HeaderFault> {
        let mut bytes = vec![0; SEGMENT_HEADER_SIZE];
        put(&mut bytes, 0, &self.0);
        put_sums(&mut bytes);
        SegmentHeader::decode(&bytes)
    }
}

/// Put the two sums at the end of a header.
fn put_sums(bytes: &mut [u8]) {
    let hash = content_hash(bytes.get(..at::HASH).unwrap_or_default());
    put(bytes, at::HASH, &hash);
    let crc = crc32(0, &[bytes.get(..at::CRC).unwrap_or_default()]);
    put(bytes, at::CRC, &crc.to_le_bytes());
}

/// The name of a segment's file: `<base_seq:020>-<ordinal:08x>.seg`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentName {
    /// Its place in the ledger.
    pub ordinal: u64,
    /// Sequence number of its first record.
    pub base_seq: u64,
}

impl SegmentName {
    /// The name that a file name spells, if it is exactly one that [`fmt::Display`] gives.
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
mod tests {
    use super::*;

    fn header() -> SegmentHeader {
        SegmentHeader {
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
            reason: Reason::FenceAfterCrash,
            born_last: 12,
            born_end: 13,
            genesis: [14; 16],
            ro_compat: 0,
        }
    }

    /// Goal: what is written is what is read, and every single flipped bit is noticed.
    #[test]
    fn every_flipped_bit_of_a_header_is_noticed() {
        let bytes = header().encode();
        assert_eq!(SegmentHeader::decode(&bytes), Ok(header()));
        for place in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[place / 8] ^= 1 << (place % 8);
            assert!(SegmentHeader::decode(&damaged).is_err(), "bit {place}");
        }
    }

    /// Goal: a header from the future is told from a damaged one.
    #[test]
    fn a_future_version_is_not_called_damage() {
        let mut bytes = header().encode();
        put(&mut bytes, at::MAJOR, &2_u16.to_le_bytes());
        let crc = crc32(0, &[&bytes[..at::CRC]]);
        put(&mut bytes, at::CRC, &crc.to_le_bytes());
        assert_eq!(SegmentHeader::decode(&bytes), Err(HeaderFault::Major(2)));
    }

    /// Goal: an intact header that no writer makes is refused, and the field is named; a hash that
    /// does not hold is damage although the sum behind it does.
    #[test]
    fn an_intact_header_that_nobody_writes_is_refused() {
        let odd = [
            (at::RESERVED, "reserved bytes"),
            (at::PAD, "reserved bytes"),
            (at::PAYLOAD_LIMIT, "payload limit"),
            (at::ALIGNMENT_LOG2, "alignment"),
            (at::REASON, "reason"),
        ];
        for (offset, field) in odd {
            let mut bytes = header().encode();
            bytes[offset] ^= 0x40;
            put_sums(&mut bytes);
            let fault = SegmentHeader::decode(&bytes).unwrap_err();
            assert_eq!(fault, HeaderFault::Malformed(field));
            assert!(fault.to_string().contains(field) && !fault.is_version());
        }
        let mut bytes = header().encode();
        bytes[at::CREATED] ^= 1;
        let crc = crc32(0, &[&bytes[..at::CRC]]);
        put(&mut bytes, at::CRC, &crc.to_le_bytes());
        assert_eq!(SegmentHeader::decode(&bytes), Err(HeaderFault::Checksum));
    }

    /// Goal: every reason is read as it was written.
    #[test]
    fn every_reason_is_read_as_it_was_written() {
        for reason in Reason::ALL {
            let header = SegmentHeader { reason, ..header() };
            assert_eq!(SegmentHeader::decode(&header.encode()), Ok(header));
        }
    }

    /// Goal: only the exact spelling is a segment's name.
    #[test]
    fn names_round_trip_and_odd_spellings_are_not_names() {
        let name = SegmentName { ordinal: 0x1a, base_seq: 37 };
        assert_eq!(name.to_string(), "00000000000000000037-0000001a.seg");
        assert_eq!(SegmentName::parse(&name.to_string()), Some(name));
        for odd in ["37-1a.seg", "00000000000000000037-0000001A.seg", "x.seg", "", "-.seg"] {
            assert_eq!(SegmentName::parse(odd), None, "{odd}");
        }
    }
}
