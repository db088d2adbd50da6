//! Snapshot files: the header, the checksums of the chunks after it, and the file names.
//!
//! The body is opaque here; `log` reads and writes the files.
//!
//! Invariants:
//! - Every byte of a file is covered: the header by its CRC, each chunk by a CRC that is seeded with
//!   the record and the chunk index, and the length by the header.
//! - A decoded header has lengths within their limits, and a projection name that is safe in a path.

use std::fmt;

use super::bytes::{Hex, Uid, all_zero, array, put, u16_at, u32_at, u64_at};
use super::hash::{Chain, crc32};
use super::segment::FORMAT_MAJOR;

/// Size of a snapshot header. The first chunk follows it.
pub const SNAPSHOT_HEADER_SIZE: usize = 512;
/// Bytes of the body in each chunk except the last.
pub const SNAPSHOT_CHUNK_SIZE: usize = 1 << 20;
/// Size of the CRC after each chunk.
pub const SNAPSHOT_CRC_SIZE: usize = 4;

const FORMAT_MINOR: u16 = 0;
/// The longest chain of bases below a delta snapshot.
pub const SNAPSHOT_BASES_MAX: usize = 8;
const MAGIC: [u8; 8] = [0x89, b'P', b'L', b'S', 0x0D, 0x0A, 0x1A, 0x0A];
/// `SNAPSHOT_CHUNK_SIZE` as the header stores it.
const CHUNK_SIZE: u32 = 1 << 20;
/// `SNAPSHOT_CHUNK_SIZE` as a file length.
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

/// The header of a snapshot file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotHeader {
    /// The ledger that it belongs to.
    pub ledger: Uid,
    /// The uid that gives the key of the chain.
    pub genesis: Uid,
    /// The last record that the state includes; at least 1.
    pub seq: u64,
    /// Time of that record, in microseconds.
    pub time: u64,
    /// Chain value of that record.
    pub chain: Chain,
    /// Hash of the state, as the projection defines it.
    pub state_hash: [u8; 32],
    /// Name of the projection: see [`is_projection_name`].
    pub projection: String,
    /// Version of the projection, from 1.
    pub version: u32,
    /// Length of the body.
    pub body_length: u64,
    /// BLAKE3 of the body.
    pub body_hash: [u8; 32],
    /// Total length of all chunks.
    pub stored_length: u64,
    /// The base of a delta snapshot; the body holds the differences from the base.
    pub base: Option<SnapshotBase>,
}

/// The base of a delta snapshot: a snapshot of the same projection and version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotBase {
    /// Its record: at least 1, and before that of the delta snapshot.
    pub seq: u64,
    /// Hash of its state.
    pub state_hash: [u8; 32],
}

/// Why bytes are not a usable snapshot header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotFault {
    /// The file is shorter than a header.
    Truncated,
    /// The bytes are not a snapshot.
    Magic,
    /// The header CRC is wrong.
    Crc,
    /// An unknown version or flag.
    Version,
    /// Intact, but a field is out of range.
    Field(&'static str),
}

/// Whether a name is valid for a projection: 1 to 64 characters of `a-z`, `0-9` and `_`.
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

/// The CRC of chunk `index` of a snapshot: of its length and its data. `chain` is the chain value of
/// the snapshot's record.
#[must_use]
pub fn snapshot_chunk_crc(chain: &Chain, index: u64, data: &[&[u8]]) -> u32 {
    crc32(crc32(0, &[&chain.0, &index.to_le_bytes()]), data)
}

impl SnapshotHeader {
    /// Encode the header. [`is_projection_name`] accepts the projection.
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

