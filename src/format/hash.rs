//! Checksums and hashes: the only place that uses `crc32fast` and `blake3`.

use std::fmt;

use super::Uid;
use super::bytes::put;
use super::frame::LOGICAL_SIZE;
use super::lanes::{INPUT_MAX, Mode, hash_each};

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
        self.one(&Linked::new(previous, logical, payload_hash))
    }

    fn one(&self, linked: &Linked) -> Chain {
        Chain(*blake3::keyed_hash(&self.0, &linked.0).as_bytes())
    }

    /// The chain values of several records.
    pub(super) fn links(&self, linked: &[Linked]) -> Vec<Chain> {
        self.links_from(SIDE_BY_SIDE_FROM, linked)
    }

    fn links_from(&self, many: usize, linked: &[Linked]) -> Vec<Chain> {
        if linked.len() < many {
            return linked.iter().map(|linked| self.one(linked)).collect();
        }
        let inputs: Vec<&[u8]> = linked.iter().map(|linked| linked.0.as_slice()).collect();
        let mut hashes = vec![[0; 32]; linked.len()];
        hash_each(Mode::keyed(&self.0), &inputs, &mut hashes);
        hashes.into_iter().map(Chain).collect()
    }
}

/// What a link is the hash of: the chain value before it, what the chain covers of the header, and
/// the payload's hash.
#[derive(Debug, Clone, Copy)]
pub(super) struct Linked([u8; PAYLOAD_HASH_AT + 32]);

const PAYLOAD_HASH_AT: usize = 32 + LOGICAL_SIZE;

impl Linked {
    pub(super) fn new(
        previous: &Chain,
        logical: &[u8; LOGICAL_SIZE],
        payload_hash: &[u8; 32],
    ) -> Self {
        let mut linked = Self([0; PAYLOAD_HASH_AT + 32]);
        put(&mut linked.0, 0, &previous.0);
        put(&mut linked.0, 32, logical);
        linked.put_payload_hash(payload_hash);
        linked
    }

    /// For whoever knows the payload's hash later than the rest.
    pub(super) fn put_payload_hash(&mut self, payload_hash: &[u8; 32]) {
        put(&mut self.0, PAYLOAD_HASH_AT, payload_hash);
    }

    /// Whether it is that of a record behind that chain value.
    pub(super) fn is_behind(&self, previous: &Chain) -> bool {
        self.0.first_chunk() == Some(&previous.0)
    }
}

/// Fewer inputs are hashed one after the other: most lanes would be idle. All are in a build that
/// is not optimised, which has no vectors; there the crate is optimised all the same.
const SIDE_BY_SIDE_FROM: usize = if cfg!(debug_assertions) { usize::MAX } else { 8 };

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
    /// What CRCs at this place begin with.
    #[must_use]
    pub fn seed(&self) -> Seed {
        Seeds::new(&self.segment).at(self.offset)
    }
}

/// What CRCs at the places of one segment begin with.
#[derive(Debug, Clone)]
pub struct Seeds(Crc);

impl Seeds {
    /// Those of that segment.
    #[must_use]
    pub fn new(segment: &Uid) -> Self {
        Self(Crc::default().then(segment))
    }

    /// The one of the place at that offset.
    #[must_use]
    #[inline]
    pub fn at(&self, offset: u64) -> Seed {
        bug!(CrcWithoutPlace => return Seed(Crc::default()));
        Seed(self.0.then(&offset.to_le_bytes()))
    }
}

/// What CRCs at a place begin with: see [`Placement`].
#[derive(Debug, Clone)]
pub struct Seed(Crc);

impl Seed {
    /// The CRC of bytes that belong to the place.
    #[inline]
    pub(super) fn crc(&self, bytes: &[u8]) -> u32 {
        self.0.then(bytes).value()
    }

    /// The same as the initial value of [`crc32`].
    pub(super) fn value(self) -> u32 {
        self.0.value()
    }
}

/// A CRC-32 (IEEE) that may go on in more than one way. It knows what the processor can do, which need
/// not be found out again for each CRC of a frame.
#[derive(Debug, Clone, Default)]
struct Crc(crc32fast::Hasher);

impl Crc {
    #[inline]
    fn then(&self, bytes: &[u8]) -> Self {
        let mut hasher = self.0.clone();
        hasher.update(bytes);
        Self(hasher)
    }

