#![doc = include_str!("../README.md")]

/// A bug that was seeded on purpose: `bug!(Name)` says whether it is let loose, and `bug!(Name =>
/// ...)` does what it does. Only a build of the zoo has any; see `src/zoo.rs`.
#[cfg(not(bug_zoo))]
macro_rules! bug {
    ($name:ident) => {
        false
    };
    ($name:ident => $($does:tt)+) => {};
}

#[cfg(bug_zoo)]
macro_rules! bug {
    ($name:ident) => {
        $crate::zoo::is_loose($crate::zoo::Bug::$name)
    };
    ($name:ident => $($does:tt)+) => {
        if bug!($name) {
            $($does)+;
        }
    };
}

#[cfg(feature = "cli")]
pub mod cli;
pub mod error;
pub mod format;
#[cfg(feature = "plan-files")]
pub mod import;
#[cfg(any(test, feature = "sim"))]
pub mod lab;
pub mod ledger;
pub mod log;
pub mod plan;
#[cfg(feature = "cli")]
pub mod runner;
#[cfg(feature = "cli")]
pub mod serve;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
pub mod storage;
#[cfg(bug_zoo)]
pub mod zoo;

pub use error::{Error, ErrorKind, Location, Result};
pub use ledger::{
    Ack, BatchKey, Clock, Commit, Environment, ForkPoint, Housekeeping, IdSource, Ledger,
    LedgerView, OnAmbiguous, OpenQuestion, OpenReport, Projection, Recorded, Reply, Snapshot, Task,
    plan_hash, state_hash,
};
pub use plan::{Command, Event, Plan, Receipt, RunId, RunPolicy, State, Step, StepNumber};
