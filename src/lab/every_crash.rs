//! Crash tests of harnesses: one life on a simulated disk, filmed, and a second life after a crash
//! at every change of the first.
//!
//! Invariant: the first life is lived once. What a crash leaves is taken from its film.

use std::fmt;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::sim::{Loss, SimDisk};

use super::restart::Restart;

/// One crash of a life that was filmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crash {
    /// At which change of the disk, from 0.
    pub at: usize,
    /// How the machine came up again.
    pub restart: Restart,
    /// The mark on the disk at the crash.
    pub mark: u64,
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "crash at change {}, {}", self.at, self.restart)
    }
}

/// How many crashes were tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Crashes {
    /// Places.
    pub points: usize,
    /// Second lives.
    pub lives: usize,
}

/// A second life that did not end well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// Where; `None` if it was the life without a crash.
    pub crash: Option<Crash>,
    /// What was wrong.
    pub what: String,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.crash {
            Some(crash) => write!(f, "{crash}: {}", self.what),
            None => write!(f, "without any crash: {}", self.what),
        }
    }
}

impl std::error::Error for Failed {}

/// Live once on a new disk, and have every change of it filmed.
///
/// # Errors
/// What the life says.
pub fn film_of<T, E>(life: impl FnOnce(&SimDisk) -> Result<T, E>) -> Result<(T, Vec<SimDisk>), E> {
    let disk = SimDisk::new();
    disk.begin_film();
    let lived = life(&disk)?;
    Ok((lived, disk.end_film()))
}

/// The ways in which a machine comes up again after each crash: the process alone, and the power
/// with everything, nothing and some of what was not synced lost.
#[must_use]
pub fn usual_ways(at: usize, seed: u64) -> [Restart; 4] {
    let some = u64::try_from(at).unwrap_or(0) ^ seed;
    [
        Restart::Process,
        Restart::Power(Loss::Everything),
        Restart::Power(Loss::Nothing),
        Restart::Power(Loss::Some(some)),
    ]
}

/// Try every crash of a film: `second` is given the disk as it is then. `watch` is told how many
/// crashes are done, and may end it.
///
/// # Errors
/// The first crash that is found not to end well.
pub fn each_crash(
    film: &[SimDisk],
    seed: u64,
    jobs: NonZeroUsize,
    second: impl Fn(&Crash, &SimDisk) -> Result<(), String> + Sync,
    watch: impl Fn(usize) -> ControlFlow<()> + Sync,
) -> Result<Crashes, Failed> {
    let (next, done, lives) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let (is_over, failed) = (AtomicBool::new(false), Mutex::new(None));
    let work = || {
        while !is_over.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(picture) = film.get(at) else { return };
            for restart in usual_ways(at, seed) {
                let crash = Crash { at, restart, mark: picture.mark() };
                let outcome = second(&crash, &restart.of(picture));
                lives.fetch_add(1, Ordering::Relaxed);
                if let Err(what) = outcome {
                    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                    failed.get_or_insert(Failed { crash: Some(crash), what });
                    is_over.store(true, Ordering::Relaxed);
                    return;
                }
            }
            if watch(done.fetch_add(1, Ordering::Relaxed) + 1).is_break() {
                is_over.store(true, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|threads| {
        for _ in 0..jobs.get() {
            threads.spawn(work);
        }
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(failed) => Err(failed),
        None => Ok(Crashes { points: done.into_inner(), lives: lives.into_inner() }),
    }
}

/// Crash a harness at every change that it makes to the disk, in four ways each, and let it go
/// on. `life` starts or goes on, and comes to its end; `judge` says what must hold then.
///
/// # Errors
/// The first life that did not come to its end, or of which something does not hold.
pub fn every_crash<T>(
    life: impl Fn(&SimDisk) -> Result<T, String> + Sync,
    judge: impl Fn(&SimDisk, T) -> Result<(), String> + Sync,
) -> Result<Crashes, Failed> {
    let calm = |what| Failed { crash: None, what };
    let ((), film) = film_of(|disk| judge(disk, life(disk)?)).map_err(calm)?;
    let second = |_: &Crash, disk: &SimDisk| judge(disk, life(disk)?);
    let jobs = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    each_crash(&film, 0, jobs, second, |_| ControlFlow::Continue(()))
}
