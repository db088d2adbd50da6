//! The folder in which a ledger is made before it has its name.
//!
//! Invariant: nothing is removed from a folder that holds anything which making a ledger does not
//! leave behind. Such a folder is somebody's, whatever it is called. A ledger that a writer had open
//! is such a thing: making one ends with its name, and the first opening comes after that.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::SegmentName;
use crate::storage::{Access, Entry, EntryKind, LockGuard, Storage};

use super::blob::BlobReader;
use super::head_file::read_head;
use super::layout::{Layout, is_temporary};
use super::open::take_lock;

/// `writer_epoch` of a ledger that was made and not yet opened.
pub(super) const EPOCH_OF_MAKING: u64 = 0;

/// Make the folder in which the ledger `layout` is made, hold its lock, and empty it.
///
/// # Errors
/// `Io` if there is something of the ledger's name already, or another call fails; `NotALedger`
/// if somebody else's things are in the way; `Locked`.
pub(super) fn begin(
    storage: &Arc<dyn Storage>,
    layout: &Layout,
    holder: &str,
) -> Result<(Layout, Box<dyn LockGuard>)> {
    let draft = layout.under_construction();
    let io = |what: &str, path: &Path, error| Error::io(what, path, error);
    expect_free(&**storage, layout.dir())?;
    expect_ours(storage, &draft)?;
    storage.create_dir(draft.dir()).map_err(|error| io("create the folder", draft.dir(), error))?;
    let lock = take_lock(&**storage, &draft, holder).inspect_err(|error| {
        // A folder that holds anything stays. One that somebody else has just made may go: that
        // one's own lock then tells.
        if error.kind() != ErrorKind::Locked {
            let _ = storage.remove_dir(draft.dir());
        }
    })?;
    let create = |path: &Path| storage.create_dir(path);
    clear(storage, &draft)
        .and_then(|()| {
            create(&draft.log()).map_err(|error| io("create the folder", &draft.log(), error))
        })
        .inspect_err(|_| give_up(storage, &draft))?;
    Ok((draft, lock))
}

/// Refuse a name that something has already. The rename at the end would fail, after all the work.
fn expect_free(storage: &dyn Storage, dir: &Path) -> Result<()> {
    match storage.list(dir) {
        Ok(_) => Err(Error::io("make a ledger here", dir, io::ErrorKind::AlreadyExists.into())),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            let message = "a ledger cannot be made here: this, or what should be the folder above, is \
                           a file; move it away, or choose another name for the ledger";
            Err(Error::new(ErrorKind::NotALedger, message).at_path(dir))
        }
        // Whatever else is wrong, making the folder will say.
        Err(_) => Ok(()),
    }
}

/// Give a ledger that is durable in its draft its name.
pub(super) fn name(storage: &dyn Storage, draft: &Layout, layout: &Layout) -> Result<()> {
    let io = |what: &str, path: &Path, error| Error::io(what, path, error);
    let parent = layout.dir().parent().unwrap_or(Path::new(""));
    storage.sync_dir(draft.dir()).map_err(|error| io("sync the folder", draft.dir(), error))?;
    storage
        .rename(draft.dir(), layout.dir())
        .map_err(|error| io("give the ledger its name", layout.dir(), error))?;
    bug!(LedgerNameUnsynced => return Ok(()));
    storage.sync_dir(parent).map_err(|error| io("sync the folder", parent, error))
}

/// Remove a draft that will not become a ledger, as far as it can be done: what is left has no name,
/// and is cleared by whoever tries again. Only called by who holds its lock.
pub(super) fn give_up(storage: &Arc<dyn Storage>, draft: &Layout) {
    // Its lock goes last: until then nobody else begins in this folder.
    if clear(storage, draft).is_ok() {
        // It may not have been made yet.
        let _ = storage.remove_dir(&draft.log());
        let _ = storage.remove(&draft.lock()).and_then(|()| storage.remove_dir(draft.dir()));
    }
}

