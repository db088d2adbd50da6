//! Earlier attempts at a step, read off its records: so that the next worker need not fail in the
//! same way.
//!
//! Invariant: what cannot be read any more, because it was pruned or is damaged, is left out. An
//! attempt that was dealt is never held back by that.

use crate::log::LogReader;
use crate::plan::{
    AttemptToken, FailureClass, LostCause, Micros, Outcome, Receipt, Ruling, StepEvent, Verdict,
};

use super::chronicle::step_events;

/// How many earlier attempts a task tells of, the newest ones.
pub const EARLIER_ATTEMPTS_MAX: usize = 20;

/// An attempt at a step that came before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlierAttempt {
    /// Its number at the step, from 1.
    pub attempt: u32,
    /// Its token.
    pub token: AttemptToken,
    /// Who had it.
    pub worker: String,
    /// When it was dealt.
    pub dealt: Micros,
    /// How it ended.
    pub end: EarlierEnd,
    /// Why, for people: what its receipt said, or how it was lost.
    pub message: String,
    /// The verdicts against it.
    pub failed_criteria: Vec<Verdict>,
    /// The end of what it wrote to standard error, or other notes.
    pub log_tail: String,
}

/// How an earlier attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlierEnd {
    /// It never reported.
    Lost(LostCause),
    /// It reported a failure.
    Failed(FailureClass),
    /// It reported success, and a criterion did not hold.
    Rejected,
    /// It asked for another plan.
    ReplanRequested,
    /// It did its work, and a new plan or a person wants it done anew.
    Succeeded,
}

/// The attempts whose records end with `last`, the oldest first, without the one that was dealt
/// by it.
pub(super) fn before(log: &LogReader, dispatched: AttemptToken) -> Vec<EarlierAttempt> {
    let mut found = Vec::new();
    let mut story = Story::default();
    for read in step_events(log, dispatched.0) {
        let Ok((record, event)) = read else { break };
        match event {
            StepEvent::Dispatched(_) if record.seq == dispatched.0 => {}
            StepEvent::Dispatched(event) => {
                let token = AttemptToken(record.seq);
                let Story { end, message, mut verdicts, log_tail } = std::mem::take(&mut story);
                verdicts.reverse();
                found.push(EarlierAttempt {
                    attempt: event.attempt,
                    token,
                    worker: event.worker,
                    dealt: record.time,
                    end: end.unwrap_or(EarlierEnd::Lost(LostCause::Revoked)),
                    message,
                    failed_criteria: verdicts,
                    log_tail,
                });
                if found.len() >= EARLIER_ATTEMPTS_MAX {
                    break;
                }
            }
            event => story.note(event),
        }
    }
    found.reverse();
    found
}

/// What is known about an attempt while its records are read from the last to the first.
#[derive(Default)]
struct Story {
    end: Option<EarlierEnd>,
    message: String,
    verdicts: Vec<Verdict>,
    log_tail: String,
}

impl Story {
    fn note(&mut self, event: StepEvent) {
        match event {
            StepEvent::AttemptLost(lost) => {
                self.end = Some(EarlierEnd::Lost(lost.cause));
                self.message = lost.detail;
            }
            StepEvent::VerdictRecorded(recorded) if recorded.verdict.ruling == Ruling::Fail => {
                self.verdicts.push(recorded.verdict);
            }
            // The class that was decided by is the one that counts, whatever the worker said.
            StepEvent::FailureDecided(decided) => {
                self.end = Some(EarlierEnd::Failed(decided.class));
            }
            StepEvent::ReceiptRecorded(recorded) => self.reported(recorded.receipt),
            _ => {}
        }
    }

    fn reported(&mut self, receipt: Receipt) {
        self.log_tail = receipt.log_tail;
        self.end = Some(match receipt.outcome {
            Outcome::Failed { class, message, .. } => {
                self.message = message;
                match self.end {
                    Some(decided @ EarlierEnd::Failed(_)) => decided,
                    _ => EarlierEnd::Failed(class),
                }
            }
            Outcome::ReplanRequested { reason } => {
                self.message = reason;
                EarlierEnd::ReplanRequested
            }
            Outcome::Succeeded if self.verdicts.is_empty() => EarlierEnd::Succeeded,
            Outcome::Succeeded => EarlierEnd::Rejected,
        });
    }
}
