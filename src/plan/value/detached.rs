//! Values that an encoder detaches from the bytes around them, so that they can be erased
//! (`format/log.md`, *Detached values*).
//!
//! An encoder of codec 1 calls [`collect`]: salted values are then collected, and the bytes only say
//! that the next value belongs here. Its decoder calls [`supply`] with the values in the same order.
//! The values pass through the thread, since encoders of structs have no argument for them.
//!
//! Invariant: the values of one call never reach another one, even if an encoder panics.

use std::cell::RefCell;
use std::collections::VecDeque;

pub(crate) const SALT_SIZE: usize = 16;

/// The salt of a value: 16 random bytes, so that a short value cannot be guessed from its digest.
/// Values that were made from one another have the same salt and are erased together. Zero: the
/// value is stored where it is, and cannot be erased.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Salt(pub(crate) [u8; SALT_SIZE]);

impl Salt {
    /// The salt of a value that cannot be erased.
    pub(crate) const NONE: Self = Self([0; SALT_SIZE]);

    /// The salt of a value that was erased.
    pub(crate) const ERASED: Self = Self([0xFF; SALT_SIZE]);

    /// Whether the value can be erased.
    pub(crate) fn is_some(self) -> bool {
        self != Self::NONE
    }
}

/// A value that was detached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DetachedText {
    /// A value and its salt.
    Present(Salt, String),
    /// A value that was erased: its digest.
    Erased([u8; 32]),
}

thread_local! {
    static VALUES: RefCell<Option<VecDeque<DetachedText>>> = const { RefCell::new(None) };
}

/// Restores the values of the call around this one.
struct Restore(Option<VecDeque<DetachedText>>);

impl Drop for Restore {
    fn drop(&mut self) {
        VALUES.set(self.0.take());
    }
}

/// Calls an encoder, and returns the values that it detached, in their order.
pub(crate) fn collect<T>(encode: impl FnOnce() -> T) -> (T, Vec<DetachedText>) {
    let _restore = Restore(VALUES.replace(Some(VecDeque::new())));
    let result = encode();
    (result, VALUES.take().unwrap_or_default().into())
}

/// Calls a decoder with the values that were detached. `false` if it did not use all of them.
pub(crate) fn supply<T>(values: Vec<DetachedText>, decode: impl FnOnce() -> T) -> (T, bool) {
    let _restore = Restore(VALUES.replace(Some(values.into())));
    let result = decode();
    let is_used_up = VALUES.with_borrow(|values| values.as_ref().is_none_or(VecDeque::is_empty));
    (result, is_used_up)
}

/// Calls an encoder whose bytes are discarded, such as one that only measures them: no value is
/// detached.
pub(crate) fn without_collecting<T>(measure: impl FnOnce() -> T) -> T {
    let _restore = Restore(VALUES.take());
    measure()
}

/// Whether an encoder collects values.
pub(crate) fn is_collecting() -> bool {
    VALUES.with_borrow(Option::is_some)
}

/// Detaches a value; `false` if no encoder collects values.
pub(crate) fn put(value: impl FnOnce() -> DetachedText) -> bool {
    VALUES.with_borrow_mut(|values| {
        let Some(values) = values else { return false };
        values.push_back(value());
        true
    })
}

/// A digest from its 64 hexadecimal digits.
pub(crate) fn digest_of(hex: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    for (at, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(digest)
}

/// The next detached value, if there is one.
pub(crate) fn take() -> Option<DetachedText> {
    VALUES.with_borrow_mut(|values| values.as_mut()?.pop_front())
}
