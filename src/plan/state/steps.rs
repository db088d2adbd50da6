//! The steps of a run, in leaves of [`LEAF_STEPS`] steps.
//!
//! Copies of a run share their leaves; a leaf that is changed while it is shared is copied first. A
//! leaf keeps its hash until it changes, so that the hash of a run, and a snapshot of it, cost what
//! changed. A leaf from a snapshot stays packed until its first access, and keeps its packed bytes
//! until it changes.
//!
//! Invariants:
//! - Step n is at index n - 1. All leaves but the last are full, and none is empty.
//! - [`Steps::get_mut`] and [`Steps::push`] are the only ways to change a leaf, and both drop its
//!   hash and its packed bytes.
//! - A leaf that cannot be unpacked reads as steps without an id, and its [`StateFault`] reports it from
//!   then on, in all copies of the state.
//! - A kept hash never decides anything by itself: whatever checks a state computes the hashes from
//!   the steps ([`Steps::leaves`]).

use std::fmt;
use std::ops::Index;
use std::slice;
use std::sync::{Arc, OnceLock};

use super::fault::StateFault;
use super::kept_hash::KeptHash;
use super::packed::{PackedPart, Unpack};
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
    steps: OnceLock<Vec<StepState>>,
    packed: Option<Arc<PackedLeaf>>,
    hash: KeptHash,
}

/// A leaf from a snapshot.
#[derive(Debug)]
struct PackedLeaf {
    part: Arc<PackedPart>,
    /// The number of its steps, as its run says.
    len: usize,
    unpack: Unpack<Vec<StepState>>,
    fault: StateFault,
}

impl PackedLeaf {
    fn unpack(&self) -> Vec<StepState> {
        let why = match (self.unpack)(&self.part) {
            Ok(mut steps) if steps.len() == self.len => {
                steps.shrink_to_fit();
                return steps;
            }
            Ok(_) => "a leaf lacks steps, or has too many".to_owned(),
            Err(why) => why,
        };
        self.fault.record(why);
        vec![StepState::new(""); self.len]
    }
}

impl Leaf {
    fn steps(&self) -> &[StepState] {
        self.steps
            .get_or_init(|| self.packed.as_deref().map(PackedLeaf::unpack).unwrap_or_default())
    }

    /// The steps, to change them. All changes of a leaf go through here.
    fn change(self: &mut Arc<Self>) -> Option<&mut Vec<StepState>> {
        self.steps();
        let leaf = Arc::make_mut(self);
        leaf.packed = None;
        if !mutant!(StaleLeafHashKept) {
            leaf.hash.forget();
        }
        leaf.steps.get_mut()
    }
}

/// The form in which a leaf is kept.
#[derive(Debug)]
pub enum StoredLeaf<'a> {
    /// Packed, and not changed since.
    Packed(&'a PackedPart),
    /// Unpacked, and possibly changed.
    Unpacked(&'a [StepState]),
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
        self.leaves.get(index / LEAF_STEPS)?.steps().get(index % LEAF_STEPS)
    }

    /// The step at an index, to change it.
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut StepState> {
        self.leaves.get_mut(index / LEAF_STEPS)?.change()?.get_mut(index % LEAF_STEPS)
    }

    /// Appends a step.
    pub(crate) fn push(&mut self, step: StepState) {
        if self.len.is_multiple_of(LEAF_STEPS) {
            // Most runs are small, and a leaf of a large one is full soon.
            let capacity = if self.leaves.is_empty() { 0 } else { LEAF_STEPS };
            let steps = Vec::with_capacity(capacity).into();
            self.leaves.push(Arc::new(Leaf { steps, ..Leaf::default() }));
        }
        if let Some(steps) = self.leaves.last_mut().and_then(Leaf::change) {
            steps.push(step);
            self.len += 1;
        }
    }

    /// Releases spare capacity after the last step was appended.
    pub(crate) fn shrink_to_fit(&mut self) {
        // A leaf that is shared would be copied.
        let last = self.leaves.last_mut().and_then(Arc::get_mut);
        if let Some(steps) = last.and_then(|leaf| leaf.steps.get_mut()) {
            steps.shrink_to_fit();
        }
    }

    /// The steps of these leaves, which are unpacked at their first access; `None` unless that many
    /// steps need that many leaves.
    #[doc(hidden)]
    #[must_use]
    pub fn packed(
        len: usize,
        leaves: &[Arc<PackedPart>],
        unpack: Unpack<Vec<StepState>>,
        fault: &StateFault,
    ) -> Option<Self> {
        let lengths = (0..len).step_by(LEAF_STEPS).map(|begin| (len - begin).min(LEAF_STEPS));
        let leaf = |(part, len): (&Arc<PackedPart>, usize)| {
            let (part, hash, fault) = (Arc::clone(part), part.hash.into(), fault.clone());
            let packed = Some(Arc::new(PackedLeaf { part, len, unpack, fault }));
            Arc::new(Leaf { steps: OnceLock::new(), packed, hash })
        };
        (lengths.len() == leaves.len())
            .then(|| Self { leaves: leaves.iter().zip(lengths).map(leaf).collect(), len })
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
        self.leaves.iter().map(|leaf| leaf.steps())
    }

    /// The stored form and the hash of each leaf; `hash` computes those that are not kept.
    #[doc(hidden)]
    pub fn stored_leaves(
        &self,
        hash: impl Fn(&[StepState]) -> ContentHash,
    ) -> impl ExactSizeIterator<Item = (StoredLeaf<'_>, ContentHash)> {
        self.leaves.iter().map(move |leaf| {
            let stored = match &leaf.packed {
                Some(packed) => StoredLeaf::Packed(&packed.part),
                None => StoredLeaf::Unpacked(leaf.steps()),
            };
            (stored, leaf.hash.get_or(|| hash(leaf.steps())))
        })
    }
}

