#![doc = "placeholder"]
#[cfg(feature = "cli")]
pub mod cli;
pub mod error;
pub mod format;
#[cfg(feature = "cli")]
pub mod import;
pub mod ledger;
pub mod log;
pub mod plan;
pub mod storage;

pub use error::{Error, ErrorKind, Location, Result};
pub use ledger::{
    Ack, Clock, Commit, Environment, IdSource, Ledger, LedgerView, OpenReport, Recorded, Task,
    plan_hash, state_hash,
};
pub use plan::{Command, Event, Plan, Receipt, RunId, RunPolicy, State, Step, StepNumber};
