//! Deleting what a store does not need any longer, and the rights that this takes: `ledger store gc`, `prune` and
//! `policy`.
//!
//! Invariant: nothing is deleted without `--yes`.

mod gc;
mod plan;
mod policy;
mod prune;

pub(super) use gc::{GcArgs, gc};
pub(super) use policy::{PolicyArgs, policy};
pub(super) use prune::{PruneArgs, prune};
