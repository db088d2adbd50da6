//! Calls of the operating system on a path below an open folder.
//!
//! A [`Place`] is a folder that is open, and a path that starts there. The working folder is also a
//! place, with an ordinary path.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::retry_on_intr;
use rustix::process::{getegid, geteuid, getgroups};

use super::filesystem_kind::FilesystemKind;
use super::port::{Entry, EntryKind, FolderAccess, Links};

/// Access of the owner to a file and a folder, and also that of the group.
const PRIVATE_FILE: Mode = Mode::RUSR.union(Mode::WUSR);
const PRIVATE_FOLDER: Mode = Mode::RWXU;
const SHARED_FILE: Mode = PRIVATE_FILE.union(Mode::RGRP).union(Mode::WGRP);
const SHARED_FOLDER: Mode = PRIVATE_FOLDER.union(Mode::RWXG).union(Mode::SGID);

/// Opening a named pipe must not wait for another process.
const OPEN: OFlags = OFlags::CLOEXEC.union(OFlags::NONBLOCK).union(OFlags::NOFOLLOW);

/// A path that starts in an open folder.
#[derive(Debug)]
pub(super) struct Place<'a> {
    folder: Folder<'a>,
    /// Never empty.
    path: &'a Path,
    links: Links,
}

#[derive(Debug)]
enum Folder<'a> {
    Borrowed(BorrowedFd<'a>),
    Opened(OwnedFd),
}

impl<'a> Place<'a> {
    /// An ordinary path.
    pub(super) fn of(path: &'a Path) -> Self {
        // `Path::parent` of a bare name is the empty path: the working folder.
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Self { folder: Folder::Borrowed(CWD), path, links: Links::Follow }
    }

    /// A path below an open folder; the empty path is the folder itself. No part of it may be a link:
    /// each folder on the way is opened by itself.
    ///
    /// # Errors
    /// `NotADirectory` or a loop for a link; those of the file system.
    pub(super) fn below(folder: BorrowedFd<'a>, path: &'a Path) -> io::Result<Self> {
        let mut at = Folder::Borrowed(folder);
        let mut names = path.iter().peekable();
        while let Some(name) = names.next() {
            if names.peek().is_none() {
                return Ok(Self { folder: at, path: Path::new(name), links: Links::Refuse });
            }
            at = Folder::Opened(open_folder(at.fd(), name)?);
        }
        Ok(Self { folder: at, path: Path::new("."), links: Links::Refuse })
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.folder.fd()
    }

    fn stat(&self) -> io::Result<Stat> {
        let flags = match self.links {
            Links::Follow => AtFlags::empty(),
            Links::Refuse => AtFlags::SYMLINK_NOFOLLOW,
        };
        Ok(rustix::fs::statat(self.fd(), self.path, flags)?)
    }

    pub(super) fn open_folder(&self, links: Links) -> io::Result<OwnedFd> {
        let mut flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if links == Links::Refuse || self.links == Links::Refuse {
            flags |= OFlags::NOFOLLOW;
        }
        Ok(retry_on_intr(|| rustix::fs::openat(self.fd(), self.path, flags, Mode::empty()))?)
    }

    /// Open an existing file that is not a link.
    pub(super) fn open(&self, is_writable: bool) -> io::Result<File> {
        let access = if is_writable { OFlags::RDWR } else { OFlags::RDONLY };
        self.open_with(access)
    }

    /// Create a file that only this user, or the folder's group, can open.
    pub(super) fn create(&self) -> io::Result<File> {
        let file = self.open_with(OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)?;
        if self.is_shared() {
            share_file(&file)?;
        }
        Ok(file)
    }

    /// Open a file, or create it.
    pub(super) fn open_or_create(&self) -> io::Result<File> {
        self.open_with(OFlags::RDWR | OFlags::CREATE)
    }

    fn open_with(&self, flags: OFlags) -> io::Result<File> {
        let flags = flags | OPEN;
        let open = || rustix::fs::openat(self.fd(), self.path, flags, PRIVATE_FILE);
        Ok(File::from(retry_on_intr(open)?))
    }

    /// Create a folder with no access for other users, or also for its group. It may exist already.
    pub(super) fn create_dir(&self, for_group: bool) -> io::Result<()> {
        match rustix::fs::mkdirat(self.fd(), self.path, PRIVATE_FOLDER) {
            Err(rustix::io::Errno::EXIST) => {
                let found = rustix::fs::statat(self.fd(), self.path, AtFlags::SYMLINK_NOFOLLOW)?;
                if is_folder(&found) { Ok(()) } else { Err(rustix::io::Errno::EXIST.into()) }
            }
            Ok(()) if for_group => self.change_mode(SHARED_FOLDER),
            created => Ok(created?),
        }
    }

