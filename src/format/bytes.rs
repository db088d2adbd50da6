//! Little-endian fields at fixed offsets, and helpers for byte strings.

use std::fmt;

/// A 16-byte identifier of a ledger, a segment, or a chain's genesis.
pub type Uid = [u8; 16];

/// The `N` bytes at `offset`; `None` beyond the end.
pub(crate) fn array<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}

/// A `u16` at `offset`, or 0 beyond the end: for buffers whose size the caller checked.
pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    array(bytes, offset).map_or(0, u16::from_le_bytes)
}

/// A `u32` at `offset`, or 0 beyond the end.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    array(bytes, offset).map_or(0, u32::from_le_bytes)
}

/// A `u64` at `offset`, or 0 beyond the end.
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    array(bytes, offset).map_or(0, u64::from_le_bytes)
}

/// Write `field` at `offset`. The buffer is large enough by construction.
pub(crate) fn put(bytes: &mut [u8], offset: usize, field: &[u8]) {
    let slot = bytes
        .get_mut(offset..)
        .and_then(|rest| rest.get_mut(..field.len()))
        .expect("the layout's constants keep every field inside its structure");
    slot.copy_from_slice(field);
}

pub(crate) fn all_zero(bytes: &[u8]) -> bool {
    const ZEROS: [u8; 512] = [0; 512];
    bytes.chunks(ZEROS.len()).all(|block| ZEROS.starts_with(block))
}

/// A length in memory as a length on disk.
pub(crate) fn to_u64(count: usize) -> u64 {
    u64::try_from(count).expect("no supported machine has longer slices")
}

/// How far a test that visits every case goes at a time: in Miri, which interprets, it visits one case in
/// `step`.
#[cfg(test)]
pub(crate) const fn in_miri(step: usize) -> usize {
    if cfg!(miri) { step } else { 1 }
}

/// Displays bytes as lower-case hexadecimal digits.
pub(crate) struct Hex<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
