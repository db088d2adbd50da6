//! A ledger as traces of OpenTelemetry (OTLP as JSON): a trace for each run, a span for each attempt.
//! `format/export-forms.md` describes it.
//!
//! Invariant: the identifiers depend on the ledger and the record alone, so that every export
//! names the same spans.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use plan_ledger::internals::ledger::Fold;
use plan_ledger::log::LoggedRecord;
use plan_ledger::plan::{StepEvent, StepRecord};
use plan_ledger::{Cost, Event, Outcome, RunId, Timestamp};

use crate::commands::inspect::output::escaped;
use crate::protocol::{SpanId, TraceId};
use plan_ledger_views::RecordContent;

use super::open_attempts::{OpenAttempt, OpenAttempts};

/// The state that is kept between records.
#[derive(Debug)]
pub(super) struct OtlpExporter {
    /// The identifier of the ledger.
    uid: [u8; 16],
    attempts: OpenAttempts,
    runs: BTreeMap<RunId, (String, Timestamp)>,
    last: Timestamp,
    spans: u64,
}

/// How something ended.
struct SpanEnd<'a> {
    time: Timestamp,
    is_error: bool,
    message: &'a str,
    attributes: Vec<Attribute<'a>>,
}

impl OtlpExporter {
    pub(super) fn new(uid: [u8; 16]) -> Self {
        let (attempts, runs) = (OpenAttempts::default(), BTreeMap::new());
        Self { uid, attempts, runs, last: Timestamp::default(), spans: 0 }
    }

    pub(super) fn begin(out: &mut dyn Write) -> io::Result<()> {
        let service = Attribute::text("service.name", "plan-ledger");
        let version = Attribute::text("service.version", env!("CARGO_PKG_VERSION"));
        let attributes = serde_json::to_string(&[service, version])?;
        write!(
            out,
            "{{\"resourceSpans\":[{{\"resource\":{{\"attributes\":{attributes}}},\"scopeSpans\":[\
             {{\"scope\":{{\"name\":\"plan-ledger\"}},\"spans\":["
        )
    }

    pub(super) fn record(
        &mut self,
        record: &LoggedRecord,
        fold: &Fold,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        self.last = record.time;
        let RecordContent::Event(event) = RecordContent::of(record) else { return Ok(()) };
        match &event {
            Event::RunStarted(started) => {
                self.runs.insert(started.run, (started.name.clone(), record.time));
                Ok(())
            }
            Event::Step(step) => self.step(record, step, fold, out),
            Event::RunEnded(ended) => {
                let is_error = ended.ending != plan_ledger::Ending::Done;
                let end = SpanEnd {
                    time: record.time,
                    is_error,
                    message: &ended.reason,
                    attributes: Vec::new(),
                };
                self.run(ended.run, end, out)
            }
            _ => Ok(()),
        }
    }

    fn step(
        &mut self,
        record: &LoggedRecord,
        of: &StepRecord,
        fold: &Fold,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let Some(open) = self.attempts.follow(record, of) else { return Ok(()) };
        let mut end =
            SpanEnd { time: record.time, is_error: false, message: "", attributes: Vec::new() };
        match &of.event {
            StepEvent::ReceiptRecorded(event) => {
                if let Outcome::Failed { message, .. } = &event.receipt.outcome {
                    (end.is_error, end.message) = (true, message);
                }
                let Cost { money_micros, tokens, .. } = event.receipt.cost;
                end.attributes = vec![
                    Attribute::number("plan_ledger.money_micros", money_micros),
                    Attribute::number("plan_ledger.tokens", tokens),
                ];
            }
            _ => (end.is_error, end.message) = (true, "the attempt was lost"),
        }
        self.attempt(&open, end, fold, out)
    }

