//! The folder of a ledger's snapshots: the files by their names, whatever the log says.
//!
//! Left out on purpose: whether a snapshot fits the log, which a [`super::LogReader`] says, and
//! writing one.

use std::path::{Path, PathBuf};

use crate::error::{ErrorKind, Result};
use crate::format::{SnapshotHeader, SnapshotName};
use crate::storage::Storage;

use super::beginning::is_missing;
use super::layout::Layout;
use super::snapshot_file::{SnapshotList, list_snapshots};
use super::snapshot_reader::{SnapshotReader, bad};

/// The snapshots of the ledger in a folder.
#[derive(Debug, Clone, Copy)]
pub struct SnapshotFolder<'a> {
    storage: &'a dyn Storage,
    dir: &'a Path,
}

impl<'a> SnapshotFolder<'a> {
    /// Those of the ledger in `dir`. Nothing is looked at yet.
    #[must_use]
    pub fn of(storage: &'a dyn Storage, dir: &'a Path) -> Self {
        Self { storage, dir }
    }

    /// What is in it.
    ///
    /// # Errors
    /// `Io`.
    pub fn list(self) -> Result<SnapshotList> {
        list_snapshots(self.storage, self.dir)
    }

    /// Open a snapshot, and check header, name and length.
    ///
    /// # Errors
    /// `Corrupt` with file and offset; `Unsupported`; `Io`.
    pub fn open(self, name: &SnapshotName) -> Result<SnapshotReader> {
        SnapshotReader::open(self.storage, &self.path(name))
    }

    /// What a snapshot's file says of itself; `None` if it says nothing that can be believed.
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

    /// Open the snapshot that another is based on, if it is, and check header, name and length, and that
    /// it is the one that the other says. It need not fit the log: what comes of both must.
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
                if is_it || bug!(BaseTrusted) {
                    Ok(Some(found))
                } else {
                    Err(bad(&path, 0, "it is another"))
                }
            }
            Err(error) if is_missing(&error) => Err(bad(&path, 0, "it is missing")),
            Err(error) => Err(error),
        }
    }

    fn path(self, name: &SnapshotName) -> PathBuf {
        Layout::new(self.dir).snapshots().join(name.to_string())
    }
}
