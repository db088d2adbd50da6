//! Blobs: bytes that are too large for a record, each in a file that is named after its hash
//! (`format/blob.md`).
//!
//! Invariants:
//! - When [`BlobStore::put`] returns, the blob is durable, name and all: a record may name it.
//! - Bytes that a reader gets have the hash that they were asked for by.
//! - At most [`BLOB_LENGTH_MAX`] bytes are in memory; what is only checked is read in pieces.
//!
//! Left out on purpose: which records name which blobs, and so what may be removed (the log's
//! user knows).

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{ContentHasher, content_hash};
use crate::storage::{Access, EntryKind, Storage, StorageFile};

use super::build::length;
use super::layout::Layout;

/// The most bytes of a blob.
pub const BLOB_LENGTH_MAX: u64 = 16 << 20;
/// How much is read at once where a blob is only checked.
const PIECE: usize = 1 << 18;
const TEMPORARY_SUFFIX: &str = ".tmp";

/// The name of a blob: what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlobId {
    /// BLAKE3 of its bytes.
    pub hash: [u8; 32],
    /// How many bytes it has.
    pub length: u64,
}

impl BlobId {
    /// The name of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self { hash: content_hash(bytes), length: length(bytes) }
    }

    /// The hash in hexadecimal: the file's name.
    #[must_use]
    pub fn hex(&self) -> String {
        hex(&self.hash)
    }
}

/// How a blob's file is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlobState {
    /// Length and hash are right.
    Intact,
    /// There is no such file.
    Missing,
    /// The file has another length, in bytes.
    WrongLength(u64),
    /// The bytes have another hash.
    WrongHash([u8; 32]),
    /// The operating system cannot read it, and says this.
    Unreadable(String),
}

impl fmt::Display for BlobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Intact => f.write_str("ok"),
            Self::Missing => f.write_str("missing"),
            Self::WrongLength(found) => write!(f, "damaged: found {found} bytes"),
            Self::WrongHash(found) => write!(f, "damaged: found bytes of blake3 {}", hex(found)),
            Self::Unreadable(why) => write!(f, "cannot be read: {why}"),
        }
    }
}

/// A blob's file, as the folder has it: its bytes were not looked at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlobFile {
    /// The name, and the file's length in bytes.
    pub id: BlobId,
    /// The file.
    pub path: PathBuf,
}

/// What is in the folder of the blobs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlobList {
    /// The blobs, by hash.
    pub blobs: Vec<BlobFile>,
    /// Blobs that were never finished, or are being written.
    pub unfinished: Vec<PathBuf>,
    /// What does not belong there.
    pub strangers: Vec<PathBuf>,
}

/// The blobs of a ledger, for reading: nothing is written.
#[derive(Debug, Clone)]
pub struct BlobReader {
    storage: Arc<dyn Storage>,
    layout: Layout,
}

impl BlobReader {
    pub(super) fn new(storage: &Arc<dyn Storage>, layout: &Layout) -> Self {
        Self { storage: storage.clone(), layout: layout.clone() }
    }

    /// The file of that blob, whether it is there or not.
    #[must_use]
    pub fn path(&self, id: &BlobId) -> PathBuf {
        self.folder(id).join(id.hex())
    }

    /// A blob's bytes.
    ///
    /// # Errors
    /// `Corrupt`, naming the file, what was expected and what was found: missing or damaged;
    /// `TooLarge` for a length that no blob has; `Io`.
    pub fn get(&self, id: &BlobId) -> Result<Vec<u8>> {
        let path = self.path(id);
        if id.length > BLOB_LENGTH_MAX {
            return Err(too_long(id.length).at_path(&path));
        }
        let fault = |state: BlobState| fault(&path, id, &state);
        let Some((file, found)) = self.open(&path)? else { return Err(fault(BlobState::Missing)) };
        if found != id.length {
            return Err(fault(BlobState::WrongLength(found)));
        }
        let count = usize::try_from(id.length).map_err(|_| too_long(id.length).at_path(&path))?;
        let mut bytes = vec![0; count];
        let count = file
            .read_at(&mut bytes, 0)
            .map_err(|error| Error::io("read the blob", &path, error))?;
        bytes.truncate(count);
        let hash = content_hash(&bytes);
        if hash != id.hash && !bug!(BlobTrusted) {
            return Err(fault(BlobState::WrongHash(hash)));
        }
        Ok(bytes)
    }

