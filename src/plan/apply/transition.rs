//! The state machine of a step: the transition table by status and trigger.
//!
//! The table is total. A trigger that is not in the row of a status is not allowed, and its event
//! changes only the last sequence number of the step. The caller checks that an event names the
//! current attempt.

use crate::plan::event::step_event::{AfterLoss, Decision, ResolvedOutcome};
use crate::plan::event::step_status::StepStatus;
use crate::plan::event::table::StepEvent;

/// Class of an event in the transition table: events of one class change the status in the same
/// way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trigger {
    Dispatched,
    LeaseRenewed,
    LostRedispatch,
    LostOutcomeUnknown,
    ReceiptRecorded,
    ReceiptRefused,
    VerdictRecorded,
    Accepted,
    FailureRetry,
    FailureFail,
    FailureFallback,
    FailureEscalate,
    FailureOutcomeUnknown,
    Skipped,
    Reopened,
    ResolvedLanded,
    ResolvedDidNotHappen,
    ConditionJudged,
    DelayElapsed,
    Question,
    Effect,
    CostCorrected,
    Failed,
}

/// Result of a transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// The status does not change.
    Same,
    /// Ready, or waiting, gated or delayed if the step is blocked.
    Open,
    /// This status.
    To(StepStatus),
}

type Row = &'static [(Trigger, Next)];

// A refused receipt and a corrected cost are allowed in any status. A question may be open about
// any step that is not closed.
const WAITING: Row = &[
    (Trigger::Accepted, Next::To(StepStatus::Accepted)),
    (Trigger::Skipped, Next::To(StepStatus::Skipped)),
    (Trigger::Failed, Next::To(StepStatus::Failed)),
    (Trigger::ConditionJudged, Next::Open),
    (Trigger::Question, Next::Open),
    (Trigger::ReceiptRefused, Next::Same),
    (Trigger::CostCorrected, Next::Same),
];

const READY: Row = &[
    (Trigger::Dispatched, Next::To(StepStatus::Dispatched)),
    (Trigger::Accepted, Next::To(StepStatus::Accepted)),
    (Trigger::Skipped, Next::To(StepStatus::Skipped)),
    (Trigger::Failed, Next::To(StepStatus::Failed)),
    (Trigger::ConditionJudged, Next::Open),
    (Trigger::Question, Next::Open),
    (Trigger::ReceiptRefused, Next::Same),
    (Trigger::CostCorrected, Next::Same),
];

const GATED: Row = &[
    (Trigger::Accepted, Next::To(StepStatus::Accepted)),
    (Trigger::Skipped, Next::To(StepStatus::Skipped)),
    (Trigger::Failed, Next::To(StepStatus::Failed)),
    // The decision about a failure after a question.
    (Trigger::FailureRetry, Next::Open),
    (Trigger::FailureFail, Next::To(StepStatus::Failed)),
    (Trigger::FailureFallback, Next::Open),
    (Trigger::FailureOutcomeUnknown, Next::To(StepStatus::OutcomeUnknown)),
    (Trigger::ConditionJudged, Next::Open),
    (Trigger::Question, Next::Open),
    (Trigger::ReceiptRefused, Next::Same),
    (Trigger::CostCorrected, Next::Same),
];

const DELAYED: Row = &[
    (Trigger::DelayElapsed, Next::Open),
    (Trigger::Accepted, Next::To(StepStatus::Accepted)),
    (Trigger::Skipped, Next::To(StepStatus::Skipped)),
    (Trigger::Failed, Next::To(StepStatus::Failed)),
    (Trigger::ConditionJudged, Next::Open),
    (Trigger::Question, Next::Open),
    (Trigger::ReceiptRefused, Next::Same),
    (Trigger::CostCorrected, Next::Same),
];

const DISPATCHED: Row = &[
    (Trigger::ReceiptRecorded, Next::To(StepStatus::Reported)),
    (Trigger::LeaseRenewed, Next::Same),
    (Trigger::LostRedispatch, Next::Open),
    (Trigger::LostOutcomeUnknown, Next::To(StepStatus::OutcomeUnknown)),
    (Trigger::Effect, Next::Same),
    (Trigger::ReceiptRefused, Next::Same),
    (Trigger::CostCorrected, Next::Same),
];

const OUTCOME_UNKNOWN: Row = &[
    // The acceptance follows as a separate event.
    (Trigger::ResolvedLanded, Next::Same),
    (Trigger::ResolvedDidNotHappen, Next::Open),
    (Trigger::Accepted, Next::To(StepStatus::Accepted)),
    (Trigger::Skipped, Next::To(StepStatus::Skipped)),
    (Trigger::ReceiptRefused, Next::Same),
    (Trigger::CostCorrected, Next::Same),
];

const REPORTED: Row = &[
    (Trigger::VerdictRecorded, Next::Same),
    (Trigger::Accepted, Next::To(StepStatus::Accepted)),
    (Trigger::FailureRetry, Next::Open),
    (Trigger::FailureFail, Next::To(StepStatus::Failed)),
    (Trigger::FailureFallback, Next::Open),
    (Trigger::FailureEscalate, Next::To(StepStatus::Gated)),
    (Trigger::FailureOutcomeUnknown, Next::To(StepStatus::OutcomeUnknown)),
    (Trigger::Skipped, Next::To(StepStatus::Skipped)),
    (Trigger::ReceiptRefused, Next::Same),
    (Trigger::CostCorrected, Next::Same),
];

const FAILED: Row = &[
    (Trigger::Reopened, Next::Open),
    (Trigger::Skipped, Next::To(StepStatus::Skipped)),
    (Trigger::ReceiptRefused, Next::Same),
    (Trigger::CostCorrected, Next::Same),
];

