//! Enumerates small workloads: every sequence of a few operations, a crash at every change that it
//! makes to the disk, every restart, and a crash at every change of the recovery.
//!
//! Invariants:
//! - Only crashes of the last operation are tried: a crash of an earlier operation is a crash of the
//!   last operation of a shorter workload.
//! - Images with the same hash, model and number of crashes are examined once. The crashes that
//!   follow an image depend only on these and on the seed, so the order of threads changes no
//!   count. It may change the sampled subsets and therefore the digest of all images; with one
//!   thread (`jobs`) the digest is always the same.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plan_ledger::internals::format::ContentHasher;
use plan_ledger::internals::sim::{InjectedFault, Profile, SimDisk};
use plan_ledger::internals::storage::Storage;

use super::case::{Case, FailingCase};
use super::model::{Model, Violation};
use super::op::Op;
use super::oracle::{Ambiguity, Depth, examine};
use super::report::ExploreReport;
use super::restart::{Coverage, list_restarts};
use super::trial::{DiskFaults, Trial, read};

/// The scope of an exploration.
#[derive(Debug, Clone, Copy)]
pub struct ExploreScope {
    /// The maximum number of operations of a workload.
    pub ops: u32,
    /// Up to this number of unsynced changes, every subset of them is tried.
    pub subsets: usize,
    /// The same for crashes during a recovery.
    pub subsets_again: usize,
    /// With more unsynced changes, this number of random subsets is tried.
    pub samples: u64,
    /// One in this number of recoveries from a second crash is crashed a third time.
    pub third: u64,
    /// The seed of the samples and of the order of workloads.
    pub seed: u64,
    /// The number of threads.
    pub jobs: NonZeroUsize,
    /// The device profile, which must keep the contract.
    pub device: Profile,
}

impl ExploreScope {
    /// Every workload of up to four operations.
    pub const FULL: Self = Self {
        ops: 4,
        subsets: 6,
        subsets_again: 4,
        samples: 8,
        third: 8,
        seed: 1,
        jobs: NonZeroUsize::MIN,
        device: Profile::AtomicSector,
    };

    /// The number of workloads.
    #[must_use]
    pub fn workloads(&self) -> u64 {
        (0..=self.ops).map(of_length).sum()
    }

    /// A workload by its number: shorter ones first, those of one length in a seeded order.
    #[must_use]
    pub fn workload(&self, number: u64) -> Vec<Op> {
        let (mut length, mut left) = (0, number);
        while left >= of_length(length) {
            left -= of_length(length);
            length += 1;
        }
        // The count is a power of two, so that multiplying by an odd number is a permutation.
        let odd = self.seed.wrapping_mul(2) | 1;
        let mut left = left.wrapping_mul(odd).wrapping_add(self.seed) % of_length(length);
        let mut ops = Vec::new();
        for _ in 0..length {
            let [low, ..] = (left % OPS).to_le_bytes();
            ops.extend(Op::ALL.get(usize::from(low)));
            left /= OPS;
        }
        ops
    }
}

const OPS: u64 = 8;
const _: () = assert!(Op::ALL.len() == 8, "workloads are numbers in base 8");

fn of_length(length: u32) -> u64 {
    OPS.pow(length)
}

/// Called after each workload. If it returns `Break`, the exploration stops.
pub type ExploreWatch<'a> = &'a (dyn Fn(&ExploreReport) -> ControlFlow<()> + Sync);

/// Explore a scope until it is exhausted or `watch` stops.
///
/// # Errors
/// The first failing case, with as few operations as possible.
pub fn explore(
    scope: &ExploreScope,
    watch: ExploreWatch<'_>,
) -> Result<ExploreReport, FailingCase> {
    explore_images(scope, watch).map(|(report, _)| report)
}

/// The content hash of an image: all that the next process can observe. It covers neither the history nor
/// the number of crashes, so that the different images of several explorations can be counted.
pub type ImageHash = [u8; 16];

