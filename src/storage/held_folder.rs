//! The folder of a ledger, opened once: every path below it starts at the open folder.
//!
//! Invariants:
//! - The path of the folder is resolved once. If the folder, or one above it, is renamed or
//!   replaced later, all calls still act on the folder that was opened.
//! - Nothing below the folder is reached through a link.
//! - Paths outside of the folder are ordinary ones.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use super::disk_file::{boxed, lock, make_private, open};
use super::filesystem_kind::FilesystemKind;
use super::place::Place;
use super::port::{Access, Entry, FolderAccess, Links, LockOutcome, Storage, StorageFile};

/// A folder that is open.
#[derive(Debug)]
pub(super) struct HeldFolder {
    folder: OwnedFd,
    /// The path that stands for the folder. It changes when this storage renames the folder.
    path: RwLock<Arc<Path>>,
}

impl HeldFolder {
    /// Open a folder.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn open(path: &Path, links: Links) -> io::Result<Self> {
        let folder = Place::of(path).open_folder(links)?;
        Ok(Self { folder, path: RwLock::new(path.into()) })
    }

    fn path(&self) -> Arc<Path> {
        self.path.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Calls a function with the place of a path.
    fn at<T>(&self, path: &Path, call: impl FnOnce(&Place<'_>) -> io::Result<T>) -> io::Result<T> {
        match path.strip_prefix(self.path()) {
            Ok(inner) => call(&Place::below(self.folder.as_fd(), inner)?),
            Err(_) => call(&Place::of(path)),
        }
    }

    /// The same for the name of a file or folder: that of the held folder is outside of it.
    fn named<T>(
        &self,
        path: &Path,
        call: impl FnOnce(&Place<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        if path == &*self.path() { call(&Place::of(path)) } else { self.at(path, call) }
    }
}

#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the path of the method is not general over the lifetime of a place"
)]
impl Storage for HeldFolder {
    fn hold(&self, dir: &Path, links: Links) -> io::Result<Option<Arc<dyn Storage>>> {
        if dir == &*self.path() {
            return Ok(None);
        }
        Ok(Some(Arc::new(Self::open(dir, links)?)))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.named(path, |place| place.create_dir(place.is_shared()))
    }

    fn create_ledger_dir(&self, path: &Path, for_group: bool) -> io::Result<()> {
        self.named(path, |place| place.create_dir(for_group))
    }

    fn make_private(&self, path: &Path, for_group: bool) -> io::Result<()> {
        self.at(path, |place| make_private(place, for_group))
    }

    fn folder_access(&self, path: &Path) -> io::Result<FolderAccess> {
        self.at(path, |place| place.folder_access())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        self.at(path, |place| place.list())
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        self.at(path, |place| boxed(place.create()?))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn StorageFile>> {
        self.at(path, |place| open(place, access))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.named(from, |from| self.named(to, |to| from.rename(to)))?;
        if from == &*self.path() {
            *self.path.write().unwrap_or_else(PoisonError::into_inner) = to.into();
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.named(path, |place| place.remove())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.named(path, |place| place.remove_dir())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.at(path, |place| place.sync_dir())
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<LockOutcome> {
        self.at(path, |place| lock(place, holder))
    }

    fn filesystem_kind(&self, path: &Path) -> io::Result<FilesystemKind> {
        self.at(path, |place| place.filesystem_kind())
    }

    fn process(&self) -> u32 {
        std::process::id()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// Story: a ledger's files were opened by path, so a folder that took its place was written to.
    #[test]
    fn replaced_folder_is_not_reached() {
        let around = tempfile::tempdir().unwrap();
        let (above, moved) = (around.path().join("above"), around.path().join("moved"));
        let dir = above.join("a.ledger");
        fs::create_dir_all(dir.join("log")).unwrap();
        let held = HeldFolder::open(&dir, Links::Follow).unwrap();
        fs::rename(&above, &moved).unwrap();
        fs::create_dir_all(dir.join("log")).unwrap();
        held.create(&dir.join("log/1.seg.tmp")).unwrap().write_at(b"x", 0).unwrap();
        held.rename(&dir.join("log/1.seg.tmp"), &dir.join("log/1.seg")).unwrap();
        held.sync_dir(&dir.join("log")).unwrap();
        held.create_dir(&dir.join("snap")).unwrap();
        assert!(matches!(held.lock(&dir.join("LOCK"), "me").unwrap(), LockOutcome::Acquired(_)));
        let names = |path: &Path| -> Vec<String> {
            held.list(path).unwrap().into_iter().map(|entry| entry.name).collect()
        };
        assert_eq!(
            (names(&dir), names(&dir.join("log"))),
            (["LOCK", "log", "snap"].map(str::to_owned).to_vec(), vec!["1.seg".to_owned()],)
        );
        assert!(moved.join("a.ledger/log/1.seg").exists());
        let replaced = fs::read_dir(&dir).unwrap().chain(fs::read_dir(dir.join("log")).unwrap());
        assert_eq!(replaced.count(), 1, "only the folder `log` that the test made");
        held.remove(&dir.join("log/1.seg")).unwrap();
        held.remove_dir(&dir.join("snap")).unwrap();
        assert!(!moved.join("a.ledger/log/1.seg").exists());
    }

    #[test]
    fn link_below_a_held_folder_is_refused() {
        let around = tempfile::tempdir().unwrap();
        let (dir, victim) = (around.path().join("a.ledger"), around.path().join("victim"));
        fs::create_dir(&dir).unwrap();
        fs::create_dir(&victim).unwrap();
        fs::write(victim.join("precious"), "x").unwrap();
        symlink(&victim, dir.join("log")).unwrap();
        symlink(victim.join("precious"), dir.join("HEAD")).unwrap();
        let link = around.path().join("link.ledger");
        symlink(&dir, &link).unwrap();
        HeldFolder::open(&link, Links::Refuse).unwrap_err();
        let held = HeldFolder::open(&link, Links::Follow).unwrap();
        held.create(&link.join("log/new")).unwrap_err();
        held.open(&link.join("log/precious"), Access::Read).unwrap_err();
        held.open(&link.join("HEAD"), Access::ReadWrite).unwrap_err();
        held.remove(&link.join("log/precious")).unwrap_err();
        held.rename(&link.join("log/precious"), &link.join("mine")).unwrap_err();
        held.list(&link.join("log")).unwrap_err();
        held.sync_dir(&link.join("log")).unwrap_err();
        held.create_dir(&link.join("log/new")).unwrap_err();
        held.lock(&link.join("HEAD"), "me").unwrap_err();
        assert_eq!(fs::read_dir(&victim).unwrap().count(), 1);
    }

    #[test]
    fn held_folder_keeps_its_handle_under_its_new_name() {
        let around = tempfile::tempdir().unwrap();
        let (from, to) = (around.path().join("draft"), around.path().join("a.ledger"));
        fs::create_dir(&from).unwrap();
        let held = HeldFolder::open(&from, Links::Refuse).unwrap();
        held.rename(&from, &to).unwrap();
        held.create(&to.join("HEAD")).unwrap();
        assert!(to.join("HEAD").exists());
        assert!(held.hold(&to, Links::Follow).unwrap().is_none());
        assert!(held.hold(around.path(), Links::Follow).unwrap().is_some());
    }
}
