//! The wall clock of this machine. Everything else in the library gets time as an argument.

use std::time::{SystemTime, UNIX_EPOCH};

/// The wall clock, in microseconds since the Unix epoch; 0 before it. It may jump: a log never goes back
/// in time, and moves a time forward that is before its last record.
#[expect(
    clippy::disallowed_methods,
    reason = "time enters the crate here, and is an argument from here on"
)]
#[must_use]
pub fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
