//! Decides when a claim that finds no step looks for attempts of dead processes.
//!
//! Looking costs a system call for each attempt in flight, so a server looks for at most a tenth of
//! the time. The files of a killed `ledger work` need more time: its attempts are left to the
//! runner's or server's own thread.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// After a check, the server waits for this many times its duration before the next one.
const PAUSE_FACTOR: u32 = 10;

/// When to look again.
#[derive(Debug, Default)]
pub(crate) struct GoneLooks {
    next: Mutex<Option<Instant>>,
}

impl GoneLooks {
    /// Looks, unless the last look was too long and too short a time ago.
    pub(super) fn look<T>(&self, look: impl FnOnce() -> T) -> Option<T> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let start = Instant::now();
        if next.is_some_and(|next| start < next) {
            return None;
        }
        let found = look();
        let took = start.elapsed().min(Duration::from_secs(1));
        *next = Some(Instant::now() + took * PAUSE_FACTOR);
        Some(found)
    }
}
