//! Files and locks on the file systems of the operating system.
//!
//! Invariants:
//! - No symbolic link is followed to a file, and only regular files are opened.
//! - A lock is released by the process that took it, and by no fork of it.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use super::map::Map;
use super::place::{Place, share_file};
use super::port::{Access, LockGuard, LockOutcome, StorageFile};

/// Take the access of other users to a folder, as far as its file system knows access.
pub(super) fn make_private(place: &Place<'_>, for_group: bool) -> io::Result<()> {
    match place.make_private(for_group) {
        // A file system without permissions has those of its mount.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported
            ) =>
        {
            Ok(())
        }
        changed => changed,
    }
}

pub(super) fn open(place: &Place<'_>, access: Access) -> io::Result<Box<dyn StorageFile>> {
    let file = place.open(access == Access::ReadWrite)?;
    expect_regular(&file)?;
    boxed(file)
}

/// A file as the storage port returns it.
#[expect(clippy::unnecessary_wraps, reason = "callers return the result as it is")]
pub(super) fn boxed(file: File) -> io::Result<Box<dyn StorageFile>> {
    Ok(Box::new(DiskFile(file)))
}

/// Try to take the lock on a file.
pub(super) fn lock(place: &Place<'_>, holder: &str) -> io::Result<LockOutcome> {
    let mut file = place.open_or_create()?;
    expect_regular(&file)?;
    match fs2::FileExt::try_lock_exclusive(&file) {
        Ok(()) => {
            // The text is informative: on a full disk the lock is taken without it.
            if file.set_len(0).is_ok() {
                let _ = file.write_all(holder.as_bytes());
            }
            if place.is_shared() {
                // Only its owner may, and it needs to be done once.
                let _ = share_file(&file);
            }
            let locked = file.metadata()?;
            Ok(LockOutcome::Acquired(Box::new(DiskLock {
                file,
                locked,
                process: std::process::id(),
            })))
        }
        Err(error) if error.kind() == fs2::lock_contended_error().kind() => {
            let mut text = String::new();
            // The lock holder may not have written the text yet: an empty text is fine.
            let _ = (&file).take(HOLDER_LENGTH_MAX).read_to_string(&mut text);
            Ok(LockOutcome::HeldBy(text.trim().to_owned()))
        }
        Err(error) => Err(error),
    }
}

/// Opening a named pipe or a device can have effects, and reading from one may never end.
fn expect_regular(file: &File) -> io::Result<()> {
    // A folder can be opened for reading; reading from it fails.
    let kind = file.metadata()?.file_type();
    if kind.is_file() || kind.is_dir() {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
    }
}

/// The longest text of a lock file that is read.
const HOLDER_LENGTH_MAX: u64 = 1024;

/// A locked file. Dropping it releases the lock.
#[derive(Debug)]
struct DiskLock {
    file: File,
    /// Identifies the file: its inode is not reused while it is open.
    locked: fs::Metadata,
    /// The process that took the lock.
    process: u32,
}

impl Drop for DiskLock {
    /// Unlocks the file explicitly: closing it keeps the lock while a fork has a copy of the
    /// descriptor. A fork that drops its copy must not release the lock of its parent.
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // If this fails, the lock ends when the last copy of the descriptor is closed.
            let _ = fs2::FileExt::unlock(&self.file);
        }
    }
}

impl LockGuard for DiskLock {
    /// Asks the path itself, and no open folder: the answer is `false` if the folder was moved.
    fn is_at(&self, path: &Path) -> io::Result<bool> {
        let place = |file: &fs::Metadata| (file.dev(), file.ino());
        match fs::symlink_metadata(path) {
            Ok(found) => Ok(place(&self.locked) == place(&found)),
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
            match self.0.read_at(rest, at) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        // fdatasync also flushes a changed length, and no other metadata matters.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn is_free(path: &Path) -> bool {
        matches!(lock(&Place::of(path), "another").unwrap(), LockOutcome::Acquired(_))
    }

    /// Story: a process closed its ledger, but a fork with a copy of the locked file kept the lock. The
    /// reverse must not happen either: a fork that ends first must not release the lock.
    /// Method: a fork has another descriptor of the same open file.
    #[test]
    fn lock_is_released_by_its_owner_and_not_by_a_fork() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("LOCK");
        let take = || {
            let file = File::create(&path).unwrap();
            fs2::FileExt::try_lock_exclusive(&file).unwrap();
            let locked = file.metadata().unwrap();
            DiskLock { file, locked, process: std::process::id() }
        };
        let fork_of = |lock: &DiskLock| {
            let (file, locked) = (lock.file.try_clone().unwrap(), lock.locked.clone());
            DiskLock { file, locked, process: lock.process.wrapping_add(1) }
        };
        let own = take();
        drop(fork_of(&own));
        assert!(!is_free(&path), "a fork that ends does not release the lock");
        let fork = fork_of(&own);
        drop(own);
        assert!(is_free(&path), "the owner released the lock");
        drop(fork);
    }

    /// Story: a page that could not be read ended the process with SIGBUS.
    /// Method: the end of a mapped file is truncated, so that its pages fault.
    #[test]
    #[cfg(target_os = "linux")]
    fn page_that_faults_is_an_error_and_no_signal() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(5 * 4096).unwrap();
        let map = Map::of(&file).unwrap();
        map.populate(0..5 * 4096).unwrap();
        assert_eq!(map.get(4000..5000), [0; 1000]);
        file.set_len(2 * 4096).unwrap();
        map.populate(100..2 * 4096).unwrap();
        assert_eq!(map.get(100..200), [0; 100]);
        map.populate(2 * 4096..2 * 4096 + 1).unwrap_err();
        map.populate(0..5 * 4096).unwrap_err();
        map.populate(0..6 * 4096).unwrap_err();
    }
}
