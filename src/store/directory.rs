//! A store in a folder of a local file system, for tests and for one machine.
//!
//! An object is written to a file without a name, synced, and linked to its name. Creating a hard link is atomic, and
//! fails if the name exists. The time of the store is the modification time of the file.
//!
//! Invariants:
//! - The first object creates the subfolder for its kind. The folder of the store itself is never created again: if it
//!   is missing, because its file system is gone, every call fails instead of reporting missing objects.
//! - Only one call needs a file without a name, and removes it even if the call fails. A file that a killed process
//!   left is removed a day later. If a call still needed it, the call fails, and its caller checks the result.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::name::PROBE;
use super::objects::{CreatedObject, ListedObject, Objects, StoreTime, StoredObject, Unclear};

/// The hint for a folder that does not exist.
const AWAY: &str = "check that the folder of the store exists, and try again";
/// The hint for a full disk.
const FULL: &str = "free some space on the disk of the store, and try again";
/// The hint for a folder that this process may not read or write.
const FORBIDDEN: &str =
    "check the permissions of the store's folder and whether its file system is read-only";

/// The folder of files that have no name yet.
const UNNAMED: &str = ".unnamed";

/// How old a file without a name is that a killed process must have left behind.
const LEFT_BEHIND: Duration = Duration::from_secs(24 * 60 * 60);

/// How often a folder is made that another process removes while it is empty.
const TRIES: u32 = 8;

/// A store in a folder.
#[derive(Debug)]
pub struct DirectoryObjects {
    root: PathBuf,
    /// Whether the folder existed when the store was opened. A store without its folder has no
    /// objects.
    was_there: bool,
    /// It was opened by a process that may write.
    is_writable: bool,
    /// Makes the names of unnamed files unique in this process.
    counter: AtomicU64,
    /// Whether this handle has looked for files that killed processes left behind.
    is_swept: AtomicBool,
}

impl DirectoryObjects {
    /// The store in a folder, which is created if it is missing.
    ///
    /// # Errors
    /// Any error of the file system.
    pub fn open(root: &Path) -> io::Result<Self> {
        fs::create_dir_all(root)?;
        Ok(Self::new(root, true, true))
    }

    /// The store in a folder that exists, for readers: nothing is created.
    #[must_use]
    pub fn existing(root: &Path) -> Self {
        Self::new(root, root.is_dir(), false)
    }

    fn new(root: &Path, was_there: bool, is_writable: bool) -> Self {
        let (root, counter, is_swept) =
            (root.to_owned(), AtomicU64::new(0), AtomicBool::new(false));
        Self { root, was_there, is_writable, counter, is_swept }
    }

    /// Whether the folder still exists. Without it, because its file system is gone, nothing is known about objects.
    fn is_there(&self) -> bool {
        !self.was_there || self.root.is_dir()
    }

    /// The path of an object. A name never leaves the folder.
    fn path(&self, name: &str) -> Result<PathBuf, Unclear> {
        let is_plain = |part: &str| !part.is_empty() && !part.starts_with('.');
        if name.split('/').all(is_plain) {
            return Ok(self.root.join(name));
        }
        Err(Unclear::no_answer(format!("`{name}` is not the name of an object")))
    }

