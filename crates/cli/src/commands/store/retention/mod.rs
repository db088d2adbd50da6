//! Deletes objects that a store no longer needs: `ledger store gc` and `prune`.
//!
//! Invariant: nothing is deleted without `--yes`.

mod gc;
mod plan;
mod prune;

pub(super) use gc::{GcArgs, gc};
pub(super) use prune::{PruneArgs, prune};