/// Refuse a folder that holds what is not ours.
fn expect_ours(storage: &Arc<dyn Storage>, draft: &Layout) -> Result<()> {
    if storage.list(draft.dir()).is_err() {
        // It is not there, or making it will say what is wrong.
        return Ok(());
    }
    expect_only(&**storage, draft, draft.dir(), in_folder)?;
    expect_only(&**storage, draft, &draft.log(), in_log)?;
    expect_never_open(&**storage, draft)?;
    let blobs = BlobReader::new(storage, draft).list().unwrap_or_default();
    match blobs.strangers.first() {
        Some(stranger) => {
            let name = stranger.file_name().unwrap_or_default().to_string_lossy();
            let folder = stranger.parent().unwrap_or(draft.dir());
            Err(in_the_way(draft.dir(), folder, &name))
        }
        None => Ok(()),
    }
}

/// Refuse a ledger: somebody put it there. Every opening counts the epoch up from that of the making.
fn expect_never_open(storage: &dyn Storage, draft: &Layout) -> Result<()> {
    let view = read_head(storage, draft)?;
    match view.newest() {
        Some((_, head)) if head.writer_epoch > EPOCH_OF_MAKING => {
            let message = format!(
                "a ledger is made in a folder of this name first, but this one is a ledger that was \
                 in use, up to record {}; move it away, or choose another name for the new one",
                head.durable_seq
            );
            Err(Error::new(ErrorKind::NotALedger, message).at_path(draft.dir()))
        }
        _ => Ok(()),
    }
}

fn expect_only(
    storage: &dyn Storage,
    draft: &Layout,
    folder: &Path,
    is_ours: fn(&Entry) -> bool,
) -> Result<()> {
    // A folder that cannot be listed is not there, or making it will say why.
    let entries = storage.list(folder).unwrap_or_default();
    match entries.iter().find(|entry| !is_ours(entry)) {
        Some(stranger) => Err(in_the_way(draft.dir(), folder, &stranger.name)),
        None => Ok(()),
    }
}

fn in_folder(entry: &Entry) -> bool {
    match entry.name.as_str() {
        "LOCK" | "HEAD" => entry.kind == EntryKind::File,
        "log" | "blob" => entry.kind == EntryKind::Folder,
        _ => false,
    }
}

fn in_log(entry: &Entry) -> bool {
    let is_segment = SegmentName::parse(&entry.name).is_some() || is_temporary(&entry.name);
    entry.kind == EntryKind::File && is_segment
}

fn in_the_way(draft: &Path, folder: &Path, name: &str) -> Error {
    let message = format!(
        "a ledger is made in a folder of this name first, but this one holds {}, which belongs to \
         somebody else; move it away, or choose another name for the ledger",
        folder.join(name).display()
    );
    Error::new(ErrorKind::NotALedger, message).at_path(draft)
}

/// Remove what an interrupted creation left. Only called under the lock of a folder that never
/// got its name.
fn clear(storage: &Arc<dyn Storage>, draft: &Layout) -> Result<()> {
    let io = |path: &Path, error| Error::io("clear an unfinished creation in", path, error);
    if storage.open(&draft.head(), Access::Read).is_ok() {
        storage.remove(&draft.head()).map_err(|error| io(&draft.head(), error))?;
    }
    for entry in storage.list(&draft.log()).unwrap_or_default() {
        let path = draft.log().join(&entry.name);
        storage.remove(&path).map_err(|error| io(&path, error))?;
    }
    let blobs = BlobReader::new(storage, draft).list()?;
    let blobs = blobs.blobs.into_iter().map(|blob| blob.path).chain(blobs.unfinished);
    for path in blobs {
        storage.remove(&path).map_err(|error| io(&path, error))?;
    }
    let Ok(folders) = storage.list(&draft.blob()) else { return Ok(()) };
    for folder in folders {
        let path = draft.blob().join(&folder.name);
        storage.remove_dir(&path).map_err(|error| io(&path, error))?;
    }
    storage.remove_dir(&draft.blob()).map_err(|error| io(&draft.blob(), error))
}
