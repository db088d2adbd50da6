//! The execution state: the fields that an agent needs to continue a run.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::plan::event::step_status::StepStatus;
use crate::plan::model::budget::Limits;
use crate::plan::model::route::is_person;
use crate::plan::state::account::Account;
use crate::plan::state::run::{Run, RunStatus};
use crate::plan::value::ids::{Micros, StepNumber, Timestamp};

/// The execution state of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExecutionState {
    /// Steps at which the run is, by number, with their ids: in flight, reported, with an unknown
    /// outcome, before a retry, or waiting for a person.
    #[serde(rename = "current_step")]
    pub current: BTreeMap<StepNumber, String>,
    /// Accepted and skipped steps.
    pub completed: BTreeMap<StepNumber, String>,
    /// Steps that are not done yet; with a question mark behind the id if a condition that is not
    /// evaluated yet can skip the step.
    pub pending: BTreeMap<StepNumber, String>,
    /// Steps that failed permanently or were cancelled by the end of the run.
    pub failed: BTreeMap<StepNumber, String>,
    /// The retries of each step that had any, by id: attempts after its first one, and the one that
    /// it waits for after a failure.
    pub retries_used: BTreeMap<String, u32>,
    /// Microseconds from the start of the run to its end, or to now.
    #[serde(rename = "elapsed_micros")]
    pub elapsed: Micros,
    /// The rest of the budget.
    pub budget_remaining: Remaining,
    /// Committed side effects: the record of each, by key.
    pub side_effects_committed: BTreeMap<String, u64>,
    /// The active version of the plan; 0 before the first.
    pub plan_version: u32,
}

/// The rest of a budget after spent and reserved costs. `None`: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

#[doc(hidden)]
impl Run {
    /// The execution state of a run at that time.
    #[must_use]
    pub fn execution_state(&self, now: Timestamp) -> ExecutionState {
        let elapsed = elapsed(self, now);
        let mut state = ExecutionState {
            current: BTreeMap::new(),
            completed: BTreeMap::new(),
            pending: BTreeMap::new(),
            failed: BTreeMap::new(),
            retries_used: BTreeMap::new(),
            elapsed,
            budget_remaining: Remaining::of(&self.account, &self.limits(), elapsed),
            side_effects_committed: BTreeMap::new(),
            plan_version: self.active,
        };
        for (step, number) in self.steps.iter().zip((1..).map(StepNumber)) {
            let is_for_person = || step.owner().is_some_and(is_person);
            let list = match step.status {
                StepStatus::Dispatched
                | StepStatus::Reported
                | StepStatus::OutcomeUnknown
                | StepStatus::Delayed
                | StepStatus::Gated => &mut state.current,
                StepStatus::Ready if is_for_person() => &mut state.current,
                StepStatus::Accepted | StepStatus::Skipped => &mut state.completed,
                StepStatus::Failed | StepStatus::Cancelled => &mut state.failed,
                StepStatus::Removed => continue,
                StepStatus::Waiting | StepStatus::Ready => &mut state.pending,
            };
            let is_pending = matches!(
                step.status,
                StepStatus::Waiting | StepStatus::Ready | StepStatus::Gated | StepStatus::Delayed
            );
            let plan = self.plan_step(number).filter(|_| is_pending);
            let is_open = plan.is_some_and(|plan| plan.condition().is_some())
                && step.hold().condition.is_none();
            let mark = if is_open { "?" } else { "" };
            list.insert(number, format!("{}{mark}", step.id()));
            // The answer to a question about a failure may be against a retry.
            let is_granted = is_pending && step.status != StepStatus::Gated;
            let granted = u32::from(is_granted && step.failures > 0);
            let retries =
                step.attempts.saturating_sub(1).saturating_add(granted).min(step.attempts);
            if retries > 0 {
                state.retries_used.insert(step.id().to_owned(), retries);
            }
        }
        let done = self.effects.iter().filter(|(_, effect)| effect.committed != 0);
        state.side_effects_committed =
            done.map(|(key, each)| (key.clone(), each.committed)).collect();
        state
    }
}

/// The duration of a run up to now or to its end.
pub(crate) fn elapsed(run: &Run, now: Timestamp) -> Micros {
    let until = match (run.status, run.end_record) {
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
