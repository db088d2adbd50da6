//! Archives: the files of a tar file as a file system that can only be read, and writing such a
//! file. The only place that names `tar`.
//!
//! Invariants:
//! - Every byte of the tar file that is not a file's is the one that the writer below would have
//!   written: an archive in which any other byte differs is refused.
//! - Nothing is unpacked, and nothing is written but by [`ArchiveWriter`].

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Access, Entry, EntryKind, Locking, Map, Medium, Storage, StorageFile};

/// Files in a tar file are padded to multiples of this.
const BLOCK: u64 = 512;
/// Two blocks of zeros end a tar file.
const END: u64 = 2 * BLOCK;
/// How much is read or written at once.
const PIECE: usize = 1 << 20;

/// The files of an archive. Its own path is that of their folder.
#[derive(Debug)]
pub struct ArchiveStorage {
    base: Arc<dyn Storage>,
    path: PathBuf,
    file: Arc<dyn StorageFile>,
    /// Where each file starts, and its length, by its path in the archive.
    files: BTreeMap<String, (u64, u64)>,
}

impl ArchiveStorage {
    /// Look at the tar file in that place.
    ///
    /// # Errors
    /// What the disk says; `Unsupported` for a file that is no archive at all, `InvalidData` for one
    /// that is not in the only form of an archive. `first` is the name of an archive's first file.
    pub fn open(base: &Arc<dyn Storage>, path: &Path, first: &str) -> io::Result<Self> {
        let file: Arc<dyn StorageFile> = base.open(path, Access::Read)?.into();
        if !is_meant(&*file, first)? {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let files = index(&*file)?;
        Ok(Self { base: base.clone(), path: path.to_owned(), file, files })
    }

    /// A path below the archive's own, as it is named in it; `""` for the archive itself.
    fn name<'a>(&self, path: &'a Path) -> io::Result<&'a str> {
        let inner = path.strip_prefix(&self.path).ok().and_then(Path::to_str);
        inner.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Whether a file was meant to be an archive: where one byte is damaged, one of two marks is left.
fn is_meant(file: &dyn StorageFile, first: &str) -> io::Result<bool> {
    const MAGIC: (usize, &[u8]) = (257, b"ustar");
    let mut block = [0; 512];
    let count = file.read_at(&mut block, 0)?;
    let block = block.get(..count).unwrap_or_default();
    let has_magic = block.get(MAGIC.0..).is_some_and(|rest| rest.starts_with(MAGIC.1));
    Ok(has_magic || block.starts_with(first.as_bytes()))
}

/// Find all files, and check everything around them.
fn index(file: &dyn StorageFile) -> io::Result<BTreeMap<String, (u64, u64)>> {
    let length = file.length()?;
    let mut archive = tar::Archive::new(Cursor { file, at: 0 });
    let (mut files, mut end) = (BTreeMap::new(), 0);
    for entry in archive.entries_with_seek()? {
        let entry = entry.map_err(|error| invalid(end, &error.to_string()))?;
        let at = entry.raw_header_position();
        let (start, size) = (entry.raw_file_position(), entry.size());
        let name = entry.path()?.to_str().map(str::to_owned).unwrap_or_default();
        let is_ours =
            header_of(&name, size).is_ok_and(|own| own.as_bytes() == entry.header().as_bytes());
        if at != end || start != at + BLOCK || !is_ours {
            return Err(invalid(at, "an entry's header is not in the only form that one has"));
        }
        let behind = start.checked_add(size).filter(|behind| *behind <= length);
        let Some(behind) = behind else { return Err(invalid(at, "the file is cut short")) };
        end = behind.next_multiple_of(BLOCK);
        expect_zeros(file, behind, end)?;
        if files.insert(name, (start, size)).is_some() {
            return Err(invalid(at, "two entries have the same name"));
        }
    }
    if files.is_empty() {
        return Err(invalid(0, "this is no tar file"));
    }
    if length != end + END {
        let what = format!("expected {END} bytes of zeros up to its end, found {length} in all");
        return Err(invalid(end, &what));
    }
    expect_zeros(file, end, length)?;
    Ok(files)
}

fn expect_zeros(file: &dyn StorageFile, from: u64, to: u64) -> io::Result<()> {
    let mut bytes = vec![0; usize::try_from(to - from).map_err(io::Error::other)?];
    let count = file.read_at(&mut bytes, from)?;
    if count != bytes.len() || bytes.iter().any(|byte| *byte != 0) {
        return Err(invalid(from, "expected zeros behind an entry"));
    }
    Ok(())
}

fn invalid(offset: u64, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("byte {offset}: {what}"))
}

