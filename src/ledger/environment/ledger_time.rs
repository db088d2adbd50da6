//! The ledger's time.
//!
//! The wall clock sets it when a ledger is created, and at the first opening after a boot. In between
//! it advances with the boot clock, which cannot be set: leases and delays last as long as they say,
//! whatever happens to the wall clock. HEAD has the two readings that successive processes continue
//! from (`format/head.md`).
//!
//! Invariant: the ledger's time is never before that of the last record.

use std::path::Path;

use crate::error::Result;
use crate::format::ClockAnchor;
use crate::log::{LogReader, read_head_slots};
use crate::plan::{Micros, Timestamp};

use super::clock::Clock;
use super::settings::Environment;

/// The smallest difference between the wall clock and the ledger's time that is reported.
const DIFFERENCE_MIN: Micros = 60_000_000;

/// The ledger's time, if it was opened at that anchor and `last` is the time of its last record.
pub(crate) fn ledger_time(
    clock: &dyn Clock,
    anchor: Option<ClockAnchor>,
    last: Timestamp,
) -> Timestamp {
    let anchor = if mutant!(ElapsedTimeIgnored) { None } else { anchor };
    let elapsed = anchor.zip(clock.boot_time()).and_then(|(anchor, now)| anchor.time_at(now));
    elapsed.unwrap_or_else(|| clock.now()).max(last)
}

#[doc(hidden)]
impl Environment {
    /// The time of the ledger in a folder as its writer would compute it now; `last` is the time of the last record.
    ///
    /// # Errors
    /// `Io`.
    pub fn time_of(&self, dir: &Path, last: Timestamp) -> Result<Timestamp> {
        let head = read_head_slots(&*self.storage, dir)?;
        let anchor = head.newest().and_then(|(_, head)| head.clock);
        Ok(ledger_time(&*self.clock, anchor, last))
    }
}

/// The ledger's time for a reader, and how far the wall clock is from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerTime {
    /// The ledger's time.
    pub now: Timestamp,
    /// The wall clock.
    pub wall: Timestamp,
}

impl LedgerTime {
    /// The time of the ledger that a reader reads.
    #[must_use]
    pub fn of(reader: &LogReader, environment: &Environment) -> Self {
        // If the last record cannot be read, the clocks are all there is.
        let last = reader.head().and_then(|head| reader.record(head.durable_seq).ok().flatten());
        let last = last.map_or(0, |record| record.time);
        let anchor = reader.head_slots().newest().and_then(|(_, head)| head.clock);
        let now = ledger_time(&*environment.clock, anchor, last);
        Self { now, wall: environment.clock.now() }
    }

    /// Describes a wall clock that differs from the ledger's time; `None` if they agree.
    #[must_use]
    pub fn difference(&self) -> Option<String> {
        mutant!(ClockJumpUnreported => return None);
        let difference = self.now.abs_diff(self.wall);
        if difference < DIFFERENCE_MIN {
            return None;
        }
        let side = if self.wall < self.now { "behind" } else { "ahead of" };
        Some(format!(
            "the clock of this machine is {} {side} the ledger's time; leases and delays run by \
             elapsed time, and records have the ledger's time until this machine is booted again",
            duration_text(difference)
        ))
    }
}

/// The message about an opening after a boot with a wall clock behind the last record.
pub(crate) fn behind_text(behind: Micros) -> Option<String> {
    mutant!(ClockJumpUnreported => return None);
    (behind >= DIFFERENCE_MIN).then(|| {
        format!(
            "the clock of this machine is {} behind the last record; the time since then is \
             unknown, so leases and delays continue from that record",
            duration_text(behind)
        )
    })
}

/// A duration of at least a minute, rounded down.
fn duration_text(micros: Micros) -> String {
    match micros / 60_000_000 {
        minutes if minutes < 120 => format!("{minutes} min"),
        minutes if minutes < 2 * 24 * 60 => format!("{} h", minutes / 60),
        minutes => format!("{} days", minutes / (24 * 60)),
    }
}
