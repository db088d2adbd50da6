//! Gives each task of a file a unique id.

use std::collections::{BTreeMap, BTreeSet};

/// The ids given so far.
#[derive(Debug, Default)]
pub(crate) struct UniqueIds {
    taken: BTreeSet<String>,
    /// The next number for a repeated id.
    next: BTreeMap<String, usize>,
}

impl UniqueIds {
    /// Whether an id was given.
    pub(crate) fn contains(&self, id: &str) -> bool {
        self.taken.contains(id)
    }

    /// The id, or the first free one of `id-2`, `id-3`, ...
    pub(crate) fn take(&mut self, id: &str) -> String {
        if self.taken.insert(id.to_owned()) {
            return id.to_owned();
        }
        let next = self.next.entry(id.to_owned()).or_insert(2);
        loop {
            let found = format!("{id}-{next}");
            *next = next.saturating_add(1);
            if self.taken.insert(found.clone()) {
                return found;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_ids_get_the_next_free_number() {
        let mut ids = UniqueIds::default();
        let all = ["a", "a", "a-3", "a", "a-2"].map(|id| ids.take(id));
        assert_eq!(all, ["a", "a-2", "a-3", "a-4", "a-2-2"]);
    }
}
