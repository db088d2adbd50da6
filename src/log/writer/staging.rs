//! The staging folder in which a ledger is created before it gets its name.
//!
//! A ledger whose folder does not exist is created in a folder beside it, which is then renamed. Its name is random, so
//! that another user can neither prepare nor block it; the next creation under the same name removes the folder of a
//! killed process. An existing folder without files (an empty one, or a mount point) is kept, because it may be the
//! working folder of a process, and a mount point cannot be replaced. In that case the ledger is created inside it, and
//! the folder of the segments gets its name last. Until then, the folder is not a ledger.
//!
//! Invariants:
//! - Nothing is removed from a staging folder that another user owns, that a process has locked, or that
//!   holds anything other than the leftovers of an interrupted creation. A ledger that was ever opened is not a leftover: creation ends with the
//!   rename, and the first opening comes after it.
//! - In place, the folder of the segments is created first after the lock and removed last before
//!   it: without this folder, other files are not leftovers.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{SegmentName, Uid};
use crate::log::blob::BlobReader;
use crate::log::errors::folder_of_another_user;
use crate::log::folder::{
    BINDING_NAME, LOG_NAME, LedgerPaths, STAGED_LOG_NAME, TEMPORARY_BINDING_NAME, hold_folder,
    is_temporary, read_head, take_lock,
};
use crate::log::options::LogOptions;
use crate::log::segment::CREATION_EPOCH;
use crate::log::snapshot::list_snapshots;
use crate::storage::{Access, Entry, EntryKind, FolderAccess, Links, LockGuard, Storage};

/// A ledger under construction.
#[derive(Debug)]
pub(crate) struct Staging {
    pub(crate) paths: LedgerPaths,
    /// The storage that has its folder open.
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) lock: Box<dyn LockGuard>,
}

/// Create the staging folder for a ledger, lock it and clear it. `random` becomes part of its name.
///
/// # Errors
/// `NotALedger` if the ledger's name is taken; `Locked` if another process is creating it; `Rejected` for
/// a folder of another user; `Io` if a call fails.
pub(crate) fn begin(paths: &LedgerPaths, options: &LogOptions, random: &Uid) -> Result<Staging> {
    let storage = &options.storage;
    let staging = match expect_free(&**storage, paths.dir())? {
        Vacancy::NoFolder => {
            if remove_leftovers(paths, options)? {
                expect_free(&**storage, paths.dir())?;
            }
            begin_beside(paths, options, *random)?
        }
        Vacancy::EmptyFolder => begin_in_place(paths, options)?,
    };
    let (storage, paths) = (&staging.storage, &staging.paths);
    let create = |path: &Path| {
        storage.create_dir(path).map_err(|error| Error::io("create the folder", path, error))
    };
    // A folder that was just created has no entries.
    let unbound = if paths.is_in_place() { clear_binding(&**storage, paths) } else { Ok(()) };
    unbound
        .and_then(|()| clear(storage, paths))
        .and_then(|()| create(&paths.log()))
        // The other files are leftovers only beside this folder, also after a power loss.
        .and_then(|()| sync_in_place(&**storage, paths))
        .and_then(|()| write_gitignore(&**storage, &paths.gitignore()))
        .inspect_err(|_| abort(storage, paths))?;
    Ok(staging)
}

/// Make a folder with a random name, and lock it.
fn begin_beside(paths: &LedgerPaths, options: &LogOptions, mut random: Uid) -> Result<Staging> {
    let by_path = &options.storage;
    for attempts_left in (0..NAME_ATTEMPTS).rev() {
        let staging = paths.staging(&random);
        let dir = staging.dir();
        by_path
            .create_ledger_dir(dir, options.for_group)
            // The name of the staging folder tells a person nothing.
            .map_err(|error| Error::io("create the folder", paths.dir(), error))?;
        let remove_new = || {
            let _ = by_path.remove_dir(dir);
        };
        let is_removed = || attempts_left > 0 && is_gone(&**by_path, dir);
        let storage = match by_path.hold(dir, Links::Refuse) {
            Ok(held) => held.unwrap_or_else(|| by_path.clone()),
            // A process that removes leftovers took it for one.
            Err(_) if is_removed() => {
                random = next_name(random);
                continue;
            }
            Err(error) => return Err(Error::io("open the folder", dir, error)),
        };
        // The folder of another user stays.
        check_own(&*storage, dir).inspect_err(|error| {
            if error.kind() != ErrorKind::Rejected {
                remove_new();
            }
        })?;
        let (holder, allowed) = (&options.holder, options.allow_unsafe_locks);
        match take_lock(&*storage, &staging, holder, allowed) {
            Ok(lock) if lock.is_at(&staging.lock()).unwrap_or_default() => {
                return Ok(Staging { paths: staging, storage, lock });
            }
            // The lock is on a file that was removed with its folder.
            Ok(_) => random = next_name(random),
            Err(_) if is_removed() => random = next_name(random),
            Err(error) => {
                // A folder that is not empty stays.
                if error.kind() != ErrorKind::Locked {
                    remove_new();
                }
                return Err(error);
            }
        }
    }
    let message = "other processes keep removing the folder in which the ledger is created";
    Err(Error::new(ErrorKind::Locked, message).at_path(paths.dir()).with_hint("try again"))
}

