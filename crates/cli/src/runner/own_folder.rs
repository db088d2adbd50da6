//! The folders that a runner has in the folder of a ledger.
//!
//! Invariants:
//! - None of them is reached through a link. A ledger in a cloned repository could have links to
//!   other folders of its user, and a runner would delete the files there.
//! - A folder with the files of a job is opened once. A folder that later takes its place is not changed.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, open, openat, renameat, unlinkat};
use rustix::io::retry_on_intr;

use plan_ledger::{Error, ErrorKind, Result};

use crate::protocol::private_files;

/// Create a folder below `work` in a ledger's folder.
///
/// # Errors
/// `Io`; `NotALedger` if it, or the folder above it, is a link.
pub(crate) fn create_own_folder(folder: &Path) -> Result<()> {
    expect_no_link(folder)?;
    let cannot = |error| Error::io("create the workers' folder", folder, error);
    for path in [folder.parent(), Some(folder)].into_iter().flatten() {
        if !path.exists() {
            private_files::create_folders(path).map_err(cannot)?;
            if path.parent().is_some_and(is_shared) {
                let mode = fs::Permissions::from_mode(SHARED_FOLDER_MODE);
                fs::set_permissions(path, mode).map_err(cannot)?;
            }
        }
    }
    Ok(())
}

/// Opens a file of a folder to its group if the group may write to the folder: the ledger is shared.
pub(crate) fn share(file: &File, folder: &Path) -> io::Result<()> {
    if !is_shared(folder) {
        return Ok(());
    }
    file.set_permissions(fs::Permissions::from_mode(SHARED_FILE_MODE))
}

fn is_shared(folder: &Path) -> bool {
    fs::metadata(folder).is_ok_and(|found| is_for_group(found.mode()))
}

fn is_for_group(mode: u32) -> bool {
    mode & 0o020 != 0
}

/// The permissions of a folder in the folder of a shared ledger, and of a file.
const SHARED_FOLDER_MODE: u32 = 0o2770;
const SHARED_FILE_MODE: u32 = 0o660;

/// Refuse a folder below `work` that is a link, or that a link leads to.
///
/// # Errors
/// As [`create_own_folder`].
pub(crate) fn expect_no_link(folder: &Path) -> Result<()> {
    for path in folder.ancestors().take(2) {
        match fs::symlink_metadata(path) {
            Ok(found) if found.is_symlink() && !plan_ledger::mutant!(LinkFollowed) => {
                let message = "this is a link, and links are not allowed in the folder of a ledger";
                let error = Error::new(ErrorKind::NotALedger, message).at_path(path);
                return Err(error.with_hint("remove it, if the ledger is yours"));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("look at the workers' folder", path, error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The folder of a ledger, as a runner found it: its path, and its place on its file system, which a move does not
/// change.
///
/// The files of a worker are found by their path. After a move they are elsewhere, and other files at this path are not
/// a result.
#[derive(Debug, Clone)]
pub(crate) struct LedgerPlace {
    path: PathBuf,
    identity: Option<(u64, u64)>,
    /// The folder itself, even after it was moved.
    folder: Option<Arc<OwnedFd>>,
}

impl LedgerPlace {
    /// The place of a folder now.
    pub(crate) fn of(path: &Path) -> Self {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = retry_on_intr(|| open(path, flags, Mode::empty())).ok().map(Arc::new);
        Self { path: path.to_owned(), identity: identity(path), folder }
    }

    /// Check that the folder is still there.
    ///
    /// # Errors
    /// `Io` if it was moved or removed.
    pub(crate) fn check(&self) -> Result<()> {
        if identity(&self.path) == self.identity || plan_ledger::mutant!(MovedResultRecorded) {
            return Ok(());
        }
        if self.is_removed() {
            let message = "the folder of the ledger was removed during the run";
            return Err(Error::new(ErrorKind::Io, message).at_path(&self.path));
        }
        let message = "the folder of the ledger was moved or removed during the run; results of its workers are \
                       kept in it";
        let error = Error::new(ErrorKind::Io, message).at_path(&self.path);
        Err(error.with_hint("in its new place, `ledger resume` records them and continues"))
    }
}

impl LedgerPlace {
    /// Whether the folder was removed: no other folder has an entry for it. Not every file system knows.
    fn is_removed(&self) -> bool {
        let found = self.folder.as_ref().and_then(|folder| fstat(folder).ok());
        found.is_some_and(|found| found.st_nlink == 0)
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|folder| (folder.dev(), folder.ino()))
}

/// A folder below `work` that is open.
#[derive(Debug)]
pub(crate) struct OwnFolder(OwnedFd);

impl OwnFolder {
    /// Open a folder that exists. Neither it nor the one above it is a link.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let below = |parent: &OwnedFd, name: &OsStr| {
            retry_on_intr(|| openat(parent, name, flags | OFlags::NOFOLLOW, Mode::empty()))
        };
        let above = folder.ancestors().nth(2).filter(|path| !path.as_os_str().is_empty());
        let above = above.unwrap_or(Path::new("."));
        let mut open = retry_on_intr(|| openat(CWD, above, flags, Mode::empty()))?;
        for name in folder.strip_prefix(above).unwrap_or(folder) {
            open = below(&open, name)?;
        }
        Ok(Self(open))
    }

    /// Create a file; one that has its name is removed. Append, so that two processes that share the file
    /// do not overwrite each other.
    pub(crate) fn create(&self, name: impl AsRef<Path>) -> io::Result<File> {
        let _ = self.remove(&name);
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL;
        self.open_file(name.as_ref(), flags)
    }

    /// Open a file to write at its end; create it if it does not exist.
    pub(crate) fn append(&self, name: impl AsRef<Path>) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
        self.open_file(name.as_ref(), flags)
    }

    /// Open a file to read it.
    pub(crate) fn read(&self, name: impl AsRef<Path>) -> io::Result<File> {
        self.open_file(name.as_ref(), OFlags::RDONLY)
    }

    /// Open a file to write at its start.
    pub(crate) fn write(&self, name: impl AsRef<Path>) -> io::Result<File> {
        self.open_file(name.as_ref(), OFlags::WRONLY)
    }

    fn open_file(&self, name: &Path, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(private_files::FILE_MODE);
        let file = File::from(retry_on_intr(|| openat(&self.0, name, flags, mode))?);
        if flags.contains(OFlags::CREATE) && is_for_group(fstat(&self.0)?.st_mode) {
            file.set_permissions(fs::Permissions::from_mode(SHARED_FILE_MODE))?;
        }
        Ok(file)
    }

    /// Remove a file, if it exists.
    pub(crate) fn remove(&self, name: impl AsRef<Path>) -> io::Result<()> {
        match unlinkat(&self.0, name.as_ref(), AtFlags::empty()) {
            Err(error) if error != rustix::io::Errno::NOENT => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Rename a file.
    pub(crate) fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
        Ok(renameat(&self.0, from.as_ref(), &self.0, to.as_ref())?)
    }
}
