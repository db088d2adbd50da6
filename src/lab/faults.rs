//! Failing disks: every call of small workloads fails in every way, and what is left is examined;
//! then devices that break the contract, of which the engine must refuse, report, or be right.
//!
//! Invariant: a failure that keeps the contract costs nothing that was acknowledged. One that
//! breaks it may cost records, and never makes one up.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::ledger::Ledger;
use crate::sim::{Effect, Failure, Injected, Loss, Operation, OsError, Profile, Rule, SimDisk};
use crate::storage::Storage;

use super::case::{Broken, Case};
use super::explore::{Scope, film, model_of};
use super::model::{Model, Promise, Violation};
use super::op::{Op, words};
use super::oracle::{Depth, Doubt, Outcome, examine};
use super::restart::Restart;
use super::trial::{Trial, Weather, dir, environment, read};

/// What was tried of one kind of failure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Struck {
    /// How often it struck.
    pub faults: u64,
    /// Images that were examined after it.
    pub images: u64,
    /// Of a broken contract: images where nothing was missing.
    pub whole: u64,
    /// Images that were refused.
    pub refused: u64,
    /// Images of which what is missing was reported.
    pub reported: u64,
    /// Images that look like an earlier moment of the same ledger: no trace of the rest is left.
    pub earlier: u64,
}

/// What was tried.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Strikes {
    /// By kind of failure.
    pub kinds: BTreeMap<&'static str, Struck>,
    /// Histories of which every call was struck.
    pub workloads: u64,
    /// Histories that there are.
    pub workloads_all: u64,
}

const EIO: OsError = OsError::Io;

/// Failures that keep the contract.
fn failures() -> Vec<(&'static str, Operation, Failure)> {
    use Operation as On;
    let error = Failure::Error;
    vec![
        ("write fails, nothing done", On::Write, error(EIO, Effect::Nothing)),
        ("write fails, some sectors done", On::Write, error(EIO, Effect::Part(5))),
        ("write fails, all done", On::Write, error(EIO, Effect::Everything)),
        ("disk full in a write", On::Write, error(OsError::NoSpace, Effect::Prefix(512))),
        ("quota in a write", On::Write, error(OsError::Quota, Effect::Nothing)),
        ("sync fails, pages marked clean", On::Sync, error(EIO, Effect::Nothing)),
        ("sync fails, pages reverted", On::Sync, error(EIO, Effect::Revert)),
        ("sync fails, all done", On::Sync, error(EIO, Effect::Everything)),
        ("sync fails, crash follows", On::Sync, error(EIO, Effect::CrashIn(2))),
        ("sync of a folder fails", On::SyncDir, error(EIO, Effect::Nothing)),
        ("create fails", On::Create, error(EIO, Effect::Nothing)),
        ("rename fails, nothing done", On::Rename, error(EIO, Effect::Nothing)),
        ("rename fails, done", On::Rename, error(EIO, Effect::Everything)),
        ("set length fails", On::SetLength, error(OsError::NoSpace, Effect::Nothing)),
        ("remove fails", On::Remove, error(EIO, Effect::Nothing)),
        ("read fails", On::Read, error(EIO, Effect::Nothing)),
        ("open fails", On::Open, error(EIO, Effect::Nothing)),
        ("list fails", On::List, error(EIO, Effect::Nothing)),
    ]
}

/// Failures after which the engine may ask: a sector that is torn inside need not look torn.
fn torn_inside() -> Vec<(&'static str, Operation, Failure)> {
    let full = Failure::Error(OsError::NoSpace, Effect::Prefix(100));
    vec![("disk full inside of a sector", Operation::Write, full)]
}

