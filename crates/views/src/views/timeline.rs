//! The attempts and waits of each step of a run over time.
//!
//! Invariant: each way in which an attempt can end has its own character, so that it is visible
//! without color.

use plan_ledger::internals::ledger::{IntervalKind, StepTimeline, TimelineInterval};
use plan_ledger::plan::{Micros, UtcTime};
use plan_ledger::{Run, RunId, StepNumber, StepState, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::layout::{Block, Document, Paint, Text, Timeline, TimelineCell, TimelineRow};
use crate::words::span;
use crate::words::step_name;
use crate::words::{status_mark, status_paint};

/// An attempt or a wait of a step.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct IntervalLine<'a> {
    /// Its start.
    since: UtcTime,
    /// The id of the step.
    id: Option<&'a str>,
    /// The outcome of the attempt, or the reason for the wait.
    kind: IntervalKind,
    /// The run.
    run: RunId,
    /// The record that began it.
    seq: u64,
    /// The number of the step.
    step: StepNumber,
    /// Its end; null if it has not ended.
    until: Option<UtcTime>,
    /// The worker of the attempt; null for a wait.
    worker: Option<&'a str>,
}

/// The attempts of a run's steps, with the step that began first at the top.
#[derive(Debug)]
pub struct StepTimelines<'a> {
    run: &'a Run,
    rows: Vec<(StepNumber, StepTimeline)>,
    now: Timestamp,
}

impl<'a> StepTimelines<'a> {
    /// The timelines of the steps of a run at that time.
    #[must_use]
    pub fn of(
        run: &'a Run,
        timelines: impl IntoIterator<Item = (StepNumber, StepTimeline)>,
        now: Timestamp,
    ) -> Self {
        let mut rows: Vec<_> = timelines.into_iter().collect();
        rows.sort_by_key(|(_, timeline)| timeline.intervals.first().map(|interval| interval.seq));
        Self { run, rows, now }
    }

    /// A line for each interval.
    pub fn lines(&self) -> impl Iterator<Item = IntervalLine<'_>> {
        let intervals = self.rows.iter().flat_map(|(number, timeline)| {
            timeline.intervals.iter().map(move |interval| (*number, interval))
        });
        intervals.map(|(number, interval)| {
            let TimelineInterval { from, until, kind, seq, worker, .. } = interval;
            IntervalLine {
                since: (*from).into(),
                id: self.run.step(number).map(StepState::id),
                kind: *kind,
                run: self.run.id,
                seq: *seq,
                step: number,
                until: until.map(UtcTime::from),
                worker: worker.as_deref(),
            }
        })
    }

    /// Its document.
    #[must_use]
    pub fn document(&self) -> Document {
        let mut document = Document::default();
        let starts = self.rows.iter().filter_map(|(_, timeline)| timeline.intervals.first());
        let Some(from) = starts.map(|interval| interval.from).min() else {
            document.line("no step was dispatched yet");
            return document;
        };
        let until = self.until(from);
        let rows = self.rows.iter().map(|(number, timeline)| self.row(*number, timeline, until));
        document.push(Block::Timeline(Timeline {
            from,
            until,
            rows: rows.collect(),
            legend: LEGEND.map(str::to_owned).to_vec(),
        }));
        document
    }

    /// The end of the time axis: now while an attempt is in flight. If the run waits only for people, the axis ends
    /// soon after the last work, so that the work stays visible.
    fn until(&self, from: Timestamp) -> Timestamp {
        let intervals = || self.rows.iter().flat_map(|(_, timeline)| &timeline.intervals);
        let known = intervals().flat_map(|each| [Some(each.from), each.until]).flatten();
        let last = known.max().unwrap_or(from).max(from + 1);
        let mut open = intervals().filter(|each| each.until.is_none()).peekable();
        if open.peek().is_none() {
            return last;
        }
        let now = self.run.ended_at().unwrap_or(self.now).max(last);
        if open.any(|each| each.kind == IntervalKind::InFlight) {
            now
        } else {
            now.min(last.saturating_add((last - from) / 4 + 1))
        }
    }

    fn row(&self, number: StepNumber, timeline: &StepTimeline, until: Timestamp) -> TimelineRow {
        let status = self.run.step(number).map(|step| step.status);
        let paint = status.map_or(Paint::None, status_paint);
        let attempts = timeline.intervals.iter().filter(|interval| interval.kind.is_attempt());
        let worked: Micros =
            attempts.map(|each| each.until.unwrap_or(until).saturating_sub(each.from)).sum();
        let unit = if worked >= 1_000_000 { 1_000_000 } else { 1_000 };
        let worked = span(worked / unit * unit);
        let sum = match timeline.attempts {
            0 => String::new(),
            1 => worked,
            many => format!("{many}x {worked}"),
        };
        TimelineRow {
            mark: Text::painted(paint, status.map_or(' ', status_mark).to_string()),
            name: step_name(self.run, number),
            cells: timeline.intervals.iter().map(cell).collect(),
            sum,
        }
    }
}

fn cell(interval: &TimelineInterval) -> TimelineCell {
    let TimelineInterval { from, until, kind, .. } = interval;
    let (inside, end, paint) = characters(*kind);
    TimelineCell { from: *from, until: *until, inside, end, paint, shows_end: kind.is_attempt() }
}

/// The character of an interval, the character of its end, and their paint.
fn characters(kind: IntervalKind) -> (char, char, Paint) {
    match kind {
        IntervalKind::InFlight => ('=', '>', Paint::Heading),
        IntervalKind::Succeeded => ('=', '+', Paint::Good),
        IntervalKind::Rejected => ('=', '-', Paint::Bad),
        IntervalKind::Failed => ('=', 'x', Paint::Bad),
        IntervalKind::ReplanRequested => ('=', 'r', Paint::Notice),
        IntervalKind::Lost => ('=', '!', Paint::Bad),
        IntervalKind::Judged => ('~', '~', Paint::Notice),
        IntervalKind::Delayed => (':', ':', Paint::Notice),
        IntervalKind::Asked => ('?', '?', Paint::Notice),
        IntervalKind::OutcomeUnknown => ('?', '?', Paint::Bad),
    }
}

const LEGEND: [&str; 2] = [
    "=+ succeeded  =- a check failed  =x failed  =! lost  =r requested a replan",
    "> in progress  ~ waits for verdicts  : waits for its retry  ? waits for a person",
];
