//! The steps of a run, in leaves of [`LEAF_STEPS`] steps.
//!
//! Copies of a run share their leaves; a leaf that is changed while it is shared is copied first. A
//! leaf keeps its hash until it changes, so that the hash of a run, and a snapshot of it, cost what
//! changed.
//!
//! Invariants:
//! - Step n is at index n - 1. All leaves but the last are full, and none is empty.
//! - [`Steps::get_mut`] and [`Steps::push`] are the only ways to change a leaf, and both drop its
//!   hash.
//! - A kept hash never decides anything by itself: whatever checks a state computes the hashes from
//!   the steps ([`Steps::leaves`]).

use std::fmt;
use std::ops::Index;
use std::slice;
use std::sync::Arc;

use super::kept_hash::KeptHash;
use super::step_state::StepState;
use crate::plan::value::ids::ContentHash;

/// The number of steps in a leaf.
pub(crate) const LEAF_STEPS: usize = 64;

/// The steps of a run, by number.
#[derive(Clone, Default)]
pub struct Steps {
    leaves: Vec<Arc<Leaf>>,
    len: usize,
}

#[derive(Debug, Clone, Default)]
struct Leaf {
    steps: Vec<StepState>,
    hash: KeptHash,
}

impl Leaf {
    /// The steps, to change them. All changes of a leaf go through here.
    fn change(self: &mut Arc<Self>) -> &mut Vec<StepState> {
        let leaf = Arc::make_mut(self);
        if !mutant!(StaleLeafHashKept) {
            leaf.hash.forget();
        }
        &mut leaf.steps
    }
}

impl Steps {
    /// Number of steps.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no steps.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The step at an index.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&StepState> {
        self.leaves.get(index / LEAF_STEPS)?.steps.get(index % LEAF_STEPS)
    }

    /// The step at an index, to change it.
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut StepState> {
        self.leaves.get_mut(index / LEAF_STEPS)?.change().get_mut(index % LEAF_STEPS)
    }

    /// Appends a step.
    pub(crate) fn push(&mut self, step: StepState) {
        if self.len.is_multiple_of(LEAF_STEPS) {
            // Most runs are small, and a leaf of a large one is full soon.
            let capacity = if self.leaves.is_empty() { 0 } else { LEAF_STEPS };
            let leaf = Leaf { steps: Vec::with_capacity(capacity), ..Leaf::default() };
            self.leaves.push(Arc::new(leaf));
        }
        if let Some(leaf) = self.leaves.last_mut() {
            leaf.change().push(step);
            self.len += 1;
        }
    }

    /// Releases spare capacity after the last step was appended.
    pub(crate) fn shrink_to_fit(&mut self) {
        // A leaf that is shared would be copied.
        if let Some(leaf) = self.leaves.last_mut().and_then(Arc::get_mut) {
            leaf.steps.shrink_to_fit();
        }
    }

    /// Appends the steps of a leaf whose hash is known. Returns whether they fit: all leaves before
    /// it are full, and it is not empty.
    #[doc(hidden)]
    #[must_use]
    pub fn push_leaf(&mut self, mut steps: Vec<StepState>, hash: ContentHash) -> bool {
        let fits = (1..=LEAF_STEPS).contains(&steps.len());
        if !fits || !self.len.is_multiple_of(LEAF_STEPS) {
            return false;
        }
        self.len += steps.len();
        steps.shrink_to_fit();
        self.leaves.push(Arc::new(Leaf { steps, hash: hash.into() }));
        true
    }

    /// The steps, by number.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter { leaves: self.leaves.iter(), front: [].iter(), back: [].iter(), left: self.len }
    }

    /// The steps of each leaf.
    #[doc(hidden)]
    #[must_use]
    pub fn leaves(&self) -> impl ExactSizeIterator<Item = &[StepState]> {
        self.leaves.iter().map(|leaf| leaf.steps.as_slice())
    }

    /// The steps and the hash of each leaf; `hash` computes those that are not kept.
    #[doc(hidden)]
    pub fn hashed_leaves(
        &self,
        hash: impl Fn(&[StepState]) -> ContentHash,
    ) -> impl ExactSizeIterator<Item = (&[StepState], ContentHash)> {
        self.leaves
            .iter()
            .map(move |leaf| (leaf.steps.as_slice(), leaf.hash.get_or(|| hash(&leaf.steps))))
    }
}

impl PartialEq for Steps {
    fn eq(&self, other: &Self) -> bool {
        let mut pairs = self.leaves.iter().zip(&other.leaves);
        let is_same = |(own, other): (&Arc<Leaf>, &Arc<Leaf>)| {
            Arc::ptr_eq(own, other) || own.steps == other.steps
        };
        self.len == other.len && pairs.all(is_same)
    }
}

impl Eq for Steps {}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl Index<usize> for Steps {
    type Output = StepState;

    fn index(&self, index: usize) -> &StepState {
        self.get(index).expect("a step with this index exists")
    }
}

