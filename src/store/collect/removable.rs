//! Objects that may be deleted, and deleting them.

use crate::error::Result;
use crate::store::objects::{ListedObject, StoreTime};
use crate::store::session::StoreSession;

/// Why an object may be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RemovableClass {
    /// A slot that opens no epoch: a segment object has its records.
    Slot,
    /// A first part of a segment: a longer object of the segment has its records.
    Part,
    /// An index object that a longer one replaces.
    Index,
    /// A snapshot: two later ones replace it, or its record was pruned, and no pruned log starts from it.
    Snapshot,
    /// A segment that a retention note covers.
    Pruned,
}

/// An object that may be deleted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RemovableObject {
    /// Why.
    pub class: RemovableClass,
    pub name: String,
    /// Its length in bytes.
    pub length: u64,
}

/// The age at which an object may be collected, in microseconds of the store's clock: 48 hours.
pub const COLLECT_AFTER: u64 = 2 * 24 * 60 * 60 * 1_000_000;

pub(super) fn is_old(at: Option<StoreTime>, now: StoreTime) -> bool {
    at.is_some_and(|at| now.0.saturating_sub(at.0) >= COLLECT_AFTER)
}

pub(super) fn removable(class: RemovableClass, listed: &ListedObject) -> RemovableObject {
    RemovableObject { class, name: listed.name.clone(), length: listed.length }
}

/// Delete the objects of a plan in its order, and call `each` for each deleted object. Deleting an object again changes
/// nothing, so a plan may be carried out late, twice, or by several processes.
///
/// # Errors
/// `Io` if the store does not answer. The rest of the plan is not carried out.
pub fn remove(
    session: &StoreSession<'_>,
    objects: &[RemovableObject],
    each: &mut dyn FnMut(&RemovableObject),
) -> Result<()> {
    for object in objects {
        let mut unclear = 0;
        while let Err(why) = session.objects.delete(&object.name) {
            session.ask_again(&mut unclear, &why)?;
        }
        each(object);
    }
    Ok(())
}
