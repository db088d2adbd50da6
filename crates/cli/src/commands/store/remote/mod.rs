//! The adapter between the library's port and the clients of S3, Azure and Google Cloud Storage.
//!
//! One thread carries out the requests of all threads, which wait for their answers. It sends each
//! request once: the protocol decides how to continue after an unclear answer. The store may still
//! execute a request after its caller gave up.
//!
//! `transport` sends the requests and reads the store's clock, `failure` words errors, and
//! `located` adds their place.

mod failure;
mod located;
mod transport;

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions,
};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio_stream::{Stream, StreamExt as _};

use plan_ledger::internals::store::{
    CreatedObject, ListedObject, Objects, StoreTime, StoredObject, Unclear,
};

use super::url::Engine;

use failure::Reason;
use transport::ResponseTime;

pub(super) use failure::CallFailure;
pub(crate) use located::{at_store, failure_at_store, unanswered};
pub(super) use transport::Transport;

/// The extra time of a request with a large object: one second for this many bytes.
const BYTES_PER_SECOND: u64 = 1 << 20;

/// How much time a request for an object of unknown length gets: that of this many bytes.
const UNKNOWN_LENGTH: u64 = 16 << 20;

/// A store behind a network, below the prefix of a ledger.
pub(super) struct RemoteObjects {
    store: Arc<dyn ObjectStore>,
    prefix: Vec<String>,
    timeout: Duration,
    /// The provider; hints use its names.
    engine: Engine,
    reactor: Reactor,
}

