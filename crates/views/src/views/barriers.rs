//! Barriers of a run: their statuses, the members that arrived and that are missing, their deadlines.

use std::collections::BTreeSet;

use plan_ledger::plan::{BarrierState, BarrierStatus, OnBreak, UtcTime};
use plan_ledger::{QuestionId, Run, RunId, StepNumber, StepStatus, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::layout::{Document, Paint, Table, Text};
use crate::words::moment;
use crate::words::step_name;
use crate::words::variant_words;
use crate::words::{barrier_paint, barrier_word};

/// A barrier.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct BarrierLine<'a> {
    /// The members that arrived.
    arrived: &'a BTreeSet<StepNumber>,
    /// Its id.
    barrier: &'a str,
    /// Its deadline.
    deadline: Option<UtcTime>,
    /// The members that failed permanently.
    failed: &'a BTreeSet<StepNumber>,
    /// Whether the deadline has passed.
    late: bool,
    /// Its member steps.
    members: &'a BTreeSet<StepNumber>,
    /// The members that have not arrived.
    missing: Vec<StepNumber>,
    /// The number of members that must arrive.
    needed: u32,
    /// The action if too few members can still arrive.
    on_break: OnBreak,
    /// The open question about it.
    question: Option<QuestionId>,
    /// The run.
    run: RunId,
    /// Its status.
    status: BarrierStatus,
    /// The barrier.
    #[serde(skip)]
    state: &'a BarrierState,
    /// The names and statuses of the members that have not arrived.
    #[serde(skip)]
    missing_members: Vec<(String, Option<StepStatus>)>,
}

impl<'a> BarrierLine<'a> {
    /// The barrier with that id.
    #[must_use]
    pub fn of(run: &Run, id: &'a str, barrier: &'a BarrierState) -> Self {
        let BarrierState {
            members,
            arrived,
            failed,
            needed,
            on_break,
            deadline,
            is_late,
            question,
            status,
        } = barrier;
        let missing: Vec<StepNumber> = members.difference(arrived).copied().collect();
        let named = |number: &StepNumber| {
            (step_name(run, *number), run.step(*number).map(|step| step.status))
        };
        Self {
            arrived,
            barrier: id,
            deadline: deadline.map(UtcTime::from),
            failed,
            late: *is_late,
            members,
            missing_members: missing.iter().map(named).collect(),
            missing,
            needed: *needed,
            on_break: *on_break,
            question: *question,
            run: run.id,
            state: barrier,
            status: *status,
        }
    }

    /// Its status, its deadline and the members that are missing, at that time.
    pub(super) fn describe(&self, now: Timestamp, document: &mut Document) {
        let name = format!("barrier {}", self.barrier);
        let text = Text::painted(Paint::Heading, name).plain(": ");
        document.indented(2, text.and(barrier_paint(self.status), barrier_text(self.state)));
        if self.status == BarrierStatus::Closed {
            let on_break = variant_words(&self.on_break, ' ');
            let due = self.deadline.as_ref().map(|at| format!("due {}; ", moment(at.micros, now)));
            document.indented(4, format!("{}if it breaks: {on_break}", due.unwrap_or_default()));
        }
        if let Some(question) = self.question {
            document.indented(4, format!("question {} is open about it", question.0));
        }
        let mut table = Table::default();
        for (number, (name, status)) in self.missing.iter().zip(&self.missing_members) {
            let paint = if self.failed.contains(number) { Paint::Bad } else { Paint::None };
            table.row([
                (Paint::Faint, "missing".to_owned()),
                (Paint::None, name.clone()),
                (paint, status.map_or_else(String::new, |status| status.to_string())),
            ]);
        }
        document.table(4, table);
    }
}

/// How many missing members a table names.
const NAMES_MAX: usize = 8;

/// The status of a barrier and its members that arrived.
#[must_use]
pub fn barrier_text(barrier: &BarrierState) -> String {
    let (arrived, of) = (barrier.arrived.len(), barrier.members.len());
    let late = if barrier.is_late { ", its deadline has passed" } else { "" };
    let (word, needed) = (barrier_word(barrier.status), barrier.needed);
    format!("{word}, {arrived} of {needed} needed arrived ({of} members){late}")
}

/// The barriers of a run.
#[derive(Debug)]
pub struct Barriers<'a> {
    /// One line for each, in the order of their ids.
    pub lines: Vec<BarrierLine<'a>>,
}

impl<'a> Barriers<'a> {
    /// The barriers of the active version.
    #[must_use]
    pub fn of(run: &'a Run) -> Self {
        let lines = run.named_barriers().map(|(id, each)| BarrierLine::of(run, id, each));
        Self { lines: lines.collect() }
    }

    /// Those that are not released.
    #[must_use]
    pub fn closed(run: &'a Run) -> Self {
        let mut all = Self::of(run);
        all.lines.retain(|line| line.status != BarrierStatus::Released);
        all
    }

    /// A row for each, with the first members that have not arrived; empty without a barrier.
    #[must_use]
    pub fn table(&self) -> Table {
        if self.lines.is_empty() {
            return Table::default();
        }
        let mut table = Table::with_headings(&["barrier", "status", "arrived", "missing"]);
        for line in &self.lines {
            let missing = line.missing.iter().zip(&line.missing_members).take(NAMES_MAX);
            let failed = |number| if line.failed.contains(number) { " (failed)" } else { "" };
            let names = missing.map(|(number, (name, _))| format!("{name}{}", failed(number)));
            let mut names = names.collect::<Vec<_>>().join(", ");
            if let Some(rest) = line.missing.len().checked_sub(NAMES_MAX).filter(|rest| *rest > 0) {
                names = format!("{names} and {rest} more");
            }
            table.row([
                (Paint::None, line.barrier.to_owned()),
                (barrier_paint(line.status), barrier_word(line.status).to_owned()),
                (Paint::None, format!("{}/{}", line.arrived.len(), line.needed)),
                (Paint::None, names),
            ]);
        }
        table
    }
}
