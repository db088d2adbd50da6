//! The storage port: the traits that a log uses instead of the file system, and their types.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::filesystem_kind::FilesystemKind;
use super::map::Map;

/// A file system, real or simulated.
pub trait Storage: Send + Sync + fmt::Debug {
    /// Open a folder, and return a storage in which all paths below the folder start at the open
    /// folder and follow no link, even after the folder was renamed or replaced. If this storage
    /// renames the folder, its paths have the new name. `None` if this storage already is such a
    /// storage, or is not shared with other processes.
    fn hold(&self, dir: &Path, links: Links) -> io::Result<Option<Arc<dyn Storage>>> {
        let _ = (dir, links);
        Ok(None)
    }

    /// Create a folder. It may exist already. On a real disk it gets the access of its parent: a
    /// private folder has private files and folders, and a shared one has shared ones.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Create the folder of a ledger, which may exist already. Only this user has access to it, or
    /// also the group of the folder.
    fn create_ledger_dir(&self, path: &Path, for_group: bool) -> io::Result<()> {
        let _ = for_group;
        self.create_dir(path)
    }

    /// Take the access of other users to an existing folder that becomes a ledger's, as far as its file
    /// system knows access; `for_group`: except that of its group.
    fn make_private(&self, path: &Path, for_group: bool) -> io::Result<()> {
        let _ = (path, for_group);
        Ok(())
    }

    /// The users that can change the content of a folder.
    fn folder_access(&self, path: &Path) -> io::Result<FolderAccess> {
        self.list(path).map(|_| FolderAccess::Own)
    }

    /// The entries of a folder, sorted by name.
    fn list(&self, path: &Path) -> io::Result<Vec<Entry>>;

    /// Create a new file for reading and writing. It must not exist.
    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>>;

    /// Open an existing file.
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn StorageFile>>;

    /// Rename a file or folder. The new name must be free.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Remove a file: a staging file, or one that a person asked to remove.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Remove an empty folder.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Make the directory entries of a folder durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Try to take the exclusive lock on a file, which is created if it is missing. `holder` becomes
    /// the text of the file: it names the lock holder to people.
    fn lock(&self, path: &Path, holder: &str) -> io::Result<LockOutcome>;

    /// Whether the index of a sealed segment has a list, if this storage knows it and reading the index would cost
    /// requests to another machine. `None`: the index says so.
    fn has_list(&self, path: &Path, list: IndexList) -> Option<bool> {
        let _ = (path, list);
        None
    }

    /// The class of file system at a path.
    fn filesystem_kind(&self, path: &Path) -> io::Result<FilesystemKind>;

    /// The id of the calling process, which changes after a fork.
    fn process(&self) -> u32;
}

/// An open file. Dropping it closes the file without a sync.
pub trait StorageFile: Send + Sync + fmt::Debug {
    /// Length in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Read up to the length of the buffer at an offset. Returns fewer bytes only at the end of the
    /// file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Write all of the bytes at an offset.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Make bytes and length durable.
    fn sync(&self) -> io::Result<()>;

    /// Truncate the file, or extend it with zeros.
    fn set_length(&self, length: u64) -> io::Result<()>;

    /// Clear the write permission of the file.
    fn make_read_only(&self) -> io::Result<()>;

    /// The bytes of a file that no longer has a writer.
    fn map(&self) -> io::Result<Map>;
}

/// A list in the index of a sealed segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexList {
    /// The records of a kind.
    Kind(u16),
    /// The records of a stream.
    Stream {
        /// The stream.
        stream: u64,
        /// The number of the rule that assigns records to streams.
        rule: u32,
    },
}

/// Whether a link to a folder is followed. A link to a file never is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// It leads to the folder.
    Follow,
    /// It is an error.
    Refuse,
}

/// The access mode of an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading only.
    Read,
    /// Reading and writing.
    ReadWrite,
}

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The name. A name that is not UTF-8 belongs to another program, and is shown with replacement
    /// characters.
    pub name: String,
    /// The type of the entry.
    pub kind: EntryKind,
}

/// The users that can change the content of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderAccess {
    /// It is this user's.
    Own,
    /// Its group can, and this user is in the group.
    Group,
    /// It is another user's, and this user is the superuser.
    Superuser {
        /// The owner's number.
        owner: u32,
    },
    /// The folder belongs to another user, who can replace its files.
    Other {
        /// The owner's number.
        owner: u32,
    },
}

/// The type of a folder's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// Anything else, symbolic links included.
    Other,
}

/// The result of a request for a lock.
#[derive(Debug)]
pub enum LockOutcome {
    /// The caller has the lock until it drops the guard, or the process ends.
    Acquired(Box<dyn LockGuard>),
    /// Another process has the lock, and left this text.
    HeldBy(String),
}

/// An exclusive lock, released on drop.
pub trait LockGuard: Send + Sync + fmt::Debug {
    /// Whether the path still names the locked file. It does not if the folder was moved or the file
    /// was removed; another process may then hold a lock on a new file of the same name.
    fn is_at(&self, path: &Path) -> io::Result<bool>;
}
