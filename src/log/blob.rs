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

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{ContentHasher, content_hash};
use crate::storage::{Access, EntryKind, Storage, StorageFile};

use super::build::length;
use super::layout::Layout;

/// The most bytes of a blob.
pub const BLOB_LENGTH_MAX: u64 = 16 << 20;
/// How much is read at once where a blob is only checked.
const PIECE: usize = 1 << 18;
pub(super) const TEMPORARY_SUFFIX: &str = ".tmp";

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
    pub(super) storage: Arc<dyn Storage>,
    pub(super) layout: Layout,
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

    pub(super) fn folder(&self, id: &BlobId) -> PathBuf {
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

/// A missing or damaged blob, for who asked for its bytes.
pub(super) fn fault(path: &Path, id: &BlobId, state: &BlobState) -> Error {
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

pub(super) fn too_long(found: u64) -> Error {
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