    #[inline]
    fn value(self) -> u32 {
        self.0.finalize()
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

/// Small pieces are gathered until there are so many bytes of them: BLAKE3 hashes many kilobytes
/// at once several times as fast as one after the other.
const GATHERED: usize = 64 << 10;

/// BLAKE3 of bytes that come in pieces.
#[derive(Debug, Clone, Default)]
pub struct ContentHasher {
    hasher: blake3::Hasher,
    /// Fewer than [`GATHERED`] bytes, which come next.
    gathered: Vec<u8>,
}

impl ContentHasher {
    /// Add the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        // What is large, and begins where the last large one ended, need not be gathered.
        let whole = if self.gathered.is_empty() { piece.len() - piece.len() % GATHERED } else { 0 };
        let (whole, piece) = piece.split_at_checked(whole).unwrap_or((&[], piece));
        if !whole.is_empty() {
            self.hasher.update(whole);
        }
        self.gathered.extend_from_slice(piece);
        let whole = self.gathered.len() - self.gathered.len() % GATHERED;
        if let Some(bytes) = self.gathered.get(..whole).filter(|bytes| !bytes.is_empty()) {
            self.hasher.update(bytes);
            self.gathered.drain(..whole);
        }
    }

    /// The hash of all pieces: what [`content_hash`] says of them as one.
    #[must_use]
    pub fn finish(&self) -> [u8; 32] {
        *self.hasher.clone().update(&self.gathered).finalize().as_bytes()
    }
}

/// BLAKE3 of some bytes: plans, states, discarded ranges.
#[must_use]
pub fn content_hash(bytes: &[u8]) -> [u8; 32] {
    *blake3::hash(bytes).as_bytes()
}

/// [`content_hash`] of several inputs: side by side, if they are many and short.
pub(super) fn content_hashes(inputs: &[&[u8]]) -> Vec<[u8; 32]> {
    content_hashes_from(SIDE_BY_SIDE_FROM, inputs)
}

fn content_hashes_from(many: usize, inputs: &[&[u8]]) -> Vec<[u8; 32]> {
    let is_long = |input: &[u8]| input.len() > INPUT_MAX;
    if inputs.iter().filter(|input| !is_long(input)).count() < many {
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

    /// Goal: a CRC at a place goes on from the segment's uid and the offset, as if all three were one
    /// piece, however long the last.
    #[test]
    fn a_crc_goes_on_from_its_place() {
        let bytes: Vec<u8> = (0..3000).map(|n| (n % 251).try_into().unwrap()).collect();
        let segment = [7; 16];
        let seeds = Seeds::new(&segment);
        for offset in [0, 4096, 0x0123_4567_89AB_CDEF, u64::MAX] {
            let seed = seeds.at(offset);
            for length in (0..400).chain([1024, 2999]) {
                let bytes = &bytes[..length];
                let whole = crc32(0, &[&segment, &offset.to_le_bytes(), bytes]);
                assert_eq!(seed.crc(bytes), whole, "{length} bytes at {offset}");
            }
            assert_eq!(Placement { segment, offset }.seed().value(), seed.value());
        }
    }

    /// Goal: pieces of any size, gathered or not, have the hash of the whole.
    #[test]
    fn pieces_have_the_hash_of_the_whole() {
        let bytes: Vec<u8> =
            (0..3 * GATHERED + 77).map(|n| (n % 251).try_into().unwrap()).collect();
        for size in [1, 384, 1024, GATHERED - 1, GATHERED, GATHERED + 1, bytes.len()] {
            let mut hasher = ContentHasher::default();
            for (number, piece) in bytes.chunks(size).enumerate() {
                hasher.update(piece);
                if number == 1 {
                    // Looking at what there is so far changes nothing.
                    assert_eq!(
                        hasher.finish(),
                        content_hash(&bytes[..(2 * size).min(bytes.len())])
                    );
                }
            }
            assert_eq!(hasher.finish(), content_hash(&bytes), "pieces of {size}");
        }
    }

    /// Goal: hashed side by side or one after the other, short inputs and long ones between them,
    /// each gets its own hash.
    #[test]
    fn each_of_many_gets_its_own_hash() {
        let bytes: Vec<u8> = (0..9000).map(|n| (n % 251).try_into().unwrap()).collect();
        let lengths = [0, 5000, 64, 1024, 1025, 63, 9000, 65, 1, 128, 2048, 1023, 0, 256, 91];
        for count in 0..=lengths.len() {
            let inputs: Vec<&[u8]> =
                lengths[..count].iter().map(|length| &bytes[..*length]).collect();
            let alone: Vec<_> = inputs.iter().map(|input| content_hash(input)).collect();
            for many in [0, 8, usize::MAX] {
                assert_eq!(content_hashes_from(many, &inputs), alone, "{count} inputs, {many}");
            }
        }
        let key = ChainKey::new(&[9; 16]);
        let linked: Vec<_> =
            (0..40).map(|n| Linked::new(&Chain([n; 32]), &[n; LOGICAL_SIZE], &[!n; 32])).collect();
        let alone: Vec<_> = linked.iter().map(|linked| key.one(linked)).collect();
        for many in [0, 8, usize::MAX] {
            assert_eq!(key.links_from(many, &linked), alone);
        }
    }
}
