//! A log in an object store: slots that are created if absent, and the protocol that decides which
//! record is next (`format/store.md`).
//!
//! From bottom to top: `name` and `objects` (names, and the port), `slot` (bytes to verified
//! records and back), `protocol` (state machines without I/O or clock), `segments` (reads segment
//! objects), `session` (carries out the protocol on a store), `binding` (the ledger of a prefix),
//! `collect` (deletes unnecessary objects), `probe` (tests the promises of a store), `derived`
//! (index objects, for readers that need few records of many segments; and snapshots), `folder`
//! (opens, restores and follows with the folder of a ledger), and `reading` (reads a ledger in its
//! store). [`DirectoryObjects`] is a store in a folder; `sim::SimStore` is one that loses answers.
//!
//! Invariants:
//! - An unclear answer never counts as success or failure: the process reads the name and compares the bytes. The bytes
//!   of a request never change between two tries.
//! - Bytes of the store are verified before they are used. [`SlotBytes`], [`CheckedSlot`] and
//!   [`VerifiedSlot`] are three types.
//! - The store decides where the log ends. The protocol reads no clock of a machine: it compares
//!   only times of the store, and a caller decides how long it waits.

mod binding;
mod collect;
mod derived;
mod directory;
mod folder;
mod name;
mod objects;
mod probe;
mod protocol;
mod reading;
mod segments;
mod session;
mod slot;

pub use binding::{LedgerIdentity, bind, bound_ledger, has_log};
pub use collect::{
    COLLECT_AFTER, CollectPlan, RemovableClass, RemovableObject, StorePrune, remove,
};
pub use directory::DirectoryObjects;
pub use folder::{
    AckMode, AckedBy, BoundLog, DamageState, FolderProgress, MonotonicClock, Rejoined, ScrubStep,
    SideCar, StandbyFolder, StoreClient, StoreDamage, StoreKeeper, StoreLag, StoreOpening,
    open_bound, rejoin, replicate, restore,
};
pub use name::{IndexRange, ObjectName, SegmentForm, SegmentObject};
pub use objects::{CreatedObject, ListedObject, Objects, StoreTime, StoredObject, Unclear};
pub use probe::{probe, race_to_create};
pub use protocol::{
    DOUBT_AFTER, EndFinder, FoundSlot, ListReason, SlotFacts, SlotKeeper, StoreAnswer, StoreCall,
    StorePosition, Takeover,
};
pub use reading::{
    BLOCK_SIZE, MemoryFile, NewFile, StoreStorage, read_in_place, read_parts_in_place,
};
pub use segments::{VerifiedSegment, segment_floor};
pub use session::{HeldStore, StoreEnd, StoreReading, StoreSession, TakenIn};
pub use slot::{
    CheckedSlot, EarlierWriter, EncodedSlot, KIND_WRITER_NOTE, SLOT_HEADER_SIZE, SLOT_SIZE_MAX,
    SegmentPlace, SlotBytes, SlotFault, SlotHeader, SlotPart, SlotWriter, VerifiedSlot, WriterNote,
    WriterReason,
};

#[cfg(test)]
mod tests;
