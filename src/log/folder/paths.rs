//! The paths in a ledger's folder, and whether a folder is a ledger or an archive.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Advice, Error, ErrorKind, Result};
use crate::format::{SEGMENT_HEADER_SIZE, SegmentName, Uid};
use crate::log::bytes::{hex, is_hex};
use crate::log::errors::{IS_ALONE, folder_of_another_user, needs_ledger, not_a_ledger};
use crate::storage::{Entry, EntryKind, FolderAccess, Links, Storage};

/// Offset of a segment's first frame.
pub(crate) const DATA_START: u64 = 4096;

const _: () = assert!(SEGMENT_HEADER_SIZE == 4096, "DATA_START is the header's size");

#[derive(Debug, Clone)]
pub(crate) struct LedgerPaths {
    dir: PathBuf,
    /// The name of the folder with the segments.
    log: &'static str,
}

impl LedgerPaths {
    pub(crate) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), log: LOG_NAME }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.dir.join("LOCK")
    }

    pub(crate) fn head(&self) -> PathBuf {
        self.dir.join("HEAD")
    }

    /// Keeps the ledger out of the index, `git clean` and `git stash -u`.
    pub(crate) fn gitignore(&self) -> PathBuf {
        self.dir.join(".gitignore")
    }

    /// Path of a new HEAD before it is renamed.
    pub(crate) fn temporary_head(&self) -> PathBuf {
        self.dir.join(format!("HEAD{TEMPORARY_SUFFIX}"))
    }

    /// The marker of an erasure that may not be complete.
    pub(crate) fn erasing(&self) -> PathBuf {
        self.dir.join(ERASING_NAME)
    }

    /// Path of the file that names the store of the folder.
    pub(crate) fn binding(&self) -> PathBuf {
        self.dir.join(BINDING_NAME)
    }

    /// Path of a new STORE.json before it is renamed.
    pub(crate) fn temporary_binding(&self) -> PathBuf {
        self.dir.join(TEMPORARY_BINDING_NAME)
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.dir.join(self.log)
    }

    pub(crate) fn blob(&self) -> PathBuf {
        self.dir.join("blob")
    }

    pub(crate) fn snapshots(&self) -> PathBuf {
        self.dir.join("snap")
    }

    pub(crate) fn segment(&self, name: SegmentName) -> PathBuf {
        self.log().join(name.to_string())
    }

    pub(crate) fn temporary(&self, name: SegmentName) -> PathBuf {
        self.log().join(format!("{name}{TEMPORARY_SUFFIX}"))
    }

    /// The folder for the creation of this ledger; it is renamed afterwards. Its name has random
    /// digits, so that another user can neither prepare nor block it. A killed process leaves it
    /// behind.
    pub(crate) fn staging(&self, random: &Uid) -> Self {
        let mut name = self.dir.file_name().unwrap_or_default().to_owned();
        let digits = hex(random.get(..STAGING_DIGITS / 2).unwrap_or_default());
        name.push(format!(".{digits}{STAGING_SUFFIX}"));
        Self { dir: self.dir.with_file_name(name), log: LOG_NAME }
    }

    /// The folder of this name, if it is a staging folder of this ledger.
    pub(crate) fn as_staging(&self, name: &str) -> Option<Self> {
        let own = self.dir.file_name()?.to_str()?;
        let digits = name.strip_prefix(own)?.strip_prefix('.')?.strip_suffix(STAGING_SUFFIX)?;
        let is_one = digits.len() == STAGING_DIGITS && is_hex(digits);
        is_one.then(|| Self { dir: self.dir.with_file_name(name), log: LOG_NAME })
    }

    /// The folder around this one.
    pub(crate) fn parent(&self) -> &Path {
        self.dir.parent().unwrap_or(Path::new(""))
    }

    /// The same folder, for a ledger that is created in place. It is not a ledger until its segment
    /// folder has its final name.
    pub(crate) fn staging_in_place(&self) -> Self {
        Self { dir: self.dir.clone(), log: STAGED_LOG_NAME }
    }

    /// Whether a ledger is created in the folder that it will have.
    pub(crate) fn is_in_place(&self) -> bool {
        self.log == STAGED_LOG_NAME
    }
}

/// Name of the file that names the store of the folder.
pub(crate) const BINDING_NAME: &str = "STORE.json";

/// Name of that file before it is complete.
pub(crate) const TEMPORARY_BINDING_NAME: &str = "STORE.json.tmp";

/// Name of the folder with the segments.
pub(crate) const LOG_NAME: &str = "log";

/// Name of the folder with the segments of a ledger that is created in place.
pub(crate) const STAGED_LOG_NAME: &str = "log.new-ledger.tmp";

/// Suffix of a staging folder.
const STAGING_SUFFIX: &str = ".new-ledger.tmp";

/// Number of random hexadecimal digits before the suffix.
const STAGING_DIGITS: usize = 16;

/// Suffix of files that are not complete yet.
pub(crate) const TEMPORARY_SUFFIX: &str = ".tmp";

