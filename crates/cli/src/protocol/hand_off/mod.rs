//! The messages between a runner or a server and its workers: the hand-off, which is the task that a worker gets as
//! JSON on its standard input (`format/hand-off.md`); the receipt that it returns; and short texts and names for both.

mod done;
pub(crate) mod files;
mod nearby;
mod receipt;
mod task;
mod text;

pub use done::{DONE_BYTES_MAX, DoneStep, DoneSummary};
pub use files::{ChangedFile, FileState};
pub use nearby::{Nearby, Neighbour};
pub use receipt::{ArtifactEntry, OutcomeWord, ReceiptFile};
pub use task::{FailedCriterion, HandOff, PlanBrief, PlanContext, PreviousAttempt};
pub(crate) use task::{SCHEMA, class_word};
pub(crate) use text::{describe, title};
