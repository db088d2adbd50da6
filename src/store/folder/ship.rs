//! Shipping: slots with what is durable in a folder, made by a process that does not wait for the store
//! before it acknowledges.
//!
//! Invariants:
//! - Only what HEAD covers is shipped: the store has nothing that the folder could still refuse.
//! - The blobs to which records may refer are in the store before their slot.
//! - A slot whose outcome is unclear is resolved before the next one is made.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::log::{Ack, BlobId, BlobState, LogReader};
use crate::store::protocol::StorePosition;
use crate::store::session::{HeldStore, StoreSession};
use crate::store::slot::{SlotPart, SlotWriter};

use super::blobs::blob_name;

/// The largest slot that is made of several commits, in bytes of frames.
pub(super) const SHIPPED_SIZE: u64 = 4 << 20;

/// Ship everything that a reader shows to be durable.
///
/// # Errors
/// As [`HeldStore::commit`] and [`LogReader::part_after`].
pub(super) fn ship_durable(
    reader: &LogReader,
    session: &StoreSession<'_>,
    writer: &SlotWriter,
    held: &mut HeldStore,
) -> Result<()> {
    held.resolve(session)?;
    loop {
        let end = held.end();
        let StorePosition { next_seq, chain, .. } = end.position;
        let (last, time) = (Ack { seq: next_seq - 1, chain }, end.time);
        let place = end.place.as_ref().map(|place| (&place.header, place.end));
        let Some(part) = reader.part_after(place, last, SHIPPED_SIZE)? else { return Ok(()) };
        let slot = writer.encode(&SlotPart {
            segment: &part.segment,
            offset: part.offset,
            frames: &part.frames,
            last_seq: last.seq,
            chain,
            time,
        })?;
        held.commit(session, slot)?;
    }
}

/// Ship blobs, and remove from the set those that the store has. A blob that the folder no longer has was
/// collected: no record of the folder needs it.
///
/// # Errors
/// `Corrupt` if a blob is damaged; `Io`.
pub(super) fn ship_queued_blobs(
    reader: &LogReader,
    session: &StoreSession<'_>,
    queued: &mut BTreeSet<BlobId>,
) -> Result<()> {
    let blobs = reader.blobs();
    while let Some(id) = queued.first().copied() {
        if blobs.check(&id) != BlobState::Missing {
            session.create_same(&blob_name(&id.hex()), &blobs.get(&id)?)?;
        }
        queued.remove(&id);
    }
    Ok(())
}
