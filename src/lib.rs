#![doc = include_str!("../README.md")]

#[cfg(feature = "cli")]
pub mod cli;
pub mod error;
pub mod format;
#[cfg(feature = "cli")]
pub mod import;
pub mod ledger;
pub mod log;
pub mod plan;
#[cfg(feature = "cli")]
pub mod runner;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
pub mod storage;

pub use error::{Error, ErrorKind, Location, Result};
pub use ledger::{
    Ack, BatchKey, Clock, Commit, Environment, ForkPoint, Housekeeping, IdSource, Ledger,
    LedgerView, OnAmbiguous, OpenQuestion, OpenReport, Projection, Recorded, Reply, Snapshot, Task,
    plan_hash, state_hash,
};
pub use plan::{Command, Event, Plan, Receipt, RunId, RunPolicy, State, Step, StepNumber};
