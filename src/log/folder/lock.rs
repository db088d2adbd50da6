//! The writer lock, and whether this handle still has the right to write.
//!
//! A kernel lock is lost silently if the folder is moved and created again, if the lock file is
//! removed, or on a file system that does not honour locks. After a fork both processes hold it.
//! And while it is held, the ledger's files can be overwritten by an older copy. So before each
//! write, and again before HEAD covers it, the writer makes three checks that need no sync: the
//! process, the lock file, and HEAD.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Advice, Error, ErrorKind, Result};
use crate::format::{Head, HeadSlots, Uid};
use crate::log::bytes::hex;
use crate::log::errors::fenced;
use crate::storage::{FilesystemKind, LockGuard, LockOutcome, Storage, StorageFile};

use super::head::{HeadBytes, HeadFile, HeadGenerations, RequiredGeneration};
use super::paths::LedgerPaths;

/// The right to write: the lock, and the HEAD that this handle wrote.
#[derive(Debug)]
pub(crate) struct Ownership {
    storage: Arc<dyn Storage>,
    /// Released when this is dropped.
    lock: Box<dyn LockGuard>,
    /// Expected path of the lock file.
    path: PathBuf,
    head: Arc<dyn StorageFile>,
    generations: Arc<HeadGenerations>,
    /// The process that opened the log.
    process: u32,
    ledger: Uid,
    pub(crate) epoch: u64,
}

impl Ownership {
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        lock: Box<dyn LockGuard>,
        path: PathBuf,
        head: &HeadFile,
        ledger: Uid,
        epoch: u64,
    ) -> Self {
        let (process, generations) = (storage.process(), head.generations());
        Self { storage, lock, path, head: head.file(), generations, process, ledger, epoch }
    }

    /// Whether this is the process that opened the log. A forked process must not even wait for a
    /// mutex of this library: the thread that holds it may not exist in the forked process.
    pub(crate) fn is_own_process(&self) -> bool {
        self.storage.process() == self.process
    }

    /// Check the right to write; the error is the reason why it was lost.
    pub(crate) fn check(&self) -> std::result::Result<(), String> {
        if !self.is_own_process() {
            return Err(FORKED.to_owned());
        }
        match again(|| is_in_place(&*self.lock, &self.path)) {
            Ok(true) => {}
            Ok(false) => return Err(REPLACED.to_owned()),
            Err(error) => return Err(format!("LOCK cannot be checked: {error}")),
        }
        let required = self.generations.required();
        let bytes = again(|| HeadBytes::read_once(&*self.head))
            .map_err(|error| format!("HEAD cannot be read: {error}"))?;
        mutant!(EpochUnchecked => return Ok(()));
        // The content of an unreadable slot is unknown, and a copy of it could be readable.
        let required = if bytes.is_readable == [true; 2] {
            required
        } else {
            RequiredGeneration { both_slots: 0, one_slot: 0 }
        };
        self.check_own_head(&bytes.slots(), required)
    }

    /// Check that HEAD is the one that this handle wrote last. A slot that is being written is
    /// invalid, and one slot may belong to an earlier opening; the other slot was synced. So the
    /// required generation depends on whether this handle wrote both slots.
    fn check_own_head(
        &self,
        head_slots: &HeadSlots,
        required: RequiredGeneration,
    ) -> std::result::Result<(), String> {
        let epoch = head_slots.slots.iter().flatten().map(|head| head.writer_epoch).max();
        if let Some(found) = epoch.filter(|found| *found > self.epoch) {
            return Err(format!(
                "another writer took over: expected epoch {} in HEAD, found {found}",
                self.epoch
            ));
        }
        mutant!(OlderHeadAccepted => return Ok(()));
        let is_own = |head: &&Head| (head.ledger, head.writer_epoch) == (self.ledger, self.epoch);
        let own = || head_slots.slots.iter().flatten().filter(is_own).map(|head| head.generation);
        let minimum = if own().count() == head_slots.slots.len() {
            required.both_slots
        } else {
            required.one_slot
        };
        match own().max() {
            Some(found) if found >= minimum => Ok(()),
            Some(found) => Err(format!(
                "HEAD is stale, as if restored from a copy: expected generation {minimum}, found \
                 {found}"
            )),
            None => Err(format!(
                "HEAD is not this writer's, as if restored from a copy: expected ledger {} and \
                 epoch {}, found neither",
                hex(&self.ledger),
                self.epoch
            )),
        }
    }
}

