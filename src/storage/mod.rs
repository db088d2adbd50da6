//! The one port to the disk: everything that a log asks of a file system.
//!
//! What survives a crash after which call, as the log relies on it:
//! - bytes written with [`StorageFile::write_at`] survive once [`StorageFile::sync`] returned
//!   `Ok`, and may survive in any part before;
//! - a file's length survives with its bytes;
//! - a name made by [`Storage::create`] or moved by [`Storage::rename`] survives once
//!   [`Storage::sync_dir`] of its folder returned `Ok`; a rename is atomic;
//! - after a sync that failed, nothing is known about the bytes written since the last good one,
//!   and a later good sync proves nothing about them.
//!
//! Left out on purpose: writing through maps, and waiting for a lock.

mod archive;
mod disk;
mod map;
mod medium;

use std::fmt;
use std::io;
use std::path::Path;

pub use archive::{ArchiveStorage, ArchiveWriter};
pub use disk::DiskStorage;
pub use map::Map;
pub use medium::Medium;

/// A file system, real or simulated.
pub trait Storage: Send + Sync + fmt::Debug {
    /// Make a folder; it is fine if it is there already.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// What is in a folder, by name.
    fn list(&self, path: &Path) -> io::Result<Vec<Entry>>;

    /// Make a file that is not there yet, for reading and writing.
    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>>;

    /// Open a file that is there.
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn StorageFile>>;

    /// Move a file or folder to a name that is free.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Remove a file: one that never got its name, or one that a person gave up.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Remove an empty folder.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Make the names in a folder durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Take the exclusive lock on a file, which is made if need be, without waiting. `holder`
    /// becomes its text, for people who ask who has it.
    fn lock(&self, path: &Path, holder: &str) -> io::Result<Locking>;

    /// What kind of file system holds a path.
    fn medium(&self, path: &Path) -> io::Result<Medium>;

    /// The number of the process that asks: a fork has another one.
    fn process(&self) -> u32;
}

/// An open file. Dropping it closes it and syncs nothing.
pub trait StorageFile: Send + Sync + fmt::Debug {
    /// Its length in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Read at an offset as much as there is, up to the buffer's length; how much it was.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Write all of the bytes at an offset.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Make bytes and length durable.
    fn sync(&self) -> io::Result<()>;

    /// Make the file that long; what is added is zero.
    fn set_length(&self, length: u64) -> io::Result<()>;

    /// Let nobody write to the file any more who does not take pains to.
    fn make_read_only(&self) -> io::Result<()>;

    /// All bytes of a file that nobody writes to any more.
    fn map(&self) -> io::Result<Map>;
}

/// What an open file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading only.
    Read,
    /// Reading and writing.
    ReadWrite,
}

/// A name in a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The name; names that are not UTF-8 are never ours and are shown with replacements.
    pub name: String,
    /// What it names.
    pub kind: EntryKind,
}

/// What a name in a folder names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// Anything else, symbolic links included.
    Other,
}

/// The answer to a request for the lock.
#[derive(Debug)]
pub enum Locking {
    /// It is ours until this is dropped, or the process ends.
    Ours(Box<dyn LockGuard>),
    /// Somebody has it, and this is the text that they left.
    HeldBy(String),
}

/// A lock that is held as long as this lives.
pub trait LockGuard: Send + Sync + fmt::Debug {
    /// Whether the path leads to the file that was locked: not if the folder was moved away, or
    /// somebody removed the file, in which case others may hold a lock of that name too.
    fn is_in_place(&self, path: &Path) -> io::Result<bool>;
}