    /// Take the access of other users to a folder; `for_group`: except that of its group.
    pub(super) fn make_private(&self, for_group: bool) -> io::Result<()> {
        self.change_mode(if for_group { SHARED_FOLDER } else { PRIVATE_FOLDER })
    }

    fn change_mode(&self, mode: Mode) -> io::Result<()> {
        Ok(rustix::fs::chmodat(self.fd(), self.path, mode, AtFlags::empty())?)
    }

    /// Whether the folder around this path is shared with its group.
    pub(super) fn is_shared(&self) -> bool {
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let found = rustix::fs::statat(self.fd(), parent, AtFlags::empty());
        found.is_ok_and(|found| is_for_group(&found))
    }

    /// The users that can change the content of a folder.
    pub(super) fn folder_access(&self) -> io::Result<FolderAccess> {
        let found = self.stat()?;
        let (owner, group) = (found.st_uid, found.st_gid);
        let is_member = || {
            let groups = getgroups().unwrap_or_default();
            getegid().as_raw() == group || groups.iter().any(|member| member.as_raw() == group)
        };
        Ok(match geteuid() {
            user if user.as_raw() == owner => FolderAccess::Own,
            user if user.is_root() => FolderAccess::Superuser { owner },
            _ if is_for_group(&found) && is_member() => FolderAccess::Group,
            _ => FolderAccess::Other { owner },
        })
    }

    /// The entries of a folder, sorted by name.
    pub(super) fn list(&self) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        let mut folder = Dir::new(self.open_folder(self.links)?)?;
        while let Some(entry) = folder.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let name = OsStr::from_bytes(name);
            let mut file_type = entry.file_type();
            if file_type == FileType::Unknown {
                let found = rustix::fs::statat(folder.fd()?, name, AtFlags::SYMLINK_NOFOLLOW);
                file_type = found.map_or(FileType::Unknown, |found| type_of(&found));
            }
            let kind = match file_type {
                FileType::RegularFile => EntryKind::File,
                FileType::Directory => EntryKind::Folder,
                _ => EntryKind::Other,
            };
            entries.push(Entry { name: name.to_string_lossy().into_owned(), kind });
        }
        entries.sort_unstable();
        Ok(entries)
    }

    /// Rename a file or folder.
    pub(super) fn rename(&self, to: &Self) -> io::Result<()> {
        Ok(rustix::fs::renameat(self.fd(), self.path, to.fd(), to.path)?)
    }

    /// Remove a file.
    pub(super) fn remove(&self) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(self.fd(), self.path, AtFlags::empty())?)
    }

    /// Remove an empty folder.
    pub(super) fn remove_dir(&self) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(self.fd(), self.path, AtFlags::REMOVEDIR)?)
    }

    /// Make the names in a folder durable.
    pub(super) fn sync_dir(&self) -> io::Result<()> {
        File::from(self.open_folder(self.links)?).sync_all()
    }

    /// The class of the file system.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn filesystem_kind(&self) -> io::Result<FilesystemKind> {
        let magic = rustix::fs::fstatfs(self.open_folder(self.links)?)?.f_type;
        // Width and sign of the number differ between kernels; only its low 32 bits matter.
        let [a, b, c, d, ..] = magic.to_le_bytes();
        Ok(FilesystemKind::of_magic(u32::from_le_bytes([a, b, c, d])))
    }

    /// The class of the file system.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(super) fn filesystem_kind(&self) -> io::Result<FilesystemKind> {
        Ok(FilesystemKind::Local)
    }
}

impl Folder<'_> {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Borrowed(folder) => *folder,
            Self::Opened(folder) => folder.as_fd(),
        }
    }
}

/// Give the group of a new file's folder access to it.
pub(super) fn share_file(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fchmod(file, SHARED_FILE)?)
}

/// Open a folder by its name in another one, without following a link.
fn open_folder(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let links = if mutant!(LinkInsideFollowed) { OFlags::empty() } else { OFlags::NOFOLLOW };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | links;
    Ok(retry_on_intr(|| rustix::fs::openat(parent, name, flags, Mode::empty()))?)
}

fn type_of(found: &Stat) -> FileType {
    FileType::from_raw_mode(found.st_mode)
}

fn is_folder(found: &Stat) -> bool {
    type_of(found) == FileType::Directory
}

/// Whether the group of a folder can change its content, and other users cannot.
fn is_for_group(found: &Stat) -> bool {
    let mode = Mode::from_raw_mode(found.st_mode);
    mode.contains(Mode::WGRP) && !mode.contains(Mode::WOTH)
}
