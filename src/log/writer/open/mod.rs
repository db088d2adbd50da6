//! Opening a log: `recover` creates a log or opens an existing one with recovery, in the steps of `steps`.

mod recover;
mod steps;

pub(crate) use recover::{create, open};
pub use steps::{ClockContinuation, RecoveryReport};