/// The name that is tried after this one.
fn next_name(mut random: Uid) -> Uid {
    if let Some(first) = random.first_mut() {
        *first = first.wrapping_add(1);
    }
    random
}

/// How many names are tried while other processes remove leftovers.
const NAME_ATTEMPTS: u32 = 8;

fn is_gone(storage: &dyn Storage, dir: &Path) -> bool {
    storage.list(dir).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Lock a folder without files in which the ledger is created.
fn begin_in_place(paths: &LedgerPaths, options: &LogOptions) -> Result<Staging> {
    let staging = paths.staging_in_place();
    let dir = staging.dir();
    let storage = hold_folder(&options.storage, dir)?;
    check_only_leftovers(&storage, &staging)?;
    check_own(&*storage, dir)?;
    storage
        .make_private(dir, options.for_group)
        .map_err(|error| Error::io("change the access to the folder", dir, error))?;
    let (holder, allowed) = (&options.holder, options.allow_unsafe_locks);
    let lock = take_lock(&*storage, &staging, holder, allowed)?;
    // Another process may have created it before the lock was free.
    expect_free(&*storage, paths.dir())?;
    check_only_leftovers(&storage, &staging)?;
    Ok(Staging { paths: staging, storage, lock })
}

/// Remove the staging folders of killed processes for this ledger, if they belong to this user and
/// hold nothing else. Returns whether there were any.
///
/// # Errors
/// `Locked` if another process is creating the ledger.
fn remove_leftovers(paths: &LedgerPaths, options: &LogOptions) -> Result<bool> {
    mutant!(DraftsLeft => return Ok(false));
    // An entry that cannot be listed or removed does not block others, because names are random.
    let entries = options.storage.list(paths.parent()).unwrap_or_default();
    let folders = entries.iter().filter(|entry| entry.kind == EntryKind::Folder);
    let mut is_found = false;
    for staging in folders.filter_map(|entry| paths.as_staging(&entry.name)) {
        is_found = true;
        let held = options.storage.hold(staging.dir(), Links::Refuse);
        let Ok(held) = held else { continue };
        let storage = held.unwrap_or_else(|| options.storage.clone());
        if check_own(&*storage, staging.dir()).is_err() {
            continue;
        }
        if check_only_leftovers(&storage, &staging).is_err() {
            continue;
        }
        let (holder, allowed) = (&options.holder, options.allow_unsafe_locks);
        match take_lock(&*storage, &staging, holder, allowed) {
            // A process that has just completed it renamed the folder, which is still open here.
            Ok(lock)
                if lock.is_at(&staging.lock()).unwrap_or_default()
                    && check_only_leftovers(&storage, &staging).is_ok() =>
            {
                abort(&storage, &staging);
            }
            Err(error) if error.kind() == ErrorKind::Locked => return Err(error),
            _ => {}
        }
    }
    Ok(is_found)
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

/// Why a ledger can be created under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Vacancy {
    /// The folder does not exist.
    NoFolder,
    /// There is a folder without files.
    EmptyFolder,
}

/// Whether a ledger can be created in a folder: it does not exist, or holds nothing but the
/// leftovers of an interrupted creation and entries of its file system.
pub(crate) fn is_free(storage: &dyn Storage, dir: &Path) -> bool {
    match storage.list(dir) {
        Ok(entries) => occupant(&entries).is_none(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Refuse a name that is taken, before all the work.
fn expect_free(storage: &dyn Storage, dir: &Path) -> Result<Vacancy> {
    let taken = |message: &str, hint: &str| {
        let message = format!("{}: cannot create a ledger: {message}", dir.display());
        Err(Error::new(ErrorKind::NotALedger, message).with_hint(hint))
    };
    match storage.list(dir) {
        Ok(entries) => match occupant(&entries) {
            None => Ok(Vacancy::EmptyFolder),
            Some(LOG_NAME) => taken("there is one already", "choose another name"),
            Some(name) => taken(
                &format!("the folder is not empty: it has `{name}`"),
                "choose another name, or a folder below",
            ),
        },
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            taken("this path or its parent is a file", "move it, or choose another name")
        }
        // Creating the folder will report any other problem.
        Err(_) => Ok(Vacancy::NoFolder),
    }
}

/// An entry that prevents the creation of a ledger in the folder. A folder with the segments of an
/// unfinished ledger has its other files, too.
fn occupant(entries: &[Entry]) -> Option<&str> {
    let is_staged =
        |entry: &Entry| entry.name == STAGED_LOG_NAME && entry.kind == EntryKind::Folder;
    let is_unfinished = entries.iter().any(is_staged);
    let is_free = |entry: &&Entry| match (entry.name.as_str(), entry.kind) {
        ("LOCK", EntryKind::File) | ("lost+found", EntryKind::Folder) => true,
        (LOG_NAME, _) => false,
        _ => is_staged(entry) || (is_unfinished && in_folder(entry)),
    };
    let mut occupants = entries.iter().filter(|entry| !is_free(entry));
    let is_ledger = |entry: &&Entry| entry.name == LOG_NAME && entry.kind == EntryKind::Folder;
    let first = occupants.clone().next();
    occupants.find(is_ledger).or(first).map(|entry| entry.name.as_str())
}

/// Publish a ledger that is durable in its staging folder under its name.
pub(crate) fn publish(
    storage: &dyn Storage,
    staging: &LedgerPaths,
    paths: &LedgerPaths,
) -> Result<()> {
    let failed = |what: &str, path: &Path, error| Error::io(what, path, error);
    let (from, to) = if staging.is_in_place() {
        (staging.log(), paths.log())
    } else {
        (staging.dir().to_owned(), paths.dir().to_owned())
    };
    let parent = to.parent().unwrap_or(Path::new(""));
    storage
        .sync_dir(staging.dir())
        .map_err(|error| failed("sync the folder", staging.dir(), error))?;
    storage.rename(&from, &to).map_err(|error| {
        // Another process may have created it first. After any other error the name may be this ledger's.
        let is_taken = !staging.is_in_place()
            && matches!(
                error.kind(),
                io::ErrorKind::AlreadyExists
                    | io::ErrorKind::DirectoryNotEmpty
                    | io::ErrorKind::NotADirectory
            );
        let taken = if is_taken { expect_free(storage, paths.dir()).err() } else { None };
        taken.unwrap_or_else(|| failed("rename the ledger", &to, error))
    })?;
    mutant!(LedgerDirEntryUnsynced => return Ok(()));
    storage.sync_dir(parent).map_err(|error| failed("sync the folder", parent, error))
}

/// Sync a folder in which a ledger is created in place.
fn sync_in_place(storage: &dyn Storage, staging: &LedgerPaths) -> Result<()> {
    if !staging.is_in_place() {
        return Ok(());
    }
    let failed = |error| Error::io("sync the folder", staging.dir(), error);
    storage.sync_dir(staging.dir()).map_err(failed)
}

/// Remove the staging folder as far as possible. The next attempt removes the rest. The caller has
/// the lock.
pub(crate) fn abort(storage: &Arc<dyn Storage>, staging: &LedgerPaths) {
    // The lock file is removed last: until then no other process starts in this folder.
    let is_cleared = clear_binding(&**storage, staging)
        .and_then(|()| clear(storage, staging))
        .and_then(|()| sync_in_place(&**storage, staging))
        .is_ok();
    if is_cleared {
        // It may not exist yet.
        let _ = storage.remove_dir(&staging.log());
        let removed = storage.remove(&staging.lock());
        if removed.is_ok() && !staging.is_in_place() {
            let _ = storage.remove_dir(staging.dir());
        }
    }
}

/// Refuse a staging folder that holds other files.
fn check_only_leftovers(storage: &Arc<dyn Storage>, staging: &LedgerPaths) -> Result<()> {
    if storage.list(staging.dir()).is_err() {
        // It does not exist, or creating it will report the problem.
        return Ok(());
    }
    if !staging.is_in_place() {
        check_only(&**storage, staging, staging.dir(), in_folder)?;
    }
    check_only(&**storage, staging, &staging.log(), in_log)?;
    check_never_opened(&**storage, staging)?;
    let snapshots = list_snapshots(&**storage, staging.dir()).unwrap_or_default();
    if let Some(unknown) = snapshots.unknown.first() {
        return Err(occupied(staging.dir(), &snapshots.folder, unknown));
    }
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
        "LOCK" | "HEAD" | ".gitignore" | BINDING_NAME | TEMPORARY_BINDING_NAME => {
            entry.kind == EntryKind::File
        }
        "log" | "blob" | "snap" => entry.kind == EntryKind::Folder,
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

/// Remove STORE.json, which only an interrupted restore leaves.
fn clear_binding(storage: &dyn Storage, staging: &LedgerPaths) -> Result<()> {
    for path in [staging.binding(), staging.temporary_binding()] {
        if storage.open(&path, Access::Read).is_ok() {
            storage
                .remove(&path)
                .map_err(|error| Error::io("clear an incomplete ledger in", &path, error))?;
        }
    }
    Ok(())
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
    let snapshots = list_snapshots(&**storage, staging.dir())?;
    let names = snapshots.names.iter().map(ToString::to_string).chain(snapshots.temporary);
    for path in names.map(|name| snapshots.folder.join(name)) {
        storage.remove(&path).map_err(|error| io(&path, error))?;
    }
    if storage.list(&snapshots.folder).is_ok() {
        let removed = storage.remove_dir(&snapshots.folder);
        removed.map_err(|error| io(&snapshots.folder, error))?;
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
