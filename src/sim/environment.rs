//! The environment of a ledger on a simulated disk.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::format::{HeadSync, Uid};
use crate::ledger::{BackgroundWork, Clock, Environment, IdSource, OnAmbiguous, SegmentSizes};

use super::disk::{Random, SimDisk};

/// The length of segments: one page of records.
const SEGMENT: u64 = 8192;

/// The folder of the ledger on the simulated disk.
#[must_use]
pub fn dir() -> PathBuf {
    PathBuf::from("/lab.ledger")
}

/// A source of times and identifiers, which depend only on the content of the disk.
#[derive(Debug)]
struct Counter(AtomicU64);

impl Clock for Counter {
    fn now(&self) -> u64 {
        1_700_000_000_000_000 + 300_000 * self.0.fetch_add(1, Ordering::Relaxed)
    }
}

impl IdSource for Counter {
    fn next_id(&self) -> Uid {
        let mut random = Random(self.0.fetch_add(1, Ordering::Relaxed));
        let mut id = [0; 16];
        let bytes = [random.word(), random.word()].map(u64::to_le_bytes).concat();
        id.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        id
    }
}

/// An environment on a simulated disk: small segments, no threads, and times and identifiers that
/// depend only on the content of the disk. Equal disks therefore behave equally, regardless of
/// their history. For the same reason the clock restarts at each opening.
#[must_use]
pub fn environment(disk: &SimDisk) -> Environment {
    let start = disk.digest().first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    Environment {
        storage: Arc::new(disk.clone()),
        clock: Arc::new(Counter(AtomicU64::new(0))),
        ids: Arc::new(Counter(AtomicU64::new(start))),
        holder: "process 7 on lab".to_owned(),
        head_sync: HeadSync::Interval,
        background_work: BackgroundWork::Inline,
        on_ambiguous: OnAmbiguous::Refuse,
        allow_unsafe_locks: false,
        for_group: false,
        blob_threshold: 64 << 10,
        snapshot_every: None,
        segments: SegmentSizes { first: SEGMENT, largest: SEGMENT },
    }
}
