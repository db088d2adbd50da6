//! Checksums and hashes: CRC-32 seeded by position, and BLAKE3 for contents and the record chain.
//!
//! Only this file uses `crc32fast` and `blake3`. Many short inputs are hashed side by side in
//! `blake3_simd.rs`.

use std::fmt;

use super::blake3_simd::{INPUT_MAX, Mode, hash_each};
use super::bytes::{Hex, Uid, put};

/// Size of the header fields that the chain covers.
pub(super) const LOGICAL_SIZE: usize = 27;

/// The chain value of a record: a hash of the record and of the previous chain value, and so of every
/// record before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Chain(pub [u8; 32]);

impl Chain {
    /// The chain value before the first record.
    pub const GENESIS: Self = Self([0; 32]);

    /// The first eight hexadecimal digits.
    #[must_use]
    pub fn short(&self) -> String {
        self.to_string().chars().take(8).collect()
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Hex(&self.0).fmt(f)
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chain({self})")
    }
}

/// The key of a ledger's chain. A fork keeps the key of its parent.
#[derive(Debug, Clone, Copy)]
pub struct ChainKey([u8; 32]);

impl ChainKey {
    const CONTEXT: &'static str = "plan-ledger v1 record";

    /// Derive the key from the genesis uid.
    #[must_use]
    pub fn new(genesis: &Uid) -> Self {
        Self(blake3::derive_key(Self::CONTEXT, genesis))
    }

    /// The chain value of a record, from the previous chain value, the logical header fields and the
    /// hash of the payload. Segment, offset, CRCs and pad are not covered, so that the chain survives
    /// a copy into another segment. The payload enters by its hash, so that the chain still verifies
    /// after the payload is erased.
    pub(super) fn link(
        &self,
        previous: &Chain,
        logical: &[u8; LOGICAL_SIZE],
        payload_hash: &[u8; 32],
    ) -> Chain {
        // One piece: an incremental hasher costs more than the hash itself.
        self.link_one(&ChainInput::new(previous, logical, payload_hash))
    }

    fn link_one(&self, input: &ChainInput) -> Chain {
        Chain(*blake3::keyed_hash(&self.0, &input.0).as_bytes())
    }

    /// The chain values of several records.
    pub(super) fn link_all(&self, inputs: &[ChainInput]) -> Vec<Chain> {
        self.link_all_from(SIMD_INPUTS_MIN, inputs)
    }

    fn link_all_from(&self, simd_min: usize, inputs: &[ChainInput]) -> Vec<Chain> {
        if inputs.len() < simd_min {
            return inputs.iter().map(|input| self.link_one(input)).collect();
        }
        let inputs: Vec<&[u8]> = inputs.iter().map(|input| input.0.as_slice()).collect();
        let mut hashes = vec![[0; 32]; inputs.len()];
        hash_each(Mode::keyed(&self.0), &inputs, &mut hashes);
        hashes.into_iter().map(Chain).collect()
    }
}

/// The input of a chain value: the previous chain value, the logical header fields, and the hash of
/// the payload.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChainInput([u8; PAYLOAD_HASH_AT + 32]);

const PAYLOAD_HASH_AT: usize = 32 + LOGICAL_SIZE;

impl ChainInput {
    pub(super) fn new(
        previous: &Chain,
        logical: &[u8; LOGICAL_SIZE],
        payload_hash: &[u8; 32],
    ) -> Self {
        let mut input = Self([0; PAYLOAD_HASH_AT + 32]);
        put(&mut input.0, 0, &previous.0);
        put(&mut input.0, 32, logical);
        input.set_payload_hash(payload_hash);
        input
    }

    pub(super) fn set_payload_hash(&mut self, payload_hash: &[u8; 32]) {
        put(&mut self.0, PAYLOAD_HASH_AT, payload_hash);
    }

    /// Whether its record continues the chain value `previous`.
    pub(super) fn continues(&self, previous: &Chain) -> bool {
        self.0.first_chunk() == Some(&previous.0)
    }
}

/// Fewer inputs are hashed one by one: most SIMD lanes would be idle. Unoptimised builds hash every
/// input one by one: they have no vector code, while the `blake3` crate is always optimised.
const SIMD_INPUTS_MIN: usize = if cfg!(debug_assertions) { usize::MAX } else { 8 };

