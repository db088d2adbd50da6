//! The calls that the machines make to a store, and the answers.

use crate::format::{Chain, Uid};
use crate::store::objects::StoreTime;

/// The floor is checked if the store's times of two consecutive slots differ by this much, in
/// microseconds: 24 hours. A slot is not collected before it is twice as old.
pub const DOUBT_AFTER: u64 = 24 * 60 * 60 * 1_000_000;

/// The parts of a slot that the protocol needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotFacts {
    /// Its first record: its name.
    pub first_seq: u64,
    /// Its last record.
    pub last_seq: u64,
    /// Chain value of the record before.
    pub chain_before: Chain,
    /// Chain value of its last record.
    pub chain_after: Chain,
    /// The epoch of its writer.
    pub epoch: u64,
    /// Whether the slot opens that epoch.
    pub opens: bool,
    /// The process that wrote it.
    pub node: Uid,
    /// The identity of its bytes: slots with equal hashes are equal.
    pub bytes: [u8; 32],
    /// When it was created, by the store's clock.
    pub at: Option<StoreTime>,
}

/// A position in the log of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StorePosition {
    /// The next record.
    pub next_seq: u64,
    /// Chain value of the record before.
    pub chain: Chain,
    /// The epoch of the record before; 0 at the start.
    pub epoch: u64,
    /// The store's time of the slot that had it; unknown after a segment object.
    pub at: Option<StoreTime>,
}

impl StorePosition {
    /// The start of every log.
    pub const START: Self = Self { next_seq: 1, chain: Chain::GENESIS, epoch: 0, at: None };

    /// The difference of a slot that does not continue the position.
    #[must_use]
    pub fn mismatch(&self, first_seq: u64, before: &Chain, epoch: u64) -> Option<&'static str> {
        if first_seq != self.next_seq {
            return Some("another record comes first");
        }
        if *before != self.chain {
            return Some("it follows other records");
        }
        (epoch < self.epoch).then_some("its writer was replaced before")
    }

    /// Whether a slot continues the position.
    #[must_use]
    pub fn is_continued_by(&self, slot: &SlotFacts) -> bool {
        self.mismatch(slot.first_seq, &slot.chain_before, slot.epoch).is_none()
            && slot.opens == (slot.epoch > self.epoch)
    }

    #[must_use]
    pub fn after(slot: &SlotFacts) -> Self {
        Self {
            next_seq: slot.last_seq.saturating_add(1),
            chain: slot.chain_after,
            epoch: slot.epoch,
            at: slot.at,
        }
    }

    /// Whether so much time of the store may have passed since the previous slot that the name of the next one may have
    /// been collected.
    #[must_use]
    pub fn is_late(&self, at: Option<StoreTime>) -> bool {
        let Some((StoreTime(before), StoreTime(now))) = self.at.zip(at) else { return true };
        now.saturating_sub(before) >= DOUBT_AFTER
    }
}

/// The next call to a store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum StoreCall {
    /// List the segment objects. Answer with the floor.
    ListSegments(ListReason),
    /// List the slots. Answer with the last one.
    ListSlots,
    /// Read the segment objects up to this record, which is the floor. Answer with the position there.
    ReadSegments(u64),
    /// Read the slot with this first record. Answer with the object under that name.
    GetSlot(u64),
    /// Check that the last slot, which has this first record, has the record before the position and continues after
    /// it. Answer whether it does, or that it is missing.
    CheckLastSlot(u64),
    /// A slot belongs to the log. Answer when its records are accepted.
    TakeIn(SlotFacts),
    /// Build the opening slot for this position. Answer with its facts.
    BuildOpening(StorePosition),
    /// Create this slot. Answer whether the store reported success, or with an unclear outcome.
    CreateSlot(SlotFacts),
    /// Nothing: the position is the end of the log, or the machine waits for a slot to commit.
    Rest(StorePosition),
    /// No call: another process writes, from the slot with this name on.
    Fenced(u64),
    /// No call: the object under this name cannot be a slot of the log, or it is missing although later ones exist.
    Damaged(u64),
}

/// Why segment objects are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ListReason {
    /// Reading begins.
    Start,
    /// A slot is missing, which may be the end.
    MissingSlot,
    /// A slot is missing, although later ones exist.
    LostSlot,
    /// A slot opens an epoch, comes late, or does not continue the log.
    DoubtfulSlot,
    /// The opening slot is written.
    Opened,
    /// A slot is written, and it comes late.
    WrittenLate,
}

/// The object under the name of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FoundSlot {
    /// A slot of this ledger.
    Slot(SlotFacts),
    /// Anything else.
    Invalid,
}

/// The answer to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StoreAnswer {
    /// The last record that a segment object covers; 0 without any.
    Floor(u64),
    /// The highest name of a slot; 0 without any.
    LastSlot(u64),
    /// The position after the segment objects.
    Position(StorePosition),
    /// The object under a name.
    Found(Option<FoundSlot>),
    /// Whether the position is inside the last slot.
    EndsInside(bool),
    /// The slot was accepted.
    TakenIn,
    Opening(SlotFacts),
    /// The slot is created, at this time of the store.
    Created(Option<StoreTime>),
    /// Whether the call was carried out is unknown.
    Unclear,
}
