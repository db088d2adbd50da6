//! The output of workers: lines of their standard output and error, each below the name of its attempt.

use plan_ledger::plan::{Dispatched, StepEvent};
use plan_ledger::{AttemptToken, Ruling, Run, RunId, StepNumber, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::attempts::AttemptLine;
use crate::layout::{Document, Paint};
use crate::records::step_event_text;
use crate::words::{moment, step_name};

/// The output of an attempt.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LogLine<'a> {
    #[serde(flatten)]
    source: &'a LogSource,
    /// Whether the attempt was in flight when it was read.
    is_live: bool,
    /// The stream.
    stream: Stream,
    /// The printed text. The output in a receipt is printed as JSON, unless it is a text.
    text: String,
}

/// A stream of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// The attempt that prints.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LogSource {
    /// The number of the attempt at its step, from 1; null if its dispatch cannot be read.
    attempt: Option<u32>,
    /// The id of its step.
    id: String,
    /// The run.
    pub run: RunId,
    /// The number of its step.
    step: StepNumber,
    /// Its token.
    pub token: AttemptToken,
    /// Its worker.
    worker: Option<String>,
}

impl LogSource {
    /// The attempt at a step of a run; its number and worker are those of its dispatch, if that is known.
    #[must_use]
    pub fn of(
        run: &Run,
        step: StepNumber,
        token: AttemptToken,
        dispatch: Option<&Dispatched>,
    ) -> Self {
        let id = run.step(step).map_or_else(String::new, |step| step.id().to_owned());
        let attempt = dispatch.map(|event| event.attempt);
        let worker = dispatch.map(|event| event.worker.clone());
        Self { run: run.id, token, step, id, attempt, worker }
    }

    /// The attempt in flight at a step of a run; `None` if there is none.
    #[must_use]
    pub fn in_flight(run: &Run, number: StepNumber) -> Option<Self> {
        let step = run.step(number)?;
        let attempt = step.attempt()?;
        let (count, worker) = (Some(step.attempts), Some(attempt.worker.clone()));
        Some(Self { attempt: count, worker, ..Self::of(run, number, attempt.token, None) })
    }

    /// A text that it printed.
    #[must_use]
    pub fn line(&self, stream: Stream, text: String, is_live: bool) -> LogLine<'_> {
        LogLine { source: self, is_live, stream, text }
    }

    /// Its name.
    #[must_use]
    pub fn heading(&self, run: &Run) -> Document {
        Document::of_line((Paint::Heading, self.text(run)))
    }

    /// Its name, the time of its dispatch, and its outcome.
    #[must_use]
    pub fn heading_of(&self, run: &Run, attempt: &AttemptLine<'_>, now: Timestamp) -> Document {
        let time = attempt.dispatched_at.as_ref();
        let time = time.map(|time| format!(", {}", moment(time.micros, now))).unwrap_or_default();
        let outcome = attempt.outcome.replace('_', " ");
        Document::of_line((Paint::Heading, format!("{}{time}: {outcome}", self.text(run))))
    }

    fn text(&self, run: &Run) -> String {
        let attempt = self.attempt.map(|number| format!(", attempt {number}"));
        let worker = self.worker.as_ref().map(|worker| format!(" by {worker}"));
        let (attempt, worker) = (attempt.unwrap_or_default(), worker.unwrap_or_default());
        format!("{}{attempt}{worker}", step_name(run, self.step))
    }
}

impl LogLine<'_> {
    /// Its lines, which name their step if several steps print at the same time.
    #[must_use]
    pub fn document(&self, is_named: bool) -> Document {
        let LogSource { step, id, .. } = self.source;
        let named = if is_named { format!("#{step} {id} ") } else { String::new() };
        let mark = match self.stream {
            Stream::Output => '|',
            Stream::Error => '!',
        };
        let mut document = Document::default();
        self.text.lines().for_each(|line| document.line(format!("{named}{mark} {line}")));
        document
    }
}

/// An event of a step that is told among what workers print, with the time of it; `None` for the others.
#[must_use]
pub fn event_among_logs(
    run: &Run,
    step: StepNumber,
    event: &StepEvent,
    time: &str,
) -> Option<Document> {
    let paint = match event {
        StepEvent::Dispatched(_) | StepEvent::ReceiptRecorded(_) => Paint::Heading,
        StepEvent::VerdictRecorded(event) if event.verdict.ruling == Ruling::Fail => Paint::Bad,
        StepEvent::Accepted(_) => Paint::Good,
        StepEvent::AttemptLost(_) | StepEvent::FailureDecided(_) | StepEvent::Skipped(_) => {
            Paint::Notice
        }
        _ => return None,
    };
    let text = format!("{time} {}: {}", step_name(run, step), step_event_text(event));
    Some(Document::of_line((paint, text)))
}
