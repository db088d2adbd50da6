//! The threads that wait for a turn at the disk to end, each parked on a flag of its own.
//!
//! Invariants:
//! - Who is not answered by the end of a turn sleeps on, but for one, who goes to the disk next:
//!   with hundreds of threads, waking all of them would take longer than a sync.
//! - That one is woken first, and the others while it writes already.
//! - Whoever waits does so during a turn; so where nobody is at the disk, the next one is awake.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

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

/// Somebody who waits.
#[derive(Debug)]
pub(super) struct Waiter {
    until: Until,
    thread: Thread,
    is_woken: Arc<AtomicBool>,
}

/// What the waiter itself holds.
#[derive(Debug)]
pub(super) struct Bed(Arc<AtomicBool>);

impl Waiter {
    pub(super) fn wake(self) {
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

impl Bed {
    /// Sleep until somebody wakes this thread.
    pub(super) fn sleep(&self) {
        while !self.0.load(Ordering::Acquire) {
            std::thread::park();
        }
    }
}

impl Queue {
    /// Have this thread woken at the end of a turn.
    pub(super) fn lie_down(&mut self, until: Until) -> Bed {
        let is_woken = Arc::new(AtomicBool::new(false));
        let bed = Bed(is_woken.clone());
        self.waiters.push_back(Waiter { until, thread: std::thread::current(), is_woken });
        bed
    }

    /// Who is to be woken now, in that order.
    pub(super) fn risers(&mut self) -> VecDeque<Waiter> {
        if self.health != Health::Good && !bug!(PoisonUntold) {
            return std::mem::take(&mut self.waiters);
        }
        let (durable, written) = (self.durable.ack.seq, self.written.ack.seq);
        let is_free = self.turn == Turn::Free;
        let is_answered = |waiter: &Waiter| match waiter.until {
            Until::Durable(seq) => seq <= durable,
            Until::Written(seq) => seq <= written,
            Until::Free => is_free,
        };
        let waiters = std::mem::take(&mut self.waiters);
        let (mut risers, mut rest): (VecDeque<_>, VecDeque<_>) =
            waiters.into_iter().partition(is_answered);
        let others = risers.len() + rest.len();
        // And whoever was at the disk.
        self.expected = if others > 0 { others + 1 } else { 0 };
        if is_free
            && !bug!(TurnNotHandedOn)
            && let Some(next) = rest.pop_front()
        {
            risers.push_front(next);
        }
        self.waiters = rest;
        risers
    }
}
