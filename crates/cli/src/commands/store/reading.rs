//! A ledger in a store, for the commands that read it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use plan_ledger::internals::storage::{DiskStorage, Storage, StorageFile};
use plan_ledger::internals::store::{
    DirectoryObjects, MemoryFile, Objects, StoreClient, read_in_place,
};
use plan_ledger::{Environment, Error, ErrorKind};

use crate::output::Failure;

use super::open::open;
use super::url::{Engine, StoreUrl};

/// How long a command waits for one answer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How often a command asks again after unclear answers that follow each other within [`CALM`]: it waits 200 ms, and
/// then twice as long.
const TRIES: u32 = 8;
/// The longest pause before it asks again.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// After so much time without an unclear answer it counts from the start: a long log has many requests, and some of
/// them may meet a busy store.
const CALM: Duration = Duration::from_secs(60);
/// A larger ledger is put together in temporary files.
const MEMORY_MAX: u64 = 256 << 20;

/// The storage in which the ledger in a store has the path `path`, which is its address. A command reads it
/// once.
///
/// # Errors
/// `Usage` for a wrong address or a place without a ledger, and the errors of reading the store.
pub(crate) fn storage_at(
    path: &Path,
    environment: &Environment,
) -> Result<Arc<dyn Storage>, Failure> {
    static READ: Mutex<Option<(PathBuf, Arc<dyn Storage>)>> = Mutex::new(None);
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, storage)) = read.as_ref().filter(|(known, _)| known == path) {
        return Ok(storage.clone());
    }
    let storage = read_store(path, environment)?;
    *read = Some((path.to_owned(), storage.clone()));
    Ok(storage)
}

/// The unclear answers of late.
#[derive(Debug, Default)]
struct Patience {
    last: Option<Instant>,
    count: u32,
}

impl Patience {
    /// How long to wait before the store is asked again; `None`: it does not answer.
    fn pause(&mut self, now: Instant) -> Option<Duration> {
        if self.last.is_some_and(|last| now.duration_since(last) >= CALM) {
            self.count = 0;
        }
        (self.last, self.count) = (Some(now), self.count + 1);
        let pause = Duration::from_millis(100 << self.count.min(TRIES)).min(PAUSE_MAX);
        (self.count < TRIES).then_some(pause)
    }
}

fn read_store(path: &Path, environment: &Environment) -> Result<Arc<dyn Storage>, Failure> {
    let text = path.to_str().unwrap_or_default();
    let url: StoreUrl = text.parse().map_err(|why| {
        let place = if text.contains('@') { "this" } else { text };
        Failure::Usage(format!("{place} is not the address of a store\nhint: {why}"))
    })?;
    let objects: Arc<dyn Objects> = if url.engine == Engine::Folder {
        Arc::new(DirectoryObjects::existing(&url.folder()))
    } else {
        let store = open(&url, TIMEOUT, false)?;
        store.check()?;
        store.objects
    };
    let patience = Mutex::new(Patience::default());
    let client = StoreClient::new(url.to_string(), objects, move |_| {
        let pause = patience.lock().unwrap_or_else(PoisonError::into_inner).pause(Instant::now());
        pause.inspect(|pause| std::thread::sleep(*pause)).is_some()
    });
    let mut folder = None;
    let mut new_file = |total: u64| {
        if total <= MEMORY_MAX {
            let file: Arc<dyn StorageFile> = Arc::new(MemoryFile::default());
            return Ok(file);
        }
        temporary_file(&mut folder)
    };
    let read = read_in_place(path, &environment.log_options(), &client, &mut new_file);
    match read {
        Ok(storage) => Ok(Arc::new(storage)),
        Err(error) if error.kind() == ErrorKind::NotALedger => Err(no_ledger(path)),
        Err(error) => Err(error.into()),
    }
}

/// A file that is removed when it is closed, also if this process is killed.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a store that does not answer is given up after some seconds, and a busy one is not, however
    /// long the log is.
    #[test]
    fn only_a_store_that_does_not_answer_is_given_up() {
        let start = Instant::now();
        let mut patience = Patience::default();
        let mut waited = Duration::ZERO;
        while let Some(pause) = patience.pause(start + waited) {
            waited += pause;
        }
        assert!((Duration::from_secs(5)..Duration::from_secs(20)).contains(&waited), "{waited:?}");
        let mut patience = Patience::default();
        for number in 0..1_000 {
            assert!(patience.pause(start + 2 * CALM * number).is_some(), "{number}");
            assert!(patience.pause(start + 2 * CALM * number + PAUSE_MAX).is_some(), "{number}");
        }
    }
}
