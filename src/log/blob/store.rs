//! Writing blobs: each is durable, including its name, before a record may refer to it.
//!
//! A failed sync is never retried: the blob is written again instead.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, ErrorKind, Result};
use crate::log::folder::{LedgerPaths, TEMPORARY_SUFFIX};
use crate::log::options::Keeper;
use crate::storage::{Access, Storage};

use super::reader::{BLOB_LENGTH_MAX, BlobId, BlobReader, BlobState, blob_error, too_long};

/// Write access to the blobs of a ledger. Threads may share one store; do not create two for one
/// ledger.
#[derive(Debug)]
pub struct BlobStore {
    reader: BlobReader,
    /// Has each blob before a record refers to it.
    keeper: Option<Arc<dyn Keeper>>,
    /// Held while a blob is written, so that two threads never write the same file.
    state: Mutex<StoreState>,
}

/// The files with known or unknown durability.
#[derive(Debug, Default)]
struct StoreState {
    /// Folders whose directory entries are known to be durable.
    durable: BTreeSet<PathBuf>,
    /// Existing blobs for which a sync failed. A later success proves nothing, so they are written
    /// again.
    suspect: BTreeSet<BlobId>,
    /// Blobs that the keeper has.
    kept: BTreeSet<BlobId>,
}

impl BlobStore {
    /// The store of a ledger; the caller has its lock. Leftovers of a crash are removed.
    pub(crate) fn new(
        storage: &Arc<dyn Storage>,
        paths: &LedgerPaths,
        keeper: Option<Arc<dyn Keeper>>,
    ) -> Self {
        let reader = BlobReader::new(storage, paths);
        // Readers ignore them and the next write replaces them, so an error does not matter.
        for path in reader.list().unwrap_or_default().unfinished {
            let _ = storage.remove(&path);
        }
        Self { reader, keeper, state: Mutex::default() }
    }

    /// Read access to the same blobs.
    #[must_use]
    pub fn reader(&self) -> &BlobReader {
        &self.reader
    }

    /// Store bytes durably. When this returns, a record may refer to the blob.
    ///
    /// # Errors
    /// `TooLarge`, `DiskFull` and `Io`: no record may refer to the blob. Later calls may succeed.
    pub fn put(&self, bytes: &[u8]) -> Result<BlobId> {
        let id = BlobId::of(bytes);
        if id.length > BLOB_LENGTH_MAX {
            return Err(too_long(id.length));
        }
        let mut state = self.state();
        if self.reader.check(&id) == BlobState::Intact && !state.suspect.contains(&id) {
            self.adopt(&id, &mut state)?;
        } else {
            self.write(&id, bytes, &mut state)?;
        }
        self.keep(&id, || Ok(bytes.to_vec()), &mut state)?;
        Ok(id)
    }

    /// Make an existing blob durable, so that a record may refer to it.
    ///
    /// # Errors
    /// `Corrupt` if it is missing or damaged; `Io`.
    pub fn confirm(&self, id: &BlobId) -> Result<()> {
        let mut state = self.state();
        match self.reader.check(id) {
            BlobState::Intact if state.suspect.contains(id) => {
                let bytes = self.reader.get(id)?;
                self.write(id, &bytes, &mut state)?;
            }
            BlobState::Intact => self.adopt(id, &mut state)?,
            state => return Err(blob_error(&self.reader.path(id), id, &state)),
        }
        self.keep(id, || self.reader.get(id), &mut state)
    }

    /// Give a blob to the keeper, if there is one.
    fn keep(
        &self,
        id: &BlobId,
        bytes: impl FnOnce() -> Result<Vec<u8>>,
        state: &mut StoreState,
    ) -> Result<()> {
        let Some(keeper) = &self.keeper else { return Ok(()) };
        if state.kept.contains(id) || mutant!(BlobNotKept) {
            return Ok(());
        }
        keeper.keep_blob(&id.hex(), &bytes()?).map_err(|why| {
            // No record refers to it, so nothing of the request is in the log.
            let message = format!("nothing was recorded: a large value cannot be kept: {why}");
            Error::new(ErrorKind::Io, message).with_hint("send the request again")
        })?;
        state.kept.insert(*id);
        Ok(())
    }

    /// Remove a file from the list of [`BlobReader::list`] to which no record refers.
    pub fn remove(&self, path: &Path) -> Result<()> {
        let storage = &self.reader.storage;
        storage.remove(path).map_err(|error| Error::io("remove the blob", path, error))
    }

    fn state(&self) -> MutexGuard<'_, StoreState> {
        // Each set is updated only after the I/O that it describes succeeded, so a panic leaves
        // both valid.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process that wrote the blob may have been killed before its name was durable.
    fn adopt(&self, id: &BlobId, state: &mut StoreState) -> Result<()> {
        mutant!(ExistingBlobUnsynced => return Ok(()));
        let path = self.reader.path(id);
        let storage = &self.reader.storage;
        let open = storage.open(&path, Access::ReadWrite);
        let file = open.map_err(|error| Error::io("open the blob", &path, error))?;
        let synced = file.sync().map_err(|error| Error::io("sync the blob", &path, error));
        synced.and_then(|()| self.sync_names(id, state)).inspect_err(|_| {
            state.suspect.insert(*id);
        })
    }

    fn write(&self, id: &BlobId, bytes: &[u8], state: &mut StoreState) -> Result<()> {
        let (storage, folder) = (&self.reader.storage, self.reader.folder(id));
        for folder in [&self.reader.paths.blob(), &folder] {
            storage
                .create_dir(folder)
                .map_err(|error| Error::io("create the folder", folder, error))?;
        }
        let path = self.reader.path(id);
        let temporary = folder.join(format!("{}{TEMPORARY_SUFFIX}", id.hex()));
        let _ = storage.remove(&temporary);
        self.fill(&temporary, bytes).inspect_err(|_| {
            // Free the disk space: otherwise nothing can continue on a full disk.
            let _ = storage.remove(&temporary);
        })?;
        storage
            .rename(&temporary, &path)
            .map_err(|error| Error::io("rename the blob", &path, error))
            .and_then(|()| self.sync_names(id, state))
            .inspect_err(|_| {
                // A later sync that succeeds would prove nothing about this name.
                let _ = storage.remove(&path);
            })?;
        state.suspect.remove(id);
        Ok(())
    }

    fn fill(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let io = |what, error| Error::io(what, path, error);
        let file = self.reader.storage.create(path).map_err(|e| io("create the blob", e))?;
        file.write_at(bytes, 0).map_err(|error| io("write the blob", error))?;
        mutant!(BlobUnsynced => return Ok(()));
        file.sync().map_err(|error| io("sync the blob", error))
    }

    /// Sync the blob's name, and those of the folders above it that are not known to be durable.
    fn sync_names(&self, id: &BlobId, state: &mut StoreState) -> Result<()> {
        mutant!(BlobDirEntryUnsynced => return Ok(()));
        let (own, root) = (self.reader.folder(id), self.reader.paths.blob());
        let sync = |folder: &Path| {
            let synced = self.reader.storage.sync_dir(folder);
            synced.map_err(|error| Error::io("sync the folder", folder, error))
        };
        sync(&own)?;
        if !state.durable.contains(&own) {
            sync(&root)?;
            sync(self.reader.paths.dir())?;
            state.durable.insert(own);
        }
        Ok(())
    }
}