    /// Validate and decode a header. The CRC is checked before the version.
    pub fn decode(bytes: &[u8]) -> Result<Self, SnapshotFault> {
        let bytes = bytes.get(..SNAPSHOT_HEADER_SIZE).ok_or(SnapshotFault::Truncated)?;
        if !bytes.starts_with(&MAGIC) {
            return Err(SnapshotFault::Magic);
        }
        let crc = crc32(0, &[bytes.get(..at::CRC).unwrap_or_default()]);
        if crc != u32_at(bytes, at::CRC) {
            return Err(SnapshotFault::Crc);
        }
        if u16_at(bytes, at::MAJOR) != FORMAT_MAJOR || u32_at(bytes, at::INCOMPAT) != 0 {
            return Err(SnapshotFault::Version);
        }
        let is_zero = |from: usize, to: usize| bytes.get(from..to).is_some_and(all_zero);
        let base = match (u64_at(bytes, at::BASE_SEQ), array(bytes, at::BASE_HASH)) {
            (seq @ 1.., Some(state_hash)) => Some(SnapshotBase { seq, state_hash }),
            _ if is_zero(at::BASE_HASH, at::RESERVED) => None,
            _ => return Err(SnapshotFault::Field("base hash")),
        };
        let [length] = array(bytes, at::NAME_LENGTH).ok_or(SnapshotFault::Truncated)?;
        let end = at::NAME + usize::from(length);
        let name = bytes.get(at::NAME..end).and_then(|name| std::str::from_utf8(name).ok());
        let name = name.filter(|name| is_projection_name(name));
        let projection = name.ok_or(SnapshotFault::Field("projection name"))?.to_owned();
        if !is_zero(at::PAD, at::NAME)
            || !is_zero(end, at::STORED)
            || !is_zero(at::RESERVED, at::CRC)
        {
            return Err(SnapshotFault::Field("reserved bytes"));
        }
        if u32_at(bytes, at::CHUNK_SIZE) != CHUNK_SIZE {
            return Err(SnapshotFault::Field("chunk size"));
        }
        let header = Self {
            ledger: array(bytes, at::LEDGER).ok_or(SnapshotFault::Truncated)?,
            genesis: array(bytes, at::GENESIS).ok_or(SnapshotFault::Truncated)?,
            seq: u64_at(bytes, at::SEQ),
            time: u64_at(bytes, at::TIME),
            chain: Chain(array(bytes, at::CHAIN).ok_or(SnapshotFault::Truncated)?),
            state_hash: array(bytes, at::STATE_HASH).ok_or(SnapshotFault::Truncated)?,
            projection,
            version: u32_at(bytes, at::VERSION),
            body_length: u64_at(bytes, at::BODY_LENGTH),
            body_hash: array(bytes, at::BODY_HASH).ok_or(SnapshotFault::Truncated)?,
            stored_length: u64_at(bytes, at::STORED),
            base,
        };
        if header.seq == 0 || header.version == 0 {
            return Err(SnapshotFault::Field("seq or version"));
        }
        if header.base.is_some_and(|base| base.seq >= header.seq) {
            return Err(SnapshotFault::Field("base seq"));
        }
        if header.file_length().is_none() {
            return Err(SnapshotFault::Field("body length"));
        }
        Ok(header)
    }

    /// The exact length of the file; `None` if no file can be that long.
    #[must_use]
    pub fn file_length(&self) -> Option<u64> {
        let chunks = self.body_length.div_ceil(CHUNK_LENGTH);
        let shortest = chunks.checked_mul(9)?;
        let longest = self.body_length.checked_add(chunks.checked_mul(8)?)?;
        let is_possible = (shortest..=longest).contains(&self.stored_length);
        self.stored_length.checked_add(512).filter(|_| is_possible)
    }

    /// The name of the file.
    #[must_use]
    pub fn name(&self) -> SnapshotName {
        self.name_of(self.seq, &self.state_hash)
    }

    /// The name of the base's file.
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
            Self::Truncated => write!(f, "the file is shorter than a snapshot header"),
            Self::Magic => write!(f, "this is not a snapshot: wrong magic"),
            Self::Crc => write!(f, "snapshot header checksum mismatch"),
            Self::Version => write!(f, "written by a newer version; use a newer `ledger`"),
            Self::Field(field) => {
                write!(f, "intact snapshot header with an invalid value in {field}")
            }
        }
    }
}

/// The name of a snapshot file. Names sort by record first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotName {
    /// The last record that the state includes.
    pub seq: u64,
    /// Name of the projection.
    pub projection: String,
    /// Version of the projection.
    pub version: u32,
    /// The first four bytes of the state hash.
    pub hash: [u8; 4],
}

