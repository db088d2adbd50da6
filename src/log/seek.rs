//! Places in a segment from which one can go on: of its index, or of one walk over it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Result;
use crate::format::{SEEK_STEP, Uid};

use super::reader::LogReader;
use super::row::Opened;
use super::scan::Position;
use super::sealed::Seal;
use super::segment_walk::{Place, SegmentWalk, Told};
use super::walk::{Item, Proof};

/// Places of the segments that were looked at last: by the segment, and whether it is sealed, since
/// those of an index are more.
pub(super) type PlaceCache = Arc<Mutex<BTreeMap<PlaceKey, Arc<[Place]>>>>;
type PlaceKey = (Uid, bool);

/// Of how many segments the places are kept: some 500 KiB each at most.
const CACHED_MAX: usize = 8;

fn key(opened: &Opened<'_>) -> PlaceKey {
    bug!(PlacesOfAnother => return ([0; 16], false));
    (opened.segment.header.segment, matches!(opened.seal, Seal::Whole(_)))
}

/// The places of a segment that its writer was at when it looked for the segment's end.
pub(super) fn places_of_writer(segment: Uid, places: &[Position]) -> PlaceCache {
    let place = |at: &Position| Place {
        at: *at,
        durable_at: *at,
        proof: Proof::Proven,
        source: Told::ByScan,
    };
    let places: Arc<[Place]> = places.iter().map(place).collect();
    Arc::new(Mutex::new(BTreeMap::from([((segment, false), places)])))
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

    /// All places of a segment; without an index, by one walk over what nobody has walked over yet.
    pub(super) fn places(&self, opened: &Opened<'_>) -> Result<Arc<[Place]>> {
        let known = match self.cached(opened) {
            Some(places) => Some(places),
            None => self.indexed(opened)?,
        };
        let by_index = |place: &Place| place.source == Told::ByIndex;
        match known {
            Some(places) if places.last().is_some_and(by_index) => Ok(places),
            known => self.walked(opened, known),
        }
    }

    /// The places that are known, and those behind the last of them.
    fn walked(&self, opened: &Opened<'_>, known: Option<Arc<[Place]>>) -> Result<Arc<[Place]>> {
        let mut walk = opened.walk()?;
        let mut places = known.as_deref().map_or_else(|| vec![walk.place()], <[Place]>::to_vec);
        if let Some(last) = places.last() {
            walk.resume(last)?;
        }
        let mut next = walk.place().at.offset + SEEK_STEP;
        while let Some(item) = walk.pass()? {
            let place = walk.place();
            // What may yet be taken back is nothing to go on from.
            let is_settled = place.at.offset == place.durable_at.offset;
            if matches!(item, Item::Record(..)) && place.at.offset >= next && is_settled {
                next = place.at.offset + SEEK_STEP;
                places.push(place);
            }
        }
        match known {
            Some(known) if known.len() == places.len() => Ok(known),
            _ => Ok(self.keep(opened, places)),
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
            let sealed = cache.keys().copied().find(|(_, is_sealed)| *is_sealed);
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
