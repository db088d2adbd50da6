//! Compression of single runs and plans: `packed` of `format/snapshot.md`, section 3.
//!
//! Invariant: decompression never panics, and never allocates more than the bytes decompressed so
//! far plus one part, even if the input claims another length. The caller checks the hash of the
//! result.

use std::io;

use crate::format;

use crate::ledger::codec::values::{Values, put};

/// The length of each part except the last.
const PART: usize = 1 << 20;

/// Compress bytes.
///
/// # Errors
/// None in practice: writing to a buffer does not fail.
pub(crate) fn compress(bytes: &[u8]) -> io::Result<Box<[u8]>> {
    let mut packed = Vec::new();
    put(&mut packed, &u64::try_from(bytes.len()).map_err(io::Error::other)?)?;
    bytes.chunks(PART).try_for_each(|part| put(&mut packed, format::pack(part).as_slice()))?;
    Ok(packed.into())
}

/// Decompress bytes.
///
/// # Errors
/// `InvalidData` for bytes that [`compress`] did not write.
pub(crate) fn decompress(packed: &[u8]) -> io::Result<Vec<u8>> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "compressed bytes are invalid");
    let mut input = Values::new(packed);
    let length = usize::try_from(input.take::<u64>()?).map_err(|_| wrong())?;
    let mut bytes = Vec::new();
    while let left @ 1.. = length - bytes.len() {
        let part = input.take::<&[u8]>()?.to_vec();
        bytes.append(&mut format::unpack(part, left.min(PART)).ok_or_else(wrong)?);
    }
    if input.is_at_end() { Ok(bytes) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that do not compress.
    fn noise(length: usize) -> Vec<u8> {
        let hashes = (0_u64..).flat_map(|count| format::content_hash(&count.to_le_bytes()));
        hashes.take(length).collect()
    }

    /// Goal: bytes of zero, one and several parts round-trip, whether they compress well or not.
    #[test]
    fn compressed_bytes_round_trip() {
        for length in [0, 1, 100, PART - 1, PART, PART + 1, 2 * PART, 2 * PART + 7] {
            for bytes in [vec![b'a'; length], noise(length)] {
                assert!(decompress(&compress(&bytes).unwrap()).unwrap() == bytes, "{length}");
            }
        }
        assert!(compress(&vec![b'a'; 2 * PART]).unwrap().len() < 20_000);
    }

    /// Goal: invalid bytes are rejected, and no length in them is trusted.
    #[test]
    fn invalid_bytes_are_rejected() {
        let packed = compress(&b"what has happened".repeat(50)).unwrap();
        for cut in 0..packed.len() {
            assert!(decompress(&packed[..cut]).is_err(), "{cut}");
        }
        assert!(decompress(&[&packed, [0].as_slice()].concat()).is_err());
        // A flipped bit can only change the result, which the hash detects.
        for place in 0..packed.len() * 8 {
            let mut damaged = packed.clone();
            damaged[place / 8] ^= 1 << (place % 8);
            let _ = decompress(&damaged);
        }
        let mut claim = Vec::new();
        put(&mut claim, &u64::MAX).unwrap();
        assert!(decompress(&claim).is_err());
        assert!(decompress(&[claim, vec![1, 0]].concat()).is_err());
    }
}
