//! The public handle of a writer.

use std::path::Path;
use std::sync::{Arc, PoisonError};

use crate::error::Result;
use crate::format::ClockAnchor;
use crate::log::errors::fenced;
use crate::log::options::{BackgroundWork, LogOptions};
use crate::log::reader::LogReader;
use crate::log::record::Ack;
use crate::storage::Storage;
#[cfg(feature = "ledger")]
use crate::{
    error::{Error, ErrorKind},
    log::blob::BlobStore,
    log::bytes::lock,
    log::notes::LoggedRetentionNote,
    log::options::Keeper,
    log::prune::{PruneSet, remove_covered},
    log::recovery::mark_erasing,
};

use super::background::BackgroundThread;
#[cfg(feature = "ledger")]
use super::open::LogCopy;
use super::open::{self, RecoveryReport};
use super::shared::SharedWriter;
use super::staging::is_free;

/// A log that is open for writing. At most one exists for each folder, in all processes.
///
/// Threads that append concurrently share syncs: while one group is made durable, the next one is
/// encoded. A single thread gets the same effect from tickets: it submits many batches and waits
/// for the last one.
#[derive(Debug)]
pub struct Log {
    pub(crate) shared: Arc<SharedWriter>,
    /// [`Log::drop`] stops it before it closes the log.
    background: Option<BackgroundThread>,
}

impl Log {
    /// Create a log in a folder that does not exist. The folder gets its name only after everything
    /// is durable. `time` is in microseconds since the Unix epoch.
    ///
    /// # Errors
    /// `Locked` if another process is creating it, `Io` (also if the name is taken) and `DiskFull`.
    pub fn create(dir: &Path, options: LogOptions, time: u64) -> Result<Self> {
        open::create(dir, options, time).map(Self::new)
    }

    /// Open a log for writing, with recovery if necessary. Opening adds nothing to a log that was
    /// closed, or whose writer was killed between two commits.
    ///
    /// # Errors
    /// `NotALedger`; `Locked`, naming the lock holder; `Corrupt`, `Tampered` and `Ambiguous`,
    /// naming the place: nothing was changed, and readers continue; `Unsupported`; `Fenced` if the
    /// file LOCK was removed or replaced meanwhile; `Io` and `DiskFull`.
    pub fn open(dir: &Path, options: LogOptions, time: u64) -> Result<(Self, RecoveryReport)> {
        let (shared, report) = open::open(dir, options, time)?;
        Ok((Self::new(shared), report))
    }

    /// Open a log, or create one if the folder does not exist or is empty; the report is `None` then.
    ///
    /// # Errors
    /// As [`Log::create`] and [`Log::open`].
    pub fn open_or_create(
        dir: &Path,
        options: LogOptions,
        time: u64,
    ) -> Result<(Self, Option<RecoveryReport>)> {
        let storage = options.storage.clone();
        if is_free(&*storage, dir) {
            match Self::create(dir, options.clone(), time) {
                Ok(created) => return Ok((created, None)),
                // Another process created it in the meantime, and may have it locked.
                Err(_) if !is_free(&*storage, dir) => {}
                Err(error) => return Err(error),
            }
        }
        let (log, report) = Self::open(dir, options, time)?;
        Ok((log, Some(report)))
    }

    pub(super) fn new(shared: SharedWriter) -> Self {
        let shared = Arc::new(shared);
        let background = match shared.options.background_work {
            BackgroundWork::Inline => None,
            BackgroundWork::Thread => Some(BackgroundThread::start(&shared)),
        };
        Self { shared, background }
    }

    /// The storage that has the folder open.
    pub(crate) fn storage(&self) -> &Arc<dyn Storage> {
        &self.shared.options.storage
    }

    /// The last durable record.
    #[must_use]
    pub fn last_durable(&self) -> Ack {
        self.shared.lock().durable.ack
    }

    /// The last submitted record, durable or not.
    #[must_use]
    pub fn last_submitted(&self) -> Ack {
        self.shared.lock().encoded.ack
    }

    /// Time of the last submitted record, in microseconds since the Unix epoch: the next record has
    /// the same time or a later one.
    #[must_use]
    pub fn last_submitted_time(&self) -> u64 {
        self.shared.lock().encoded.time
    }

    /// The ledger's time when it was opened, at a reading of the boot clock; `None` without such a
    /// clock.
    #[must_use]
    #[doc(hidden)]
    pub fn clock(&self) -> Option<ClockAnchor> {
        self.shared.head.lock().unwrap_or_else(PoisonError::into_inner).clock
    }

