//! Snapshot files: listing, writing and reading them. The body is opaque.

#[cfg(feature = "ledger")]
mod folder;
mod list;
#[cfg(feature = "ledger")]
mod reader;
#[cfg(feature = "ledger")]
mod writer;

#[cfg(feature = "ledger")]
pub use folder::SnapshotFolder;
pub(crate) use list::SnapshotListCache;
pub use list::{SnapshotList, list_snapshots};
#[cfg(feature = "ledger")]
pub use reader::SnapshotReader;
#[cfg(feature = "ledger")]
pub(crate) use reader::damaged_snapshot;
#[cfg(feature = "ledger")]
pub use writer::write_snapshot;
