//! Every record of a run and its changes, and the payloads of receipts in full: a post-mortem needs their ends, too.

use plan_ledger::internals::ledger::{TracedRecord, ValueChange, time_text};
use plan_ledger::plan::{StepEvent, StepRecord, UtcTime};
use plan_ledger::{Cost, Event, Outcome, Receipt, RecordedEvent, RunId};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::layout::{Document, Paint};
use crate::records::event_text;
use crate::words::cost_text;

/// The last record of a run without information about its changes.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct UnavailableLine {
    /// The run.
    run: RunId,
    /// The record.
    through: u64,
}

/// A record of a run with its changes.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct TracedLine<'a> {
    /// The changes; null if they are not known.
    changes: Option<&'a [ValueChange]>,
    /// The event of the record as text.
    #[cfg_attr(feature = "schema", schemars(with = "crate::json::EventSchema"))]
    event: &'a Event,
    /// For an activation: the differences from the previous version, for people.
    replan: Option<String>,
    /// The record.
    seq: u64,
    /// Its time.
    time: UtcTime,
}

/// The records of a run.
#[derive(Debug)]
pub struct Trace<'a> {
    /// The last record with changes that are not known, because earlier records were pruned.
    pub unavailable: Option<UnavailableLine>,
    /// A line for each later record.
    pub records: Vec<TracedLine<'a>>,
}

impl<'a> Trace<'a> {
    /// The records of a run after the one with that number, and those after damage, with changes that are not known.
    #[must_use]
    pub fn of(
        run: RunId,
        after: u64,
        traced: &'a [TracedRecord],
        after_damage: &'a [RecordedEvent],
    ) -> Self {
        let traced = traced.iter().map(|TracedRecord { seq, time, event, changes, replan }| {
            let replan = replan.as_ref().map(ToString::to_string);
            let time = (*time).into();
            TracedLine { changes: Some(changes), event, replan, seq: *seq, time }
        });
        let rest = after_damage.iter().filter_map(|record| {
            let (event, time) = (record.event.as_ref()?, record.time.into());
            Some(TracedLine { changes: None, event, replan: None, seq: record.seq, time })
        });
        let unavailable = (after > 0).then_some(UnavailableLine { run, through: after });
        Self { unavailable, records: traced.chain(rest).collect() }
    }

    /// Its document.
    #[must_use]
    pub fn document(&self) -> Document {
        let mut document = Document::default();
        if let Some(UnavailableLine { through, .. }) = self.unavailable {
            let text = format!("changes are shown from record {} on", through.saturating_add(1));
            document.painted(Paint::Notice, text);
        }
        self.records.iter().for_each(|line| line.describe(&mut document));
        document
    }
}

/// Columns before what belongs to a record.
const INDENT: usize = 11;

impl TracedLine<'_> {
    fn describe(&self, document: &mut Document) {
        let Self { changes, event, replan, seq, time } = self;
        document.cut(0, format!("{seq:>7}  {}  {}", time_text(time.micros), event_text(event)));
        for (name, text) in payloads(event) {
            document.indented(INDENT, (Paint::Faint, format!("{name}: {}", text.trim_end())));
        }
        for change in changes.unwrap_or_default() {
            document.cut(INDENT, (Paint::Faint, change.to_string()));
        }
        for line in replan.iter().flat_map(|text| text.lines()) {
            document.indented(INDENT, (Paint::Notice, line));
        }
    }
}

/// What a receipt brought, by name.
fn payloads(event: &Event) -> Vec<(&'static str, String)> {
    let Event::Step(StepRecord { event: StepEvent::ReceiptRecorded(recorded), .. }) = event else {
        return Vec::new();
    };
    let Receipt { outcome, output, cost, log_tail, .. } = &recorded.receipt;
    let mut payloads = Vec::new();
    if let Outcome::Failed { payload, .. } = outcome
        && payload.as_str() != "null"
    {
        payloads.push(("payload", payload.as_str().to_owned()));
    }
    if let Some(output) = output.inline().filter(|output| output.as_str() != "null") {
        payloads.push(("output", output.as_str().to_owned()));
    }
    if !log_tail.is_empty() {
        payloads.push(("log", log_tail.to_string()));
    }
    if *cost != Cost::default() {
        payloads.push(("cost", cost_text(*cost)));
    }
    payloads
}
