//! The place from which a command reads a ledger: `source` handles folders, archives and stores,
//! and `storage` reads a store.

#[cfg(feature = "store")]
mod cache;
pub(crate) mod source;
#[cfg(feature = "store")]
mod storage;

#[cfg(feature = "store")]
pub(crate) use storage::{Extent, cache_in, storage_at};
