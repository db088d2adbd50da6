//! The laboratory: ledgers on simulated disks, crashed at every call and in every way, and an
//! oracle that says whether the engine kept its promises.
//!
//! Invariants:
//! - The same seed gives the same images. Nothing here reads a clock or starts a thread that
//!   decides what is tried.
//! - The oracle takes nothing from the engine that the model knows.

mod case;
mod every_crash;
mod explore;
mod faults;
mod model;
mod op;
mod oracle;
mod restart;
mod soak;
mod tally;
mod trial;

pub use case::{Broken, Case};
pub use every_crash::{Crash, Crashes, Failed, each_crash, every_crash, film_of, usual_ways};
pub use explore::{Scope, Watch, explore, explore_one, replay};
pub use faults::{Strikes, Struck, WatchStrikes, strike, strike_one};
pub use model::{Model, Promise, Violation};
pub use op::{Op, words};
pub use oracle::{Depth, Doubt, Outcome, Passed, examine};
pub use restart::Restart;
pub use soak::{Endured, endure};
pub use tally::Tally;
pub use trial::{dir, environment};
