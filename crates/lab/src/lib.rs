//! The crash laboratory: crashes ledgers on simulated disks at every call, with every possible
//! loss, and checks that the engine, or a harness that uses it, keeps its guarantees.
//!
//! A [`Model`] has the requested and the acknowledged records. After each crash, [`examine`]
//! restarts the engine on the resulting disk image and compares it with the model. [`explore()`]
//! enumerates small workloads, [`inject_faults`] makes calls fail, [`soak()`] runs one long history,
//! and [`every_crash()`] does the same for a harness.
//!
//! Invariants:
//! - The same seed gives the same images. Neither clocks nor threads influence the tried crashes.
//! - The examination never uses a value from the engine where the model has it.

mod case;
mod every_crash;
mod explore;
mod faults;
mod model;
mod op;
mod oracle;
mod report;
mod restart;
mod soak;
mod trial;

pub use case::{Case, FailingCase};
pub use every_crash::{
    Crash, CrashCounts, CrashFailure, every_crash, for_each_crash, record_crash_points,
    standard_restarts,
};
pub use explore::{
    ExploreScope, ExploreWatch, ImageHash, explore, explore_images, explore_one, replay,
};
pub use faults::{FaultCounts, FaultReport, FaultWatch, inject_faults, inject_into};
pub use model::{Guarantee, Model, Violation};
pub use op::{Op, workload_name};
pub use oracle::{Ambiguity, AmbiguousPart, Depth, ExaminedImage, ImageOutcome, examine};
pub use plan_ledger::internals::sim::{SimDisk, environment};
pub use report::ExploreReport;
pub use restart::Restart;
pub use soak::{SoakReport, soak};
