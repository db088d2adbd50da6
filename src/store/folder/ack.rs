//! Decides when a result counts as saved, and tracks the records that the store does not have yet.
//!
//! Invariant: an unshipped record is never considered younger than it is.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::log::BoundAck;

/// When a commit is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckMode {
    /// When it is durable in the folder. If the machine is lost, all unshipped commits are lost.
    Local,
    /// When it is durable in the folder, and the store has everything that became durable longer ago than
    /// this. A machine that is lost takes with it the commits of at most this time.
    Bounded(Duration),
    /// When it is durable in the folder and in the store. If the machine is lost, no commit is lost.
    Store,
}

impl AckMode {
    /// The usual bound.
    pub const BOUND: Duration = Duration::from_secs(5);

    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Bounded(_) => "bounded",
            Self::Store => "store",
        }
    }

    /// The mode that STORE.json names.
    pub(super) fn bound_ack(self) -> BoundAck {
        match self {
            Self::Local => BoundAck::Local,
            Self::Bounded(_) => BoundAck::Bounded,
            Self::Store => BoundAck::Store,
        }
    }
}

impl fmt::Display for AckMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bounded(bound) => write!(f, "bounded:{bound:?}"),
            mode => f.write_str(mode.word()),
        }
    }
}

/// The place of an acknowledged record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckedBy {
    /// In the folder.
    Local,
    /// In the folder and in the store.
    Store,
}

impl AckedBy {
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Store => "store",
        }
    }
}

/// A clock that never goes back. Its start is arbitrary.
#[derive(Clone)]
pub struct MonotonicClock(Arc<dyn Fn() -> Duration + Send + Sync>);

impl MonotonicClock {
    /// A clock that calls `now` for each reading.
    pub fn new(now: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The reading.
    #[must_use]
    pub fn now(&self) -> Duration {
        (self.0)()
    }
}

impl fmt::Debug for MonotonicClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MonotonicClock")
    }
}

/// How far a store is behind a folder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreLag {
    /// How long ago the oldest record became durable that the store does not have.
    pub age: Duration,
    /// The number of records that the store does not have.
    pub records: u64,
    /// Their frames in bytes.
    pub bytes: u64,
}

impl StoreLag {
    /// The age in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.age.as_secs_f64()
    }
}

/// Maximum number of groups. Beyond it, two neighbours become one group with the age of the older
/// one.
const GROUPS_MAX: usize = 256;

/// Groups that are durable in the folder, and that the store does not have.
#[derive(Debug, Default)]
pub(super) struct Unshipped {
    groups: VecDeque<Group>,
    /// The last record that the store has.
    pub(super) shipped_seq: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Group {
    since: Duration,
    last_seq: u64,
    bytes: u64,
}

impl Unshipped {
    pub(super) fn after(shipped_seq: u64) -> Self {
        Self { groups: VecDeque::new(), shipped_seq }
    }

    /// A group became durable.
    pub(super) fn add(&mut self, since: Duration, last_seq: u64, bytes: u64) {
        if self.groups.len() == GROUPS_MAX {
            self.join_neighbours();
        }
        self.groups.push_back(Group { since, last_seq, bytes });
    }

    fn join_neighbours(&mut self) {
        let mut groups = std::mem::take(&mut self.groups).into_iter();
        while let Some(older) = groups.next() {
            let joined = groups.next().map_or(older, |younger| Group {
                since: older.since,
                last_seq: younger.last_seq,
                bytes: older.bytes + younger.bytes,
            });
            self.groups.push_back(joined);
        }
    }

    /// The store has the log up to a record.
    pub(super) fn shipped(&mut self, last_seq: u64) {
        self.shipped_seq = self.shipped_seq.max(last_seq);
        while self.groups.front().is_some_and(|group| group.last_seq <= last_seq) {
            self.groups.pop_front();
        }
    }

    /// When the oldest group became durable.
    pub(super) fn oldest(&self) -> Option<Duration> {
        self.groups.front().map(|group| group.since)
    }

    pub(super) fn lag(&self, now: Duration) -> StoreLag {
        let last = self.groups.back().map_or(self.shipped_seq, |group| group.last_seq);
        StoreLag {
            age: self.oldest().map_or(Duration::ZERO, |since| now.saturating_sub(since)),
            records: last.saturating_sub(self.shipped_seq),
            bytes: self.groups.iter().map(|group| group.bytes).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: however many groups wait, their number is bounded, none is taken for younger than it is, and
    /// the lag counts all of them.
    #[test]
    fn joined_groups_keep_age_and_count() {
        let mut unshipped = Unshipped::after(0);
        let at = Duration::from_millis;
        for seq in 1..=10_000 {
            unshipped.add(at(seq), seq, 10);
            assert!(unshipped.groups.len() <= GROUPS_MAX);
            let lag = unshipped.lag(at(seq));
            assert_eq!((lag.records, lag.bytes, lag.age), (seq, 10 * seq, at(seq - 1)));
        }
        for shipped in [3, 777, 5000, 9_999] {
            unshipped.shipped(shipped);
            assert_eq!(unshipped.shipped_seq, shipped);
            // The next record became durable at `shipped + 1`.
            assert!(unshipped.oldest().unwrap() <= at(shipped + 1));
            assert_eq!(unshipped.lag(at(10_000)).records, 10_000 - shipped);
        }
        unshipped.shipped(10_000);
        assert_eq!(unshipped.lag(at(10_001)), StoreLag::default());
    }

    /// Goal: the words are those of the specification.
    #[test]
    fn modes_have_words() {
        let bounded = AckMode::Bounded(Duration::from_millis(2500));
        let words = [AckMode::Local, bounded, AckMode::Store].map(|mode| mode.to_string());
        assert_eq!(words, ["local", "bounded:2.5s", "store"]);
        assert_eq!(bounded.word(), "bounded");
        assert_eq!([AckedBy::Local, AckedBy::Store].map(AckedBy::word), ["local", "store"]);
    }
}
