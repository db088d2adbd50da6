//! Snapshot files: listing, writing and reading them. The body is opaque.

mod folder;
mod list;
mod reader;
mod writer;

pub use folder::SnapshotFolder;
pub(crate) use list::SnapshotListCache;
pub use list::{SnapshotList, list_snapshots};
pub use reader::SnapshotReader;
pub(crate) use reader::damaged_snapshot;
pub use writer::write_snapshot;
