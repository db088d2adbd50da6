//! The folder in which a ledger is made before it has its name.
//!
//! Invariant: nothing is removed from a folder that holds anything which making a ledger does not
//! leave behind. Such a folder is somebody's, whatever it is called.

use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::format::SegmentName;
use crate::storage::{Access, Entry, EntryKind, Storage};

use super::layout::{Layout, is_temporary};

/// Refuse a folder that holds what is not ours.
pub(super) fn expect_ours(storage: &dyn Storage, draft: &Layout) -> Result<()> {
    let places: [(_, fn(&Entry) -> bool); 2] =
        [(draft.dir().to_owned(), in_folder), (draft.log(), in_log)];
    for (folder, is_ours) in places {
        // A folder that cannot be listed is not there, or making it will say why.
        let entries = storage.list(&folder).unwrap_or_default();
        if let Some(stranger) = entries.iter().find(|entry| !is_ours(entry)) {
            return Err(in_the_way(draft.dir(), &folder, &stranger.name));
        }
    }
    Ok(())
}

fn in_folder(entry: &Entry) -> bool {
    match entry.name.as_str() {
        "LOCK" | "HEAD" => entry.kind == EntryKind::File,
        "log" => entry.kind == EntryKind::Folder,
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
pub(super) fn clear(storage: &dyn Storage, draft: &Layout) -> Result<()> {
    let io = |path: &Path, error| Error::io("clear an unfinished creation in", path, error);
    if storage.open(&draft.head(), Access::Read).is_ok() {
        storage.remove(&draft.head()).map_err(|error| io(&draft.head(), error))?;
    }
    let Ok(entries) = storage.list(&draft.log()) else { return Ok(()) };
    for entry in entries {
        let path = draft.log().join(&entry.name);
        storage.remove(&path).map_err(|error| io(&path, error))?;
    }
    Ok(())
}
