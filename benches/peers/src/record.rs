//! What is written: 256 bytes that the record's number decides.

/// Bytes of a payload.
pub const LENGTH: usize = 256;

/// A number that only the seed decides (splitmix64).
pub fn mix(seed: u64) -> u64 {
    let mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// The payload of a record: its number, then bytes that cannot be compressed.
pub fn payload(number: u64) -> Vec<u8> {
    let noise = (1..).flat_map(|at: u64| mix(number ^ (at << 40)).to_le_bytes());
    number.to_le_bytes().into_iter().chain(noise).take(LENGTH).collect()
}
