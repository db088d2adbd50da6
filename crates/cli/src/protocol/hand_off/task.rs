//! The worker's input: the JSON on its standard input (`format/hand-off.md`).
//!
//! Invariant: the text depends only on the task and on the files that the step names, so the same
//! task and files give the same bytes.

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use plan_ledger::internals::ledger::EarlierAttemptEnd;
use plan_ledger::plan::{CompactPlan, Token};
use plan_ledger::{EarlierAttempt, FailureClass, LostCause, Note, Step, Task, Verdict};

use crate::protocol::trace_context::traceparent;

use super::done::DoneSummary;
use super::files::{ChangedFile, changed_files};
use super::nearby::Nearby;

/// The version of the hand-off format.
pub(crate) const SCHEMA: u32 = 1;

/// The part of the plan that a worker gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PlanContext {
    /// The dependencies and dependents of the step.
    #[default]
    Near,
    /// The whole plan.
    Full,
}

/// The input of one attempt.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct HandOff<'a> {
    /// The version of this format.
    pub schema: u32,
    /// The name of the run.
    pub run: &'a str,
    /// The part of the plan that every worker gets.
    pub plan: PlanBrief<'a>,
    /// The work of the run before the step.
    pub done: DoneSummary<'a>,
    /// The step as in the plan, with defaults filled in.
    pub step: &'a Step,
    /// The step number.
    pub number: u32,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The token for the reports of the worker.
    pub token: Token,
    /// The values of the variables that the step reads; null for a variable that is not set.
    #[cfg_attr(test, schemars(with = "BTreeMap<String, crate::json::AnyJson>"))]
    pub inputs: BTreeMap<&'a str, Value>,
    /// The idempotency key for side effects.
    pub idempotency_key: &'a str,
    /// The position in a trace (W3C Trace Context): the run is a trace, and the attempt is a span.
    pub traceparent: String,
    /// The reason why the previous attempt failed.
    pub last_failure: Option<&'a str>,
    /// The failed verdicts on the previous attempt.
    pub failed_criteria: Vec<FailedCriterion<'a>>,
    /// The previous attempts, oldest first.
    pub previous_attempts: Vec<PreviousAttempt<'a>>,
    /// The last notes about the run, its steps and the ledger, oldest first, at most 12.
    pub notes: Vec<NoteEntry<'a>>,
    /// The files that the step is expected to change, in their current state.
    pub changes: Vec<ChangedFile>,
}

/// A criterion that an attempt failed.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct FailedCriterion<'a> {
    /// The 0-based index in the step's `acceptance`.
    pub criterion: u32,
    /// The judge.
    pub by: &'a str,
    /// The evidence.
    pub evidence: &'a str,
}

/// A previous attempt and its outcome.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct PreviousAttempt<'a> {
    /// The attempt, from 1.
    pub attempt: u32,
    /// The number of its token.
    pub token: u64,
    /// The worker.
    pub worker: &'a str,
    /// `failed`, `rejected`, `lost`, `replan_requested` or `succeeded`.
    pub outcome: &'static str,
    /// The class of its failure, or the cause of its loss.
    pub class: Option<&'static str>,
    /// The human-readable reason.
    pub message: &'a str,
    /// The failed verdicts on it.
    pub failed_criteria: Vec<FailedCriterion<'a>>,
    /// The end of its standard error.
    pub log_tail: &'a str,
    /// The decision of a person or a decider about it; null if the rules decided.
    pub decision: Option<AttemptDecision<'a>>,
}

/// The decision about a previous attempt.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct AttemptDecision<'a> {
    /// The answer to the question about it, or the decision.
    pub decision: &'a str,
    /// The author of the decision.
    pub by: &'a str,
    /// The reason, at most 1000 characters.
    pub note: String,
}

/// The longest text of a note in a hand-off, in characters.
const NOTE_LENGTH_MAX: usize = 1000;

