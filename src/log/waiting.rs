//! The threads that wait for a turn at the disk to end: some by themselves, most in a crowd that is
//! woken with one call.
//!
//! Invariants:
//! - Who is not answered by the end of a turn sleeps on, but for one, who goes to the disk next:
//!   with hundreds of threads, waking all of them would take longer than a sync.
//! - That one is woken first, and the others while it writes already.
//! - Whoever waits does so during a turn; so where nobody is at the disk, the next one is awake.
//! - Those of a crowd wait for records that one turn takes together: the next one, when they come. And
//!   somebody waits by themselves, or is on the way to the disk, for a record that is taken with them or
//!   later: whoever that is answers the crowd, too.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use super::queue::{Health, Queue, Turn};

/// What somebody waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// This record is durable.
    Durable(u64),
    /// This record is in the file.
    Written(u64),
    /// It is nobody's turn.
    Free,
}

/// Why somebody was woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Woken {
    /// What they wait for has come, and the log goes on: there is nothing to look at.
    Answered,
    /// To see for themselves, and perhaps to go to the disk.
    ToLook,
}

/// Where one or many sleep until they are told why they are woken.
#[derive(Debug, Clone, Default)]
pub(super) struct Bed(Arc<OnceLock<Woken>>);

impl Bed {
    /// Sleep until somebody wakes whoever sleeps here.
    pub(super) fn sleep(&self) -> Woken {
        *self.0.wait()
    }

    /// Wake all who sleep here.
    pub(super) fn wake(self, why: Woken) {
        // It was taken from the queue, and is woken once.
        let _ = self.0.set(why);
    }
}

/// Somebody who waits, or a crowd of so many, of whom the last waits for that.
#[derive(Debug)]
pub(super) struct Waiter {
    until: Until,
    count: usize,
    bed: Bed,
}

/// Those who wait.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    /// Each by themselves, the first who came in front.
    alone: VecDeque<Waiter>,
    crowds: Vec<Waiter>,
}

impl Waiters {
    /// A place to sleep. Records up to `taken` were taken by a turn, later ones wait for the next one.
    fn lie_down(&mut self, until: Until, taken: u64) -> Bed {
        let is_next = |waiter: &Waiter| matches!(waiter.until, Until::Durable(seq) if seq > taken);
        let newcomer = Waiter { until, count: 1, bed: Bed::default() };
        if !is_next(&newcomer) || !self.alone.back().is_some_and(is_next) {
            let bed = newcomer.bed.clone();
            self.alone.push_back(newcomer);
            return bed;
        }
        if let Some(crowd) = self.crowds.last_mut().filter(|crowd| is_next(crowd)) {
            crowd.until = crowd.until.later(until);
            crowd.count += 1;
            return crowd.bed.clone();
        }
        let bed = newcomer.bed.clone();
        self.crowds.push(newcomer);
        bed
    }

    fn count(&self) -> usize {
        self.alone.len() + self.crowds.iter().map(|crowd| crowd.count).sum::<usize>()
    }

    /// Who is to be woken: first the one who goes to the disk next, where that is to be had, and
    /// then all who are answered.
    fn rise(&mut self, disk: Disk, is_answered: impl Fn(Until) -> bool) -> Vec<(Bed, Woken)> {
        let Self { alone, crowds } = std::mem::take(self);
        let is_met = |waiter: &Waiter| is_answered(waiter.until);
        let (met, mut alone): (VecDeque<_>, VecDeque<_>) = alone.into_iter().partition(is_met);
        let (crowds_met, crowds): (Vec<_>, Vec<_>) = crowds.into_iter().partition(is_met);
        let next = if disk == Disk::Free { alone.pop_front() } else { None };
        *self = Self { alone, crowds };
        let next = next.into_iter().map(|waiter| (waiter.bed, Woken::ToLook));
        let answered = crowds_met.into_iter().chain(met);
        next.chain(answered.map(|waiter| (waiter.bed, Woken::Answered))).collect()
    }

    /// All are to be woken, and told nothing.
    fn rise_all(&mut self) -> Vec<(Bed, Woken)> {
        let Self { alone, crowds } = std::mem::take(self);
        let all = crowds.into_iter().chain(alone);
        all.map(|waiter| (waiter.bed, Woken::ToLook)).collect()
    }
}

/// Whether somebody who is woken may go to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Disk {
    Free,
    Taken,
}

impl Until {
    fn later(self, other: Self) -> Self {
        match (self, other) {
            (Self::Durable(one), Self::Durable(other)) => Self::Durable(one.max(other)),
            (one, _) => one,
        }
    }
}

impl Queue {
    /// Have this thread woken at the end of a turn.
    pub(super) fn lie_down(&mut self, until: Until) -> Bed {
        self.waiters.lie_down(until, self.taken)
    }

