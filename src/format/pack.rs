//! LZ4 compression of snapshot chunks.
//!
//! Invariant: unpacking allocates exactly the expected length, whatever the bytes are, and returns
//! that many bytes or `None`. Callers verify checksums before they unpack.

/// A part of a body as an LZ4 block, or the part itself if compression does not shorten it.
#[must_use]
pub fn pack(part: &[u8]) -> Vec<u8> {
    let packed = lz4_flex::block::compress(part);
    if packed.len() < part.len() { packed } else { part.to_owned() }
}

/// The part of `length` bytes that was packed as `data`; `None` if `data` is not a packed part of
/// that length.
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

    /// Goal: unpacking inverts packing, for compressible and incompressible parts.
    #[test]
    fn pack_and_unpack_round_trip() {
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

    /// Goal: unpacking never returns a part of another length, whatever the bytes are.
    #[test]
    fn wrong_lengths_and_damaged_bytes_are_rejected() {
        let part = b"what has happened".repeat(50);
        let packed = pack(&part);
        for length in [packed.len() - 1, part.len() - 1, part.len() + 1, 1 << 20] {
            assert_eq!(unpack(packed.clone(), length), None, "{length}");
        }
        for cut in 0..packed.len() {
            let cut = unpack(packed[..cut].to_vec(), part.len());
            assert!(cut.is_none_or(|found| found.len() == part.len()));
        }
        for bit in 0..packed.len() * 8 {
            let mut damaged = packed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let found = unpack(damaged, part.len());
            assert!(found.is_none_or(|found| found.len() == part.len()));
        }
    }
}
