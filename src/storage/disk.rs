//! The real disk: the only place that names `std::fs` and `fs2` for a ledger's own files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use super::{Access, Entry, EntryKind, LockGuard, Locking, Map, Medium, Storage, StorageFile};

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
            let name = entry.file_name().into_string();
            let name = name.unwrap_or_else(|name| name.to_string_lossy().into_owned());
            entries.push(Entry { name, kind });
        }
        entries.sort_unstable();
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

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
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
                let held = file.metadata()?;
                Ok(Locking::Ours(Box::new(DiskLock { file, held, process: std::process::id() })))
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

    fn medium(&self, path: &Path) -> io::Result<Medium> {
        platform::medium(path)
    }

    fn process(&self) -> u32 {
        std::process::id()
    }
}

/// How much of a lock file's text is read.
const HOLDER_LENGTH_MAX: u64 = 1024;

/// Holds the file for its lock, which ends when this is dropped.
#[derive(Debug)]
struct DiskLock {
    file: File,
    /// Which file it is: no other one becomes it while it is open.
    held: fs::Metadata,
    /// Who took the lock.
    process: u32,
}

impl Drop for DiskLock {
    /// Closing the file is not enough where a fork has a copy of it, and a fork that drops its copy
    /// must not let go what its parent holds.
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // What cannot be unlocked is unlocked when the last copy is closed.
            let _ = fs2::FileExt::unlock(&self.file);
        }
    }
}

impl LockGuard for DiskLock {
    fn is_in_place(&self, path: &Path) -> io::Result<bool> {
        match fs::symlink_metadata(path) {
            Ok(there) => Ok(platform::is_same_file(&self.held, &there)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

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
            match platform::read(&self.0, rest, at) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        platform::write_all(&self.0, bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        // fdatasync flushes the length too when it changed, and nothing else is needed.
        self.0.sync_data()
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn make_read_only(&self) -> io::Result<()> {
        let mut permissions = self.0.metadata()?.permissions();
        permissions.set_readonly(true);
        self.0.set_permissions(permissions)
    }

    fn map(&self) -> io::Result<Map> {
        Map::of(&self.0)
    }
}

#[cfg(unix)]
mod platform {
    use std::fs::{File, Metadata};
    use std::io;
    use std::os::unix::fs::{FileExt as _, MetadataExt as _};
    use std::path::Path;

    use super::Medium;

    pub(super) fn read(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        file.read_at(buffer, offset)
    }

    pub(super) fn write_all(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }

    pub(super) fn is_same_file(one: &Metadata, other: &Metadata) -> bool {
        (one.dev(), one.ino()) == (other.dev(), other.ino())
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn medium(path: &Path) -> io::Result<Medium> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let magic = rustix::fs::statfs(path)?.f_type;
        // Kernels disagree on the width and sign of the number; its low 32 bits are what counts.
        let [a, b, c, d, ..] = magic.to_le_bytes();
        Ok(Medium::of_magic(u32::from_le_bytes([a, b, c, d])))
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(super) fn medium(_: &Path) -> io::Result<Medium> {
        Ok(Medium::Local)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_free(path: &Path) -> bool {
        matches!(DiskStorage.lock(path, "another").unwrap(), Locking::Ours(_))
    }

    /// Story: a process that had closed its ledger kept everybody else out for as long as a fork of it
    /// lived, which had a copy of the locked file; and the fork may end first.
    /// Method: what a fork has is another descriptor of the same open file.
    #[test]
    fn a_lock_ends_with_the_process_that_took_it_and_not_with_a_fork() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("LOCK");
        let take = || {
            let file = File::create(&path).unwrap();
            fs2::FileExt::try_lock_exclusive(&file).unwrap();
            let held = file.metadata().unwrap();
            DiskLock { file, held, process: std::process::id() }
        };
        let fork_of = |lock: &DiskLock| {
            let (file, held) = (lock.file.try_clone().unwrap(), lock.held.clone());
            DiskLock { file, held, process: lock.process.wrapping_add(1) }
        };
        let own = take();
        drop(fork_of(&own));
        assert!(!is_free(&path), "a fork that ends lets nothing go");
        let fork = fork_of(&own);
        drop(own);
        assert!(is_free(&path), "who took it is gone");
        drop(fork);
    }
}