/// The position of a frame. It seeds the CRCs, so that a stale, misdirected or nested copy of a frame
/// is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// Uid of the segment.
    pub segment: Uid,
    /// Offset of the frame in the segment.
    pub offset: u64,
}

impl Placement {
    /// The initial CRC at this position.
    #[must_use]
    pub fn seed(&self) -> CrcSeed {
        SegmentSeed::new(&self.segment).at(self.offset)
    }
}

/// The CRC of a segment uid; the seeds of its offsets derive from it.
#[derive(Debug, Clone)]
pub struct SegmentSeed(Crc);

impl SegmentSeed {
    /// The seed of a segment.
    #[must_use]
    pub fn new(segment: &Uid) -> Self {
        Self(Crc::default().extend(segment))
    }

    /// The initial CRC at an offset.
    #[must_use]
    #[inline]
    pub fn at(&self, offset: u64) -> CrcSeed {
        mutant!(CrcUnseeded => return CrcSeed(Crc::default()));
        CrcSeed(self.0.extend(&offset.to_le_bytes()))
    }
}

/// The initial CRC at a position: see [`Placement`].
#[derive(Debug, Clone)]
pub struct CrcSeed(Crc);

impl CrcSeed {
    /// The CRC of bytes at the position.
    #[inline]
    pub(super) fn crc(&self, bytes: &[u8]) -> u32 {
        self.0.extend(bytes).value()
    }

    /// The seed as an initial value of [`crc32`].
    pub(super) fn value(self) -> u32 {
        self.0.value()
    }
}

/// A CRC-32 (IEEE) that can be continued more than once. Cloning it keeps the detected processor
/// features, which a new hasher would detect again for each CRC.
#[derive(Debug, Clone, Default)]
struct Crc(crc32fast::Hasher);

impl Crc {
    #[inline]
    fn extend(&self, bytes: &[u8]) -> Self {
        let mut hasher = self.0.clone();
        hasher.update(bytes);
        Self(hasher)
    }

    #[inline]
    fn value(self) -> u32 {
        self.0.finalize()
    }
}

/// CRC-32 (IEEE) of the parts in order, continued from `initial`.
pub(crate) fn crc32(initial: u32, parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(initial);
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}

/// Small pieces are buffered up to this size: BLAKE3 hashes many kilobytes at once several times
/// faster than piece by piece.
const BUFFER_SIZE: usize = 64 << 10;

/// Incremental BLAKE3.
#[derive(Debug, Clone, Default)]
pub struct ContentHasher {
    hasher: blake3::Hasher,
    /// Fewer than [`BUFFER_SIZE`] bytes that are not hashed yet.
    buffer: Vec<u8>,
}

impl ContentHasher {
    /// Add the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        // Large pieces bypass an empty buffer.
        let whole =
            if self.buffer.is_empty() { piece.len() - piece.len() % BUFFER_SIZE } else { 0 };
        let (whole, piece) = piece.split_at_checked(whole).unwrap_or((&[], piece));
        if !whole.is_empty() {
            self.hasher.update(whole);
        }
        self.buffer.extend_from_slice(piece);
        let whole = self.buffer.len() - self.buffer.len() % BUFFER_SIZE;
        if let Some(bytes) = self.buffer.get(..whole).filter(|bytes| !bytes.is_empty()) {
            self.hasher.update(bytes);
            self.buffer.drain(..whole);
        }
    }

    /// The hash of all pieces: equal to [`content_hash`] of their concatenation.
    #[must_use]
    pub fn finish(&self) -> [u8; 32] {
        *self.hasher.clone().update(&self.buffer).finalize().as_bytes()
    }
}

/// BLAKE3 of bytes: plans, states, discarded ranges.
#[must_use]
pub fn content_hash(bytes: &[u8]) -> [u8; 32] {
    *blake3::hash(bytes).as_bytes()
}

/// [`content_hash`] of several inputs, side by side if they are many and short.
pub(super) fn content_hashes(inputs: &[&[u8]]) -> Vec<[u8; 32]> {
    content_hashes_from(SIMD_INPUTS_MIN, inputs)
}