    /// How a blob is found, read in pieces.
    #[must_use]
    pub fn check(&self, id: &BlobId) -> BlobState {
        let path = self.path(id);
        match self.open(&path) {
            Err(error) => BlobState::Unreadable(error.to_string()),
            Ok(None) => BlobState::Missing,
            Ok(Some((_, found))) if found != id.length => BlobState::WrongLength(found),
            Ok(Some((file, found))) => match hash_of(&*file, found) {
                Err(error) => BlobState::Unreadable(error.to_string()),
                Ok(hash) if hash == id.hash => BlobState::Intact,
                Ok(hash) => BlobState::WrongHash(hash),
            },
        }
    }

    /// What is in the folder.
    pub fn list(&self) -> Result<BlobList> {
        let mut list = BlobList::default();
        let root = self.layout.blob();
        for entry in self.entries(&root)? {
            let folder = root.join(&entry.name);
            let is_ours = entry.name.len() == 2 && is_hex(&entry.name);
            if entry.kind != EntryKind::Folder || !is_ours {
                list.strangers.push(folder);
                continue;
            }
            for file in self.entries(&folder)? {
                let path = folder.join(&file.name);
                let unfinished = file.name.strip_suffix(TEMPORARY_SUFFIX);
                let hash = parse(unfinished.unwrap_or(&file.name))
                    .filter(|_| file.kind == EntryKind::File && file.name.starts_with(&entry.name));
                match (hash, unfinished) {
                    (None, _) => list.strangers.push(path),
                    (Some(_), Some(_)) => list.unfinished.push(path),
                    // It may have been removed since the folder was listed.
                    (Some(hash), None) => {
                        if let Some((_, length)) = self.open(&path)? {
                            list.blobs.push(BlobFile { id: BlobId { hash, length }, path });
                        }
                    }
                }
            }
        }
        list.blobs.sort();
        Ok(list)
    }

    fn folder(&self, id: &BlobId) -> PathBuf {
        self.layout.blob().join(hex(id.hash.get(..1).unwrap_or_default()))
    }

    fn open(&self, path: &Path) -> Result<Option<(Box<dyn StorageFile>, u64)>> {
        match self.storage.open(path, Access::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("open the blob", path, error)),
            Ok(file) => {
                let length =
                    file.length().map_err(|error| Error::io("measure the blob", path, error))?;
                Ok(Some((file, length)))
            }
        }
    }

    fn entries(&self, folder: &Path) -> Result<Vec<crate::storage::Entry>> {
        match self.storage.list(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            listed => listed.map_err(|error| Error::io("list the folder", folder, error)),
        }
    }
}

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

/// A missing or damaged blob, for who asked for its bytes.
fn fault(path: &Path, id: &BlobId, state: &BlobState) -> Error {
    let found = match state {
        BlobState::Missing => "found no such file".to_owned(),
        BlobState::WrongLength(found) => format!("found {found} bytes"),
        BlobState::WrongHash(found) => format!("found blake3 {}", hex(found)),
        BlobState::Intact | BlobState::Unreadable(_) => state.to_string(),
    };
    let message = format!(
        "a blob is missing or damaged: expected {} bytes of blake3 {}, {found}; the log is whole \
         without it: put the file back from a copy if there is one",
        id.length,
        id.hex()
    );
    Error::new(ErrorKind::Corrupt, message).at_path(path)
}

fn too_long(found: u64) -> Error {
    let message = format!(
        "an output too long for a blob: expected at most {BLOB_LENGTH_MAX} bytes, found {found}; \
         put it into a file and name that as an artifact"
    );
    Error::new(ErrorKind::TooLarge, message)
}

fn hash_of(file: &dyn StorageFile, end: u64) -> io::Result<[u8; 32]> {
    let (mut hasher, mut offset) = (ContentHasher::default(), 0);
    let mut piece = vec![0; PIECE];
    while offset < end {
        let count = file.read_at(&mut piece, offset)?;
        if count == 0 {
            break;
        }
        let read = piece.get(..count).unwrap_or_default();
        hasher.update(read);
        offset += length(read);
    }
    Ok(hasher.finish())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'))
}

/// The hash that 64 lower-case hexadecimal digits spell.
pub(super) fn parse(text: &str) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    if text.len() != 64 || !is_hex(text) {
        return None;
    }
    for (byte, place) in hash.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(text.get(place..place + 2)?, 16).ok()?;
    }
    Some(hash)
}
