//! The execution state: the eight things that an agent must know to go on where it stopped.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::plan::event::step_status::StepStatus;
use crate::plan::model::budget::Limits;
use crate::plan::state::account::Account;
use crate::plan::state::run::{Run, RunStatus};
use crate::plan::value::ids::{Micros, StepNumber};

/// The execution state of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExecutionState {
    /// Steps in flight, reported or in doubt, by number, with their ids.
    pub current: BTreeMap<StepNumber, String>,
    /// Steps that are accepted or skipped.
    pub completed: BTreeMap<StepNumber, String>,
    /// Steps that are still to be done.
    pub pending: BTreeMap<StepNumber, String>,
    /// Steps that failed for good, or that the run's end cancelled.
    pub failed: BTreeMap<StepNumber, String>,
    /// Failures after which a step was tried again.
    pub retries_used: u64,
    /// Microseconds since the run started, until it ended if it did.
    pub elapsed: Micros,
    /// What is left of the budget.
    pub budget_remaining: Remaining,
    /// What was done to the world, by key: the record that says so.
    pub side_effects_committed: BTreeMap<String, u64>,
    /// The active version of the plan; 0 before the first.
    pub plan_version: u32,
}

/// What is left of a budget, what is set aside for attempts in flight already taken off. `None`:
/// there is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Remaining {
    /// Money, in millionths of the currency unit.
    pub money_micros: Option<u64>,
    /// Tokens.
    pub tokens: Option<u64>,
    /// Attempts.
    pub attempts: Option<u64>,
    /// Seconds of wall time.
    pub wall_seconds: Option<u64>,
}

/// The execution state of a run at that time.
#[must_use]
pub fn execution_state(run: &Run, now: Micros) -> ExecutionState {
    let elapsed = elapsed(run, now);
    let mut state = ExecutionState {
        current: BTreeMap::new(),
        completed: BTreeMap::new(),
        pending: BTreeMap::new(),
        failed: BTreeMap::new(),
        retries_used: run.tally.retries,
        elapsed,
        budget_remaining: Remaining::of(&run.account, &run.limits(), elapsed),
        side_effects_committed: BTreeMap::new(),
        plan_version: run.active,
    };
    for (step, number) in run.steps.iter().zip((1..).map(StepNumber)) {
        let list = match step.status {
            StepStatus::Dispatched | StepStatus::Reported | StepStatus::InDoubt => {
                &mut state.current
            }
            StepStatus::Accepted | StepStatus::Skipped => &mut state.completed,
            StepStatus::Failed | StepStatus::Cancelled => &mut state.failed,
            StepStatus::Removed => continue,
            StepStatus::Waiting | StepStatus::Ready | StepStatus::Gated | StepStatus::Delayed => {
                &mut state.pending
            }
        };
        list.insert(number, step.id().to_owned());
    }
    let done = run.effects.iter().filter(|(_, effect)| effect.committed != 0);
    state.side_effects_committed = done.map(|(key, each)| (key.clone(), each.committed)).collect();
    state
}

/// For how long a run has gone on, or did.
pub(crate) fn elapsed(run: &Run, now: Micros) -> Micros {
    let until = match (run.status, run.ended) {
        (RunStatus::Ended(_), Some((_, ended))) => ended,
        _ => now,
    };
    until.saturating_sub(run.started)
}

impl Remaining {
    pub(super) fn of(account: &Account, limits: &Limits, elapsed: Micros) -> Self {
        let left = |limit: Option<u64>, used: u64| limit.map(|limit| limit.saturating_sub(used));
        let used = account.spent.plus(account.reserved);
        Self {
            money_micros: left(limits.money_micros, used.money_micros),
            tokens: left(limits.tokens, used.tokens),
            attempts: left(limits.attempts, account.attempts),
            wall_seconds: left(limits.wall_seconds, elapsed / 1_000_000),
        }
    }
}
