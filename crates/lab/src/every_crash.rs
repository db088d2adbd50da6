//! Crash tests for harnesses: run a workload once, and run it again after a crash at every change
//! that the first run made to the disk.
//!
//! The first run executes only once: its crash points are recorded.

use std::fmt;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use plan_ledger::internals::sim::{Loss, SimDisk};

use super::restart::Restart;

/// A crash of the recorded run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crash {
    /// Number of the crash point, from 0.
    pub at: usize,
    /// How the machine restarted.
    pub restart: Restart,
    /// The mark of the disk at the crash.
    pub mark: u64,
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "crash at change {}, {}", self.at, self.restart)
    }
}

/// The number of crashes tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CrashCounts {
    pub points: usize,
    /// Runs after a crash.
    pub runs: usize,
}

/// A run that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrashFailure {
    /// The crash; `None` if the run without a crash failed.
    pub crash: Option<Crash>,
    /// The description of the failure.
    pub what: String,
}

impl fmt::Display for CrashFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.crash {
            Some(crash) => write!(f, "{crash}: {}", self.what),
            None => write!(f, "without a crash: {}", self.what),
        }
    }
}

impl std::error::Error for CrashFailure {}

/// Run a workload on a new disk, and record its crash points.
///
/// # Errors
/// The error of the workload.
pub fn record_crash_points<T, E>(
    workload: impl FnOnce(&SimDisk) -> Result<T, E>,
) -> Result<(T, Vec<SimDisk>), E> {
    let disk = SimDisk::new();
    disk.start_recording();
    let value = workload(&disk)?;
    Ok((value, disk.stop_recording()))
}

/// The restarts after each crash: a killed process, and power losses that lose all, none and some
/// of the unsynced changes.
#[must_use]
pub fn standard_restarts(at: usize, seed: u64) -> [Restart; 4] {
    let some = u64::try_from(at).unwrap_or(0) ^ seed;
    [
        Restart::Process,
        Restart::Power(Loss::Everything),
        Restart::Power(Loss::Nothing),
        Restart::Power(Loss::Some(some)),
    ]
}

/// Call `recover` with the disk after every crash and restart. `watch` gets the number of completed
/// crash points, and may stop.
///
/// # Errors
/// The first failure.
pub fn for_each_crash(
    points: &[SimDisk],
    seed: u64,
    jobs: NonZeroUsize,
    recover: impl Fn(&Crash, &SimDisk) -> Result<(), String> + Sync,
    watch: impl Fn(usize) -> ControlFlow<()> + Sync,
) -> Result<CrashCounts, CrashFailure> {
    let (next, done, runs) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let (is_over, failed) = (AtomicBool::new(false), Mutex::new(None));
    let work = || {
        while !is_over.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(point) = points.get(at) else { return };
            for restart in standard_restarts(at, seed) {
                let crash = Crash { at, restart, mark: point.mark() };
                let outcome = recover(&crash, &restart.of(point));
                runs.fetch_add(1, Ordering::Relaxed);
                if let Err(what) = outcome {
                    failed
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .get_or_insert(CrashFailure { crash: Some(crash), what });
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
        None => Ok(CrashCounts { points: done.into_inner(), runs: runs.into_inner() }),
    }
}

/// Crash a harness at every change that it makes to the disk, restart it in four ways each, and run
/// it to its end. `workload` starts or resumes the harness; `check` verifies the result.
///
/// # Errors
/// The first run that fails, or whose result is wrong.
pub fn every_crash<T>(
    workload: impl Fn(&SimDisk) -> Result<T, String> + Sync,
    check: impl Fn(&SimDisk, T) -> Result<(), String> + Sync,
) -> Result<CrashCounts, CrashFailure> {
    let failure = |what| CrashFailure { crash: None, what };
    let ((), points) = record_crash_points(|disk| check(disk, workload(disk)?)).map_err(failure)?;
    let recover = |_: &Crash, disk: &SimDisk| check(disk, workload(disk)?);
    let jobs = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    for_each_crash(&points, 0, jobs, recover, |_| ControlFlow::Continue(()))
}
