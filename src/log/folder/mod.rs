//! The files of a ledger's folder outside the segments: their paths, HEAD and LOCK.

mod head;
mod layout;
mod lock;

pub(crate) use head::{HeadFile, read_head};
pub use layout::MANIFEST_NAME;
pub(crate) use layout::{
    DATA_START, FolderKind, Layout, TEMPORARY_SUFFIX, expect_ledger, expect_writable, is_temporary,
};
pub(crate) use lock::{FORKED, Ownership, expect_in_place, take_lock};
