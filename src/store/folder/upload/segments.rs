//! Segment objects: complete segments of a folder, and first parts of the newest one, so that a
//! machine without a folder needs few requests; and snapshots, so that it folds few records.
//!
//! Invariants:
//! - Every record of a segment object is in a written slot, and so is the first record of the next segment, so that a
//!   sealed segment cannot change. A first part ends at the end of a slot.
//! - A segment object begins at or before the record after the floor, so that no record up to the new floor
//!   is missing in segment objects.
//! - The frames of a segment are verified before its object is created, because a created object cannot be replaced.

use crate::error::{Error, ErrorKind, Result};
use crate::format::{SEGMENT_HEADER_SIZE, SegmentHeader, to_u64};
use crate::log::{CompleteSegment, LogReader};
use crate::store::derived::{
    StoredSnapshots, anchor_object, extend_index, has_valid_index, upload_snapshot,
};
use crate::store::name::{ObjectName, SEGMENTS, SegmentForm, SegmentObject, TAIL, slots_from};
use crate::store::segments::{Before, VerifiedSegment, preferred_objects, segment_floor};
use crate::store::session::{StoreEnd, StoreSession};
use crate::store::slot::{SLOT_SIZE_MAX, SegmentPlace};

use crate::store::folder::ship::segment_of_slots;

/// A first part is uploaded when more slots than this are not covered.
const PART_SLOTS: u64 = 256;
/// A first part is uploaded when more bytes of frames than this are not covered.
const PART_BYTES: u64 = 4 << 20;
/// A part repeats the one before, and is at least as much longer as this share of it: so all parts of a segment
/// together are at most three times as long as the last one.
const PART_GROWTH: u64 = 2;

/// The part of the log that segment objects cover, as this process knows it.
#[derive(Debug, Default)]
pub(in crate::store) struct Covered {
    /// The last record in a segment object, once it was listed.
    floor: Option<u64>,
    /// The number of slots after the floor, and the number of commits of this process when they were counted.
    slots: Option<(u64, u64)>,
    /// The last part that was uploaded here: its segment, and where it ends.
    part: Option<SegmentPlace>,
    snapshots: StoredSnapshots,
    /// The retention note with its anchors in the store, if it needs them.
    anchored: Option<u64>,
}

/// Upload the complete segments after the floor, as far as the store has the log, and then a first part of the newest
/// one if much would not be covered, and a snapshot. Returns the number of objects. `end` is the end of the log, after `commits` slots of
/// this process.
///
/// # Errors
/// `Corrupt` if a segment is damaged, or the store has another one of its name; `Io`.
pub(in crate::store) fn upload(
    reader: &LogReader,
    session: &StoreSession<'_>,
    (end, commits): (&StoreEnd, u64),
    covered: &mut Covered,
) -> Result<u64> {
    let end_seq = end.position.next_seq - 1;
    // Without these a restore fails. Without everything else it takes longer.
    let anchors = upload_anchors(reader, session, end_seq, &mut covered.anchored)?;
    let count = upload_complete(reader, session, end_seq, covered)?;
    if count > 0 {
        covered.slots = None;
    }
    let is_part_uploaded = upload_part(reader, session, (end, commits), covered)?;
    let has_snapshot = upload_snapshot(reader, session, end_seq, &mut covered.snapshots)?;
    Ok(anchors + count + u64::from(is_part_uploaded) + u64::from(has_snapshot))
}

/// Upload the complete segments after the floor, and a snapshot. Returns the number of objects.
pub(in crate::store) fn upload_shipped(
    reader: &LogReader,
    session: &StoreSession<'_>,
    shipped_seq: u64,
    covered: &mut Covered,
) -> Result<u64> {
    let anchors = upload_anchors(reader, session, shipped_seq, &mut covered.anchored)?;
    let count = upload_complete(reader, session, shipped_seq, covered)?;
    let has_snapshot = upload_snapshot(reader, session, shipped_seq, &mut covered.snapshots)?;
    Ok(anchors + count + u64::from(has_snapshot))
}

