//! The writer's side of the blobs: each is durable, name and all, before a record names it.
//!
//! Invariant: a sync that failed is not tried again. What it was about is written anew.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::storage::{Access, Storage};

use super::blob::{
    BLOB_LENGTH_MAX, BlobId, BlobReader, BlobState, TEMPORARY_SUFFIX, fault, too_long,
};
use super::layout::Layout;

/// The blobs of a ledger, for its writer. Threads may share one; make no second one of a ledger.
#[derive(Debug)]
pub struct BlobStore {
    reader: BlobReader,
    /// Held while a blob is written, so that two threads never write the same file.
    known: Mutex<Known>,
}

/// What a store has come to know of its files.
#[derive(Debug, Default)]
struct Known {
    /// Folders whose own names it has made durable.
    durable: BTreeSet<PathBuf>,
    /// Blobs that were there, and of which a sync failed: one that succeeds later proves nothing,
    /// so they are written anew.
    doubtful: BTreeSet<BlobId>,
}

impl BlobStore {
    /// The store of a ledger whose lock the caller holds. What a crash left unfinished is removed.
    pub(super) fn new(storage: &Arc<dyn Storage>, layout: &Layout) -> Self {
        let reader = BlobReader::new(storage, layout);
        // Readers ignore these, and writing the same blob again replaces them: no reason to fail.
        for path in reader.list().unwrap_or_default().unfinished {
            let _ = storage.remove(&path);
        }
        Self { reader, known: Mutex::default() }
    }

    /// The same blobs, for reading.
    #[must_use]
    pub fn reader(&self) -> &BlobReader {
        &self.reader
    }

    /// Keep these bytes durably; a record may name them when this returns.
    ///
    /// # Errors
    /// `TooLarge`, `DiskFull` and `Io`: no record must name the blob. Later calls may succeed.
    pub fn put(&self, bytes: &[u8]) -> Result<BlobId> {
        let id = BlobId::of(bytes);
        if id.length > BLOB_LENGTH_MAX {
            return Err(too_long(id.length));
        }
        let mut known = self.known();
        if self.reader.check(&id) == BlobState::Intact && !known.doubtful.contains(&id) {
            self.adopt(&id, &mut known)?;
        } else {
            self.write(&id, bytes, &mut known)?;
        }
        Ok(id)
    }

    /// Make a blob that is there safe to be named by a record.
    ///
    /// # Errors
    /// `Corrupt` if it is missing or damaged; `Io`.
    pub fn keep(&self, id: &BlobId) -> Result<()> {
        let mut known = self.known();
        match self.reader.check(id) {
            BlobState::Intact if known.doubtful.contains(id) => {
                let bytes = self.reader.get(id)?;
                self.write(id, &bytes, &mut known)
            }
            BlobState::Intact => self.adopt(id, &mut known),
            state => Err(fault(&self.reader.path(id), id, &state)),
        }
    }

    /// Remove a file that [`BlobReader::list`] named and that no record needs.
    pub fn remove(&self, path: &Path) -> Result<()> {
        let storage = &self.reader.storage;
        storage.remove(path).map_err(|error| Error::io("remove the blob", path, error))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Two sets that are changed when what they say has happened: a panic leaves them true.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever made the blob may have been killed before its names were safe.
    fn adopt(&self, id: &BlobId, known: &mut Known) -> Result<()> {
        bug!(BlobAdoptedUnsynced => return Ok(()));
        let path = self.reader.path(id);
        let storage = &self.reader.storage;
        let open = storage.open(&path, Access::ReadWrite);
        let file = open.map_err(|error| Error::io("open the blob", &path, error))?;
        let synced = file.sync().map_err(|error| Error::io("sync the blob", &path, error));
        synced.and_then(|()| self.sync_names(id, known)).inspect_err(|_| {
            known.doubtful.insert(*id);
        })
    }

    fn write(&self, id: &BlobId, bytes: &[u8], known: &mut Known) -> Result<()> {
        let (storage, folder) = (&self.reader.storage, self.reader.folder(id));
        for folder in [&self.reader.layout.blob(), &folder] {
            storage
                .create_dir(folder)
                .map_err(|error| Error::io("create the folder", folder, error))?;
        }
        let path = self.reader.path(id);
        let temporary = folder.join(format!("{}{TEMPORARY_SUFFIX}", id.hex()));
        let _ = storage.remove(&temporary);
        self.fill(&temporary, bytes).inspect_err(|_| {
            // Give the room back: on a full disk this is what lets anything else go on.
            let _ = storage.remove(&temporary);
        })?;
        storage
            .rename(&temporary, &path)
            .map_err(|error| Error::io("give the blob its name", &path, error))
            .and_then(|()| self.sync_names(id, known))
            .inspect_err(|_| {
                // A later sync that succeeds would prove nothing about this name.
                let _ = storage.remove(&path);
            })?;
        known.doubtful.remove(id);
        Ok(())
    }

    fn fill(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let io = |what, error| Error::io(what, path, error);
        let file = self.reader.storage.create(path).map_err(|e| io("create the blob", e))?;
        file.write_at(bytes, 0).map_err(|error| io("write the blob", error))?;
        bug!(BlobUnsynced => return Ok(()));
        file.sync().map_err(|error| io("sync the blob", error))
    }

    /// The blob's name, and those of the folders above it that are not known to be durable yet.
    fn sync_names(&self, id: &BlobId, known: &mut Known) -> Result<()> {
        bug!(BlobNameUnsynced => return Ok(()));
        let (own, root) = (self.reader.folder(id), self.reader.layout.blob());
        let sync = |folder: &Path| {
            let synced = self.reader.storage.sync_dir(folder);
            synced.map_err(|error| Error::io("sync the folder", folder, error))
        };
        sync(&own)?;
        if !known.durable.contains(&own) {
            sync(&root)?;
            sync(self.reader.layout.dir())?;
            known.durable.insert(own);
        }
        Ok(())
    }
}
