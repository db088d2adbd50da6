//! The total transition table: what each event means for a step in each status.
//!
//! Invariants: every pair of status and trigger has one answer. What is not in a row is not
//! allowed, and an event that is not allowed changes nothing but the step's last sequence number.
//!
//! Left out on purpose: whether an event names the step's current attempt. The fold checks that.

use crate::plan::event::step_event::{AfterLoss, Decision, Finding, StepEvent};
use crate::plan::event::step_status::StepStatus;

/// What kind of thing happened to a step, as far as its status is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trigger {
    Dispatched,
    LeaseRenewed,
    LostDealAgain,
    LostInDoubt,
    ReceiptRecorded,
    ReceiptRefused,
    VerdictRecorded,
    Accepted,
    FailureRetry,
    FailureFail,
    FailureFallback,
    FailureEscalate,
    FailureDoubt,
    Skipped,
    Reopened,
    DoubtLanded,
    DoubtDidNotHappen,
    ConditionJudged,
    DelayElapsed,
    Question,
    Effect,
    CostCorrected,
    Failed,
}

/// Where a step goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// It stays where it is.
    Same,
    /// It is ready or, if something keeps it from being dealt, waiting, gated or delayed.
    Open,
    /// It goes there.
    To(StepStatus),
}

type Row = &'static [(Trigger, Next)];

// A receipt that may not count, and what an attempt really cost, are facts about a step in any
// status. A question may be open about any step whose work is not over.
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
    // What was decided about a failure that somebody was asked about.
    (Trigger::FailureRetry, Next::Open),
    (Trigger::FailureFail, Next::To(StepStatus::Failed)),
    (Trigger::FailureFallback, Next::Open),
    (Trigger::FailureDoubt, Next::To(StepStatus::InDoubt)),
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
    (Trigger::LostDealAgain, Next::Open),
    (Trigger::LostInDoubt, Next::To(StepStatus::InDoubt)),
    (Trigger::Effect, Next::Same),
    (Trigger::ReceiptRefused, Next::Same),
    (Trigger::CostCorrected, Next::Same),
];

const IN_DOUBT: Row = &[
    // Its acceptance follows as an event of its own, with its grounds.
    (Trigger::DoubtLanded, Next::Same),
    (Trigger::DoubtDidNotHappen, Next::Open),
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
    (Trigger::FailureDoubt, Next::To(StepStatus::InDoubt)),
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

const OVER: Row = &[(Trigger::ReceiptRefused, Next::Same), (Trigger::CostCorrected, Next::Same)];

/// Where a trigger takes a step; `None` if it is not allowed.
pub(crate) fn transition(status: StepStatus, trigger: Trigger) -> Option<Next> {
    let row = match status {
        StepStatus::Waiting => WAITING,
        StepStatus::Ready => READY,
        StepStatus::Dispatched => DISPATCHED,
        StepStatus::InDoubt => IN_DOUBT,
        StepStatus::Reported => REPORTED,
        StepStatus::Failed => FAILED,
        StepStatus::Gated => GATED,
        StepStatus::Delayed => DELAYED,
        StepStatus::Accepted
        | StepStatus::Skipped
        | StepStatus::Removed
        | StepStatus::Cancelled => OVER,
    };
    row.iter().find(|(each, _)| *each == trigger).map(|(_, next)| *next)
}

impl StepEvent {
    /// What the event is to the table.
    pub(crate) fn trigger(&self) -> Trigger {
        match self {
            Self::Dispatched(_) => Trigger::Dispatched,
            Self::LeaseRenewed(_) => Trigger::LeaseRenewed,
            Self::AttemptLost(lost) => match lost.then {
                AfterLoss::DealAgain => Trigger::LostDealAgain,
                AfterLoss::InDoubt => Trigger::LostInDoubt,
            },
            Self::ReceiptRecorded(_) => Trigger::ReceiptRecorded,
            Self::ReceiptRefused(_) => Trigger::ReceiptRefused,
            Self::VerdictRecorded(_) => Trigger::VerdictRecorded,
            Self::Accepted(_) => Trigger::Accepted,
            Self::FailureDecided(failure) => match failure.decision {
                Decision::Retry | Decision::RetryAt(_) => Trigger::FailureRetry,
                Decision::Fail | Decision::Replan | Decision::Abort => Trigger::FailureFail,
                Decision::Fallback => Trigger::FailureFallback,
                Decision::Escalate => Trigger::FailureEscalate,
                Decision::Doubt => Trigger::FailureDoubt,
            },
            Self::Skipped(_) => Trigger::Skipped,
            Self::Reopened(_) => Trigger::Reopened,
            Self::DoubtResolved(doubt) => match doubt.finding {
                Finding::Landed => Trigger::DoubtLanded,
                Finding::DidNotHappen => Trigger::DoubtDidNotHappen,
            },
            Self::ConditionJudged(_) => Trigger::ConditionJudged,
            Self::DelayElapsed(_) => Trigger::DelayElapsed,
            Self::Asked(_) | Self::Answered(_) | Self::Expired(_) => Trigger::Question,
            Self::EffectIntended(_) | Self::EffectCommitted(_) => Trigger::Effect,
            Self::CostCorrected(_) => Trigger::CostCorrected,
            Self::Failed(_) => Trigger::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every trigger with what it does in each status of `StepStatus::ALL`: `.` not allowed, `=`
    /// stays, `o` open, else the first letter of the status that it goes to (`I` for in doubt).
    const MATRIX: [(Trigger, &str); 23] = [
        (Trigger::Dispatched, ".D.........."),
        (Trigger::LeaseRenewed, "..=........."),
        (Trigger::LostDealAgain, "..o........."),
        (Trigger::LostInDoubt, "..I........."),
        (Trigger::ReceiptRecorded, "..R........."),
        (Trigger::ReceiptRefused, "============"),
        (Trigger::VerdictRecorded, "....=......."),
        (Trigger::Accepted, "AA.AA....AA."),
        (Trigger::FailureRetry, "....o....o.."),
        (Trigger::FailureFail, "....F....F.."),
        (Trigger::FailureFallback, "....o....o.."),
        (Trigger::FailureEscalate, "....G......."),
        (Trigger::FailureDoubt, "....I....I.."),
        (Trigger::Skipped, "SS.SS.S..SS."),
        (Trigger::Reopened, "......o....."),
        (Trigger::DoubtLanded, "...=........"),
        (Trigger::DoubtDidNotHappen, "...o........"),
        (Trigger::ConditionJudged, "oo.......oo."),
        (Trigger::DelayElapsed, "..........o."),
        (Trigger::Question, "oo.......oo."),
        (Trigger::Effect, "..=........."),
        (Trigger::CostCorrected, "============"),
        (Trigger::Failed, "FF.......FF."),
    ];

    #[test]
    fn every_combination_of_status_and_trigger_has_its_one_answer() {
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
            Some(Next::To(StepStatus::InDoubt)) => 'I',
            Some(Next::To(StepStatus::Reported)) => 'R',
            Some(Next::To(StepStatus::Accepted)) => 'A',
            Some(Next::To(StepStatus::Failed)) => 'F',
            Some(Next::To(StepStatus::Skipped)) => 'S',
            Some(Next::To(StepStatus::Gated)) => 'G',
            Some(Next::To(status)) => unreachable!("no trigger leads to {status}"),
        }
    }
}
