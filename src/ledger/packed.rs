//! Runs and plans as bytes that take little room: `packed` of `format/snapshot.md`, section 3.
//!
//! Invariants: unpacking is total, and takes no more memory than the bytes before have unpacked to,
//! and one part, whatever length they claim.
//!
//! Left out on purpose: what the bytes mean, and whether they are the right ones. Their hash says that.

use std::io;

use crate::format;

use super::codec::{Values, put};

/// The bytes of each part but the last.
const PART: usize = 1 << 20;

/// Bytes, packed.
///
/// # Errors
/// None that is met: a buffer takes everything.
pub(super) fn pack(bytes: &[u8]) -> io::Result<Box<[u8]>> {
    let mut packed = Vec::new();
    put(&mut packed, &u64::try_from(bytes.len()).map_err(io::Error::other)?)?;
    bytes.chunks(PART).try_for_each(|part| put(&mut packed, format::pack(part).as_slice()))?;
    Ok(packed.into())
}

/// What was packed.
///
/// # Errors
/// Bytes that are nothing packed.
pub(super) fn unpack(packed: &[u8]) -> io::Result<Vec<u8>> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "packed bytes cannot be unpacked");
    let mut input = Values::of(packed);
    let length = usize::try_from(input.take::<u64>()?).map_err(|_| wrong())?;
    let mut bytes = Vec::new();
    while let left @ 1.. = length - bytes.len() {
        let part = input.take::<&[u8]>()?.to_vec();
        bytes.append(&mut format::unpack(part, left.min(PART)).ok_or_else(wrong)?);
    }
    if input.is_over() { Ok(bytes) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that do not pack.
    fn noise(length: usize) -> Vec<u8> {
        let hashes = (0_u64..).flat_map(|count| format::content_hash(&count.to_le_bytes()));
        hashes.take(length).collect()
    }

    /// Goal: bytes of no part, of one and of several come back, whether they pack well or not.
    #[test]
    fn what_is_packed_is_unpacked() {
        for length in [0, 1, 100, PART - 1, PART, PART + 1, 2 * PART, 2 * PART + 7] {
            for bytes in [vec![b'a'; length], noise(length)] {
                assert!(unpack(&pack(&bytes).unwrap()).unwrap() == bytes, "{length}");
            }
        }
        assert!(pack(&vec![b'a'; 2 * PART]).unwrap().len() < 20_000);
    }

    /// Goal: whatever the bytes are, there is an answer, and no length in them is believed.
    #[test]
    fn bytes_that_are_nothing_packed_are_refused() {
        let packed = pack(&b"what has happened".repeat(50)).unwrap();
        for cut in 0..packed.len() {
            assert!(unpack(&packed[..cut]).is_err(), "{cut}");
        }
        assert!(unpack(&[&packed, [0].as_slice()].concat()).is_err());
        // A flip can only change what comes out: its hash is held against that.
        for place in 0..packed.len() * 8 {
            let mut damaged = packed.clone();
            damaged[place / 8] ^= 1 << (place % 8);
            let _ = unpack(&damaged);
        }
        let mut claim = Vec::new();
        put(&mut claim, &u64::MAX).unwrap();
        assert!(unpack(&claim).is_err());
        assert!(unpack(&[claim, vec![1, 0]].concat()).is_err());
    }
}
