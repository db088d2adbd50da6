//! The ready steps of a run in the order of dispatch, the reasons that still block them, and the
//! steps that wait after a failure.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use plan_ledger::plan::{BlockReason, UtcTime, explain};
use plan_ledger::{Run, RunId, State, StepNumber, StepState, StepStatus, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::layout::{Document, Paint, Table};
use crate::words::{counted, moment, step_name, step_title};

/// A ready step.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ReadyLine<'a> {
    /// The reasons that block its dispatch nevertheless.
    held: Vec<BlockReason>,
    /// Its id.
    id: Option<&'a str>,
    /// Its owner.
    owner: Option<&'a str>,
    /// Its place in the queue, from 1.
    place: u64,
    /// Its priority.
    priority: i32,
    /// The run.
    run: RunId,
    /// Its number.
    step: StepNumber,
    /// Its tags.
    tags: Option<&'a BTreeSet<String>>,
    #[serde(skip)]
    name: String,
    #[serde(skip)]
    title: String,
}

/// A step that waits after a failure.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct DelayedLine<'a> {
    /// Its id.
    id: Option<&'a str>,
    /// The run.
    run: RunId,
    /// Its number.
    step: StepNumber,
    /// The end of the delay.
    until: Option<UtcTime>,
    #[serde(skip)]
    name: String,
}

/// The queue of a run.
#[derive(Debug)]
pub struct QueueView<'a> {
    /// The ready steps, in the order of dispatch.
    pub ready: Vec<ReadyLine<'a>>,
    /// The steps that wait after a failure.
    pub delayed: Vec<DelayedLine<'a>>,
    /// The ready steps that are not listed.
    more: usize,
    in_flight: u64,
    now: Timestamp,
}

impl<'a> QueueView<'a> {
    /// The queue of a run at that time, with so many ready steps at most.
    #[must_use]
    pub fn of(state: &State, run: &'a Run, now: Timestamp, ready_max: usize) -> Self {
        let line =
            |(((priority, number), place), _): (((Reverse<i32>, StepNumber), u64), usize)| {
                let step = run.step(number);
                let found = explain(state, run.id, number, now).ok();
                ReadyLine {
                    held: found.map_or_else(Vec::new, |found| found.run_reasons),
                    id: step.map(StepState::id),
                    name: step_name(run, number),
                    owner: step.and_then(|step| step.owner()),
                    place,
                    priority: priority.0,
                    run: run.id,
                    step: number,
                    tags: step.map(StepState::tags),
                    title: step_title(run, number),
                }
            };
        let ready = run.ready().zip(1_u64..).zip(0..ready_max).map(line);
        let steps = run.numbered_steps();
        let delayed = steps.filter(|(_, step)| step.status == StepStatus::Delayed);
        let delayed = delayed.map(|(number, step)| DelayedLine {
            id: Some(step.id()),
            name: step_name(run, number),
            run: run.id,
            step: number,
            until: step.hold().delay.map(UtcTime::from),
        });
        Self {
            ready: ready.collect(),
            delayed: delayed.collect(),
            more: run.ready_count().saturating_sub(ready_max),
            in_flight: run.attempts_in_flight().into(),
            now,
        }
    }

    /// Its document.
    #[must_use]
    pub fn document(&self) -> Document {
        let mut document = Document::default();
        if self.ready.is_empty() {
            document.line("no step can be dispatched; `why RUN STEP` shows what blocks a step");
        } else {
            let headings = ["place", "step", "priority", "owner", "held by", ""];
            let mut table = Table::with_headings(&headings);
            self.ready.iter().for_each(|line| table.row(line.cells()));
            document.table(2, table);
            if self.more > 0 {
                document.indented(2, format!("and {} more", self.more));
            }
        }
        for DelayedLine { name, until, .. } in &self.delayed {
            let until = until.as_ref().map(|at| format!(", {}", moment(at.micros, self.now)));
            document.indented(2, format!("delayed: {name}{}", until.unwrap_or_default()));
        }
        let in_flight = counted(self.in_flight, "attempt");
        document.indented(2, (Paint::Faint, format!("{in_flight} in flight")));
        document
    }
}

impl ReadyLine<'_> {
    fn cells(&self) -> [(Paint, String); 6] {
        let (paint, held) = match self.held.first() {
            None => (Paint::Faint, "-"),
            Some(reason) => (Paint::Notice, block_text(reason)),
        };
        [
            (Paint::None, self.place.to_string()),
            (Paint::Heading, self.name.clone()),
            (Paint::None, self.priority.to_string()),
            (Paint::None, self.owner.unwrap_or("-").to_owned()),
            (paint, held.to_owned()),
            (Paint::Faint, self.title.clone()),
        ]
    }
}

/// The blocker of a ready step, in a few words.
fn block_text(reason: &BlockReason) -> &'static str {
    match reason {
        BlockReason::RunEnded { .. } => "the run's end",
        BlockReason::Paused { .. } => "a pause",
        BlockReason::Stopping { .. } => "the run stops",
        BlockReason::Replan { .. } => "a request for a new plan",
        BlockReason::Cap { .. } => "a cap",
        BlockReason::Budget { .. } => "the budget",
        _ => "see why",
    }
}
