//! Holds: the steps of an owner are not dispatched until a time, and then one of them is, as a probe.

use serde::{Deserialize, Serialize};

use plan_ledger::Timestamp;

/// Now, by the ledger and by the wall clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    pub(crate) ledger: Timestamp,
    pub(crate) wall: Timestamp,
}

/// Why and until when the steps of an owner are held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hold {
    pub(crate) since: Timestamp,
    /// Its end in the ledger's time.
    pub(crate) until: Timestamp,
    /// Its end by the wall clock, if a worker named a time of day or a date.
    pub(crate) wall: Option<Timestamp>,
    pub(crate) reason: String,
    /// Whether a usage limit is the reason: a second owner may take the steps.
    pub(crate) is_limit: bool,
    /// Whether no time ends it, but the answer of a person.
    pub(crate) is_for_person: bool,
}

impl Hold {
    /// A hold at a usage limit until a person answers.
    pub(crate) fn until_answer(since: Timestamp, reason: String) -> Self {
        let until = Timestamp::MAX;
        Self { since, until, wall: None, reason, is_limit: true, is_for_person: true }
    }

    /// Its end in the ledger's time. One by the wall clock follows the jumps of that clock.
    pub(crate) fn end(&self, now: Now) -> Timestamp {
        let Some(wall) = self.wall else { return self.until };
        now.ledger.saturating_add(wall.saturating_sub(now.wall))
    }

    pub(crate) fn is_over(&self, now: Now) -> bool {
        self.end(now) <= now.ledger
    }

    /// Whether an attempt that began then is the probe of this hold.
    pub(crate) fn has_probe(&self, begun: Timestamp) -> bool {
        begun >= self.since
    }

    /// The later one of two holds.
    pub(crate) fn or_later(self, other: Option<Self>, now: Now) -> Self {
        match other {
            Some(other) if other.end(now) > self.end(now) => other,
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a hold until a time of day follows the wall clock, and any other one the ledger's time.

    use super::*;

    #[test]
    fn hold_until_a_time_of_day_follows_the_wall_clock() {
        let hold = |wall| Hold { wall, until: 1_000, ..Hold::until_answer(0, String::new()) };
        let (by_delay, by_clock) = (hold(None), hold(Some(5_000)));
        let now = |ledger, wall| Now { ledger, wall };
        for (at, over) in [(now(999, 9_000), [false, true]), (now(1_000, 4_999), [true, false])] {
            assert_eq!([by_delay.is_over(at), by_clock.is_over(at)], over, "{at:?}");
        }
        assert_eq!(by_clock.end(now(2_000, 4_000)), 3_000);
        // The clock was set back.
        assert_eq!(by_clock.end(now(2_000, 1_000)), 6_000);
    }
}
