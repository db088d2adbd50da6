//! Uploads of a process that holds the log, or of a side-car, other than slots; and the check and repair of a store.
//!
//! `segments` uploads segment objects and snapshots, `find` compares a store with the folder,
//! `repair` creates missing objects again, and `check` uses both, and reads all objects one after
//! the other.

mod check;
mod find;
mod repair;
mod segments;

pub use check::{DamageState, ScrubStep, StoreDamage};
pub(super) use check::{Health, check};
pub(super) use find::Whole;
pub(super) use repair::cover;
pub(super) use segments::{Covered, upload, upload_shipped};
