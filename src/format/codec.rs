//! Numbers of payload encodings, which this layer does not decode, and payloads with detached values:
//! values that can be erased while the chain still verifies (`format/log.md`, *Detached values*).
//!
//! ```text
//! payload := body || digest[32]{count} || u32(count)  || value{count} || u32(values_length)
//! value   := u32(length) || salt[16] || bytes[length]
//! ```
//!
//! The chain covers the payload up to and including the count, and so each value by its digest, the
//! BLAKE3 hash of salt and bytes. Erasing a value overwrites its salt and its bytes with zeros, which
//! changes neither the chain nor the position of any frame.
//!
//! Invariants:
//! - A value that is present has a salt that is not zero, and its digest. An erased one is all zeros.
//! - No length is trusted before it is compared with the bytes that are left.

use super::bytes::{all_zero, array, u32_at};
use super::hash::content_hash;

/// The encoding of a payload. The numbers are on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Codec {
    /// bincode 1.3 with variable-length integers.
    Bincode = 1,
    /// Canonical JSON.
    Json = 2,
    /// Opaque bytes, as in [`NewRecord::new`](super::NewRecord::new).
    Raw = 3,
    /// A payload of another codec with detached values, which a ledger can erase.
    #[doc(hidden)]
    Detached = 4,
}

impl Codec {
    pub(super) fn number(self) -> u8 {
        match self {
            Self::Bincode => 1,
            Self::Json => 2,
            Self::Raw => 3,
            Self::Detached => 4,
        }
    }

    pub(super) fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Bincode),
            2 => Some(Self::Json),
            3 => Some(Self::Raw),
            4 => Some(Self::Detached),
            _ => None,
        }
    }
}

/// Size of a salt. It is random, so that a short value cannot be guessed from its digest.
pub const SALT_SIZE: usize = 16;

const DIGEST_SIZE: usize = 32;
const NUMBER_SIZE: usize = 4;
const VALUE_HEAD: usize = NUMBER_SIZE + SALT_SIZE;

/// A value to detach from a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewDetached {
    /// A value and its salt, which must not be zero.
    Present {
        /// Random bytes.
        salt: [u8; SALT_SIZE],
        /// The value.
        bytes: Vec<u8>,
    },
    /// A value that was erased: its digest.
    Erased([u8; 32]),
}

/// A detached value of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Detached<'a> {
    /// Its digest, which the chain covers.
    pub digest: [u8; 32],
    /// Salt and bytes; `None` if it was erased.
    pub content: Option<([u8; SALT_SIZE], &'a [u8])>,
}

/// A payload, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetachedPayload<'a> {
    /// The rest of the payload.
    pub body: &'a [u8],
    /// The values in their order.
    pub values: Vec<Detached<'a>>,
}

/// The digest of a value.
#[must_use]
pub fn detached_digest(salt: &[u8; SALT_SIZE], bytes: &[u8]) -> [u8; 32] {
    let mut input = Vec::with_capacity(SALT_SIZE + bytes.len());
    input.extend_from_slice(salt);
    input.extend_from_slice(bytes);
    content_hash(&input)
}

impl NewDetached {
    /// Its digest.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        match self {
            Self::Present { salt, bytes } => detached_digest(salt, bytes),
            Self::Erased(digest) => *digest,
        }
    }
}

/// The bytes that follow the body in the covered part: the digests and their count.
#[must_use]
pub fn detached_digests(values: &[NewDetached]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(values.len() * DIGEST_SIZE + NUMBER_SIZE);
    for value in values {
        bytes.extend_from_slice(&value.digest());
    }
    bytes.extend_from_slice(&number(values.len()));
    bytes
}

/// The bytes that follow the covered part: the values and their length.
#[must_use]
pub fn detached_values(values: &[NewDetached]) -> Vec<u8> {
    let mut out = Vec::new();
    for value in values {
        let (salt, bytes) = match value {
            NewDetached::Present { salt, bytes } => (*salt, bytes.as_slice()),
            NewDetached::Erased(_) => ([0; SALT_SIZE], [].as_slice()),
        };
        out.extend_from_slice(&number(bytes.len()));
        out.extend_from_slice(&salt);
        out.extend_from_slice(bytes);
    }
    let length = number(out.len());
    out.extend_from_slice(&length);
    out
}

/// A payload of codec [`Codec::Detached`].
#[must_use]
pub fn detach(mut body: Vec<u8>, values: &[NewDetached]) -> Vec<u8> {
    body.extend_from_slice(&detached_digests(values));
    body.extend_from_slice(&detached_values(values));
    body
}

/// A length as it is stored. No payload is longer than 16 MiB; a snapshot's run that is, is rejected
/// by its reader.
fn number(length: usize) -> [u8; NUMBER_SIZE] {
    u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes()
}

/// The part of a payload that the chain covers: the whole payload, except in codec
/// [`Codec::Detached`]. A payload that has no such part is covered as a whole.
#[must_use]
#[inline]
pub fn covered_part(codec: Codec, payload: &[u8]) -> &[u8] {
    if codec == Codec::Detached { covered(payload).unwrap_or(payload) } else { payload }
}

fn covered(payload: &[u8]) -> Option<&[u8]> {
    let end = payload.len().checked_sub(NUMBER_SIZE)?;
    let length = usize::try_from(u32_at(payload, end)).ok()?;
    payload.get(..end.checked_sub(length)?)
}

