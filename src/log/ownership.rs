//! Whether this handle is still the one that may write.
//!
//! A kernel lock is lost without a word when the folder is moved away and made again, when
//! somebody removes the lock file, or where the file system does not keep its promises; and a
//! forked process holds it twice. And while it is held, somebody may write an older copy over the
//! ledger's files. So, before each write and before HEAD vouches for it: three looks that cost no
//! sync.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{HEAD_SIZE, Head, HeadView, Uid};
use crate::storage::{LockGuard, Storage, StorageFile};

use super::archive::uid_text;
use super::head_file::{HeadFile, LeftInHead};
use super::queue::fenced;

/// The right to write.
#[derive(Debug)]
pub(super) struct Ownership {
    storage: Arc<dyn Storage>,
    /// Held until this is dropped.
    lock: Box<dyn LockGuard>,
    /// Where its file should be.
    path: PathBuf,
    head: Arc<dyn StorageFile>,
    left: Arc<LeftInHead>,
    /// The process that opened the log.
    process: u32,
    ledger: Uid,
    pub(super) epoch: u64,
}

impl Ownership {
    pub(super) fn new(
        storage: Arc<dyn Storage>,
        (lock, path): (Box<dyn LockGuard>, PathBuf),
        head: &HeadFile,
        (ledger, epoch): (Uid, u64),
    ) -> Self {
        let (process, left) = (storage.process(), head.left());
        Self { storage, lock, path, head: head.file(), left, process, ledger, epoch }
    }

    /// Whether this is the process that opened the log. In a fork no lock of this library may be
    /// waited for either: the thread that holds it may not exist there.
    pub(super) fn is_own_process(&self) -> bool {
        self.storage.process() == self.process
    }

    /// Look whether the right to write is lost, and how.
    pub(super) fn check(&self) -> std::result::Result<(), String> {
        if !self.is_own_process() {
            return Err(FORKED.to_owned());
        }
        match is_in_place(&*self.lock, &self.path) {
            Ok(true) => {}
            Ok(false) => return Err(REPLACED.to_owned()),
            Err(error) => return Err(format!("the file LOCK cannot be looked at: {error}")),
        }
        let least = self.left.least();
        let mut bytes = vec![0; HEAD_SIZE];
        let count = self
            .head
            .read_at(&mut bytes, 0)
            .map_err(|error| format!("HEAD cannot be read: {error}"))?;
        bytes.truncate(count);
        bug!(EpochUnchecked => return Ok(()));
        self.expect_own(&HeadView::decode(&bytes), least)
    }

    /// Whether HEAD is the one that this handle wrote last, as far as both of its slots are its own. One
    /// that is being written to is not valid, and one may be of an earlier opening: nothing was written
    /// to it since, or by a writer that was stopped before its takeover. The other one was synced.
    fn expect_own(
        &self,
        view: &HeadView,
        (written, synced): (u64, u64),
    ) -> std::result::Result<(), String> {
        let epoch = view.slots.iter().flatten().map(|head| head.writer_epoch).max();
        if let Some(found) = epoch.filter(|found| *found > self.epoch) {
            return Err(format!(
                "another writer took over: expected epoch {} in HEAD, found {found}",
                self.epoch
            ));
        }
        bug!(OlderHeadAccepted => return Ok(()));
        let is_own = |head: &&Head| (head.ledger, head.writer_epoch) == (self.ledger, self.epoch);
        let own = || view.slots.iter().flatten().filter(is_own).map(|head| head.generation);
        let least = if own().count() == view.slots.len() { written } else { synced };
        match own().max() {
            Some(found) if found >= least => Ok(()),
            Some(found) => Err(format!(
                "HEAD is an older one, as if a copy had been put back: expected generation {least}, \
                 found {found}"
            )),
            None => Err(format!(
                "HEAD is not the one that this writer wrote, as if a copy had been put back: expected \
                 ledger {} and epoch {}, found neither slot to be of them",
                uid_text(&self.ledger),
                self.epoch
            )),
        }
    }
}

/// To be asked while a log is being opened: whether the lock that was taken is the one that keeps
/// others out.
///
/// # Errors
/// `Fenced` if it is not; `Io` if that cannot be told.
pub(super) fn expect_in_place(lock: &dyn LockGuard, path: &Path) -> Result<()> {
    match is_in_place(lock, path) {
        Ok(true) => Ok(()),
        Ok(false) => Err(fenced(REPLACED).at_path(path)),
        Err(error) => Err(Error::io("look at the lock", path, error)),
    }
}

fn is_in_place(lock: &dyn LockGuard, path: &Path) -> std::io::Result<bool> {
    Ok(lock.is_in_place(path)? || bug!(OwnershipUnchecked))
}

const REPLACED: &str = "the file LOCK is not the one that was locked: the folder was moved, or \
                        somebody removed the file";

/// What a fork is told.
pub(super) const FORKED: &str = "this process is a fork of the one that opened the ledger";

/// What somebody is told who would have the lock. `found` is the text of whoever has it, `own` the one that
/// would be written.
pub(super) fn held_by(found: &str, own: &str, process: u32) -> Error {
    let message = if is_this_process(found, own, process) {
        format!("held by another handle of this process: {found}; close that one first, or use it")
    } else {
        let found = if found.is_empty() { "an unknown process" } else { found };
        format!(
            "held by another process: {found}; wait for it to end, or look on with `ledger inspect`"
        )
    };
    Error::new(ErrorKind::Locked, message)
}

/// Whether the holder of a lock is this process, as far as the texts of both tell: they begin with the
/// same process on the same host, which is the one that asks.
fn is_this_process(found: &str, own: &str, process: u32) -> bool {
    let [found, own] = [found, own].map(|text| text.split(", since").next().unwrap_or_default());
    let id = own.strip_prefix("process ").and_then(|rest| rest.split(' ').next());
    found == own && id == Some(process.to_string().as_str())
}
