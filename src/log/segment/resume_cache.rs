//! A cache of resume points: positions in segments at which a later read can continue.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::format::{SegmentHeader, Uid};
use crate::log::bytes::lock;
use crate::log::record::RecordStatus;

use super::cursor::{ResumePoint, ResumePointOrigin};
use super::scan::FramePosition;

/// Number of segments in the cache: at most about 500 KiB each.
const CACHED_MAX: usize = 8;

/// Ordinal and uid of a segment, and whether it is sealed: an index yields more points than a scan.
/// The uid alone is not enough, because it comes from the caller's source of uids.
pub(crate) type ResumeKey = (u64, Uid, bool);

/// Resume points of the segments that were read last. Clones share one cache.
#[derive(Debug, Clone, Default)]
pub(crate) struct ResumeCache(Arc<Mutex<BTreeMap<ResumeKey, Arc<[ResumePoint]>>>>);

impl ResumeCache {
    /// A cache that holds the points which recovery found while it scanned the active segment.
    pub(crate) fn for_active(header: &SegmentHeader, positions: &[FramePosition]) -> Self {
        let point = |at: &FramePosition| ResumePoint {
            at: *at,
            durable_at: *at,
            status: RecordStatus::Durable,
            origin: ResumePointOrigin::Cursor,
        };
        let points: Arc<[ResumePoint]> = positions.iter().map(point).collect();
        let key = (header.ordinal, header.segment, false);
        Self(Arc::new(Mutex::new(BTreeMap::from([(key, points)]))))
    }

    pub(crate) fn get(&self, key: &ResumeKey) -> Option<Arc<[ResumePoint]>> {
        lock(&self.0).get(key).cloned()
    }

    pub(crate) fn insert(&self, key: ResumeKey, points: Vec<ResumePoint>) -> Arc<[ResumePoint]> {
        let mut cache = lock(&self.0);
        if cache.len() >= CACHED_MAX && !cache.contains_key(&key) {
            // An index is cheap to read again; a segment without one must be scanned again.
            let sealed = cache.keys().copied().find(|(.., is_sealed)| *is_sealed);
            match sealed {
                Some(sealed) => cache.remove(&sealed),
                None => cache.pop_first().map(|(_, points)| points),
            };
        }
        let points: Arc<[ResumePoint]> = points.into();
        cache.insert(key, points.clone());
        points
    }
}