const FINISHED: Row =
    &[(Trigger::ReceiptRefused, Next::Same), (Trigger::CostCorrected, Next::Same)];

/// The transition of a status by a trigger; `None` if it is not allowed.
pub(crate) fn transition(status: StepStatus, trigger: Trigger) -> Option<Next> {
    let row = match status {
        StepStatus::Waiting => WAITING,
        StepStatus::Ready => READY,
        StepStatus::Dispatched => DISPATCHED,
        StepStatus::OutcomeUnknown => OUTCOME_UNKNOWN,
        StepStatus::Reported => REPORTED,
        StepStatus::Failed => FAILED,
        StepStatus::Gated => GATED,
        StepStatus::Delayed => DELAYED,
        StepStatus::Accepted
        | StepStatus::Skipped
        | StepStatus::Removed
        | StepStatus::Cancelled => FINISHED,
    };
    row.iter().find(|(each, _)| *each == trigger).map(|(_, next)| *next)
}

impl StepEvent {
    pub(crate) fn trigger(&self) -> Trigger {
        match self {
            Self::Dispatched(_) => Trigger::Dispatched,
            Self::LeaseRenewed(_) => Trigger::LeaseRenewed,
            Self::AttemptLost(lost) => match lost.then {
                AfterLoss::Redispatch => Trigger::LostRedispatch,
                AfterLoss::OutcomeUnknown => Trigger::LostOutcomeUnknown,
            },
            Self::ReceiptRecorded(_) => Trigger::ReceiptRecorded,
            Self::ReceiptRefused(_) => Trigger::ReceiptRefused,
            Self::VerdictRecorded(_) => Trigger::VerdictRecorded,
            Self::Accepted(_) => Trigger::Accepted,
            Self::FailureDecided(failure) => match failure.decision {
                Decision::Retry | Decision::RetryAt { .. } => Trigger::FailureRetry,
                Decision::Fail | Decision::Replan | Decision::Abort => Trigger::FailureFail,
                Decision::Fallback => Trigger::FailureFallback,
                Decision::Escalate => Trigger::FailureEscalate,
                Decision::OutcomeUnknown => Trigger::FailureOutcomeUnknown,
            },
            Self::Skipped(_) => Trigger::Skipped,
            Self::Reopened(_) => Trigger::Reopened,
            Self::OutcomeResolved(resolved) => match resolved.finding {
                ResolvedOutcome::Landed => Trigger::ResolvedLanded,
                ResolvedOutcome::DidNotHappen => Trigger::ResolvedDidNotHappen,
            },
            Self::ConditionJudged(_) => Trigger::ConditionJudged,
            Self::DelayElapsed(_) => Trigger::DelayElapsed,
            Self::StepAsked(_) | Self::StepAnswered(_) | Self::StepQuestionExpired(_) => {
                Trigger::Question
            }
            Self::EffectIntended(_) | Self::EffectCommitted(_) => Trigger::Effect,
            Self::CostCorrected(_) => Trigger::CostCorrected,
            Self::StepFailed(_) => Trigger::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For each trigger, its result in each status of `StepStatus::ALL`: `.` not allowed, `=`
    /// unchanged, `o` open, otherwise the first letter of the new status (`I` for outcome unknown).
    const MATRIX: [(Trigger, &str); 23] = [
        (Trigger::Dispatched, ".D.........."),
        (Trigger::LeaseRenewed, "..=........."),
        (Trigger::LostRedispatch, "..o........."),
        (Trigger::LostOutcomeUnknown, "..I........."),
        (Trigger::ReceiptRecorded, "..R........."),
        (Trigger::ReceiptRefused, "============"),
        (Trigger::VerdictRecorded, "....=......."),
        (Trigger::Accepted, "AA.AA....AA."),
        (Trigger::FailureRetry, "....o....o.."),
        (Trigger::FailureFail, "....F....F.."),
        (Trigger::FailureFallback, "....o....o.."),
        (Trigger::FailureEscalate, "....G......."),
        (Trigger::FailureOutcomeUnknown, "....I....I.."),
        (Trigger::Skipped, "SS.SS.S..SS."),
        (Trigger::Reopened, "......o....."),
        (Trigger::ResolvedLanded, "...=........"),
        (Trigger::ResolvedDidNotHappen, "...o........"),
        (Trigger::ConditionJudged, "oo.......oo."),
        (Trigger::DelayElapsed, "..........o."),
        (Trigger::Question, "oo.......oo."),
        (Trigger::Effect, "..=........."),
        (Trigger::CostCorrected, "============"),
        (Trigger::Failed, "FF.......FF."),
    ];

    #[test]
    fn transition_table_matches_the_matrix() {
        for (trigger, row) in MATRIX {
            let found: String =
                StepStatus::ALL.map(|status| letter(transition(status, trigger))).iter().collect();
            assert_eq!(found, row, "{trigger:?}");
        }
    }

    fn letter(next: Option<Next>) -> char {
        match next {
            None => '.',
            Some(Next::Same) => '=',
            Some(Next::Open) => 'o',
            Some(Next::To(StepStatus::Dispatched)) => 'D',
            Some(Next::To(StepStatus::OutcomeUnknown)) => 'I',
            Some(Next::To(StepStatus::Reported)) => 'R',
            Some(Next::To(StepStatus::Accepted)) => 'A',
            Some(Next::To(StepStatus::Failed)) => 'F',
            Some(Next::To(StepStatus::Skipped)) => 'S',
            Some(Next::To(StepStatus::Gated)) => 'G',
            Some(Next::To(status)) => unreachable!("no trigger leads to {status}"),
        }
    }
}
