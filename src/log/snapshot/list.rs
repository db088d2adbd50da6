//! The files in a ledger's folder of snapshots.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::error::{Error, Result};
use crate::format::SnapshotName;
use crate::log::folder::{LedgerPaths, TEMPORARY_SUFFIX};
use crate::storage::{EntryKind, Storage};

/// The files in a ledger's folder of snapshots.
#[derive(Debug, Clone, Default)]
pub struct SnapshotList {
    /// The folder.
    pub folder: PathBuf,
    /// Files that are named like snapshots, oldest record first.
    pub names: Vec<SnapshotName>,
    /// Incomplete files, removed when the next snapshot is written.
    pub temporary: Vec<String>,
    /// Names of unknown files.
    pub unknown: Vec<String>,
}

/// List the folder of snapshots of the ledger in `dir`; empty if there is none.
///
/// # Errors
/// `Io`.
pub fn list_snapshots(storage: &dyn Storage, dir: &Path) -> Result<SnapshotList> {
    let folder = LedgerPaths::new(dir).snapshots();
    let entries = match storage.list(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(Error::io("list the folder", &folder, error)),
    };
    let mut list = SnapshotList { folder, ..SnapshotList::default() };
    for entry in entries {
        let name = SnapshotName::parse(&entry.name).filter(|_| entry.kind == EntryKind::File);
        let is_temporary = || {
            let name = entry.name.strip_suffix(TEMPORARY_SUFFIX).and_then(SnapshotName::parse);
            name.is_some() && entry.kind == EntryKind::File
        };
        match name {
            Some(name) => list.names.push(name),
            None if is_temporary() => list.temporary.push(entry.name),
            None => list.unknown.push(entry.name),
        }
    }
    list.names.sort_unstable();
    Ok(list)
}

/// The last list that a reader has read.
pub(crate) type SnapshotListCache = Arc<Mutex<Option<Arc<SnapshotList>>>>;
