//! The history of a step: its records.

use plan_ledger::log::{LoggedRecord, RecordStatus};
use plan_ledger::plan::StepEvent;
use plan_ledger::{Event, Receipt};

use crate::records::RecordContent;

/// One entry of a step's history.
#[derive(Debug)]
pub struct HistoryEntry {
    /// The record.
    pub record: LoggedRecord,
    /// What proves it.
    pub status: RecordStatus,
    /// What it holds: an event of the step.
    pub content: RecordContent,
}

impl HistoryEntry {
    /// The step event. Every entry has one.
    #[must_use]
    pub fn event(&self) -> Option<&StepEvent> {
        match &self.content {
            RecordContent::Event(Event::Step(record)) => Some(&record.event),
            _ => None,
        }
    }

    /// The receipt of a worker, also one that was refused.
    #[must_use]
    pub fn receipt(&self) -> Option<&Receipt> {
        match self.event()? {
            StepEvent::ReceiptRecorded(event) => Some(&event.receipt),
            StepEvent::ReceiptRefused(event) => Some(&event.receipt),
            _ => None,
        }
    }
}
