//! Snapshot files: the header, the sums of the chunks behind it, and the names.
//!
//! Invariants:
//! - Every byte of a file is covered: the header by its CRC, each chunk by its own (seeded by
//!   record and place, so that a chunk holds nowhere else), the length by the header.
//! - A header that decodes has lengths within their limits, and a name that is safe in a path.
//!
//! Left out on purpose: what the body means, and reading or writing files.

use std::fmt;

use super::bytes::{all_zero, array, put, u16_at, u32_at, u64_at};
use super::hash::crc32;
use super::{Chain, FORMAT_MAJOR, Uid};

/// Size of a snapshot's header; its first chunk stands right behind it.
pub const SNAPSHOT_HEADER_SIZE: usize = 512;
/// Bytes of the body in each chunk but the last.
pub const SNAPSHOT_CHUNK_SIZE: usize = 1 << 20;
/// Size of the sum behind each chunk.
pub const SNAPSHOT_CRC_SIZE: usize = 4;

const FORMAT_MINOR: u16 = 0;
/// So many snapshots may lie below a based one, each the base of the one above.
pub const SNAPSHOT_BASES_MAX: usize = 8;
const MAGIC: [u8; 8] = [0x89, b'P', b'L', b'S', 0x0D, 0x0A, 0x1A, 0x0A];
/// `SNAPSHOT_CHUNK_SIZE` as it stands on disk.
const CHUNK_SIZE: u32 = 1 << 20;
/// `SNAPSHOT_CHUNK_SIZE` as lengths of files are counted.
const CHUNK_LENGTH: u64 = 1 << 20;

mod at {
    pub(super) const MAGIC: usize = 0;
    pub(super) const MAJOR: usize = 8;
    pub(super) const MINOR: usize = 10;
    pub(super) const INCOMPAT: usize = 12;
    pub(super) const LEDGER: usize = 16;
    pub(super) const GENESIS: usize = 32;
    pub(super) const SEQ: usize = 48;
    pub(super) const TIME: usize = 56;
    pub(super) const CHAIN: usize = 64;
    pub(super) const STATE_HASH: usize = 96;
    pub(super) const VERSION: usize = 128;
    pub(super) const CHUNK_SIZE: usize = 132;
    pub(super) const BODY_LENGTH: usize = 136;
    pub(super) const BODY_HASH: usize = 144;
    pub(super) const NAME_LENGTH: usize = 176;
    pub(super) const PAD: usize = 177;
    pub(super) const NAME: usize = 184;
    pub(super) const STORED: usize = 248;
    pub(super) const BASE_SEQ: usize = 256;
    pub(super) const BASE_HASH: usize = 264;
    pub(super) const RESERVED: usize = 296;
    pub(super) const CRC: usize = 508;
}

/// Everything that a snapshot says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotHeader {
    /// The ledger that it belongs to.
    pub ledger: Uid,
    /// What the chain's key comes from.
    pub genesis: Uid,
    /// The last record that was folded in; at least 1.
    pub seq: u64,
    /// Its time, in microseconds.
    pub time: u64,
    /// Its chain value.
    pub chain: Chain,
    /// Hash of the state, by the projection's own definition.
    pub state_hash: [u8; 32],
    /// The projection's name: see [`is_projection_name`].
    pub projection: String,
    /// The projection's version, from 1.
    pub version: u32,
    /// Bytes of the body.
    pub body_length: u64,
    /// BLAKE3 of the body.
    pub body_hash: [u8; 32],
    /// Bytes of all chunks.
    pub stored_length: u64,
    /// The snapshot that the body says the differences from, if it does.
    pub base: Option<SnapshotBase>,
}

/// The snapshot that another is based on: of the same projection, and the same version of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotBase {
    /// Its record; at least 1, and below that of the other.
    pub seq: u64,
    /// The hash of its state.
    pub state_hash: [u8; 32],
}

/// What is wrong with a snapshot's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotFault {
    /// The file is shorter than a header.
    Short,
    /// Another file, or a damaged one.
    Magic,
    /// The header's CRC differs.
    Crc,
    /// A version or a flag that this program does not know.
    Version,
    /// A field has a value that it cannot have.
    Field(&'static str),
}

/// Whether a projection may be called that: 1 to 64 characters of `a-z`, `0-9` and `_`.
#[must_use]
pub const fn is_projection_name(name: &str) -> bool {
    let mut rest = name.as_bytes();
    if rest.is_empty() || rest.len() > 64 {
        return false;
    }
    while let [byte, tail @ ..] = rest {
        if !matches!(*byte, b'a'..=b'z' | b'0'..=b'9' | b'_') {
            return false;
        }
        rest = tail;
    }
    true
}

