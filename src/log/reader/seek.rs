//! Moving a cursor close to a record, by the index of a sealed segment or by an earlier scan.

use std::sync::Arc;

use crate::error::Result;
use crate::format::SEEK_STEP;
use crate::log::record::RecordStatus;
use crate::log::segment::{
    CursorStep, FramePosition, ResumeKey, ResumePoint, ResumePointOrigin, SealState, SegmentCursor,
};

use super::log_reader::LogReader;
use super::open_segment::OpenSegment;

/// Move a cursor that is at the start of a segment closer to record `from`, if the segment has an
/// index or its resume points are cached.
pub(crate) fn seek(
    reader: &LogReader,
    segment: &OpenSegment<'_>,
    cursor: &mut SegmentCursor,
    from: u64,
) -> Result<()> {
    if from <= segment.segment.header.base_seq {
        return Ok(());
    }
    let Some(points) = known_points(reader, segment)? else { return Ok(()) };
    let after = points.partition_point(|point| point.at.next_seq <= from);
    if let Some(point) = after.checked_sub(1).and_then(|last| points.get(last)) {
        cursor.resume(point)?;
    }
    Ok(())
}

/// The resume points of a segment, at least up to record `from`. Without an index the part that no
/// earlier call has covered is scanned.
pub(crate) fn resume_points(
    reader: &LogReader,
    segment: &OpenSegment<'_>,
    from: u64,
) -> Result<Arc<[ResumePoint]>> {
    let reaches =
        |last: &ResumePoint| last.origin == ResumePointOrigin::Index || last.at.next_seq > from;
    match known_points(reader, segment)? {
        Some(points) if points.last().is_some_and(reaches) => Ok(points),
        known => {
            let known = known.as_deref().unwrap_or_default();
            Ok(reader.resume_cache.insert(key(segment), scan_points(segment, known)?))
        }
    }
}

fn key(segment: &OpenSegment<'_>) -> ResumeKey {
    mutant!(OffsetCacheShared => return (0, [0; 16], false));
    let header = &segment.segment.header;
    (header.ordinal, header.segment, matches!(segment.seal, SealState::Sealed(_)))
}

fn known_points(
    reader: &LogReader,
    segment: &OpenSegment<'_>,
) -> Result<Option<Arc<[ResumePoint]>>> {
    match reader.resume_cache.get(&key(segment)) {
        Some(points) => Ok(Some(points)),
        None => indexed_points(reader, segment),
    }
}

fn indexed_points(
    reader: &LogReader,
    segment: &OpenSegment<'_>,
) -> Result<Option<Arc<[ResumePoint]>>> {
    let Some(seeks) = segment.seeks()? else { return Ok(None) };
    let points = seeks.iter().map(|seek| {
        let at = FramePosition { offset: seek.offset, next_seq: seek.seq, chain: None };
        ResumePoint {
            at,
            durable_at: at,
            status: RecordStatus::Durable,
            origin: ResumePointOrigin::Index,
        }
    });
    Ok(Some(reader.resume_cache.insert(key(segment), points.collect())))
}

/// The known points, those after them, and the end of the segment as far as it is written.
fn scan_points(segment: &OpenSegment<'_>, known: &[ResumePoint]) -> Result<Vec<ResumePoint>> {
    let mut cursor = segment.cursor()?;
    let (mut points, mut last) = (known.to_vec(), cursor.resume_point());
    // The last known point was the end of the segment at that time: it stays only if it is far from
    // the one before.
    match points.pop() {
        Some(end) if cursor.resume(&end)? => last = end,
        Some(_) => points.clear(),
        None => {}
    }
    while let Some(event) = cursor.advance()? {
        if matches!(event, CursorStep::Record(_)) {
            let is_far = |before: &ResumePoint| last.at.offset - before.at.offset >= SEEK_STEP;
            points.extend(points.last().is_none_or(is_far).then_some(last));
            last = cursor.resume_point();
        }
    }
    points.push(last);
    Ok(points)
}