/// Failures that break the contract.
fn lies() -> Vec<(&'static str, Operation, Failure)> {
    use Operation as On;
    let astray = Failure::MisdirectedWrite { path: None, offset: 4096 };
    vec![
        ("lost write", On::Write, Failure::LostWrite),
        ("misdirected write", On::Write, astray),
        ("lying sync", On::Sync, Failure::LyingSync),
        ("lying sync of a folder", On::SyncDir, Failure::LyingSync),
        ("bit rot at a write", On::Write, Failure::Rot(11)),
        ("bit rot at a sync", On::Sync, Failure::Rot(12)),
        ("bit rot at a read", On::Read, Failure::Rot(13)),
        ("short read", On::Read, Failure::ShortRead(40)),
    ]
}

/// What is asked after each call that was struck; it may end the run.
pub type WatchStrikes<'a> = &'a dyn Fn(&Strikes) -> ControlFlow<()>;

/// Strike every call of every workload of up to `ops` operations with every failure, or as many as
/// the watch lets happen.
///
/// # Errors
/// The first case that breaks a promise.
pub fn strike(ops: u32, seed: u64, watch: WatchStrikes<'_>) -> Result<Strikes, Broken> {
    let scope = Scope { ops, seed, ..Scope::WHOLE };
    let mut strikes = Strikes { workloads_all: scope.workloads(), ..Strikes::default() };
    for number in 0..scope.workloads() {
        if strike_all(&scope.workload(number), seed, &mut strikes, watch)?.is_break() {
            break;
        }
        strikes.workloads += 1;
    }
    Ok(strikes)
}

/// Strike every call of one workload with every failure.
///
/// # Errors
/// The first case that breaks a promise.
pub fn strike_one(ops: &[Op], seed: u64) -> Result<Strikes, Broken> {
    let mut strikes = Strikes { workloads: 1, workloads_all: 1, ..Strikes::default() };
    let _ = strike_all(ops, seed, &mut strikes, &|_| ControlFlow::Continue(()))?;
    Ok(strikes)
}

