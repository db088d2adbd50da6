//! Stretches in pieces, so that several threads can be at one segment.
//!
//! A piece begins at a record that the index of a sealed segment names, and ends before the one
//! that the next piece begins at.
//!
//! Invariants:
//! - What the pieces of a stretch say together is what one walk over it says. An index is not
//!   trusted: pieces that do not continue each other, and those behind something that was found,
//!   are not put together, and the stretch is walked over as a whole.
//! - Only where a piece ends does another one begin: nothing is unproved between two of them.

use crate::log::reader::LogReader;
use crate::log::row::{Next, Row};

use super::stretch::{Stretch, Walked};
use super::{Shared, length_of};

/// Into how many pieces a log is cut for each thread, if it is long enough: as many as it takes
/// for them to end at nearly the same time.
const PIECES_PER_JOB: u64 = 16;

/// A piece is at least so long, in bytes: to begin with one takes as long as some fifty records.
const PIECE_MIN: u64 = 256 * 1024;

/// Walk over stretches, each by as many threads as have nothing else to do. `None` for those that
/// nobody came to.
pub(super) fn walk(shared: &Shared<'_>, stretches: &[Stretch]) -> Vec<Option<Walked>> {
    let jobs = u64::try_from(shared.options.jobs.get()).unwrap_or(u64::MAX);
    if jobs == 1 {
        return shared.run(stretches);
    }
    let length = (shared.tally.total() / jobs.saturating_mul(PIECES_PER_JOB)).max(PIECE_MIN);
    let cut = |stretch| cut(shared.reader, stretch, length);
    let pieces: Vec<Vec<Stretch>> = stretches.iter().map(cut).collect();
    let mut walked = shared.run(&pieces.concat()).into_iter();
    let mut apart = Vec::new();
    let mut whole: Vec<Option<Walked>> = Vec::new();
    for (place, pieces) in pieces.iter().enumerate() {
        let (all, joint) = join(walked.by_ref().take(pieces.len()));
        if joint == Joint::Open && !shared.tally.is_stopped() {
            shared.tally.take_back(length_of(pieces));
            apart.extend(stretches.get(place).map(|stretch| (place, stretch.clone())));
        }
        whole.push(all);
    }
    let (places, apart): (Vec<usize>, Vec<Stretch>) = apart.into_iter().unzip();
    let again = shared.run(&apart);
    // What a second walk had no time for, the pieces may have found.
    if !shared.tally.is_stopped() {
        for (place, again) in places.into_iter().zip(again) {
            if let Some(slot) = whole.get_mut(place) {
                *slot = again;
            }
        }
    }
    whole
}

/// The pieces of a stretch, each of about that length: its first segment is cut where its index
/// says that records begin, and what follows is one with the last of them.
fn cut(reader: &LogReader, stretch: &Stretch, length: u64) -> Vec<Stretch> {
    let mut pieces = Vec::new();
    let mut rest = stretch.clone();
    let mut start = 0;
    for (seq, offset) in places(reader, stretch) {
        let done = offset.saturating_sub(start);
        if done >= length && rest.length >= done.saturating_add(length) && seq > rest.from {
            pieces.push(Stretch { until: Some(seq), length: done, ..rest.clone() });
            let length = rest.length.saturating_sub(done);
            // A file is counted once.
            rest = Stretch { from: seq, length, segments: 0, ..rest };
            start = offset;
        }
    }
    pieces.push(rest);
    pieces
}

/// Where the index of a stretch's first segment says that records begin, as far as it may be: their
/// numbers and offsets. None if it has none, or cannot be read: whoever walks over it will say so.
fn places(reader: &LogReader, stretch: &Stretch) -> Vec<(u64, u64)> {
    let Some(Ok(Next::Segment(opened))) = Row::new(reader, stretch.from).next() else {
        return Vec::new();
    };
    if opened.segment.header.base_seq != stretch.from {
        return Vec::new();
    }
    let seeks = opened.seeks().ok().flatten().unwrap_or_default();
    let places = seeks.into_iter().map(|seek| (seek.seq, seek.offset));
    places.filter(|(seq, _)| *seq <= opened.extent.last_seq).collect()
}

/// Whether the walks over all pieces of a stretch were put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Joint {
    Closed,
    Open,
}

/// The walks over a stretch's pieces as one. It is closed if each continues the one before.
fn join(pieces: impl Iterator<Item = Option<Walked>>) -> (Option<Walked>, Joint) {
    let mut all: Option<Walked> = None;
    let mut joint = Joint::Closed;
    for piece in pieces {
        let is_next = match (&all, &piece) {
            (None, Some(_)) => true,
            (Some(before), Some(piece)) => piece.continues(before),
            (_, None) => false,
        };
        if !is_next {
            joint = Joint::Open;
        }
        all = match (all, piece) {
            (Some(before), Some(piece)) => Some(before.and(piece)),
            (before, piece) => before.or(piece),
        };
    }
    (all, joint)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::super::stretch;
    use super::*;
    use crate::format::{Codec, NewRecord};
    use crate::log::{Log, LogOptions, UidSource};
    use crate::sim::SimDisk;
    use crate::storage::Storage;

    /// Goal: a sealed segment is cut where records begin, one that is not sealed is not; together
    /// the pieces are what was cut.
    #[test]
    fn a_sealed_segment_is_cut_into_pieces() {
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
        let stretches = stretch::cut(&reader);
        // Of 1, 2 and 4 MiB, the last one with the one before.
        assert_eq!(reader.segments.list.len(), 3);
        assert_eq!(stretches.len(), 2);
        for (stretch, counts) in stretches.iter().zip([3..=4, 7..=8]) {
            let pieces = cut(&reader, stretch, PIECE_MIN);
            assert!(counts.contains(&pieces.len()), "{pieces:?}");
            assert_eq!(pieces.iter().map(|piece| piece.length).sum::<u64>(), stretch.length);
            assert_eq!(pieces.iter().map(|piece| piece.segments).sum::<u64>(), stretch.segments);
            assert_eq!((pieces[0].from, pieces[pieces.len() - 1].until), (stretch.from, None));
            for pair in pieces.windows(2) {
                assert_eq!(pair[0].until, Some(pair[1].from));
                let first = reader.records(pair[1].from).next().unwrap().unwrap();
                assert_eq!(first.seq, pair[1].from);
            }
        }
    }
}
