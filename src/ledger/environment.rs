//! What a ledger takes from the world: disk, clock and identifiers, each as an argument.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::format::{HeadSync, Uid};
use crate::log::{Housekeeping, LogOptions, OnAmbiguous, SegmentSizes, UidSource};
use crate::plan::Micros;
use crate::storage::{DiskStorage, Storage};

use super::snapshots::RUNG;
use super::streams::RUNS;

/// Outputs from 64 KiB on are blobs, unless somebody wants it otherwise.
const BLOB_THRESHOLD: usize = 64 << 10;

/// Where the time comes from.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Microseconds since the Unix epoch. It may jump; the ledger's own time never goes back.
    fn now(&self) -> Micros;
}

/// Where identifiers come from.
pub trait IdSource: Send + Sync + fmt::Debug {
    /// A new identifier.
    fn next_id(&self) -> Uid;
}

/// Everything that a ledger takes from the world.
#[derive(Debug, Clone)]
pub struct Environment {
    /// The disk.
    pub storage: Arc<dyn Storage>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Where identifiers come from.
    pub ids: Arc<dyn IdSource>,
    /// Text for people who ask who holds the ledger.
    pub holder: String,
    /// When HEAD is synced; see [`HeadSync`].
    pub head_sync: HeadSync,
    /// Who does what can wait; see [`Housekeeping`].
    pub housekeeping: Housekeeping,
    /// What opening does where it cannot be told what was acknowledged; see [`OnAmbiguous`].
    pub on_ambiguous: OnAmbiguous,
    /// Outputs whose canonical JSON has more bytes than this are kept beside the log, in blobs.
    pub blob_threshold: usize,
    /// A snapshot of the state is made and kept at every multiple of so many records, so that opening
    /// and looking back need not fold more than that; from 65,536 on, one that is small is made
    /// and kept at every sixteenth of the way, too. `None`: only on request.
    pub snapshot_every: Option<u64>,
    /// How long the log's segments are made; see [`SegmentSizes`].
    pub segments: SegmentSizes,
}

impl Environment {
    /// This machine: its disk, its clock, random identifiers.
    #[must_use]
    pub fn system() -> Self {
        let clock = SystemClock;
        let host = std::env::var("HOSTNAME").map(|host| format!(" on {host}")).unwrap_or_default();
        let since = time_text(clock.now());
        Self {
            storage: Arc::new(DiskStorage),
            holder: format!("process {}{host}, since {since}", std::process::id()),
            clock: Arc::new(clock),
            ids: Arc::new(RandomIds),
            head_sync: HeadSync::Interval,
            housekeeping: Housekeeping::Thread,
            on_ambiguous: OnAmbiguous::Refuse,
            blob_threshold: BLOB_THRESHOLD,
            snapshot_every: Some(RUNG),
            segments: SegmentSizes::USUAL,
        }
    }

    pub(super) fn log_options(&self) -> LogOptions {
        let ids = self.ids.clone();
        let uids = UidSource::new(move || ids.next_id());
        LogOptions {
            holder: self.holder.clone(),
            head_sync: self.head_sync,
            housekeeping: self.housekeeping,
            on_ambiguous: self.on_ambiguous,
            segments: self.segments,
            stream_of: RUNS,
            ..LogOptions::new(self.storage.clone(), uids)
        }
    }
}

/// The machine's wall clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is where time enters as an argument")]
    fn now(&self) -> Micros {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Micros::try_from(since.as_micros()).unwrap_or(Micros::MAX)
    }
}

#[derive(Debug, Clone, Copy)]
struct RandomIds;

impl IdSource for RandomIds {
    fn next_id(&self) -> Uid {
        let mut id = [0; 16];
        getrandom::fill(&mut id).expect("the operating system always has random bytes");
        id
    }
}

/// A time as people read it, in UTC: `2026-11-21T03:38:36.000000Z`.
#[must_use]
pub fn time_text(time: Micros) -> String {
    // Beyond the year 9999 the library cannot write it, and nobody can have meant it.
    const LAST: Micros = 253_402_300_799_000_000;
    let time = UNIX_EPOCH + Duration::from_micros(time.min(LAST));
    humantime::format_rfc3339_micros(time).to_string()
}

/// The time that somebody wrote: in UTC (`2026-11-21T03:38:36Z`, `2026-11-21 03:38:36`), or how
/// long ago (`2h`, `1d 4h`).
#[must_use]
pub fn parse_time(text: &str, now: Micros) -> Option<Micros> {
    if let Some(ago) = parse_duration(text) {
        return Some(now.saturating_sub(Micros::try_from(ago.as_micros()).unwrap_or(Micros::MAX)));
    }
    let time = humantime::parse_rfc3339_weak(text).ok()?;
    Micros::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_micros()).ok()
}

/// How long something lasts, as somebody wrote it: `90s`, `2h 30m`.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    humantime::parse_duration(text).ok()
}

#[cfg(test)]
mod tests {
    //! Goal: times are read as they are written.

    use super::*;

    #[test]
    fn times_are_read_back() {
        let time = 1_763_696_316_123_456;
        assert_eq!(parse_time(&time_text(time), 0), Some(time));
        assert_eq!(parse_time("1970-01-01 00:00:07", 0), Some(7_000_000));
        assert_eq!(parse_time("1h 1s", 3_602_000_000), Some(1_000_000));
        assert_eq!(parse_time("2d", 5), Some(0));
        assert_eq!(parse_time("yesterday", 5), None);
    }
}