impl SnapshotName {
    /// Parse a file name; only the exact spelling of [`fmt::Display`] is a snapshot name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_suffix(".snap")?.split('-');
        let (seq, projection) = (parts.next()?, parts.next()?);
        let version = parts.next()?.strip_prefix('v')?;
        let hash = parts.next().filter(|_| parts.next().is_none())?;
        let is_decimal = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_canonical = is_projection_name(projection)
            && (seq.len() == 20 && is_decimal(seq))
            && (is_decimal(version) && (version == "0" || !version.starts_with('0')))
            && (hash.len() == 8 && hash.bytes().all(is_hex));
        let word = u32::from_str_radix(hash, 16).ok()?;
        let bytes = [word >> 24, word >> 16, word >> 8, word];
        Some(Self {
            seq: seq.parse().ok().filter(|_| is_canonical)?,
            projection: projection.to_owned(),
            version: version.parse().ok()?,
            hash: bytes.map(|byte| u8::try_from(byte & 0xFF).expect("masked to 8 bits")),
        })
    }
}

impl fmt::Display for SnapshotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seq, projection, version, hash } = self;
        write!(f, "{seq:020}-{projection}-v{version}-{}.snap", Hex(hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::bytes::in_miri;

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

    fn delta() -> SnapshotHeader {
        let base = SnapshotBase { seq: 2, state_hash: [0xB7; 32] };
        SnapshotHeader { base: Some(base), ..header() }
    }

    fn patched(mut bytes: Vec<u8>, offset: usize, field: &[u8]) -> Vec<u8> {
        put(&mut bytes, offset, field);
        let crc = crc32(0, &[&bytes[..at::CRC]]);
        put(&mut bytes, at::CRC, &crc.to_le_bytes());
        bytes
    }

    /// Goal: a header round-trips, and every flipped bit and every truncation is detected.
    #[test]
    fn every_flipped_bit_and_truncation_of_a_snapshot_header_is_detected() {
        for header in [header(), delta()] {
            let bytes = header.encode();
            assert_eq!(SnapshotHeader::decode(&bytes), Ok(header));
            for place in (0..bytes.len() * 8).step_by(in_miri(61)) {
                let mut damaged = bytes.clone();
                damaged[place / 8] ^= 1 << (place % 8);
                assert!(SnapshotHeader::decode(&damaged).is_err(), "bit {place}");
            }
            for length in (0..bytes.len()).step_by(in_miri(7)) {
                assert_eq!(SnapshotHeader::decode(&bytes[..length]), Err(SnapshotFault::Truncated));
            }
        }
        assert_eq!(delta().base_name().unwrap().to_string(), BASE);
        assert_eq!(header().base_name(), None);
    }

    /// Goal: intact headers with impossible fields are rejected, each for its own reason.
    #[test]
    fn out_of_range_fields_are_rejected() {
        let bytes = header().encode();
        let fault = |offset, field: &[u8]| {
            SnapshotHeader::decode(&patched(bytes.clone(), offset, field)).unwrap_err()
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
        assert!(SnapshotHeader::decode(&patched(bytes.clone(), at::MINOR, &[9])).is_ok());
        let bytes = delta().encode();
        for (offset, field) in [(at::BASE_SEQ, 0_u8), (at::BASE_SEQ, 3)] {
            let found = SnapshotHeader::decode(&patched(bytes.clone(), offset, &[field]));
            assert!(matches!(found, Err(SnapshotFault::Field(_))), "{offset}: {found:?}");
        }
    }

    /// Goal: a chunk is valid only at one index of one snapshot.
    #[test]
    fn chunk_crc_is_seeded_by_record_and_index() {
        let (one, other) = (Chain([1; 32]), Chain([2; 32]));
        let crcs = [(one, 0), (one, 1), (other, 0)];
        let crcs = crcs.map(|(chain, index)| snapshot_chunk_crc(&chain, index, &[b"data"]));
        assert!(crcs[0] != crcs[1] && crcs[0] != crcs[2], "{crcs:?}");
    }

    /// Goal: only the exact spelling is a snapshot name.
    #[test]
    fn snapshot_names_round_trip_and_other_spellings_are_rejected() {
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
