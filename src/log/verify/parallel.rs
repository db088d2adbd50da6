//! A parallel map over pieces of work, and a counter for its progress.
//!
//! All threads end before the call returns, and the result does not depend on their number.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A progress callback: called from any thread between two pieces of work, with the bytes done and
/// the total. It may ask to stop.
pub type ProgressWatch<'a> = &'a (dyn Fn(u64, u64) -> ControlFlow<()> + Sync);

/// The progress of some shared work, and whether it was asked to stop.
#[doc(hidden)]
pub struct ProgressCounter<'a> {
    watch: ProgressWatch<'a>,
    total: u64,
    done: AtomicU64,
    stopped: AtomicBool,
}

impl<'a> ProgressCounter<'a> {
    /// Nothing of `total` bytes is done.
    pub(crate) fn new(watch: ProgressWatch<'a>, total: u64) -> Self {
        Self { watch, total, done: AtomicU64::new(0), stopped: AtomicBool::new(false) }
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Add bytes that are done.
    pub(crate) fn advance(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if (self.watch)(done.min(self.total), self.total).is_break() {
            self.stopped.store(true, Ordering::Relaxed);
        }
    }

    /// Subtract bytes that must be processed again.
    pub(crate) fn rewind(&self, bytes: u64) {
        self.done.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The results of the pieces, in the order in which they are started. `jobs` is the number of
/// threads, the calling thread included. If a piece panics, so does this call.
#[doc(hidden)]
pub fn parallel_map<T: Send, R: Send>(
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
    let work_loop = || {
        while let Some((index, piece)) = take() {
            let outcome = work(piece);
            lock(&done).push((index, outcome));
        }
    };
    std::thread::scope(|scope| {
        (0..others).for_each(|_| drop(scope.spawn(work_loop)));
        work_loop();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Neither lock is held while anything is worked on.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each piece is processed once, and the results are in order, for any number of jobs.
    #[test]
    fn each_piece_is_processed_once_in_order() {
        for (jobs, count) in [(1, 0), (1, 5), (2, 1), (3, 100), (8, 3)] {
            let done = Mutex::new(0);
            let work = |piece: usize| {
                *lock(&done) += 1;
                piece * 10
            };
            let jobs = NonZeroUsize::new(jobs).unwrap();
            let outcomes = parallel_map(jobs, (0..count).collect(), work);
            assert_eq!(outcomes, (0..count).map(|piece| piece * 10).collect::<Vec<_>>());
            assert_eq!(*lock(&done), count);
        }
    }
}
