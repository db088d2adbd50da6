//! A store as a process uses it: the objects, and the rule for repeating calls.

use std::fmt;
use std::sync::Arc;

use crate::store::binding::LedgerIdentity;
use crate::store::objects::Objects;
use crate::store::session::StoreSession;

/// A store below the prefix of a ledger, and the rule for repeating calls.
#[derive(Clone)]
pub struct StoreClient {
    url: Arc<str>,
    objects: Arc<dyn Objects>,
    retry: Arc<dyn Fn(u32) -> bool + Send + Sync>,
}

impl fmt::Debug for StoreClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreClient")
            .field("url", &self.url)
            .field("objects", &self.objects)
            .finish_non_exhaustive()
    }
}

impl StoreClient {
    /// `url` is the address of the store without credentials, which bound folders name. After the n-th unclear answer,
    /// `retry` waits and decides whether to try again.
    pub fn new(
        url: impl Into<Arc<str>>,
        objects: Arc<dyn Objects>,
        retry: impl Fn(u32) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { url: url.into(), objects, retry: Arc::new(retry) }
    }

    /// Address of the store.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    #[must_use]
    pub fn objects(&self) -> &dyn Objects {
        &*self.objects
    }

    /// Called after the n-th unclear answer: waits, and decides whether to try again.
    pub fn retry(&self) -> &dyn Fn(u32) -> bool {
        &*self.retry
    }

    /// A session that speaks for a ledger.
    #[must_use]
    pub fn session(&self, identity: LedgerIdentity) -> StoreSession<'_> {
        StoreSession { objects: &*self.objects, identity, retry: &*self.retry }
    }
}
