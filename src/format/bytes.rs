//! Fixed places in byte slices: the only slice arithmetic of the format.

/// The `N` bytes at `offset`, if they are there.
pub(super) fn array<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}

/// A `u16` at `offset`, or 0 beyond the end: for buffers whose size the caller has checked.
pub(super) fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    array(bytes, offset).map_or(0, u16::from_le_bytes)
}

/// A `u32` at `offset`, or 0 beyond the end.
pub(super) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    array(bytes, offset).map_or(0, u32::from_le_bytes)
}

/// A `u64` at `offset`, or 0 beyond the end.
pub(super) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    array(bytes, offset).map_or(0, u64::from_le_bytes)
}

/// Write `field` at `offset` of a buffer that is large enough by construction.
pub(super) fn put(bytes: &mut [u8], offset: usize, field: &[u8]) {
    let place = bytes
        .get_mut(offset..)
        .and_then(|rest| rest.get_mut(..field.len()))
        .expect("the layout's constants keep every field inside its structure");
    place.copy_from_slice(field);
}

/// Whether all of these bytes are zero.
pub(super) fn all_zero(bytes: &[u8]) -> bool {
    const ZEROS: [u8; 512] = [0; 512];
    bytes.chunks(ZEROS.len()).all(|block| ZEROS.starts_with(block))
}
