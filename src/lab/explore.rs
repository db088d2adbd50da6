//! All small histories: every workload of a few operations, a crash at every change that it makes
//! to the disk, every way to come up again, and a crash at every change of the recovery.
//!
//! Invariants:
//! - A crash during an earlier operation of a workload is a crash during the last one of a
//!   shorter workload: each is tried once.
//! - Two images with the same hash and the same model that so many crashes left are examined once.
//!   What is tried behind an image depends on these and the seed, so that the order of threads
//!   changes no figure. It may change which of many subsets are sampled behind an image, and so the
//!   number that all images together have: one thread (`jobs`) always gives the same.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::format::ContentHasher;
use crate::sim::{Injected, Profile, SimDisk};
use crate::storage::Storage;

use super::case::{Broken, Case};
use super::model::{Model, Violation};
use super::op::Op;
use super::oracle::{Depth, Doubt, examine};
use super::restart::{Coverage, restarts};
use super::tally::Tally;
use super::trial::{Trial, Weather, read};

/// How much is tried.
#[derive(Debug, Clone, Copy)]
pub struct Scope {
    /// The most operations of a workload.
    pub ops: u32,
    /// Up to so many things that are not synced, every subset of them is tried.
    pub subsets: usize,
    /// The same for crashes during a recovery.
    pub subsets_again: usize,
    /// How many parts are tried where there are more.
    pub samples: u64,
    /// Of so many recoveries from a second crash, one is crashed a third time.
    pub third: u64,
    /// What the samples, and the order of the longest workloads, depend on.
    pub seed: u64,
    /// How many threads.
    pub jobs: NonZeroUsize,
    /// On what kind of device: one that keeps the contract.
    pub device: Profile,
}

impl Scope {
    /// Every workload of up to four operations.
    pub const WHOLE: Self = Self {
        ops: 4,
        subsets: 6,
        subsets_again: 4,
        samples: 8,
        third: 8,
        seed: 1,
        jobs: NonZeroUsize::MIN,
        device: Profile::AtomicSector,
    };

    /// How many workloads there are.
    #[must_use]
    pub fn workloads(&self) -> u64 {
        (0..=self.ops).map(of_length).sum()
    }

