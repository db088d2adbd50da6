//! The log: records in segments, appended durably, read from any sequence number, recovered.
//!
//! Invariants:
//! - Bytes that were committed are never changed: nothing is shortened, zeroed or repaired in
//!   place. Every anomaly ends in a *fence*, a new segment whose header says where the one
//!   before logically ends.
//! - A record is acknowledged after its bytes were written and synced and HEAD was written, in
//!   this order.
//! - A bad record is the end of the log only where the evidence says that nothing behind it can
//!   have been acknowledged ([`classify`]); else the writer refuses and readers go on.
//! - After a failed write or sync the writer is poisoned: no retry, no reuse of the region.
//! - Readers take no lock and write nothing.
//!
//! Left out on purpose: what records mean; sealing with footers and indexes, group commit over
//! several threads, segments prepared ahead (each comes as an addition, none changes a byte of
//! what is written here).

mod build;
mod draft;
mod evidence;
mod head_file;
mod judge;
mod layout;
mod note;
mod open;
mod options;
mod reader;
mod recovery;
mod scan;
mod segment_walk;
mod verify;
mod walk;
mod writer;

pub use judge::judge;
pub use note::{
    DiscardedRange, KIND_BATCH_KEY, KIND_GAP, KIND_RECOVERY_NOTE, KIND_RETENTION_NOTE,
    KIND_SNAPSHOT_NOTE, RecoveryNote, Survivors,
};
pub use open::OpenReport;
pub use options::{Housekeeping, LogOptions, OnAmbiguous, StreamOf, UidSource};
pub use reader::{LogReader, SegmentSummary};
pub use recovery::{Bit, Evidence, Row, TABLE, Verdict, classify};
pub use scan::Links;
pub use verify::{
    Class, Completion, Counts, Examine, Expectation, Expected, FINDINGS_MAX, Finding, Verification,
    VerifyOptions, Watch, root, verify,
};
pub use walk::{Damage, Item, LoggedRecord, Proof, Walk};
pub use writer::{Ack, Log};
