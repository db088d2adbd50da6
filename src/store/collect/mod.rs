//! Deletes objects that are no longer needed (`format/store.md`, section 7): slots whose records are in segment
//! objects, objects that longer objects and later snapshots replace, and segments that were pruned.
//!
//! A plan is made first and carried out later, perhaps by a process that was fenced in the meantime. This is safe,
//! because every object in a plan stays unnecessary.
//!
//! Invariants:
//! - A plan never contains an opening slot, a slot that no segment object covers, a slot whose age by the store's clock
//!   is unknown or below [`COLLECT_AFTER`], the newest segment object, or an anchor of a pruned log.
//! - A plan is made only after the whole log was read and verified, so the remaining log is complete.
//! - Objects are deleted in the order of the plan, each before the next: a delete without a clear answer ends it.

mod prune;
mod removable;
mod slots;
mod snapshots;

pub use prune::StorePrune;
pub use removable::{COLLECT_AFTER, RemovableClass, RemovableObject, remove};
pub use slots::CollectPlan;
