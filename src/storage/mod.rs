//! The storage port: everything that a log asks of a file system, and its implementations.
//!
//! [`DiskStorage`] uses the operating system, [`TarStorage`] reads an archive without unpacking it,
//! and the simulated disk is `sim::SimDisk`. [`Storage::hold`] opens a folder once and for all. Maps are
//! read-only, and no call waits for a lock.
//! [`read_sectors`] continues after sectors that the storage cannot read.
//!
//! The crash contract that the log relies on:
//! - Bytes written with [`StorageFile::write_at`] survive once [`StorageFile::sync`] returned `Ok`.
//!   Before that, any part of them may survive.
//! - The length of a file survives together with its bytes.
//! - A name made by [`Storage::create`] or [`Storage::rename`] survives once [`Storage::sync_dir`] of
//!   its folder returned `Ok`. A rename is atomic.
//! - After a failed sync, nothing is known about the bytes written since the last successful one, and
//!   a later successful sync proves nothing about them.

mod boot_clock;
mod disk;
mod disk_file;
mod filesystem_kind;
mod held_folder;
mod map;
mod place;
mod port;
#[cfg(feature = "ledger")]
mod read_only;
mod sectors;
#[cfg(feature = "ledger")]
mod tar;
mod wall_clock;

pub use boot_clock::boot_clock;
pub use disk::DiskStorage;
pub use filesystem_kind::FilesystemKind;
pub use map::Map;
pub use port::{
    Access, Entry, EntryKind, FolderAccess, IndexList, Links, LockGuard, LockOutcome, Storage,
    StorageFile,
};
#[cfg(feature = "ledger")]
pub(crate) use read_only::read_only;
#[cfg(feature = "store")]
pub(crate) use read_only::{entries_of, refuse_changes, refuse_writes};
pub use sectors::{SectorRead, read_sectors};
#[cfg(feature = "ledger")]
pub use tar::{TarStorage, TarWriter};
pub use wall_clock::wall_clock;
