//! Verifying the bytes after the last record of the newest segment, which should be zero.

use crate::error::{Error, Result};
use crate::log::folder::DATA_START;
use crate::log::reader::LogReader;
use crate::log::segment::{SegmentBytes, valid_segment};
use crate::storage::Access;

use super::finding::{FindingClass, VerifyFinding};
use super::range::RangeResult;

/// The bytes after the last record that are not zero, if any: a write in progress or one that a
/// crash interrupted. The recovery table decides whether they may be discarded.
pub(crate) fn finding(
    reader: &LogReader,
    last: Option<&RangeResult>,
) -> Result<Option<VerifyFinding>> {
    // An archive ends where its manifest says.
    if reader.segments.end.is_some() {
        return Ok(None);
    }
    let Some(newest) = reader.segments.list.last() else { return Ok(None) };
    let (path, Some(segment)) = (&newest.1, valid_segment(newest)) else { return Ok(None) };
    let reached = last.and_then(|result| result.reached);
    let reached = reached.filter(|(ordinal, _)| *ordinal == segment.header.ordinal);
    let from = reached.map_or(DATA_START, |(_, end)| end);
    let io = |what, error| Error::io(what, path, error);
    let file =
        reader.storage.open(path, Access::Read).map_err(|error| io("open the segment", error))?;
    let survey = SegmentBytes::windowed(file)
        .survey(from, u64::MAX)
        .map_err(|error| io("read after the last record", error).at_offset(from))?;
    // Whether a record starts in it is unknown, so a writer refuses.
    if let Some(range) = survey.unreadable.into_iter().next() {
        let what = "the storage cannot read these bytes after the last record";
        return Ok(Some(VerifyFinding::new(FindingClass::Damage, path.clone(), range, what)));
    }
    let what = "nonzero bytes after the last record: a write in progress, a torn write, or damage";
    let finding = |range| VerifyFinding::new(FindingClass::Warning, path.clone(), range, what);
    Ok(survey.nonzero.map(finding))
}