/// Take a payload apart, and check each value that is present against its digest; `None` if the
/// bytes are not such a payload.
#[must_use]
pub fn read_detached(payload: &[u8]) -> Option<DetachedPayload<'_>> {
    let parts = split(payload)?;
    let is_proven = |value: &Detached<'_>| {
        mutant!(DetachedValueUnchecked => return true);
        value.content.is_none_or(|(salt, bytes)| detached_digest(&salt, bytes) == value.digest)
    };
    parts.values.iter().all(is_proven).then_some(parts)
}

/// As [`read_detached`], for a payload with values that were checked before.
#[must_use]
pub fn split_detached(payload: &[u8]) -> Option<DetachedPayload<'_>> {
    split(payload)
}

fn split(payload: &[u8]) -> Option<DetachedPayload<'_>> {
    let covered = covered(payload)?;
    let mut rest = payload.get(covered.len()..payload.len().checked_sub(NUMBER_SIZE)?)?;
    let count_at = covered.len().checked_sub(NUMBER_SIZE)?;
    let count = usize::try_from(u32_at(covered, count_at)).ok()?;
    let digests_at = count_at.checked_sub(count.checked_mul(DIGEST_SIZE)?)?;
    let (body, digests) = covered.get(..count_at)?.split_at_checked(digests_at)?;
    let mut values = Vec::with_capacity(count);
    for digest in digests.chunks_exact(DIGEST_SIZE) {
        let length = usize::try_from(u32_at(rest.get(..VALUE_HEAD)?, 0)).ok()?;
        let salt: [u8; SALT_SIZE] = array(rest, NUMBER_SIZE)?;
        let (value, next) = rest.split_at_checked(VALUE_HEAD.checked_add(length)?)?;
        let bytes = value.get(VALUE_HEAD..)?;
        let content = if all_zero(&salt) {
            if !all_zero(bytes) {
                return None;
            }
            None
        } else {
            Some((salt, bytes))
        };
        values.push(Detached { digest: array(digest, 0)?, content });
        rest = next;
    }
    rest.is_empty().then_some(DetachedPayload { body, values })
}

/// Overwrite the values that `wanted` accepts with zeros; returns how many there were.
pub fn erase_detached(payload: &mut [u8], wanted: impl Fn(&Detached<'_>) -> bool) -> usize {
    let Some(parts) = split(payload) else { return 0 };
    let mut ranges = Vec::new();
    let mut at = covered(payload).map_or(0, <[u8]>::len);
    for value in &parts.values {
        let length = usize::try_from(u32_at(payload, at)).unwrap_or(0);
        let end = at + VALUE_HEAD + length;
        if value.content.is_some() && wanted(value) {
            ranges.push(at + NUMBER_SIZE..end);
        }
        at = end;
    }
    let count = ranges.len();
    for range in ranges {
        payload.get_mut(range).expect("`split` has compared every length").fill(0);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::bytes::in_miri;

    /// Goal: each number means one codec or none; the numbers never change.
    #[test]
    fn codec_numbers_are_unique() {
        let known: Vec<u8> = (0..=255)
            .filter(|number| Codec::from_number(*number).is_some_and(|it| it.number() == *number))
            .collect();
        assert_eq!(known, [1, 2, 3, 4]);
        assert_eq!((0..=255).filter_map(Codec::from_number).count(), known.len());
    }

    fn value(byte: u8, text: &str) -> NewDetached {
        NewDetached::Present { salt: [byte; SALT_SIZE], bytes: text.as_bytes().to_vec() }
    }

    fn payload() -> Vec<u8> {
        detach(b"body".to_vec(), &[value(1, "one"), NewDetached::Erased([9; 32]), value(2, "")])
    }

    #[test]
    fn values_round_trip_and_erasing_one_keeps_the_covered_part() {
        let mut bytes = payload();
        let before = bytes.clone();
        let parts = read_detached(&before).unwrap();
        assert_eq!(parts.body, b"body");
        let contents: Vec<_> = parts.values.iter().map(|value| value.content).collect();
        let present = |byte, text| Some(([byte; SALT_SIZE], text));
        assert_eq!(contents, [present(1, b"one".as_slice()), None, present(2, b"")]);
        assert_eq!(parts.values[1].digest, [9; 32]);
        let first = parts.values[0].digest;
        assert_eq!(erase_detached(&mut bytes, |value| value.digest == first), 1);
        assert_eq!(
            covered_part(Codec::Detached, &bytes),
            covered_part(Codec::Detached, &before),
            "the chain does not change"
        );
        assert_eq!(bytes.len(), before.len());
        assert!(!bytes.windows(3).any(|window| window == b"one"));
        assert!(!bytes.windows(SALT_SIZE).any(|window| window == [1; SALT_SIZE]));
        let parts = read_detached(&bytes).unwrap();
        assert_eq!((parts.values[0].digest, parts.values[0].content), (first, None));
        assert_eq!(erase_detached(&mut bytes, |_| true), 1, "only the last one is left");
    }

    /// Every flipped bit changes the covered part, or a value that then lacks its digest, or makes
    /// the payload invalid.
    #[test]
    fn every_flipped_bit_is_noticed() {
        let bytes = payload();
        let covered = covered_part(Codec::Detached, &bytes).to_vec();
        for bit in (0..bytes.len() * 8).step_by(in_miri(7)) {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let is_other = covered_part(Codec::Detached, &flipped) != covered;
            assert!(is_other || read_detached(&flipped).is_none(), "bit {bit}");
        }
        for cut in 0..bytes.len() {
            let cut = &bytes[..cut];
            let is_other = covered_part(Codec::Detached, cut) != covered;
            assert!(is_other || read_detached(cut).is_none());
        }
    }
}
