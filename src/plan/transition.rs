//! The total transition table: what each event means for a step in each status.
//!
//! Invariants: every pair of status and trigger has one answer. What is not in a row is not
//! allowed, and an event that is not allowed changes nothing but the step's last sequence number.
//!
//! Left out on purpose: whether an event names the step's current attempt. The fold checks that.

use super::{AfterLoss, Decision, Finding, StepEvent, StepStatus};

/// What kind of thing happened to a step, as far as its status is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trigger {
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
    Skipped,
    Reopened,
    DoubtLanded,
    DoubtDidNotHappen,
}

/// Where a step goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// It stays where it is.
    Same,
    /// It is ready, or waiting if something that it depends on is not settled.
    Open,
    /// It goes there.
    To(StepStatus),
}

type Row = &'static [(Trigger, Next)];

// A receipt that may not count is a fact about a step in any status: it is in every row.
const WAITING: Row = &[
    (Trigger::Accepted, Next::To(StepStatus::Accepted)),
    (Trigger::Skipped, Next::To(StepStatus::Skipped)),
    (Trigger::ReceiptRefused, Next::Same),
];
const READY: Row = &[
    (Trigger::Dispatched, Next::To(StepStatus::Dispatched)),
    (Trigger::Accepted, Next::To(StepStatus::Accepted)),
    (Trigger::Skipped, Next::To(StepStatus::Skipped)),
    (Trigger::ReceiptRefused, Next::Same),
];
const DISPATCHED: Row = &[
    (Trigger::ReceiptRecorded, Next::To(StepStatus::Reported)),
    (Trigger::LeaseRenewed, Next::Same),
    (Trigger::LostDealAgain, Next::Open),
    (Trigger::LostInDoubt, Next::To(StepStatus::InDoubt)),
    (Trigger::ReceiptRefused, Next::Same),
];
const IN_DOUBT: Row = &[
    // Its acceptance follows as an event of its own, with its grounds.
    (Trigger::DoubtLanded, Next::Same),
    (Trigger::DoubtDidNotHappen, Next::Open),
    (Trigger::Accepted, Next::To(StepStatus::Accepted)),
    (Trigger::Skipped, Next::To(StepStatus::Skipped)),
    (Trigger::ReceiptRefused, Next::Same),
];
const REPORTED: Row = &[
    (Trigger::VerdictRecorded, Next::Same),
    (Trigger::Accepted, Next::To(StepStatus::Accepted)),
    (Trigger::FailureRetry, Next::Open),
    (Trigger::FailureFail, Next::To(StepStatus::Failed)),
    (Trigger::Skipped, Next::To(StepStatus::Skipped)),
    (Trigger::ReceiptRefused, Next::Same),
];
const FAILED: Row = &[
    (Trigger::Reopened, Next::Open),
    (Trigger::Skipped, Next::To(StepStatus::Skipped)),
    (Trigger::ReceiptRefused, Next::Same),
];
const OVER: Row = &[(Trigger::ReceiptRefused, Next::Same)];

/// Where a trigger takes a step; `None` if it is not allowed.
pub(super) fn transition(status: StepStatus, trigger: Trigger) -> Option<Next> {
    let row = match status {
        StepStatus::Waiting => WAITING,
        StepStatus::Ready => READY,
        StepStatus::Dispatched => DISPATCHED,
        StepStatus::InDoubt => IN_DOUBT,
        StepStatus::Reported => REPORTED,
        StepStatus::Failed => FAILED,
        StepStatus::Accepted | StepStatus::Skipped | StepStatus::Removed => OVER,
    };
    row.iter().find(|(each, _)| *each == trigger).map(|(_, next)| *next)
}

impl StepEvent {
    /// What the event is to the table.
    pub(super) fn trigger(&self) -> Trigger {
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
                Decision::Retry => Trigger::FailureRetry,
                Decision::Fail => Trigger::FailureFail,
            },
            Self::Skipped(_) => Trigger::Skipped,
            Self::Reopened(_) => Trigger::Reopened,
            Self::DoubtResolved(doubt) => match doubt.finding {
                Finding::Landed => Trigger::DoubtLanded,
                Finding::DidNotHappen => Trigger::DoubtDidNotHappen,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUSES: [StepStatus; 9] = [
        StepStatus::Waiting,
        StepStatus::Ready,
        StepStatus::Dispatched,
        StepStatus::InDoubt,
        StepStatus::Reported,
        StepStatus::Accepted,
        StepStatus::Failed,
        StepStatus::Skipped,
        StepStatus::Removed,
    ];

    /// Every trigger with what it does in each status of `STATUSES`: `.` not allowed, `=` stays,
    /// `o` open, else the first letter of the status that it goes to (`I` for in doubt).
    const MATRIX: [(Trigger, &str); 14] = [
        (Trigger::Dispatched, ".D......."),
        (Trigger::LeaseRenewed, "..=......"),
        (Trigger::LostDealAgain, "..o......"),
        (Trigger::LostInDoubt, "..I......"),
        (Trigger::ReceiptRecorded, "..R......"),
        (Trigger::ReceiptRefused, "========="),
        (Trigger::VerdictRecorded, "....=...."),
        (Trigger::Accepted, "AA.AA...."),
        (Trigger::FailureRetry, "....o...."),
        (Trigger::FailureFail, "....F...."),
        (Trigger::Skipped, "SS.SS.S.."),
        (Trigger::Reopened, "......o.."),
        (Trigger::DoubtLanded, "...=....."),
        (Trigger::DoubtDidNotHappen, "...o....."),
    ];

    #[test]
    fn every_combination_of_status_and_trigger_has_its_one_answer() {
        for (trigger, row) in MATRIX {
            let found: String =
                STATUSES.iter().map(|status| letter(transition(*status, trigger))).collect();
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
            Some(Next::To(status)) => unreachable!("no trigger leads to {status}"),
        }
    }
}
