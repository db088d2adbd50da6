//! The environment of a log, and the options that its caller chooses.

mod keeper;

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{BootTime, HeadSync, Uid};
use crate::log::folder::DATA_START;
use crate::storage::{DiskStorage, Storage};

use super::record::StreamRule;

pub use keeper::{Keeper, KeptGroup, NotKept};

/// The source of random identifiers for segments.
#[derive(Clone)]
pub struct UidSource(Arc<dyn Fn() -> Uid + Send + Sync>);

impl UidSource {
    /// Random identifiers from the operating system.
    #[must_use]
    pub fn random() -> Self {
        Self::new(random_uid)
    }

    /// A source that calls `next` for each identifier.
    pub fn new(next: impl Fn() -> Uid + Send + Sync + 'static) -> Self {
        Self(Arc::new(next))
    }

    /// A new identifier.
    #[must_use]
    pub fn next(&self) -> Uid {
        (self.0)()
    }
}

/// A random identifier from the operating system.
pub(crate) fn random_uid() -> Uid {
    let mut uid = [0; 16];
    getrandom::fill(&mut uid).expect("the operating system always has random bytes");
    uid
}

/// This process, as [`LogOptions::holder`] describes it.
pub(crate) fn process_text() -> String {
    let host = std::env::var("HOSTNAME").map(|host| format!(" on {host}")).unwrap_or_default();
    format!("process {}{host}", std::process::id())
}

impl fmt::Debug for UidSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UidSource")
    }
}

/// Selects the thread for background work: zero-filling the next segment, sealing the last one, and
/// syncing HEAD while the log is idle. No append needs to wait for this work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackgroundWork {
    /// In the thread that appends, when the work is due. The same calls give the same bytes and the
    /// same disk operations.
    Inline,
    /// In a background thread of the log.
    Thread,
}

/// The policy for opening when the evidence does not show whether acknowledged bytes are missing:
/// both slots of HEAD are invalid, or the last valid record is followed by garbage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnAmbiguous {
    /// Return `Ambiguous` and change nothing.
    Refuse,
    /// Keep the valid records, fence off the rest, and record both in the report and in the log.
    Fence,
}

/// Segment sizes in bytes, up to [`SegmentSizes::MAX`]. A batch that does not fit gets a segment of
/// its own size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentSizes {
    /// Size of the first segment of a ledger and of a segment after a fence: rounded up to a
    /// multiple of 4096, and at least 8192.
    pub first: u64,
    /// Each rotation doubles the size, up to this one.
    pub largest: u64,
}

impl SegmentSizes {
    /// From 1 to 16 MiB. Opening scans the whole newest segment, so larger segments make opening
    /// slower; they do not make appending faster.
    pub const DEFAULT: Self = Self { first: 1 << 20, largest: 16 << 20 };

    /// The largest size: 1 GiB. A segment is filled with zeros before it is used.
    pub const MAX: u64 = 1 << 30;

    /// # Errors
    /// `TooLarge`.
    pub(crate) fn validate(self) -> Result<()> {
        let found = self.first.max(self.largest);
        if found <= Self::MAX {
            return Ok(());
        }
        let message = format!("segment size {found}: expected at most {} bytes", Self::MAX);
        Err(Error::new(ErrorKind::TooLarge, message))
    }

    /// The size for a segment that must hold `needed` bytes of frames and would otherwise be
    /// `usual` bytes long.
    pub(crate) fn size_for(self, usual: u64, needed: u64) -> u64 {
        let least = self.first.max(2 * DATA_START);
        usual
            .clamp(least, self.largest.max(least))
            .max(DATA_START + needed)
            .next_multiple_of(DATA_START)
    }
}

/// The environment and choices of a log.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// The storage that holds the log. [`LogReader::open`](crate::log::LogReader::open) and
    /// [`verify`](crate::log::verify()) take it, too.
    pub storage: Arc<dyn Storage>,
    /// The source of identifiers.
    #[doc(hidden)]
    pub uids: UidSource,
    /// Description of this process for people, such as process id and host name. It is stored in
    /// LOCK, and another process that finds the ledger locked shows it.
    pub holder: String,
    /// When HEAD is synced.
    pub head_sync: HeadSync,
    /// The thread for background work.
    pub background_work: BackgroundWork,
    /// How records are assigned to streams.
    #[doc(hidden)]
    pub stream_rule: StreamRule,
    /// The reaction if it is unknown which records were acknowledged.
    pub on_ambiguous: OnAmbiguous,
    /// Segment sizes.
    pub segments: SegmentSizes,
    /// Whether to open a log where file locks may not exclude other writers: on a network file
    /// system, and where the lock of a file can be taken twice. The user must then make sure that
    /// there is no other writer: two of them would destroy each other's records.
    pub allow_unsafe_locks: bool,
    /// Whether the group of a new log's folder has access to it, too.
    pub for_group: bool,
    /// The reading of the boot clock at the time that is passed with these options; `None` without such
    /// a clock.
    #[doc(hidden)]
    pub boot_time: Option<BootTime>,
    /// A second place that must have records before they are acknowledged.
    #[doc(hidden)]
    pub keeper: Option<Arc<dyn Keeper>>,
}

impl LogOptions {
    /// A log on the disk of this machine, as a program usually wants it: random identifiers, HEAD synced
    /// every second, background work in a thread, ambiguous ends refused.
    #[must_use]
    pub fn system() -> Self {
        Self {
            holder: process_text(),
            background_work: BackgroundWork::Thread,
            ..Self::new(Arc::new(DiskStorage), UidSource::random())
        }
    }

    /// HEAD synced every second, background work in the appending thread, no streams, ambiguous
    /// ends refused.
    #[must_use]
    #[doc(hidden)]
    pub fn new(storage: Arc<dyn Storage>, uids: UidSource) -> Self {
        Self {
            storage,
            uids,
            holder: String::new(),
            head_sync: HeadSync::Interval,
            background_work: BackgroundWork::Inline,
            stream_rule: StreamRule::NONE,
            on_ambiguous: OnAmbiguous::Refuse,
            segments: SegmentSizes::DEFAULT,
            allow_unsafe_locks: false,
            for_group: false,
            boot_time: None,
            keeper: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Log;
    use super::*;
    use crate::sim::SimDisk;

    /// Regression: an impossible size panicked when it was rounded up, or filled the disk with
    /// zeros.
    #[test]
    fn impossible_segment_sizes_are_refused() {
        let disk = SimDisk::new();
        let usual = LogOptions::new(Arc::new(disk.clone()), UidSource::new(|| [7; 16]));
        let options = |first, largest| LogOptions {
            segments: SegmentSizes { first, largest },
            ..usual.clone()
        };
        let dir = Path::new("/a.ledger");
        let over = SegmentSizes::MAX + 1;
        let sizes =
            [(u64::MAX, 0), (0, u64::MAX), (1 << 62, 1 << 62), (over, over), (1 << 20, over)];
        for (first, largest) in sizes {
            let error = Log::create(dir, options(first, largest), 0).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
        }
        assert!(disk.files(Path::new("/")).is_empty());
        drop(Log::create(dir, usual.clone(), 0).unwrap());
        for (first, largest) in sizes {
            let error = Log::open(dir, options(first, largest), 0).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
        }
        let most = SegmentSizes { first: SegmentSizes::MAX, largest: SegmentSizes::MAX };
        most.validate().unwrap();
        assert_eq!(most.size_for(0, 0), SegmentSizes::MAX);
    }
}
