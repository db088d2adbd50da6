//! Deleting objects that are not needed any longer (`format/store.md`, section 7): slots whose records are in segment
//! objects, what longer objects and later snapshots replace, and segments that were pruned.
//!
//! A plan is made first and carried out later, perhaps by a process that was fenced meanwhile: every object in it stays
//! unnecessary.
//!
//! Invariants:
//! - An opening slot is never in a plan, nor a slot that no segment object covers, nor one whose age by the store's
//!   clock is unknown or below [`COLLECT_AFTER`], nor the newest segment object, nor an anchor of a pruned log.
//! - A plan is made only after all of the log was read and verified: what stays is whole.
//! - Objects are deleted in the order of the plan, each before the next: a delete without a clear answer ends it.

mod prune;
mod removable;
mod slots;
mod snapshots;

pub use prune::StorePrune;
pub use removable::{COLLECT_AFTER, RemovableClass, RemovableObject, remove};
pub use slots::CollectPlan;