/// Explore, and return the hash of each different image that was examined.
///
/// # Errors
/// The same as of [`explore`].
pub fn explore_images(
    scope: &ExploreScope,
    watch: ExploreWatch<'_>,
) -> Result<(ExploreReport, BTreeSet<ImageHash>), FailingCase> {
    let all = ExploreReport { workloads_all: scope.workloads(), ..ExploreReport::default() };
    let shared = Shared { report: Mutex::new(all), ..Shared::new(scope) };
    std::thread::scope(|threads| {
        for _ in 0..scope.jobs.get() {
            threads.spawn(|| shared.work(watch));
        }
    });
    let failing = locked(&shared.failing).take();
    match failing {
        Some(failing) => Err(shrink(scope, failing)),
        None => Ok((*locked(&shared.report), std::mem::take(&mut locked(&shared.images)))),
    }
}

/// Replay one case.
///
/// # Errors
/// The case violates a guarantee.
pub fn replay(case: &Case) -> Result<(), FailingCase> {
    let failed = |violation, disk: Option<&SimDisk>| failing_case(case, violation, disk);
    let (points, models) = crash_points(case).map_err(|violation| failed(violation, None))?;
    let (mut points, mut model) = (points, None);
    for (number, restart) in &case.crashes {
        let Some(point) = points.get(*number) else { break };
        let model = model.get_or_insert_with(|| model_of(&models, point));
        let image = restart.of(point);
        let examined = examine(&image, model, Depth::Full, ambiguity(case.device));
        points = examined.map_err(|violation| failed(violation, Some(&image)))?.recovery;
    }
    Ok(())
}

/// Whether the engine may report an ambiguous end: a sector that is torn inside does not always
/// look torn.
fn ambiguity(device: Profile) -> Ambiguity {
    match device {
        Profile::AtomicSector => Ambiguity::Forbidden,
        Profile::OrderedAppend | Profile::Psow512 | Profile::Psow4096 | Profile::NonPsow => {
            Ambiguity::Allowed
        }
    }
}

/// The crash points of the last operation of a workload, and the models that their marks identify.
pub(super) fn crash_points(case: &Case) -> Result<(Vec<SimDisk>, Vec<Model>), Violation> {
    let disk = SimDisk::new();
    disk.set_profile(case.device);
    let mut trial = Trial::new(disk, DiskFaults::None);
    let Some((last, first)) = case.ops.split_last() else {
        trial.start_recording();
        trial.create()?;
        return Ok((trial.disk.stop_recording(), trial.models));
    };
    trial.create()?;
    first.iter().try_for_each(|op| trial.run(*op))?;
    trial.start_recording();
    trial.run(*last)?;
    Ok((trial.disk.stop_recording(), trial.models))
}

pub(super) fn model_of(models: &[Model], point: &SimDisk) -> Model {
    let mark = usize::try_from(point.mark()).unwrap_or(usize::MAX);
    models.get(mark).cloned().unwrap_or_default()
}

fn failing_case(case: &Case, violation: Violation, disk: Option<&SimDisk>) -> FailingCase {
    let history = disk.map(SimDisk::injected).unwrap_or_default();
    let history = history.iter().map(InjectedFault::to_string).collect();
    let replay = format!("lab replay {case}");
    FailingCase { case: case.to_string(), replay, violation, history }
}

/// Remove operations from a failing case as long as it still fails.
fn shrink(scope: &ExploreScope, failing: FailingCase) -> FailingCase {
    let Some(case) = Case::parse(&failing.case) else { return failing };
    for index in 0..case.ops.len() {
        let mut ops = case.ops.clone();
        ops.remove(index);
        let single = ExploreScope { jobs: NonZeroUsize::MIN, ..*scope };
        if let Err(smaller) = explore_one(&single, &ops) {
            return shrink(scope, smaller);
        }
    }
    failing
}

/// Try all crashes of the last operation of one workload.
///
/// # Errors
/// The first failing case.
pub fn explore_one(scope: &ExploreScope, ops: &[Op]) -> Result<ExploreReport, FailingCase> {
    let shared = Shared::new(scope);
    let mut report = ExploreReport::default();
    shared.workload(ops, &mut report)?;
    Ok(report)
}

struct Shared<'a> {
    scope: &'a ExploreScope,
    next: AtomicU64,
    is_over: AtomicBool,
    seen: Mutex<BTreeSet<[u8; 16]>>,
    images: Mutex<BTreeSet<ImageHash>>,
    report: Mutex<ExploreReport>,
    failing: Mutex<Option<FailingCase>>,
}

