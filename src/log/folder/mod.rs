//! The files of a ledger's folder outside the segments: their paths, HEAD and LOCK.

mod head;
mod lock;
mod paths;

pub use head::read_head_slots;
pub(crate) use head::{HeadBytes, HeadFile, read_head};
pub(crate) use lock::{FORKED, Ownership, check_lock_file, take_lock};
pub use paths::MANIFEST_NAME;
pub(crate) use paths::{
    DATA_START, FolderKind, LOG_NAME, LedgerPaths, STAGED_LOG_NAME, TEMPORARY_SUFFIX, check_access,
    check_folder, check_writable, hold_folder, is_temporary,
};