/// The header of a file of that name and length.
fn header_of(name: &str, length: u64) -> io::Result<tar::Header> {
    let mut header = tar::Header::new_ustar();
    header.set_path(name)?;
    header.set_size(length);
    header.set_mode(0o444);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_entry_type(tar::EntryType::Regular);
    header.set_cksum();
    Ok(header)
}

/// Writes an archive.
pub struct ArchiveWriter<'a>(tar::Builder<Appender<'a>>);

impl<'a> ArchiveWriter<'a> {
    /// Write to a file that is empty.
    #[must_use]
    pub fn new(file: &'a dyn StorageFile) -> Self {
        Self(tar::Builder::new(Appender { file, at: 0, buffer: Vec::new() }))
    }

    /// Add a file, which must have that length.
    ///
    /// # Errors
    /// What the disk says; `UnexpectedEof` if there is less to read than that.
    pub fn add(&mut self, name: &str, length: u64, content: &mut dyn Read) -> io::Result<()> {
        let mut counted = Counted { content: content.take(length), count: 0 };
        self.0.append(&header_of(name, length)?, &mut counted)?;
        if counted.count == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Write the end, and make everything durable.
    ///
    /// # Errors
    /// What the disk says.
    pub fn finish(self) -> io::Result<()> {
        let mut appender = self.0.into_inner()?;
        appender.flush()?;
        appender.file.sync()
    }
}

struct Counted<R> {
    content: R,
    count: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(buffer)?;
        self.count += u64::try_from(count).map_err(io::Error::other)?;
        Ok(count)
    }
}

/// Writes one piece behind the other.
struct Appender<'a> {
    file: &'a dyn StorageFile,
    at: u64,
    buffer: Vec<u8>,
}

impl Write for Appender<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_at(&self.buffer, self.at)?;
        self.at += u64::try_from(self.buffer.len()).map_err(io::Error::other)?;
        self.buffer.clear();
        Ok(())
    }
}

/// A place in a file.
struct Cursor<'a> {
    file: &'a dyn StorageFile,
    at: u64,
}

impl Read for Cursor<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at += u64::try_from(count).map_err(io::Error::other)?;
        Ok(count)
    }
}

impl Seek for Cursor<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.file.length()?.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

impl Storage for ArchiveStorage {
    fn create_dir(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
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
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn StorageFile>> {
        if access == Access::ReadWrite {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        let place = self.files.get(self.name(path)?);
        let (start, length) = *place.ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(Part { file: self.file.clone(), start, length }))
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn remove_dir(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn lock(&self, _: &Path, _: &str) -> io::Result<Locking> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn medium(&self, _: &Path) -> io::Result<Medium> {
        self.base.medium(&self.path)
    }

    fn process(&self) -> u32 {
        self.base.process()
    }
}

/// A file in an archive.
#[derive(Debug)]
struct Part {
    file: Arc<dyn StorageFile>,
    start: u64,
    length: u64,
}

impl StorageFile for Part {
    fn length(&self) -> io::Result<u64> {
        Ok(self.length)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = buffer.len().min(left);
        let buffer = buffer.get_mut(..count).unwrap_or_default();
        if buffer.is_empty() { Ok(0) } else { self.file.read_at(buffer, self.start + offset) }
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_length(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn make_read_only(&self) -> io::Result<()> {
        Ok(())
    }

    fn map(&self) -> io::Result<Map> {
        let mut bytes = vec![0; usize::try_from(self.length).map_err(io::Error::other)?];
        let count = self.read_at(&mut bytes, 0)?;
        bytes.truncate(count);
        Ok(bytes.into())
    }
}
