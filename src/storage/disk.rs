//! The real disk: the only place that names `std::fs` and `fs2` for a ledger's own files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use super::{Access, Entry, EntryKind, LockGuard, Locking, Map, Storage, StorageFile};

/// The file systems of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiskStorage;

impl Storage for DiskStorage {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        match fs::create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            result => result,
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let file_type = entry.file_type()?;
            let kind = if file_type.is_file() {
                EntryKind::File
            } else if file_type.is_dir() {
                EntryKind::Folder
            } else {
                EntryKind::Other
            };
            entries.push(Entry { name: entry.file_name().to_string_lossy().into_owned(), kind });
        }
        entries.sort();
        Ok(entries)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        Ok(Box::new(DiskFile(file)))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn StorageFile>> {
        let is_writable = access == Access::ReadWrite;
        let file = OpenOptions::new().read(true).write(is_writable).open(path)?;
        Ok(Box::new(DiskFile(file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        // `Path::parent` of a bare name is the empty path, which means the working folder.
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        File::open(path)?.sync_all()
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<Locking> {
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match fs2::FileExt::try_lock_exclusive(&file) {
            Ok(()) => {
                // The text is for people only; failing to write it (a full disk) is no reason to
                // refuse the lock.
                if file.set_len(0).is_ok() {
                    let _ = file.write_all(holder.as_bytes());
                }
                Ok(Locking::Ours(Box::new(DiskLock(file))))
            }
            Err(error) if error.kind() == fs2::lock_contended_error().kind() => {
                let mut text = String::new();
                // Whoever has it may be writing the text just now: an empty answer is fine.
                let _ = (&file).take(HOLDER_LENGTH_MAX).read_to_string(&mut text);
                Ok(Locking::HeldBy(text.trim().to_owned()))
            }
            Err(error) => Err(error),
        }
    }
}

/// How much of a lock file's text is read.
const HOLDER_LENGTH_MAX: u64 = 1024;

#[derive(Debug)]
struct DiskLock(#[expect(dead_code, reason = "held for its lock, released when dropped")] File);

impl LockGuard for DiskLock {}

#[derive(Debug)]
struct DiskFile(File);

impl StorageFile for DiskFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let at = offset + u64::try_from(filled).map_err(io::Error::other)?;
            match positional::read(&self.0, rest, at) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        positional::write_all(&self.0, bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        // fdatasync flushes the length too when it changed, and nothing else is needed.
        self.0.sync_data()
    }

    fn map(&self) -> io::Result<Map> {
        Map::of(&self.0)
    }
}

#[cfg(unix)]
mod positional {
    use std::fs::File;
    use std::io;
    use std::os::unix::fs::FileExt as _;

    pub(super) fn read(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        file.read_at(buffer, offset)
    }

    pub(super) fn write_all(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }
}
