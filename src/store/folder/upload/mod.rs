//! Uploads of a process that holds the log, or of a side-car, other than slots; and the check and repair of a store.
//!
//! `segments` uploads segment objects and snapshots, `find` compares a store with the folder, `repair` creates again what
//! is missing, and `check` puts them together, and reads all objects one after the other.

mod check;
mod find;
mod repair;
mod segments;

pub use check::{DamageState, ScrubStep, StoreDamage};
pub(super) use check::{Health, check};
pub(super) use find::Whole;
pub(super) use repair::cover;
pub(super) use segments::{Covered, upload, upload_shipped};
