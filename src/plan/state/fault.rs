//! Why a state must not be used: something in the snapshot that it was read from cannot be unpacked.
//!
//! Invariants:
//! - The first fault is kept, and copies of a state share it.
//! - It is no part of the state hash.

use std::sync::{Arc, OnceLock};

/// The fault of a state, if it has one.
#[derive(Debug, Clone, Default)]
pub struct StateFault(Arc<OnceLock<String>>);

impl StateFault {
    /// Why the state must not be used.
    #[must_use]
    pub fn get(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }

    /// Keeps why the state must not be used, unless an earlier reason is known.
    pub fn record(&self, why: String) {
        let _ = self.0.set(why);
    }
}