    fn attempt(
        &mut self,
        open: &OpenAttempt,
        end: SpanEnd<'_>,
        fold: &Fold,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let step = fold.state.runs.get(&open.run).and_then(|run| run.step(open.step));
        let name = step.map_or_else(|| format!("#{}", open.step), |step| step.id().to_owned());
        let mut attributes = vec![
            Attribute::number("plan_ledger.step", open.step.0.into()),
            Attribute::number("plan_ledger.attempt", open.attempt.into()),
            Attribute::text("plan_ledger.worker", &open.worker),
        ];
        attributes.extend(end.attributes);
        let span = Span {
            trace_id: TraceId::of(&self.uid, open.run),
            span_id: SpanId::of_attempt(&self.uid, open.token),
            parent_span_id: Some(SpanId::of_run(&self.uid, open.run)),
            name: &name,
            kind: SPAN_INTERNAL,
            start_time_unix_nano: nanos(open.since),
            end_time_unix_nano: nanos(end.time),
            attributes,
            status: Status::of(end.is_error, end.message),
        };
        write_span(&mut self.spans, &span, out)
    }

    fn run(&mut self, run: RunId, end: SpanEnd<'_>, out: &mut dyn Write) -> io::Result<()> {
        let Some((name, since)) = self.runs.remove(&run) else { return Ok(()) };
        let mut attributes = vec![Attribute::number("plan_ledger.run", run.0.into())];
        attributes.extend(end.attributes);
        let span = Span {
            trace_id: TraceId::of(&self.uid, run),
            span_id: SpanId::of_run(&self.uid, run),
            parent_span_id: None,
            name: &name,
            kind: SPAN_INTERNAL,
            start_time_unix_nano: nanos(since),
            end_time_unix_nano: nanos(end.time),
            attributes,
            status: Status::of(end.is_error, end.message),
        };
        write_span(&mut self.spans, &span, out)
    }

    /// An item that has not ended reaches to the last record.
    pub(super) fn end(mut self, fold: &Fold, out: &mut dyn Write) -> io::Result<()> {
        let time = self.last;
        let open = || SpanEnd {
            time,
            is_error: false,
            message: "",
            attributes: vec![Attribute::text("plan_ledger.in_flight", "true")],
        };
        let mut rest = std::mem::take(&mut self.attempts).into_rest();
        rest.try_for_each(|attempt| self.attempt(&attempt, open(), fold, out))?;
        let runs: Vec<_> = self.runs.keys().copied().collect();
        runs.into_iter().try_for_each(|run| self.run(run, open(), out))?;
        out.write_all(b"\n]}]}]}\n")?;
        out.flush()
    }
}

/// Writes a span after those before it.
fn write_span(spans: &mut u64, span: &Span<'_>, out: &mut dyn Write) -> io::Result<()> {
    let comma = if *spans == 0 { "" } else { "," };
    *spans += 1;
    write!(out, "{comma}\n{}", escaped(&serde_json::to_string(span)?))
}

/// A span of work within one process, as the protocol numbers it.
const SPAN_INTERNAL: u8 = 1;

/// A span, with the names of the protocol.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Span<'a> {
    trace_id: TraceId,
    span_id: SpanId,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_span_id: Option<SpanId>,
    name: &'a str,
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: Vec<Attribute<'a>>,
    status: Status<'a>,
}

/// Whether the attempt succeeded.
#[derive(Debug, Serialize)]
struct Status<'a> {
    code: u8,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'a str,
}

impl<'a> Status<'a> {
    fn of(is_error: bool, message: &'a str) -> Self {
        Self { code: if is_error { 2 } else { 1 }, message: if is_error { message } else { "" } }
    }
}

/// A named value.
#[derive(Debug, Serialize)]
struct Attribute<'a> {
    key: &'static str,
    value: AttributeValue<'a>,
}

/// A value. The protocol writes whole numbers as texts.
#[derive(Debug, Serialize)]
enum AttributeValue<'a> {
    #[serde(rename = "stringValue")]
    Text(&'a str),
    #[serde(rename = "intValue")]
    Number(String),
}

impl<'a> Attribute<'a> {
    fn text(key: &'static str, value: &'a str) -> Self {
        Self { key, value: AttributeValue::Text(value) }
    }

    fn number(key: &'static str, value: u64) -> Self {
        Self { key, value: AttributeValue::Number(value.to_string()) }
    }
}

/// Nanoseconds since 1970, as a text.
fn nanos(time: Timestamp) -> String {
    format!("{time}000")
}
