//! The ledger: a log of events, the state computed from them, and all derived data.
//!
//! [`Ledger`] is a handle for writing, shared by any number of threads; [`LedgerView`] reads a
//! ledger without a lock. `transaction` executes commands, `snapshot` and `replay` fold the log,
//! `history` reports past records, `retention` archives and prunes old records, `transfer` exports,
//! imports and salvages a ledger, and `verify` checks everything.
//!
//! Invariants:
//! - A result is returned only after everything it depends on is durable. A rejected command writes
//!   nothing, except that a late receipt is recorded as rejected.
//! - The state is exactly the fold of the durable records. After a failed write it is folded again
//!   from the log before anything else is decided.
//! - Time and identifiers come from the [`Environment`] alone.

mod blobs;
mod codec;
mod environment;
mod facade;
#[expect(missing_docs, reason = "it has no page")]
mod history;
mod open;
mod projection;
mod replay;
#[expect(missing_docs, reason = "it has no page")]
mod retention;
mod snapshot;
mod transaction;
mod transfer;
#[expect(missing_docs, reason = "it has no page")]
mod verify;
mod view;

pub use crate::log::{Ack, BackgroundWork, BatchKey, OnAmbiguous, SegmentSizes};
pub use crate::plan::time_text;
pub use blobs::{BlobCheck, BlobSurvey, BlobUse, CollectedBlobs, blob_of};
pub use codec::event::{decode, encode};
#[doc(hidden)]
pub use codec::hash::step_hash;
pub use codec::hash::{bytes_hash, commands_hash, plan_draft, plan_hash};
pub use codec::kind::Kind;
pub use codec::note::{NOTE_LENGTH_MAX, Note};
pub use codec::streams::RUN_STREAMS;
pub use environment::{
    Clock, Environment, IdSource, LedgerTime, SystemClock, parse_duration, parse_time,
};
pub use facade::{Claim, ClaimedTask, Ledger, LedgerOptions, OpenQuestion, Reply};
pub use history::attempts::{
    EARLIER_ATTEMPTS_MAX, EarlierAttempt, EarlierAttemptEnd, EarlierDecision,
};
pub use history::changes::ChangedField;
pub use history::compare::{
    AttemptDifference, AttemptEnd, AttemptEndKind, Divergence, DivergenceCause, Pair,
    RunComparison, StepDifference,
};
pub use history::cost::StepCost;
pub use history::finished::{FINISHED_STEPS_MAX, Finished, FinishedStep};
pub use history::finished_cache::FINISHED_OUTPUT_BYTES_MAX;
pub use history::metrics::{Metrics, Ratio, RunMetrics};
pub use history::run_diff::ValueChange;
pub use history::run_history::{ProgressPoint, RunHistory};
pub use history::timeline::{IntervalKind, StepTimeline, TimelineInterval};
pub use history::trace::{PartialTrace, Trace, TracedRecord};
#[doc(hidden)]
pub use open::FollowedState;
pub use open::OpenReport;
pub use projection::{Projection, RecordedEvent};
pub use replay::{Fold, FoldObserver, FoldOrigin};
pub use retention::archive::{ArchiveReport, ArchiveWatch, archive};
pub use retention::erase::{ErasePreview, EraseReport, EraseTarget, copies_in, erase};
pub use retention::prune::{PrunePreview, PruneReport, RetentionLimit};
#[doc(hidden)]
pub use snapshot::load::expect_valid;
#[doc(hidden)]
pub use snapshot::state_hash::computed_state_hash;
pub use snapshot::state_hash::state_hash;
pub use snapshot::store::Snapshot;
pub use transaction::commit::Commit;
#[doc(hidden)]
pub use transaction::dispatch::NextClaim;
pub use transaction::execution::Transaction;
pub use transaction::fork::ForkPoint;
pub use transaction::planned_files::{PLANNED_FILES, PlannedFile, PlannedFiles};
#[doc(hidden)]
pub use transaction::submit::CommitOptions;
pub use transaction::submitted::Submitted;
pub use transaction::task::Task;
pub use transfer::export::{DescribeRecord, ExportReport};
pub use transfer::import::{ImportReport, import};
pub use transfer::lines::is_printable;
pub use transfer::salvage::{GAP_RECORDS_MAX, SalvageReport, salvage};
pub use verify::report::{
    LedgerCondition, VerifyLevel, VerifyPhase, VerifyProgress, VerifyReport, VerifyRequest,
};
pub use view::LedgerView;
