//! A tar file as a read-only file system, and a writer of such files. Only this file uses `tar`.
//!
//! Files are read in place; nothing is unpacked.
//!
//! Invariant: an archive is canonical. Every byte outside the contents of its files, headers and
//! padding included, is the byte that [`TarWriter`] writes; any other byte is an error.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::filesystem_kind::FilesystemKind;
use super::map::Map;
use super::port::{Access, Entry, LockOutcome, Storage, StorageFile};
use super::read_only::{entries_of, read_only, refuse_changes, refuse_writes};

/// Files in a tar file are padded to multiples of this size.
const BLOCK: u64 = 512;
/// Two blocks of zeros end a tar file.
const END: u64 = 2 * BLOCK;
/// The write buffer.
const BUFFER_SIZE: usize = 1 << 20;

/// The files of a tar file. The path of the tar file is the path of their folder.
#[derive(Debug)]
pub struct TarStorage {
    base: Arc<dyn Storage>,
    path: PathBuf,
    file: Arc<dyn StorageFile>,
    /// The files by their path in the archive.
    files: BTreeMap<String, Extent>,
}

impl TarStorage {
    /// Open and validate a tar file. `first` is the name of the first file of every archive.
    ///
    /// # Errors
    /// `Unsupported` for a file that is not an archive, `InvalidData` for an archive that is not
    /// canonical, or an I/O error.
    pub fn open(base: &Arc<dyn Storage>, path: &Path, first: &str) -> io::Result<Self> {
        let file: Arc<dyn StorageFile> = base.open(path, Access::Read)?.into();
        if !looks_like_archive(&*file, first)? {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let files = index(&*file)?;
        Ok(Self { base: base.clone(), path: path.to_owned(), file, files })
    }

    /// The name of a path in the archive; `""` for the archive itself.
    fn name<'a>(&self, path: &'a Path) -> io::Result<&'a str> {
        let inner = path.strip_prefix(&self.path).ok().and_then(Path::to_str);
        inner.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Whether a file looks like an archive. It has two marks, so that one damaged byte leaves one.
fn looks_like_archive(file: &dyn StorageFile, first: &str) -> io::Result<bool> {
    const MAGIC: (usize, &[u8]) = (257, b"ustar");
    let mut block = [0; 512];
    let count = file.read_at(&mut block, 0)?;
    let block = block.get(..count).unwrap_or_default();
    let has_magic = block.get(MAGIC.0..).is_some_and(|rest| rest.starts_with(MAGIC.1));
    Ok(has_magic || block.starts_with(first.as_bytes()))
}

/// The position of a file's bytes in the tar file.
#[derive(Debug, Clone, Copy)]
struct Extent {
    start: u64,
    length: u64,
}

/// Find all files, and check every byte around them.
fn index(file: &dyn StorageFile) -> io::Result<BTreeMap<String, Extent>> {
    let length = file.length()?;
    let mut archive = tar::Archive::new(Cursor { file, at: 0 });
    let (mut files, mut end) = (BTreeMap::new(), 0);
    // Raw: a header that announces a long name would be read into memory, whatever its length. No
    // header of ours does, so it is not canonical.
    for entry in archive.entries_with_seek()?.raw(true) {
        let entry = entry.map_err(|error| invalid(end, &error.to_string()))?;
        let at = entry.raw_header_position();
        let extent = Extent { start: entry.raw_file_position(), length: entry.size() };
        let name = entry.path()?.to_str().map(str::to_owned).unwrap_or_default();
        let is_canonical = header_of(&name, extent.length)
            .is_ok_and(|header| header.as_bytes() == entry.header().as_bytes());
        if at != end || extent.start != at + BLOCK || !is_canonical {
            return Err(invalid(at, "tar entry header is not canonical"));
        }
        let Extent { start, length: size } = extent;
        let data_end = start.checked_add(size).filter(|data_end| *data_end <= length);
        let Some(data_end) = data_end else { return Err(invalid(at, "the file is truncated")) };
        end = data_end.next_multiple_of(BLOCK);
        check_zeros(file, data_end, end)?;
        if files.insert(name, extent).is_some() {
            return Err(invalid(at, "two entries have the same name"));
        }
    }
    if files.is_empty() {
        return Err(invalid(0, "this is not a tar file"));
    }
    if length != end + END {
        let what = format!("expected a file of {} bytes, found {length}", end + END);
        return Err(invalid(end, &what));
    }
    check_zeros(file, end, length)?;
    Ok(files)
}

fn check_zeros(file: &dyn StorageFile, from: u64, to: u64) -> io::Result<()> {
    let mut bytes = vec![0; usize::try_from(to - from).map_err(io::Error::other)?];
    let count = file.read_at(&mut bytes, from)?;
    if count != bytes.len() || bytes.iter().any(|byte| *byte != 0) {
        return Err(invalid(from, "expected zeros after a tar entry"));
    }
    Ok(())
}

fn invalid(offset: u64, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("byte {offset}: {what}"))
}

/// The canonical header of a file.
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
pub struct TarWriter<'a>(tar::Builder<Appender<'a>>);

impl<'a> TarWriter<'a> {
    /// Write to an empty file.
    #[must_use]
    pub fn new(file: &'a dyn StorageFile) -> Self {
        Self(tar::Builder::new(Appender { file, at: 0, buffer: Vec::new() }))
    }

    /// Add a file.
    ///
    /// # Errors
    /// `UnexpectedEof` if the content is shorter than `length`, or an I/O error.
    pub fn add(&mut self, name: &str, length: u64, content: &mut dyn Read) -> io::Result<()> {
        let mut counted = Counted { content: content.take(length), count: 0 };
        self.0.append(&header_of(name, length)?, &mut counted)?;
        if counted.count == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Write the end of the archive, and sync it.
    ///
    /// # Errors
    /// An I/O error.
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

/// Buffered writes to the end of the file.
struct Appender<'a> {
    file: &'a dyn StorageFile,
    at: u64,
    buffer: Vec<u8>,
}

impl Write for Appender<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_SIZE {
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

/// A read position in a file.
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

impl Storage for TarStorage {
    refuse_changes!();

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        let folder = self.name(path)?;
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let entries = entries_of(self.files.keys().filter_map(|name| name.strip_prefix(&prefix)));
        if entries.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(entries) }
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn StorageFile>> {
        if access == Access::ReadWrite {
            return read_only();
        }
        let extent = self.files.get(self.name(path)?);
        let extent = *extent.ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(TarFile { file: self.file.clone(), extent }))
    }

    fn filesystem_kind(&self, _: &Path) -> io::Result<FilesystemKind> {
        self.base.filesystem_kind(&self.path)
    }

    fn process(&self) -> u32 {
        self.base.process()
    }
}

/// A file in a tar file.
#[derive(Debug)]
struct TarFile {
    file: Arc<dyn StorageFile>,
    extent: Extent,
}

impl StorageFile for TarFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.extent.length)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = usize::try_from(self.extent.length.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = buffer.len().min(left);
        let buffer = buffer.get_mut(..count).unwrap_or_default();
        if buffer.is_empty() {
            Ok(0)
        } else {
            self.file.read_at(buffer, self.extent.start + offset)
        }
    }

    refuse_writes!();

    fn map(&self) -> io::Result<Map> {
        let mut bytes = vec![0; usize::try_from(self.extent.length).map_err(io::Error::other)?];
        let count = self.read_at(&mut bytes, 0)?;
        bytes.truncate(count);
        Ok(bytes.into())
    }
}
