//! What a worker is told: the JSON on its standard input (`format/hand-off.md`).
//!
//! Invariant: all of it is read off the task and the files that the step names, so that the same
//! task and the same files give the same text.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use plan_ledger::ledger::{EarlierAttempt, EarlierAttemptEnd, Task};
use plan_ledger::plan::{CompactPlan, FailureClass, LostCause, Step, Verdict};

use crate::runner::files::{ChangedFile, changed_files};
use crate::runner::hand_off::nearby::Nearby;

/// The version of the hand-off's form.
pub(crate) const SCHEMA: u32 = 1;

/// How much of the plan a worker is told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PlanContext {
    /// The steps that this one builds on, and those that build on it.
    #[default]
    Near,
    /// All of it.
    Full,
}

/// All that a worker needs for one attempt.
#[derive(Debug, Clone, Serialize)]
pub struct HandOff<'a> {
    /// The version of this form.
    pub schema: u32,
    /// The run's name.
    pub run: &'a str,
    /// What the plan is about.
    pub plan: PlanBrief<'a>,
    /// The step as the plan has it, defaults filled in.
    pub step: &'a Step,
    /// Its number in the run.
    pub number: u32,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// The right to report on it.
    pub token: u64,
    /// Values of the variables that the step reads; null where one is not set.
    pub inputs: BTreeMap<&'a str, Value>,
    /// The key that a side effect should carry to the outside.
    pub idempotency_key: &'a str,
    /// Why the attempt before failed.
    pub last_failure: Option<&'a str>,
    /// The verdicts against it.
    pub failed_criteria: Vec<FailedCriterion<'a>>,
    /// The attempts before, the oldest first.
    pub previous_attempts: Vec<PreviousAttempt<'a>>,
    /// The files that the step is expected to change, as they are now.
    pub changes: Vec<ChangedFile>,
}

/// A criterion that an attempt did not meet.
#[derive(Debug, Clone, Serialize)]
pub struct FailedCriterion<'a> {
    /// Its place in the step's `acceptance`, from 0.
    pub criterion: u32,
    /// Who judged.
    pub by: &'a str,
    /// On what grounds.
    pub evidence: &'a str,
}

/// An attempt that came before, and how it ended.
#[derive(Debug, Clone, Serialize)]
pub struct PreviousAttempt<'a> {
    /// Which it was, from 1.
    pub attempt: u32,
    /// Its token.
    pub token: u64,
    /// Who had it.
    pub worker: &'a str,
    /// `failed`, `rejected`, `lost`, `replan_requested` or `succeeded`.
    pub outcome: &'static str,
    /// The class of its failure, or how it was lost.
    pub class: Option<&'static str>,
    /// Why, for people.
    pub message: &'a str,
    /// The verdicts against it.
    pub failed_criteria: Vec<FailedCriterion<'a>>,
    /// The end of what it wrote to standard error.
    pub log_tail: &'a str,
}

/// What every worker is told about the plan.
#[derive(Debug, Clone, Serialize)]
pub struct PlanBrief<'a> {
    /// One line that names it.
    pub title: &'a str,
    /// What is true when it has succeeded.
    pub outcome: &'a str,
    /// Why it exists.
    pub goal: &'a str,
    /// Background.
    pub context: &'a str,
    /// The steps around this one.
    pub near: Nearby<'a>,
    /// The whole plan, where all of it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full: Option<&'a CompactPlan>,
}

impl<'a> FailedCriterion<'a> {
    fn of(verdict: &'a Verdict) -> Self {
        Self { criterion: verdict.criterion, by: &verdict.by, evidence: &verdict.evidence }
    }
}

impl<'a> PreviousAttempt<'a> {
    fn of(earlier: &'a EarlierAttempt) -> Self {
        let (outcome, class) = match earlier.end {
            EarlierAttemptEnd::Lost(cause) => ("lost", Some(lost_word(cause))),
            EarlierAttemptEnd::Failed(class) if earlier.failed_criteria.is_empty() => {
                ("failed", Some(class_word(class)))
            }
            EarlierAttemptEnd::Failed(class) => ("rejected", Some(class_word(class))),
            EarlierAttemptEnd::Rejected => ("rejected", None),
            EarlierAttemptEnd::ReplanRequested => ("replan_requested", None),
            EarlierAttemptEnd::Succeeded => ("succeeded", None),
        };
        Self {
            attempt: earlier.attempt,
            token: earlier.token.0,
            worker: &earlier.worker,
            outcome,
            class,
            message: &earlier.message,
            failed_criteria: earlier.failed_criteria.iter().map(FailedCriterion::of).collect(),
            log_tail: &earlier.log_tail,
        }
    }
}

/// The word that receipts and hand-offs have for a failure's class.
pub(crate) fn class_word(class: FailureClass) -> &'static str {
    match class {
        FailureClass::Transient => "transient",
        FailureClass::Deterministic => "deterministic",
        FailureClass::AssumptionBroken => "assumption_broken",
        FailureClass::BudgetExhausted => "budget_exhausted",
        FailureClass::Unknown => "unknown",
    }
}

fn lost_word(cause: LostCause) -> &'static str {
    match cause {
        LostCause::LeaseExpired => "lease_expired",
        LostCause::RunnerDied => "runner_died",
        LostCause::Released => "released",
        LostCause::Revoked => "revoked",
    }
}

impl<'a> HandOff<'a> {
    /// The hand-off of a task, with the plan near the step.
    #[must_use]
    pub fn new(task: &'a Task) -> Self {
        Self::with_context(task, PlanContext::Near)
    }

    /// The hand-off of a task, with that much of the plan.
    #[must_use]
    pub fn with_context(task: &'a Task, context: PlanContext) -> Self {
        let plan = &task.plan;
        Self {
            schema: SCHEMA,
            run: &task.run_name,
            plan: PlanBrief {
                title: &plan.header().title,
                outcome: &plan.header().outcome,
                goal: &plan.header().goal,
                context: &plan.header().context,
                near: Nearby::of(plan, &task.near),
                full: (context == PlanContext::Full).then_some(&**plan),
            },
            step: &task.step,
            number: task.number.0,
            attempt: task.attempt,
            token: task.token.0,
            inputs: task
                .inputs
                .iter()
                .map(|(name, value)| (name.as_str(), value.value()))
                .collect(),
            idempotency_key: &task.idempotency_key,
            last_failure: task.last_failure.as_deref(),
            failed_criteria: task.failed_criteria.iter().map(FailedCriterion::of).collect(),
            previous_attempts: task.earlier.iter().map(PreviousAttempt::of).collect(),
            changes: changed_files(&task.step.changes, &task.planned_files),
        }
    }

    /// The JSON text, ending in a newline so that line readers get it too.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Only map keys that are not strings could fail, and there are none.
        let mut text = serde_json::to_string(self).unwrap_or_default();
        text.push('\n');
        text
    }
}
