//! The records of a log: a row or a line for each, what is after the last one, and what was found.

use std::collections::BTreeMap;
use std::path::Path;

use plan_ledger::internals::format::FrameFault;
use plan_ledger::log::{LoggedRecord, RecordStatus};
use plan_ledger::{Event, RunId};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::health::{HealthWord, OpeningJson};
use crate::layout::{Document, Paint};
use crate::records::{RecordContent, RecordRow, event_subject};
use crate::words::counted;

/// Bytes after the last record of the active segment.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct OpenEndLine {
    /// The start of these bytes.
    offset: u64,
    /// The file.
    path: String,
    /// The reason why they are not a record.
    what: &'static str,
}

impl OpenEndLine {
    /// The bytes of a file from that place on.
    #[must_use]
    pub fn of(path: &Path, offset: u64, fault: FrameFault) -> Self {
        Self { offset, path: path.display().to_string(), what: fault.describe() }
    }

    /// Its document.
    #[must_use]
    pub fn document(&self) -> Document {
        let Self { offset, path, what } = self;
        let text = format!(
            "open end: {path}: byte {offset}: {what}; a write is in progress or was interrupted"
        );
        Document::of_line((Paint::Notice, text))
    }
}

/// The last line: the records that were read.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RecordsLine<'a> {
    /// The health of the records that were read.
    health: RecordsHealthJson<'a>,
    /// The last record that was read.
    last_seq: u64,
    /// The number of lines of type `record`.
    records: u64,
}

/// The health of the records that were read.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct RecordsHealthJson<'a> {
    /// The number of damaged places.
    damage: u64,
    /// Unusual facts that are not damage, for people.
    notes: &'a [String],
    /// The result of opening the ledger for writing now.
    opening: OpeningJson,
    /// Whether everything that was acknowledged can be read.
    status: HealthWord,
    /// The number of intact records after the durable end in HEAD.
    unacknowledged: u64,
    /// The number of records that this program cannot read.
    unreadable: u64,
}

/// The names and counts collected while records are read, one after the other.
#[derive(Debug)]
pub struct RecordList {
    /// The number of records that are shown.
    pub shown: u64,
    /// The number of damaged places.
    pub damage: u64,
    /// The last durable record that was read.
    pub last_durable: u64,
    runs: BTreeMap<RunId, String>,
    last_seq: u64,
    unacknowledged: u64,
    unreadable: u64,
}

impl RecordList {
    /// No record yet. `runs`: the names of runs that may have lost their first record in a prune.
    #[must_use]
    pub fn new(runs: BTreeMap<RunId, String>) -> Self {
        Self {
            shown: 0,
            damage: 0,
            last_durable: 0,
            runs,
            last_seq: 0,
            unacknowledged: 0,
            unreadable: 0,
        }
    }

    /// Counts a record.
    pub fn count(&mut self, record: &LoggedRecord, status: RecordStatus, content: &RecordContent) {
        if let RecordContent::Event(Event::RunStarted(started)) = content {
            self.runs.insert(started.run, started.name.clone());
        }
        self.last_seq = self.last_seq.max(record.seq);
        if status == RecordStatus::Unacknowledged {
            self.unacknowledged += 1;
        } else {
            self.last_durable = self.last_durable.max(record.seq);
        }
        self.unreadable += u64::from(matches!(content, RecordContent::Unreadable(_)));
    }

    /// The row of a record, with the names of its run and step.
    #[must_use]
    pub fn row(
        &self,
        record: &LoggedRecord,
        status: RecordStatus,
        content: &RecordContent,
    ) -> Document {
        let (run, step) = match content {
            RecordContent::Event(event) => event_subject(event),
            _ => (None, None),
        };
        let name =
            |run: RunId| self.runs.get(&run).cloned().unwrap_or_else(|| format!("run {run}"));
        let of = match (run.map(name), step) {
            (Some(run), Some(step)) => format!("{run} #{step}"),
            (Some(run), None) => run,
            (None, _) => String::new(),
        };
        RecordRow::of(record, status, content, &of).document()
    }

    /// Whether all that was read is intact.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        self.damage == 0 && self.unreadable == 0
    }

    /// The last line. `is_good`: everything that was acknowledged can be read.
    #[must_use]
    pub fn line<'a>(
        &self,
        opening: OpeningJson,
        notes: &'a [String],
        is_good: bool,
    ) -> RecordsLine<'a> {
        let health = RecordsHealthJson {
            damage: self.damage,
            notes,
            opening,
            status: HealthWord::of(is_good),
            unacknowledged: self.unacknowledged,
            unreadable: self.unreadable,
        };
        RecordsLine { health, last_seq: self.last_seq, records: self.shown }
    }

    /// What it shows after the last record.
    #[must_use]
    pub fn document(&self) -> Document {
        let mut document = Document::default();
        if self.unacknowledged > 0 {
            let records = counted(self.unacknowledged, "record");
            let text = format!("? {records} after the durable end in HEAD");
            document.painted(Paint::Notice, text);
        }
        if self.shown == 0 {
            document.line("no record matches");
        }
        document
    }
}
