//! Segment objects: segments of a folder that are complete, and first parts of the newest one, so that a machine
//! without a folder needs few requests; and snapshots, so that it folds few records.
//!
//! Invariants:
//! - Every record of a segment object is in a slot that is written, and so is the first record of the next
//!   segment: what was sealed cannot change any more. A first part ends where a slot does.
//! - A segment object begins at or before the record after the floor, so that no record up to the new floor
//!   is missing in segment objects.

use crate::error::{Error, ErrorKind, Result};
use crate::format::{SEGMENT_HEADER_SIZE, to_u64};
use crate::log::{CompleteSegment, LogReader};
use crate::store::derived::extend_index;
use crate::store::derived::{StoredSnapshots, upload_snapshot};
use crate::store::name::{ObjectName, SEGMENTS, SegmentForm, SegmentObject, TAIL, slots_from};
use crate::store::segments::segment_floor;
use crate::store::session::{StoreEnd, StoreSession};
use crate::store::slot::{SLOT_SIZE_MAX, SegmentPlace};

use super::ship::segment_of_slots;

/// A first part is uploaded when more slots than this are not covered.
pub(super) const PART_SLOTS: u64 = 256;
/// A first part is uploaded when more bytes of frames than this are not covered.
pub(super) const PART_BYTES: u64 = 4 << 20;
/// A part repeats the one before, and is at least as much longer as this share of it: so all parts of a segment
/// together are at most three times as long as the last one.
const PART_GROWTH: u64 = 2;

/// What segment objects cover, as this process knows it.
#[derive(Debug, Default)]
pub(super) struct Covered {
    /// The last record in a segment object, once it was listed.
    floor: Option<u64>,
    /// The number of slots after the floor when so many were committed, once they were listed.
    slots: Option<(u64, u64)>,
    /// The last part that was uploaded here: its segment, and where it ends.
    part: Option<SegmentPlace>,
    snapshots: StoredSnapshots,
}

/// Upload the complete segments after the floor, as far as the store has the log, and then a first part of the newest
/// one if much would not be covered, and a snapshot. Returns the number of objects. `end` is the end of the log, after `commits` slots of
/// this process.
///
/// # Errors
/// `Corrupt` if a segment is damaged, or the store has another one of its name; `Io`.
pub(super) fn upload(
    reader: &LogReader,
    session: &StoreSession<'_>,
    (end, commits): (&StoreEnd, u64),
    covered: &mut Covered,
) -> Result<u64> {
    let count = upload_complete(reader, session, end.position.next_seq - 1, covered)?;
    if count > 0 {
        covered.slots = None;
    }
    let is_part_uploaded = upload_part(reader, session, (end, commits), covered)?;
    let end_seq = end.position.next_seq - 1;
    let has_snapshot = upload_snapshot(reader, session, end_seq, &mut covered.snapshots)?;
    Ok(count + u64::from(is_part_uploaded) + u64::from(has_snapshot))
}

/// Upload the complete segments after the floor, and a snapshot. Returns the number of objects.
pub(super) fn upload_shipped(
    reader: &LogReader,
    session: &StoreSession<'_>,
    shipped_seq: u64,
    covered: &mut Covered,
) -> Result<u64> {
    let count = upload_complete(reader, session, shipped_seq, covered)?;
    let has_snapshot = upload_snapshot(reader, session, shipped_seq, &mut covered.snapshots)?;
    Ok(count + u64::from(has_snapshot))
}

