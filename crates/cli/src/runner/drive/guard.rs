//! Guards of `ledger run` and `ledger work`: reasons to dispatch nothing more, or nothing for a while, before every step has failed.
//!
//! - Workers that fail at once, several in a row and at several steps, pause the run: a usage limit or
//!   a wrong option would otherwise use up the attempts of every step within seconds.
//! - A worker that says when to try again holds all steps of the same worker until then.
//! - A disk that is nearly full pauses the run while there is room to record it.
//! - Most of a budget being spent is reported once.

use std::collections::BTreeSet;
use std::path::Path;

use rustix::fs::statvfs;
use rustix::process::geteuid;

use plan_ledger::internals::plan::BudgetPart;
use plan_ledger::{Clock, Limits, Micros, Outcome, Receipt, Run, RunStatus, Timestamp};

use crate::protocol::hand_off::describe;

/// A worker that fails sooner than this has failed at once.
const AT_ONCE: Micros = 5_000_000;

/// The number of steps at which workers must have failed at once before the run is paused. A single
/// step may be the cause itself.
const STEPS_MIN: usize = 2;

/// The share of a budget that is reported when it is spent, in percent.
const BUDGET_SHARE: u64 = 80;

/// The room below which a disk is nearly full, in bytes.
const FREE_MIN: u64 = 64 << 20;

/// Only a disk of this size, in bytes, is compared with [`FREE_MIN`].
const DISK_MIN: u64 = 1 << 30;

/// Options of the guards.
#[derive(Debug, Clone, Copy)]
pub struct Guards {
    /// How many workers in a row may fail at once before the run is paused; 0: any number.
    pub max_quick_failures: u32,
    /// The room below which the disk is nearly full, in bytes; `None` is the default.
    pub free_min: Option<u64>,
}

impl Guards {
    /// No guard pauses the run.
    pub const NONE: Self = Self { max_quick_failures: 0, free_min: Some(0) };
}

/// The state of the guards of one loop.
#[derive(Debug, Default)]
pub(crate) struct GuardState {
    /// The workers in a row that failed at once, and their steps.
    quick: (u32, BTreeSet<String>),
    /// Nothing is dispatched before this time.
    held_until: Timestamp,
    /// The parts of the budget that were reported.
    reported: Vec<BudgetPart>,
}

impl GuardState {
    /// Take note of a receipt of the worker that all steps without a command share, at the step of that
    /// name. Returns the reason to pause the run, if there is one.
    pub(crate) fn take(
        &mut self,
        guards: Guards,
        step: String,
        receipt: &Receipt,
        clock: &dyn Clock,
    ) -> Option<String> {
        let retry_after = receipt.outcome.retry_after();
        if let Some(wait) = retry_after {
            self.held_until = self.held_until.max(clock.now().saturating_add(wait));
        }
        let is_quick = matches!(receipt.outcome, Outcome::Failed { .. })
            && receipt.duration < AT_ONCE
            && retry_after.is_none();
        if !is_quick {
            self.quick = (0, BTreeSet::new());
            return None;
        }
        let (count, steps) = &mut self.quick;
        *count += 1;
        steps.insert(step);
        let is_tripped = guards.max_quick_failures > 0
            && *count >= guards.max_quick_failures
            && steps.len() >= STEPS_MIN
            && !plan_ledger::mutant!(QuickFailuresIgnored);
        let reason = format!(
            "{count} workers in a row failed within {} s, the last with: {}",
            AT_ONCE / 1_000_000,
            describe(&receipt.outcome).1.lines().next().unwrap_or_default()
        );
        if is_tripped {
            self.quick = (0, BTreeSet::new());
        }
        is_tripped.then_some(reason)
    }

    /// The time until which nothing is dispatched, if it is not over.
    pub(crate) fn held_until(&self, clock: &dyn Clock) -> Option<Timestamp> {
        (self.held_until > 0 && self.held_until > clock.now()).then_some(self.held_until)
    }

    /// The parts of a run's budget of which most is spent, and that were not reported yet.
    pub(crate) fn spent_parts(&mut self, run: &Run, clock: &dyn Clock) -> Vec<BudgetPart> {
        let Limits { money_micros, tokens, attempts, wall_seconds } = run.limits();
        let spent = run.spent();
        let wall = wall_seconds.map_or(0, |_| clock.now().saturating_sub(run.started) / 1_000_000);
        let parts = [
            (BudgetPart::Money, money_micros, spent.money_micros),
            (BudgetPart::Tokens, tokens, spent.tokens),
            (BudgetPart::Attempts, attempts, run.account.attempts),
            (BudgetPart::Wall, wall_seconds, wall),
        ];
        let is_spent = |limit: Option<u64>, spent: u64| {
            limit.is_some_and(|limit| {
                u128::from(spent) * 100 >= u128::from(limit) * u128::from(BUDGET_SHARE)
            })
        };
        let new: Vec<BudgetPart> = parts
            .into_iter()
            .filter(|(part, limit, spent)| {
                is_spent(*limit, *spent) && !self.reported.contains(part)
            })
            .map(|(part, ..)| part)
            .collect();
        self.reported.extend(&new);
        new
    }
}

/// Whether a guard may pause a run: it would dispatch a step.
pub(crate) fn may_pause(run: &Run) -> bool {
    run.status == RunStatus::Running && run.pause.is_none() && run.has_dispatchable()
}

/// The reason to pause a run because the disk of its ledger is nearly full.
pub(crate) fn disk_problem(guards: Guards, ledger: &Path) -> Option<String> {
    let disk = statvfs(ledger).ok()?;
    let free = if geteuid().is_root() { disk.f_bfree } else { disk.f_bavail };
    let (free, size) =
        (free.saturating_mul(disk.f_frsize), disk.f_blocks.saturating_mul(disk.f_frsize));
    let min = guards.free_min.unwrap_or(if size >= DISK_MIN { FREE_MIN } else { 0 });
    let is_short = size > 0 && free < min && !plan_ledger::mutant!(NearlyFullDiskIgnored);
    is_short.then(|| {
        format!(
            "the disk of {} has only {} MB left; make room first",
            ledger.display(),
            free / 1_000_000
        )
    })
}
