//! The log: an append-only sequence of records, each chained to the one before, in segment files.
//!
//! It is the storage of a [ledger](crate), and usable alone: without the feature `ledger` the package is
//! this module and [`Error`](crate::Error). The page `docs/src/log.md` says when to prefer it to a plain
//! write-ahead log.
//!
//! ```
//! use plan_ledger::log::{Log, LogOptions, NewRecord, wall_clock};
//!
//! # fn main() -> plan_ledger::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let dir = folder.path().join("orders");
//! let log = Log::create(&dir, LogOptions::system(), wall_clock())?;
//! let ack = log.append(&[NewRecord::new(1, "an order")], wall_clock())?;
//! log.close()?;
//!
//! let (log, report) = Log::open(&dir, LogOptions::system(), wall_clock())?;
//! println!("{}", report.verdict.describe());
//! for record in log.reader()?.records(1) {
//!     assert_eq!(record?.payload, b"an order");
//! }
//! assert_eq!(log.last_durable(), ack);
//! # log.close()
//! # }
//! ```
//!
//! - **Write:** [`Log::append`] returns when a batch is durable. [`Log::submit`] and [`Log::wait`] do it in
//!   two steps, so that one thread has many batches in flight. Concurrent batches share syncs.
//! - **Read:** [`LogReader`] has no lock and writes nothing; in another process it opens the folder itself.
//!   [`LogReader::records`] stops at damage with an error, [`LogReader::walk`] reports it as a
//!   [`LogItem`] and continues. [`LogFollower`] waits for new records.
//! - **Check:** [`verify`] reads everything, the chain included. [`root`] is one hash over the
//!   whole log: if a copy of it is kept elsewhere, a later replacement of any record is detected.
//!
//! # Shapes and units
//!
//! A record has a kind (1 to 0x7FFF are yours; those from 0x8000 on are notes of the log about itself), a
//! payload of up to 16 MiB, and a sequence number, which counts from 1 without gaps. A batch has up to
//! 65,535 records and is committed as a whole or not at all. Times are microseconds since the Unix epoch,
//! sizes and offsets are bytes. Time is an argument: [`wall_clock`] is the usual one.
//!
//! # After a crash, and damage
//!
//! [`Log::open`] tells three cases apart, and the [`RecoveryReport`] says which one it was:
//! - The log ends where its writer stopped, or complete records follow that were not acknowledged: they
//!   are kept.
//! - An unfinished write follows the last acknowledged record: it is cut off, and a note in the log
//!   describes it.
//! - Acknowledged bytes are missing or changed. Opening fails with
//!   [`Corrupt`](crate::ErrorKind::Corrupt), [`Tampered`](crate::ErrorKind::Tampered) or
//!   [`Ambiguous`](crate::ErrorKind::Ambiguous), and nothing is changed. Reading continues around a
//!   [`Damage`]. Damage of an index ([`DerivedDamage`]) loses no record and stops no reader.
//!
//! After a failed write or sync it is unknown whether a batch is durable:
//! [`OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown). Open the log again to find out; a batch
//! with a [`BatchKey`] can be repeated without being written twice.
//!
//! # How it works
//!
//! One writer appends batches durably; any number of readers read without a lock, in any process.
//! The subfolders from bottom to top: `folder` (paths, HEAD, LOCK), `notes` (records that the log
//! writes about itself), `segment` (one file), `blob` and `snapshot` (files beside the log),
//! `reader`, `recovery`, `writer`, `verify`. The log does not interpret the payloads of its users. A
//! `mutant!` in the code is a seeded bug that no normal build contains (`src/sim/mutants.rs`).
//!
//! Without the feature `ledger`, nothing is pruned, erased, archived or kept in a store: a log that such a
//! part has changed is refused with [`Unsupported`](crate::ErrorKind::Unsupported).
//!
//! Invariants:
//! - The bytes of committed records never change: they are not truncated, zeroed or repaired in
//!   place. Whole segments are removed only if a retention note covers them, and detached values are
//!   erased only if an erasure note names them: in a new file that replaces the segment. An unfinished write at
//!   the end of the log is closed by a *fence*: a new segment whose header states where its
//!   predecessor logically ends.
//! - A record is acknowledged only after its bytes were written and synced, a `Keeper` (if there is
//!   one) has them, and HEAD was written, in this order.
//! - A bad record ends the log only if the evidence proves that nothing after it can have been
//!   acknowledged (`Evidence::row`). Otherwise the writer refuses to open, and readers continue.
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
#[cfg(feature = "ledger")]
mod prune;
mod reader;
mod record;
mod recovery;
mod segment;
mod snapshot;
mod verify;
mod writer;

