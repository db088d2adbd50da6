//! The JSON lines of `ledger run`: progress, summary, and the items that a run waits for.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::plan::{Micros, ResolvedOutcome};
use plan_ledger::{
    AttemptToken, ContentHash, Cost, FailureClass, Json, Ruling, StepNumber, StepStatus, Timestamp,
};

use crate::json::AnyJson;
use crate::protocol::{BudgetUse, StepName, TrustedCheckJson, code_of, describe};
use crate::runner::{Progress, RunOutcome, RunSummary, Session, Unrecorded};
use plan_ledger_views::PendingJson;

use super::run_text::{ROOM_AGAIN, outcome_name};

/// An event of a run.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ProgressLine<'a> {
    /// An attempt was lost: it will never report.
    Lost {
        /// The reason, for people.
        detail: &'a str,
        /// The number of the step.
        number: StepNumber,
        /// The status of the step afterwards.
        status: StepStatus,
        /// The id of the step.
        step: &'a str,
        /// The attempt.
        token: AttemptToken,
    },
    /// A step was dispatched.
    Dispatched {
        /// The number of the attempt at its step, from 1.
        attempt: u32,
        /// The number of the step.
        number: StepNumber,
        /// The second owner, if its worker has the attempt; null for a worker of the step's own
        /// owner.
        second_owner: Option<&'a str>,
        /// The id of the step.
        step: &'a str,
        /// The title of the step, or the first line of its goal.
        title: &'a str,
        /// The attempt.
        token: AttemptToken,
        /// The worker.
        worker: &'a str,
    },
    /// A receipt was recorded.
    Receipt {
        /// The duration of the attempt.
        duration_micros: Micros,
        /// The reason for a failure; empty if it succeeded.
        message: &'a str,
        /// The number of the step.
        number: StepNumber,
        /// The outcome: `succeeded`, `failed` or `replan_requested`.
        outcome: &'static str,
        /// The status of the step afterwards.
        status: StepStatus,
        /// The id of the step.
        step: &'a str,
        /// The attempt.
        token: AttemptToken,
    },
    /// A receipt came too late and was recorded as rejected.
    Refused {
        /// The number of the step.
        number: StepNumber,
        /// The reason, for people.
        reason: &'a str,
        /// The id of the step.
        step: &'a str,
        /// The attempt.
        token: AttemptToken,
    },
    /// The runner or a judge judged a criterion.
    Verdict {
        /// The runner or the judge.
        by: &'a str,
        /// The criterion, from 0.
        criterion: u32,
        /// The evidence, for people.
        evidence: &'a str,
        /// The number of the step; absent for a criterion of the plan.
        #[serde(skip_serializing_if = "Option::is_none")]
        number: Option<StepNumber>,
        /// Whether the criterion holds.
        ruling: Ruling,
        /// The status of the step afterwards; null for a criterion of the plan.
        status: Option<StepStatus>,
        /// The id of the step; absent for a criterion of the plan.
        #[serde(skip_serializing_if = "Option::is_none")]
        step: Option<&'a str>,
    },
    /// A probe looked for the effect of a lost attempt.
    Probed {
        /// The evidence, for people.
        evidence: &'a str,
        /// The finding; null if it is inconclusive.
        finding: Option<ResolvedOutcome>,
        /// The number of the step.
        number: StepNumber,
        /// The status of the step afterwards.
        status: StepStatus,
        /// The id of the step.
        step: &'a str,
    },
    /// No work is possible until then.
    Waiting {
        /// The reason, for people.
        reason: &'a str,
        /// The end of the wait.
        until_micros: Timestamp,
    },
    /// The steps of an owner are not dispatched until then, or until a person answers.
    Held {
        /// The owner, or null for the steps without one.
        owner: Option<&'a str>,
        /// The reason, for people.
        reason: &'a str,
        /// The second owner: its workers take the steps meanwhile; or null.
        second_owner: Option<&'a str>,
        /// The end of the wait; null: no time ends it, but the answer to the question about the step that met the limit.
        until_micros: Option<Timestamp>,
    },
    /// No more steps are dispatched.
    Draining {
        /// The reason, for people.
        reason: &'a str,
        /// The number of running workers and checks.
        running: usize,
    },
    /// Most of a part of the run's budget is used: 80 % or more.
    BudgetUsed(BudgetUse),
    /// A planner's plan was proposed.
    Proposed {
        /// The planner.
        by: &'a str,
        /// Whether the version is active; otherwise it waits for approval.
        is_active: bool,
        /// The version.
        version: u32,
    },
    /// A warning.
    Noted {
        /// The warning, for people.
        note: &'a str,
        /// The number of the step, if it is about one.
        #[serde(skip_serializing_if = "Option::is_none")]
        number: Option<StepNumber>,
        /// The id of the step, if it is about one.
        #[serde(skip_serializing_if = "Option::is_none")]
        step: Option<&'a str>,
    },
}

