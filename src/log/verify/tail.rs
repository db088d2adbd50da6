//! Verifying the bytes after the last record of the newest segment, which should be zero.

use crate::error::{Error, Result};
use crate::log::folder::DATA_START;
use crate::log::reader::LogReader;
use crate::log::segment::valid_segment;
use crate::storage::{Access, read_sectors};

use super::finding::{FindingClass, VerifyFinding};
use super::range::RangeResult;

/// The bytes after the last record that are not zero, if any: a write in progress or one that a
/// crash interrupted. The recovery table decides whether they may be discarded.
pub(crate) fn finding(
    reader: &LogReader,
    last: Option<&RangeResult>,
) -> Result<Option<VerifyFinding>> {
    const STEP: usize = 256 * 1024;
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
    let (mut offset, mut range) = (from, None);
    let mut unreadable: Option<std::ops::Range<u64>> = None;
    let mut window = vec![0; STEP];
    loop {
        let read = read_sectors(&*file, &mut window, offset)
            .map_err(|error| io("read after the last record", error).at_offset(offset))?;
        let count = read.count;
        unreadable = unreadable.or(read.unreadable.into_iter().next());
        let bytes = window.get(..count).unwrap_or_default();
        if bytes.is_empty() {
            break;
        }
        if let Some((first, end)) = nonzero(bytes) {
            let start = range.map_or(offset.saturating_add(first), |(start, _)| start);
            range = Some((start, offset.saturating_add(end)));
        }
        offset = offset.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
    }
    // Whether a record starts in it is unknown, so a writer refuses.
    if let Some(range) = unreadable {
        let what = "the storage cannot read these bytes after the last record";
        return Ok(Some(VerifyFinding::new(FindingClass::Damage, path.clone(), range, what)));
    }
    let what = "nonzero bytes after the last record: a write in progress, a torn write, or damage";
    let finding = |range| VerifyFinding::new(FindingClass::Warning, path.clone(), range, what);
    Ok(range.map(|(offset, end)| finding(offset..end)))
}

/// Index of the first byte that is not zero, and the index after the last one.
fn nonzero(bytes: &[u8]) -> Option<(u64, u64)> {
    const ZEROS: [u8; 4096] = [0; 4096];
    let mut found: Option<(usize, usize)> = None;
    for (number, page) in bytes.chunks(ZEROS.len()).enumerate() {
        if ZEROS.starts_with(page) {
            continue;
        }
        let base = number * ZEROS.len();
        let first = page.iter().position(|byte| *byte != 0).unwrap_or(0);
        let last = page.iter().rposition(|byte| *byte != 0).unwrap_or(0);
        let start = found.map_or(base + first, |(start, _)| start);
        found = Some((start, base + last + 1));
    }
    let (start, end) = found?;
    Some((u64::try_from(start).ok()?, u64::try_from(end).ok()?))
}