    /// A workload by its number: shorter ones first, those of one length in an order that the
    /// seed decides.
    #[must_use]
    pub fn workload(&self, number: u64) -> Vec<Op> {
        let (mut length, mut left) = (0, number);
        while left >= of_length(length) {
            left -= of_length(length);
            length += 1;
        }
        // A power of two: multiplying with an odd number is a permutation.
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
const _: () = assert!(Op::ALL.len() == 8, "workloads are numbers to that base");

fn of_length(length: u32) -> u64 {
    OPS.pow(length)
}

/// What is asked after each workload; it may end the exploration.
pub type Watch<'a> = &'a (dyn Fn(&Tally) -> ControlFlow<()> + Sync);

/// Try all of a scope, or as much of it as the watch lets happen.
///
/// # Errors
/// The first case that was found to break a promise, with as few operations as possible.
pub fn explore(scope: &Scope, watch: Watch<'_>) -> Result<Tally, Broken> {
    let all = Tally { workloads_all: scope.workloads(), ..Tally::default() };
    let shared = Shared { tally: Mutex::new(all), ..Shared::new(scope) };
    std::thread::scope(|threads| {
        for _ in 0..scope.jobs.get() {
            threads.spawn(|| shared.work(watch));
        }
    });
    let broken = shared.broken.into_inner().unwrap_or_else(PoisonError::into_inner);
    match broken {
        Some(broken) => Err(shrink(scope, broken)),
        None => Ok(shared.tally.into_inner().unwrap_or_else(PoisonError::into_inner)),
    }
}

/// Try one case again.
///
/// # Errors
/// The promise that it breaks; or that there is no such case.
pub fn replay(case: &Case) -> Result<(), Broken> {
    let failed = |violation, disk: Option<&SimDisk>| broken(case, violation, disk);
    let (pictures, models) = film(case).map_err(|violation| failed(violation, None))?;
    let (mut pictures, mut model) = (pictures, None);
    for (picture, restart) in &case.stops {
        let Some(picture) = pictures.get(*picture) else { break };
        let model = model.get_or_insert_with(|| model_of(&models, picture));
        let image = restart.of(picture);
        let passed = examine(&image, model, Depth::Full, doubt(case.device));
        pictures = passed.map_err(|violation| failed(violation, Some(&image)))?.recovery;
    }
    Ok(())
}

/// Whether the engine may ask: where a sector may be torn inside, it need not look torn.
fn doubt(device: Profile) -> Doubt {
    match device {
        Profile::AtomicSector => Doubt::Wrong,
        Profile::OrderedAppend | Profile::Psow512 | Profile::Psow4096 | Profile::NonPsow => {
            Doubt::Right
        }
    }
}

/// The pictures of a workload's last operation, and the models that they name.
pub(super) fn film(case: &Case) -> Result<(Vec<SimDisk>, Vec<Model>), Violation> {
    let disk = SimDisk::new();
    disk.become_device(case.device);
    let mut trial = Trial::new(disk, Weather::Calm);
    let Some((last, first)) = case.ops.split_last() else {
        trial.begin_film();
        trial.create()?;
        return Ok((trial.disk.end_film(), trial.models));
    };
    trial.create()?;
    first.iter().try_for_each(|op| trial.take(*op))?;
    trial.begin_film();
    trial.take(*last)?;
    Ok((trial.disk.end_film(), trial.models))
}

pub(super) fn model_of(models: &[Model], picture: &SimDisk) -> Model {
    let mark = usize::try_from(picture.mark()).unwrap_or(usize::MAX);
    models.get(mark).cloned().unwrap_or_default()
}

fn broken(case: &Case, violation: Violation, disk: Option<&SimDisk>) -> Broken {
    let story = disk.map(SimDisk::injected).unwrap_or_default();
    let story = story.iter().map(Injected::to_string).collect();
    let again = format!("lab replay {case}");
    Broken { case: case.to_string(), again, violation, story }
}

/// A case of fewer operations that breaks a promise, if leaving one out does.
fn shrink(scope: &Scope, broken: Broken) -> Broken {
    let Some(case) = Case::parse(&broken.case) else { return broken };
    for place in 0..case.ops.len() {
        let mut ops = case.ops.clone();
        ops.remove(place);
        let calm = Scope { jobs: NonZeroUsize::MIN, ..*scope };
        if let Err(smaller) = explore_one(&calm, &ops) {
            return shrink(scope, smaller);
        }
    }
    broken
}

/// Try all crashes of the last operation of one workload.
///
/// # Errors
/// The first case that breaks a promise.
pub fn explore_one(scope: &Scope, ops: &[Op]) -> Result<Tally, Broken> {
    let shared = Shared::new(scope);
    let mut tally = Tally::default();
    shared.workload(ops, &mut tally)?;
    Ok(tally)
}

struct Shared<'a> {
    scope: &'a Scope,
    next: AtomicU64,
    is_over: AtomicBool,
    seen: Mutex<BTreeSet<[u8; 16]>>,
    tally: Mutex<Tally>,
    broken: Mutex<Option<Broken>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Shared<'a> {
    fn new(scope: &'a Scope) -> Self {
        Self {
            scope,
            next: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            seen: Mutex::new(BTreeSet::new()),
            tally: Mutex::new(Tally::default()),
            broken: Mutex::new(None),
        }
    }

    fn work(&self, watch: Watch<'_>) {
        while !self.is_over.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.scope.workloads() {
                return;
            }
            let mut tally = Tally::default();
            let outcome = self.workload(&self.scope.workload(number), &mut tally);
            let mut all = locked(&self.tally);
            all.add(&tally);
            if let Err(broken) = outcome {
                locked(&self.broken).get_or_insert(broken);
                self.is_over.store(true, Ordering::Relaxed);
            }
            if watch(&all).is_break() {
                self.is_over.store(true, Ordering::Relaxed);
            }
        }
    }

    fn workload(&self, ops: &[Op], tally: &mut Tally) -> Result<(), Broken> {
        let case = Case { device: self.scope.device, ops: ops.to_vec(), stops: Vec::new() };
        let (pictures, models) = film(&case).map_err(|violation| broken(&case, violation, None))?;
        tally.workloads += 1;
        for (number, picture) in pictures.iter().enumerate() {
            let model = model_of(&models, picture);
            look_on(&case, picture, &model)?;
            let seed = self.seed(&picture.digest());
            let (ways, coverage) = restarts(picture, self.scope.subsets, self.scope.samples, seed);
            tally.points += 1;
            tally.points_whole += u64::from(coverage == Coverage::All);
            for restart in ways {
                let case = case.and(number, restart);
                let image = restart.of(picture);
                tally.images += 1;
                let Some(key) = self.first_time(&image, (&model, 1), tally) else { continue };
                tally.distinct += 1;
                let passed = examine(&image, &model, Depth::Full, doubt(case.device))
                    .map_err(|violation| broken(&case, violation, Some(&image)))?;
                tally.count(passed.outcome);
                self.again(&case, &passed.recovery, &model, &key, tally)?;
            }
        }
        Ok(())
    }

