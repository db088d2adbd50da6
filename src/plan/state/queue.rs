//! The ready queue of a run, merged from its lanes.
//!
//! A lane contains the ready steps with the same owner and the same capped tags, which are
//! therefore subject to the same caps. If one of these caps is reached, a claim skips the lane as a
//! whole. The iterator merges the lanes by priority and step number.
//!
//! Invariant: every ready step is in exactly one lane, and no lane is empty.

use std::cmp::Reverse;
use std::collections::{BTreeMap, btree_set};

use super::run::{Queue, Run};
use crate::plan::value::ids::StepNumber;

/// A step in the queue: higher priorities come first, then lower numbers.
type Key = (Reverse<i32>, StepNumber);

/// Iterator over the ready steps of a run, in dispatch order.
#[derive(Debug, Clone)]
pub struct Ready<'a> {
    /// The remaining steps of each lane, by its next step.
    rests: BTreeMap<Key, btree_set::Iter<'a, Key>>,
    left: usize,
}

impl Run {
    /// The steps that are ready, in dispatch order.
    #[doc(hidden)]
    #[must_use]
    pub fn ready(&self) -> Ready<'_> {
        let rests = self.lanes.values().filter_map(|queue| {
            let mut rest = queue.iter();
            Some((*rest.next()?, rest))
        });
        Ready { rests: rests.collect(), left: self.ready_count() }
    }

    /// Number of ready steps.
    #[must_use]
    pub fn ready_count(&self) -> usize {
        self.lanes.values().map(Queue::len).sum()
    }
}

impl Iterator for Ready<'_> {
    type Item = (Reverse<i32>, StepNumber);

    fn next(&mut self) -> Option<Key> {
        let (key, mut rest) = self.rests.pop_first()?;
        if let Some(next) = rest.next() {
            self.rests.insert(*next, rest);
        }
        self.left = self.left.saturating_sub(1);
        Some(key)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Ready<'_> {}
