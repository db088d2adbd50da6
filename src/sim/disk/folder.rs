//! A folder: its entries in the cache, and its durable entries.
//!
//! Unsynced changes have no order: each survives a power loss independently. Journaling file
//! systems keep an order, but no standard requires one.

use std::collections::BTreeMap;

use super::loss::LossPlan;

#[derive(Debug, Clone, Default)]
pub(super) struct Folder {
    pub(super) cached: BTreeMap<String, usize>,
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
            // A node has one name, even if the change that gave it an earlier one was lost.
            names.retain(|_, other| other != node);
            names.insert(name.clone(), *node);
        }
    }
}

impl Folder {
    /// One atomic change: removes an entry, adds an entry, or both.
    pub(super) fn change(&mut self, removed: Option<&str>, added: Option<(&str, usize)>) {
        let change = Change {
            removed: removed.map(str::to_owned),
            added: added.map(|(name, node)| (name.to_owned(), node)),
        };
        change.apply(&mut self.cached);
        self.unsynced.push(change);
    }

    pub(super) fn sync(&mut self) {
        self.durable = self.cached.clone();
        self.unsynced.clear();
    }

    /// Every node that an entry names: cached, durable, or unsynced.
    pub(super) fn nodes(&self) -> impl Iterator<Item = usize> {
        let added = self.unsynced.iter().filter_map(|change| change.added.as_ref());
        let added = added.map(|(_, node)| *node);
        self.cached.values().chain(self.durable.values()).copied().chain(added)
    }

    /// How many changes can be lost.
    pub(super) fn unsynced(&self) -> usize {
        self.unsynced.len()
    }

    pub(super) fn apply_loss(&mut self, plan: &mut LossPlan) {
        for change in std::mem::take(&mut self.unsynced) {
            if plan.survives() {
                change.apply(&mut self.durable);
            }
        }
        self.cached = self.durable.clone();
    }
}
