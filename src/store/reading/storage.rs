//! The files of a ledger whose log is in a store, as a read-only file system.
//!
//! Segments and HEAD were put together when the store was read; a blob is read when it is asked for.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::storage::{
    Access, Entry, EntryKind, FilesystemKind, LockOutcome, Map, Storage, StorageFile,
};
use crate::store::folder::StoreClient;

/// The files of a ledger in a store. The path of the ledger is that of their folder.
#[derive(Debug)]
pub struct StoreStorage {
    root: PathBuf,
    client: StoreClient,
    base: Arc<dyn Storage>,
    /// The files by their path in the folder.
    files: BTreeMap<String, Content>,
    /// Segments are being sealed.
    pub(super) is_writable: bool,
}

/// Where the bytes of a file are.
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
            is_writable: false,
        }
    }

    pub(super) fn add(&mut self, name: String, content: Content) {
        self.files.insert(name, content);
    }

    /// The name of a path in the folder; `""` for the folder itself.
    fn name<'a>(&self, path: &'a Path) -> io::Result<&'a str> {
        let inner = path.strip_prefix(&self.root).ok().and_then(Path::to_str);
        inner.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

fn read_only<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl Storage for StoreStorage {
    fn create_dir(&self, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        let folder = self.name(path)?;
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let inside = self.files.keys().filter_map(|name| name.strip_prefix(&prefix));
        let mut entries: Vec<_> = inside
            .map(|rest| match rest.split_once('/') {
                Some((name, _)) => Entry { name: name.to_owned(), kind: EntryKind::Folder },
                None => Entry { name: rest.to_owned(), kind: EntryKind::File },
            })
            .collect();
        entries.sort();
        entries.dedup();
        if entries.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(entries) }
    }

    fn create(&self, _: &Path) -> io::Result<Box<dyn StorageFile>> {
        read_only()
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn StorageFile>> {
        let is_writable = access == Access::ReadWrite;
        if is_writable && !self.is_writable {
            return read_only();
        }
        let content = self.files.get(self.name(path)?).ok_or(io::ErrorKind::NotFound)?;
        let file: Box<dyn StorageFile> = match content.clone() {
            Content::File(file) => Box::new(OpenFile { file, is_writable }),
            Content::Object(name, length) => {
                let (client, bytes) = (self.client.clone(), OnceLock::new());
                Box::new(OpenObject { client, name, length, bytes })
            }
        };
        Ok(file)
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn remove_dir(&self, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn lock(&self, _: &Path, _: &str) -> io::Result<LockOutcome> {
        read_only()
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
        let mut unclear = 0;
        let found = loop {
            match self.client.objects().get(&self.name, None) {
                Ok(found) => break found,
                Err(why) => {
                    unclear += 1;
                    if !(self.client.retry())(unclear) {
                        let message = format!("the store does not answer: {why}");
                        return Err(io::Error::new(io::ErrorKind::HostUnreachable, message));
                    }
                }
            }
        };
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

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        read_only()
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_length(&self, _: u64) -> io::Result<()> {
        read_only()
    }

    fn make_read_only(&self) -> io::Result<()> {
        Ok(())
    }

    fn map(&self) -> io::Result<Map> {
        Ok(self.bytes()?.to_vec().into())
    }
}
