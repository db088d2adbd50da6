//! A folder that follows a store, so that its process can take over at once.
//!
//! Between two polls the folder stays open, with its lock, and the position in the log is kept. A poll without new
//! records is one request. A takeover continues at this position: it lists the later objects, creates the opening slot,
//! and checks the floor. Its time does not depend on the length of the history.
//!
//! Invariants:
//! - The folder has the records of the store up to the position, and HEAD covers no others.
//! - Complete segments are sealed at once, not only when the process takes over.

use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::format::BootTime;
use crate::log::{Ack, BoundAck, LogCopy, LogOptions, LogReader};
use crate::store::binding::LedgerIdentity;
use crate::store::session::StoreReading;

use super::client::StoreClient;
use super::follow::{FolderProgress, Follower};
use super::open::{BoundLog, StoreOpening, binding, check_binding, identity_of, open_epoch};
use super::rejoin::set_aside;
use super::restore::{bound, restore};

/// A folder that follows a store. After an error it is of no use: open it again.
#[derive(Debug)]
pub struct StandbyFolder {
    client: StoreClient,
    identity: LedgerIdentity,
    follower: Follower,
    reading: StoreReading,
    /// The newest segment when segments were sealed last.
    sealed: Option<u64>,
    /// The folder that was here before, under its new name.
    kept: Option<PathBuf>,
}

impl StandbyFolder {
    /// As [`Self::open`]. If the folder ends before the log in the store begins, because the log was pruned, the folder
    /// is renamed and the store is restored in its place. This happens only if the last writer of the folder
    /// acknowledged no record that the store did not have, so that no record of the folder is needed. See
    /// [`Self::kept`].
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_or_restore(dir: &Path, options: LogOptions, client: &StoreClient) -> Result<Self> {
        let mut ended = None;
        match Self::open_copy(dir, options.clone(), client, &mut ended) {
            Err(error) => {
                let Some(copy) = ended else { return Err(error) };
                let name = format!("until-{}", copy.last().seq);
                let kept = set_aside(&copy, &*options.storage, &name)?;
                drop(copy);
                Ok(Self { kept: Some(kept), ..Self::open(dir, options, client)? })
            }
            opened => opened,
        }
    }

    /// Bring a folder to the end of the log in a store. It is made if it does not exist.
    ///
    /// # Errors
    /// As [`restore`] and [`super::open_bound`]. `Rejected` if the log in the store begins after the end of the folder.
    pub fn open(dir: &Path, options: LogOptions, client: &StoreClient) -> Result<Self> {
        Self::open_copy(dir, options, client, &mut None)
    }

    /// `ended` gets a folder that ends before the log in the store begins, and is not needed.
    fn open_copy(
        dir: &Path,
        options: LogOptions,
        client: &StoreClient,
        ended: &mut Option<LogCopy>,
    ) -> Result<Self> {
        if crate::log::is_free(&*options.storage, dir) {
            restore(dir, options.clone(), client, &mut |_| ())?;
        }
        let copy = LogCopy::open(dir, options)?;
        let (identity, found) = (identity_of(&copy)?, bound(client)?);
        if identity != found {
            let message = "the store and the folder have the logs of different ledgers";
            return Err(Error::new(ErrorKind::Rejected, message)
                .with_hint("name another folder, or the place of this ledger in the store")
                .at_path(dir));
        }
        check_binding(&copy, client, &identity)?;
        let mut follower = Follower::new(copy, binding(client, &identity, BoundAck::Local));
        let common = match follower.common_position(&client.session(identity)) {
            Ok(common) => common,
            Err(error) => {
                let is_needed = !follower.begins_later || !follower.acknowledged_by_store();
                *ended = Some(follower.copy).filter(|_| !is_needed);
                return Err(error);
            }
        };
        let reading = StoreReading::from(common.end);
        let client = client.clone();
        let mut folder = Self { client, identity, follower, reading, sealed: None, kept: None };
        folder.follower.catch_up_with(
            &folder.client.session(identity),
            &mut folder.reading,
            common.ahead,
        )?;
        folder.follower.expect_end(folder.reading.end())?;
        folder.settle(0)?;
        Ok(folder)
    }

