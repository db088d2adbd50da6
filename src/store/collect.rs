//! Collecting slots that segment objects replace (`format/store.md`, section 7).
//!
//! Invariant: an opening slot is never collected, nor a slot that no segment object covers, nor one
//! whose age by the store's clock is unknown or below [`COLLECT_AFTER`].

use crate::error::Result;

use super::name::{ObjectName, SEGMENTS, TAIL};
use super::objects::StoreTime;
use super::segments::segment_floor;
use super::session::StoreSession;
use super::slot::{SLOT_HEADER_SIZE, SlotHeader};

/// The age at which a slot may be collected, in microseconds of the store's clock: 48 hours.
pub const COLLECT_AFTER: u64 = 2 * 24 * 60 * 60 * 1_000_000;

/// The slots that may be deleted now, by name. `now` is a time of the store. Nothing is deleted.
///
/// # Errors
/// `Io` if the store does not answer.
pub fn collectable(session: &StoreSession<'_>, now: StoreTime) -> Result<Vec<String>> {
    let mut unclear = 0;
    // Listed first: whatever is created later covers no slot of this list.
    let floor = segment_floor(&session.list(SEGMENTS, &mut unclear)?);
    let mut found = Vec::new();
    for listed in session.list(TAIL, &mut unclear)? {
        let is_old = listed.at.is_some_and(|at| now.0.saturating_sub(at.0) >= COLLECT_AFTER);
        let Some(ObjectName::Slot(first_seq)) = ObjectName::parse(&listed.name) else { continue };
        if is_old && first_seq <= floor && is_covered(session, &listed.name, first_seq, floor)? {
            found.push(listed.name);
        }
    }
    Ok(found)
}

/// Whether a slot opens no epoch, and segment objects cover all of its records. An invalid slot is kept.
fn is_covered(session: &StoreSession<'_>, name: &str, first_seq: u64, floor: u64) -> Result<bool> {
    let range = 0..u64::try_from(SLOT_HEADER_SIZE).unwrap_or(u64::MAX);
    let mut unclear = 0;
    let object = loop {
        match session.objects.get(name, Some(range.clone())) {
            Ok(object) => break object,
            Err(why) => session.ask_again(&mut unclear, &why)?,
        }
    };
    let header = object.and_then(|object| SlotHeader::decode(&object.bytes).ok());
    let (ledger, genesis) = (session.identity.ledger, session.identity.genesis);
    Ok(header.is_some_and(|header| {
        (header.ledger, header.genesis) == (ledger, genesis)
            && header.first_seq == first_seq
            && header.last_seq <= floor
            && !header.opens
    }))
}

/// Delete the slots that [`collectable`] finds, and return their names. A delete whose outcome is
/// unclear is not repeated: the next collection finds the slot again.
///
/// # Errors
/// As [`collectable`].
pub fn collect(session: &StoreSession<'_>, now: StoreTime) -> Result<Vec<String>> {
    let names = collectable(session, now)?;
    for name in &names {
        let _ = session.objects.delete(name);
    }
    Ok(names)
}