/// The checksum of chunk `index` of the snapshot at a record: over its length and its data.
#[must_use]
pub fn snapshot_chunk_crc(chain: &Chain, index: u64, data: &[&[u8]]) -> u32 {
    crc32(crc32(0, &[&chain.0, &index.to_le_bytes()]), data)
}

impl SnapshotHeader {
    /// The header's bytes. The projection's name is one that [`is_projection_name`] allows.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; SNAPSHOT_HEADER_SIZE];
        let out = bytes.as_mut_slice();
        put(out, at::MAGIC, &MAGIC);
        put(out, at::MAJOR, &FORMAT_MAJOR.to_le_bytes());
        put(out, at::MINOR, &FORMAT_MINOR.to_le_bytes());
        put(out, at::STORED, &self.stored_length.to_le_bytes());
        if let Some(base) = &self.base {
            put(out, at::BASE_SEQ, &base.seq.to_le_bytes());
            put(out, at::BASE_HASH, &base.state_hash);
        }
        put(out, at::LEDGER, &self.ledger);
        put(out, at::GENESIS, &self.genesis);
        put(out, at::SEQ, &self.seq.to_le_bytes());
        put(out, at::TIME, &self.time.to_le_bytes());
        put(out, at::CHAIN, &self.chain.0);
        put(out, at::STATE_HASH, &self.state_hash);
        put(out, at::VERSION, &self.version.to_le_bytes());
        put(out, at::CHUNK_SIZE, &CHUNK_SIZE.to_le_bytes());
        put(out, at::BODY_LENGTH, &self.body_length.to_le_bytes());
        put(out, at::BODY_HASH, &self.body_hash);
        let name = self.projection.as_bytes();
        let length = u8::try_from(name.len()).expect("names of projections are at most 64 bytes");
        put(out, at::NAME_LENGTH, &[length]);
        put(out, at::NAME, name);
        let crc = crc32(0, &[bytes.get(..at::CRC).unwrap_or_default()]);
        put(&mut bytes, at::CRC, &crc.to_le_bytes());
        bytes
    }

    /// The header at the start of these bytes.
    ///
    /// # Errors
    /// The first thing that is wrong. The CRC is checked before the version is believed.
    pub fn decode(bytes: &[u8]) -> Result<Self, SnapshotFault> {
        let bytes = bytes.get(..SNAPSHOT_HEADER_SIZE).ok_or(SnapshotFault::Short)?;
        if !bytes.starts_with(&MAGIC) {
            return Err(SnapshotFault::Magic);
        }
        let sum = crc32(0, &[bytes.get(..at::CRC).unwrap_or_default()]);
        if sum != u32_at(bytes, at::CRC) {
            return Err(SnapshotFault::Crc);
        }
        if u16_at(bytes, at::MAJOR) != FORMAT_MAJOR || u32_at(bytes, at::INCOMPAT) != 0 {
            return Err(SnapshotFault::Version);
        }
        let is_zero = |from: usize, to: usize| bytes.get(from..to).is_some_and(all_zero);
        let base = match (u64_at(bytes, at::BASE_SEQ), array(bytes, at::BASE_HASH)) {
            (seq @ 1.., Some(state_hash)) => Some(SnapshotBase { seq, state_hash }),
            _ if is_zero(at::BASE_HASH, at::RESERVED) => None,
            _ => return Err(SnapshotFault::Field("the hash of its base")),
        };
        let [length] = array(bytes, at::NAME_LENGTH).ok_or(SnapshotFault::Short)?;
        let end = at::NAME + usize::from(length);
        let name = bytes.get(at::NAME..end).and_then(|name| std::str::from_utf8(name).ok());
        let name = name.filter(|name| is_projection_name(name));
        let projection = name.ok_or(SnapshotFault::Field("the projection's name"))?.to_owned();
        if !is_zero(at::PAD, at::NAME)
            || !is_zero(end, at::STORED)
            || !is_zero(at::RESERVED, at::CRC)
        {
            return Err(SnapshotFault::Field("reserved bytes"));
        }
        if u32_at(bytes, at::CHUNK_SIZE) != CHUNK_SIZE {
            return Err(SnapshotFault::Field("the size of chunks"));
        }
        let header = Self {
            ledger: array(bytes, at::LEDGER).ok_or(SnapshotFault::Short)?,
            genesis: array(bytes, at::GENESIS).ok_or(SnapshotFault::Short)?,
            seq: u64_at(bytes, at::SEQ),
            time: u64_at(bytes, at::TIME),
            chain: Chain(array(bytes, at::CHAIN).ok_or(SnapshotFault::Short)?),
            state_hash: array(bytes, at::STATE_HASH).ok_or(SnapshotFault::Short)?,
            projection,
            version: u32_at(bytes, at::VERSION),
            body_length: u64_at(bytes, at::BODY_LENGTH),
            body_hash: array(bytes, at::BODY_HASH).ok_or(SnapshotFault::Short)?,
            stored_length: u64_at(bytes, at::STORED),
            base,
        };
        if header.seq == 0 || header.version == 0 {
            return Err(SnapshotFault::Field("seq or version, which begin at 1"));
        }
        if header.base.is_some_and(|base| base.seq >= header.seq) {
            return Err(SnapshotFault::Field("the record of its base"));
        }
        if header.file_length().is_none() {
            return Err(SnapshotFault::Field("the length of the body"));
        }
        Ok(header)
    }

    /// The exact length of the file; `None` if no file can be so long.
    #[must_use]
    pub fn file_length(&self) -> Option<u64> {
        let chunks = self.body_length.div_ceil(CHUNK_LENGTH);
        let shortest = chunks.checked_mul(9)?;
        let longest = self.body_length.checked_add(chunks.checked_mul(8)?)?;
        let is_possible = (shortest..=longest).contains(&self.stored_length);
        self.stored_length.checked_add(512).filter(|_| is_possible)
    }

    /// The name that its file has.
    #[must_use]
    pub fn name(&self) -> SnapshotName {
        self.name_of(self.seq, &self.state_hash)
    }

    /// The name that the file of its base has.
    #[must_use]
    pub fn base_name(&self) -> Option<SnapshotName> {
        self.base.map(|base| self.name_of(base.seq, &base.state_hash))
    }

    fn name_of(&self, seq: u64, state_hash: &[u8; 32]) -> SnapshotName {
        let [a, b, c, d, ..] = *state_hash;
        let (projection, version) = (self.projection.clone(), self.version);
        SnapshotName { seq, projection, version, hash: [a, b, c, d] }
    }
}

