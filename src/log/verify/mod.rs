//! Verifying a whole log: every header, frame and link, both slots of HEAD, and the end of the log.
//!
//! The log is split into ranges, most of them one segment long. Each is verified independently: it
//! must match the statement of its own header about its predecessor and that of its successor's
//! header about itself, so the boundaries between ranges are checked too. Several threads can share
//! one range in pieces.
//!
//! Invariants:
//! - Nothing is written and no lock is taken. A concurrent write is not damage: apparent damage
//!   counts only if a second read finds it again.
//! - The findings are the same for any number of threads, in the order of the log.
//! - Memory: one window and one record for each thread, for a log of any size, and at most
//!   [`FINDINGS_MAX`] findings; further ones are only counted.

mod expect;
mod finding;
mod head;
mod options;
mod parallel;
mod pieces;
mod range;
mod run;
mod tail;

pub use expect::{ExpectationResult, ExpectedChain};
pub use finding::{FindingClass, VerifyFinding};
pub use options::{FINDINGS_MAX, RecordCheck, VerifyCounts, VerifyOptions};
pub use parallel::{ProgressCounter, ProgressWatch, parallel_map};
pub use run::{Completion, Verification, root, verify};
