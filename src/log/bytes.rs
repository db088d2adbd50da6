//! Small helpers for lengths, hexadecimal text and locks.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Convert a length in memory to a length on disk.
pub(crate) fn to_u64(count: usize) -> u64 {
    u64::try_from(count).expect("usize is at most 64 bits on supported machines")
}

pub(crate) fn len_u64(bytes: &[u8]) -> u64 {
    to_u64(bytes.len())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'))
}

/// Parse a hash of 64 lower-case hexadecimal digits.
pub(crate) fn parse_hash(text: &str) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    if text.len() != 64 || !is_hex(text) {
        return None;
    }
    for (byte, place) in hash.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(text.get(place..place + 2)?, 16).ok()?;
    }
    Some(hash)
}

/// Lock a mutex, ignoring poisoning by a panic. Each user documents why its data is still valid.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
