//! Checksums and hashes: the only place that names `crc32fast` and `blake3`.

use std::fmt;

use super::Uid;
use super::bytes::put;
use super::frame::LOGICAL_SIZE;

/// The chain value of a record: it fixes that record and, through its predecessor, all before it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Chain(pub [u8; 32]);

impl Chain {
    /// The value before the first record.
    pub const GENESIS: Self = Self([0; 32]);

    /// The first eight hexadecimal digits, for people.
    #[must_use]
    pub fn short(&self) -> String {
        self.to_string().chars().take(8).collect()
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chain({self})")
    }
}

/// The key of a ledger's chain. A fork keeps its parent's.
#[derive(Debug, Clone, Copy)]
pub struct ChainKey([u8; 32]);

impl ChainKey {
    const CONTEXT: &'static str = "plan-ledger v1 record";

    /// The key that belongs to a genesis uid.
    #[must_use]
    pub fn new(genesis: &Uid) -> Self {
        Self(blake3::derive_key(Self::CONTEXT, genesis))
    }

    /// The chain value of a record: of the one before, its logical header fields, and its
    /// payload's hash. Placement (segment, offset, CRCs, pad) is left out, so that the chain
    /// survives re-writing in another segment; the payload enters by its hash, so that it can be
    /// erased later and the chain still verifies.
    pub(super) fn link(
        &self,
        previous: &Chain,
        logical: &[u8; LOGICAL_SIZE],
        payload_hash: &[u8; 32],
    ) -> Chain {
        // In one piece: a hasher that takes pieces costs more than the hash.
        let mut bytes = [0; 32 + LOGICAL_SIZE + 32];
        put(&mut bytes, 0, &previous.0);
        put(&mut bytes, 32, logical);
        put(&mut bytes, 32 + LOGICAL_SIZE, payload_hash);
        Chain(*blake3::keyed_hash(&self.0, &bytes).as_bytes())
    }
}

/// Where a frame stands. It seeds the CRCs, so that a stale, misdirected or nested copy of a
/// frame never validates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// The segment.
    pub segment: Uid,
    /// Offset of the frame in it, in bytes.
    pub offset: u64,
}

impl Placement {
    /// The initial CRC value of this place.
    pub(super) fn seed(&self) -> u32 {
        bug!(CrcWithoutPlace => return 0);
        crc32(0, &[&self.segment, &self.offset.to_le_bytes()])
    }
}

/// CRC-32 (IEEE), continued from `initial`, over the parts in order.
pub(super) fn crc32(initial: u32, parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(initial);
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}

/// BLAKE3 of bytes that come in pieces.
#[derive(Debug, Clone, Default)]
pub struct ContentHasher(blake3::Hasher);

impl ContentHasher {
    /// Add the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// The hash of all pieces: what [`content_hash`] says of them as one.
    #[must_use]
    pub fn finish(&self) -> [u8; 32] {
        *self.0.finalize().as_bytes()
    }
}

/// BLAKE3 of some bytes: plans, states, discarded ranges.
#[must_use]
pub fn content_hash(bytes: &[u8]) -> [u8; 32] {
    *blake3::hash(bytes).as_bytes()
}