/// A note that was recorded earlier.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct NoteEntry<'a> {
    /// The number of the step that it is about; null for the run or the ledger.
    pub number: Option<u32>,
    /// Its author.
    pub by: &'a str,
    /// Its text, at most 1000 characters.
    pub text: String,
}

impl<'a> NoteEntry<'a> {
    fn of(note: &'a Note) -> Self {
        let text = note.text.chars().take(NOTE_LENGTH_MAX).collect();
        Self { number: note.step.map(|step| step.0), by: &note.by, text }
    }
}

/// The part of the plan that every worker gets.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct PlanBrief<'a> {
    /// The title in one line.
    pub title: &'a str,
    /// The expected outcome of the plan.
    pub outcome: &'a str,
    /// The purpose of the plan.
    pub goal: &'a str,
    /// Background information.
    pub context: &'a str,
    /// The known risks.
    pub risks: &'a [String],
    /// The open questions.
    pub open_questions: &'a [String],
    /// Why the version of the plan was proposed: the rationale of its author.
    pub reason: &'a str,
    /// The neighbours of this step.
    pub near: Nearby<'a>,
    /// The whole plan, if it was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<plan_ledger::Plan>"))]
    pub full: Option<&'a CompactPlan>,
}

impl<'a> FailedCriterion<'a> {
    pub(crate) fn of(verdict: &'a Verdict) -> Self {
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
            decision: earlier.decision.as_ref().map(|decided| AttemptDecision {
                decision: &decided.decision,
                by: &decided.by,
                note: decided.note.chars().take(NOTE_LENGTH_MAX).collect(),
            }),
        }
    }
}

/// The word for a failure class in receipts and hand-offs.
pub(crate) fn class_word(class: FailureClass) -> &'static str {
    match class {
        FailureClass::Transient => "transient",
        FailureClass::Deterministic => "deterministic",
        FailureClass::AssumptionBroken => "assumption_broken",
        FailureClass::BudgetExhausted => "budget_exhausted",
        FailureClass::CriterionFailed => "criterion_failed",
        FailureClass::Unknown => "unknown",
    }
}

/// The word for the cause of a loss in hand-offs.
pub(crate) fn lost_word(cause: LostCause) -> &'static str {
    match cause {
        LostCause::LeaseExpired => "lease_expired",
        LostCause::RunnerDied => "runner_died",
        LostCause::Released => "released",
        LostCause::Revoked => "revoked",
    }
}

impl<'a> HandOff<'a> {
    /// The hand-off of a task, with the neighbours of the step.
    #[must_use]
    pub fn new(task: &'a Task) -> Self {
        Self::with_context(task, PlanContext::Near)
    }

    /// The hand-off of a task, with this much of the plan.
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
                risks: &plan.header().risks,
                open_questions: &plan.header().open_questions,
                reason: &task.plan_reason,
                near: Nearby::of(plan, &task.neighbours),
                full: (context == PlanContext::Full).then_some(&**plan),
            },
            done: DoneSummary::of(&task.finished),
            step: &task.step,
            number: task.number.0,
            attempt: task.attempt,
            token: task.token,
            inputs: task
                .inputs
                .iter()
                .map(|(name, value)| (name.as_str(), value.value()))
                .collect(),
            idempotency_key: &task.idempotency_key,
            traceparent: traceparent(&task.ledger, task.run, task.token.seq),
            last_failure: task.last_failure.as_deref(),
            failed_criteria: task.failed_criteria.iter().map(FailedCriterion::of).collect(),
            previous_attempts: task.earlier.iter().map(PreviousAttempt::of).collect(),
            notes: task.notes.iter().map(NoteEntry::of).collect(),
            changes: changed_files(&task.step.changes, &task.planned_files),
        }
    }

    /// The JSON text, with a final newline for readers that read lines.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Serialization fails only for map keys that are not strings, and there are none.
        let mut text = serde_json::to_string(self).unwrap_or_default();
        text.push('\n');
        text
    }
}
