//! Reading the log of a store to its end.
//!
//! Invariants:
//! - A slot is accepted only if it continues the position; and a slot in doubt only if no segment
//!   object covers its name.
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
    /// No slot is later, and the position follows a segment object: the last slot must not continue after it.
    CheckLast(u64),
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

    /// Check again whether the log continues: at the end, where a slot was missing, or where another process was first.
    pub fn look_again(&mut self) {
        if matches!(self.phase, Phase::End | Phase::Missing) {
            self.phase = Phase::Get;
        }
    }

    /// Check again that the position is the end. The slot there was missing before.
    pub fn confirm_end(&mut self) {
        if self.phase == Phase::End {
            self.phase = Phase::Missing;
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

    /// Continue after the segment objects; their floor covers the next record.
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
            Phase::CheckLast(last) => StoreCall::CheckLastSlot(*last),
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
            (Phase::Missing, StoreAnswer::LastSlot(_)) if mutant!(EndWithoutListing) => Phase::End,
            // Listed before the segment objects, so that a slot that was collected in the meantime is covered.
            (Phase::Missing, StoreAnswer::LastSlot(last)) => Phase::MissingAfter(last),
            (Phase::MissingAfter(last), StoreAnswer::Floor(_)) if covers(*last) => Phase::GetAgain,
            // Another program may have made the segment object: it may end in the middle of a slot.
            (Phase::MissingAfter(last), StoreAnswer::Floor(_))
                if *last > 0 && self.position.at.is_none() && !mutant!(PartEndUnchecked) =>
            {
                Phase::CheckLast(*last)
            }
            (Phase::MissingAfter(_), StoreAnswer::Floor(_))
            | (Phase::CheckLast(_), StoreAnswer::EndsInside(false)) => Phase::End,
            (Phase::Doubtful(FoundSlot::Slot(slot)), StoreAnswer::Floor(_))
                if self.position.is_continued_by(slot) =>
            {
                Phase::TakeIn(*slot)
            }
            (Phase::Lost | Phase::Doubtful(_), StoreAnswer::Floor(_))
            | (Phase::CheckLast(_), StoreAnswer::EndsInside(true)) => Phase::Damaged,
            (Phase::ReadSegments(_), StoreAnswer::Position(position)) => {
                self.position = position;
                Phase::Get
            }
            // The last slot was collected in the meantime: check again.
            (Phase::Get | Phase::CheckLast(_), StoreAnswer::Found(None)) => Phase::Missing,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Chain;
    use crate::store::objects::StoreTime;

    /// Goal: an opening slot is in doubt, even if it comes in time. The difference in time would show every
    /// orphan of a process that stopped, but a store need not tell the truth about time.
    #[test]
    fn opening_slot_is_in_doubt_even_in_time() {
        let at = Some(StoreTime(5));
        let position = StorePosition { next_seq: 10, chain: Chain([1; 32]), epoch: 1, at };
        let slot = |opens| SlotFacts {
            first_seq: 10,
            last_seq: 10,
            chain_before: position.chain,
            chain_after: Chain([2; 32]),
            epoch: 1 + u64::from(opens),
            opens,
            node: [3; 16],
            bytes: [4; 32],
            at,
        };
        let after = |found| {
            let mut finder = EndFinder::from(position);
            finder.answer(StoreAnswer::Floor(9));
            finder.answer(StoreAnswer::Found(Some(FoundSlot::Slot(found))));
            finder.call()
        };
        assert_eq!(after(slot(false)), StoreCall::TakeIn(slot(false)));
        assert_eq!(after(slot(true)), StoreCall::ListSegments(ListReason::DoubtfulSlot));
        let unknown = SlotFacts { at: None, ..slot(false) };
        assert_eq!(after(unknown), StoreCall::ListSegments(ListReason::DoubtfulSlot));
    }

    /// Goal: a process that follows the log asks for the next slot only, until it needs to know that nothing
    /// follows; then it lists both folders again.
    #[test]
    fn missing_slot_is_looked_for_again() {
        let mut finder = EndFinder::from(StorePosition::START);
        finder.answer(StoreAnswer::Floor(0));
        for _ in 0..2 {
            assert_eq!(finder.call(), StoreCall::GetSlot(1));
            finder.answer(StoreAnswer::Found(None));
            assert_eq!(finder.call(), StoreCall::ListSlots);
            finder.look_again();
        }
        finder.answer(StoreAnswer::Found(None));
        for _ in 0..2 {
            assert_eq!(finder.call(), StoreCall::ListSlots);
            finder.answer(StoreAnswer::LastSlot(0));
            let reason = ListReason::MissingSlot;
            assert_eq!(finder.call(), StoreCall::ListSegments(reason));
            finder.answer(StoreAnswer::Floor(0));
            assert_eq!(finder.call(), StoreCall::Rest(StorePosition::START));
            finder.confirm_end();
        }
    }

    /// Goal: an answer for which the machine does not wait changes nothing.
    #[test]
    fn stale_answer_is_ignored() {
        let mut finder = EndFinder::from(StorePosition::START);
        let stale = [
            StoreAnswer::Found(None),
            StoreAnswer::LastSlot(7),
            StoreAnswer::TakenIn,
            StoreAnswer::Created(None),
            StoreAnswer::Unclear,
            StoreAnswer::Position(StorePosition { next_seq: 9, ..StorePosition::START }),
        ];
        for answer in stale {
            finder.answer(answer);
            assert_eq!(finder, EndFinder::from(StorePosition::START), "{answer:?}");
        }
    }
}