    /// Crash the recovery from an image, wherever it changes something.
    fn again(
        &self,
        case: &Case,
        recovery: &[SimDisk],
        model: &Model,
        key: &[u8; 32],
        tally: &mut Tally,
    ) -> Result<(), Broken> {
        for (number, picture) in recovery.iter().enumerate() {
            let seed = self.seed(key);
            let (ways, coverage) = restarts(picture, self.scope.subsets_again, 2, seed);
            tally.points_again += 1;
            tally.points_again_whole += u64::from(coverage == Coverage::All);
            for restart in ways {
                let case = case.and(number, restart);
                let image = restart.of(picture);
                tally.images_again += 1;
                let Some(key) = self.first_time(&image, (model, 2), tally) else { continue };
                tally.distinct_again += 1;
                let passed = examine(&image, model, Depth::Recovery, doubt(case.device))
                    .map_err(|violation| broken(&case, violation, Some(&image)))?;
                tally.count(passed.outcome);
                if self.seed(&key).is_multiple_of(self.scope.third.max(1)) {
                    self.third(&case, &passed.recovery, model, &key, tally)?;
                }
            }
        }
        Ok(())
    }

    /// Crash a recovery once more, somewhere.
    fn third(
        &self,
        case: &Case,
        recovery: &[SimDisk],
        model: &Model,
        key: &[u8; 32],
        tally: &mut Tally,
    ) -> Result<(), Broken> {
        let count = u64::try_from(recovery.len()).unwrap_or(u64::MAX);
        let seed = self.seed(key) / self.scope.third.max(1);
        let number = usize::try_from(seed % count.max(1)).unwrap_or(0);
        let Some(picture) = recovery.get(number) else { return Ok(()) };
        let (ways, _) = restarts(picture, self.scope.subsets_again, 2, seed);
        let ways_count = u64::try_from(ways.len()).unwrap_or(u64::MAX).max(1);
        let way = usize::try_from(seed / count.max(1) % ways_count).unwrap_or(0);
        let Some(restart) = ways.get(way) else { return Ok(()) };
        let image = restart.of(picture);
        tally.images_third += 1;
        if self.first_time(&image, (model, 3), tally).is_some() {
            tally.distinct_third += 1;
            let case = case.and(number, *restart);
            let passed = examine(&image, model, Depth::Recovery, doubt(case.device))
                .map_err(|violation| broken(&case, violation, Some(&image)))?;
            tally.count(passed.outcome);
        }
        Ok(())
    }

    /// The hash of an image, its model and the number of crashes that left it, unless it was seen
    /// before.
    fn first_time(
        &self,
        image: &SimDisk,
        (model, crashes): (&Model, u8),
        tally: &mut Tally,
    ) -> Option<[u8; 32]> {
        let mut hasher = ContentHasher::default();
        hasher.update(&image.digest());
        hasher.update(&model.digest());
        hasher.update(&[crashes]);
        let key = hasher.finish();
        let short = *key.first_chunk::<16>()?;
        let is_new = locked(&self.seen).insert(short);
        if is_new {
            tally.digest.iter_mut().zip(key).for_each(|(sum, byte)| *sum ^= byte);
        }
        is_new.then_some(key)
    }

    fn seed(&self, key: &[u8; 32]) -> u64 {
        let word = key.last_chunk::<8>().map_or(0, |word| u64::from_le_bytes(*word));
        word ^ self.scope.seed
    }
}

/// Somebody reads while the writer is at work: what they are served is a prefix.
fn look_on(case: &Case, picture: &SimDisk, model: &Model) -> Result<(), Broken> {
    let copy = picture.fork();
    let storage: Arc<dyn Storage> = Arc::new(copy.clone());
    match read(&storage, 1) {
        Ok(served) => model
            .check_prefix(&served.proven)
            .map_err(|violation| broken(case, violation, Some(&copy))),
        // It is being made.
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the order in which workloads are tried, and so that of threads, changes no figure.

    use super::*;

    /// Story: an image that a crash in a recovery left was counted as met, and one behind which
    /// less is tried; who met it later as one that a first crash left tried no more. So the figures of
    /// several threads differed from run to run, and some recoveries were not crashed.
    #[test]
    fn the_order_of_workloads_changes_no_figure() {
        let device = Profile::Psow512;
        let scope = Scope { ops: 2, device, ..Scope::WHOLE };
        let explored = |numbers: &mut dyn Iterator<Item = u64>| {
            let shared = Shared::new(&scope);
            let mut tally = Tally::default();
            for number in numbers {
                shared.workload(&scope.workload(number), &mut tally).unwrap();
            }
            tally
        };
        let forward = explored(&mut (0..scope.workloads()));
        let backward = explored(&mut (0..scope.workloads()).rev());
        let figures = |tally: &Tally| Tally { digest: [0; 32], ..*tally };
        assert_eq!(figures(&forward), figures(&backward));
        assert!(forward.distinct_third > 0, "{forward:?}");
    }
}
