//! The threads that wait for a flush to end: some with a parker of their own, most sharing one
//! parker that is woken with one call.
//!
//! Invariants:
//! - When a flush ends, waiters that it did not cover stay parked, except one, the next leader:
//!   with hundreds of threads, waking all of them would take longer than a sync.
//! - The next leader is woken first, and the others while it already writes.
//! - A thread parks only during a flush. So while none is in progress, the next leader is awake.
//! - All waiters of a shared parker wait for records that the same flush writes. While a shared
//!   parker exists, there is also an individual waiter, or a thread about to flush, for a record of
//!   that flush or a later one. That thread leads the flush, and the flush wakes the shared parker.

use std::collections::VecDeque;
use std::sync::Arc;

use super::sync::Signal;

/// The condition that a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitFor {
    /// This record is durable.
    Durable(u64),
    /// This record is in the file.
    Written(u64),
    /// No flush is in progress.
    Idle,
}

/// Why a thread was woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wakeup {
    /// The condition holds, and the log has not stopped: no check is needed.
    Done,
    /// To check the state again, and perhaps to become the leader.
    Recheck,
}

/// Parks one or many threads until they are woken with a reason.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parker(Arc<Signal<Wakeup>>);

impl Parker {
    /// Park until woken.
    pub(crate) fn park(&self) -> Wakeup {
        self.0.wait()
    }

    /// Wake all threads parked here.
    pub(crate) fn wake(self, why: Wakeup) {
        // Each parker is removed from the waiters and woken once.
        self.0.set(why);
    }
}

/// A waiting thread, or several that share a parker; `until` is the condition of the last of them.
#[derive(Debug)]
pub(crate) struct Waiter {
    until: WaitFor,
    count: usize,
    parker: Parker,
}

/// All waiting threads.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// Waiters with a parker of their own, in order of arrival.
    individual: VecDeque<Waiter>,
    shared: Vec<Waiter>,
}

impl Waiters {
    /// A parker for the current thread. A flush took the records up to `taken`; later ones wait for
    /// the next flush.
    pub(crate) fn park(&mut self, until: WaitFor, taken: u64) -> Parker {
        let is_next =
            |waiter: &Waiter| matches!(waiter.until, WaitFor::Durable(seq) if seq > taken);
        let waiter = Waiter { until, count: 1, parker: Parker::default() };
        if !is_next(&waiter) || !self.individual.back().is_some_and(is_next) {
            let parker = waiter.parker.clone();
            self.individual.push_back(waiter);
            return parker;
        }
        if let Some(group) = self.shared.last_mut().filter(|group| is_next(group)) {
            group.until = group.until.later(until);
            group.count += 1;
            return group.parker.clone();
        }
        let parker = waiter.parker.clone();
        self.shared.push(waiter);
        parker
    }

    pub(crate) fn count(&self) -> usize {
        self.individual.len() + self.shared.iter().map(|group| group.count).sum::<usize>()
    }

    /// The threads to wake: first the next leader, if one is to be elected, then all that are done.
    pub(crate) fn take_woken(
        &mut self,
        elect_leader: bool,
        is_answered: impl Fn(WaitFor) -> bool,
    ) -> Vec<(Parker, Wakeup)> {
        let Self { individual, shared } = std::mem::take(self);
        let is_met = |waiter: &Waiter| is_answered(waiter.until);
        let (met, mut individual): (VecDeque<_>, VecDeque<_>) =
            individual.into_iter().partition(is_met);
        let (shared_met, shared): (Vec<_>, Vec<_>) = shared.into_iter().partition(is_met);
        let next = if elect_leader { individual.pop_front() } else { None };
        *self = Self { individual, shared };
        let next = next.into_iter().map(|waiter| (waiter.parker, Wakeup::Recheck));
        let answered = shared_met.into_iter().chain(met);
        next.chain(answered.map(|waiter| (waiter.parker, Wakeup::Done))).collect()
    }

    /// All threads, to be woken without a result.
    pub(crate) fn take_all(&mut self) -> Vec<(Parker, Wakeup)> {
        let Self { individual, shared } = std::mem::take(self);
        let all = shared.into_iter().chain(individual);
        all.map(|waiter| (waiter.parker, Wakeup::Recheck)).collect()
    }
}