    /// The identifier of the ledger.
    ///
    /// # Errors
    /// `Fenced` in a forked process.
    pub fn uid(&self) -> Result<[u8; 16]> {
        Ok(self.shared.enter()?.active.header.ledger)
    }

    /// Check that the log accepts batches.
    ///
    /// # Errors
    /// `Poisoned` and `Fenced`.
    pub fn check_status(&self) -> Result<()> {
        self.shared.enter()?.check_status()
    }

    /// Check that this is the process that opened the log. In a forked process, call only this and
    /// methods that return a `Result`: the thread that holds a lock of this handle may not exist
    /// there.
    ///
    /// # Errors
    /// `Fenced`.
    pub fn check_process(&self) -> Result<()> {
        self.shared.check_process()
    }

    /// Make everything submitted durable and mark the log as cleanly closed.
    ///
    /// # Errors
    /// As [`Log::flush`]; `Fenced` if the right to write is lost: the log is not marked.
    pub fn close(mut self) -> Result<()> {
        self.close_in_place()
    }

    fn close_in_place(&mut self) -> Result<()> {
        self.background = None;
        self.shared.close()
    }

    /// A reader of this log, which sees everything that is durable now.
    pub fn reader(&self) -> Result<LogReader> {
        self.shared.reader()
    }

    /// Check that this handle may change files outside the log: it can still append, and no other
    /// writer has taken over.
    ///
    /// # Errors
    /// `Poisoned` and `Fenced`.
    pub fn check_writer(&self) -> Result<()> {
        self.check_process()?;
        self.check_status()?;
        self.shared.ownership.check().map_err(|why| fenced(&why))
    }
}

/// Operations that only a ledger does with its log: pruning, erasing, blobs, and writing to the copy of a log in a
/// store.
#[cfg(feature = "ledger")]
#[doc(hidden)]
impl Log {
    /// Write to the log of a folder that was made equal to one that is kept elsewhere, in an epoch that the
    /// caller opened there. `keeper` gets every group before it is acknowledged.
    ///
    /// # Errors
    /// `Fenced` if the lock is lost; `Io`.
    pub fn of_copy(
        copy: LogCopy,
        epoch: u64,
        time: u64,
        keeper: Arc<dyn Keeper>,
    ) -> Result<(Self, RecoveryReport)> {
        let (shared, report) = copy.into_shared(epoch, time, keeper)?;
        Ok((Self::new(shared), report))
    }

    /// Mark in the folder that an erasure may be incomplete, before its note is appended.
    ///
    /// # Errors
    /// `Io`.
    pub fn mark_erasing(&self) -> Result<()> {
        mark_erasing(&*self.shared.options.storage, &self.shared.paths)
    }

    /// Remove the segments that a durable retention note covers, and the snapshots that became
    /// useless.
    ///
    /// # Errors
    /// `Corrupt` if an anchor or the next segment is invalid: nothing was removed. `Fenced`; `Io`:
    /// the next opening or call continues.
    pub fn remove_pruned(&self, retention: &LoggedRetentionNote) -> Result<PruneSet> {
        self.check_writer()?;
        if retention.seq > self.last_durable().seq {
            let message = format!("the retention note {} is not durable yet", retention.seq);
            return Err(Error::new(ErrorKind::OutOfRange, message));
        }
        if let Some(keeper) = &self.shared.options.keeper
            && keeper.kept_seq() < retention.note.last_seq
            && !mutant!(UnkeptSegmentPruned)
        {
            let message = format!(
                "the store has the log only up to record {}, and the prune removes records up to {}",
                keeper.kept_seq(),
                retention.note.last_seq
            );
            return Err(Error::new(ErrorKind::Conflict, message)
                .with_hint("prune again when the store has them"));
        }
        *lock(&self.shared.retention) = Some(retention.clone());
        remove_covered(&self.reader()?, retention)
    }

    /// The last record that the keeper of this log has; `None` without a keeper.
    #[must_use]
    pub fn kept_seq(&self) -> Option<u64> {
        self.shared.options.keeper.as_ref().map(|keeper| keeper.kept_seq())
    }

    /// The blobs of this log, for its writer. Create one store and share it.
    #[must_use]
    pub fn blobs(&self) -> BlobStore {
        let LogOptions { storage, keeper, .. } = &self.shared.options;
        BlobStore::new(storage, &self.shared.paths, keeper.clone())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // A fork leaves its parent's files alone, and its locks too.
        if self.shared.ownership.is_own_process() {
            // Nothing acknowledged depends on it; `close` reports the error.
            let _ = self.close_in_place();
        }
    }
}