impl fmt::Display for SnapshotFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => write!(f, "the file is shorter than a snapshot's header"),
            Self::Magic => write!(f, "this is no snapshot, or its first bytes are damaged"),
            Self::Crc => write!(f, "the header's sum does not hold"),
            Self::Version => write!(f, "a newer version of the program wrote it"),
            Self::Field(what) => write!(f, "the header is intact, but not valid in {what}"),
        }
    }
}

/// A snapshot's file name. Names sort by record first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotName {
    /// The last record that was folded in.
    pub seq: u64,
    /// The projection.
    pub projection: String,
    /// Its version.
    pub version: u32,
    /// The first four bytes of the state hash.
    pub hash: [u8; 4],
}

impl SnapshotName {
    /// The name that a file name spells, if it is exactly one that [`fmt::Display`] gives.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_suffix(".snap")?.split('-');
        let (seq, projection) = (parts.next()?, parts.next()?);
        let version = parts.next()?.strip_prefix('v')?;
        let hash = parts.next().filter(|_| parts.next().is_none())?;
        let is_decimal = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_spelt_so = is_projection_name(projection)
            && (seq.len() == 20 && is_decimal(seq))
            && (is_decimal(version) && (version == "0" || !version.starts_with('0')))
            && (hash.len() == 8 && hash.bytes().all(is_hex));
        let word = u32::from_str_radix(hash, 16).ok()?;
        let bytes = [word >> 24, word >> 16, word >> 8, word];
        Some(Self {
            seq: seq.parse().ok().filter(|_| is_spelt_so)?,
            projection: projection.to_owned(),
            version: version.parse().ok()?,
            hash: bytes.map(|byte| u8::try_from(byte & 0xFF).expect("masked to 8 bits")),
        })
    }
}