    /// The changes that made the folder equal to the log in the store.
    #[must_use]
    pub fn progress(&self) -> &FolderProgress {
        &self.follower.progress
    }

    /// The new name of the folder that was here before, if [`Self::open_or_restore`] gave it one.
    #[must_use]
    pub fn kept(&self) -> Option<&Path> {
        self.kept.as_deref()
    }

    /// A reader of the folder.
    ///
    /// # Errors
    /// `Io`.
    pub fn reader(&self) -> Result<LogReader> {
        self.follower.copy.reader()
    }

    /// Copy the records that other processes committed, up to a missing slot. This does not prove that the log ends
    /// there. Without new records, this is one request. [`Self::take_in_blobs`] copies the blobs.
    ///
    /// # Errors
    /// As [`super::open_bound`].
    pub fn follow(&mut self) -> Result<()> {
        let before = self.follower.progress.taken_in;
        self.follower.follow_on(&self.client.session(self.identity), &mut self.reading)?;
        self.settle(before)
    }

    /// Copy all records up to the currently listed end of the log, and their blobs. Returns whether it was the end: an
    /// owner that writes in the meantime does not keep this process from its other work.
    ///
    /// # Errors
    /// As [`super::open_bound`].
    pub fn follow_to_end(&mut self) -> Result<bool> {
        let before = self.follower.progress.taken_in;
        let session = self.client.session(self.identity);
        let is_end = self.follower.follow_to_end(&session, &mut self.reading)?;
        self.settle(before)?;
        Ok(is_end)
    }

    /// Copy the blobs that the records of the folder reference, if there are new records.
    ///
    /// # Errors
    /// `Corrupt` with the name of a damaged object; `Io`.
    pub fn take_in_blobs(&mut self) -> Result<()> {
        self.follower.take_in_blobs(&self.client.session(self.identity))
    }

    /// HEAD covers the copied records; the store has all of them.
    fn settle(&mut self, before: u64) -> Result<()> {
        self.follower.expect_no_doubt(self.reading.end())?;
        let is_new = self.follower.progress.taken_in > before;
        if is_new && self.follower.is_equal_to(self.reading.end()) {
            self.follower.write_head()?;
            let newest = self.follower.copy.newest_ordinal();
            if self.sealed != newest {
                self.follower.copy.seal_complete();
                self.sealed = newest;
            }
        }
        Ok(())
    }

    /// Close the folder. Returns its last record.
    ///
    /// # Errors
    /// `Fenced` if the lock is lost; `Io`, `DiskFull`.
    pub fn finish(self) -> Result<Ack> {
        let is_equal = self.follower.is_equal_to(self.reading.end());
        let copy = self.follower.copy;
        if is_equal { copy.finish() } else { Ok(copy.last()) }
    }

    /// Open an epoch at the end of the log, and write to it from here on. `boot_time` is the reading of the boot clock
    /// at the time of `opening`.
    ///
    /// # Errors
    /// As [`super::open_bound`].
    pub fn take_over(
        mut self,
        opening: &StoreOpening,
        boot_time: Option<BootTime>,
    ) -> Result<BoundLog> {
        self.reading.confirm_end();
        self.follower.copy.set_boot_time(boot_time);
        open_epoch(&self.client, self.identity, self.follower, self.reading, opening)
    }
}

/// Follow a store with a folder, which is created if it does not exist: copy the records that other processes commit.
/// Each time the end of the log is reached, `each` is called with the progress; it waits, and decides whether to
/// continue. Then the folder is closed, and another process can open it. Returns the last record. A process that may
/// take over uses a [`StandbyFolder`].
///
/// # Errors
/// As [`restore`] and [`super::open_bound`].
pub fn replicate(
    dir: &Path,
    options: LogOptions,
    client: &StoreClient,
    each: &mut dyn FnMut(&FolderProgress) -> bool,
) -> Result<Ack> {
    let mut folder = StandbyFolder::open(dir, options, client)?;
    loop {
        if !each(folder.progress()) {
            return folder.finish();
        }
        folder.follow_to_end()?;
    }
}
