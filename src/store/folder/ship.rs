//! Shipping: makes slots of the durable records of a folder, for a process that does not wait for the store before it
//! acknowledges. Also makes segments from slots if the folder no longer has them.
//!
//! Invariants:
//! - Only records that HEAD covers are shipped, so that the store never has a record that the folder can still reject.
//! - The blobs that records may reference are in the store before their slot.
//! - An unclear outcome of a slot is resolved before the next slot is made.

use std::collections::BTreeSet;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{SegmentHeader, to_u64};
use crate::log::{Ack, BlobId, BlobState, LogReader};
use crate::store::name::{ObjectName, SEGMENTS, SegmentForm, SegmentObject};
use crate::store::protocol::StorePosition;
use crate::store::segments::{Before, VerifiedSegment, segment_object};
use crate::store::session::{HeldStore, StoreSession};
use crate::store::slot::{
    CheckedSlot, SLOT_HEADER_SIZE, SLOT_SIZE_MAX, SlotBytes, SlotHeader, SlotPart, SlotWriter,
};

use super::blobs::blob_name;

/// The largest slot that is made of several commits, in bytes of frames.
pub(super) const SHIPPED_SIZE: u64 = 4 << 20;

/// Ship all records that a reader shows to be durable, in the epoch in which the log ends. A writer note that the store
/// lacks becomes an opening slot again, so the slots after it are in its epoch.
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
        let StorePosition { next_seq, chain, epoch, .. } = end.position;
        let (last, time) = (Ack { seq: next_seq - 1, chain }, end.time);
        let place = end.place.as_ref().map(|place| (&place.header, place.end));
        let Some(part) = reader.part_after(place, last, SHIPPED_SIZE)? else { return Ok(()) };
        let slot = SlotWriter { epoch, ..*writer }.encode_copied(&SlotPart {
            segment: &part.segment,
            offset: part.offset,
            frames: &part.frames,
            last_seq: last.seq,
            chain,
            time,
        })?;
        held.commit_copied(session, slot)?;
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

/// The segment with the record after the floor, made from its slots because the folder no longer has the segment. It
/// may begin with an uploaded first part. `None` if it is not complete up to the last record in the store.
///
/// # Errors
/// `Corrupt` with the name of a damaged object; `Io`.
pub(super) fn segment_of_slots(
    session: &StoreSession<'_>,
    floor: u64,
    shipped_seq: u64,
) -> Result<Option<(SegmentObject, Vec<u8>)>> {
    let (mut next_seq, mut bytes) = (floor.saturating_add(1), Vec::new());
    let mut segment = None;
    while next_seq <= shipped_seq {
        let Some(slot) = slot_at(session, next_seq)? else { return Ok(None) };
        let SlotHeader { segment: uid, offset, last_seq, .. } = *slot.header();
        match segment {
            None => {
                if !slot.header().starts_segment() {
                    bytes = part_up_to(session, floor)?;
                }
                segment = Some(uid);
            }
            Some(known) if known != uid => return verified(session, next_seq - 1, bytes).map(Some),
            Some(_) => {}
        }
        let body = slot.bytes().get(SLOT_HEADER_SIZE..).unwrap_or_default();
        let start = if slot.header().starts_segment() { 0 } else { offset };
        if start != to_u64(bytes.len()) {
            let message = "the slot does not continue the segment before it";
            return Err(damaged_slot(next_seq, message));
        }
        bytes.extend_from_slice(body);
        if bytes.len() > SLOT_SIZE_MAX {
            return Ok(None);
        }
        next_seq = last_seq.saturating_add(1);
    }
    Ok(None)
}

fn damaged_slot(first_seq: u64, message: &str) -> Error {
    let name = ObjectName::Slot(first_seq).to_string();
    Error::new(ErrorKind::Corrupt, message).at_path(name.as_ref()).at_seq(first_seq)
}

fn slot_at(session: &StoreSession<'_>, first_seq: u64) -> Result<Option<CheckedSlot>> {
    let name = ObjectName::Slot(first_seq).to_string();
    let Some(found) = session.get(&name, &mut 0)? else { return Ok(None) };
    let checked = SlotBytes(found.bytes).check(first_seq, &session.identity);
    checked.map(Some).map_err(|fault| damaged_slot(first_seq, &fault.to_string()))
}

/// The first part of a segment that ends with a record; empty if no object has it.
fn part_up_to(session: &StoreSession<'_>, last_seq: u64) -> Result<Vec<u8>> {
    let listing = session.list(SEGMENTS, &mut 0)?;
    let mut objects = listing.iter().filter_map(segment_object);
    let part = objects.find(|part| (part.form, part.last_seq) == (SegmentForm::Part, last_seq));
    let Some(part) = part else { return Ok(Vec::new()) };
    let found = session.get(&ObjectName::Segment(part).to_string(), &mut 0)?;
    Ok(found.map(|found| found.bytes).unwrap_or_default())
}

/// The object of a segment with these bytes, after a check of all frames.
fn verified(
    session: &StoreSession<'_>,
    last_seq: u64,
    bytes: Vec<u8>,
) -> Result<(SegmentObject, Vec<u8>)> {
    let damaged = |fault: &dyn std::fmt::Display| {
        let message = format!("the slots of the segment up to this record do not fit: {fault}");
        Error::new(ErrorKind::Corrupt, message).at_seq(last_seq)
    };
    let header = SegmentHeader::decode(&bytes).map_err(|fault| damaged(&fault))?;
    let SegmentHeader { base_seq, ordinal, prev_chain, .. } = header;
    let object = SegmentObject { base_seq, last_seq, ordinal, form: SegmentForm::Part };
    let before = Before { next_seq: base_seq, chain: prev_chain, time: 0, place: None };
    let checked = VerifiedSegment::verify(object, bytes, &session.identity, &before);
    let (segment, _) = checked.map_err(|fault| damaged(&fault))?;
    Ok((object, segment.bytes().to_vec()))
}
