//! The queue of a run: the steps that may be dealt, out of their lanes.
//!
//! Invariant: a step that may be dealt stands in exactly one lane, and no lane is empty. So the queue is
//! kept once, and is put in order while somebody goes through it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, btree_set};

use super::run::{Queue, Run};
use crate::plan::value::ids::StepNumber;

/// A step in the queue: higher priorities come first, then lower numbers.
type Key = (Reverse<i32>, StepNumber);

/// Goes through the queue of a run, in the order of dealing.
#[derive(Debug, Clone)]
pub struct Ready<'a> {
    /// The rest of each lane, by what comes next in it.
    rests: BTreeMap<Key, btree_set::Iter<'a, Key>>,
    left: usize,
}

impl Run {
    /// Steps that may be dealt now, in the order of dealing.
    #[must_use]
    pub fn ready(&self) -> Ready<'_> {
        let rests = self.lanes.values().filter_map(|queue| {
            let mut rest = queue.iter();
            Some((*rest.next()?, rest))
        });
        Ready { rests: rests.collect(), left: self.ready_count() }
    }

    /// How many they are.
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
