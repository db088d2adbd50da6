//! Earlier attempts at a step, from its records, so that the next worker does not repeat their
//! failures.
//!
//! Invariant: pruned or damaged records are omitted. They never prevent a dispatch.

use crate::log::LogReader;
use crate::plan::{
    AttemptToken, Decision, FailureClass, Json, LostCause, Outcome, QuestionAnswer, Receipt,
    Ruling, StepEvent, Timestamp, Verdict,
};

use super::step_events::step_events;

/// The maximum number of earlier attempts in a task; the newest ones are kept.
pub const EARLIER_ATTEMPTS_MAX: usize = 20;

/// The longest output of an earlier attempt in a task, in characters.
const OUTPUT_LENGTH_MAX: usize = 2000;

/// An earlier attempt at a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlierAttempt {
    /// Its number at the step, from 1.
    pub attempt: u32,
    pub token: AttemptToken,
    pub worker: String,
    /// When it was dispatched.
    pub dispatched: Timestamp,
    /// How it ended.
    pub end: EarlierAttemptEnd,
    /// The reason for people: the message of its receipt, or how it was lost; after a success its
    /// output, cut after 2000 characters.
    pub message: String,
    pub failed_criteria: Vec<Verdict>,
    /// The end of its standard error, or other notes.
    pub log_tail: String,
    /// The decision about it, unless the rules decided.
    pub decision: Option<EarlierDecision>,
}

/// The decision of a person or a decider about an earlier attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlierDecision {
    /// The answer to the question about the attempt, or the decision.
    pub decision: String,
    /// The author of the decision.
    pub by: String,
    /// The reason, for the next worker.
    pub note: String,
}

/// How an earlier attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlierAttemptEnd {
    /// It never reported.
    Lost(LostCause),
    /// It reported a failure.
    Failed(FailureClass),
    /// It reported success, but failed a criterion.
    Rejected,
    /// It requested a new plan version.
    ReplanRequested,
    /// It succeeded, but a new plan version invalidated the step or a person reopened it.
    Succeeded,
}

/// The attempts before the one that record `dispatched` began, the oldest first.
pub(crate) fn before(log: &LogReader, dispatched: AttemptToken) -> Vec<EarlierAttempt> {
    let mut found = Vec::new();
    let mut builder = AttemptBuilder::default();
    for read in step_events(log, dispatched.0) {
        let Ok((record, event)) = read else { break };
        match event {
            StepEvent::Dispatched(_) if record.seq == dispatched.0 => {}
            StepEvent::Dispatched(event) => {
                let token = AttemptToken(record.seq);
                let AttemptBuilder { end, message, mut verdicts, log_tail, decision } =
                    std::mem::take(&mut builder);
                verdicts.reverse();
                found.push(EarlierAttempt {
                    attempt: event.attempt,
                    token,
                    worker: event.worker,
                    dispatched: record.time,
                    end: end.unwrap_or(EarlierAttemptEnd::Lost(LostCause::Revoked)),
                    message,
                    failed_criteria: verdicts,
                    log_tail,
                    decision,
                });
                if found.len() >= EARLIER_ATTEMPTS_MAX {
                    break;
                }
            }
            event => builder.add(event),
        }
    }
    found.reverse();
    found
}

/// The word for a decision about a failed attempt, as in its record.
fn decision_word(decision: &Decision) -> &'static str {
    match decision {
        Decision::Retry => "retry",
        Decision::RetryAt { .. } => "retry_at",
        Decision::Fail => "fail",
        Decision::Fallback => "fallback",
        Decision::Replan => "replan",
        Decision::Escalate => "escalate",
        Decision::Abort => "abort",
        Decision::OutcomeUnknown => "outcome_unknown",
    }
}

/// Collects the end of an attempt while its records are read from the last to the first.
#[derive(Default)]
struct AttemptBuilder {
    end: Option<EarlierAttemptEnd>,
    message: String,
    verdicts: Vec<Verdict>,
    log_tail: String,
    decision: Option<EarlierDecision>,
}

impl AttemptBuilder {
    fn add(&mut self, event: StepEvent) {
        match event {
            StepEvent::AttemptLost(lost) => {
                self.end = Some(EarlierAttemptEnd::Lost(lost.cause));
                self.message = lost.detail;
            }
            StepEvent::VerdictRecorded(recorded) if recorded.verdict.ruling == Ruling::Fail => {
                self.verdicts.push(recorded.verdict);
            }
            // Show the class that the decision used, not the one that the worker reported.
            StepEvent::FailureDecided(decided) => {
                self.end = Some(EarlierAttemptEnd::Failed(decided.class));
                if !decided.by.is_empty() && self.decision.is_none() {
                    let decision = decision_word(&decided.decision).to_owned();
                    let (by, note) = (decided.by, decided.reason.to_string());
                    self.decision = Some(EarlierDecision { decision, by, note });
                }
            }
            // The decision that follows from it has no note.
            StepEvent::StepAnswered(QuestionAnswer { answer, by, note, .. }) => {
                self.decision = Some(EarlierDecision { decision: answer, by, note });
            }
            StepEvent::ReceiptRecorded(recorded) => self.add_receipt(recorded.receipt),
            _ => {}
        }
    }

    fn add_receipt(&mut self, receipt: Receipt) {
        self.log_tail = receipt.log_tail.into();
        self.end = Some(match receipt.outcome {
            Outcome::Failed { class, message, .. } => {
                self.message = message;
                match self.end {
                    Some(decided @ EarlierAttemptEnd::Failed(_)) => decided,
                    _ => EarlierAttemptEnd::Failed(class),
                }
            }
            Outcome::ReplanRequested { reason, .. } => {
                self.message = reason;
                EarlierAttemptEnd::ReplanRequested
            }
            Outcome::Succeeded if self.verdicts.is_empty() => {
                // A later version discarded this output.
                let output = receipt.output.inline().map_or("", Json::as_str);
                self.message = output.chars().take(OUTPUT_LENGTH_MAX).collect();
                EarlierAttemptEnd::Succeeded
            }
            Outcome::Succeeded => EarlierAttemptEnd::Rejected,
        });
    }
}