/// How often a read of the check is tried. A read that fails once says nothing about another writer,
/// and the records may be synced already.
const READ_ATTEMPTS: u32 = 3;

fn again<T>(read: impl Fn() -> std::io::Result<T>) -> std::io::Result<T> {
    let mut found = read();
    for _ in 1..READ_ATTEMPTS {
        if found.is_ok() {
            break;
        }
        found = read();
    }
    found
}

/// Check while opening that the acquired lock still excludes others.
///
/// # Errors
/// `Fenced` if it does not; `Io` if the check fails.
pub(crate) fn check_lock_file(lock: &dyn LockGuard, path: &Path) -> Result<()> {
    match is_in_place(lock, path) {
        Ok(true) => Ok(()),
        Ok(false) => Err(fenced(REPLACED).at_path(path)),
        Err(error) => Err(Error::io("check the lock", path, error)),
    }
}

fn is_in_place(lock: &dyn LockGuard, path: &Path) -> std::io::Result<bool> {
    Ok(lock.is_at(path)? || mutant!(LockIdentityUnchecked))
}

const REPLACED: &str = "the file LOCK is not the one that was locked: the folder was moved, or the \
                        file was removed";

/// Why a forked process may not write.
pub(crate) const FORKED: &str = "this process is a fork of the one that opened the ledger";

/// The error for a lock that is taken. `found` describes the lock holder, `own` this handle.
pub(crate) fn locked_by(found: &str, own: &str, process: u32) -> Error {
    if is_this_process(found, own, process) {
        let message = format!("locked by another handle of this process: {found}");
        return Error::new(ErrorKind::Locked, message).with_hint("close it first, or use it");
    }
    let found = if found.is_empty() { "an unknown process" } else { found };
    Error::new(ErrorKind::Locked, format!("locked by another process: {found}"))
        .with_advice(Advice::WaitForLockHolder)
}

/// Whether the lock holder is this process: both descriptions name the same host and process, and
/// the process id is the current one.
fn is_this_process(found: &str, own: &str, process: u32) -> bool {
    let [found, own] = [found, own].map(|text| text.split(", since").next().unwrap_or_default());
    let id = own.strip_prefix("process ").and_then(|rest| rest.split(' ').next());
    found == own && id == Some(process.to_string().as_str())
}

/// Number of retries, and the pause between them, while the lock is taken.
const LOCK_PAUSES: u32 = 20;

const LOCK_PAUSE: Duration = Duration::from_millis(10);

const NETWORK: &str = "on a network file system, locks may not exclude writers on other machines";
const TWICE: &str =
    "locks do not exclude other writers here: a second descriptor got the same lock";

/// The error where two writers could open the ledger at the same time.
fn unreliable_lock(why: &str) -> Error {
    Error::new(ErrorKind::Rejected, why).with_advice(Advice::WriteFromOneMachine)
}

/// Take the lock, or name the lock holder.
pub(crate) fn take_lock(
    storage: &dyn Storage,
    paths: &LedgerPaths,
    holder: &str,
    allow_unsafe_locks: bool,
) -> Result<Box<dyn LockGuard>> {
    let path = paths.lock();
    let is_checked = !allow_unsafe_locks && !mutant!(UnsafeLockAccepted);
    // An unknown file system is judged by its locks alone.
    let kind = storage.filesystem_kind(paths.dir()).unwrap_or(FilesystemKind::Local);
    if is_checked && kind == FilesystemKind::Network {
        return Err(unreliable_lock(NETWORK).at_path(paths.dir()));
    }
    let mut locking = storage.lock(&path, holder);
    // If a process is killed while it starts a worker, the child inherits the lock until it calls
    // exec. Wait for that.
    for _ in 0..LOCK_PAUSES {
        if !matches!(locking, Ok(LockOutcome::HeldBy(_))) {
            break;
        }
        std::thread::sleep(LOCK_PAUSE);
        locking = storage.lock(&path, holder);
    }
    match locking {
        Ok(LockOutcome::Acquired(guard)) => {
            if is_checked && matches!(storage.lock(&path, holder), Ok(LockOutcome::Acquired(_))) {
                return Err(unreliable_lock(TWICE).at_path(&path));
            }
            Ok(guard)
        }
        Ok(LockOutcome::HeldBy(found)) => {
            Err(locked_by(&found, holder, storage.process()).at_path(paths.dir()))
        }
        Err(error) => Err(Error::io("lock the ledger", &path, error)),
    }
}
