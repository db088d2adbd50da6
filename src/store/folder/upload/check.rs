//! Checks that a store can restore the log, and repairs it where possible.
//!
//! Invariant: an object is reported as repaired only after another check of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::error::{Error, ErrorKind, Result};
use crate::format::Uid;
use crate::log::LogReader;
use crate::store::objects::ListedObject;
use crate::store::session::StoreSession;

use super::find::{Defect, FaultPlace, Listings, ReadSlots, StoreFault, Whole, find, read_object};
use super::repair::{has_copy, is_unclear, repair};

/// The state of damage in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DamageState {
    /// The object is intact again: it was repaired from the folder, or a person restored it.
    Repaired,
    /// The folder has the right bytes, but the program never overwrites an object: after a person deletes it, it is
    /// created again.
    Deletable,
    /// The folder lacks it.
    Lost,
    /// The folder cannot be read at this place, so nothing is known about the object.
    Uncompared,
}

/// An object that a restore needs, and that was missing or damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreDamage {
    /// Its name below the prefix.
    pub object: String,
    /// The problem, for people.
    pub what: String,
    /// Its state.
    pub state: DamageState,
    /// Whether only derived data in it is damaged: a restore has every record.
    pub is_derived: bool,
}

/// The next object of those that are read one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScrubStep {
    /// Its bytes; 0 if there was none.
    pub bytes: u64,
    /// Whether the object is damaged, or cannot be compared. The check reports the details, and
    /// repairs the object if possible.
    pub is_damaged: bool,
    /// Whether it was the last object: the next step begins again.
    pub is_last: bool,
}

/// The findings of a process that read objects.
#[derive(Debug, Default)]
pub(in crate::store) struct Health {
    /// Damaged objects, as they are listed.
    known: BTreeMap<String, (StoreFault, ListedObject)>,
    /// The objects that are still to be read.
    left: VecDeque<(FaultPlace, ListedObject)>,
    /// While something is damaged, checks are frequent: the slots that they need not read again.
    read: ReadSlots,
}

/// List the store, and find all damage, including the findings of earlier reads.
fn look(whole: &Whole<'_>, health: &mut Health) -> Result<(Listings, Vec<StoreFault>)> {
    let listings = Listings::make(whole.reader, whole.session)?;
    let mut faults = find(whole, &listings, &mut health.read)?;
    let Health { known, .. } = health;
    known.retain(|name, (_, listed)| listings.find(name) == Some(listed));
    faults.retain(|fault| !(fault.is_uncompared() && known.contains_key(&fault.object)));
    let found: BTreeSet<String> = faults.iter().map(|fault| fault.object.clone()).collect();
    let unfound = known.values().map(|(fault, _)| fault);
    faults.extend(unfound.filter(|fault| !found.contains(&fault.object)).cloned());
    Ok((listings, faults))
}

/// Check that a store has everything that a restore needs, repair it, and check again. Returns all findings.
///
/// # Errors
/// `Io` if the store does not answer: a later call continues.
pub(in crate::store) fn check(whole: &Whole<'_>, health: &mut Health) -> Result<Vec<StoreDamage>> {
    let before = look(whole, health)?.1;
    if before.is_empty() {
        health.read.clear();
        return Ok(Vec::new());
    }
    let mut failed: BTreeMap<&str, Error> = BTreeMap::new();
    for fault in &before {
        match repair(whole, fault) {
            Err(error) if is_unclear(&error) => return Err(error),
            Err(error) => drop(failed.entry(&fault.object).or_insert(error)),
            Ok(()) => {}
        }
    }
    // A prune may have been noted in the meantime.
    let reader = whole.reader.reload().unwrap_or_else(|_| whole.reader.clone());
    let whole = &Whole { reader: &reader, ..*whole };
    let (listings, mut after) = look(whole, health)?;
    let failed_as = |fault: &StoreFault| failed.get(fault.object.as_str()).map(Error::kind);
    for fault in &before {
        let is_other = matches!(fault.place, FaultPlace::Opening(_))
            && failed_as(fault) == Some(ErrorKind::Corrupt);
        // It stays so while the object does.
        if let Some(listed) = listings.find(&fault.object).filter(|_| is_other) {
            let what = "it was missing, and another process created it before it was repaired: an older writer may have \
                        acknowledged records there that the log does not have";
            let fault = StoreFault { defect: Defect::Damaged(what.to_owned()), ..fault.clone() };
            health.known.insert(fault.object.clone(), (fault.clone(), listed.clone()));
            after.push(fault);
        }
    }
    let mut found: BTreeMap<&str, StoreDamage> = BTreeMap::new();
    for fault in &after {
        let state = match fault.defect {
            Defect::Uncompared(_) => DamageState::Uncompared,
            Defect::Missing => DamageState::Lost,
            _ if has_copy(whole, fault) => DamageState::Deletable,
            _ => DamageState::Lost,
        };
        let why = failed.get(fault.object.as_str()).filter(|_| state == DamageState::Lost);
        let why = why.map_or_else(String::new, |error| {
            format!("; it could not be repaired: {}", error.without_hint())
        });
        let (object, what) = (fault.object.clone(), format!("{}{why}", fault.what()));
        let is_derived = matches!(fault.defect, Defect::Derived(_));
        found.entry(&fault.object).or_insert(StoreDamage { object, what, state, is_derived });
    }
    for fault in before.iter().filter(|fault| !fault.is_uncompared()) {
        let (object, what) = (fault.object.clone(), fault.what());
        let (state, is_derived) = (DamageState::Repaired, false);
        let repaired = StoreDamage { object, what, state, is_derived };
        found.entry(&fault.object).or_insert(repaired);
    }
    if found.values().all(|damage| damage.state == DamageState::Repaired) {
        health.read.clear();
    }
    Ok(found.into_values().collect())
}

impl Health {
    /// Read the next object and verify it. The first object of a process depends on `node`, so that
    /// processes that end early do not all read the same objects.
    ///
    /// # Errors
    /// `Io` if the store does not answer: a later call continues.
    pub(in crate::store) fn scrub(
        &mut self,
        reader: &LogReader,
        session: &StoreSession<'_>,
        node: &Uid,
    ) -> Result<ScrubStep> {
        if self.left.is_empty() {
            self.left = Listings::make(reader, session)?.readable(reader).into();
            let count = u128::try_from(self.left.len().max(1)).unwrap_or(1);
            let first = usize::try_from(u128::from_le_bytes(*node) % count).unwrap_or(0);
            self.left.rotate_left(first.min(self.left.len()));
        }
        let Some((place, listed)) = self.left.pop_front() else {
            return Ok(ScrubStep { bytes: 0, is_damaged: false, is_last: true });
        };
        let fault = match read_object(reader, session, (&place, &listed.name)) {
            Ok(fault) => fault,
            Err(error) => {
                self.left.push_front((place, listed));
                return Err(error);
            }
        };
        // An object that is gone was deleted after the listing: the next check decides whether it is needed.
        let fault = fault.filter(|fault| !fault.is_missing() && !mutant!(ScrubbedDamageIgnored));
        let (bytes, is_damaged) = (listed.length, fault.is_some());
        match fault {
            Some(fault) => drop(self.known.insert(listed.name.clone(), (fault, listed))),
            None => drop(self.known.remove(&listed.name)),
        }
        Ok(ScrubStep { bytes, is_damaged, is_last: self.left.is_empty() })
    }
}