impl<'a> Shared<'a> {
    fn new(scope: &'a ExploreScope) -> Self {
        Self {
            scope,
            next: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            seen: Mutex::new(BTreeSet::new()),
            images: Mutex::new(BTreeSet::new()),
            report: Mutex::new(ExploreReport::default()),
            failing: Mutex::new(None),
        }
    }

    fn work(&self, watch: ExploreWatch<'_>) {
        while !self.is_over.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.scope.workloads() {
                return;
            }
            let mut report = ExploreReport::default();
            let outcome = self.workload(&self.scope.workload(number), &mut report);
            let mut all = locked(&self.report);
            all.add(&report);
            if let Err(failing) = outcome {
                locked(&self.failing).get_or_insert(failing);
                self.is_over.store(true, Ordering::Relaxed);
            }
            if watch(&all).is_break() {
                self.is_over.store(true, Ordering::Relaxed);
            }
        }
    }

    fn workload(&self, ops: &[Op], report: &mut ExploreReport) -> Result<(), FailingCase> {
        let case = Case { device: self.scope.device, ops: ops.to_vec(), crashes: Vec::new() };
        let (points, models) =
            crash_points(&case).map_err(|violation| failing_case(&case, violation, None))?;
        report.workloads += 1;
        for (number, point) in points.iter().enumerate() {
            let model = model_of(&models, point);
            read_concurrently(&case, point, &model)?;
            let seed = self.seed(&point.digest());
            let (restarts, coverage) =
                list_restarts(point, self.scope.subsets, self.scope.samples, seed);
            report.points += 1;
            report.points_whole += u64::from(coverage == Coverage::All);
            for restart in restarts {
                let case = case.with_crash(number, restart);
                let image = restart.of(point);
                report.images += 1;
                let Some(key) = self.first_visit(&image, &model, 1, report) else { continue };
                report.distinct += 1;
                let examined = examine(&image, &model, Depth::Full, ambiguity(case.device))
                    .map_err(|violation| failing_case(&case, violation, Some(&image)))?;
                report.count(examined.outcome);
                self.crash_recovery(&case, &examined.recovery, &model, &key, report)?;
            }
        }
        Ok(())
    }

    /// Crash the recovery from an image at every change that it makes.
    fn crash_recovery(
        &self,
        case: &Case,
        recovery: &[SimDisk],
        model: &Model,
        key: &[u8; 32],
        report: &mut ExploreReport,
    ) -> Result<(), FailingCase> {
        for (number, point) in recovery.iter().enumerate() {
            let seed = self.seed(key);
            let (restarts, coverage) = list_restarts(point, self.scope.subsets_again, 2, seed);
            report.points_again += 1;
            report.points_again_whole += u64::from(coverage == Coverage::All);
            for restart in restarts {
                let case = case.with_crash(number, restart);
                let image = restart.of(point);
                report.images_again += 1;
                let Some(key) = self.first_visit(&image, model, 2, report) else { continue };
                report.distinct_again += 1;
                let examined = examine(&image, model, Depth::Recovery, ambiguity(case.device))
                    .map_err(|violation| failing_case(&case, violation, Some(&image)))?;
                report.count(examined.outcome);
                if self.seed(&key).is_multiple_of(self.scope.third.max(1)) {
                    self.crash_again(&case, &examined.recovery, model, &key, report)?;
                }
            }
        }
        Ok(())
    }

    /// Crash a recovery a third time, at one crash point.
    fn crash_again(
        &self,
        case: &Case,
        recovery: &[SimDisk],
        model: &Model,
        key: &[u8; 32],
        report: &mut ExploreReport,
    ) -> Result<(), FailingCase> {
        let count = u64::try_from(recovery.len()).unwrap_or(u64::MAX);
        let seed = self.seed(key) / self.scope.third.max(1);
        let number = usize::try_from(seed % count.max(1)).unwrap_or(0);
        let Some(point) = recovery.get(number) else { return Ok(()) };
        let (restarts, _) = list_restarts(point, self.scope.subsets_again, 2, seed);
        let restart_count = u64::try_from(restarts.len()).unwrap_or(u64::MAX).max(1);
        let index = usize::try_from(seed / count.max(1) % restart_count).unwrap_or(0);
        let Some(restart) = restarts.get(index) else { return Ok(()) };
        let image = restart.of(point);
        report.images_third += 1;
        if self.first_visit(&image, model, 3, report).is_some() {
            report.distinct_third += 1;
            let case = case.with_crash(number, *restart);
            let examined = examine(&image, model, Depth::Recovery, ambiguity(case.device))
                .map_err(|violation| failing_case(&case, violation, Some(&image)))?;
            report.count(examined.outcome);
        }
        Ok(())
    }

    /// The hash of an image, its model and its number of crashes, unless it was visited before.
    fn first_visit(
        &self,
        image: &SimDisk,
        model: &Model,
        crashes: u8,
        report: &mut ExploreReport,
    ) -> Option<[u8; 32]> {
        let content = image.digest();
        let mut hasher = ContentHasher::default();
        hasher.update(&content);
        hasher.update(&model.digest());
        hasher.update(&[crashes]);
        let key = hasher.finish();
        let short = *key.first_chunk::<16>()?;
        let is_new = locked(&self.seen).insert(short);
        if is_new {
            locked(&self.images).insert(*content.first_chunk()?);
            report.digest.iter_mut().zip(key).for_each(|(sum, byte)| *sum ^= byte);
        }
        is_new.then_some(key)
    }

    fn seed(&self, key: &[u8; 32]) -> u64 {
        let word = key.last_chunk::<8>().map_or(0, |word| u64::from_le_bytes(*word));
        word ^ self.scope.seed
    }
}

