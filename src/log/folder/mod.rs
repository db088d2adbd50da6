//! The files of a ledger's folder outside the segments: their paths, HEAD, LOCK and STORE.json.

#[cfg(feature = "ledger")]
mod binding;
mod head;
mod lock;
mod paths;

#[cfg(feature = "ledger")]
pub use binding::{BoundAck, LostRecords, StoreBinding, bound_store};
#[cfg(feature = "ledger")]
pub(crate) use binding::{check_unbound, read_binding, write_binding};
pub use head::read_head_slots;
pub(crate) use head::{HeadBytes, HeadFile, read_head};
pub(crate) use lock::{FORKED, Ownership, check_lock_file, take_lock};
pub use paths::MANIFEST_NAME;
pub(crate) use paths::{
    BINDING_NAME, DATA_START, FolderKind, LOG_NAME, LedgerPaths, STAGED_LOG_NAME,
    TEMPORARY_BINDING_NAME, TEMPORARY_SUFFIX, check_access, check_folder, check_writable,
    hold_folder, is_temporary,
};
