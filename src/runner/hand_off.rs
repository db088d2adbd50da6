//! What a worker is told: the JSON on its standard input (`format/hand-off.md`).

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::ledger::Task;
use crate::plan::{Step, Verdict};

/// The version of the hand-off's form.
pub(super) const SCHEMA: u32 = 1;

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
}

/// A criterion that the attempt before did not meet.
#[derive(Debug, Clone, Serialize)]
pub struct FailedCriterion<'a> {
    /// Its place in the step's `acceptance`, from 0.
    pub criterion: u32,
    /// Who judged.
    pub by: &'a str,
    /// On what grounds.
    pub evidence: &'a str,
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
}

impl<'a> FailedCriterion<'a> {
    fn of(verdict: &'a Verdict) -> Self {
        Self { criterion: verdict.criterion, by: &verdict.by, evidence: &verdict.evidence }
    }
}

impl<'a> HandOff<'a> {
    /// The hand-off of a task.
    #[must_use]
    pub fn new(task: &'a Task) -> Self {
        let plan = &task.plan;
        Self {
            schema: SCHEMA,
            run: &task.run_name,
            plan: PlanBrief {
                title: &plan.title,
                outcome: &plan.outcome,
                goal: &plan.goal,
                context: &plan.context,
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
