//! The snapshots in a ledger's folder, addressed by name. Whether one belongs to the log is checked
//! by [`crate::log::LogReader`].

use std::path::{Path, PathBuf};

use crate::error::{ErrorKind, Result};
use crate::format::{SnapshotHeader, SnapshotName};
use crate::log::errors::is_missing;
use crate::log::folder::LedgerPaths;
use crate::storage::Storage;

use super::list::{SnapshotList, list_snapshots};
use super::reader::{SnapshotReader, damaged_snapshot};

/// The folder of a ledger's snapshots.
#[derive(Debug, Clone, Copy)]
pub struct SnapshotFolder<'a> {
    storage: &'a dyn Storage,
    dir: &'a Path,
}

impl<'a> SnapshotFolder<'a> {
    /// The snapshots of the ledger in `dir`. Nothing is read yet.
    #[must_use]
    pub fn of(storage: &'a dyn Storage, dir: &'a Path) -> Self {
        Self { storage, dir }
    }

    /// The files in the folder.
    ///
    /// # Errors
    /// `Io`.
    pub fn list(self) -> Result<SnapshotList> {
        list_snapshots(self.storage, self.dir)
    }

    /// Open a snapshot; check its header, name and length.
    ///
    /// # Errors
    /// `Corrupt` with file and offset; `Unsupported`; `Io`.
    pub fn open(self, name: &SnapshotName) -> Result<SnapshotReader> {
        SnapshotReader::open(self.storage, &self.path(name))
    }

    /// The header of a snapshot; `None` if it is invalid.
    ///
    /// # Errors
    /// `Io`.
    pub fn header(self, name: &SnapshotName) -> Result<Option<SnapshotHeader>> {
        match self.open(name) {
            Ok(file) => Ok(Some(file.header().clone())),
            Err(error) if error.kind() == ErrorKind::Io => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Open the base of a snapshot, if it has one; check header, name and length, and that it is
    /// the named base. A base need not match the log; the state that results from both must.
    ///
    /// # Errors
    /// `Corrupt` with its file and offset; `Unsupported`; `Io`.
    pub fn open_base(self, of: &SnapshotHeader) -> Result<Option<SnapshotReader>> {
        let Some((base, name)) = of.base.zip(of.base_name()) else { return Ok(None) };
        let path = self.path(&name);
        match SnapshotReader::open(self.storage, &path) {
            Ok(found) => {
                let SnapshotHeader { ledger, genesis, state_hash, .. } = *found.header();
                let expected = (of.ledger, of.genesis, base.state_hash);
                let is_it = (ledger, genesis, state_hash) == expected;
                if is_it || mutant!(BaseSnapshotUnchecked) {
                    Ok(Some(found))
                } else {
                    Err(damaged_snapshot(&path, 0, "the base is another snapshot"))
                }
            }
            Err(error) if is_missing(&error) => {
                Err(damaged_snapshot(&path, 0, "the base is missing"))
            }
            Err(error) => Err(error),
        }
    }

    fn path(self, name: &SnapshotName) -> PathBuf {
        LedgerPaths::new(self.dir).snapshots().join(name.to_string())
    }
}
