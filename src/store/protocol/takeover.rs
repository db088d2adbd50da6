//! Opening an epoch: reading the log to its end, creating the next slot there, and making sure that its
//! name was not used before.
//!
//! Invariants:
//! - The opening slot continues a position that was the end of the log when it was read.
//! - Its bytes do not change. Under each name at most one opening slot of this machine is created.
//! - The epoch is held only after the slot exists under its name and the floor did not cover it.

use super::calls::{FoundSlot, ListReason, SlotFacts, StoreAnswer, StoreCall, StorePosition};
use super::end::EndFinder;
use super::keep::SlotKeeper;

/// Opens an epoch at the end of the log.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Takeover {
    reader: EndFinder,
    phase: Phase,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Phase {
    Read,
    Build,
    Create(SlotFacts),
    Look(SlotFacts),
    CheckFloor(SlotFacts),
    Held(StorePosition),
}

impl Takeover {
    /// Open an epoch, reading from a position that is known to be in the log.
    #[must_use]
    pub fn from(position: StorePosition) -> Self {
        Self::continuing(EndFinder::from(position))
    }

    /// Open an epoch, and continue to read where a reader is.
    #[must_use]
    pub fn continuing(reader: EndFinder) -> Self {
        let phase = match reader.call() {
            StoreCall::Rest(_) => Phase::Build,
            _ => Phase::Read,
        };
        Self { reader, phase }
    }

    /// Commits in the epoch, once it is open; `None` before.
    #[must_use]
    pub fn keeper(&self) -> Option<SlotKeeper> {
        match self.phase {
            Phase::Held(position) => Some(SlotKeeper::at(position)),
            _ => None,
        }
    }

    /// The same process before it opens an epoch, when it follows the log: it reads the missing slot again, or checks
    /// again that nothing follows.
    #[cfg(test)]
    pub(in crate::store) fn following(&self) -> Vec<Self> {
        let is_reading = matches!(self.phase, Phase::Read | Phase::Build);
        let mut readers = [self.reader.clone(), self.reader.clone()];
        readers[0].look_again();
        readers[1].confirm_end();
        let other = readers.into_iter().filter(|reader| is_reading && *reader != self.reader);
        other.map(Self::continuing).collect()
    }

    /// The slot that the reader doubts.
    #[cfg(test)]
    pub(in crate::store) fn doubtful(&self) -> Option<SlotFacts> {
        self.reader.doubtful()
    }

    /// The next call. When the epoch is open it is [`StoreCall::Rest`].
    #[must_use]
    pub fn call(&self) -> StoreCall {
        match &self.phase {
            Phase::Read => self.reader.call(),
            Phase::Build => StoreCall::BuildOpening(*self.reader.position()),
            Phase::Create(slot) => StoreCall::CreateSlot(*slot),
            Phase::Look(slot) => StoreCall::GetSlot(slot.first_seq),
            Phase::CheckFloor(_) => StoreCall::ListSegments(ListReason::Opened),
            Phase::Held(position) => StoreCall::Rest(*position),
        }
    }

    /// Continue with the answer to the call.
    pub fn answer(&mut self, answer: StoreAnswer) {
        let position = *self.reader.position();
        self.phase = match (&self.phase, answer) {
            (Phase::Read, answer) => {
                self.reader.answer(answer);
                match self.reader.call() {
                    StoreCall::Rest(_) => Phase::Build,
                    _ => Phase::Read,
                }
            }
            (Phase::Build, StoreAnswer::Opening(slot))
                if slot.opens && position.is_continued_by(&slot) =>
            {
                Phase::Create(slot)
            }
            (Phase::Create(slot), StoreAnswer::Created(at)) => {
                Phase::CheckFloor(SlotFacts { at, ..*slot })
            }
            (Phase::Create(slot), StoreAnswer::Unclear) => Phase::Look(*slot),
            // An earlier request may still be carried out: the same bytes are sent again.
            (Phase::Look(slot), StoreAnswer::Found(None)) => Phase::Create(*slot),
            (Phase::Look(slot), StoreAnswer::Found(Some(FoundSlot::Slot(found))))
                if found.bytes == slot.bytes =>
            {
                Phase::CheckFloor(found)
            }
            (Phase::Look(_), StoreAnswer::Found(Some(_))) => {
                // Another process was first, or the old writer. The reader decides which.
                self.reader.look_again();
                Phase::Read
            }
            (Phase::CheckFloor(slot), StoreAnswer::Floor(floor)) if floor >= slot.first_seq => {
                self.reader.skip_to(floor);
                Phase::Read
            }
            (Phase::CheckFloor(slot), StoreAnswer::Floor(_)) => {
                Phase::Held(StorePosition::after(slot))
            }
            _ => return,
        };
    }
}
