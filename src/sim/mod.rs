//! Tools for testing the engine and the harnesses that are built on it: a simulated disk, the crash
//! laboratory, and seeded bugs.
//!
//! [`SimDisk`] implements `Storage` in memory, loses unsynced changes at a power loss, and injects
//! faults. [`lab`] crashes ledgers on simulated disks at every call and checks the engine's
//! guarantees. `SimStore` is an object store that loses answers. `mutants` holds the bugs that the test
//! suite must find.

mod disk;
pub mod lab;
mod lock;
#[cfg(mutants)]
pub mod mutants;
#[cfg(feature = "store")]
mod store;
mod sweep;

pub use disk::{
    Fault, FaultAction, FaultEffect, FaultRule, InjectedFault, InjectedKind, Loss, Operation,
    OsError, Profile, Repeat, SimDisk,
};
#[cfg(feature = "store")]
pub use store::{SentCreate, SimStore, StoreFate, StoreFlaw};
pub use sweep::sweep;
