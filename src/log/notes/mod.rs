//! Records that the log writes about itself: recovery, retention, snapshot, gap, erasure and writer
//! notes, and batch keys. Their kinds start at 0x8001; a reader that does not know one may skip it.

mod batch_key;
#[cfg(feature = "ledger")]
mod erasure;
#[cfg(feature = "ledger")]
mod gap;
mod kinds;
mod recovery;
mod retention;
#[cfg(feature = "ledger")]
mod snapshot;
#[cfg(feature = "ledger")]
mod writer;

pub use batch_key::BatchKey;
#[cfg(feature = "ledger")]
pub use erasure::ErasureNote;
#[cfg(feature = "ledger")]
pub use gap::{GapNote, LostRange};
pub use kinds::{
    KIND_BATCH_KEY, KIND_ERASURE, KIND_GAP, KIND_RECOVERY_NOTE, KIND_RETENTION_NOTE,
    KIND_SNAPSHOT_NOTE, KIND_WRITER_NOTE,
};
pub use recovery::{DiscardedRange, RecoveryNote, RewrittenRecords};
pub use retention::{Anchor, ArchiveReference, LoggedRetentionNote, RetentionNote};
#[cfg(feature = "ledger")]
pub use snapshot::SnapshotNote;
#[cfg(feature = "ledger")]
pub use writer::{EarlierWriter, WriterNote, WriterReason};
