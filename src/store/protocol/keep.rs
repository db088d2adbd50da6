//! Committing slots in an open epoch, one at a time; or adding those of a folder to a store that does not have them,
//! its opening slots included.
//!
//! Invariants:
//! - The position moves only after the slot exists under its name with the bytes of this process. If it is an opening
//!   slot or comes late, the floor must not cover its name.
//! - After the first slot of another process under the next name, this process commits nothing.

use super::calls::{FoundSlot, ListReason, SlotFacts, StoreAnswer, StoreCall, StorePosition};

/// Commits slots.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SlotKeeper {
    position: StorePosition,
    phase: Phase,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Phase {
    Rest,
    Create(SlotFacts),
    Look(SlotFacts),
    CheckFloor(SlotFacts),
    Fenced,
    Damaged,
}

impl SlotKeeper {
    /// Commit after a position at which this process opened its epoch.
    #[must_use]
    pub(in crate::store) fn at(position: StorePosition) -> Self {
        Self { position, phase: Phase::Rest }
    }

    /// The position after the last committed slot.
    #[must_use]
    pub fn position(&self) -> &StorePosition {
        &self.position
    }

    /// The slot that is under way.
    #[cfg(test)]
    pub(in crate::store) fn under_way(&self) -> Option<SlotFacts> {
        match self.phase {
            Phase::Create(slot) | Phase::Look(slot) | Phase::CheckFloor(slot) => Some(slot),
            Phase::Rest | Phase::Fenced | Phase::Damaged => None,
        }
    }

    /// Start to commit a slot. Returns false, and does nothing, if the slot does not continue the position, or another
    /// commit is in progress.
    #[must_use]
    pub fn start(&mut self, slot: SlotFacts) -> bool {
        !slot.opens && self.start_copied(slot)
    }

    /// As [`Self::start`], for a slot with records of a folder. It may be an opening slot, if the folder has a writer
    /// note: it repeats a note from another store, and gives this process no epoch.
    #[must_use]
    pub fn start_copied(&mut self, slot: SlotFacts) -> bool {
        if self.phase != Phase::Rest || !self.position.is_continued_by(&slot) {
            return false;
        }
        self.phase = Phase::Create(slot);
        true
    }

    /// The next call. [`StoreCall::Rest`] means that the last slot is committed.
    #[must_use]
    pub fn call(&self) -> StoreCall {
        match &self.phase {
            Phase::Rest => StoreCall::Rest(self.position),
            Phase::Create(slot) => StoreCall::CreateSlot(*slot),
            Phase::Look(slot) => StoreCall::GetSlot(slot.first_seq),
            Phase::CheckFloor(slot) if slot.opens => StoreCall::ListSegments(ListReason::Opened),
            Phase::CheckFloor(_) => StoreCall::ListSegments(ListReason::WrittenLate),
            Phase::Fenced => StoreCall::Fenced(self.position.next_seq),
            Phase::Damaged => StoreCall::Damaged(self.position.next_seq),
        }
    }

    /// Continue with the answer to the call.
    pub fn answer(&mut self, answer: StoreAnswer) {
        self.phase = match (&self.phase, answer) {
            (Phase::Create(slot), StoreAnswer::Created(at)) => {
                self.written(SlotFacts { at, ..*slot })
            }
            (Phase::Create(slot), StoreAnswer::Unclear) => Phase::Look(*slot),
            // An earlier request may still be carried out: the same bytes are sent again.
            (Phase::Look(slot), StoreAnswer::Found(None)) => Phase::Create(*slot),
            (Phase::Look(slot), StoreAnswer::Found(Some(FoundSlot::Slot(found)))) => {
                if found.bytes == slot.bytes {
                    self.written(found)
                } else if found.epoch >= self.position.epoch {
                    Phase::Fenced
                } else {
                    Phase::Damaged
                }
            }
            (Phase::Look(_), StoreAnswer::Found(Some(FoundSlot::Invalid))) => Phase::Damaged,
            // The name belonged to the log long ago, and this process is a copy of its writer.
            (Phase::CheckFloor(slot), StoreAnswer::Floor(floor)) if floor >= slot.first_seq => {
                Phase::Fenced
            }
            (Phase::CheckFloor(slot), StoreAnswer::Floor(_)) => {
                self.position = StorePosition::after(slot);
                Phase::Rest
            }
            _ => return,
        };
    }

    fn written(&mut self, slot: SlotFacts) -> Phase {
        let is_opening = slot.opens && !mutant!(CopiedOpeningUnchecked);
        if is_opening || self.position.is_late(slot.at) {
            return Phase::CheckFloor(slot);
        }
        self.position = StorePosition::after(&slot);
        Phase::Rest
    }
}
