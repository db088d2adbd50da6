//! The protocol of the store, as state machines without I/O, clock or threads
//! (`format/store.md`, sections 4 to 6).
//!
//! A machine states the next [`StoreCall`], and is told the [`StoreAnswer`]. An answer for which it does
//! not wait is ignored. [`EndFinder`] reads the log to its end, [`Takeover`] opens an epoch there, and
//! [`SlotKeeper`] commits in that epoch. A machine that is never called again is a process that died, and
//! a copy of one is a copy of the process: the model in the tests uses both.

mod calls;
mod end;
mod keep;
mod takeover;

pub use calls::{
    DOUBT_AFTER, FoundSlot, ListReason, SlotFacts, StoreAnswer, StoreCall, StorePosition,
};
pub use end::EndFinder;
pub use keep::SlotKeeper;
pub use takeover::Takeover;
