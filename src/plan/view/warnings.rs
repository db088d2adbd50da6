//! Warnings about a run: situations that are not errors yet but deserve a person's attention.
//!
//! Invariant: warnings decide nothing. They are computed from the state and the time, and are not
//! recorded.

use serde::Serialize;

use super::execution::elapsed;
use crate::plan::event::step_status::StepStatus;
use crate::plan::model::budget::{BudgetPart, Limits};
use crate::plan::state::compact::step::CompactStep;
use crate::plan::state::run::{Run, RunStatus};
use crate::plan::value::ids::{Micros, SECOND, StepNumber, Timestamp};

/// The share of a budget that is reported when it is spent, in percent.
const BUDGET_SHARE: u64 = 80;

/// An attempt is slow when it takes this many times its estimate.
pub const SLOW_FACTOR: u64 = 2;

/// How long nothing may begin before a run with ready steps, or with attempts that have no estimate,
/// counts as stalled: longer than most steps of agents, and much shorter than a night.
pub const STALL_AFTER: Micros = 30 * 60 * SECOND;

/// A warning about a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Warning {
    /// Most of a part of the budget is spent.
    BudgetUsed {
        /// The part.
        part: BudgetPart,
        /// The amount that is spent; more than the limit if it was overrun.
        used: u64,
        /// The limit.
        limit: u64,
    },
    /// An attempt takes more than twice the estimate of its step.
    SlowStep {
        /// The step.
        step: StepNumber,
        /// The time since its dispatch.
        #[serde(rename = "elapsed_micros")]
        elapsed: Micros,
        /// The estimate.
        estimate_seconds: u32,
    },
    /// Nothing has begun for a long time although steps are ready or in flight.
    Stalled {
        /// The time since the last dispatch, or since the last record.
        #[serde(rename = "elapsed_micros")]
        elapsed: Micros,
        /// The number of ready steps.
        ready: u32,
        /// The number of attempts in flight.
        in_flight: u32,
    },
}

#[doc(hidden)]
impl Run {
    /// The warnings about a run at that time; `last_record` is the time of the last record of the ledger.
    #[must_use]
    pub fn warnings(&self, last_record: Timestamp, now: Timestamp) -> Vec<Warning> {
        if self.status == RunStatus::Proposed {
            return Vec::new();
        }
        let mut warnings = used_budgets(self, now);
        if self.status != RunStatus::Running {
            return warnings;
        }
        let in_flight = self.steps.iter().zip((1..).map(StepNumber));
        let in_flight = in_flight.filter(|(step, _)| step.status == StepStatus::Dispatched);
        let (mut newest, mut is_estimated) = (0, false);
        for (step, number) in in_flight.take(usize::try_from(self.in_flight).unwrap_or(usize::MAX))
        {
            let Some(attempt) = step.attempt() else { continue };
            newest = newest.max(attempt.dispatched);
            let elapsed = now.saturating_sub(attempt.dispatched);
            let Some(estimate_seconds) =
                self.plan_step(number).and_then(CompactStep::estimate_seconds)
            else {
                continue;
            };
            is_estimated = true;
            if Warning::is_slow(elapsed, estimate_seconds) {
                warnings.push(Warning::SlowStep { step: number, elapsed, estimate_seconds });
            }
        }
        let (ready, flights) = (self.count(StepStatus::Ready), self.in_flight);
        let is_held = self.pause.is_some() || self.request.is_some() || self.abort_reason.is_some();
        let since = if flights > 0 { newest } else { last_record };
        let elapsed = now.saturating_sub(since);
        let is_busy = (ready > 0 && !is_held) || (flights > 0 && !is_estimated);
        if is_busy && elapsed >= STALL_AFTER {
            warnings.push(Warning::Stalled { elapsed, ready, in_flight: flights });
        }
        warnings
    }
}

impl Warning {
    /// Whether an attempt takes longer than its estimate by far.
    #[must_use]
    pub fn is_slow(elapsed: Micros, estimate_seconds: u32) -> bool {
        let estimate = Micros::from(estimate_seconds).saturating_mul(SECOND);
        elapsed >= estimate.saturating_mul(SLOW_FACTOR)
    }
}

/// The parts of a run's budget that are mostly spent.
fn used_budgets(run: &Run, now: Timestamp) -> Vec<Warning> {
    let Limits { money_micros, tokens, attempts, wall_seconds } = run.limits();
    let spent = run.spent();
    let parts = [
        (BudgetPart::Money, money_micros, spent.money_micros),
        (BudgetPart::Tokens, tokens, spent.tokens),
        (BudgetPart::Attempts, attempts, run.account.attempts),
        (BudgetPart::Wall, wall_seconds, elapsed(run, now) / SECOND),
    ];
    let is_spent = |limit: u64, used: u64| {
        u128::from(used) * 100 >= u128::from(limit) * u128::from(BUDGET_SHARE)
    };
    let used = parts.into_iter().filter_map(|(part, limit, used)| {
        let limit = limit.filter(|limit| is_spent(*limit, used))?;
        Some(Warning::BudgetUsed { part, used, limit })
    });
    used.collect()
}
