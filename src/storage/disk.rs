//! Storage on the file systems of the operating system, by path. Only `disk_file` and `place` use
//! `std::fs`, `rustix` and `fs2` for the files of a ledger.
//!
//! Invariants:
//! - No symbolic link is followed to a file, and only regular files are opened: a ledger that came
//!   from another person, in a cloned repository, reads and changes nothing outside of its folder.
//! - Files and folders have no access for users other than the ledger's, or its group's if the ledger
//!   is shared.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::disk_file::{boxed, lock, make_private, open};
use super::filesystem_kind::FilesystemKind;
use super::held_folder::HeldFolder;
use super::place::Place;
use super::port::{Access, Entry, FolderAccess, Links, LockOutcome, Storage, StorageFile};

/// The file systems of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiskStorage;

impl Storage for DiskStorage {
    fn hold(&self, dir: &Path, links: Links) -> io::Result<Option<Arc<dyn Storage>>> {
        Ok(Some(Arc::new(HeldFolder::open(dir, links)?)))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let place = Place::of(path);
        place.create_dir(place.is_shared())
    }

    fn create_ledger_dir(&self, path: &Path, for_group: bool) -> io::Result<()> {
        Place::of(path).create_dir(for_group)
    }

    fn make_private(&self, path: &Path, for_group: bool) -> io::Result<()> {
        make_private(&Place::of(path), for_group)
    }

    fn folder_access(&self, path: &Path) -> io::Result<FolderAccess> {
        Place::of(path).folder_access()
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        Place::of(path).list()
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        boxed(Place::of(path).create()?)
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn StorageFile>> {
        open(&Place::of(path), access)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Place::of(from).rename(&Place::of(to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        Place::of(path).remove()
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        Place::of(path).remove_dir()
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        Place::of(path).sync_dir()
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<LockOutcome> {
        lock(&Place::of(path), holder)
    }

    fn filesystem_kind(&self, path: &Path) -> io::Result<FilesystemKind> {
        Place::of(path).filesystem_kind()
    }

    fn process(&self) -> u32 {
        std::process::id()
    }
}
