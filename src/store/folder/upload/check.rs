//! Looks whether a store could restore the log, and repairs what it can.
//!
//! Invariant: what is called repaired was looked at again after the repair.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::error::{ErrorKind, Result};
use crate::format::{Uid, to_u64};
use crate::log::{BlobId, LogReader};
use crate::store::objects::ListedObject;
use crate::store::session::{StoreEnd, StoreSession};

use super::find::{FaultPlace, Listings, StoreFault, find, read_object};
use super::repair::{has_copy, repair};

/// What became of damage in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DamageState {
    /// It was repaired from the folder.
    Repaired,
    /// The folder has what the object should have, but nothing overwrites an object: a person deletes it, and then it is
    /// created again.
    Deletable,
    /// The folder does not have it.
    Lost,
}

/// An object that a restore needs, and that was missing or damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreDamage {
    /// Its name below the prefix.
    pub object: String,
    /// What is wrong with it, for people.
    pub what: String,
    /// What became of it.
    pub state: DamageState,
}

/// The next object of those that are read one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScrubStep {
    /// Its bytes; 0 if there was none.
    pub bytes: u64,
    /// Whether it is damaged. A check says how, and repairs what it can.
    pub is_damaged: bool,
    /// Whether it was the last one: the next step begins again.
    pub is_last: bool,
}

/// What a process found when it read objects.
#[derive(Debug, Default)]
pub(in crate::store) struct Health {
    /// Damaged objects, as they are listed.
    known: BTreeMap<String, (StoreFault, ListedObject)>,
    /// The objects that are still to be read.
    left: VecDeque<(FaultPlace, ListedObject)>,
}

/// The folder, the store, and the end of the log in it.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) struct Whole<'a> {
    pub(in crate::store) reader: &'a LogReader,
    pub(in crate::store) session: &'a StoreSession<'a>,
    pub(in crate::store) end: &'a StoreEnd,
    /// Blobs of the folder that go to the store later.
    pub(in crate::store) queued: &'a BTreeSet<BlobId>,
}

impl Whole<'_> {
    fn find(&self, health: &mut Health) -> Result<Vec<StoreFault>> {
        let Self { reader, session, end, queued } = *self;
        let listings = Listings::make(session)?;
        let mut faults = find(reader, session, end, (&listings, queued))?;
        health.known.retain(|_, (fault, listed)| listings.has_unchanged(listed, &fault.place));
        for (name, (fault, _)) in &health.known {
            if !faults.iter().any(|found| found.object == *name) {
                faults.push(fault.clone());
            }
        }
        Ok(faults)
    }
}

/// Look whether a store has what a restore needs, repair what it lacks, and look again. Returns everything that was found.
///
/// # Errors
/// `Io`: a later call continues. `Corrupt` if the folder is damaged.
pub(in crate::store) fn check(whole: &Whole<'_>, health: &mut Health) -> Result<Vec<StoreDamage>> {
    let Whole { reader, session, end, .. } = *whole;
    let before = whole.find(health)?;
    if before.is_empty() {
        return Ok(Vec::new());
    }
    for fault in &before {
        match repair(reader, session, fault, end) {
            Err(error) if error.kind() == ErrorKind::Io => return Err(error),
            // The second look finds it again.
            _ => {}
        }
    }
    let after = whole.find(health)?;
    let is_left = |fault: &StoreFault| after.iter().any(|left| left.object == fault.object);
    let damage = |fault: &StoreFault, state| {
        let StoreFault { object, what, .. } = fault.clone();
        StoreDamage { object, what, state }
    };
    let left = after.iter().map(|fault| {
        let is_deletable = !fault.is_missing() && has_copy(reader, session, fault, end);
        damage(fault, if is_deletable { DamageState::Deletable } else { DamageState::Lost })
    });
    let repaired = before.iter().filter(|fault| !is_left(fault));
    let repaired = repaired.map(|fault| damage(fault, DamageState::Repaired));
    let mut found: Vec<StoreDamage> = Vec::new();
    for damage in repaired.chain(left) {
        if !found.iter().any(|other| other.object == damage.object) {
            found.push(damage);
        }
    }
    Ok(found)
}

impl Health {
    /// Read the next object and verify it. `node` decides with which one a process begins, so that processes that end
    /// early do not all read the same ones.
    ///
    /// # Errors
    /// `Io`: a later call continues. `Corrupt` if the folder is damaged.
    pub(in crate::store) fn scrub(
        &mut self,
        reader: &LogReader,
        session: &StoreSession<'_>,
        node: &Uid,
    ) -> Result<ScrubStep> {
        if self.left.is_empty() {
            self.left = Listings::make(session)?.readable(reader)?.into();
            let count = u128::try_from(self.left.len().max(1)).unwrap_or(1);
            let first = usize::try_from(u128::from_le_bytes(*node) % count).unwrap_or(0);
            self.left.rotate_left(first.min(self.left.len()));
        }
        let Some((place, listed)) = self.left.front().cloned() else {
            return Ok(ScrubStep { bytes: 0, is_damaged: false, is_last: true });
        };
        let fault = read_object(reader, session, (&place, &listed.name))?;
        self.left.pop_front();
        // What is gone was deleted since it was listed: the next check says whether it is needed.
        let fault = fault.filter(|fault| !fault.is_missing() && !mutant!(ScrubbedDamageIgnored));
        let (bytes, is_damaged) = (to_u64(listed.name.len()).max(listed.length), fault.is_some());
        match fault {
            Some(fault) => drop(self.known.insert(listed.name.clone(), (fault, listed))),
            None => drop(self.known.remove(&listed.name)),
        }
        Ok(ScrubStep { bytes, is_damaged, is_last: self.left.is_empty() })
    }
}
