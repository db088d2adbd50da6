//! Reading blobs: contents too large for a record, each in a file named after its hash.
//!
//! Invariants:
//! - When [`crate::log::BlobStore::put`] returns, the blob is durable, including its name: a record
//!   may refer to it.
//! - A reader returns only bytes that match the requested hash.
//! - At most [`BLOB_LENGTH_MAX`] bytes are in memory; a check reads in chunks.
//! - The ledger knows which records refer to a blob, and decides which blobs may be removed.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{ContentHasher, content_hash};
use crate::log::bytes::{hex, is_hex, len_u64, parse_hash};
use crate::log::folder::{LedgerPaths, TEMPORARY_SUFFIX};
use crate::storage::{Access, EntryKind, Storage, StorageFile, read_sectors};

/// Maximum length of a blob.
pub const BLOB_LENGTH_MAX: u64 = 16 << 20;
/// Size of a read while a blob is only checked.
const PIECE: usize = 1 << 18;

/// The name of a blob: the hash and length of its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlobId {
    /// BLAKE3 of the content.
    pub hash: [u8; 32],
    /// Length in bytes.
    pub length: u64,
}

impl BlobId {
    /// The name for some bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self { hash: content_hash(bytes), length: len_u64(bytes) }
    }

    /// The hash in hexadecimal, which is the file's name.
    #[must_use]
    pub fn hex(&self) -> String {
        hex(&self.hash)
    }
}

/// The result of checking a blob's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlobState {
    /// Length and hash match.
    Intact,
    /// The file does not exist.
    Missing,
    /// The file has this length instead.
    WrongLength(u64),
    /// The content has this hash instead.
    WrongHash([u8; 32]),
    /// The operating system cannot read it, for this reason.
    Unreadable(String),
}

impl fmt::Display for BlobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Intact => f.write_str("ok"),
            Self::Missing => f.write_str("missing"),
            Self::WrongLength(found) => write!(f, "damaged: found {found} bytes"),
            Self::WrongHash(found) => write!(f, "damaged: found blake3 {}", hex(found)),
            Self::Unreadable(why) => write!(f, "cannot be read: {why}"),
        }
    }
}

/// A blob's file as listed; its content was not checked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlobFile {
    /// The hash from its name, and the file's length.
    pub id: BlobId,
    /// The file.
    pub path: PathBuf,
}

/// The files in the folder of blobs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlobList {
    /// The blobs, by hash.
    pub blobs: Vec<BlobFile>,
    /// Blobs that are incomplete or being written.
    pub unfinished: Vec<PathBuf>,
    /// Unknown files.
    pub unknown: Vec<PathBuf>,
}

/// Read access to the blobs of a ledger.
#[derive(Debug, Clone)]
pub struct BlobReader {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) paths: LedgerPaths,
}

impl BlobReader {
    pub(crate) fn new(storage: &Arc<dyn Storage>, paths: &LedgerPaths) -> Self {
        Self { storage: storage.clone(), paths: paths.clone() }
    }

    /// The file of a blob, whether it exists or not.
    #[must_use]
    pub fn path(&self, id: &BlobId) -> PathBuf {
        self.folder(id).join(id.hex())
    }

    /// The content of a blob.
    ///
    /// # Errors
    /// `Corrupt` if it is missing or damaged, naming the file, the expected and the found content;
    /// `TooLarge` for a length that no blob has; `Io`.
    pub fn get(&self, id: &BlobId) -> Result<Vec<u8>> {
        let path = self.path(id);
        if id.length > BLOB_LENGTH_MAX {
            return Err(too_long(id.length).at_path(&path));
        }
        let fault = |state: BlobState| blob_error(&path, id, &state);
        let Some((file, found)) = self.open(&path)? else { return Err(fault(BlobState::Missing)) };
        if found != id.length {
            return Err(fault(BlobState::WrongLength(found)));
        }
        let count = usize::try_from(id.length).map_err(|_| too_long(id.length).at_path(&path))?;
        let mut bytes = vec![0; count];
        let read = read_sectors(&*file, &mut bytes, 0)
            .map_err(|error| Error::io("read the blob", &path, error))?;
        let count =
            read.complete().map_err(|error| fault(BlobState::Unreadable(error.to_string())))?;
        bytes.truncate(count);
        let hash = content_hash(&bytes);
        if hash != id.hash && !mutant!(BlobHashUnchecked) {
            return Err(fault(BlobState::WrongHash(hash)));
        }
        Ok(bytes)
    }

    /// Check a blob's file; it is read in chunks.
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

    /// The files in the folder of blobs.
    pub fn list(&self) -> Result<BlobList> {
        let mut list = BlobList::default();
        let root = self.paths.blob();
        for entry in self.entries(&root)? {
            let folder = root.join(&entry.name);
            let is_ours = entry.name.len() == 2 && is_hex(&entry.name);
            if entry.kind != EntryKind::Folder || !is_ours {
                list.unknown.push(folder);
                continue;
            }
            for file in self.entries(&folder)? {
                let path = folder.join(&file.name);
                let unfinished = file.name.strip_suffix(TEMPORARY_SUFFIX);
                let hash = parse_hash(unfinished.unwrap_or(&file.name))
                    .filter(|_| file.kind == EntryKind::File && file.name.starts_with(&entry.name));
                match (hash, unfinished) {
                    (None, _) => list.unknown.push(path),
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

    pub(crate) fn folder(&self, id: &BlobId) -> PathBuf {
        self.paths.blob().join(hex(id.hash.get(..1).unwrap_or_default()))
    }

    fn open(&self, path: &Path) -> Result<Option<(Box<dyn StorageFile>, u64)>> {
        match self.storage.open(path, Access::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("open the blob", path, error)),
            Ok(file) => {
                let length = file
                    .length()
                    .map_err(|error| Error::io("get the length of the blob", path, error))?;
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

/// The error for a missing or damaged blob.
pub(crate) fn blob_error(path: &Path, id: &BlobId, state: &BlobState) -> Error {
    let found = match state {
        BlobState::Missing => "found no such file".to_owned(),
        BlobState::WrongLength(found) => format!("found {found} bytes"),
        BlobState::WrongHash(found) => format!("found blake3 {}", hex(found)),
        BlobState::Intact | BlobState::Unreadable(_) => state.to_string(),
    };
    let message = format!(
        "blob missing or damaged: expected {} bytes of blake3 {}, {found}; the log itself is \
         intact; restore this file from a backup",
        id.length,
        id.hex()
    );
    Error::new(ErrorKind::Corrupt, message).at_path(path)
}

pub(crate) fn too_long(found: u64) -> Error {
    let message = format!(
        "output too long for a blob: expected at most {BLOB_LENGTH_MAX} bytes, found {found}; \
         store it in a file and report that file as an artifact"
    );
    Error::new(ErrorKind::TooLarge, message)
}

fn hash_of(file: &dyn StorageFile, end: u64) -> io::Result<[u8; 32]> {
    let (mut hasher, mut offset) = (ContentHasher::default(), 0);
    let mut piece = vec![0; PIECE];
    while offset < end {
        let count = read_sectors(file, &mut piece, offset)?.complete()?;
        if count == 0 {
            break;
        }
        let read = piece.get(..count).unwrap_or_default();
        hasher.update(read);
        offset += len_u64(read);
    }
    Ok(hasher.finish())
}