impl WaitFor {
    fn later(self, other: Self) -> Self {
        match (self, other) {
            (Self::Durable(one), Self::Durable(other)) => Self::Durable(one.max(other)),
            (one, _) => one,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One event of the simulation; an event that is impossible is skipped.
    #[derive(Debug, Clone, Copy)]
    enum Event {
        /// A thread appends a record, and becomes the leader or waits.
        Append,
        /// A thread appends a buffered record, and becomes the leader if there is none.
        AppendBuffered,
        /// A thread waits for an earlier record.
        Ask(u64),
        /// A woken thread checks the state.
        Check(usize),
        FlushEnds,
    }

    fn events_strategy() -> impl Strategy<Value = Event> {
        prop_oneof![
            6 => Just(Event::Append),
            1 => Just(Event::AppendBuffered),
            1 => (0..8_u64).prop_map(Event::Ask),
            3 => (0..4_usize).prop_map(Event::Check),
            3 => Just(Event::FlushEnds),
        ]
    }

    #[derive(Debug, Default)]
    struct Simulation {
        waiters: Waiters,
        encoded: u64,
        taken: u64,
        durable: u64,
        /// Whether the flush in progress ends with a sync; `None` without a flush.
        flush_syncs: Option<bool>,
        parked: Vec<(u64, Parker)>,
        awake: Vec<u64>,
    }

    impl Simulation {
        /// A thread with the lock wants a record durable.
        fn want(&mut self, seq: u64) {
            if seq <= self.durable {
                return;
            }
            if self.flush_syncs.is_some() {
                let parker = self.waiters.park(WaitFor::Durable(seq), self.taken);
                self.parked.push((seq, parker));
            } else {
                (self.flush_syncs, self.taken) = (Some(true), self.encoded);
            }
        }

        fn flush_ends(&mut self) {
            let Some(is_sync) = self.flush_syncs.take() else { return };
            if is_sync {
                self.durable = self.taken;
            }
            let durable = self.durable;
            let is_answered = |until| matches!(until, WaitFor::Durable(seq) if seq <= durable);
            for (parker, why) in self.waiters.take_woken(true, is_answered) {
                parker.wake(why);
            }
            self.parked.retain(|(seq, parker)| {
                let woken = parker.0.get();
                assert!(woken != Some(Wakeup::Done) || *seq <= durable, "{seq} > {durable}");
                assert!(woken.is_some() || *seq > durable, "{seq} stays parked");
                self.awake.extend((woken == Some(Wakeup::Recheck)).then_some(*seq));
                woken.is_none()
            });
            assert_eq!(self.waiters.count(), self.parked.len());
            assert!(
                self.awake.len() + usize::from(self.parked.is_empty()) > 0,
                "no leader is awake"
            );
        }

        fn check(&mut self, which: usize) {
            if !self.awake.is_empty() {
                let seq = self.awake.remove(which % self.awake.len());
                self.want(seq);
            }
        }
    }

    proptest! {
        /// A waiter is woken once its record is durable and never before. While a thread is parked,
        /// a flush is in progress or the next leader is awake.
        #[test]
        fn every_waiter_is_woken_and_none_too_early(
            events in prop::collection::vec(events_strategy(), 0..200),
        ) {
            let mut simulation = Simulation::default();
            for event in events {
                match event {
                    Event::Append => {
                        simulation.encoded += 1;
                        simulation.want(simulation.encoded);
                    }
                    Event::AppendBuffered => {
                        simulation.encoded += 1;
                        if simulation.flush_syncs.is_none() {
                            (simulation.flush_syncs, simulation.taken) = (Some(false), simulation.encoded);
                        }
                    }
                    Event::Ask(before) => simulation.want(simulation.encoded.saturating_sub(before)),
                    Event::Check(which) => simulation.check(which),
                    Event::FlushEnds => simulation.flush_ends(),
                }
            }
            // The remaining waiters finish without new arrivals.
            let waiting = simulation.parked.len() + simulation.awake.len();
            for _ in 0..=2 * waiting {
                simulation.flush_ends();
                simulation.check(0);
            }
            simulation.flush_ends();
            prop_assert!(simulation.parked.is_empty() && simulation.awake.is_empty());
        }
    }
}
