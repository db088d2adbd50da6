//! Work that is done in pieces, by several threads where there are several.
//!
//! Invariants: who shares work ends with it, whatever happens; what comes of it does not depend on how
//! many they are. Left out on purpose: threads that outlive the work.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is called between two pieces of work, from any of the threads, with the bytes that are
/// done and the bytes that there are in all; it may ask to stop.
pub type Watch<'a> = &'a (dyn Fn(u64, u64) -> ControlFlow<()> + Sync);

/// How far those are who share some work, and whether they were asked to stop.
#[doc(hidden)]
pub struct Tally<'a> {
    watch: Watch<'a>,
    total: u64,
    done: AtomicU64,
    stopped: AtomicBool,
}

impl<'a> Tally<'a> {
    /// None of so many bytes is done.
    pub(crate) fn new(watch: Watch<'a>, total: u64) -> Self {
        Self { watch, total, done: AtomicU64::new(0), stopped: AtomicBool::new(false) }
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// So many bytes more are done.
    pub(crate) fn advance(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if (self.watch)(done.min(self.total), self.total).is_break() {
            self.stopped.store(true, Ordering::Relaxed);
        }
    }

    /// So many of them have to be done again.
    pub(crate) fn take_back(&self, bytes: u64) {
        self.done.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// What each piece of work came to, in the order of the pieces, which is also the order in which
/// they are begun. This thread is one of the `jobs`. A piece that panics ends in a panic here.
#[doc(hidden)]
pub fn share_out<T: Send, R: Send>(
    jobs: NonZeroUsize,
    pieces: Vec<T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let others = jobs.get().min(pieces.len()).saturating_sub(1);
    if others == 0 {
        return pieces.into_iter().map(work).collect();
    }
    let next = Mutex::new(pieces.into_iter().enumerate());
    let done = Mutex::new(Vec::new());
    let take = || lock(&next).next();
    let work_on = || {
        while let Some((place, piece)) = take() {
            let outcome = work(piece);
            lock(&done).push((place, outcome));
        }
    };
    std::thread::scope(|scope| {
        (0..others).for_each(|_| drop(scope.spawn(work_on)));
        work_on();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Neither lock is held while anything is worked on.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every piece is done once, and what it came to stands where the piece stood, for any
    /// number of jobs.
    #[test]
    fn each_piece_is_done_once_and_in_its_place() {
        for (jobs, count) in [(1, 0), (1, 5), (2, 1), (3, 100), (8, 3)] {
            let done = Mutex::new(0);
            let work = |piece: usize| {
                *lock(&done) += 1;
                piece * 10
            };
            let jobs = NonZeroUsize::new(jobs).unwrap();
            let outcomes = share_out(jobs, (0..count).collect(), work);
            assert_eq!(outcomes, (0..count).map(|piece| piece * 10).collect::<Vec<_>>());
            assert_eq!(*lock(&done), count);
        }
    }
}