/// Upload the anchors of the newest retention note, if the log in the store begins later than record 1: a restore needs
/// them. Returns their number. If the folder does not have one, the next call looks again.
fn upload_anchors(
    reader: &LogReader,
    session: &StoreSession<'_>,
    end_seq: u64,
    anchored: &mut Option<u64>,
) -> Result<u64> {
    let Some(logged) = reader.retention().filter(|logged| logged.seq <= end_seq) else {
        return Ok(0);
    };
    if *anchored == Some(logged.seq) || mutant!(AnchorsOfLaterNoteLate) {
        return Ok(0);
    }
    let segments = session.list(SEGMENTS, &mut 0)?;
    let is_pruned =
        preferred_objects(&segments).next().is_some_and(|(object, _)| object.base_seq > 1);
    let (mut count, mut has_all) = (0, true);
    for anchor in logged.note.anchors.iter().filter(|_| is_pruned) {
        // The folder of a standby may lack it. A check reports it if the store lacks it.
        let (Some(name), Ok(())) = (anchor.name(), reader.check_anchor(anchor)) else {
            has_all = false;
            continue;
        };
        match session.create_same(&anchor_object(&name), &reader.open_snapshot(&name)?.bytes()?) {
            // Another program may have packed the same state in another way.
            Err(error) if error.kind() == ErrorKind::Corrupt => {}
            created => created?,
        }
        count += 1;
    }
    *anchored = has_all.then_some(logged.seq);
    Ok(count)
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
        // The folder no longer has the pruned segment. Without it, no later segment could be uploaded.
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
        let segment = object_sized(segment);
        if segment.length > to_u64(SLOT_SIZE_MAX) {
            return Ok(count);
        }
        create(reader, session, &segment)?;
        covered.floor = Some(segment.last_seq);
        count += 1;
    }
}

