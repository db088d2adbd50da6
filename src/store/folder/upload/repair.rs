//! Creates missing objects of a store again, from the folder. Overwrites and deletes nothing.

use crate::error::{Error, ErrorKind, Result};
use crate::log::{Ack, BlobState, CompleteSegment, LogReader};
use crate::store::binding::{bind, parse_uid};
use crate::store::derived::anchor_object;
use crate::store::folder::blobs::blob_name;
use crate::store::folder::ship::segment_of_slots;
use crate::store::name::{ObjectName, SEGMENTS, SegmentForm};
use crate::store::segments::{preferred_objects, segment_floor};
use crate::store::session::{StoreEnd, StoreSession};
use crate::store::slot::{EncodedSlot, FrameWalk, SlotPart, SlotWriter, walk_frames};

use super::find::{FaultPlace, StoreFault, Whole};
use super::segments::{HeaderPlace, create, newest_header, object_of, segment_with, verified};

/// Whether an error is that of a store without a clear answer. That of a file has the reason of the operating system.
pub(super) fn is_unclear(error: &Error) -> bool {
    error.kind() == ErrorKind::Io && std::error::Error::source(error).is_none()
}

/// Create a replacement for a damaged object, or create a missing object again. The caller checks
/// the result.
///
/// # Errors
/// `Corrupt`, `Pruned` and others if the folder lacks the required bytes; `Io`.
pub(super) fn repair(whole: &Whole<'_>, fault: &StoreFault) -> Result<()> {
    let Whole { reader, session, end, .. } = *whole;
    if fault.is_uncompared() {
        return Ok(());
    }
    match &fault.place {
        FaultPlace::Gap { seq, lowest } => {
            // Objects that a prune deletes in the meantime are not created again.
            let listed = session.list(SEGMENTS, &mut 0)?;
            let now = preferred_objects(&listed).next().map(|(object, _)| object.base_seq);
            if now.is_none_or(|now| now > *lowest) {
                return Ok(());
            }
            create_with(reader, session, *seq, end).map(drop)
        }
        FaultPlace::Slot => cover(reader, session, end),
        FaultPlace::Segment(damaged) if damaged.form == SegmentForm::Part => {
            // Readers prefer a sealed one, and a longer part.
            let other = segment_with(reader, damaged.base_seq, end)?;
            match other.filter(|other| object_of(other) != *damaged) {
                Some(other) => create_own(reader, session, &other, end),
                None => Ok(()),
            }
        }
        FaultPlace::Opening(seq) if fault.is_missing() => {
            match opening_slot(reader, session, *seq)? {
                Some(slot) => session.create_same(&fault.object, slot.bytes()),
                None => Ok(()),
            }
        }
        FaultPlace::Ledger if fault.is_missing() => {
            let first = reader.record(reader.first_seq())?;
            let created = first.map_or(0, |first| first.time);
            bind(session.objects, &session.identity, created, session.retry)
        }
        FaultPlace::Blob(id) if fault.is_missing() => {
            session.create_same(&blob_name(&id.hex()), &reader.blobs().get(id)?)
        }
        FaultPlace::Anchor(anchor) if fault.is_missing() => {
            reader.check_anchor(anchor)?;
            let Some(name) = anchor.name() else { return Ok(()) };
            session.create_same(&anchor_object(&name), &reader.open_snapshot(&name)?.bytes()?)
        }
        _ => Ok(()),
    }
}

/// Whether the folder has the right bytes of an object that cannot be overwritten. The bytes are verified, because a
/// person deletes the object if the answer is yes.
pub(super) fn has_copy(whole: &Whole<'_>, fault: &StoreFault) -> bool {
    let Whole { reader, session, end, .. } = *whole;
    match &fault.place {
        FaultPlace::Segment(object) => {
            let own = segment_with(reader, object.base_seq, end).ok().flatten();
            let own = own.filter(|own| own.last_seq >= object.last_seq);
            own.is_some_and(|own| verified(reader, session, &own).is_ok())
        }
        FaultPlace::Ledger => true,
        FaultPlace::Blob(id) => reader.blobs().check(id) == BlobState::Intact,
        FaultPlace::Anchor(anchor) => reader.check_anchor(anchor).is_ok(),
        _ => false,
    }
}

/// Create segment objects up to the end of the log, so that no earlier slot is read any longer. All of these records
/// are in written slots.
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
    let create_own = |segment: Option<CompleteSegment>| {
        let Some(segment) = segment else { return Ok(None) };
        create_own(reader, session, &segment, end).map(|()| Some(segment.last_seq))
    };
    let failed = match segment_with(reader, seq, end).and_then(create_own) {
        Ok(None) => None,
        // The folder is damaged, too: maybe the slots of these records are still there.
        Err(error) if !is_unclear(&error) => Some(error),
        created => return created,
    };
    match segment_of_slots(session, seq - 1, end.position.next_seq - 1)? {
        Some((object, bytes)) => {
            session.create_segment(&object, &bytes)?;
            Ok(Some(object.last_seq))
        }
        None => failed.map_or(Ok(None), Err),
    }
}

/// Create the object of a segment of the folder. If it is the last one, it must end as the log does.
fn create_own(
    reader: &LogReader,
    session: &StoreSession<'_>,
    segment: &CompleteSegment,
    end: &StoreEnd,
) -> Result<()> {
    if segment.last_seq.saturating_add(1) < end.position.next_seq {
        return create(reader, session, segment);
    }
    let bytes = verified(reader, session, segment)?.into_bytes();
    end.create_part(session, &bytes).map(drop)
}

/// The opening slot with a record, as its process made it: everything in it follows from the record and its segment.
fn opening_slot(
    reader: &LogReader,
    session: &StoreSession<'_>,
    seq: u64,
) -> Result<Option<EncodedSlot>> {
    let Some(found) = newest_header(reader, |header| header.base_seq == seq) else {
        return Ok(None);
    };
    let HeaderPlace { before, header, .. } = &found;
    let before = before.as_ref().map(|before| (before, header.prev_data_end));
    let last = Ack { seq: header.prev_last_seq, chain: header.prev_chain };
    let Some(part) = reader.part_after(before, last, 1)? else { return Ok(None) };
    let (next_seq, chain) = (last.seq.saturating_add(1), last.chain);
    let walk = FrameWalk::at(next_seq, chain, part.offset);
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
