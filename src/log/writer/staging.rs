//! The staging folder in which a ledger is created before it gets its name.
//!
//! Invariant: nothing is removed from a staging folder that holds anything other than the leftovers
//! of an interrupted creation. A ledger that was ever opened is not a leftover: creation ends with
//! the rename, and the first opening comes after it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::SegmentName;
use crate::log::blob::BlobReader;
use crate::log::errors::folder_of_another_user;
use crate::log::folder::{LedgerPaths, is_temporary, read_head, take_lock};
use crate::log::options::LogOptions;
use crate::log::segment::CREATION_EPOCH;
use crate::storage::{Access, Entry, EntryKind, FolderAccess, LockGuard, Storage};

/// Create the staging folder for a ledger, lock it and clear it.
///
/// # Errors
/// `Io` if the ledger's name is taken or a call fails; `NotALedger` if the staging folder holds
/// other files; `Locked`.
pub(crate) fn begin(
    paths: &LedgerPaths,
    options: &LogOptions,
) -> Result<(LedgerPaths, Box<dyn LockGuard>)> {
    let storage = &options.storage;
    let staging = paths.staging();
    let io = |what: &str, path: &Path, error| Error::io(what, path, error);
    check_absent(&**storage, paths.dir())?;
    check_only_leftovers(storage, &staging)?;
    storage
        .create_ledger_dir(staging.dir(), options.for_group)
        .map_err(|error| io("create the folder", staging.dir(), error))?;
    check_own(&**storage, staging.dir()).inspect_err(|error| {
        // The folder of another user stays.
        if error.kind() != ErrorKind::Rejected {
            let _ = storage.remove_dir(staging.dir());
        }
    })?;
    let (holder, allowed) = (&options.holder, options.allow_unsafe_locks);
    let lock = take_lock(&**storage, &staging, holder, allowed).inspect_err(|error| {
        // A folder that is not empty stays. An empty one that another process has just created may
        // be removed: that process notices by its lock.
        if error.kind() != ErrorKind::Locked {
            let _ = storage.remove_dir(staging.dir());
        }
    })?;
    let create = |path: &Path| storage.create_dir(path);
    clear(storage, &staging)
        .and_then(|()| {
            create(&staging.log()).map_err(|error| io("create the folder", &staging.log(), error))
        })
        .and_then(|()| write_gitignore(&**storage, &staging.gitignore()))
        .inspect_err(|_| abort(storage, &staging))?;
    Ok((staging, lock))
}

/// Refuse a staging folder that another user made to get at the ledger's files. A folder that this
/// process has just made is its own.
fn check_own(storage: &dyn Storage, dir: &Path) -> Result<()> {
    let access =
        storage.folder_access(dir).map_err(|error| Error::io("look at the folder", dir, error))?;
    match access {
        FolderAccess::Own | FolderAccess::Group => Ok(()),
        _ if mutant!(StagingOfAnotherUserAccepted) => Ok(()),
        FolderAccess::Superuser { owner } | FolderAccess::Other { owner } => {
            Err(folder_of_another_user(dir, owner))
        }
    }
}

/// The pattern that ignores every file of the folder, this one included.
const GITIGNORE: &[u8] = b"*\n";

/// Write the file that keeps `git clean`, `git stash -u` and `git add -A` away from the ledger.
fn write_gitignore(storage: &dyn Storage, path: &Path) -> Result<()> {
    storage
        .create(path)
        .and_then(|file| file.write_at(GITIGNORE, 0).and_then(|()| file.sync()))
        .map_err(|error| Error::io("write", path, error))
}

/// Refuse a name that is taken, before all the work: the final rename would fail. It replaces an empty
/// folder.
fn check_absent(storage: &dyn Storage, dir: &Path) -> Result<()> {
    match storage.list(dir) {
        Ok(entries) if entries.is_empty() => Ok(()),
        Ok(_) => Err(Error::io("create a ledger here", dir, io::ErrorKind::AlreadyExists.into())),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            let message = "cannot create a ledger: this path or its parent is a file; move it, or \
                           choose another name";
            Err(Error::new(ErrorKind::NotALedger, message).at_path(dir))
        }
        // Creating the folder will report any other problem.
        Err(_) => Ok(()),
    }
}

/// Publish a ledger that is durable in its staging folder under its name.
pub(crate) fn publish(
    storage: &dyn Storage,
    staging: &LedgerPaths,
    paths: &LedgerPaths,
) -> Result<()> {
    let io = |what: &str, path: &Path, error| Error::io(what, path, error);
    let parent = paths.dir().parent().unwrap_or(Path::new(""));
    storage.sync_dir(staging.dir()).map_err(|error| io("sync the folder", staging.dir(), error))?;
    storage.rename(staging.dir(), paths.dir()).map_err(|error| match error.kind() {
        io::ErrorKind::ResourceBusy | io::ErrorKind::CrossesDevices => mount_point(paths.dir()),
        _ => io("rename the ledger", paths.dir(), error),
    })?;
    mutant!(LedgerDirEntryUnsynced => return Ok(()));
    storage.sync_dir(parent).map_err(|error| io("sync the folder", parent, error))
}