/// Upload the first part of the last segment, if that is worthwhile.
fn upload_part(
    reader: &LogReader,
    session: &StoreSession<'_>,
    (end, commits): (&StoreEnd, u64),
    covered: &mut Covered,
) -> Result<bool> {
    let (Some(place), Some(floor)) = (&end.place, covered.floor) else { return Ok(false) };
    let last_seq = end.position.next_seq - 1;
    // An earlier segment is not uploaded, or is too long for that.
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

/// The same, as an object can have it: with its index a segment may be longer.
fn object_sized(segment: CompleteSegment) -> CompleteSegment {
    match segment {
        long if long.length > to_u64(SLOT_SIZE_MAX) => {
            CompleteSegment { is_sealed: false, length: long.data_end, ..long }
        }
        segment => segment,
    }
}

/// The segment of a folder that has a record, up to the end of the log; `None` if the folder does not have it, or it is
/// too long for an object.
pub(super) fn segment_with(
    reader: &LogReader,
    seq: u64,
    end: &StoreEnd,
) -> Result<Option<CompleteSegment>> {
    let end_seq = end.position.next_seq - 1;
    if seq < reader.first_seq() || seq > end_seq {
        return Ok(None);
    }
    let segment = match reader.complete_segment(seq)?.filter(|it| it.last_seq < end_seq) {
        Some(complete) => Some(object_sized(complete)),
        None => open_segment_with(reader, seq, end),
    };
    Ok(segment.filter(|it| it.last_seq >= seq && it.length <= to_u64(SLOT_SIZE_MAX)))
}

/// The same of a segment that is not sealed yet.
fn open_segment_with(reader: &LogReader, seq: u64, end: &StoreEnd) -> Option<CompleteSegment> {
    let HeaderPlace { header, after, .. } = newest_header(reader, |header| header.base_seq <= seq)?;
    let place = end.place.as_ref()?;
    let (last_seq, data_end) = match after {
        Some(next) if place.header != header => (next.prev_last_seq, next.prev_data_end),
        _ if place.header == header => (end.position.next_seq - 1, place.end),
        _ => return None,
    };
    let (is_sealed, length) = (false, data_end);
    Some(CompleteSegment { header, last_seq, data_end, is_sealed, length })
}

/// The valid headers of a folder, in order.
pub(super) fn valid_headers(reader: &LogReader) -> impl Iterator<Item = SegmentHeader> {
    reader.segments().into_iter().filter_map(|segment| segment.header.ok())
}

/// A header, and those before and after it.
pub(super) struct HeaderPlace {
    pub(super) before: Option<SegmentHeader>,
    pub(super) header: SegmentHeader,
    pub(super) after: Option<SegmentHeader>,
}

/// The newest valid header that fits.
pub(super) fn newest_header(
    reader: &LogReader,
    fits: impl Fn(&SegmentHeader) -> bool,
) -> Option<HeaderPlace> {
    let headers: Vec<_> = valid_headers(reader).collect();
    let at = headers.iter().rposition(fits)?;
    let header = |at: Option<usize>| headers.get(at?).cloned();
    let (before, after) = (header(at.checked_sub(1)), header(at.checked_add(1)));
    Some(HeaderPlace { before, header: header(Some(at))?, after })
}

/// The name of the object of a segment.
pub(super) fn object_of(segment: &CompleteSegment) -> SegmentObject {
    let form = if segment.is_sealed { SegmentForm::Sealed } else { SegmentForm::Part };
    let (base_seq, ordinal) = (segment.header.base_seq, segment.header.ordinal);
    SegmentObject { base_seq, last_seq: segment.last_seq, ordinal, form }
}

/// A segment of the folder, after a check of all frames.
pub(super) fn verified(
    reader: &LogReader,
    session: &StoreSession<'_>,
    segment: &CompleteSegment,
) -> Result<VerifiedSegment> {
    let bytes = reader.bytes_of(segment)?;
    let (next_seq, chain) = (segment.header.base_seq, segment.header.prev_chain);
    let before = Before { next_seq, chain, time: 0, place: None };
    let verified = VerifiedSegment::verify(object_of(segment), bytes, &session.identity, &before);
    let (verified, _) = verified.map_err(|fault| {
        let message = format!("a segment of the folder is damaged: {fault}");
        let file = reader.dir().join("log").join(segment.header.name().to_string());
        Error::new(ErrorKind::Corrupt, message).at_path(&file).at_seq(next_seq)
    })?;
    Ok(verified)
}

/// Create the object of a segment. Index and footer are derived data: another program may have made others, and without
/// valid ones the object is a first part with all records.
pub(super) fn create(
    reader: &LogReader,
    session: &StoreSession<'_>,
    segment: &CompleteSegment,
) -> Result<()> {
    let object = object_of(segment);
    let verified = verified(reader, session, segment)?;
    if !has_valid_index(&verified) {
        let (is_sealed, length) = (false, segment.data_end);
        return create(reader, session, &CompleteSegment { is_sealed, length, ..segment.clone() });
    }
    let bytes = verified.into_bytes();
    let name = ObjectName::Segment(object).to_string();
    match session.create_same(&name, &bytes) {
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            let data_end = usize::try_from(segment.data_end).unwrap_or(usize::MAX);
            let data = |bytes: &[u8]| bytes.get(..data_end).map(<[u8]>::to_vec);
            let found = session.get(&name, &mut 0)?;
            let is_same = found.is_some_and(|found| data(&found.bytes) == data(&bytes));
            // It may have another index, and is the one that counts.
            return if is_same { Ok(()) } else { Err(other(&name, &error)) };
        }
        created => created?,
    }
    // A failure does no harm: a reader without the index needs more requests.
    let _ = extend_index(session, &object, &bytes);
    Ok(())
}

fn other(name: &str, error: &Error) -> Error {
    Error::new(ErrorKind::Corrupt, error.message()).at_path(name.as_ref())
}
