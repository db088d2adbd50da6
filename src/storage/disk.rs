//! Storage on the file systems of the operating system. Only this file uses `std::fs` and `fs2` for
//! the files of a ledger.
//!
//! Invariants:
//! - No symbolic link is followed to a file, and only regular files are opened: a ledger that came
//!   from another person, in a cloned repository, reads and changes nothing outside of its folder.
//! - Files and folders have no access for users other than the ledger's, or its group's if the ledger
//!   is shared.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use super::filesystem_kind::FilesystemKind;
use super::map::Map;
use super::port::{
    Access, Entry, EntryKind, FolderAccess, LockGuard, LockOutcome, Storage, StorageFile,
};

/// The file systems of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiskStorage;

impl Storage for DiskStorage {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        create_dir(path, platform::is_shared(path))
    }

    fn create_ledger_dir(&self, path: &Path, for_group: bool) -> io::Result<()> {
        create_dir(path, for_group)
    }

    fn make_private(&self, path: &Path, for_group: bool) -> io::Result<()> {
        let changed =
            if for_group { platform::share_dir(path) } else { platform::make_private(path) };
        match changed {
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

    fn folder_access(&self, path: &Path) -> io::Result<FolderAccess> {
        platform::folder_access(path)
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
        let mut options = platform::private();
        let file = options.read(true).write(true).create_new(true).open(path)?;
        if platform::is_shared(path) {
            platform::share_file(&file)?;
        }
        Ok(Box::new(DiskFile(file)))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn StorageFile>> {
        let is_writable = access == Access::ReadWrite;
        let file = platform::private().read(true).write(is_writable).open(path)?;
        expect_regular(&file)?;
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
        // `Path::parent` of a bare name is the empty path: the current folder.
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        File::open(path)?.sync_all()
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<LockOutcome> {
        let mut options = platform::private();
        let mut file = options.read(true).write(true).create(true).truncate(false).open(path)?;
        expect_regular(&file)?;
        match fs2::FileExt::try_lock_exclusive(&file) {
            Ok(()) => {
                // The text is informative: on a full disk the lock is taken without it.
                if file.set_len(0).is_ok() {
                    let _ = file.write_all(holder.as_bytes());
                }
                if platform::is_shared(path) {
                    // Only its owner may, and it needs to be done once.
                    let _ = platform::share_file(&file);
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

    fn filesystem_kind(&self, path: &Path) -> io::Result<FilesystemKind> {
        platform::filesystem_kind(path)
    }

    fn process(&self) -> u32 {
        std::process::id()
    }
}

/// Create a folder with no access for other users, or also for its group. It may exist already.
fn create_dir(path: &Path, for_group: bool) -> io::Result<()> {
    match platform::create_private_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let is_folder = fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
            if is_folder { Ok(()) } else { Err(error) }
        }
        Ok(()) if for_group => platform::share_dir(path),
        created => created,
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
    fn is_at(&self, path: &Path) -> io::Result<bool> {
        match fs::symlink_metadata(path) {
            Ok(found) => Ok(platform::is_same_file(&self.locked, &found)),
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

#[cfg(unix)]
mod platform {
    use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
    use std::io;
    use std::os::unix::fs::{
        DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _,
        PermissionsExt as _,
    };
    use std::path::Path;

    use rustix::fs::OFlags;
    use rustix::process::{getegid, geteuid, getgroups};

    use crate::storage::filesystem_kind::FilesystemKind;
    use crate::storage::port::FolderAccess;

    /// The permission of the group to change a folder, and of all other users.
    const GROUP_WRITES: u32 = 0o020;
    const OTHERS_WRITE: u32 = 0o002;

    /// Options to open a file without following a link or waiting for another process. A new file has
    /// no access for other users.
    pub(super) fn private() -> OpenOptions {
        let mut options = OpenOptions::new();
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        options.mode(0o600).custom_flags(flags.bits().cast_signed());
        options
    }

    pub(super) fn create_private_dir(path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(path)
    }

    /// Take the access of other users to a folder.
    pub(super) fn make_private(path: &Path) -> io::Result<()> {
        fs::set_permissions(path, Permissions::from_mode(0o700))
    }

    /// Give a new folder's group access to it, and to all that is created in it.
    pub(super) fn share_dir(path: &Path) -> io::Result<()> {
        fs::set_permissions(path, Permissions::from_mode(0o2770))
    }

    /// Give a new file's group access to it.
    pub(super) fn share_file(file: &File) -> io::Result<()> {
        file.set_permissions(Permissions::from_mode(0o660))
    }

    /// Whether the folder around a path is shared with its group.
    pub(super) fn is_shared(path: &Path) -> bool {
        let folder = path.parent().and_then(|folder| fs::metadata(folder).ok());
        folder.is_some_and(|folder| folder.mode() & (GROUP_WRITES | OTHERS_WRITE) == GROUP_WRITES)
    }

    pub(super) fn folder_access(path: &Path) -> io::Result<FolderAccess> {
        let found = fs::metadata(path)?;
        let (owner, group, mode) = (found.uid(), found.gid(), found.mode());
        let is_member = || {
            let groups = getgroups().unwrap_or_default();
            getegid().as_raw() == group || groups.iter().any(|member| member.as_raw() == group)
        };
        Ok(match geteuid() {
            user if user.as_raw() == owner => FolderAccess::Own,
            user if user.is_root() => FolderAccess::Superuser { owner },
            _ if mode & (GROUP_WRITES | OTHERS_WRITE) == GROUP_WRITES && is_member() => {
                FolderAccess::Group
            }
            _ => FolderAccess::Other { owner },
        })
    }

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
    pub(super) fn filesystem_kind(path: &Path) -> io::Result<FilesystemKind> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let magic = rustix::fs::statfs(path)?.f_type;
        // Width and sign of the number differ between kernels; only its low 32 bits matter.
        let [a, b, c, d, ..] = magic.to_le_bytes();
        Ok(FilesystemKind::of_magic(u32::from_le_bytes([a, b, c, d])))
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(super) fn filesystem_kind(_: &Path) -> io::Result<FilesystemKind> {
        Ok(FilesystemKind::Local)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_free(path: &Path) -> bool {
        matches!(DiskStorage.lock(path, "another").unwrap(), LockOutcome::Acquired(_))
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
