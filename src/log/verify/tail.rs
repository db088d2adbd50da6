//! What stands behind the last record of the newest segment: zeros, or something to be told of.

use crate::error::{Error, Result};
use crate::log::layout::DATA_START;
use crate::log::reader::LogReader;
use crate::log::segments::good;
use crate::storage::Access;

use super::finding::{Class, Finding};
use super::stretch::Walked;

/// The bytes behind the last record that are not zero, if there are any. They are a write that
/// goes on, or one that a crash cut short; the recovery table says which may be written over.
pub(super) fn finding(reader: &LogReader, last: Option<&Walked>) -> Result<Option<Finding>> {
    const STEP: usize = 256 * 1024;
    // An archive ends where its manifest says.
    if reader.segments.ending.is_some() {
        return Ok(None);
    }
    let Some(newest) = reader.segments.list.last() else { return Ok(None) };
    let (path, Some(segment)) = (&newest.1, good(newest)) else { return Ok(None) };
    let reached = last.and_then(|walked| walked.reached);
    let reached = reached.filter(|(ordinal, _)| *ordinal == segment.header.ordinal);
    let from = reached.map_or(DATA_START, |(_, end)| end);
    let io = |what, error| Error::io(what, path, error);
    let file =
        reader.storage.open(path, Access::Read).map_err(|error| io("open the segment", error))?;
    let (mut offset, mut range) = (from, None);
    let mut window = vec![0; STEP];
    loop {
        let count = file
            .read_at(&mut window, offset)
            .map_err(|error| io("read behind the last record", error).at_offset(offset))?;
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
    Ok(range.map(|(offset, end)| Finding {
        class: Class::Warning,
        path: path.clone(),
        offset,
        end,
        missing: None,
        what: "bytes behind the last record that are not zero: a write that goes on, or that was \
               cut short, or damage"
            .to_owned(),
    }))
}

/// Where the first byte is that is not zero, and the place behind the last one.
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
