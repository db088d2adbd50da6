//! Splitting ranges into pieces, so that several threads can share one segment.
//!
//! A piece begins at a record that the index of a sealed segment names, and ends where the next
//! piece begins.
//!
//! Invariants:
//! - Joined pieces give the same result as one walk over the range. An index is not trusted: if a
//!   piece does not continue the one before, or follows a finding, the whole range is walked again.
//! - A piece ends exactly where the next one begins, so every byte between them is checked.

use crate::log::reader::{LogReader, SegmentSequence, SequenceItem};

use super::options::VerifyContext;
use super::range::{RangeResult, VerifyRange, run, total_length};

/// Number of pieces for each thread in a large log, so that all threads end at nearly the same
/// time.
const PIECES_PER_JOB: u64 = 16;

/// Minimum length of a piece in bytes: starting one takes as long as about fifty records.
const PIECE_MIN: u64 = 256 * 1024;

/// Walk over ranges, each with as many threads as are free. `None` for those that were not reached.
pub(crate) fn walk(shared: &VerifyContext<'_>, ranges: &[VerifyRange]) -> Vec<Option<RangeResult>> {
    let jobs = u64::try_from(shared.options.jobs.get()).unwrap_or(u64::MAX);
    if jobs == 1 {
        return run(shared, ranges);
    }
    let length = (shared.progress.total() / jobs.saturating_mul(PIECES_PER_JOB)).max(PIECE_MIN);
    let split = |range| split(shared.reader, range, length);
    let pieces: Vec<Vec<VerifyRange>> = ranges.iter().map(split).collect();
    let mut results = run(shared, &pieces.concat()).into_iter();
    let mut unjoined = Vec::new();
    let mut joined: Vec<Option<RangeResult>> = Vec::new();
    for (place, pieces) in pieces.iter().enumerate() {
        let (all, continuity) = join(results.by_ref().take(pieces.len()));
        if continuity == Continuity::Broken && !shared.progress.is_stopped() {
            shared.progress.rewind(total_length(pieces));
            unjoined.extend(ranges.get(place).map(|range| (place, range.clone())));
        }
        joined.push(all);
    }
    let (index_points, unjoined): (Vec<usize>, Vec<VerifyRange>) = unjoined.into_iter().unzip();
    let rewalked = run(shared, &unjoined);
    // If there was no time for a second walk, keep the findings of the pieces.
    if !shared.progress.is_stopped() {
        for (place, rewalked) in index_points.into_iter().zip(rewalked) {
            if let Some(slot) = joined.get_mut(place) {
                *slot = rewalked;
            }
        }
    }
    joined
}

/// The pieces of a range, each of about the given length. Its first segment is split at records
/// that its index names; the rest of the range belongs to the last piece.
fn split(reader: &LogReader, range: &VerifyRange, length: u64) -> Vec<VerifyRange> {
    let mut pieces = Vec::new();
    let mut rest = range.clone();
    let mut start = 0;
    for (seq, offset) in index_points(reader, range) {
        let done = offset.saturating_sub(start);
        if done >= length && rest.length >= done.saturating_add(length) && seq > rest.from {
            pieces.push(VerifyRange { until: Some(seq), length: done, ..rest.clone() });
            let length = rest.length.saturating_sub(done);
            // A file is counted once.
            rest = VerifyRange { from: seq, length, segments: 0, ..rest };
            start = offset;
        }
    }
    pieces.push(rest);
    pieces
}

/// The sequence numbers and offsets in the index of a range's first segment. Empty if it has no
/// readable index; the walk over it reports that.
fn index_points(reader: &LogReader, range: &VerifyRange) -> Vec<(u64, u64)> {
    let Some(Ok(SequenceItem::Segment(opened))) = SegmentSequence::new(reader, range.from).next()
    else {
        return Vec::new();
    };
    if opened.segment.header.base_seq != range.from {
        return Vec::new();
    }
    let seeks = opened.seeks().ok().flatten().unwrap_or_default();
    let index_points = seeks.into_iter().map(|seek| (seek.seq, seek.offset));
    index_points.filter(|(seq, _)| *seq <= opened.durable_end.last_seq).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Continuity {
    Unbroken,
    Broken,
}

/// The results of a range's pieces as one, and whether each continues the one before.
fn join(pieces: impl Iterator<Item = Option<RangeResult>>) -> (Option<RangeResult>, Continuity) {
    let mut all: Option<RangeResult> = None;
    let mut continuity = Continuity::Unbroken;
    for piece in pieces {
        let is_next = match (&all, &piece) {
            (None, Some(_)) => true,
            (Some(before), Some(piece)) => piece.continues(before),
            (_, None) => false,
        };
        if !is_next {
            continuity = Continuity::Broken;
        }
        all = match (all, piece) {
            (Some(before), Some(piece)) => Some(before.merge(piece)),
            (before, piece) => before.or(piece),
        };
    }
    (all, continuity)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::super::range;
    use super::*;
    use crate::format::{Codec, NewRecord};
    use crate::log::{Log, LogOptions, UidSource};
    use crate::sim::SimDisk;
    use crate::storage::Storage;

    /// A sealed segment is split where records begin, an unsealed one is not, and the pieces
    /// together are the range.
    #[test]
    fn sealed_segment_is_split_into_pieces() {
        let storage: Arc<dyn Storage> = Arc::new(SimDisk::new());
        let next = AtomicU8::new(1);
        let uids = UidSource::new(move || [next.fetch_add(1, Ordering::Relaxed); 16]);
        let log = Log::create(Path::new("/ledger"), LogOptions::new(storage.clone(), uids), 0);
        let log = log.unwrap();
        let record = NewRecord { kind: 1, codec: Codec::Raw, schema: 1, payload: vec![7; 4000] };
        for turn in 0..1100 {
            log.append(std::slice::from_ref(&record), turn).unwrap();
        }
        log.close().unwrap();
        let reader = LogReader::open(&storage, Path::new("/ledger")).unwrap();
        let ranges = range::split(&reader);
        // Segments of 1, 2 and 4 MiB; the last one belongs to the range of the one before.
        assert_eq!(reader.segments.list.len(), 3);
        assert_eq!(ranges.len(), 2);
        for (range, counts) in ranges.iter().zip([3..=4, 7..=8]) {
            let pieces = split(&reader, range, PIECE_MIN);
            assert!(counts.contains(&pieces.len()), "{pieces:?}");
            assert_eq!(pieces.iter().map(|piece| piece.length).sum::<u64>(), range.length);
            assert_eq!(pieces.iter().map(|piece| piece.segments).sum::<u64>(), range.segments);
            assert_eq!((pieces[0].from, pieces[pieces.len() - 1].until), (range.from, None));
            for pair in pieces.windows(2) {
                assert_eq!(pair[0].until, Some(pair[1].from));
                let first = reader.records(pair[1].from).next().unwrap().unwrap();
                assert_eq!(first.seq, pair[1].from);
            }
        }
    }
}
