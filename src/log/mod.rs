//! The log: records in segments, appended durably, read from any sequence number, recovered.
//!
//! Invariants:
//! - Bytes that were committed are never changed: nothing is shortened, zeroed or repaired in
//!   place. Whole segments go only where a retention note covers them (`prune`). Every anomaly ends in a *fence*, a new segment whose header says where the one
//!   before logically ends.
//! - A record is acknowledged after its bytes were written and synced and HEAD was written, in
//!   this order.
//! - A bad record is the end of the log only where the evidence says that nothing behind it can
//!   have been acknowledged ([`classify`]); else the writer refuses and readers go on.
//! - After a failed write or sync the writer is poisoned: no retry, no reuse of the region. After
//!   the lock is lost it is fenced: nothing more is written, HEAD included.
//! - Threads that append share syncs; every one of them is answered, whatever happens.
//! - Readers take no lock and write nothing.
//!
//! Left out on purpose: what records mean.

mod anatomy;
mod archive;
mod backward;
mod batch;
mod beginning;
mod behind;
mod blob;
mod blob_store;
mod build;
mod builder;
mod commit;
mod course;
mod crew;
mod draft;
mod engine;
mod evidence;
mod fence;
mod follow;
mod head_file;
mod housekeeper;
mod judge;
mod keys;
mod layout;
mod note;
mod open;
mod options;
mod ownership;
mod prepare;
mod prune;
mod queue;
mod reader;
mod recovery;
mod retention;
mod row;
mod scan;
mod seal;
mod sealed;
mod seek;
mod segment_walk;
mod segments;
mod select;
mod snapshot_file;
mod snapshot_folder;
mod snapshot_note;
mod snapshot_reader;
mod verify;
mod waiting;
mod walk;
mod ways;
mod writer;

pub use anatomy::{Anatomy, Stage};
pub use archive::{ARCHIVE_FORMAT, ArchivedFile, MANIFEST, Manifest, archive_head, uid_text};
pub use backward::WalkBack;
pub use batch::{Ack, Batch, BatchKey, Durability, Ticket};
pub use behind::Behind;
pub use blob::{BLOB_LENGTH_MAX, BlobFile, BlobId, BlobList, BlobReader, BlobState};
pub use blob_store::BlobStore;
pub use builder::{Genesis, LogBuilder};
pub use crew::Watch;
#[doc(hidden)]
pub use crew::{Tally, share_out};
pub use follow::Follow;
pub use judge::{Diagnosis, End, diagnose, judge};
pub use keys::KEY_WINDOW;
pub use note::{
    DiscardedRange, GapNote, KIND_BATCH_KEY, KIND_GAP, KIND_RECOVERY_NOTE, KIND_RETENTION_NOTE,
    KIND_SNAPSHOT_NOTE, LostRange, RecoveryNote, Survivors,
};
pub use open::OpenReport;
pub use options::{Housekeeping, LogOptions, OnAmbiguous, SegmentSizes, StreamOf, UidSource};
pub use prune::Removal;
pub use reader::{LogReader, SegmentSummary};
pub use recovery::{Bit, Evidence, Row, TABLE, Verdict, classify};
pub use retention::{Anchor, ArchivedIn, Retention, RetentionNote};
pub use scan::Links;
pub use select::Selection;
pub use snapshot_file::{SnapshotList, list_snapshots, write_snapshot};
pub use snapshot_folder::SnapshotFolder;
pub use snapshot_note::SnapshotNote;
pub use snapshot_reader::SnapshotReader;
pub use verify::{
    Class, Completion, Counts, Examine, Expectation, Expected, FINDINGS_MAX, Finding, Verification,
    VerifyOptions, root, verify,
};
pub use walk::{Damage, DerivedDamage, Item, LoggedRecord, Proof, Walk};
pub use writer::Log;