/// A mount point cannot get its content by a rename.
fn mount_point(dir: &Path) -> Error {
    let message = format!(
        "cannot create a ledger: this folder is a mount point; create it in a folder below, such as \
         {}",
        dir.join("ledger").display()
    );
    Error::new(ErrorKind::NotALedger, message).at_path(dir)
}

/// Remove the staging folder as far as possible. The next attempt removes the rest. The caller has
/// the lock.
pub(crate) fn abort(storage: &Arc<dyn Storage>, staging: &LedgerPaths) {
    // The lock file is removed last: until then no other process starts in this folder.
    if clear(storage, staging).is_ok() {
        // It may not exist yet.
        let _ = storage.remove_dir(&staging.log());
        let _ = storage.remove(&staging.lock()).and_then(|()| storage.remove_dir(staging.dir()));
    }
}

/// Refuse a staging folder that holds other files.
fn check_only_leftovers(storage: &Arc<dyn Storage>, staging: &LedgerPaths) -> Result<()> {
    if storage.list(staging.dir()).is_err() {
        // It does not exist, or creating it will report what is wrong.
        return Ok(());
    }
    check_only(&**storage, staging, staging.dir(), in_folder)?;
    check_only(&**storage, staging, &staging.log(), in_log)?;
    check_never_opened(&**storage, staging)?;
    let blobs = BlobReader::new(storage, staging).list().unwrap_or_default();
    match blobs.unknown.first() {
        Some(unknown) => {
            let name = unknown.file_name().unwrap_or_default().to_string_lossy();
            let folder = unknown.parent().unwrap_or(staging.dir());
            Err(occupied(staging.dir(), folder, &name))
        }
        None => Ok(()),
    }
}

/// Refuse a ledger that was in use: every opening increments the epoch.
fn check_never_opened(storage: &dyn Storage, staging: &LedgerPaths) -> Result<()> {
    let head_slots = read_head(storage, staging)?;
    match head_slots.newest() {
        Some((_, head)) if head.writer_epoch > CREATION_EPOCH => {
            let message = format!(
                "the staging folder is a ledger in use, up to record {}; move it, or choose \
                 another name for the new ledger",
                head.durable_seq
            );
            Err(Error::new(ErrorKind::NotALedger, message).at_path(staging.dir()))
        }
        _ => Ok(()),
    }
}

fn check_only(
    storage: &dyn Storage,
    staging: &LedgerPaths,
    folder: &Path,
    is_leftover: fn(&Entry) -> bool,
) -> Result<()> {
    // A folder that cannot be listed does not exist, or creating it will report why.
    let entries = storage.list(folder).unwrap_or_default();
    match entries.iter().find(|entry| !is_leftover(entry)) {
        Some(unknown) => Err(occupied(staging.dir(), folder, &unknown.name)),
        None => Ok(()),
    }
}

fn in_folder(entry: &Entry) -> bool {
    match entry.name.as_str() {
        "LOCK" | "HEAD" | ".gitignore" => entry.kind == EntryKind::File,
        "log" | "blob" => entry.kind == EntryKind::Folder,
        _ => false,
    }
}

fn in_log(entry: &Entry) -> bool {
    let is_segment = SegmentName::parse(&entry.name).is_some() || is_temporary(&entry.name);
    entry.kind == EntryKind::File && is_segment
}

fn occupied(staging: &Path, folder: &Path, name: &str) -> Error {
    let message = format!(
        "the staging folder holds {}, which is not part of a new ledger; move it, or choose \
         another name for the ledger",
        folder.join(name).display()
    );
    Error::new(ErrorKind::NotALedger, message).at_path(staging)
}

/// Remove the leftovers of an interrupted creation. The caller has the lock of the staging folder.
fn clear(storage: &Arc<dyn Storage>, staging: &LedgerPaths) -> Result<()> {
    let io = |path: &Path, error| Error::io("clear an incomplete ledger in", path, error);
    for path in [staging.head(), staging.gitignore()] {
        if storage.open(&path, Access::Read).is_ok() {
            storage.remove(&path).map_err(|error| io(&path, error))?;
        }
    }
    for entry in storage.list(&staging.log()).unwrap_or_default() {
        let path = staging.log().join(&entry.name);
        storage.remove(&path).map_err(|error| io(&path, error))?;
    }
    let blobs = BlobReader::new(storage, staging).list()?;
    let blobs = blobs.blobs.into_iter().map(|blob| blob.path).chain(blobs.unfinished);
    for path in blobs {
        storage.remove(&path).map_err(|error| io(&path, error))?;
    }
    let Ok(folders) = storage.list(&staging.blob()) else { return Ok(()) };
    for folder in folders {
        let path = staging.blob().join(&folder.name);
        storage.remove_dir(&path).map_err(|error| io(&path, error))?;
    }
    storage.remove_dir(&staging.blob()).map_err(|error| io(&staging.blob(), error))
}
