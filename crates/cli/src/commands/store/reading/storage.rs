//! The storage for a ledger in a store; the address is the path.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plan_ledger::internals::storage::{DiskStorage, Storage, StorageFile};
use plan_ledger::internals::store::{
    DirectoryObjects, MemoryFile, Objects, bound_ledger, read_in_place, read_parts_in_place,
};
use plan_ledger::{Environment, Error, ErrorKind};

use crate::output::Failure;

use super::super::open::{expect_no_file, open};
use super::super::option::parse_url;
use super::super::patience::patient;
use super::super::remote::at_store;
use super::super::url::{Engine, StoreUrl};

use super::cache::{CACHE_MAX, CachedObjects};

/// How long a command waits for one answer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// A larger ledger is put together in temporary files.
const MEMORY_MAX: u64 = 256 << 20;

/// The folder that caches objects, if any.
static CACHE: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Keep the objects that this process reads in a folder.
pub(crate) fn cache_in(folder: PathBuf) {
    *CACHE.lock().unwrap_or_else(PoisonError::into_inner) = Some(folder);
}

/// How much of a log a command reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The whole ledger: everything is verified before anything is shown.
    Whole,
    /// A few records: only the bytes that are read are verified.
    Parts,
}

/// The storage for a ledger in a store, with its address as `path`. A command reads it once.
///
/// # Errors
/// `Usage` for a wrong address or a place without a ledger, and the errors of reading the store.
pub(crate) fn storage_at(
    path: &Path,
    environment: &Environment,
    extent: Extent,
) -> Result<Arc<dyn Storage>, Failure> {
    static READ: Mutex<Option<(PathBuf, Arc<dyn Storage>)>> = Mutex::new(None);
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, storage)) = read.as_ref().filter(|(known, _)| known == path) {
        return Ok(storage.clone());
    }
    let storage = read_store(path, environment, extent)?;
    *read = Some((path.to_owned(), storage.clone()));
    Ok(storage)
}

fn read_store(
    path: &Path,
    environment: &Environment,
    extent: Extent,
) -> Result<Arc<dyn Storage>, Failure> {
    let url = parse_url(path.to_str().unwrap_or_default())?;
    let objects: Arc<dyn Objects> = if url.engine == Engine::Folder {
        Arc::new(DirectoryObjects::existing(&expect_no_file(&url)?))
    } else {
        let store = open(&url, TIMEOUT, false)?;
        store.check()?;
        store.objects
    };
    let client = patient(&url, cached(objects, &url, path, environment)?, environment);
    let mut folder = None;
    let mut new_file = |total: u64| {
        if total <= MEMORY_MAX {
            let file: Arc<dyn StorageFile> = Arc::new(MemoryFile::default());
            return Ok(file);
        }
        temporary_file(&mut folder)
    };
    let options = environment.log_options();
    let read = match extent {
        Extent::Whole => read_in_place(path, &options, &client, &mut new_file),
        Extent::Parts => read_parts_in_place(path, &options, &client, &mut new_file),
    };
    match read {
        Ok(storage) => Ok(Arc::new(storage)),
        Err(error) if error.kind() == ErrorKind::NotALedger => Err(no_ledger(path)),
        Err(error) => Err(at_store(error, &url.to_string()).into()),
    }
}

/// The same store with the cache that the user named, if any.
fn cached(
    objects: Arc<dyn Objects>,
    url: &StoreUrl,
    path: &Path,
    environment: &Environment,
) -> Result<Arc<dyn Objects>, Failure> {
    let folder = CACHE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let Some(folder) = folder else { return Ok(objects) };
    let client = patient(url, Arc::clone(&objects), environment);
    let identity = bound_ledger(client.objects(), client.retry())
        .map_err(|error| at_store(error, client.url()))?
        .ok_or_else(|| no_ledger(path))?;
    let opened = CachedObjects::open(objects, &url.to_string(), &identity, &folder, CACHE_MAX);
    let opened = opened.map_err(|error| Error::io("open the cache in", &folder, error))?;
    Ok(Arc::new(opened))
}

/// A file that is removed when it is closed, even if this process is killed.
fn temporary_file(folder: &mut Option<tempfile::TempDir>) -> std::io::Result<Arc<dyn StorageFile>> {
    let folder = match folder {
        Some(folder) => folder,
        None => folder.insert(tempfile::tempdir()?),
    };
    let path = folder.path().join("segment");
    let file = DiskStorage.create(&path)?;
    DiskStorage.remove(&path)?;
    Ok(file.into())
}

fn no_ledger(path: &Path) -> Failure {
    let error = Error::new(ErrorKind::NotALedger, "the store has no ledger at this place");
    error
        .with_hint("check the address: `ledger store status` shows what is there")
        .at_path(path)
        .into()
}
