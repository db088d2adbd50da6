//! The log: an append-only sequence of records in segment files.
//!
//! One writer appends batches durably; any number of readers read without a lock, in any process.
//! The subfolders from bottom to top: `folder` (paths, HEAD, LOCK), `notes` (records that the log
//! writes about itself), `segment` (one file), `blob` and `snapshot` (files beside the log),
//! `reader`, `recovery`, `writer`, `verify`. The log does not interpret the payloads of its users. A
//! `mutant!` in the code is a seeded bug that no normal build contains (`src/sim/mutants.rs`).
//!
//! Invariants:
//! - The bytes of committed records never change: they are not truncated, zeroed or repaired in
//!   place. Whole segments are removed only if a retention note covers them, and detached values are
//!   erased only if an erasure note names them: in a new file that replaces the segment. An unfinished write at
//!   the end of the log is closed by a *fence*: a new segment whose header states where its
//!   predecessor logically ends.
//! - A record is acknowledged only after its bytes were written and synced, the [`Keeper`] has them if
//!   there is one, and HEAD was written, in this order.
//! - A bad record ends the log only if the evidence proves that nothing after it can have been
//!   acknowledged ([`classify`]). Otherwise the writer refuses to open, and readers continue.
//! - After a failed write or sync the writer is poisoned: it neither retries nor reuses the region.
//!   After it lost the lock it is *fenced off*: it writes nothing more, not even HEAD.
//! - Concurrent appends share syncs, and every caller gets a result, even if the flushing thread
//!   panics.
//! - Readers take no lock and write nothing.

mod blob;
mod bytes;
mod errors;
mod folder;
mod notes;
mod options;
mod prune;
mod reader;
mod record;
mod recovery;
mod segment;
mod snapshot;
mod verify;
mod writer;

pub use blob::{BLOB_LENGTH_MAX, BlobFile, BlobId, BlobList, BlobReader, BlobState, BlobStore};
pub use errors::is_missing;
pub(crate) use folder::hold_folder;
pub use folder::{
    BoundAck, LostRecords, MANIFEST_NAME, StoreBinding, bound_store, read_head_slots,
};
pub use notes::{
    Anchor, ArchiveReference, BatchKey, DiscardedRange, EarlierWriter, ErasureNote, GapNote,
    KIND_BATCH_KEY, KIND_ERASURE, KIND_GAP, KIND_RECOVERY_NOTE, KIND_RETENTION_NOTE,
    KIND_SNAPSHOT_NOTE, KIND_WRITER_NOTE, LoggedRetentionNote, LostRange, RecoveryNote,
    RetentionNote, RewrittenRecords, SnapshotNote, WriterNote, WriterReason,
};
pub use options::{
    BackgroundWork, Keeper, KeptGroup, LogOptions, NotKept, OnAmbiguous, SegmentSizes, UidSource,
};
pub use prune::PruneSet;
pub(crate) use reader::{BatchSink, is_full_batch, read_ahead};
pub use reader::{
    CompleteSegment, LogFollower, LogReader, ReverseWalk, SegmentInfo, SegmentState,
    SegmentSummary, UnacknowledgedTail, Walk,
};
pub use record::{Ack, Damage, DerivedDamage, LogItem, LoggedRecord, RecordStatus, StreamRule};
pub use recovery::{
    Diagnosis, ErasedFiles, Evidence, EvidenceBit, RECOVERY_TABLE, RecoveryRow, TailSummary,
    TailVerdict, classify, diagnose, opening_verdict,
};
#[cfg(feature = "store")]
pub(crate) use segment::seal_all;
pub use segment::{
    ARCHIVE_FORMAT, ArchiveManifest, ArchivedFile, ChainCheck, FolderPart, archive_head, uid_text,
};
pub use snapshot::{SnapshotFolder, SnapshotList, SnapshotReader, list_snapshots, write_snapshot};
pub use verify::{
    Completion, ExpectationResult, ExpectedChain, FINDINGS_MAX, FindingClass, ProgressCounter,
    ProgressWatch, RecordCheck, Verification, VerifyCounts, VerifyFinding, VerifyOptions,
    parallel_map, root, verify,
};
pub(crate) use writer::is_free;
pub use writer::{
    Batch, ChainOrigin, ClockContinuation, CopiedRecord, Durability, KEY_WINDOW, Log, LogBuilder,
    LogCopy, RecoveryReport, Ticket,
};