/// Whether this is the name of a segment that is being created or was never completed. Other
/// temporary files belong to other programs.
pub(crate) fn is_temporary(name: &str) -> bool {
    name.strip_suffix(TEMPORARY_SUFFIX).is_some_and(|name| SegmentName::parse(name).is_some())
}

/// Open the folder of a ledger once; its path may be a link. All paths of the returned storage
/// start at the open folder.
///
/// # Errors
/// As [`check_folder`] for a path that is not a folder.
pub(crate) fn hold_folder(storage: &Arc<dyn Storage>, dir: &Path) -> Result<Arc<dyn Storage>> {
    mutant!(FolderReachedByPath => return Ok(storage.clone()));
    match storage.hold(dir, Links::Follow) {
        Ok(held) => Ok(held.unwrap_or_else(|| storage.clone())),
        Err(error) => {
            check_folder(&**storage, &LedgerPaths::new(dir))?;
            // It may have been created between the two looks.
            let again = storage.hold(dir, Links::Follow);
            let held = again.map_err(|_| Error::io("open the folder", dir, error))?;
            Ok(held.unwrap_or_else(|| storage.clone()))
        }
    }
}

/// Refuse a folder that is not a ledger, without touching it; report whether it is a ledger, one that is
/// bound to a store, or an archive.
pub(crate) fn check_folder(storage: &dyn Storage, paths: &LedgerPaths) -> Result<FolderKind> {
    let dir = paths.dir();
    let entries = storage.list(dir).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => not_a_ledger(dir, "there is no such folder"),
        std::io::ErrorKind::NotADirectory => not_a_ledger(dir, "this is a file"),
        _ => Error::io("list the folder", dir, error),
    })?;
    let is_link =
        |entry: &&Entry| entry.kind == EntryKind::Other && OWN_NAMES.contains(&entry.name.as_str());
    if let Some(link) = entries.iter().find(is_link).filter(|_| !mutant!(LinkFollowed)) {
        let why =
            format!("`{}` in it is a link or a special file, which a ledger never has", link.name);
        return Err(not_a_ledger(dir, &why));
    }
    let has = |name: &str, kind| entries.iter().any(|e| e.name == name && e.kind == kind);
    if !has("log", EntryKind::Folder) {
        return Err(not_a_ledger(dir, "it has no folder `log`"));
    }
    // Many programs have a folder `log`. A ledger that lost its HEAD still has segments.
    let is_ledger = has("HEAD", EntryKind::File) || {
        let folder = paths.log();
        let names = storage.list(&folder).map_err(|e| Error::io("list the folder", &folder, e))?;
        names.iter().any(|entry| SegmentName::parse(&entry.name).is_some())
    };
    if !is_ledger {
        return Err(not_a_ledger(dir, "it has no file `HEAD`, and `log` holds no segment"));
    }
    let foreign = [BINDING_NAME, ERASING_NAME].into_iter().find(|name| has(name, EntryKind::File));
    if let Some(name) = foreign.filter(|_| IS_ALONE) {
        return Err(needs_ledger(&format!("the folder has the file `{name}`")).at_path(dir));
    }
    if has(MANIFEST_NAME, EntryKind::File) {
        return Ok(FolderKind::Archive);
    }
    let is_bound = has(BINDING_NAME, EntryKind::File);
    Ok(if is_bound { FolderKind::Bound } else { FolderKind::Ledger })
}

/// Says that an erasure may not be complete.
const ERASING_NAME: &str = "ERASING";

/// The names in the folder of a ledger, those of a runner included.
const OWN_NAMES: [&str; 10] = [
    "HEAD",
    "LOCK",
    "log",
    "snap",
    "blob",
    "work",
    ".gitignore",
    "AGENTS.json",
    MANIFEST_NAME,
    BINDING_NAME,
];

/// Refuse to write to the ledger of another user: that user could replace its files at any time.
///
/// # Errors
/// `Rejected`.
pub(crate) fn check_access(storage: &dyn Storage, dir: &Path) -> Result<()> {
    let access =
        storage.folder_access(dir).map_err(|error| Error::io("look at the folder", dir, error))?;
    match access {
        FolderAccess::Own | FolderAccess::Group | FolderAccess::Superuser { .. } => Ok(()),
        FolderAccess::Other { owner } => Err(folder_of_another_user(dir, owner)),
    }
}

/// Whether a folder is a ledger, one that is bound to a store, or an unpacked archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FolderKind {
    Ledger,
    Bound,
    Archive,
}

/// Refuse to write to an archive.
///
/// # Errors
/// `Rejected`.
pub(crate) fn check_writable(kind: FolderKind, dir: &Path) -> Result<()> {
    match kind {
        FolderKind::Ledger | FolderKind::Bound => Ok(()),
        FolderKind::Archive => Err(Error::new(ErrorKind::Rejected, "an archive is read-only")
            .with_advice(Advice::ReadArchive)
            .at_path(dir)),
    }
}

/// Name of an archive's manifest.
pub const MANIFEST_NAME: &str = "ARCHIVE.json";
