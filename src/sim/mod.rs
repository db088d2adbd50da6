//! Tools for testing the engine and programs that use it: a simulated disk and seeded bugs.
//!
//! [`SimDisk`] implements `Storage` in memory, loses unsynced changes at a power loss, and injects
//! faults; [`environment()`] opens ledgers on it. The package `plan-ledger-lab` crashes such ledgers at every
//! call. `SimStore` is an object store that loses answers. `mutants` holds the bugs that the test suite must
//! find.

mod disk;
mod environment;
mod lock;
#[cfg(mutants)]
pub mod mutants;
#[cfg(feature = "store")]
mod store;
mod sweep;

pub use disk::{
    Fault, FaultAction, FaultEffect, FaultRule, InjectedFault, InjectedKind, Loss, Operation,
    OsError, Profile, Random, Repeat, SimDisk,
};
pub use environment::{dir, environment};
#[cfg(feature = "store")]
pub use store::{SentCreate, SimStore, StoreFate, StoreFlaw};
pub use sweep::sweep;
