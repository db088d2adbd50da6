//! Opening a log: `recover` creates a log or opens an existing one with recovery, `copy` makes a folder equal to a log
//! in another place, and `steps` has the common parts.

#[cfg(feature = "ledger")]
mod copy;
mod recover;
mod steps;

#[cfg(feature = "ledger")]
pub use copy::{CopiedRecord, LogCopy};
pub(crate) use recover::{create, open};
pub use steps::{ClockContinuation, RecoveryReport};
