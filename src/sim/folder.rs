//! A folder: its names as they look, and as they are on the medium.
//!
//! Left out on purpose: an order among changes that were not synced. Journals keep one, but no
//! standard says so, and so each survives by itself.

use std::collections::BTreeMap;

use super::loss::Fates;

#[derive(Debug, Clone, Default)]
pub(super) struct Folder {
    pub(super) now: BTreeMap<String, usize>,
    durable: BTreeMap<String, usize>,
    unsynced: Vec<Change>,
}

#[derive(Debug, Clone)]
struct Change {
    removed: Option<String>,
    added: Option<(String, usize)>,
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        if let Some(name) = &self.removed {
            names.remove(name);
        }
        if let Some((name, node)) = &self.added {
            // It has one name, also if the change that gave it an earlier one was lost.
            names.retain(|_, other| other != node);
            names.insert(name.clone(), *node);
        }
    }
}

impl Folder {
    /// One atomic change: a name goes, a name comes, or both.
    pub(super) fn change(&mut self, removed: Option<&str>, added: Option<(&str, usize)>) {
        let change = Change {
            removed: removed.map(str::to_owned),
            added: added.map(|(name, node)| (name.to_owned(), node)),
        };
        change.apply(&mut self.now);
        self.unsynced.push(change);
    }

    pub(super) fn sync(&mut self) {
        self.durable = self.now.clone();
        self.unsynced.clear();
    }

    /// What it names, now, on the medium, or in between.
    pub(super) fn nodes(&self) -> impl Iterator<Item = usize> {
        let added = self.unsynced.iter().filter_map(|change| change.added.as_ref());
        let added = added.map(|(_, node)| *node);
        self.now.values().chain(self.durable.values()).copied().chain(added)
    }

    /// How many things can be lost.
    pub(super) fn unsynced(&self) -> usize {
        self.unsynced.len()
    }

    pub(super) fn lose(&mut self, fates: &mut Fates) {
        for change in std::mem::take(&mut self.unsynced) {
            if fates.survives() {
                change.apply(&mut self.durable);
            }
        }
        self.now = self.durable.clone();
    }
}
