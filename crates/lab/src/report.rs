//! The counts of an exploration.

use super::oracle::{AmbiguousPart, ImageOutcome};
use plan_ledger::log::TailVerdict;

/// The counts of an exploration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExploreReport {
    /// Completed workloads: every crash of the last operation was tried.
    pub workloads: u64,
    /// Workloads in the scope.
    pub workloads_all: u64,
    /// Crash points of the last operation.
    pub points: u64,
    /// Crash points at which every restart was tried.
    pub points_whole: u64,
    /// Images after these crashes.
    pub images: u64,
    /// Examined images: those that differ from all earlier ones.
    pub distinct: u64,
    /// Crash points of the recoveries from these images.
    pub points_again: u64,
    /// Crash points with a complete set of restarts.
    pub points_again_whole: u64,
    /// Images after these crashes.
    pub images_again: u64,
    /// Examined images.
    pub distinct_again: u64,
    /// Images after a third crash.
    pub images_third: u64,
    /// Examined images.
    pub distinct_third: u64,
    /// Images that opened clean.
    pub clean: u64,
    /// Images with an unacknowledged end that recovery adopted.
    pub unacknowledged: u64,
    /// Images with a torn end, which recovery fenced off.
    pub torn: u64,
    /// Images without a ledger, where one was created.
    pub absent: u64,
    /// Images with an ambiguous end, for which the engine requires a decision of a person.
    pub ambiguous: u64,
    /// Those of them whose HEAD is ambiguous; the others have an ambiguous tail.
    pub ambiguous_heads: u64,
    /// Digest of all examined images, in any order.
    pub digest: [u8; 32],
}

impl ExploreReport {
    /// The number of images, equal ones included.
    #[must_use]
    pub fn tried(&self) -> u64 {
        self.images + self.images_again + self.images_third
    }

    /// The number of examined images.
    #[must_use]
    pub fn examined(&self) -> u64 {
        self.distinct + self.distinct_again + self.distinct_third
    }

    pub(super) fn count(&mut self, outcome: ImageOutcome) {
        self.ambiguous_heads += u64::from(outcome == ImageOutcome::Ambiguous(AmbiguousPart::Head));
        *match outcome {
            ImageOutcome::Opened(TailVerdict::Clean) => &mut self.clean,
            ImageOutcome::Opened(TailVerdict::Torn) => &mut self.torn,
            ImageOutcome::Opened(_) => &mut self.unacknowledged,
            ImageOutcome::Absent => &mut self.absent,
            ImageOutcome::Ambiguous(_) => &mut self.ambiguous,
        } += 1;
    }

    /// Add the counts of another thread.
    pub(super) fn add(&mut self, other: &Self) {
        self.workloads += other.workloads;
        self.points += other.points;
        self.points_whole += other.points_whole;
        self.images += other.images;
        self.distinct += other.distinct;
        self.points_again += other.points_again;
        self.points_again_whole += other.points_again_whole;
        self.images_again += other.images_again;
        self.distinct_again += other.distinct_again;
        self.images_third += other.images_third;
        self.distinct_third += other.distinct_third;
        self.clean += other.clean;
        self.unacknowledged += other.unacknowledged;
        self.torn += other.torn;
        self.absent += other.absent;
        self.ambiguous += other.ambiguous;
        self.ambiguous_heads += other.ambiguous_heads;
        self.digest.iter_mut().zip(other.digest).for_each(|(sum, byte)| *sum ^= byte);
    }
}