fn strike_all(
    ops: &[Op],
    seed: u64,
    strikes: &mut Strikes,
    watch: WatchStrikes<'_>,
) -> Result<ControlFlow<()>, Broken> {
    let kinds = [
        (Weather::Failing, failures()),
        (Weather::Tearing, torn_inside()),
        (Weather::Lying, lies()),
    ];
    for (weather, all) in kinds {
        for (name, operation, failure) in all {
            let strike = Strike { ops, weather, operation, failure, seed };
            let mut nth = 1;
            while strike.at(nth, strikes.kinds.entry(name).or_default())? {
                nth += 1;
                if watch(strikes).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
    }
    let beside = strikes.kinds.entry("torn writes harm what is beside").or_default();
    harm_neighbours(ops, seed, beside)?;
    Ok(ControlFlow::Continue(()))
}

/// Take the power away at every change of a workload, on a device whose torn writes turn what
/// stands beside them into garbage.
fn harm_neighbours(ops: &[Op], seed: u64, struck: &mut Struck) -> Result<(), Broken> {
    let mut case = Case { device: Profile::NonPsow, ops: ops.to_vec(), stops: Vec::new() };
    let broken = |case: &Case, violation, disk: Option<&SimDisk>| Broken {
        case: case.to_string(),
        again: format!("lab run --ops 0 --faults {} --seed {seed}", ops.len()),
        violation,
        story: disk
            .map(SimDisk::injected)
            .unwrap_or_default()
            .iter()
            .map(Injected::to_string)
            .collect(),
    };
    let (pictures, models) = film(&case).map_err(|violation| broken(&case, violation, None))?;
    for (number, picture) in pictures.iter().enumerate() {
        if picture.unsynced() == 0 {
            continue;
        }
        struck.faults += 1;
        for sample in 0..4 {
            let restart = Restart::Power(Loss::Some(seed ^ (struck.faults << 2 | sample)));
            let image = restart.of(picture);
            struck.images += 1;
            fail_closed(&image, &model_of(&models, picture), struck).map_err(|violation| {
                case.stops = vec![(number, restart)];
                broken(&case, violation, Some(&image))
            })?;
        }
    }
    Ok(())
}

struct Strike<'a> {
    ops: &'a [Op],
    weather: Weather,
    operation: Operation,
    failure: Failure,
    seed: u64,
}

impl Strike<'_> {
    /// Strike the n-th such call; whether there was one.
    fn at(&self, nth: u64, struck: &mut Struck) -> Result<bool, Broken> {
        let disk = SimDisk::new();
        disk.inject(Rule::next(self.failure_at(nth)).of(self.operation).nth(nth));
        let mut trial = Trial::new(disk, self.weather);
        let lived =
            trial.create().and_then(|()| self.ops.iter().try_for_each(|op| trial.take(*op)));
        lived.map_err(|violation| self.broken(nth, violation, &trial.disk))?;
        // A history with a kill has a story even so: whether there was such a call, the rule knows.
        if trial.disk.rules() > 0 {
            return Ok(false);
        }
        struck.faults += 1;
        for restart in self.ways(nth) {
            let image = restart.of(&trial.disk);
            struck.images += 1;
            let judged = match self.weather {
                Weather::Lying => fail_closed(&image, &trial.model, struck),
                Weather::Calm | Weather::Failing => keep(&image, &trial, Doubt::Wrong, struck),
                Weather::Tearing => keep(&image, &trial, Doubt::Right, struck),
            };
            judged.map_err(|violation| self.broken(nth, violation, &image))?;
        }
        Ok(true)
    }

    /// Each time another bit rots.
    fn failure_at(&self, nth: u64) -> Failure {
        match self.failure {
            Failure::Rot(seed) => Failure::Rot(seed ^ self.seed << 32 ^ nth << 8),
            ref other => other.clone(),
        }
    }

    fn ways(&self, nth: u64) -> [Restart; 4] {
        [
            Restart::Process,
            Restart::Power(Loss::Everything),
            Restart::Power(Loss::Nothing),
            Restart::Power(Loss::Some(self.seed ^ nth)),
        ]
    }

    fn broken(&self, nth: u64, violation: Violation, disk: &SimDisk) -> Broken {
        let case =
            format!("{} with {} number {nth}: {:?}", words(self.ops), self.operation, self.failure);
        let story = disk.injected().iter().map(Injected::to_string).collect();
        // Where a run stops first depends on these numbers alone.
        let again = format!("lab run --ops 0 --faults {} --seed {}", self.ops.len(), self.seed);
        Broken { case, again, violation, story }
    }
}

/// Hold an image against the model, as after any crash.
fn keep(
    image: &SimDisk,
    trial: &Trial,
    doubt: Doubt,
    struck: &mut Struck,
) -> Result<(), Violation> {
    let passed = examine(image, &trial.model, Depth::Full, doubt)?;
    struck.refused += u64::from(passed.outcome == Outcome::Asked);
    Ok(())
}

/// What an engine owes whose device broke its contract: it refuses, or it says what is missing,
/// or it serves an earlier moment of which nothing behind it is left; it makes nothing up.
fn fail_closed(image: &SimDisk, model: &Model, struck: &mut Struck) -> Result<(), Violation> {
    let opened = Ledger::open(&dir(), &environment(image));
    let storage: Arc<dyn Storage> = Arc::new(image.clone());
    let served = read(&storage, 1);
    let Ok(served) = served else {
        struck.refused += 1;
        return if opened.is_err() {
            Ok(())
        } else {
            Err(Violation::new(Promise::ErrorKinds, "opened, and cannot be read"))
        };
    };
    model.check_known(served.proven.iter().chain(&served.others))?;
    let kept = model.before_recovery(&served.proven);
    let last = kept.iter().chain(&served.others).map(|record| record.seq).max();
    if opened.is_err() {
        struck.refused += 1;
    } else if !served.damage.is_empty() {
        struck.reported += 1;
    } else if last.unwrap_or(0) < model.last_acked() {
        model.check_prefix(kept)?;
        struck.earlier += 1;
    } else {
        model.check(&served.proven)?;
        struck.whole += 1;
    }
    Ok(())
}
