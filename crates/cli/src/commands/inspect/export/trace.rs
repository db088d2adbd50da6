//! A ledger as Chrome's trace format: a process for each run, a thread for each step, a slice for
//! each attempt, a mark for each decision. `format/inspect-export.md` describes it.
//!
//! Invariant: slices of a thread never overlap, since a step has one attempt at a time.

use std::collections::BTreeSet;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;

use plan_ledger::internals::ledger::Fold;
use plan_ledger::log::LoggedRecord;
use plan_ledger::plan::{StepEvent, StepRecord};
use plan_ledger::{AttemptToken, Event, RunId, StepNumber, Timestamp};

use crate::commands::inspect::json::event::event_json;
use crate::commands::inspect::output::escaped;
use crate::commands::inspect::record_content::{RecordContent, kind_name};
use crate::commands::inspect::text::event::{event_subject, event_text};

use super::open_attempts::{OpenAttempt, OpenAttempts};

/// The state that is kept between records.
#[derive(Debug, Default)]
pub(super) struct TraceExporter {
    open: OpenAttempts,
    named: BTreeSet<(RunId, StepNumber)>,
    last: Timestamp,
    lines: u64,
}

impl TraceExporter {
    pub(super) fn begin(out: &mut dyn Write) -> io::Result<()> {
        out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[")
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
                let args = TraceArgs::Name { name: &started.name };
                self.line(&TraceEvent::metadata("process_name", started.run, None, args), out)
            }
            Event::Step(step) => self.step(record, step, fold, out),
            Event::RunEnded(ended) => {
                self.named.retain(|(run, _)| *run != ended.run);
                Ok(())
            }
            _ => Ok(()),
        }?;
        if is_mark(&event) { self.mark(record, &event, out) } else { Ok(()) }
    }

    fn step(
        &mut self,
        record: &LoggedRecord,
        of: &StepRecord,
        fold: &Fold,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        self.name(of, fold, out)?;
        let Some(open) = self.open.follow(record, of) else { return Ok(()) };
        let outcome = match &of.event {
            StepEvent::AttemptLost(_) => "lost",
            _ => "reported",
        };
        self.slice(&open, record.time, outcome, out)
    }

    /// Writes the name of a step's thread before its first slice.
    fn name(&mut self, of: &StepRecord, fold: &Fold, out: &mut dyn Write) -> io::Result<()> {
        if !self.named.insert((of.run, of.step)) {
            return Ok(());
        }
        let step = fold.state.runs.get(&of.run).and_then(|run| run.step(of.step));
        let name = match step {
            Some(step) => format!("#{} {}", of.step, step.id()),
            None => format!("#{}", of.step),
        };
        let args = TraceArgs::Name { name: &name };
        self.line(&TraceEvent::metadata("thread_name", of.run, Some(of.step), args), out)?;
        let args = TraceArgs::SortIndex { sort_index: of.step };
        self.line(&TraceEvent::metadata("thread_sort_index", of.run, Some(of.step), args), out)
    }

    fn slice(
        &mut self,
        open: &OpenAttempt,
        end: Timestamp,
        outcome: &str,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let OpenAttempt { token, run, step, since, attempt, worker } = open;
        let name = format!("attempt {attempt}");
        let line = TraceEvent {
            cat: Some("attempt"),
            dur: Some(end.saturating_sub(*since)),
            tid: Some(*step),
            ts: Some(*since),
            ..TraceEvent::of(
                Phase::Complete,
                &name,
                *run,
                TraceArgs::Attempt { token: *token, worker, outcome },
            )
        };
        self.line(&line, out)
    }

    fn mark(
        &mut self,
        record: &LoggedRecord,
        event: &Event,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let (run, step) = event_subject(event);
        let args =
            TraceArgs::Event { seq: record.seq, text: event_text(event), event: event_json(event) };
        let name = kind_name(record.kind);
        let line = TraceEvent {
            cat: Some("event"),
            s: Some(if step.is_some() { "t" } else { "p" }),
            tid: step,
            ts: Some(record.time),
            ..TraceEvent::of(Phase::Instant, &name, run, args)
        };
        self.line(&line, out)
    }

    fn line(&mut self, event: &TraceEvent<'_>, out: &mut dyn Write) -> io::Result<()> {
        let comma = if self.lines == 0 { "" } else { "," };
        self.lines += 1;
        write!(out, "{comma}\n{}", escaped(&sorted(event)))
    }

    /// Attempts in flight reach to the last record.
    pub(super) fn end(mut self, fold: &Fold, out: &mut dyn Write) -> io::Result<()> {
        for open in std::mem::take(&mut self.open).into_rest() {
            self.slice(&open, self.last, "in_flight", out)?;
        }
        let last = fold.last.as_ref().map(|last| (last.seq, last.chain.to_string()));
        let about = sorted(&TraceSource {
            schema: 1,
            last_seq: last.as_ref().map(|(seq, _)| *seq),
            chain: last.as_ref().map(|(_, chain)| chain.as_str()),
            damage: fold.damage.len(),
        });
        write!(out, "\n],\"otherData\":{about}}}\n")?;
        out.flush()
    }
}

