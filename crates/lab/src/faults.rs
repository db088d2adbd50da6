//! Fault injection: every call of small workloads fails in every way, and the resulting images are
//! examined. Then the device breaks the contract, and the engine must refuse to open the ledger,
//! report the damage, or serve correct records.
//!
//! Invariant: a fault within the contract loses no acknowledged record. A fault that breaks the
//! contract may lose records, but the engine never invents one.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use plan_ledger::Ledger;
use plan_ledger::internals::sim::{
    FaultAction, FaultEffect, FaultRule, InjectedFault, Loss, Operation, OsError, Profile, SimDisk,
    dir, environment,
};
use plan_ledger::internals::storage::Storage;

use super::case::{Case, FailingCase};
use super::explore::{ExploreScope, crash_points, model_of};
use super::model::{Guarantee, Model, Violation};
use super::op::{Op, workload_name};
use super::oracle::{Ambiguity, Depth, ImageOutcome, examine};
use super::restart::Restart;
use super::trial::{DiskFaults, Trial, read};

/// The counts of one class of faults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Injected faults.
    pub faults: u64,
    /// Examined images.
    pub images: u64,
    /// Images without a missing record, on a device that breaks the contract.
    pub whole: u64,
    /// Images that the engine refused to open.
    pub refused: u64,
    /// Images with reported damage.
    pub reported: u64,
    /// Images that equal an earlier state of the ledger, without a trace of later records.
    pub earlier: u64,
}

/// The counts of fault injection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultReport {
    /// The counts by class of fault.
    pub classes: BTreeMap<&'static str, FaultCounts>,
    /// Workloads in which every call failed once.
    pub workloads: u64,
    /// Workloads in the scope.
    pub workloads_all: u64,
}

const EIO: OsError = OsError::Io;

/// Faults within the contract.
fn contract_faults() -> Vec<(&'static str, Operation, FaultAction)> {
    use Operation as On;
    let error = FaultAction::Error;
    vec![
        ("write fails, nothing done", On::Write, error(EIO, FaultEffect::Nothing)),
        ("write fails, some sectors done", On::Write, error(EIO, FaultEffect::Part(5))),
        ("write fails, all done", On::Write, error(EIO, FaultEffect::Everything)),
        ("disk full in a write", On::Write, error(OsError::NoSpace, FaultEffect::Prefix(512))),
        ("quota in a write", On::Write, error(OsError::Quota, FaultEffect::Nothing)),
        ("sync fails, pages marked clean", On::Sync, error(EIO, FaultEffect::Nothing)),
        ("sync fails, pages reverted", On::Sync, error(EIO, FaultEffect::Revert)),
        ("sync fails, all done", On::Sync, error(EIO, FaultEffect::Everything)),
        ("sync fails, crash follows", On::Sync, error(EIO, FaultEffect::CrashIn(2))),
        ("sync of a folder fails", On::SyncDir, error(EIO, FaultEffect::Nothing)),
        ("create fails", On::Create, error(EIO, FaultEffect::Nothing)),
        ("rename fails, nothing done", On::Rename, error(EIO, FaultEffect::Nothing)),
        ("rename fails, done", On::Rename, error(EIO, FaultEffect::Everything)),
        ("set length fails", On::SetLength, error(OsError::NoSpace, FaultEffect::Nothing)),
        ("remove fails", On::Remove, error(EIO, FaultEffect::Nothing)),
        ("read fails", On::Read, error(EIO, FaultEffect::Nothing)),
        ("open fails", On::Open, error(EIO, FaultEffect::Nothing)),
        ("list fails", On::List, error(EIO, FaultEffect::Nothing)),
    ]
}

/// Faults after which the engine may report an ambiguous end: a sector that is torn inside does not
/// always look torn.
fn torn_sectors() -> Vec<(&'static str, Operation, FaultAction)> {
    let full = FaultAction::Error(OsError::NoSpace, FaultEffect::Prefix(100));
    vec![("disk full inside of a sector", Operation::Write, full)]
}

