//! What was tried, in numbers.

use super::oracle::Outcome;
use crate::log::TailVerdict;

/// What was tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Workloads of which every crash of the last operation was tried.
    pub workloads: u64,
    /// How many the scope has.
    pub workloads_all: u64,
    /// Crashes of the last operation, at every change.
    pub points: u64,
    /// Those of which every way to come up again was tried.
    pub points_whole: u64,
    /// Images after them.
    pub images: u64,
    /// Those that were examined: not equal to an earlier one.
    pub distinct: u64,
    /// Crashes of recoveries from them, at every change.
    pub points_again: u64,
    /// Those of which every way was tried.
    pub points_again_whole: u64,
    /// Images after them.
    pub images_again: u64,
    /// Those that were examined.
    pub distinct_again: u64,
    /// Images after a third crash.
    pub images_third: u64,
    /// Those that were examined.
    pub distinct_third: u64,
    /// Images that were opened as they were.
    pub clean: u64,
    /// Images whose end was taken over behind a fence.
    pub unproven: u64,
    /// Images whose end was torn, and fenced off.
    pub torn: u64,
    /// Images without a ledger, where one was made.
    pub absent: u64,
    /// Images of which the engine asks.
    pub asked: u64,
    /// All examined images as one number, whatever their order.
    pub digest: [u8; 32],
}

impl Tally {
    /// How many images were tried, equal ones included.
    #[must_use]
    pub fn tried(&self) -> u64 {
        self.images + self.images_again + self.images_third
    }

    /// How many different ones were examined.
    #[must_use]
    pub fn examined(&self) -> u64 {
        self.distinct + self.distinct_again + self.distinct_third
    }

    pub(super) fn count(&mut self, outcome: Outcome) {
        *match outcome {
            Outcome::Opened(TailVerdict::Clean) => &mut self.clean,
            Outcome::Opened(TailVerdict::Torn) => &mut self.torn,
            Outcome::Opened(_) => &mut self.unproven,
            Outcome::Absent => &mut self.absent,
            Outcome::Asked => &mut self.asked,
        } += 1;
    }

    /// Add what another thread tried.
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
        self.unproven += other.unproven;
        self.torn += other.torn;
        self.absent += other.absent;
        self.asked += other.asked;
        self.digest.iter_mut().zip(other.digest).for_each(|(sum, byte)| *sum ^= byte);
    }
}
