//! The history of a step, one line for each record, and the time between them.

use plan_ledger::log::{LoggedRecord, RecordStatus};
use plan_ledger::plan::{Micros, StepEvent};
use plan_ledger::{Event, Receipt, Run, RunId, StepNumber, StepState, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::layout::{Document, Paint, Table};
use crate::records::{RecordContent, RecordLine, content_text};
use crate::words::{seconds, span};

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

/// The last line of a history.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct HistoryLine<'a> {
    /// The id of the step.
    id: Option<&'a str>,
    /// The number of lines of type `record`.
    records: usize,
    /// The run.
    run: RunId,
    /// The number of the step.
    step: StepNumber,
}

/// The history of a step.
#[derive(Debug)]
pub struct History<'a> {
    /// The last line.
    pub line: HistoryLine<'a>,
    run: &'a Run,
    entries: &'a [HistoryEntry],
}

impl<'a> History<'a> {
    /// The history of a step of a run.
    #[must_use]
    pub fn of(run: &'a Run, step: StepNumber, entries: &'a [HistoryEntry]) -> Self {
        let id = run.step(step).map(StepState::id);
        let line = HistoryLine { id, records: entries.len(), run: run.id, step };
        Self { line, run, entries }
    }

    /// A line for each record.
    pub fn records(&self) -> impl Iterator<Item = RecordLine<'a>> {
        let line = |HistoryEntry { record, status, content }: &'a HistoryEntry| {
            RecordLine::of(record, *status, content)
        };
        self.entries.iter().map(line)
    }

    /// Its document.
    #[must_use]
    pub fn document(&self) -> Document {
        let mut document = Document::default();
        if self.entries.is_empty() {
            document.line("no events yet");
            return document;
        }
        let mut table = Table::with_headings(&["record", "when", "after", "what"]);
        let mut last: Option<Timestamp> = None;
        for HistoryEntry { record, content, .. } in self.entries {
            let after = match last {
                None => format!("{} in", gap(record.time.saturating_sub(self.run.started))),
                Some(last) => format!("+{}", gap(record.time.saturating_sub(last))),
            };
            last = Some(record.time);
            table.row([
                (Paint::None, record.seq.to_string()),
                (Paint::None, seconds(record.time)),
                (Paint::Faint, after),
                content_text(record, content),
            ]);
        }
        document.table(2, table);
        document
    }
}

/// A time between two records; microseconds are omitted if there are seconds.
fn gap(micros: Micros) -> String {
    span(if micros >= 1_000 { micros / 1_000 * 1_000 } else { micros })
}