impl PartialEq for Steps {
    fn eq(&self, other: &Self) -> bool {
        let mut pairs = self.leaves.iter().zip(&other.leaves);
        let is_same = |(own, other): (&Arc<Leaf>, &Arc<Leaf>)| {
            Arc::ptr_eq(own, other) || own.steps() == other.steps()
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
                Some(leaf) => leaf.steps().iter(),
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
                Some(leaf) => leaf.steps().iter(),
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
        assert_eq!(steps.stored_leaves(hash).filter(|(_, hash)| hash.0 == [1; 32]).count(), 4);
        let before = steps.clone();
        steps.get_mut(LEAF_STEPS + 3).unwrap().attempts = 1;
        let is_shared: Vec<bool> =
            steps.leaves.iter().zip(&before.leaves).map(|(a, b)| Arc::ptr_eq(a, b)).collect();
        assert_eq!(is_shared, [true, false, true, true]);
        assert_eq!(before[LEAF_STEPS + 3].attempts, 0);
        assert_ne!(steps, before);
        let again = |_: &[StepState]| ContentHash([2; 32]);
        let hashes: Vec<u8> = steps.stored_leaves(again).map(|(_, hash)| hash.0[0]).collect();
        assert_eq!(hashes, [1, 2, 1, 1]);
        steps.push(StepState::new("new"));
        steps.get_mut(4 * LEAF_STEPS).unwrap();
        let last = |_: &[StepState]| ContentHash([3; 32]);
        let hashes: Vec<u8> = steps.stored_leaves(last).map(|(_, hash)| hash.0[0]).collect();
        assert_eq!(hashes, [1, 2, 1, 1, 3]);
    }

    /// A part that unpacks to as many steps as its first byte says.
    fn part(count: u8) -> Arc<PackedPart> {
        Arc::new(PackedPart::new(ContentHash([count; 32]), [count].into()))
    }

    fn unpack(part: &PackedPart) -> Result<Vec<StepState>, String> {
        let count = part.bytes.first().copied().unwrap_or_default();
        if count == 0 {
            Err("damaged".to_owned())
        } else {
            Ok(vec![StepState::new("a"); count.into()])
        }
    }

    /// Goal: a leaf is unpacked when one of its steps is first used, keeps its packed bytes until it
    /// changes, and a copy may unpack it by itself.
    #[test]
    fn packed_leaf_is_unpacked_at_its_first_access() {
        let fault = StateFault::default();
        let mut steps = Steps::packed(130, &[part(64), part(64), part(2)], unpack, &fault).unwrap();
        let is_unpacked = |steps: &Steps| -> Vec<bool> {
            steps.leaves.iter().map(|leaf| leaf.steps.get().is_some()).collect()
        };
        assert_eq!((steps.len(), steps.iter().len()), (130, 130));
        assert_eq!(is_unpacked(&steps), [false; 3]);
        assert!(steps.get(192).is_none());
        let copy = steps.clone();
        assert_eq!(steps[64].id(), "a");
        assert_eq!(
            (is_unpacked(&steps), is_unpacked(&copy)),
            (vec![false, true, false], vec![false, true, false])
        );
        steps.get_mut(129).unwrap().attempts = 1;
        assert_eq!((copy[129].attempts, steps[129].attempts), (0, 1));
        let hash = |_: &[StepState]| ContentHash([1; 32]);
        let stored: Vec<(bool, u8)> = steps
            .stored_leaves(hash)
            .map(|(leaf, hash)| (matches!(leaf, StoredLeaf::Packed(_)), hash.0[0]))
            .collect();
        assert_eq!(stored, [(true, 64), (true, 64), (false, 1)]);
        steps.push(StepState::new("b"));
        assert_eq!((steps.len(), steps[130].id()), (131, "b"));
        assert_eq!(fault.get(), None);
    }

    /// Goal: a leaf that cannot be unpacked, or has another number of steps than its place says, is a
    /// fault of every copy of the state.
    #[test]
    fn leaf_that_cannot_be_unpacked_is_a_fault() {
        assert!(Steps::packed(64, &[part(64), part(1)], unpack, &StateFault::default()).is_none());
        assert!(Steps::packed(65, &[part(64)], unpack, &StateFault::default()).is_none());
        assert!(Steps::packed(0, &[part(1)], unpack, &StateFault::default()).is_none());
        for (bad, why) in
            [(0, "damaged"), (63, "a leaf lacks steps, or has too many"), (65, "a leaf")]
        {
            let fault = StateFault::default();
            let copy = fault.clone();
            let mut steps = Steps::packed(65, &[part(bad), part(1)], unpack, &fault).unwrap();
            assert_eq!((steps[64].id(), copy.get()), ("a", None));
            assert_eq!(steps[63].id(), "");
            assert!(copy.get().unwrap().starts_with(why), "{copy:?}");
            assert!(steps.get_mut(3).is_some());
            assert_eq!((steps.len(), steps.iter().count()), (65, 65));
        }
    }
}
