//! The files of a ledger in a store, as a read-only file system.
//!
//! Segments and HEAD are assembled when the store is read, or read in blocks when their bytes are
//! needed, like snapshots. Blobs are read on demand.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::storage::{
    Access, Entry, FilesystemKind, IndexList, LockOutcome, Map, Storage, StorageFile, entries_of,
    read_only, refuse_changes, refuse_writes,
};
use crate::store::derived::ANCHOR_SUFFIX;
use crate::store::derived::SegmentKeys;
use crate::store::folder::StoreClient;
use crate::store::name::{BLOBS, SNAPSHOTS};
use crate::store::objects::ListedObject;

use super::answer::answer;
use super::blocks::{BlockFile, Blocks};

/// The files of a ledger in a store. The path of the ledger is that of their folder.
#[derive(Debug)]
pub struct StoreStorage {
    root: PathBuf,
    client: StoreClient,
    base: Arc<dyn Storage>,
    /// The files by their path in the folder, except blobs and snapshots.
    files: BTreeMap<String, Content>,
    /// The blobs, once they are listed.
    blobs: OnceLock<BTreeMap<String, Content>>,
    /// The snapshots, once they are listed.
    snapshots: OnceLock<BTreeMap<String, Content>>,
    /// The known content of the indexes of sealed segments, by their path in the folder.
    keys: BTreeMap<String, SegmentKeys>,
    /// Segments are being sealed.
    pub(super) is_writable: bool,
}

/// The place of a file's bytes.
#[derive(Debug, Clone)]
pub(super) enum Content {
    /// Here.
    File(Arc<dyn StorageFile>),
    /// In an object of this name and length.
    Object(String, u64),
}

impl StoreStorage {
    pub(super) fn new(root: &Path, client: &StoreClient, base: &Arc<dyn Storage>) -> Self {
        Self {
            root: root.to_owned(),
            client: client.clone(),
            base: base.clone(),
            files: BTreeMap::new(),
            blobs: OnceLock::new(),
            snapshots: OnceLock::new(),
            keys: BTreeMap::new(),
            is_writable: false,
        }
    }

    pub(super) fn add(&mut self, name: String, content: Content) {
        self.files.insert(name, content);
    }

    /// Set the content of a segment's index.
    pub(super) fn add_keys(&mut self, name: String, keys: SegmentKeys) {
        self.keys.insert(name, keys);
    }

    /// List the blobs now. Otherwise they are listed when the first one is needed.
    pub(super) fn list_blobs(&self) -> io::Result<&BTreeMap<String, Content>> {
        if let Some(blobs) = self.blobs.get() {
            return Ok(blobs);
        }
        let listing = answer(&self.client, || self.client.objects().list(BLOBS))?;
        Ok(self.blobs.get_or_init(|| listing.iter().filter_map(blob).collect()))
    }

    /// List the snapshots now. Otherwise they are listed when the first one is needed.
    pub(super) fn list_snapshots(&self) -> io::Result<&BTreeMap<String, Content>> {
        if let Some(snapshots) = self.snapshots.get() {
            return Ok(snapshots);
        }
        let listing = answer(&self.client, || self.client.objects().list(SNAPSHOTS))?;
        let blocks = Arc::new(Blocks::new(&self.client));
        let mut files = BTreeMap::new();
        for is_anchor in [false, true] {
            for listed in &listing {
                let name = listed.name.strip_suffix(ANCHOR_SUFFIX);
                if name.is_some() == is_anchor {
                    let file = BlockFile::new(&blocks, &listed.name, listed.length);
                    let name = name.unwrap_or(&listed.name).to_owned();
                    // An anchor has the same bytes, and stays.
                    files.insert(name, Content::File(Arc::new(file)));
                }
            }
        }
        Ok(self.snapshots.get_or_init(|| files))
    }

    /// The files with this prefix of their path.
    fn files(&self, name: &str) -> io::Result<&BTreeMap<String, Content>> {
        match name {
            name if name.starts_with(BLOBS) => self.list_blobs(),
            name if name.starts_with(SNAPSHOTS) => self.list_snapshots(),
            _ => Ok(&self.files),
        }
    }

