//! The decisions of people among the records.

use plan_ledger::{Event, StepNumber, Timestamp};
use plan_ledger_views::{decided_by, escape_control, event_subject, event_text};

/// A decision, and its author.
pub(super) struct Decision {
    pub(super) seq: u64,
    pub(super) time: Timestamp,
    pub(super) by: String,
    pub(super) step: Option<StepNumber>,
    pub(super) text: String,
}

/// The decision in a record, if any.
pub(super) fn decision(seq: u64, time: Timestamp, event: &Event) -> Option<Decision> {
    let by = decided_by(event)?.to_owned();
    Some(Decision {
        seq,
        time,
        by,
        step: event_subject(event).1,
        text: escape_control(&event_text(event)),
    })
}
