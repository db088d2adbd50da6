//! Segment objects: the segments of a folder that are complete, so that a restore needs few requests.
//!
//! Invariants:
//! - Every record of a segment object is in a slot that is written, and so is the first record of the next
//!   segment: what was sealed cannot change any more.
//! - A segment object begins at or before the record after the floor, so that no record up to the new floor
//!   is missing in segment objects.

use crate::error::{Error, ErrorKind, Result};
use crate::format::to_u64;
use crate::log::{CompleteSegment, LogReader};
use crate::store::index::extend_index;
use crate::store::name::{ObjectName, SEGMENTS, SegmentForm, SegmentObject};
use crate::store::segments::segment_floor;
use crate::store::session::StoreSession;
use crate::store::slot::SLOT_SIZE_MAX;

/// Upload the complete segments after the floor, as far as the store has the log. Returns their number. `floor` is
/// what is known of the floor: it is listed once.
///
/// # Errors
/// `Corrupt` if a segment is damaged, or the store has another one of its name; `Io`.
pub(super) fn upload_complete(
    reader: &LogReader,
    session: &StoreSession<'_>,
    shipped_seq: u64,
    floor: &mut Option<u64>,
) -> Result<u64> {
    let mut count = 0;
    loop {
        let next_seq = match *floor {
            Some(known) => known + 1,
            None => segment_floor(&session.list(SEGMENTS, &mut 0)?) + 1,
        };
        *floor = Some(next_seq - 1);
        // The next segment begins with the record after this one.
        let complete = reader.complete_segment(next_seq)?;
        let Some(segment) = complete
            .filter(|segment| segment.last_seq < shipped_seq || mutant!(SegmentUploadedEarly))
        else {
            return Ok(count);
        };
        if segment.length > to_u64(SLOT_SIZE_MAX) {
            return Ok(count);
        }
        create(reader, session, &segment)?;
        *floor = Some(segment.last_seq);
        count += 1;
    }
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
