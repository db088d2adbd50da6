//! Classifying the end of a log after a crash or damage, and continuing from it.
//!
//! `evidence` observes the newest segment, `table` maps the observations to a verdict, `action`
//! combines it with the caller's policy, `fence` writes the segment in which the log continues.
//! `diagnose` does the first two without the lock. `erase` completes interrupted erasures.
//! `format/recovery.md` is the normative text.

mod action;
mod diagnose;
#[cfg(feature = "ledger")]
mod erase;
mod evidence;
mod fence;
mod table;

pub(crate) use action::RecoveryAction;
pub use diagnose::{Diagnosis, TailSummary, opening_verdict};
pub(crate) use diagnose::{may_be_written, refuse};
#[cfg(feature = "ledger")]
pub use erase::ErasedFiles;
#[cfg(feature = "ledger")]
pub(crate) use erase::{mark_erasing, resume_erasure};
pub(crate) use evidence::{Tail, examine};
pub(crate) use fence::Fence;
pub use table::{Evidence, EvidenceBit, RECOVERY_TABLE, RecoveryRow, TailVerdict};
