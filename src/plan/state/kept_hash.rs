//! A hash that is kept until what it covers changes.
//!
//! Invariant: it is no part of the value that has it. Values that differ in nothing else are equal, and
//! are shown alike.

use std::fmt;
use std::sync::OnceLock;

use crate::plan::value::ids::ContentHash;

/// A hash, once it is known.
#[derive(Clone, Default)]
pub(crate) struct KeptHash(OnceLock<ContentHash>);

impl KeptHash {
    /// The hash; `compute` is called unless it is kept.
    pub(crate) fn get_or(&self, compute: impl FnOnce() -> ContentHash) -> ContentHash {
        *self.0.get_or_init(compute)
    }

    /// Drops the hash: what it covers is about to change.
    pub(crate) fn forget(&mut self) {
        self.0.take();
    }
}

impl From<ContentHash> for KeptHash {
    fn from(hash: ContentHash) -> Self {
        Self(hash.into())
    }
}

impl fmt::Debug for KeptHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}