impl<'a> ProgressLine<'a> {
    /// The line for an event of a run; `None` for events that have none.
    pub(super) fn of(progress: &'a Progress) -> Option<Self> {
        Some(match progress {
            Progress::Lost { step, token, detail, status } => Self::Lost {
                detail,
                number: step.number,
                status: *status,
                step: &step.id,
                token: *token,
            },
            Progress::Dispatched { step, title, attempt, token, worker, second_owner } => {
                Self::Dispatched {
                    attempt: *attempt,
                    number: step.number,
                    second_owner: second_owner.as_deref(),
                    step: &step.id,
                    title,
                    token: *token,
                    worker,
                }
            }
            Progress::Receipt { step, token, outcome, message, duration, status } => {
                Self::Receipt {
                    duration_micros: *duration,
                    message,
                    number: step.number,
                    outcome,
                    status: *status,
                    step: &step.id,
                    token: *token,
                }
            }
            Progress::Refused { step, token, reason } => {
                Self::Refused { number: step.number, reason, step: &step.id, token: *token }
            }
            Progress::Verdict { step, criterion, ruling, by, evidence, status } => Self::Verdict {
                by,
                criterion: *criterion,
                evidence,
                number: number_of(step.as_ref()),
                ruling: *ruling,
                status: *status,
                step: id_of(step.as_ref()),
            },
            Progress::Probed { step, finding, evidence, status } => Self::Probed {
                evidence,
                finding: *finding,
                number: step.number,
                status: *status,
                step: &step.id,
            },
            Progress::Waiting { until, reason } => Self::Waiting { reason, until_micros: *until },
            Progress::Held { owner, second_owner, until, reason, .. } => Self::Held {
                owner: owner.as_deref(),
                reason,
                second_owner: second_owner.as_deref(),
                until_micros: *until,
            },
            Progress::BudgetUsed(used) => Self::BudgetUsed(*used),
            Progress::Draining { reason, running } => Self::Draining { reason, running: *running },
            Progress::Proposed { version, by, is_active } => {
                Self::Proposed { by, is_active: *is_active, version: *version }
            }
            Progress::Disk { problem } => {
                let note = problem.as_deref().unwrap_or(ROOM_AGAIN);
                Self::Noted { note, number: None, step: None }
            }
            Progress::Noted { step, note } => {
                let (number, step) = (number_of(step.as_ref()), id_of(step.as_ref()));
                Self::Noted { note, number, step }
            }
            Progress::Started { .. } | Progress::Counted { .. } => return None,
        })
    }
}

fn number_of(step: Option<&StepName>) -> Option<StepNumber> {
    step.map(|step| step.number)
}

fn id_of(step: Option<&StepName>) -> Option<&str> {
    step.map(|step| step.id.as_str())
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
    session: SessionJson,
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
    waiting_for: Option<Vec<PendingJson>>,
}

impl<'a> SummaryLine<'a> {
    /// `state` is the hash of the live state after record `seq`.
    pub(crate) fn of(summary: &'a RunSummary, seq: u64, state: ContentHash) -> Self {
        let RunSummary { run, outcome, counts, session, failures, failed_criteria, .. } = summary;
        let RunSummary { trusted, notes, seen: _, .. } = summary;
        let (waiting_for, stopped) = match outcome {
            RunOutcome::Waiting(items) => {
                (Some(items.iter().map(PendingJson::from).collect()), None)
            }
            RunOutcome::Stopped { error, unrecorded } => (None, Some((error, unrecorded))),
            _ => (None, None),
        };
        let failures = failures.iter().map(|(step, class, message)| StepFailureJson {
            class: *class,
            message,
            number: step.number,
            step: &step.id,
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
                .map(|(step, note)| NoteJson {
                    note,
                    number: number_of(step.as_ref()),
                    step: id_of(step.as_ref()),
                })
                .collect(),
            outcome: outcome_name(outcome),
            run,
            seq,
            session: session.into(),
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
    /// The number of the step.
    number: StepNumber,
    /// The id of the step.
    step: &'a str,
}

/// A note.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct NoteJson<'a> {
    /// The text, for people.
    note: &'a str,
    /// The number of the step; null if it is not about one.
    number: Option<StepNumber>,
    /// The id of the step; null if it is not about one.
    step: Option<&'a str>,
}

/// The sums of a process.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct SessionJson {
    /// Dispatched attempts.
    dispatched: u32,
    /// The duration.
    duration_micros: Micros,
    /// Lost attempts.
    lost: u32,
    /// Recorded receipts.
    receipts: u32,
    /// Receipts that came too late.
    refused: u32,
    /// Failures that lead to a retry.
    retries: u32,
}

impl From<&Session> for SessionJson {
    fn from(session: &Session) -> Self {
        let Session { dispatched, receipts, retries, lost, refused, duration } = *session;
        Self { dispatched, duration_micros: duration, lost, receipts, refused, retries }
    }
}

/// A receipt that could not be recorded.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct UnrecordedJson<'a> {
    /// The reason for a failure; empty if it succeeded.
    message: String,
    /// The number of the step.
    number: StepNumber,
    /// The outcome: `succeeded`, `failed` or `replan_requested`.
    outcome: &'static str,
    /// The output: any JSON.
    output: Option<AnyJson>,
    /// The id of the step.
    step: &'a str,
    /// The attempt.
    token: AttemptToken,
}

impl<'a> From<&'a Unrecorded> for UnrecordedJson<'a> {
    fn from(item: &'a Unrecorded) -> Self {
        let (outcome, message) = describe(&item.receipt.outcome);
        Self {
            message,
            number: item.step.number,
            outcome,
            output: item.receipt.output.inline().map(Json::value).map(AnyJson::from),
            step: &item.step.id,
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
    pub(super) waiting_for: Vec<PendingJson>,
}