    /// A file of the folder.
    fn content(&self, name: &str) -> io::Result<Content> {
        let found = self.files(name)?.get(name);
        found.cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The name of a path in the folder; `""` for the folder itself.
    fn name<'a>(&self, path: &'a Path) -> io::Result<&'a str> {
        let inner = path.strip_prefix(&self.root).ok().and_then(Path::to_str);
        inner.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// A blob by its path in the folder.
fn blob(listed: &ListedObject) -> Option<(String, Content)> {
    let hash = listed.name.strip_prefix(BLOBS).filter(|hash| hash.len() == 64)?;
    let content = Content::Object(listed.name.clone(), listed.length);
    Some((format!("{BLOBS}{}/{hash}", hash.get(..2)?), content))
}

impl Storage for StoreStorage {
    refuse_changes!();

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        let folder = self.name(path)?;
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let files = self.files(&prefix)?;
        // These folders exist even before they are listed.
        let folders = [BLOBS, SNAPSHOTS];
        let own = folders.into_iter().filter(|_| prefix.is_empty());
        let names = files.keys().map(String::as_str).chain(own);
        let inside = names.filter_map(|name| name.strip_prefix(&prefix));
        let entries = entries_of(inside);
        let is_missing = entries.is_empty() && !folders.contains(&prefix.as_str());
        if is_missing { Err(io::ErrorKind::NotFound.into()) } else { Ok(entries) }
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn StorageFile>> {
        let is_writable = access == Access::ReadWrite;
        if is_writable && !self.is_writable {
            return read_only();
        }
        let file: Box<dyn StorageFile> = match self.content(self.name(path)?)? {
            Content::File(file) => Box::new(OpenFile { file, is_writable }),
            Content::Object(name, length) => {
                let (client, bytes) = (self.client.clone(), OnceLock::new());
                Box::new(OpenObject { client, name, length, bytes })
            }
        };
        Ok(file)
    }

    fn has_list(&self, path: &Path, list: IndexList) -> Option<bool> {
        let keys = self.keys.get(self.name(path).ok()?)?;
        match list {
            IndexList::Kind(kind) => Some(keys.has_kind(kind)),
            IndexList::Stream { stream, rule } => keys.has_stream(stream, rule),
        }
    }

    fn filesystem_kind(&self, _: &Path) -> io::Result<FilesystemKind> {
        Ok(FilesystemKind::Local)
    }

    fn process(&self) -> u32 {
        self.base.process()
    }
}

/// A file that is here.
#[derive(Debug)]
struct OpenFile {
    file: Arc<dyn StorageFile>,
    is_writable: bool,
}

impl StorageFile for OpenFile {
    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.is_writable { self.file.write_at(bytes, offset) } else { read_only() }
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        if self.is_writable { self.file.set_length(length) } else { read_only() }
    }

    fn make_read_only(&self) -> io::Result<()> {
        Ok(())
    }

    fn map(&self) -> io::Result<Map> {
        self.file.map()
    }
}

/// An object, read at once when the first byte of it is needed.
#[derive(Debug)]
struct OpenObject {
    client: StoreClient,
    name: String,
    length: u64,
    bytes: OnceLock<Vec<u8>>,
}

impl OpenObject {
    fn bytes(&self) -> io::Result<&[u8]> {
        if let Some(bytes) = self.bytes.get() {
            return Ok(bytes.as_slice());
        }
        let objects = self.client.objects();
        let found = answer(&self.client, || objects.get(&self.name, None))?;
        let found = found.ok_or(io::ErrorKind::NotFound)?;
        Ok(self.bytes.get_or_init(|| found.bytes).as_slice())
    }
}

impl StorageFile for OpenObject {
    fn length(&self) -> io::Result<u64> {
        Ok(self.length)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.bytes()?.get(start..).unwrap_or_default();
        let rest = rest.get(..buffer.len()).unwrap_or(rest);
        if let Some(buffer) = buffer.get_mut(..rest.len()) {
            buffer.copy_from_slice(rest);
        }
        Ok(rest.len())
    }

    refuse_writes!();

    fn map(&self) -> io::Result<Map> {
        Ok(self.bytes()?.to_vec().into())
    }
}
