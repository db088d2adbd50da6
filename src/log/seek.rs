//! Places in a segment from which one can go on: of its index, or of one walk over it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Result;
use crate::format::{SEEK_STEP, SegmentHeader, Uid};

use super::reader::LogReader;
use super::row::Opened;
use super::scan::Position;
use super::sealed::Seal;
use super::segment_walk::{Passed, Place, SegmentWalk, Told};
use super::walk::Proof;

/// Places of the segments that were looked at last: by the segment, and whether it is sealed, since
/// those of an index are more. Its uid alone is whatever a caller's source of uids gave it.
pub(super) type PlaceCache = Arc<Mutex<BTreeMap<PlaceKey, Arc<[Place]>>>>;
type PlaceKey = (u64, Uid, bool);

/// Of how many segments the places are kept: some 500 KiB each at most.
const CACHED_MAX: usize = 8;

fn key(opened: &Opened<'_>) -> PlaceKey {
    bug!(PlacesOfAnother => return (0, [0; 16], false));
    let header = &opened.segment.header;
    (header.ordinal, header.segment, matches!(opened.seal, Seal::Whole(_)))
}

/// The places of a segment that its writer was at when it looked for the segment's end.
pub(super) fn places_of_writer(header: &SegmentHeader, places: &[Position]) -> PlaceCache {
    let place = |at: &Position| Place {
        at: *at,
        durable_at: *at,
        proof: Proof::Proven,
        source: Told::ByScan,
    };
    let places: Arc<[Place]> = places.iter().map(place).collect();
    Arc::new(Mutex::new(BTreeMap::from([((header.ordinal, header.segment, false), places)])))
}

impl LogReader {
    /// Move a walk that stands at a segment's start closer to record `from`, if there is an index
    /// or the segment's places are known.
    pub(super) fn seek(
        &self,
        opened: &Opened<'_>,
        walk: &mut SegmentWalk,
        from: u64,
    ) -> Result<()> {
        if from <= opened.segment.header.base_seq {
            return Ok(());
        }
        let places = match self.cached(opened) {
            Some(places) => Some(places),
            None => self.indexed(opened)?,
        };
        let Some(places) = places else { return Ok(()) };
        let behind = places.partition_point(|place| place.at.next_seq <= from);
        if let Some(place) = behind.checked_sub(1).and_then(|last| places.get(last)) {
            walk.resume(place)?;
        }
        Ok(())
    }

    /// The places of a segment, at least as far as record `from`; without an index, by one walk over
    /// what nobody has walked over yet.
    pub(super) fn places(&self, opened: &Opened<'_>, from: u64) -> Result<Arc<[Place]>> {
        let known = match self.cached(opened) {
            Some(places) => Some(places),
            None => self.indexed(opened)?,
        };
        let is_enough = |last: &Place| last.source == Told::ByIndex || last.at.next_seq > from;
        match known {
            Some(places) if places.last().is_some_and(is_enough) => Ok(places),
            known => {
                let known = known.as_deref().unwrap_or_default();
                Ok(self.keep(opened, walked(opened, known)?))
            }
        }
    }

    fn indexed(&self, opened: &Opened<'_>) -> Result<Option<Arc<[Place]>>> {
        let Some(seeks) = opened.seeks()? else { return Ok(None) };
        let places = seeks.iter().map(|seek| {
            let at = Position { offset: seek.offset, next_seq: seek.seq, chain: None };
            Place { at, durable_at: at, proof: Proof::Proven, source: Told::ByIndex }
        });
        Ok(Some(self.keep(opened, places.collect())))
    }

    fn cached(&self, opened: &Opened<'_>) -> Option<Arc<[Place]>> {
        let cache = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        cache.get(&key(opened)).cloned()
    }

    fn keep(&self, opened: &Opened<'_>, places: Vec<Place>) -> Arc<[Place]> {
        let mut cache = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let key = key(opened);
        if cache.len() >= CACHED_MAX && !cache.contains_key(&key) {
            // An index is soon read again; what has none is walked over again.
            let sealed = cache.keys().copied().find(|(.., is_sealed)| *is_sealed);
            match sealed {
                Some(sealed) => cache.remove(&sealed),
                None => cache.pop_first().map(|(_, places)| places),
            };
        }
        let places: Arc<[Place]> = places.into();
        cache.insert(key, places.clone());
        places
    }
}

/// The places that are known, those behind them, and the end of what there is.
fn walked(opened: &Opened<'_>, known: &[Place]) -> Result<Vec<Place>> {
    let mut walk = opened.walk()?;
    let (mut places, mut last) = (known.to_vec(), walk.place());
    // The last one was as far as the segment went: it stays only if it is far from the one before.
    match places.pop() {
        Some(end) if walk.resume(&end)? => last = end,
        Some(_) => places.clear(),
        None => {}
    }
    while let Some(item) = walk.pass()? {
        if matches!(item, Passed::Record(_)) {
            let is_far = |before: &Place| last.at.offset - before.at.offset >= SEEK_STEP;
            places.extend(places.last().is_none_or(is_far).then_some(last));
            last = walk.place();
        }
    }
    places.push(last);
    Ok(places)
}
