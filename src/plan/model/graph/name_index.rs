//! Finds the place of a name in a list of names, for plans with millions of dependencies.
//!
//! The names are sorted once, each with the first bytes after what all names begin with as a number,
//! so that nearly all comparisons look at two numbers. Lists of dependencies often name steps in the order of the plan, so the place
//! after the last one found is tried first.

use std::cell::Cell;
use std::cmp::Ordering;

/// The places of the names of a list.
#[derive(Debug)]
pub(crate) struct NameIndex<'a> {
    /// The names, in the order of the list.
    names: Vec<&'a str>,
    /// What all names begin with.
    common: &'a [u8],
    /// The beginning of the rest and the place of each name, sorted by name and place.
    sorted: Vec<(u64, usize)>,
    /// The second place of the first name that occurs twice, and the place before it.
    repeated: Option<(usize, usize)>,
    /// The place that was found last.
    last: Cell<usize>,
}

impl<'a> NameIndex<'a> {
    pub(crate) fn new(names: impl IntoIterator<Item = &'a str>) -> Self {
        let names: Vec<&str> = names.into_iter().collect();
        let common = common_beginning(&names);
        let rest = |name: &str| name.as_bytes().get(common.len()..).map_or(0, beginning);
        let begin = |(place, name): (usize, &&str)| (rest(name), place);
        let mut index = Self {
            sorted: names.iter().enumerate().map(begin).collect(),
            common,
            names,
            repeated: None,
            last: Cell::new(0),
        };
        let names = &index.names;
        index.sorted.sort_unstable_by(|one, other| {
            let text = |place: usize| names.get(place).copied().unwrap_or_default();
            let by_name = one.0.cmp(&other.0).then_with(|| text(one.1).cmp(text(other.1)));
            by_name.then(one.1.cmp(&other.1))
        });
        let is_same = |one: usize, other: usize| index.names.get(one) == index.names.get(other);
        // Names are all over the memory: they are read only if their beginnings are equal.
        let pairs = index.sorted.windows(2).filter_map(|pair| match pair {
            [(begin, one), (next, other)] if begin == next && is_same(*one, *other) => {
                Some((*other, *one))
            }
            _ => None,
        });
        index.repeated = pairs.min();
        index
    }

    /// The first name that occurs twice: the place of its repetition, and the place before it.
    pub(crate) fn repeated(&self) -> Option<(usize, usize)> {
        self.repeated
    }

    /// The places in the order of their names.
    pub(crate) fn by_name(&self) -> impl Iterator<Item = usize> {
        self.sorted.iter().map(|(_, place)| *place)
    }

    /// The place of a name; the first one if it occurs more than once.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        if self.repeated.is_none() {
            let last = self.last.get();
            for place in [last.saturating_add(1), last] {
                if self.names.get(place) == Some(&name) {
                    self.last.set(place);
                    return Some(place);
                }
            }
        }
        let begin = beginning(name.as_bytes().strip_prefix(self.common)?);
        let at = self.sorted.partition_point(|(other, place)| {
            let text = || self.names.get(*place).copied().unwrap_or_default();
            other.cmp(&begin).then_with(|| text().cmp(name)) == Ordering::Less
        });
        let (_, place) = *self.sorted.get(at)?;
        (self.names.get(place) == Some(&name)).then(|| {
            self.last.set(place);
            place
        })
    }
}

/// What all names begin with; steps are often called `step-1`, `step-2`.
fn common_beginning<'a>(names: &[&'a str]) -> &'a [u8] {
    let Some((first, others)) = names.split_first() else { return &[] };
    others.iter().fold(first.as_bytes(), |common, name| {
        let is_same = |(one, other): &(&u8, &u8)| one == other;
        let length = common.iter().zip(name.as_bytes()).take_while(is_same).count();
        common.get(..length).unwrap_or_default()
    })
}

/// The first bytes of a name as a number that is ordered like the names.
fn beginning(name: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
    u64::from_le_bytes(bytes).swap_bytes()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]
        #[test]
        fn every_name_is_found_at_its_first_place(
            names in prop::collection::vec("[ab\u{0}\u{e9}]{0,2}|prefix-of-[ab]{0,2}", 0..12),
            asked in prop::collection::vec("[ab\u{0}]{0,3}|prefix-of-[ab]{0,2}", 0..12),
        ) {
            let index = NameIndex::new(names.iter().map(String::as_str));
            for name in names.iter().chain(&asked) {
                let expected = names.iter().position(|other| other == name);
                prop_assert_eq!(index.find(name), expected);
                prop_assert_eq!(index.find(name), expected);
            }
            let mut places = BTreeMap::new();
            let repeated = names.iter().enumerate().find_map(|(place, name)| {
                places.insert(name, place).map(|before| (place, before))
            });
            prop_assert_eq!(index.repeated(), repeated);
            let mut sorted: Vec<usize> = (0..names.len()).collect();
            sorted.sort_by_key(|place| &names[*place]);
            prop_assert_eq!(index.by_name().collect::<Vec<_>>(), sorted);
        }
    }
}
