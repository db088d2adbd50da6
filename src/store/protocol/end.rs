//! Reading the log of a store to its end.
//!
//! Invariants:
//! - No slot is taken in that does not continue the position, and none whose name a segment object covers
//!   at the time at which it is in doubt.
//! - A missing slot is the end only if no later slot exists: no slot is created after a gap, and a
//!   collected slot is covered.

use super::calls::{FoundSlot, ListReason, SlotFacts, StoreAnswer, StoreCall, StorePosition};

/// Reads the log from a position to its end.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EndFinder {
    position: StorePosition,
    phase: Phase,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Phase {
    List,
    ReadSegments(u64),
    Get,
    /// The slot was missing.
    Missing,
    /// The slot was missing, and this is the last one that exists.
    MissingAfter(u64),
    /// As `Get`, where a later slot exists.
    GetAgain,
    /// The slot is missing, although a later one exists.
    Lost,
    Doubtful(FoundSlot),
    TakeIn(SlotFacts),
    End,
    Damaged,
}

impl EndFinder {
    /// Read from a position that is known to be in the log.
    #[must_use]
    pub fn from(position: StorePosition) -> Self {
        Self { position, phase: Phase::List }
    }

    /// How far it has read.
    #[must_use]
    pub fn position(&self) -> &StorePosition {
        &self.position
    }

    /// Look again whether the log continues: at the end, or where another process was first.
    pub fn look_again(&mut self) {
        if self.phase == Phase::End {
            self.phase = Phase::Get;
        }
    }

    /// The slot in doubt.
    #[cfg(test)]
    pub(super) fn doubtful(&self) -> Option<SlotFacts> {
        match self.phase {
            Phase::Doubtful(FoundSlot::Slot(slot)) => Some(slot),
            _ => None,
        }
    }

    /// Continue after the segment objects, whose floor covers the next record.
    pub(super) fn skip_to(&mut self, floor: u64) {
        self.phase = Phase::ReadSegments(floor);
    }

    /// The next call. At the end it is [`StoreCall::Rest`].
    #[must_use]
    pub fn call(&self) -> StoreCall {
        let name = self.position.next_seq;
        match &self.phase {
            Phase::List => StoreCall::ListSegments(ListReason::Start),
            Phase::ReadSegments(floor) => StoreCall::ReadSegments(*floor),
            Phase::Get | Phase::GetAgain => StoreCall::GetSlot(name),
            Phase::Missing => StoreCall::ListSlots,
            Phase::MissingAfter(_) => StoreCall::ListSegments(ListReason::MissingSlot),
            Phase::Lost => StoreCall::ListSegments(ListReason::LostSlot),
            Phase::Doubtful(_) => StoreCall::ListSegments(ListReason::DoubtfulSlot),
            Phase::TakeIn(slot) => StoreCall::TakeIn(*slot),
            Phase::End => StoreCall::Rest(self.position),
            Phase::Damaged => StoreCall::Damaged(name),
        }
    }

    /// Continue with the answer to the call. After an unclear answer the call is repeated.
    pub fn answer(&mut self, answer: StoreAnswer) {
        let covers = |floor: u64| floor >= self.position.next_seq;
        self.phase = match (&self.phase, answer) {
            (
                Phase::List | Phase::MissingAfter(_) | Phase::Lost | Phase::Doubtful(_),
                StoreAnswer::Floor(floor),
            ) if covers(floor) => Phase::ReadSegments(floor),
            (Phase::List, StoreAnswer::Floor(_)) => Phase::Get,
            // Listed before the segment objects, so that a slot which was collected meanwhile is covered.
            (Phase::Missing, StoreAnswer::LastSlot(last)) => Phase::MissingAfter(last),
            (Phase::MissingAfter(last), StoreAnswer::Floor(_)) if covers(*last) => Phase::GetAgain,
            (Phase::MissingAfter(_), StoreAnswer::Floor(_)) => Phase::End,
            (Phase::Doubtful(FoundSlot::Slot(slot)), StoreAnswer::Floor(_))
                if self.position.is_continued_by(slot) =>
            {
                Phase::TakeIn(*slot)
            }
            (Phase::Lost | Phase::Doubtful(_), StoreAnswer::Floor(_)) => Phase::Damaged,
            (Phase::ReadSegments(_), StoreAnswer::Position(position)) => {
                self.position = position;
                Phase::Get
            }
            (Phase::Get, StoreAnswer::Found(None)) => Phase::Missing,
            (Phase::GetAgain, StoreAnswer::Found(None)) => Phase::Lost,
            (Phase::Get | Phase::GetAgain, StoreAnswer::Found(Some(found))) => match found {
                FoundSlot::Slot(slot) if !self.is_doubtful(&slot) => Phase::TakeIn(slot),
                _ => Phase::Doubtful(found),
            },
            (Phase::TakeIn(slot), StoreAnswer::TakenIn) => {
                self.position = StorePosition::after(slot);
                Phase::Get
            }
            _ => return,
        };
    }

    fn is_doubtful(&self, slot: &SlotFacts) -> bool {
        slot.opens || !self.position.is_continued_by(slot) || self.position.is_late(slot.at)
    }
}