/// Read while the writer is active: a reader must serve a prefix.
fn read_concurrently(case: &Case, point: &SimDisk, model: &Model) -> Result<(), FailingCase> {
    let copy = point.fork();
    let storage: Arc<dyn Storage> = Arc::new(copy.clone());
    match read(&storage, 1) {
        Ok(served) => model
            .check_prefix(&served.durable)
            .map_err(|violation| failing_case(case, violation, Some(&copy))),
        // The ledger is being created.
        Err(_) => Ok(()),
    }
}

/// Locks a mutex. Its value stays valid after a panic of another thread, since no invariant spans two
/// critical sections.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    //! Goal: the order of workloads, and so of threads, changes no count.

    use super::*;
    use plan_ledger::internals::sim::sweep;

    /// Story: an image after a second crash counted as visited. When the same image came up later after a
    /// first crash, of which more is tried, it was skipped. So the counts of several threads differed
    /// from run to run, and some recoveries were not crashed.
    #[test]
    fn sweep_workload_order_changes_no_count() {
        let device = Profile::Psow512;
        let scope = ExploreScope { ops: 2, device, ..ExploreScope::FULL };
        let explored = |numbers: &[u64]| {
            let shared = Shared::new(&scope);
            let mut report = ExploreReport::default();
            for number in numbers {
                shared.workload(&scope.workload(*number), &mut report).unwrap();
            }
            report
        };
        let numbers: Vec<u64> = (0..scope.workloads()).step_by(sweep(7, 1, 1)).collect();
        let reversed: Vec<u64> = numbers.iter().rev().copied().collect();
        let (forward, backward) = std::thread::scope(|threads| {
            let backward = threads.spawn(|| explored(&reversed));
            (explored(&numbers), backward.join().unwrap())
        });
        let counts = |report: &ExploreReport| ExploreReport { digest: [0; 32], ..*report };
        assert_eq!(counts(&forward), counts(&backward));
        assert!(forward.distinct_third > 0, "{forward:?}");
    }

    /// Goal: an image has one hash, whatever device and history led to it, so that two explorations can be
    /// counted together.
    #[test]
    fn equal_images_of_two_devices_have_one_hash() {
        let images = |device| {
            let scope = ExploreScope { ops: 0, device, ..ExploreScope::FULL };
            explore_images(&scope, &|_| ControlFlow::Continue(())).unwrap()
        };
        let (report, atomic) = images(Profile::AtomicSector);
        let (_, torn) = images(Profile::Psow512);
        let count = u64::try_from(atomic.len()).unwrap();
        assert!(count <= report.examined() && count > report.distinct / 2, "{count} of {report:?}");
        assert_eq!(images(Profile::AtomicSector).1, atomic);
        // Killed processes and lost names leave the same images on both devices; torn sectors do not.
        assert!(atomic.intersection(&torn).count() > 10);
        assert!(torn.difference(&atomic).count() > 0);
    }
}
