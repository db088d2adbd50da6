//! Creating again what a store lost, from the folder. Nothing is overwritten, and nothing is deleted.

use crate::error::{Error, ErrorKind, Result};
use crate::log::{Ack, BlobState, LogReader};
use crate::store::binding::parse_uid;
use crate::store::derived::anchor_object;
use crate::store::folder::blobs::blob_name;
use crate::store::folder::ship::segment_of_slots;
use crate::store::name::{ObjectName, SEGMENTS, SegmentForm};
use crate::store::segments::segment_floor;
use crate::store::session::{StoreEnd, StoreSession};
use crate::store::slot::{EncodedSlot, FrameWalk, SlotPart, SlotWriter, walk_frames};

use super::find::{FaultPlace, StoreFault};
use super::segments::{create, object_of, segment_with, verified_bytes};

/// Create what makes an object unnecessary that is damaged, or create it again if it is missing. Whether that was enough
/// is for the caller to find out.
///
/// # Errors
/// `Corrupt`, `Pruned` and others if the folder does not have what is needed; `Io`.
pub(super) fn repair(
    reader: &LogReader,
    session: &StoreSession<'_>,
    fault: &StoreFault,
    end: &StoreEnd,
) -> Result<()> {
    match &fault.place {
        FaultPlace::Gap(seq) => create_with(reader, session, *seq, end).map(drop),
        FaultPlace::Slot => cover(reader, session, end),
        FaultPlace::Segment(damaged) if damaged.form == SegmentForm::Part => {
            // Readers prefer a sealed one, and a longer part.
            let other = segment_with(reader, damaged.base_seq, end)?;
            match other.filter(|other| object_of(other) != *damaged) {
                Some(other) => create(reader, session, &other),
                None => Ok(()),
            }
        }
        FaultPlace::Opening(seq) => match opening_slot(reader, session, *seq)? {
            Some(slot) => session.create_same(&fault.object, slot.bytes()),
            None => Ok(()),
        },
        FaultPlace::Blob(id) if fault.is_missing() => {
            session.create_same(&blob_name(&id.hex()), &reader.blobs().get(id)?)
        }
        FaultPlace::Anchor(anchor) if fault.is_missing() => {
            reader.check_anchor(anchor)?;
            let Some(name) = anchor.name() else { return Ok(()) };
            session.create_same(&anchor_object(&name), &reader.open_snapshot(&name)?.bytes()?)
        }
        FaultPlace::Segment(_) | FaultPlace::Blob(_) | FaultPlace::Anchor(_) => Ok(()),
    }
}

/// Whether the folder has what an object that cannot be overwritten should have. It is verified: a person deletes the object
/// because of this answer.
pub(super) fn has_copy(
    reader: &LogReader,
    session: &StoreSession<'_>,
    fault: &StoreFault,
    end: &StoreEnd,
) -> bool {
    match &fault.place {
        FaultPlace::Segment(object) => {
            let own = segment_with(reader, object.base_seq, end).ok().flatten();
            let own = own.filter(|own| own.last_seq >= object.last_seq);
            own.is_some_and(|own| verified_bytes(reader, session, &own).is_ok())
        }
        FaultPlace::Blob(id) => {
            let blobs = reader.blobs().list().map(|list| list.blobs).unwrap_or_default();
            let mut own = blobs.iter().filter(|blob| blob.id.hash == id.hash);
            own.any(|blob| reader.blobs().check(&blob.id) == BlobState::Intact)
        }
        FaultPlace::Anchor(anchor) => reader.check_anchor(anchor).is_ok(),
        FaultPlace::Gap(_) | FaultPlace::Slot | FaultPlace::Opening(_) => false,
    }
}

/// Create segment objects up to the end of the log, so that no slot before it is read any more. All of these records are in slots
/// that were written.
///
/// # Errors
/// `Corrupt` if the folder is damaged, or an object has one of the names; `Io`.
pub(in crate::store) fn cover(
    reader: &LogReader,
    session: &StoreSession<'_>,
    end: &StoreEnd,
) -> Result<()> {
    let mut next = segment_floor(&session.list(SEGMENTS, &mut 0)?).saturating_add(1);
    while next < end.position.next_seq {
        match create_with(reader, session, next, end)? {
            Some(last) => next = last.saturating_add(1),
            None => return Ok(()),
        }
    }
    Ok(())
}

/// Create the object of the segment with a record, and return its last record.
fn create_with(
    reader: &LogReader,
    session: &StoreSession<'_>,
    seq: u64,
    end: &StoreEnd,
) -> Result<Option<u64>> {
    if let Some(segment) = segment_with(reader, seq, end)? {
        match create(reader, session, &segment) {
            // The folder is damaged, too: maybe the slots of these records are still there.
            Err(error) if error.kind() == ErrorKind::Corrupt => {}
            created => return created.map(|()| Some(segment.last_seq)),
        }
    }
    let made = segment_of_slots(session, seq - 1, end.position.next_seq - 1)?;
    let Some((object, bytes)) = made else { return Ok(None) };
    session.create_segment(&object, &bytes)?;
    Ok(Some(object.last_seq))
}

/// The opening slot with a record, as its process made it: everything in it follows from the record and its segment.
fn opening_slot(
    reader: &LogReader,
    session: &StoreSession<'_>,
    seq: u64,
) -> Result<Option<EncodedSlot>> {
    let headers: Vec<_> =
        reader.segments().into_iter().filter_map(|segment| segment.header.ok()).collect();
    let Some(at) = headers.iter().rposition(|header| header.base_seq == seq) else {
        return Ok(None);
    };
    let Some(header) = headers.get(at) else { return Ok(None) };
    let before = at.checked_sub(1).and_then(|at| headers.get(at));
    let before = before.map(|before| (before, header.prev_data_end));
    let last = Ack { seq: header.prev_last_seq, chain: header.prev_chain };
    let Some(part) = reader.part_after(before, last, 1)? else { return Ok(None) };
    let (next_seq, chain) = (last.seq.saturating_add(1), last.chain);
    let walk = FrameWalk { next_seq, chain, time: 0, offset: part.offset, note: None };
    let walked = walk_frames(&part.frames, &part.segment, walk, part.last.seq, &mut |_| ());
    let walked = walked.map_err(|fault| {
        let name = ObjectName::Slot(seq).to_string();
        Error::new(ErrorKind::Corrupt, fault.to_string()).at_path(name.as_ref()).at_seq(seq)
    })?;
    let note = walked.note.map(|(_, note)| note);
    let Some((note, node)) =
        note.and_then(|note| Some((parse_uid(&note.node)?, note))).map(|(node, note)| (note, node))
    else {
        return Ok(None);
    };
    let writer = SlotWriter { identity: session.identity, node, epoch: note.epoch };
    let slot = writer.encode(&SlotPart {
        segment: &part.segment,
        offset: part.offset,
        frames: &part.frames,
        last_seq: last.seq,
        chain: last.chain,
        time: 0,
    })?;
    Ok(Some(slot))
}
