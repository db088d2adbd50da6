//! Sources of time: the wall clock, and the boot clock, which measures elapsed time.

use std::fmt;

use crate::format::BootTime;
use crate::plan::Timestamp;
use crate::storage::{boot_clock, wall_clock};

/// A source of time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Microseconds since the Unix epoch. It may jump; the ledger's own time does not.
    fn now(&self) -> Timestamp;

    /// The boot clock, which measures elapsed time. Without a boot clock, [`Clock::now`] measures
    /// it, and the ledger's time follows its jumps forward.
    fn boot_time(&self) -> Option<BootTime> {
        None
    }
}

/// The machine's wall clock and boot clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        wall_clock()
    }

    fn boot_time(&self) -> Option<BootTime> {
        boot_clock().map(|(boot, micros)| BootTime { boot, micros })
    }
}