/// Upload the complete segments after the floor. Returns their number.
fn upload_complete(
    reader: &LogReader,
    session: &StoreSession<'_>,
    shipped_seq: u64,
    covered: &mut Covered,
) -> Result<u64> {
    let mut count = 0;
    loop {
        let next_seq = match covered.floor {
            Some(known) => known + 1,
            None => segment_floor(&session.list(SEGMENTS, &mut 0)?) + 1,
        };
        covered.floor = Some(next_seq - 1);
        // The folder no longer has what was pruned there. Without it, no later segment could be uploaded.
        if next_seq < reader.first_seq() && !mutant!(PrunedSegmentSkipped) {
            let made = segment_of_slots(session, next_seq - 1, shipped_seq)?;
            let Some((object, bytes)) = made else { return Ok(count) };
            session.create_segment(&object, &bytes)?;
            covered.floor = Some(object.last_seq);
            count += 1;
            continue;
        }
        // The next segment begins with the record after this one.
        let complete = reader.complete_segment(next_seq)?;
        let Some(segment) = complete
            .filter(|segment| segment.last_seq < shipped_seq || mutant!(SegmentUploadedEarly))
        else {
            return Ok(count);
        };
        // With its index it may be longer than an object can be.
        let segment = match segment {
            long if long.length > to_u64(SLOT_SIZE_MAX) => {
                CompleteSegment { is_sealed: false, length: long.data_end, ..long }
            }
            segment => segment,
        };
        if segment.length > to_u64(SLOT_SIZE_MAX) {
            return Ok(count);
        }
        create(reader, session, &segment)?;
        covered.floor = Some(segment.last_seq);
        count += 1;
    }
}

/// Upload the first part of the segment in which the log ends, if that is worthwhile.
fn upload_part(
    reader: &LogReader,
    session: &StoreSession<'_>,
    (end, commits): (&StoreEnd, u64),
    covered: &mut Covered,
) -> Result<bool> {
    let (Some(place), Some(floor)) = (&end.place, covered.floor) else { return Ok(false) };
    let last_seq = end.position.next_seq - 1;
    // A segment before it is not uploaded, or too long for that.
    if place.header.base_seq > floor + 1 || last_seq <= floor {
        return Ok(false);
    }
    let (known, at) = match covered.slots {
        Some(slots) => slots,
        None => {
            let after = slots_from(floor + 1);
            let listed = session.list_after(TAIL, &after, &mut 0)?;
            *covered.slots.insert((to_u64(listed.len()), commits))
        }
    };
    let part = covered.part.as_ref().filter(|part| part.header == place.header);
    let before = part.map_or(to_u64(SEGMENT_HEADER_SIZE), |part| part.end);
    let bytes = place.end.saturating_sub(before);
    let is_much = known + (commits - at) > PART_SLOTS || bytes > PART_BYTES;
    let is_long = part.is_none() || bytes >= before / PART_GROWTH;
    if !(is_much && is_long) || place.end > to_u64(SLOT_SIZE_MAX) || mutant!(PartNotUploaded) {
        return Ok(false);
    }
    let segment = CompleteSegment {
        header: place.header.clone(),
        last_seq,
        data_end: place.end,
        is_sealed: false,
        length: place.end,
    };
    end.create_part(session, &reader.bytes_of(&segment)?)?;
    covered.floor = Some(last_seq);
    covered.slots = Some((0, commits));
    covered.part = Some(place.clone());
    Ok(true)
}

/// Create the object of a segment. Index and footer are derived data: another program may have made others.
fn create(reader: &LogReader, session: &StoreSession<'_>, segment: &CompleteSegment) -> Result<()> {
    let CompleteSegment { header, last_seq, data_end, is_sealed, .. } = segment;
    let form = if *is_sealed { SegmentForm::Sealed } else { SegmentForm::Part };
    let (base_seq, ordinal) = (header.base_seq, header.ordinal);
    let object = SegmentObject { base_seq, last_seq: *last_seq, ordinal, form };
    let bytes = reader.bytes_of(segment)?;
    let name = ObjectName::Segment(object).to_string();
    match session.create_same(&name, &bytes) {
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            let data = |bytes: &[u8]| {
                bytes.get(..usize::try_from(*data_end).unwrap_or(usize::MAX)).map(<[u8]>::to_vec)
            };
            let found = session.get(&name, &mut 0)?;
            let is_same = found.is_some_and(|found| data(&found.bytes) == data(&bytes));
            // It may have another index, and is the one that counts.
            return if is_same { Ok(()) } else { Err(other(&name, &error)) };
        }
        created => created?,
    }
    // Nothing depends on it: a reader without it needs more requests.
    let _ = extend_index(session, &object, &bytes);
    Ok(())
}

fn other(name: &str, error: &Error) -> Error {
    Error::new(ErrorKind::Corrupt, error.message()).at_path(name.as_ref())
}
