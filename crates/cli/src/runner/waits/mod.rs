//! How long a step, or an owner, waits after a failure: the default backoff, and usage limits of agents.

pub(crate) mod backoff;
pub(crate) mod hold;
pub(crate) mod holds;
pub(crate) mod hours;
mod last_message;
pub(crate) mod limit;
pub(crate) mod mark;
mod moment;
mod sentence;

use plan_ledger::Timestamp;

/// A time to the second, for people: one that two clocks gave is a moment early or late.
pub(crate) fn nearest_second(time: Timestamp) -> Timestamp {
    time.saturating_add(500_000) / 1_000_000 * 1_000_000
}

/// The wall clock. A time of day that a worker names is compared with it: the ledger's time does not follow
/// its jumps.
pub(crate) fn wall_now() -> Timestamp {
    Timestamp::try_from(jiff::Timestamp::now().as_microsecond()).unwrap_or(0)
}
