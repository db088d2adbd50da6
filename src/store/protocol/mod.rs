//! The protocol of the store, as state machines without I/O, clock or threads
//! (`format/store.md`, sections 4 to 6).
//!
//! A machine states the next [`StoreCall`], and gets the [`StoreAnswer`]. It ignores an answer for which it does not
//! wait. [`EndFinder`] reads the log to its end, [`Takeover`] opens an epoch there, and [`SlotKeeper`] commits in that
//! epoch. A machine that is never called again models a process that died, and a copy of a machine models a copy of the
//! process: the tests use both.

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