/// The thread that carries out requests. It ends with its owner.
struct Reactor {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Reactor {
    fn start() -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("store".to_owned()).spawn(move || {
            // In both cases the owner is gone.
            let _ = runtime.block_on(stopped);
        })?;
        Ok(Self { handle, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for RemoteObjects {
    /// Without the client, which has the credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteObjects").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl RemoteObjects {
    pub(super) fn new(
        store: Arc<dyn ObjectStore>,
        prefix: Vec<String>,
        timeout: Duration,
        engine: Engine,
    ) -> std::io::Result<Self> {
        Ok(Self { store, prefix, timeout, engine, reactor: Reactor::start()? })
    }

    /// Carry out a request, and wait for its answer as long as `timeout` and the size of the object allow.
    fn call<T, F>(&self, bytes: u64, request: F) -> Result<T, CallFailure>
    where
        T: Send + 'static,
        F: Future<Output = object_store::Result<T>> + Send + 'static,
    {
        let limit = self.timeout.saturating_add(Duration::from_secs(bytes / BYTES_PER_SECOND));
        let (answer, answered) = mpsc::sync_channel(1);
        let task = self.reactor.handle.spawn(async move {
            // The caller may have given up.
            let _ = answer.send(request.await);
        });
        match answered.recv_timeout(limit) {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(error)) => Err(CallFailure::of(&error)),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                task.abort();
                Err(CallFailure::no_answer(limit))
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(CallFailure::interrupted()),
        }
    }

    fn path(&self, name: &str) -> Result<Path, Unclear> {
        let parts: Vec<&str> = self.prefix.iter().map(String::as_str).chain([name]).collect();
        Path::parse(parts.join("/"))
            .map_err(|_| Unclear::no_answer(format!("`{name}` is not the name of an object")))
    }

    /// The content of a range that starts after the end of its object: no bytes. Servers refuse such a range in
    /// different ways.
    fn nothing_from(&self, name: &str, start: u64) -> Option<StoredObject> {
        let (path, store) = (self.path(name).ok()?, Arc::clone(&self.store));
        let meta = self.call(0, async move { store.head(&path).await }).ok()?;
        let at = store_time(meta.last_modified.timestamp_micros());
        (meta.size <= start).then_some(StoredObject { bytes: Vec::new(), at })
    }

    /// Why a call has no clear outcome.
    fn unclear(&self, what: &str, name: &str, failure: &CallFailure) -> Unclear {
        failure.unclear(&format!("cannot {what} {name}"), self.engine)
    }

    /// List a folder, with the reason if that fails.
    pub(super) fn list_folder(&self, folder: &str) -> Result<Vec<ListedObject>, CallFailure> {
        let name = folder.trim_end_matches('/');
        let Ok(path) = self.path(name) else { return Ok(Vec::new()) };
        self.listed(folder, &path, "", self.store.list(Some(&path)))
    }

    /// Read a listing. The time for an answer counts for each page of it.
    fn listed(
        &self,
        folder: &str,
        path: &Path,
        after: &str,
        mut listing: Pin<Box<dyn Stream<Item = object_store::Result<ObjectMeta>> + Send>>,
    ) -> Result<Vec<ListedObject>, CallFailure> {
        let (found, next) = mpsc::channel();
        let task = self.reactor.handle.spawn(async move {
            while let Some(object) = listing.next().await {
                // The caller may have given up.
                if found.send(Some(object)).is_err() {
                    return;
                }
            }
            let _ = found.send(None);
        });
        let mut objects = Vec::new();
        loop {
            match next.recv_timeout(self.timeout) {
                Ok(None) => return Ok(objects),
                // Some servers list a folder with deleted objects as an object of its name.
                Ok(Some(Ok(meta))) => objects.extend(listed_in(folder, path, after, &meta)),
                Ok(Some(Err(error))) => match CallFailure::of(&error) {
                    CallFailure { reason: Reason::Missing, .. } if objects.is_empty() => {
                        return Ok(objects);
                    }
                    failure => return Err(failure),
                },
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    task.abort();
                    return Err(CallFailure::no_answer(self.timeout));
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err(CallFailure::interrupted()),
            }
        }
    }
}

/// The object of a folder that a store listed; `None` for one in a folder below, or up to `after`.
fn listed_in(folder: &str, path: &Path, after: &str, meta: &ObjectMeta) -> Option<ListedObject> {
    let mut parts = meta.location.prefix_match(path)?;
    let file = parts.next()?;
    let name = format!("{folder}{}", file.as_ref());
    // Not every server begins a listing in the middle.
    let is_listed = parts.next().is_none() && name.as_str() > after;
    let at = store_time(meta.last_modified.timestamp_micros());
    is_listed.then_some(ListedObject { name, length: meta.size, at })
}

fn store_time(micros: i64) -> Option<StoreTime> {
    u64::try_from(micros).ok().filter(|micros| *micros > 0).map(StoreTime)
}

impl Objects for RemoteObjects {
    fn create(&self, name: &str, bytes: &[u8]) -> Result<CreatedObject, Unclear> {
        let (path, store) = (self.path(name)?, Arc::clone(&self.store));
        let payload = bytes.to_vec();
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let created = self.call(length, async move {
            store.put_opts(&path, payload.into(), PutOptions::from(PutMode::Create)).await
        });
        let created = created.map_err(|failure| self.unclear("create", name, &failure))?;
        Ok(CreatedObject { at: created.extensions.get::<ResponseTime>().map(|time| time.0) })
    }

    fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Option<StoredObject>, Unclear> {
        if range.as_ref().is_some_and(|range| range.end <= range.start) {
            return Err(Unclear::no_answer(format!("cannot read {name}: the range is empty")));
        }
        let (path, store) = (self.path(name)?, Arc::clone(&self.store));
        let start = range.as_ref().map(|range| range.start);
        let most = range.as_ref().map_or(UNKNOWN_LENGTH, |range| range.end - range.start);
        let found = self.call(most, async move {
            let range = range.map(GetRange::Bounded);
            let found =
                store.get_opts(&path, GetOptions { range, ..GetOptions::default() }).await?;
            let at = found.meta.last_modified.timestamp_micros();
            Ok((found.bytes().await?.to_vec(), at))
        });
        match found {
            Ok((bytes, at)) => Ok(Some(StoredObject { bytes, at: store_time(at) })),
            Err(CallFailure { reason: Reason::Missing, .. }) => Ok(None),
            Err(failure) => match start.and_then(|start| self.nothing_from(name, start)) {
                Some(nothing) => Ok(Some(nothing)),
                None => Err(self.unclear("read", name, &failure)),
            },
        }
    }

    fn list(&self, folder: &str) -> Result<Vec<ListedObject>, Unclear> {
        self.list_folder(folder).map_err(|failure| self.unclear("list", folder, &failure))
    }

    fn list_after(&self, folder: &str, after: &str) -> Result<Vec<ListedObject>, Unclear> {
        let (path, offset) = (self.path(folder.trim_end_matches('/'))?, self.path(after)?);
        let listing = self.store.list_with_offset(Some(&path), &offset);
        self.listed(folder, &path, after, listing)
            .map_err(|failure| self.unclear("list", folder, &failure))
    }

    fn put_hint(&self, name: &str, bytes: &[u8]) -> Result<(), Unclear> {
        let (path, store) = (self.path(name)?, Arc::clone(&self.store));
        let payload = bytes.to_vec();
        let written = self.call(0, async move { store.put(&path, payload.into()).await });
        written.map(drop).map_err(|failure| self.unclear("write", name, &failure))
    }

    fn delete(&self, name: &str) -> Result<(), Unclear> {
        let (path, store) = (self.path(name)?, Arc::clone(&self.store));
        match self.call(0, async move { store.delete(&path).await }) {
            Ok(()) | Err(CallFailure { reason: Reason::Missing, .. }) => Ok(()),
            Err(failure) => Err(self.unclear("delete", name, &failure)),
        }
    }
}
