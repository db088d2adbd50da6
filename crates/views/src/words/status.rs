//! The status of a step or barrier: its paint, and a mark for terminals without colour.

use plan_ledger::plan::BarrierStatus;
use plan_ledger::{Ending, RunStatus, StepStatus};

use super::parts::variant_words;
use crate::layout::Paint;

/// The paint of a step's status.
#[must_use]
pub fn status_paint(status: StepStatus) -> Paint {
    match status {
        StepStatus::Accepted => Paint::Good,
        StepStatus::Failed => Paint::Bad,
        StepStatus::OutcomeUnknown
        | StepStatus::Reported
        | StepStatus::Gated
        | StepStatus::Delayed => Paint::Notice,
        StepStatus::Dispatched | StepStatus::Ready => Paint::Heading,
        StepStatus::Waiting => Paint::None,
        StepStatus::Skipped | StepStatus::Removed | StepStatus::Cancelled => Paint::Faint,
    }
}

/// A status as one character, readable without color.
#[must_use]
pub fn status_mark(status: StepStatus) -> char {
    match status {
        StepStatus::Accepted => '+',
        StepStatus::Failed => 'x',
        StepStatus::OutcomeUnknown => '?',
        StepStatus::Reported => '~',
        StepStatus::Gated => '!',
        StepStatus::Delayed => ':',
        StepStatus::Dispatched => '>',
        StepStatus::Ready => '*',
        StepStatus::Waiting => ' ',
        StepStatus::Skipped | StepStatus::Removed | StepStatus::Cancelled => '-',
    }
}

/// The legend of the marks of those statuses.
#[must_use]
pub fn legend(statuses: &[StepStatus]) -> String {
    let known = StepStatus::ALL.iter().filter(|status| statuses.contains(status));
    let entries = known.map(|status| format!("[{}] {status}", status_mark(*status)));
    entries.collect::<Vec<_>>().join("  ")
}

/// The paint of a barrier's status.
#[must_use]
pub fn barrier_paint(status: BarrierStatus) -> Paint {
    match status {
        BarrierStatus::Closed => Paint::None,
        BarrierStatus::Released => Paint::Good,
        BarrierStatus::Broken => Paint::Bad,
    }
}

/// The status of a barrier as a word.
#[must_use]
pub fn barrier_word(status: BarrierStatus) -> &'static str {
    match status {
        BarrierStatus::Closed => "closed",
        BarrierStatus::Released => "released",
        BarrierStatus::Broken => "broken",
    }
}

/// The status of a run, and its paint.
#[must_use]
pub fn run_status_text(status: RunStatus) -> (Paint, String) {
    match status {
        RunStatus::Proposed => (Paint::Notice, "proposed".to_owned()),
        RunStatus::Running => (Paint::None, "running".to_owned()),
        RunStatus::Ended(ending) => {
            let paint = if ending == Ending::Done { Paint::Good } else { Paint::Bad };
            (paint, variant_words(&ending, ' '))
        }
    }
}
