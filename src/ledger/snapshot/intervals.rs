//! The distances between the state's snapshots: full snapshots and, between two of them, delta
//! snapshots. A full interval has 16 delta intervals. Deltas 4, 8 and 12 are based on the full
//! snapshot; each other delta is based on the nearest of these snapshots before it
//! (`format/snapshot.md`, section 6).

/// The smallest distance between delta snapshots, in records.
const DELTA_INTERVAL_MIN: u64 = 4096;
/// The number of delta intervals in a full interval.
const DELTAS_PER_FULL: u64 = 16;
/// The number of delta snapshots that share a base.
const DELTAS_PER_BASE: u64 = 4;

/// The distances, in records.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SnapshotIntervals {
    full: u64,
    /// Equal to `full` without delta snapshots.
    delta: u64,
}

impl SnapshotIntervals {
    /// Full snapshots at this distance; deltas between them unless they would be too close.
    pub(crate) fn new(full: u64) -> Self {
        let delta = full / DELTAS_PER_FULL;
        let has_deltas = delta >= DELTA_INTERVAL_MIN && full.is_multiple_of(DELTAS_PER_FULL);
        Self { full, delta: if has_deltas { delta } else { full } }
    }

    /// The last record up to `seq` at which a full snapshot is due.
    pub(crate) fn last_full_seq(self, seq: u64) -> u64 {
        seq - seq % self.full
    }

    /// The last record up to `seq` at which any snapshot is due.
    pub(crate) fn last_due_seq(self, seq: u64) -> u64 {
        seq - seq % self.delta
    }

    /// Whether a full snapshot is due at a record.
    pub(crate) fn is_full(self, seq: u64) -> bool {
        seq.is_multiple_of(self.full)
    }

    /// Whether a delta snapshot is due at a record.
    pub(crate) fn is_delta(self, seq: u64) -> bool {
        seq.is_multiple_of(self.delta) && !self.is_full(seq)
    }

    /// The records up to `seq` of the snapshots that later delta snapshots may be based on.
    pub(crate) fn later_bases(self, seq: u64) -> Vec<u64> {
        if self.delta == self.full { Vec::new() } else { self.base_seqs(seq).into() }
    }

    /// The number of records between a delta snapshot and its base.
    pub(crate) fn span(self, seq: u64) -> u64 {
        self.base_seqs(seq).into_iter().map(|base| seq - base).find(|span| *span > 0).unwrap_or(0)
    }

    /// The records of the possible bases of a delta snapshot, the nearest first.
    pub(crate) fn bases(self, seq: u64) -> impl Iterator<Item = u64> {
        let (is_delta, [near, far]) = (self.is_delta(seq), self.base_seqs(seq));
        let seqs = [Some(near), Some(far).filter(|far| *far != near)].into_iter().flatten();
        seqs.filter(move |base| is_delta && (1..seq).contains(base))
    }

    fn base_seqs(self, seq: u64) -> [u64; 2] {
        [seq - seq % (self.delta * DELTAS_PER_BASE).min(self.full), self.last_full_seq(seq)]
    }

    /// The first record from which retention examines delta snapshots again, given the record of
    /// one of the newest snapshots. It examined all earlier ones when it kept them.
    pub(crate) fn recheck_from(self, newest: u64) -> u64 {
        self.last_full_seq(newest).saturating_sub(self.full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: there are no deltas between full snapshots that are closer than the smallest delta
    /// interval.
    #[test]
    fn deltas_exist_only_between_distant_full_snapshots() {
        assert_eq!(SnapshotIntervals::new(65_536).delta, DELTA_INTERVAL_MIN);
        assert_eq!(SnapshotIntervals::new(1 << 20).delta, 1 << 16);
        for full in [1, 50, 16_384, 65_535, 65_537] {
            assert_eq!(SnapshotIntervals::new(full).delta, full);
            assert!(!SnapshotIntervals::new(full).is_delta(full * 3));
        }
    }

    /// Goal: the base of a delta is a fourth delta or a full snapshot, the base of a fourth delta
    /// is a full snapshot, and a full snapshot has no base.
    #[test]
    fn bases_of_deltas() {
        let intervals = SnapshotIntervals::new(65_536);
        let bases = |seq| intervals.bases(seq).collect::<Vec<_>>();
        let delta = |count: u64| count * DELTA_INTERVAL_MIN;
        for (seq, expected) in [
            (delta(1), vec![]),
            (delta(4), vec![]),
            (delta(5), vec![delta(4)]),
            (delta(16), vec![]),
            (delta(17), vec![delta(16)]),
            (delta(20), vec![delta(16)]),
            (delta(23), vec![delta(20), delta(16)]),
            (delta(23) + 1, vec![]),
        ] {
            assert_eq!(bases(seq), expected, "{seq}");
        }
        // The bases of each delta are among those that the writer kept at the delta before.
        for (before, seq) in (1..40).map(delta).zip((2..).map(delta)) {
            let later = intervals.later_bases(before);
            assert!(bases(seq).iter().all(|base| later.contains(base)), "{seq}");
        }
        assert!(SnapshotIntervals::new(50).later_bases(100).is_empty());
        let spans = [1, 3, 4, 8, 15, 16, 17, 24].map(|count| intervals.span(delta(count)));
        assert_eq!(spans, [1, 3, 4, 8, 3, 0, 1, 8].map(delta));
        let odd = SnapshotIntervals::new(50);
        assert_eq!((odd.bases(100).count(), odd.span(100)), (0, 0));
    }
}