    /// Who is to be woken now, in that order.
    pub(super) fn risers(&mut self) -> Vec<(Bed, Woken)> {
        if self.health != Health::Good && !bug!(PoisonUntold) {
            return self.waiters.rise_all();
        }
        // And whoever was at the disk.
        let waiting = self.waiters.count();
        self.expected = if waiting > 0 { waiting + 1 } else { 0 };
        let (durable, written) = (self.durable.ack.seq, self.written.ack.seq);
        let is_free = self.turn == Turn::Free;
        let disk = if is_free && !bug!(TurnNotHandedOn) { Disk::Free } else { Disk::Taken };
        self.waiters.rise(disk, |until| match until {
            Until::Durable(seq) => seq <= durable,
            Until::Written(seq) => seq <= written,
            Until::Free => is_free,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What happens next, as far as it can.
    #[derive(Debug, Clone, Copy)]
    enum Happens {
        /// Somebody adds a record, and goes to the disk or waits.
        Append,
        /// Somebody adds a record that is only to be written, and goes to the disk if it is free.
        AppendBuffered,
        /// Somebody asks for a record that was added before.
        Ask(u64),
        /// Somebody who was woken to look does.
        Look(usize),
        TurnEnds,
    }

    fn happens() -> impl Strategy<Value = Happens> {
        prop_oneof![
            6 => Just(Happens::Append),
            1 => Just(Happens::AppendBuffered),
            1 => (0..8_u64).prop_map(Happens::Ask),
            3 => (0..4_usize).prop_map(Happens::Look),
            3 => Just(Happens::TurnEnds),
        ]
    }

    #[derive(Debug, Default)]
    struct World {
        waiters: Waiters,
        encoded: u64,
        taken: u64,
        durable: u64,
        /// Whether what is being written will be synced, if anybody is at the disk.
        at_disk: Option<bool>,
        asleep: Vec<(u64, Bed)>,
        awake: Vec<u64>,
    }

    impl World {
        /// What somebody does who has the lock and wants a record durable.
        fn want(&mut self, seq: u64) {
            if seq <= self.durable {
                return;
            }
            if self.at_disk.is_some() {
                let bed = self.waiters.lie_down(Until::Durable(seq), self.taken);
                self.asleep.push((seq, bed));
            } else {
                (self.at_disk, self.taken) = (Some(true), self.encoded);
            }
        }

        fn turn_ends(&mut self) {
            let Some(is_sync) = self.at_disk.take() else { return };
            if is_sync {
                self.durable = self.taken;
            }
            let durable = self.durable;
            let is_answered = |until| matches!(until, Until::Durable(seq) if seq <= durable);
            for (bed, why) in self.waiters.rise(Disk::Free, is_answered) {
                bed.wake(why);
            }
            self.asleep.retain(|(seq, bed)| {
                let woken = bed.0.get();
                assert!(woken != Some(&Woken::Answered) || *seq <= durable, "{seq} > {durable}");
                assert!(woken.is_some() || *seq > durable, "{seq} sleeps on");
                self.awake.extend((woken == Some(&Woken::ToLook)).then_some(*seq));
                woken.is_none()
            });
            assert_eq!(self.waiters.count(), self.asleep.len());
            assert!(self.awake.len() + usize::from(self.asleep.is_empty()) > 0, "nobody goes on");
        }

        fn look(&mut self, which: usize) {
            if !self.awake.is_empty() {
                let seq = self.awake.remove(which % self.awake.len());
                self.want(seq);
            }
        }
    }

    proptest! {
        /// Goal: whoever waits is woken once their record is durable and is not told so before; and as
        /// long as anybody sleeps somebody is at the disk, or awake on the way there.
        #[test]
        fn everybody_is_answered_and_nobody_too_soon(
            story in prop::collection::vec(happens(), 0..200),
        ) {
            let mut world = World::default();
            for happens in story {
                match happens {
                    Happens::Append => {
                        world.encoded += 1;
                        world.want(world.encoded);
                    }
                    Happens::AppendBuffered => {
                        world.encoded += 1;
                        if world.at_disk.is_none() {
                            (world.at_disk, world.taken) = (Some(false), world.encoded);
                        }
                    }
                    Happens::Ask(before) => world.want(world.encoded.saturating_sub(before)),
                    Happens::Look(which) => world.look(which),
                    Happens::TurnEnds => world.turn_ends(),
                }
            }
            // Those who are left come to their end without anybody new.
            let sleepers = world.asleep.len() + world.awake.len();
            for _ in 0..=2 * sleepers {
                world.turn_ends();
                world.look(0);
            }
            world.turn_ends();
            prop_assert!(world.asleep.is_empty() && world.awake.is_empty());
        }
    }
}