/// The phase of an event of the trace format.
#[derive(Debug, Clone, Copy, Serialize)]
enum Phase {
    #[serde(rename = "M")]
    Metadata,
    #[serde(rename = "X")]
    Complete,
    #[serde(rename = "i")]
    Instant,
}

/// An event of the trace format. The names of its members are those of the format.
#[derive(Debug, Serialize)]
struct TraceEvent<'a> {
    args: TraceArgs<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'static str>,
    /// The duration in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<Timestamp>,
    name: &'a str,
    ph: Phase,
    /// The run.
    pid: Option<RunId>,
    /// The scope of an instant: the thread or the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'static str>,
    /// The step.
    #[serde(skip_serializing_if = "Option::is_none")]
    tid: Option<StepNumber>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<Timestamp>,
}

/// The details of an event of the trace.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum TraceArgs<'a> {
    Name { name: &'a str },
    SortIndex { sort_index: StepNumber },
    Attempt { token: AttemptToken, worker: &'a str, outcome: &'a str },
    Event { seq: u64, text: String, event: Value },
}

/// The ledger that a trace shows.
#[derive(Debug, Serialize)]
struct TraceSource<'a> {
    schema: u32,
    last_seq: Option<u64>,
    chain: Option<&'a str>,
    damage: usize,
}

impl<'a> TraceEvent<'a> {
    fn of(ph: Phase, name: &'a str, run: impl Into<Option<RunId>>, args: TraceArgs<'a>) -> Self {
        Self { args, cat: None, dur: None, name, ph, pid: run.into(), s: None, tid: None, ts: None }
    }

    /// The name of a process or thread, or its place.
    fn metadata(name: &'a str, run: RunId, step: Option<StepNumber>, args: TraceArgs<'a>) -> Self {
        Self { tid: step, ..Self::of(Phase::Metadata, name, run, args) }
    }
}

/// The JSON of a value, its members in alphabetical order.
fn sorted(value: &impl Serialize) -> String {
    serde_json::to_value(value).expect("the trace consists of JSON values").to_string()
}

/// Whether an event is shown as a mark: decisions and their consequences.
fn is_mark(event: &Event) -> bool {
    match event {
        Event::Step(record) => !matches!(
            record.event,
            StepEvent::Dispatched(_) | StepEvent::LeaseRenewed(_) | StepEvent::ReceiptRecorded(_)
        ),
        Event::PlanActivated(_)
        | Event::PlanReviewed(_)
        | Event::BarrierChanged(_)
        | Event::RunEnded(_)
        | Event::RunReopened(_)
        | Event::RunPaused(_)
        | Event::RunResumed(_)
        | Event::ReplanRequested(_)
        | Event::QuestionAsked(_)
        | Event::QuestionAnswered(_)
        | Event::QuestionExpired(_) => true,
        _ => false,
    }
}
