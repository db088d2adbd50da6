//! The JSON lines of `ledger run`: progress, summary, and the items that a run waits for.

use std::borrow::Cow;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::plan::Micros;
use plan_ledger::{AttemptToken, ContentHash, Cost, FailureClass, Json, Timestamp};

use crate::json::AnyJson;
use crate::protocol::{StepName, TrustedCheckJson, code_of, describe};
use crate::runner::{Progress, RunOutcome, RunSummary, Session, Unrecorded};
use plan_ledger_views::WaitingItem;

use super::run_text::{ROOM_AGAIN, outcome_name};

/// The line for an event of a run; `None` for events that have none.
pub(super) fn progress_line(progress: &Progress) -> Option<Cow<'_, Progress>> {
    match progress {
        Progress::Disk { problem } => {
            let note = problem.as_deref().unwrap_or(ROOM_AGAIN).to_owned();
            Some(Cow::Owned(Progress::Noted { step: None, note }))
        }
        Progress::Started { .. } | Progress::Counted { .. } => None,
        other => Some(Cow::Borrowed(other)),
    }
}

/// A run, the last line.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct SummaryLine<'a> {
    /// The number of accepted steps.
    accepted: u32,
    /// The number of attempts of the whole run.
    attempts: u64,
    /// The cost of the whole run.
    cost: Cost,
    /// The duration of the whole run.
    elapsed_micros: Micros,
    /// With the outcome `stopped`: the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// With the outcome `stopped`: the exit code.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<u8>,
    /// The number of failed steps.
    failed: u32,
    /// The criteria of the plan that do not hold.
    failed_criteria: Vec<FailedCriterionJson<'a>>,
    /// The failed steps.
    failures: Vec<StepFailureJson<'a>>,
    /// The notes of the lines of type `noted`.
    notes: Vec<NoteJson<'a>>,
    /// The outcome: `done`, `failed`, `cancelled`, `aborted`, `waiting`, `interrupted` or `stopped`.
    outcome: &'static str,
    /// The run.
    run: &'a str,
    /// The last record of the state.
    seq: u64,
    /// The sums of this process.
    session: Session,
    /// The number of skipped steps.
    skipped: u32,
    /// The hash of the state.
    state_hash: ContentHash,
    /// The number of steps of the active version.
    steps: u32,
    /// The number of accepted steps that were done before the run.
    taken_over: u32,
    /// The number of accepted steps that were trusted without a check.
    trusted: u32,
    /// The checks that were taken on the worker's word.
    trusted_checks: Vec<TrustedCheckJson>,
    /// With the outcome `stopped`: the receipts that could not be recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    unrecorded: Option<Vec<UnrecordedJson<'a>>>,
    /// With the outcome `waiting`: the items that the run waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_for: Option<&'a [WaitingItem]>,
}

impl<'a> SummaryLine<'a> {
    /// `state` is the hash of the live state after record `seq`.
    pub(crate) fn of(summary: &'a RunSummary, seq: u64, state: ContentHash) -> Self {
        let RunSummary { run, outcome, counts, session, failures, failed_criteria, .. } = summary;
        let RunSummary { trusted, notes, seen: _, .. } = summary;
        let (waiting_for, stopped) = match outcome {
            RunOutcome::Waiting(items) => (Some(items.as_slice()), None),
            RunOutcome::Stopped { error, unrecorded } => (None, Some((error, unrecorded))),
            _ => (None, None),
        };
        let failures = failures.iter().map(|(step, class, message)| StepFailureJson {
            class: *class,
            message,
            step,
        });
        Self {
            accepted: counts.accepted,
            attempts: counts.attempts,
            cost: counts.cost,
            elapsed_micros: counts.elapsed,
            error: stopped.map(|(error, _)| error.to_string()),
            exit_code: stopped.map(|(error, _)| code_of(error).number()),
            failed: counts.failed,
            failed_criteria: failed_criteria
                .iter()
                .map(|(criterion, evidence)| FailedCriterionJson { criterion, evidence })
                .collect(),
            failures: failures.collect(),
            notes: notes
                .iter()
                .map(|(step, note)| NoteJson { note, step: step.as_ref() })
                .collect(),
            outcome: outcome_name(outcome),
            run,
            seq,
            session: *session,
            skipped: counts.skipped,
            state_hash: state,
            steps: counts.steps,
            taken_over: counts.taken_over,
            trusted: counts.trusted,
            trusted_checks: trusted
                .iter()
                .map(|(step, check)| TrustedCheckJson::of(step, check))
                .collect(),
            unrecorded: stopped.map(|(_, lost)| lost.iter().map(UnrecordedJson::from).collect()),
            waiting_for,
        }
    }
}

/// A criterion of the plan that does not hold.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct FailedCriterionJson<'a> {
    /// The criterion.
    criterion: &'a str,
    /// The evidence, for people.
    evidence: &'a str,
}

/// A failed step.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct StepFailureJson<'a> {
    /// The class of the failure.
    class: FailureClass,
    /// The reason, for people.
    message: &'a str,
    #[serde(flatten)]
    step: &'a StepName,
}

/// A note.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct NoteJson<'a> {
    /// The text, for people.
    note: &'a str,
    /// Without a step, it is about the run.
    #[serde(flatten)]
    step: Option<&'a StepName>,
}

/// A receipt that could not be recorded.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct UnrecordedJson<'a> {
    /// The reason for a failure; empty if it succeeded.
    message: String,
    /// The outcome: `succeeded`, `failed` or `replan_requested`.
    outcome: &'static str,
    /// The output: any JSON.
    output: Option<AnyJson>,
    #[serde(flatten)]
    step: &'a StepName,
    /// The attempt.
    token: AttemptToken,
}

impl<'a> From<&'a Unrecorded> for UnrecordedJson<'a> {
    fn from(item: &'a Unrecorded) -> Self {
        let (outcome, message) = describe(&item.receipt.outcome);
        Self {
            message,
            outcome,
            output: item.receipt.output.inline().map(Json::value).map(AnyJson::from),
            step: &item.step,
            token: item.token,
        }
    }
}

/// The items that a run waits for, with `--wait`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct WaitsLine<'a> {
    /// The run, which releases the ledger until something changes.
    pub(super) run: &'a str,
    /// The end of the wait, if known.
    pub(super) until_micros: Option<Timestamp>,
    /// The items.
    pub(super) waiting_for: &'a [WaitingItem],
}