    /// Remove files without a name that killed processes left behind. `now` is the time of the file system.
    fn remove_left_behind(&self, now: SystemTime) {
        let Ok(entries) = fs::read_dir(self.root.join(UNNAMED)) else { return };
        for entry in entries.flatten() {
            let modified = entry.metadata().and_then(|metadata| metadata.modified());
            let age = modified.ok().and_then(|modified| now.duration_since(modified).ok());
            if age.is_some_and(|age| age >= LEFT_BEHIND) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Run a file operation on a path. If the parent folder is missing, create it and try again; the folder of the
    /// store is never created.
    fn in_folder<T>(&self, path: &Path, work: impl Fn() -> io::Result<T>) -> io::Result<T> {
        let folder = path.parent().filter(|folder| **folder != *self.root);
        let mut tries = 0;
        loop {
            let done = work();
            let is_missing =
                done.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
            let Some(folder) = folder.filter(|_| is_missing && tries < TRIES) else { return done };
            tries += 1;
            match fs::create_dir(folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => sync_parent(folder)?,
            }
        }
    }

    /// Write bytes to a new file without a name.
    fn write_unnamed(&self, bytes: &[u8]) -> io::Result<(PathBuf, File)> {
        loop {
            let number = self.counter.fetch_add(1, Ordering::Relaxed);
            let name = format!("{}-{number}", std::process::id());
            let path = self.root.join(UNNAMED).join(name);
            let create = || OpenOptions::new().write(true).create_new(true).open(&path);
            match self.in_folder(&path, create) {
                Ok(mut file) => {
                    let written = file.write_all(bytes).and_then(|()| file.sync_all());
                    // The part that a full disk took is useless.
                    written.inspect_err(|_| drop(fs::remove_file(&path)))?;
                    return Ok((path, file));
                }
                // Left behind by an earlier process.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn create_file(&self, path: &Path, bytes: &[u8]) -> io::Result<CreatedObject> {
        let (unnamed, file) = self.write_unnamed(bytes)?;
        let link = || fs::hard_link(&unnamed, path);
        let linked = self.in_folder(path, link).and_then(|()| sync_parent(path));
        let removed = fs::remove_file(&unnamed);
        linked.and(removed)?;
        let metadata = file.metadata()?;
        if let Ok(now) = metadata.modified()
            && !self.is_swept.swap(true, Ordering::Relaxed)
        {
            self.remove_left_behind(now);
        }
        Ok(CreatedObject { at: modified(&metadata) })
    }

    fn replace_file(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let (unnamed, _) = self.write_unnamed(bytes)?;
        let renamed = self.in_folder(path, || fs::rename(&unnamed, path));
        if renamed.is_err() {
            let _ = fs::remove_file(&unnamed);
        }
        renamed
    }
}

/// Remove the folder of unnamed files, if no other process uses it.
impl Drop for DirectoryObjects {
    fn drop(&mut self) {
        if self.is_writable {
            let _ = fs::remove_dir(self.root.join(UNNAMED));
        }
    }
}

fn sync_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

fn modified(metadata: &fs::Metadata) -> Option<StoreTime> {
    let time = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(time.as_micros()).ok().map(StoreTime)
}

fn unclear(what: &str, name: &str, error: &io::Error) -> Unclear {
    let why = format!("cannot {what} {name}: {error}");
    let hint = match error.kind() {
        // The folder is gone, for example because its file system is not mounted.
        io::ErrorKind::NotFound => return Unclear::no_answer(why).with_hint(Some(AWAY.to_owned())),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some(FULL),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Some(FORBIDDEN),
        _ => None,
    };
    Unclear::answered(why).with_hint(hint.map(str::to_owned))
}

impl Objects for DirectoryObjects {
    fn create(&self, name: &str, bytes: &[u8]) -> Result<CreatedObject, Unclear> {
        let path = self.path(name)?;
        self.create_file(&path, bytes).map_err(|error| unclear("create", name, &error))
    }

    fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Option<StoredObject>, Unclear> {
        let path = self.path(name)?;
        let read = || -> io::Result<StoredObject> {
            let mut file = File::open(&path)?;
            let at = modified(&file.metadata()?);
            let mut bytes = Vec::new();
            match &range {
                None => {
                    file.read_to_end(&mut bytes)?;
                }
                Some(range) => {
                    file.seek(SeekFrom::Start(range.start))?;
                    let length = range.end.saturating_sub(range.start);
                    file.take(length).read_to_end(&mut bytes)?;
                }
            }
            Ok(StoredObject { bytes, at })
        };
        match read() {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.is_there() => Ok(None),
            Err(error) => Err(unclear("read", name, &error)),
        }
    }

    fn list_after(&self, folder: &str, after: &str) -> Result<Vec<ListedObject>, Unclear> {
        let path = self.path(folder.trim_end_matches('/'))?;
        let read = || -> io::Result<Vec<ListedObject>> {
            let mut listing = Vec::new();
            for entry in fs::read_dir(&path)? {
                let entry = entry?;
                let name = format!("{folder}{}", entry.file_name().to_string_lossy());
                // Asking for the length and the time of every file takes most of the time.
                if name.as_str() <= after {
                    continue;
                }
                match entry.metadata() {
                    Ok(metadata) if metadata.is_file() => {
                        let (length, at) = (metadata.len(), modified(&metadata));
                        listing.push(ListedObject { name, length, at });
                    }
                    Ok(_) => {}
                    // It was deleted in the meantime.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(listing)
        };
        match read() {
            Ok(listing) => Ok(listing),
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.is_there() => {
                Ok(Vec::new())
            }
            Err(error) => Err(unclear("list", folder, &error)),
        }
    }

    fn put_hint(&self, name: &str, bytes: &[u8]) -> Result<(), Unclear> {
        let path = self.path(name)?;
        self.replace_file(&path, bytes).map_err(|error| unclear("write", name, &error))
    }

    fn delete(&self, name: &str) -> Result<(), Unclear> {
        match fs::remove_file(self.path(name)?) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(unclear("delete", name, &error));
            }
            _ => {}
        }
        // A probe leaves nothing behind, but the folder stays while it has another object.
        if name.starts_with(PROBE) {
            let _ = fs::remove_dir(self.root.join(PROBE));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::probe;

    /// Goal: a folder keeps the promises of a store, also between handles.
    #[test]
    fn folder_passes_the_probe() {
        let folder = tempfile::tempdir().unwrap();
        let store = DirectoryObjects::open(folder.path()).unwrap();
        assert_eq!(probe(&store, "a"), Vec::<String>::new());
        let other = DirectoryObjects::open(folder.path()).unwrap();
        store.create("tail/1", b"one").unwrap();
        assert!(other.create("tail/1", b"two").is_err());
        let found = other.get("tail/1", None).unwrap().unwrap();
        assert_eq!((found.bytes.as_slice(), found.at.is_some()), (&b"one"[..], true));
        assert_eq!(other.get("tail/1", Some(1..9)).unwrap().unwrap().bytes, b"ne");
        assert_eq!(other.get("tail/2", None).unwrap(), None);
        for name in ["tail/0", "tail/2"] {
            store.create(name, b"x").unwrap();
        }
        let listed = |after| {
            let listing = other.list_after("tail/", after).unwrap().into_iter();
            let mut names: Vec<_> = listing.map(|listed| listed.name).collect();
            names.sort();
            names
        };
        assert_eq!(listed("tail/"), ["tail/0", "tail/1", "tail/2"]);
        assert_eq!(listed("tail/0"), ["tail/1", "tail/2"]);
        assert_eq!(listed("tail/00"), ["tail/1", "tail/2"]);
        assert_eq!(listed("tail/2"), Vec::<String>::new());
        // Neither successful nor failed creates leave files behind.
        assert_eq!(fs::read_dir(folder.path().join(UNNAMED)).unwrap().count(), 0);
        drop((store, other));
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().flatten().collect();
        assert_eq!(left.iter().map(fs::DirEntry::file_name).collect::<Vec<_>>(), ["tail"]);
    }

    /// Goal: a process that probes a store leaves nothing there, however many do at once.
    #[test]
    fn probes_leave_no_folder_behind() {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for id in ["a", "b", "c"] {
                let root = folder.path();
                scope.spawn(move || {
                    let store = DirectoryObjects::open(root).unwrap();
                    assert_eq!(probe(&store, id), Vec::<String>::new());
                });
            }
        });
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    /// Goal: a failed write leaves no file without a name; one that a killed process left is removed a day later, and a
    /// younger one stays.
    #[test]
    fn files_without_a_name_do_not_stay() {
        let folder = tempfile::tempdir().unwrap();
        let store = DirectoryObjects::open(folder.path()).unwrap();
        store.create("tail/1", b"1").unwrap();
        let unnamed = folder.path().join(UNNAMED);
        // A folder has the name of the object.
        fs::create_dir_all(folder.path().join("nodes/1.json")).unwrap();
        assert!(store.put_hint("nodes/1.json", b"1").is_err());
        assert!(store.create("nodes/1.json", b"1").is_err());
        assert_eq!(fs::read_dir(&unnamed).unwrap().count(), 0);
        let (old, young) = (unnamed.join("1-0"), unnamed.join("1-1"));
        for path in [&old, &young] {
            fs::write(path, b"left").unwrap();
        }
        let now = fs::metadata(&young).unwrap().modified().unwrap();
        let before = now - LEFT_BEHIND - Duration::from_secs(9);
        File::options().write(true).open(&old).unwrap().set_modified(before).unwrap();
        DirectoryObjects::open(folder.path()).unwrap().create("tail/2", b"2").unwrap();
        assert!(!old.exists() && young.exists());
    }

    /// Goal: a lost folder, for example after its file system was unmounted, proves nothing about
    /// its objects.
    #[test]
    fn missing_folder_gives_no_answer() {
        let place = tempfile::tempdir().unwrap();
        let (folder, away) = (place.path().join("store"), place.path().join("away"));
        let store = DirectoryObjects::open(&folder).unwrap();
        assert_eq!(store.get("tail/1", None).unwrap(), None);
        assert_eq!(store.list("tail/").unwrap(), []);
        fs::rename(&folder, &away).unwrap();
        assert!(store.get("tail/1", None).is_err() && store.list("tail/").is_err());
        assert!(!store.create("tail/1", b"1").unwrap_err().is_answered);
        assert!(!store.put_hint("a", b"1").unwrap_err().is_answered);
        fs::rename(&away, &folder).unwrap();
        assert_eq!(store.get("tail/1", None).unwrap(), None);
        // A reader of a folder that never was finds no objects.
        let none = DirectoryObjects::existing(&place.path().join("none"));
        assert_eq!(none.get("tail/1", None).unwrap(), None);
        assert_eq!(none.list("tail/").unwrap(), []);
    }

    /// Goal: a full disk and a missing permission are answers with advice for a person, and leave
    /// no files behind.
    #[test]
    fn errors_of_the_file_system_are_answers() {
        for (kind, word) in [
            (io::ErrorKind::StorageFull, "free some space"),
            (io::ErrorKind::QuotaExceeded, "free some space"),
            (io::ErrorKind::PermissionDenied, "permissions"),
            (io::ErrorKind::ReadOnlyFilesystem, "read-only"),
        ] {
            let why = unclear("create", "tail/1", &kind.into());
            assert!(
                why.message().starts_with("the store answers with an error: cannot create tail/1")
            );
            assert!(why.hint.unwrap().contains(word), "{kind}");
        }
        let folder = tempfile::tempdir().unwrap();
        let store = DirectoryObjects::open(folder.path()).unwrap();
        fs::create_dir(folder.path().join("OWNER.json")).unwrap();
        assert!(store.put_hint("OWNER.json", b"1").unwrap_err().is_answered);
        // The folder may be there already.
        let _ = fs::remove_dir(folder.path().join("blob"));
        fs::write(folder.path().join("blob"), "").unwrap();
        assert!(store.create("blob/1", b"1").unwrap_err().is_answered);
        let unnamed = fs::read_dir(folder.path().join(UNNAMED));
        assert_eq!(unnamed.map_or(0, Iterator::count), 0);
    }

    /// Goal: hints are overwritten, and deletes can be repeated.
    #[test]
    fn hints_are_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let store = DirectoryObjects::open(folder.path()).unwrap();
        for name in ["OWNER.json", "nodes/1.json"] {
            for hint in [b"1", b"2"] {
                store.put_hint(name, hint).unwrap();
                assert_eq!(store.get(name, None).unwrap().unwrap().bytes, hint);
            }
        }
        store.delete("OWNER.json").unwrap();
        store.delete("OWNER.json").unwrap();
        assert_eq!(store.get("OWNER.json", None).unwrap(), None);
    }

    /// Goal: no name reaches a file outside of the folder.
    #[test]
    fn names_stay_in_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let store = DirectoryObjects::open(&folder.path().join("store")).unwrap();
        for name in ["../x", "/x", "tail/../../x", "tail//x", "", ".unnamed/x"] {
            assert!(store.create(name, b"x").is_err(), "{name}");
            assert!(store.get(name, None).is_err(), "{name}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
