//! Parts of a snapshot's body, packed: the only place that names `lz4_flex`.
//!
//! Invariant: unpacking takes no more memory than the part is said to have, whatever the bytes are,
//! and gives exactly so many bytes or none.
//!
//! Left out on purpose: sums. Bytes are checked before they are unpacked.

/// The chunk's bytes behind its length: the part as an LZ4 block or, where that saves nothing, the
/// part itself.
#[must_use]
pub fn pack(part: &[u8]) -> Vec<u8> {
    let packed = lz4_flex::block::compress(part);
    if packed.len() < part.len() { packed } else { part.to_owned() }
}

/// The part of so many bytes that was packed as `data`; `None` if it was not.
#[must_use]
pub fn unpack(data: Vec<u8>, length: usize) -> Option<Vec<u8>> {
    if data.len() >= length {
        return Some(data).filter(|data| data.len() == length);
    }
    let mut part = vec![0; length];
    let unpacked = lz4_flex::block::decompress_into(&data, &mut part).ok()?;
    (unpacked == length).then_some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(length: usize) -> Vec<u8> {
        let mut seed = 7_u32;
        let mut next = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            u8::try_from(seed >> 24).unwrap()
        };
        (0..length).map(|_| next()).collect()
    }

    /// Goal: every part comes back, what packs well and what does not.
    #[test]
    fn what_is_packed_is_unpacked() {
        for length in [1, 2, 12, 13, 100, 5000] {
            for part in [vec![0; length], noise(length), b"abc".repeat(length)] {
                let packed = pack(&part);
                assert!(packed.len() <= part.len(), "{length}");
                assert_eq!(unpack(packed, part.len()), Some(part));
            }
        }
        assert!(pack(&[0; 5000]).len() < 100);
        assert_eq!(pack(&noise(5000)), noise(5000));
    }

    /// Goal: bytes that are no packed part of that length are none, whatever else they are.
    #[test]
    fn other_lengths_and_other_bytes_are_refused() {
        let part = b"what has happened".repeat(50);
        let packed = pack(&part);
        for length in [packed.len() - 1, part.len() - 1, part.len() + 1, 1 << 20] {
            assert_eq!(unpack(packed.clone(), length), None, "{length}");
        }
        for cut in 0..packed.len() {
            let cut = unpack(packed[..cut].to_vec(), part.len());
            assert!(cut.is_none_or(|found| found.len() == part.len()));
        }
        for place in 0..packed.len() * 8 {
            let mut damaged = packed.clone();
            damaged[place / 8] ^= 1 << (place % 8);
            let found = unpack(damaged, part.len());
            assert!(found.is_none_or(|found| found.len() == part.len()));
        }
    }
}
