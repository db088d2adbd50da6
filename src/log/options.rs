//! What a log takes from its surroundings, and the choices that its user has.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{HeadSync, Uid};
use crate::storage::Storage;

use super::layout::DATA_START;
use super::walk::LoggedRecord;

/// Where the random identifiers of segments come from.
#[derive(Clone)]
pub struct UidSource(Arc<dyn Fn() -> Uid + Send + Sync>);

impl UidSource {
    /// Identifiers as that function gives them.
    pub fn new(next: impl Fn() -> Uid + Send + Sync + 'static) -> Self {
        Self(Arc::new(next))
    }

    /// The next one.
    #[must_use]
    pub fn next(&self) -> Uid {
        (self.0)()
    }
}

impl fmt::Debug for UidSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UidSource")
    }
}

/// Which stream of the log a record belongs to, if any. The log knows nothing of what records
/// mean: its user says it, and the index of a sealed segment finds the records of each stream.
#[derive(Debug, Clone, Copy)]
pub struct StreamOf {
    /// Number of the rule, from 1; another rule needs another number, for ever. It stands in every
    /// footer, so that an index made by one rule is never used for another. 0: there are no
    /// streams.
    pub rule: u32,
    /// The stream of a record.
    pub of: fn(&LoggedRecord) -> Option<u64>,
}

impl StreamOf {
    /// No record belongs to a stream.
    pub const NONE: Self = Self { rule: 0, of: |_| None };

    /// The stream of a record.
    #[must_use]
    pub fn stream(&self, record: &LoggedRecord) -> Option<u64> {
        if self.rule == 0 { None } else { (self.of)(record) }
    }
}

/// Who does what need not be done before an acknowledgement: zero-filling the next segment,
/// sealing the last one, syncing HEAD when nothing is appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Housekeeping {
    /// The thread that appends, when it comes to it: the same calls give the same bytes and the
    /// same calls of the disk.
    Inline,
    /// A thread of the log's own.
    Thread,
}

/// What opening does where it cannot be told whether acknowledged bytes are missing: both slots
/// of HEAD are gone, or garbage stands behind the last valid record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnAmbiguous {
    /// Refuse.
    Refuse,
    /// Take over what holds, fence off what does not, and say so in the report and in the log.
    Fence,
}

/// How long segments are made, in bytes: up to [`SegmentSizes::MAX`]. A batch that is larger gets a
/// segment of its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentSizes {
    /// A ledger's first segment, and one that a fence makes; rounded up to a multiple of 4096,
    /// and at least 8192.
    pub first: u64,
    /// They double at each rotation up to this size.
    pub largest: u64,
}

impl SegmentSizes {
    /// From 1 to 16 MiB. Who opens a ledger examines all of its newest segment, so that larger ones make
    /// opening slower; they do not make appending faster.
    pub const USUAL: Self = Self { first: 1 << 20, largest: 16 << 20 };

    /// The largest size: 1 GiB. All of a segment is filled with zeros before it is used.
    pub const MAX: u64 = 1 << 30;

    /// # Errors
    /// `TooLarge`.
    pub(super) fn expect_possible(self) -> Result<()> {
        let found = self.first.max(self.largest);
        if found <= Self::MAX {
            return Ok(());
        }
        let message = format!(
            "segments of {found} bytes: expected at most {}; smaller ones are no slower",
            Self::MAX
        );
        Err(Error::new(ErrorKind::TooLarge, message))
    }

    /// The size of a segment that must hold `needed` bytes of frames, when `usual` would do.
    pub(super) fn fitting(self, usual: u64, needed: u64) -> u64 {
        let least = self.first.max(2 * DATA_START);
        usual
            .clamp(least, self.largest.max(least))
            .max(DATA_START + needed)
            .next_multiple_of(DATA_START)
    }
}

/// What a log takes from its surroundings.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// The disk.
    pub storage: Arc<dyn Storage>,
    /// Where identifiers come from.
    pub uids: UidSource,
    /// Who holds the lock: text for people, such as a process id and host name.
    pub holder: String,
    /// When HEAD is synced.
    pub head_sync: HeadSync,
    /// Who does what can wait.
    pub housekeeping: Housekeeping,
    /// Which stream a record belongs to.
    pub stream_of: StreamOf,
    /// What to do where it cannot be told what was acknowledged.
    pub on_ambiguous: OnAmbiguous,
    /// How long segments are made.
    pub segments: SegmentSizes,
}

impl LogOptions {
    /// HEAD synced every second, housekeeping in line, no streams, nothing guessed.
    #[must_use]
    pub fn new(storage: Arc<dyn Storage>, uids: UidSource) -> Self {
        Self {
            storage,
            uids,
            holder: String::new(),
            head_sync: HeadSync::Interval,
            housekeeping: Housekeeping::Inline,
            stream_of: StreamOf::NONE,
            on_ambiguous: OnAmbiguous::Refuse,
            segments: SegmentSizes::USUAL,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Log;
    use super::*;
    use crate::sim::SimDisk;

    /// Story: a size that no disk holds ended in a panic, when it was rounded up, or in a program that
    /// wrote zeros until the disk was full.
    #[test]
    fn segments_that_no_disk_holds_are_refused() {
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
        most.expect_possible().unwrap();
        assert_eq!(most.fitting(0, 0), SegmentSizes::MAX);
    }
}
