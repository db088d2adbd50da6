//! Steps that every opening has in common, and the report of one.

use std::path::Path;

use crate::error::{Error, Result};
use crate::format::{ClockAnchor, Head};
use crate::log::folder::{HeadFile, LedgerPaths, check_lock_file, is_temporary, read_head};
use crate::log::notes::{DiscardedRange, RewrittenRecords};
use crate::log::options::LogOptions;
#[cfg(feature = "ledger")]
use crate::log::prune::PruneSet;
#[cfg(feature = "ledger")]
use crate::log::recovery::ErasedFiles;
use crate::log::recovery::{Evidence, TailVerdict};
use crate::log::segment::CreateError;
use crate::storage::{EntryKind, FilesystemKind, LockGuard, Storage};

/// The findings and changes of [`Log::open`](crate::log::Log::open) at the end of a log.
#[derive(Debug, Clone)]
pub struct RecoveryReport {
    /// The verdict about the end of the log.
    pub verdict: TailVerdict,
    #[doc(hidden)]
    pub evidence: Evidence,
    /// Unacknowledged bytes that a fence discarded.
    pub discarded: Vec<DiscardedRange>,
    /// Records that a fence rewrote.
    pub survivors: Option<RewrittenRecords>,
    /// Unknown files in the log's folder, which are ignored.
    pub unknown_files: Vec<String>,
    /// The kind of file system that holds the log.
    pub filesystem: FilesystemKind,
    /// The files that were removed to complete an interrupted prune, or why it cannot continue.
    #[cfg(feature = "ledger")]
    #[doc(hidden)]
    pub pruned: std::result::Result<PruneSet, String>,
    /// The files that were changed to complete an erasure, or why it cannot be completed.
    #[cfg(feature = "ledger")]
    #[doc(hidden)]
    pub erased: std::result::Result<ErasedFiles, String>,
    /// How the ledger's time was continued.
    #[doc(hidden)]
    pub clock: ClockContinuation,
}

/// How an opening continues the ledger's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockContinuation {
    /// From HEAD, by the boot clock.
    Elapsed,
    /// From the wall clock.
    Wall,
    /// From the last record, since the wall clock is this many microseconds behind it. How much time
    /// has passed since then is unknown, and does not count.
    Behind(u64),
}

/// The ledger's time at opening. It advances with the boot clock while the machine is up; after
/// another boot it is that of the wall clock, but never before the last record.
pub(crate) fn ledger_time(
    before: Option<ClockAnchor>,
    options: &LogOptions,
    wall: u64,
    last: u64,
) -> (u64, ClockContinuation) {
    let before = if mutant!(ElapsedTimeForgotten) { None } else { before };
    let elapsed = before.zip(options.boot_time).and_then(|(anchor, now)| anchor.time_at(now));
    match elapsed {
        Some(time) => (time.max(last), ClockContinuation::Elapsed),
        None if wall < last => (last, ClockContinuation::Behind(last - wall)),
        None => (wall, ClockContinuation::Wall),
    }
}

/// Take over in HEAD as the current writer. The recovered state must survive the next crash, so
/// HEAD is synced before anything is returned.
pub(crate) fn take_over(
    storage: &dyn Storage,
    paths: &LedgerPaths,
    head: Option<HeadFile>,
    content: &Head,
    may_write: impl Fn() -> Result<()>,
) -> Result<HeadFile> {
    let mut head = if let Some(head) = head {
        head
    } else {
        HeadFile::replace(storage, paths, content)?;
        HeadFile::open(storage, paths, &read_head(storage, paths)?)?
    };
    head.clock = content.clock;
    head.write_both(content, may_write)?;
    Ok(head)
}

/// Whether a segment may be published under these paths: the lock file must still be the locked
/// one.
pub(crate) fn publish_guard(
    lock: &dyn LockGuard,
    paths: &LedgerPaths,
) -> std::result::Result<(), CreateError> {
    check_lock_file(lock, &paths.lock()).map_err(CreateError::BeforePublish)
}

/// Remove segments that were never completed.
pub(crate) fn remove_temporaries(storage: &dyn Storage, paths: &LedgerPaths) -> Result<()> {
    let folder = paths.log();
    let entries =
        storage.list(&folder).map_err(|error| Error::io("list the folder", &folder, error))?;
    for entry in entries {
        if entry.kind == EntryKind::File && is_temporary(&entry.name) {
            let path = folder.join(&entry.name);
            storage
                .remove(&path)
                .map_err(|error| Error::io("remove an incomplete segment", &path, error))?;
        }
    }
    Ok(())
}

/// Make the names durable before anything relies on them. The process that created them may have
/// been killed before it could do so, even before the ledger's own name was durable.
pub(crate) fn sync_folders(storage: &dyn Storage, paths: &LedgerPaths) -> Result<()> {
    mutant!(LedgerDirEntryUnsynced => return Ok(()));
    let parent = paths.dir().parent().unwrap_or(Path::new(""));
    for folder in [&paths.log(), paths.dir(), parent] {
        storage.sync_dir(folder).map_err(|error| Error::io("sync the folder", folder, error))?;
    }
    Ok(())
}