impl fmt::Display for SnapshotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}-{}-v{}-", self.seq, self.projection, self.version)?;
        self.hash.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(".snap")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> SnapshotHeader {
        SnapshotHeader {
            ledger: [1; 16],
            genesis: [2; 16],
            seq: 3,
            time: 4,
            chain: Chain([5; 32]),
            state_hash: [0xA6; 32],
            projection: "cost_by_owner".into(),
            version: 7,
            body_length: 8,
            body_hash: [9; 32],
            stored_length: 10,
            base: None,
        }
    }

    const BASE: &str = "00000000000000000002-cost_by_owner-v7-b7b7b7b7.snap";

    fn based() -> SnapshotHeader {
        let base = SnapshotBase { seq: 2, state_hash: [0xB7; 32] };
        SnapshotHeader { base: Some(base), ..header() }
    }

    fn sealed(mut bytes: Vec<u8>, offset: usize, field: &[u8]) -> Vec<u8> {
        put(&mut bytes, offset, field);
        let crc = crc32(0, &[&bytes[..at::CRC]]);
        put(&mut bytes, at::CRC, &crc.to_le_bytes());
        bytes
    }

    /// Goal: what is written is what is read, every flipped bit is noticed, every cut is.
    #[test]
    fn every_flipped_bit_and_every_cut_of_a_header_is_noticed() {
        for header in [header(), based()] {
            let bytes = header.encode();
            assert_eq!(SnapshotHeader::decode(&bytes), Ok(header));
            for place in 0..bytes.len() * 8 {
                let mut damaged = bytes.clone();
                damaged[place / 8] ^= 1 << (place % 8);
                assert!(SnapshotHeader::decode(&damaged).is_err(), "bit {place}");
            }
            for length in 0..bytes.len() {
                assert_eq!(SnapshotHeader::decode(&bytes[..length]), Err(SnapshotFault::Short));
            }
        }
        assert_eq!(based().base_name().unwrap().to_string(), BASE);
        assert_eq!(header().base_name(), None);
    }

    /// Goal: intact headers that say what cannot be are refused, each for its own reason.
    #[test]
    fn fields_are_held_against_their_limits() {
        let bytes = header().encode();
        let fault = |offset, field: &[u8]| {
            SnapshotHeader::decode(&sealed(bytes.clone(), offset, field)).unwrap_err()
        };
        assert_eq!(fault(at::MAJOR, &[2, 0]), SnapshotFault::Version);
        assert_eq!(fault(at::INCOMPAT, &[1]), SnapshotFault::Version);
        let fields: [(usize, &[u8]); 14] = [
            (at::BASE_SEQ, &[3]),
            (at::BASE_HASH, &[1]),
            (at::STORED, &[0]),
            (at::STORED, &[8]),
            (at::STORED, &[17]),
            (at::SEQ, &[0; 8]),
            (at::VERSION, &[0; 4]),
            (at::CHUNK_SIZE, &[0; 4]),
            (at::BODY_LENGTH, &[0xFF; 8]),
            (at::NAME_LENGTH, &[0]),
            (at::NAME_LENGTH, &[65]),
            (at::NAME, b"../"),
            (at::PAD, &[1]),
            (at::RESERVED, &[1]),
        ];
        for (offset, field) in fields {
            let found = fault(offset, field);
            assert!(matches!(found, SnapshotFault::Field(_)), "{offset}: {found:?}");
        }
        assert!(SnapshotHeader::decode(&sealed(bytes.clone(), at::MINOR, &[9])).is_ok());
        let bytes = based().encode();
        for (offset, field) in [(at::BASE_SEQ, 0_u8), (at::BASE_SEQ, 3)] {
            let found = SnapshotHeader::decode(&sealed(bytes.clone(), offset, &[field]));
            assert!(matches!(found, Err(SnapshotFault::Field(_))), "{offset}: {found:?}");
        }
    }

    /// Goal: a chunk holds in one place of one snapshot only.
    #[test]
    fn the_sum_of_a_chunk_knows_its_place() {
        let (one, other) = (Chain([1; 32]), Chain([2; 32]));
        let sums = [(one, 0), (one, 1), (other, 0)];
        let sums = sums.map(|(chain, index)| snapshot_chunk_crc(&chain, index, &[b"data"]));
        assert!(sums[0] != sums[1] && sums[0] != sums[2], "{sums:?}");
    }

    /// Goal: only the exact spelling is a snapshot's name.
    #[test]
    fn names_round_trip_and_odd_spellings_are_not_names() {
        let name = header().name();
        assert_eq!(name.to_string(), "00000000000000000003-cost_by_owner-v7-a6a6a6a6.snap");
        assert_eq!(SnapshotName::parse(&name.to_string()), Some(name));
        for odd in [
            "3-cost_by_owner-v7-a6a6a6a6.snap",
            "00000000000000000003-cost_by_owner-v07-a6a6a6a6.snap",
            "00000000000000000003-cost_by_owner-v7-A6A6A6A6.snap",
            "00000000000000000003-cost_by_owner-v7-a6a6a6a6-.snap",
            "00000000000000000003-../x-v7-a6a6a6a6.snap",
            "+0000000000000000003-cost-v7-a6a6a6a6.snap",
            "99999999999999999999-cost-v7-a6a6a6a6.snap",
            "00000000000000000003-cost-v+7-a6a6a6a6.snap",
            "00000000000000000003-cost-v-a6a6a6a6.snap",
            "00000000000000000003-cost-v7-+6a6a6a6.snap",
            "00000000000000000003-cost-v7-a6a6a6a.snap",
            "00000000000000000003-cost-v7-a6a6a6a6.snap.tmp",
            "",
            ".snap",
        ] {
            assert_eq!(SnapshotName::parse(odd), None, "{odd}");
        }
    }
}