/// Faults that break the contract.
fn contract_violations() -> Vec<(&'static str, Operation, FaultAction)> {
    use Operation as On;
    let misdirected = FaultAction::MisdirectedWrite { path: None, offset: 4096 };
    vec![
        ("lost write", On::Write, FaultAction::LostWrite),
        ("misdirected write", On::Write, misdirected),
        ("lying sync", On::Sync, FaultAction::LyingSync),
        ("lying sync of a folder", On::SyncDir, FaultAction::LyingSync),
        ("bit rot at a write", On::Write, FaultAction::BitRot(11)),
        ("bit rot at a sync", On::Sync, FaultAction::BitRot(12)),
        ("bit rot at a read", On::Read, FaultAction::BitRot(13)),
        ("short read", On::Read, FaultAction::ShortRead(40)),
    ]
}

/// Called after each injected fault. If it returns `Break`, the run stops.
pub type FaultWatch<'a> = &'a dyn Fn(&FaultReport) -> ControlFlow<()>;

/// Inject every fault into every call of every workload of up to `ops` operations, until `watch` stops.
///
/// # Errors
/// The first failing case.
pub fn inject_faults(
    ops: u32,
    seed: u64,
    watch: FaultWatch<'_>,
) -> Result<FaultReport, FailingCase> {
    let scope = ExploreScope { ops, seed, ..ExploreScope::FULL };
    let mut report = FaultReport { workloads_all: scope.workloads(), ..FaultReport::default() };
    for number in 0..scope.workloads() {
        if inject_all(&scope.workload(number), seed, &mut report, watch)?.is_break() {
            break;
        }
        report.workloads += 1;
    }
    Ok(report)
}

/// Inject every fault into every call of one workload.
///
/// # Errors
/// The first failing case.
pub fn inject_into(ops: &[Op], seed: u64) -> Result<FaultReport, FailingCase> {
    let mut report = FaultReport { workloads: 1, workloads_all: 1, ..FaultReport::default() };
    let _ = inject_all(ops, seed, &mut report, &|_| ControlFlow::Continue(()))?;
    Ok(report)
}

