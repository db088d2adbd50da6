//! A ledger's folder and the log in a store: opening a folder that is bound to a store, restoring one,
//! and following the store.
//!
//! `client` is a store as a process uses it, `blobs` copies blobs, `follow` makes a folder equal to the log in the store,
//! `keeper` commits what an open log writes, `open` takes over, and `restore` makes new folders.
//!
//! Invariants:
//! - HEAD of a folder covers no record that the store does not have.
//! - Records of a folder that may be acknowledged are never dropped: the folder is refused instead.
//! - A folder writes to the log only in an epoch that it opened, in a segment that only it knew before.

mod blobs;
mod client;
mod follow;
mod keeper;
mod open;
mod restore;

pub use client::StoreClient;
pub use follow::FolderProgress;
pub use keeper::StoreKeeper;
pub use open::{BoundLog, open_bound};
pub use restore::{replicate, restore};
