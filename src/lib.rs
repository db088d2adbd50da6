#![doc = include_str!("../README.md")]

/// A seeded bug: `bug!(Name)` tells whether it is enabled, and `bug!(Name => ...)` runs the code
/// only then. Builds without `--cfg bug_zoo` contain none; see `src/zoo.rs`.
#[doc(hidden)]
#[cfg(not(bug_zoo))]
#[macro_export]
macro_rules! bug {
    ($name:ident) => {
        false
    };
    ($name:ident => $($does:tt)+) => {};
}

#[doc(hidden)]
#[cfg(bug_zoo)]
#[macro_export]
macro_rules! bug {
    ($name:ident) => {
        $crate::zoo::is_loose($crate::zoo::Bug::$name)
    };
    ($name:ident => $($does:tt)+) => {
        if $crate::bug!($name) {
            $($does)+;
        }
    };
}

pub mod error;
#[cfg(feature = "plan-files")]
pub mod files;
pub mod format;
#[cfg(any(test, feature = "sim"))]
pub mod lab;
pub mod ledger;
pub mod log;
pub mod plan;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
pub mod storage;
#[cfg(bug_zoo)]
pub mod zoo;

pub use error::{Error, ErrorKind, Location, Result};
pub use ledger::{
    Ack, BatchKey, Clock, Commit, Environment, ForkPoint, Housekeeping, IdSource, Ledger,
    LedgerView, OnAmbiguous, OpenQuestion, OpenReport, Projection, RecordedEvent, Reply, Snapshot,
    Task, plan_hash, state_hash,
};
pub use plan::{Command, Event, Plan, Receipt, RunId, RunPolicy, State, Step, StepNumber};