fn inject_all(
    ops: &[Op],
    seed: u64,
    report: &mut FaultReport,
    watch: FaultWatch<'_>,
) -> Result<ControlFlow<()>, FailingCase> {
    let classes = [
        (DiskFaults::Failing, contract_faults()),
        (DiskFaults::Tearing, torn_sectors()),
        (DiskFaults::Lying, contract_violations()),
    ];
    for (faults, all) in classes {
        for (name, operation, action) in all {
            let injection = Injection { ops, faults, operation, action, seed };
            let mut nth = 1;
            while injection.run(nth, report.classes.entry(name).or_default())? {
                nth += 1;
                if watch(report).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
    }
    let counts = report.classes.entry("torn writes harm what is beside").or_default();
    damage_neighbours(ops, seed, counts)?;
    Ok(ControlFlow::Continue(()))
}

/// Lose power at every change of a workload, on a device whose torn writes turn adjacent bytes into
/// garbage.
fn damage_neighbours(ops: &[Op], seed: u64, counts: &mut FaultCounts) -> Result<(), FailingCase> {
    let mut case = Case { device: Profile::NonPsow, ops: ops.to_vec(), crashes: Vec::new() };
    let failing = |case: &Case, violation, disk: Option<&SimDisk>| FailingCase {
        case: case.to_string(),
        replay: format!("lab run --ops 0 --faults {} --seed {seed}", ops.len()),
        violation,
        history: disk
            .map(SimDisk::injected)
            .unwrap_or_default()
            .iter()
            .map(InjectedFault::to_string)
            .collect(),
    };
    let (points, models) =
        crash_points(&case).map_err(|violation| failing(&case, violation, None))?;
    for (number, point) in points.iter().enumerate() {
        if point.unsynced() == 0 {
            continue;
        }
        counts.faults += 1;
        for sample in 0..4 {
            let restart = Restart::Power(Loss::Some(seed ^ (counts.faults << 2 | sample)));
            let image = restart.of(point);
            counts.images += 1;
            check_fail_closed(&image, &model_of(&models, point), counts).map_err(|violation| {
                case.crashes = vec![(number, restart)];
                failing(&case, violation, Some(&image))
            })?;
        }
    }
    Ok(())
}

struct Injection<'a> {
    ops: &'a [Op],
    faults: DiskFaults,
    operation: Operation,
    action: FaultAction,
    seed: u64,
}

impl Injection<'_> {
    /// Inject the fault into the n-th matching call. Returns whether there was one.
    fn run(&self, nth: u64, counts: &mut FaultCounts) -> Result<bool, FailingCase> {
        let disk = SimDisk::new();
        disk.inject(FaultRule::next(self.action_at(nth)).of(self.operation).nth(nth));
        let mut trial = Trial::new(disk, self.faults);
        let result =
            trial.create().and_then(|()| self.ops.iter().try_for_each(|op| trial.run(*op)));
        result.map_err(|violation| self.failing_case(nth, violation, &trial.disk))?;
        // The log also has the kill, so check the rule itself.
        if trial.disk.pending_rules() > 0 {
            return Ok(false);
        }
        counts.faults += 1;
        for restart in self.restarts(nth) {
            let image = restart.of(&trial.disk);
            counts.images += 1;
            let result = match self.faults {
                DiskFaults::Lying => check_fail_closed(&image, &trial.model, counts),
                DiskFaults::None | DiskFaults::Failing => {
                    check_kept(&image, &trial, Ambiguity::Forbidden, counts)
                }
                DiskFaults::Tearing => check_kept(&image, &trial, Ambiguity::Allowed, counts),
            };
            result.map_err(|violation| self.failing_case(nth, violation, &image))?;
        }
        Ok(true)
    }

    /// The action for the n-th call: bit rot affects another bit each time.
    fn action_at(&self, nth: u64) -> FaultAction {
        match self.action {
            FaultAction::BitRot(seed) => FaultAction::BitRot(seed ^ self.seed << 32 ^ nth << 8),
            ref other => other.clone(),
        }
    }

    fn restarts(&self, nth: u64) -> [Restart; 4] {
        [
            Restart::Process,
            Restart::Power(Loss::Everything),
            Restart::Power(Loss::Nothing),
            Restart::Power(Loss::Some(self.seed ^ nth)),
        ]
    }

    fn failing_case(&self, nth: u64, violation: Violation, disk: &SimDisk) -> FailingCase {
        let case = format!(
            "{} with {} number {nth}: {:?}",
            workload_name(self.ops),
            self.operation,
            self.action
        );
        let history = disk.injected().iter().map(InjectedFault::to_string).collect();
        // The first failure of a run depends only on these numbers.
        let replay = format!("lab run --ops 0 --faults {} --seed {}", self.ops.len(), self.seed);
        FailingCase { case, replay, violation, history }
    }
}

/// Examine an image as after any crash.
fn check_kept(
    image: &SimDisk,
    trial: &Trial,
    ambiguity: Ambiguity,
    counts: &mut FaultCounts,
) -> Result<(), Violation> {
    let examined = examine(image, &trial.model, Depth::Full, ambiguity)?;
    counts.refused += u64::from(matches!(examined.outcome, ImageOutcome::Ambiguous(_)));
    Ok(())
}

/// Check an image of a device that broke the contract: the engine refuses it, or reports the
/// missing records, or serves an earlier state without a trace of later records. It never invents a
/// record.
fn check_fail_closed(
    image: &SimDisk,
    model: &Model,
    counts: &mut FaultCounts,
) -> Result<(), Violation> {
    let opened = Ledger::open_with(&dir(), &environment(image));
    let storage: Arc<dyn Storage> = Arc::new(image.clone());
    let served = read(&storage, 1);
    let Ok(served) = served else {
        counts.refused += 1;
        return if opened.is_err() {
            Ok(())
        } else {
            Err(Violation::new(Guarantee::ErrorKinds, "opened, but not readable"))
        };
    };
    model.check_known(served.durable.iter().chain(&served.others))?;
    let kept = model.before_recovery(&served.durable);
    let last = kept.iter().chain(&served.others).map(|record| record.seq).max();
    if opened.is_err() {
        counts.refused += 1;
    } else if !served.damage.is_empty() {
        counts.reported += 1;
    } else if last.unwrap_or(0) < model.last_acked() {
        model.check_prefix(kept)?;
        counts.earlier += 1;
    } else {
        model.check(&served.durable)?;
        counts.whole += 1;
    }
    Ok(())
}
