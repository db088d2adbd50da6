//! The environment of a ledger: storage, clock, identifiers and settings, all passed as arguments,
//! so that tests can replace each of them. It also formats and parses times and durations.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use crate::format::{HeadSync, Uid};
use crate::log::{
    BackgroundWork, LogOptions, OnAmbiguous, SegmentSizes, UidSource, process_text, random_uid,
};
use crate::plan::{Micros, Secret, Timestamp, time_text};
use crate::storage::{DiskStorage, Storage};

use crate::ledger::codec::streams::RUN_STREAMS;

use super::clock::{Clock, SystemClock};

/// The default of [`Environment::blob_threshold`].
const DEFAULT_BLOB_THRESHOLD: usize = 64 << 10;
/// The default of [`Environment::snapshot_every`].
pub(crate) const DEFAULT_SNAPSHOT_INTERVAL: u64 = 65_536;

/// A source of identifiers.
pub trait IdSource: Send + Sync + fmt::Debug {
    /// A new identifier.
    fn next_id(&self) -> Uid;
}

/// Storage, clock, identifiers and settings of a ledger.
#[derive(Debug, Clone)]
pub struct Environment {
    #[doc(hidden)]
    pub storage: Arc<dyn Storage>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The source of identifiers, and of the secrets of tokens.
    #[doc(hidden)]
    pub ids: Arc<dyn IdSource>,
    /// A description of this process for the lock file; the error of a locked ledger shows it.
    pub holder: String,
    /// When HEAD is synced; see [`HeadSync`].
    pub head_sync: HeadSync,
    /// The thread for background work of the log; see [`BackgroundWork`].
    pub background_work: BackgroundWork,
    /// The treatment of a log with an unknown acknowledged end; see [`OnAmbiguous`].
    pub on_ambiguous: OnAmbiguous,
    /// Outputs with more bytes of canonical JSON than this are stored as blobs.
    pub blob_threshold: usize,
    /// A full snapshot of the state is made and kept every `snapshot_every` records, which limits
    /// how many records opening and time travel fold. From 65,536 on, small delta snapshots are
    /// made in between. `None`: snapshots are made only on request.
    pub snapshot_every: Option<u64>,
    /// The sizes of the log's segments; see [`SegmentSizes`].
    #[doc(hidden)]
    pub segments: SegmentSizes,
    /// Whether to open a ledger where file locks may not exclude other writers: on a network file
    /// system, and where the lock of a file can be taken twice.
    pub allow_unsafe_locks: bool,
    /// Whether the group of a new ledger's folder has access to it, too. Otherwise only its user has.
    pub for_group: bool,
}

impl Environment {
    /// This machine: its disk and clock, and random identifiers.
    #[must_use]
    pub fn system() -> Self {
        let clock = SystemClock;
        let since = time_text(clock.now());
        Self {
            storage: Arc::new(DiskStorage),
            holder: format!("{}, since {since}", process_text()),
            clock: Arc::new(clock),
            ids: Arc::new(RandomIds),
            head_sync: HeadSync::Interval,
            background_work: BackgroundWork::Thread,
            on_ambiguous: OnAmbiguous::Refuse,
            blob_threshold: DEFAULT_BLOB_THRESHOLD,
            snapshot_every: Some(DEFAULT_SNAPSHOT_INTERVAL),
            segments: SegmentSizes::DEFAULT,
            allow_unsafe_locks: false,
            for_group: false,
        }
    }

    /// A new secret for a claim.
    #[must_use]
    pub fn new_secret(&self) -> Secret {
        Secret(self.ids.next_id())
    }

    /// The same environment on another storage.
    pub(crate) fn with_storage(&self, storage: &Arc<dyn Storage>) -> Self {
        Self { storage: storage.clone(), ..self.clone() }
    }

    /// The options of a log in this environment.
    #[doc(hidden)]
    #[must_use]
    pub fn log_options(&self) -> LogOptions {
        let ids = self.ids.clone();
        let uids = UidSource::new(move || ids.next_id());
        LogOptions {
            holder: self.holder.clone(),
            head_sync: self.head_sync,
            background_work: self.background_work,
            on_ambiguous: self.on_ambiguous,
            segments: self.segments,
            allow_unsafe_locks: self.allow_unsafe_locks,
            for_group: self.for_group,
            stream_rule: RUN_STREAMS,
            boot_time: self.clock.boot_time(),
            ..LogOptions::new(self.storage.clone(), uids)
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct RandomIds;

impl IdSource for RandomIds {
    fn next_id(&self) -> Uid {
        random_uid()
    }
}

/// Parse a time in UTC (`2026-11-21T03:38:36Z`, `2026-11-21 03:38:36`), or a duration before `now`
/// (`2h`, `1d 4h`).
#[must_use]
pub fn parse_time(text: &str, now: Timestamp) -> Option<Timestamp> {
    if let Some(ago) = parse_duration(text) {
        return Some(now.saturating_sub(Micros::try_from(ago.as_micros()).unwrap_or(Micros::MAX)));
    }
    let time = humantime::parse_rfc3339_weak(text).ok()?;
    Micros::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_micros()).ok()
}

/// Parse a duration: `90s`, `2h 30m`.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    humantime::parse_duration(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: formatted times parse to the same time, and relative times count back from now.
    #[test]
    fn times_round_trip_as_text() {
        let time = 1_763_696_316_123_456;
        assert_eq!(parse_time(&time_text(time), 0), Some(time));
        assert_eq!(parse_time("1970-01-01 00:00:07", 0), Some(7_000_000));
        assert_eq!(parse_time("1h 1s", 3_602_000_000), Some(1_000_000));
        assert_eq!(parse_time("2d", 5), Some(0));
        assert_eq!(parse_time("yesterday", 5), None);
    }
}