pub use crate::format::{Chain, Codec, HeadSync, NewRecord};
pub use crate::storage::{FilesystemKind, wall_clock};
pub use notes::{BatchKey, DiscardedRange, RewrittenRecords};
pub use options::{BackgroundWork, LogOptions, OnAmbiguous, SegmentSizes};
pub use reader::{LogFollower, LogReader, Walk};
pub use record::{Ack, Damage, DerivedDamage, LogItem, LoggedRecord, RecordStatus};
pub use recovery::{TailVerdict, opening_verdict};
pub use segment::ChainCheck;
pub use verify::{
    Completion, ExpectationResult, ExpectedChain, FindingClass, ProgressWatch, RecordCheck,
    Verification, VerifyCounts, VerifyFinding, VerifyOptions, root, verify,
};
pub use writer::{Batch, Durability, Log, RecoveryReport, Ticket};

/// Parts of the documented types, and the parts of a log that a ledger uses. There is no promise of
/// stability.
#[doc(hidden)]
pub use {
    crate::format::FrameFault,
    crate::storage::{DiskStorage, Storage},
    blob::{BLOB_LENGTH_MAX, BlobFile, BlobId, BlobList, BlobReader, BlobState, BlobStore},
    errors::{IS_ALONE, is_missing},
    folder::{MANIFEST_NAME, read_head_slots},
    notes::{
        Anchor, ArchiveReference, KIND_BATCH_KEY, KIND_ERASURE, KIND_GAP, KIND_RECOVERY_NOTE,
        KIND_RETENTION_NOTE, KIND_SNAPSHOT_NOTE, KIND_WRITER_NOTE, LoggedRetentionNote,
        RecoveryNote, RetentionNote,
    },
    options::{Keeper, KeptGroup, NotKept, UidSource},
    reader::{
        CompleteSegment, ReverseWalk, SegmentInfo, SegmentState, SegmentSummary, UnacknowledgedTail,
    },
    record::StreamRule,
    recovery::{Diagnosis, Evidence, EvidenceBit, RECOVERY_TABLE, RecoveryRow, TailSummary},
    segment::FolderPart,
    snapshot::{SnapshotList, list_snapshots},
    verify::{FINDINGS_MAX, ProgressCounter, parallel_map},
    writer::{ClockContinuation, KEY_WINDOW},
};
#[cfg(feature = "ledger")]
#[doc(hidden)]
pub use {
    folder::{BoundAck, LostRecords, StoreBinding, bound_store},
    notes::{
        EarlierWriter, ErasureNote, GapNote, LostRange, SnapshotNote, WriterNote, WriterReason,
    },
    prune::PruneSet,
    recovery::ErasedFiles,
    segment::{ARCHIVE_FORMAT, ArchiveManifest, ArchivedFile, archive_head, uid_text},
    snapshot::{SnapshotFolder, SnapshotReader, write_snapshot},
    writer::{ChainOrigin, CopiedRecord, LogBuilder, LogCopy},
};

pub(crate) use folder::hold_folder;
pub(crate) use options::{process_text, random_uid};
pub(crate) use reader::{BatchSink, is_full_batch, read_ahead};
#[cfg(feature = "store")]
pub(crate) use segment::seal_all;
pub(crate) use writer::is_free;