fn content_hashes_from(simd_min: usize, inputs: &[&[u8]]) -> Vec<[u8; 32]> {
    let is_long = |input: &[u8]| input.len() > INPUT_MAX;
    if inputs.iter().filter(|input| !is_long(input)).count() < simd_min {
        return inputs.iter().map(|input| content_hash(input)).collect();
    }
    let mut hashes = vec![[0; 32]; inputs.len()];
    hash_each(Mode::PLAIN, inputs, &mut hashes);
    for (input, hash) in inputs.iter().zip(&mut hashes).filter(|(input, _)| is_long(input)) {
        *hash = content_hash(input);
    }
    hashes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::bytes::in_miri;

    /// Goal: the CRC at a position equals the CRC of segment uid, offset and bytes as one piece, for any
    /// length.
    #[test]
    fn crc_is_seeded_by_segment_and_offset() {
        let bytes: Vec<u8> = (0..3000).map(|n| (n % 251).try_into().unwrap()).collect();
        let segment = [7; 16];
        let seeds = SegmentSeed::new(&segment);
        for offset in [0, 4096, 0x0123_4567_89AB_CDEF, u64::MAX] {
            let seed = seeds.at(offset);
            for length in (0..400).step_by(in_miri(37)).chain([1024, 2999]) {
                let bytes = &bytes[..length];
                let whole = crc32(0, &[&segment, &offset.to_le_bytes(), bytes]);
                assert_eq!(seed.crc(bytes), whole, "{length} bytes at {offset}");
            }
            assert_eq!(Placement { segment, offset }.seed().value(), seed.value());
        }
    }

    /// Goal: pieces of any size, buffered or not, have the hash of the whole.
    #[test]
    fn incremental_hash_equals_hash_of_the_whole() {
        let bytes: Vec<u8> =
            (0..3 * BUFFER_SIZE + 77).map(|n| (n % 251).try_into().unwrap()).collect();
        let sizes = [BUFFER_SIZE - 1, 1, 384, 1024, BUFFER_SIZE, BUFFER_SIZE + 1, bytes.len()];
        // All of that would take Miri minutes.
        let (bytes, sizes) = if cfg!(miri) {
            (&bytes[2 * BUFFER_SIZE..], &sizes[..1])
        } else {
            (&bytes[..], &sizes[..])
        };
        for size in sizes.iter().copied() {
            let mut hasher = ContentHasher::default();
            for (number, piece) in bytes.chunks(size).enumerate() {
                hasher.update(piece);
                if number == 1 {
                    // An intermediate result does not change the final one.
                    assert_eq!(
                        hasher.finish(),
                        content_hash(&bytes[..(2 * size).min(bytes.len())])
                    );
                }
            }
            assert_eq!(hasher.finish(), content_hash(bytes), "pieces of {size}");
        }
    }

    /// Goal: hashing side by side and one by one agree, for any mix of short and long inputs.
    #[test]
    fn simd_and_scalar_hashes_agree() {
        let bytes: Vec<u8> = (0..9000).map(|n| (n % 251).try_into().unwrap()).collect();
        let lengths = [0, 5000, 64, 1024, 1025, 63, 9000, 65, 1, 128, 2048, 1023, 0, 256, 91];
        for count in (0..=lengths.len()).step_by(in_miri(5)) {
            let inputs: Vec<&[u8]> =
                lengths[..count].iter().map(|length| &bytes[..*length]).collect();
            let alone: Vec<_> = inputs.iter().map(|input| content_hash(input)).collect();
            for simd_min in [0, 8, usize::MAX] {
                let hashes = content_hashes_from(simd_min, &inputs);
                assert_eq!(hashes, alone, "{count} inputs, {simd_min}");
            }
        }
        let key = ChainKey::new(&[9; 16]);
        let inputs: Vec<_> = (0..40)
            .map(|n| ChainInput::new(&Chain([n; 32]), &[n; LOGICAL_SIZE], &[!n; 32]))
            .collect();
        let alone: Vec<_> = inputs.iter().map(|input| key.link_one(input)).collect();
        for simd_min in [0, 8, usize::MAX] {
            assert_eq!(key.link_all_from(simd_min, &inputs), alone);
        }
    }
}