impl<'a> IntoIterator for &'a Steps {
    type Item = &'a StepState;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Iterator over the steps of a run, by number.
#[derive(Debug, Clone)]
pub struct Iter<'a> {
    leaves: slice::Iter<'a, Arc<Leaf>>,
    front: slice::Iter<'a, StepState>,
    back: slice::Iter<'a, StepState>,
    left: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a StepState;

    fn next(&mut self) -> Option<&'a StepState> {
        loop {
            if let Some(step) = self.front.next() {
                self.left = self.left.saturating_sub(1);
                return Some(step);
            }
            self.front = match self.leaves.next() {
                Some(leaf) => leaf.steps.iter(),
                None => std::mem::replace(&mut self.back, [].iter()),
            };
            if self.front.len() == 0 {
                return None;
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(step) = self.back.next_back() {
                self.left = self.left.saturating_sub(1);
                return Some(step);
            }
            self.back = match self.leaves.next_back() {
                Some(leaf) => leaf.steps.iter(),
                None => std::mem::replace(&mut self.front, [].iter()),
            };
            if self.back.len() == 0 {
                return None;
            }
        }
    }
}

impl ExactSizeIterator for Iter<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(count: usize) -> Steps {
        let mut steps = Steps::default();
        (0..count).for_each(|index| steps.push(StepState::new(&index.to_string())));
        steps
    }

    fn ids<'a>(steps: impl Iterator<Item = &'a StepState>) -> Vec<&'a str> {
        steps.map(StepState::id).collect()
    }

    /// Goal: leaves are not visible in what the steps look like from outside.
    #[test]
    fn steps_in_leaves_are_a_list() {
        for count in [0, 1, LEAF_STEPS - 1, LEAF_STEPS, LEAF_STEPS + 1, 3 * LEAF_STEPS + 7] {
            let steps = steps(count);
            let expected: Vec<String> = (0..count).map(|index| index.to_string()).collect();
            assert_eq!((steps.len(), steps.iter().len()), (count, count));
            assert_eq!(ids(steps.iter()), expected);
            let mut reversed = ids(steps.iter().rev());
            reversed.reverse();
            assert_eq!(reversed, expected);
            let mut both = steps.iter();
            let mut found = Vec::new();
            while let Some(step) = both.next() {
                found.push(step.id());
                found.extend(both.next_back().map(StepState::id));
                assert_eq!(both.len(), count - found.len());
            }
            found.sort_unstable_by_key(|id| id.parse::<usize>().unwrap());
            assert_eq!(found, expected);
            assert!(steps.get(count).is_none());
            let sizes: Vec<usize> = steps.leaves().map(<[_]>::len).collect();
            assert_eq!(sizes.iter().sum::<usize>(), count);
            assert!(sizes.iter().rev().skip(1).all(|size| *size == LEAF_STEPS));
        }
    }

    /// Goal: a change copies one leaf and drops its hash; the other leaves stay shared and keep theirs.
    #[test]
    fn change_costs_one_leaf() {
        let mut steps = steps(4 * LEAF_STEPS);
        let hash = |_: &[StepState]| ContentHash([1; 32]);
        assert_eq!(steps.hashed_leaves(hash).filter(|(_, hash)| hash.0 == [1; 32]).count(), 4);
        let before = steps.clone();
        steps.get_mut(LEAF_STEPS + 3).unwrap().attempts = 1;
        let is_shared: Vec<bool> =
            steps.leaves.iter().zip(&before.leaves).map(|(a, b)| Arc::ptr_eq(a, b)).collect();
        assert_eq!(is_shared, [true, false, true, true]);
        assert_eq!(before[LEAF_STEPS + 3].attempts, 0);
        assert_ne!(steps, before);
        let again = |_: &[StepState]| ContentHash([2; 32]);
        let hashes: Vec<u8> = steps.hashed_leaves(again).map(|(_, hash)| hash.0[0]).collect();
        assert_eq!(hashes, [1, 2, 1, 1]);
        steps.push(StepState::new("new"));
        steps.get_mut(4 * LEAF_STEPS).unwrap();
        let last = |_: &[StepState]| ContentHash([3; 32]);
        let hashes: Vec<u8> = steps.hashed_leaves(last).map(|(_, hash)| hash.0[0]).collect();
        assert_eq!(hashes, [1, 2, 1, 1, 3]);
    }

    /// Goal: only leaves that keep the invariant are accepted.
    #[test]
    fn leaf_in_the_wrong_place_is_rejected() {
        let leaf = |count: usize| vec![StepState::new("a"); count];
        let mut steps = Steps::default();
        assert!(!steps.push_leaf(leaf(0), ContentHash::default()));
        assert!(!steps.push_leaf(leaf(LEAF_STEPS + 1), ContentHash::default()));
        assert!(steps.push_leaf(leaf(LEAF_STEPS), ContentHash::default()));
        assert!(steps.push_leaf(leaf(1), ContentHash::default()));
        assert!(!steps.push_leaf(leaf(1), ContentHash::default()));
        assert_eq!(steps.len(), LEAF_STEPS + 1);
    }
}
