#![doc = include_str!("../README.md")]

/// A seeded bug, for testing the tests: `mutant!(Name)` is true while the mutant is enabled, and
/// `mutant!(Name => ...)` then runs the code after the arrow. Without `--cfg mutants` the first is
/// `false` and the second is empty. The mutants are listed in `src/sim/mutants.rs`.
#[doc(hidden)]
#[cfg(not(mutants))]
#[macro_export]
macro_rules! mutant {
    ($name:ident) => {
        false
    };
    ($name:ident => $($effect:tt)+) => {};
}

#[doc(hidden)]
#[cfg(mutants)]
#[macro_export]
macro_rules! mutant {
    ($name:ident) => {
        $crate::sim::mutants::is_enabled($crate::sim::mutants::Mutant::$name)
    };
    ($name:ident => $($effect:tt)+) => {
        if $crate::mutant!($name) {
            $($effect)+;
        }
    };
}

pub mod error;
#[cfg(feature = "plan-files")]
pub mod files;
pub mod format;
pub mod ledger;
pub mod log;
pub mod plan;
#[cfg(any(test, feature = "sim", mutants))]
pub mod sim;
pub mod storage;

pub use error::{Error, ErrorKind, Location, Result};
pub use ledger::{
    Ack, BackgroundWork, BatchKey, Clock, Commit, Environment, ForkPoint, IdSource, Ledger,
    LedgerView, OnAmbiguous, OpenQuestion, OpenReport, Projection, RecordedEvent, Reply, Snapshot,
    Task, plan_hash, state_hash,
};
pub use plan::{Command, Event, Plan, Receipt, RunId, RunPolicy, State, Step, StepNumber};
