//! Budgets: what is spent, reserved and left of each part, now and over time.

use std::path::Path;

use plan_ledger::internals::ledger::ProgressPoint;
use plan_ledger::plan::{Account, BudgetPart, Micros, PauseCause, UtcTime};
use plan_ledger::{Cost, Limits, Run, RunId, State, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::layout::{Bar, Block, Document, Paint, Series, Table, Text};
use crate::shell::shell_command;
use crate::words::{count, money_text, paused_text};

/// A part of a budget, and how much of it is used.
#[derive(Debug, Clone, Copy)]
struct BudgetRow {
    what: BudgetPart,
    limit: Option<u64>,
    spent: u64,
    reserved: u64,
    estimated: u64,
}

impl BudgetRow {
    /// The parts of a budget. The ledger as a whole has no limit of elapsed time.
    fn all(account: &Account, limits: Limits, elapsed: Option<Micros>) -> Vec<Self> {
        let Account { limits: _, spent, estimated, reserved, attempts } = *account;
        let new = |what, limit, spent, reserved, estimated| Self {
            what,
            limit,
            spent,
            reserved,
            estimated,
        };
        let mut parts = vec![
            new(
                BudgetPart::Money,
                limits.money_micros,
                spent.money_micros,
                reserved.money_micros,
                estimated.money_micros,
            ),
            new(BudgetPart::Tokens, limits.tokens, spent.tokens, reserved.tokens, estimated.tokens),
            new(BudgetPart::Attempts, limits.attempts, attempts, 0, 0),
        ];
        let wall = elapsed.map(|elapsed| elapsed / 1_000_000);
        parts.extend(wall.map(|wall| new(BudgetPart::Wall, limits.wall_seconds, wall, 0, 0)));
        parts
    }

    fn left(&self) -> Option<u64> {
        Some(self.limit?.saturating_sub(self.spent).saturating_sub(self.reserved))
    }

    /// How much more than the limit is spent, if it is.
    fn overrun(&self) -> Option<u64> {
        self.spent.checked_sub(self.limit?).filter(|over| *over > 0)
    }

    /// The line of it.
    fn line(&self, run: Option<RunId>) -> BudgetLine {
        let Self { what, limit, spent, reserved, estimated } = *self;
        BudgetLine { estimated, left: self.left(), limit, part: what, reserved, run, spent }
    }

    fn cells(&self) -> Vec<Text> {
        let paint = match (self.left(), self.limit) {
            (Some(0), _) => Paint::Bad,
            (Some(left), Some(limit)) if left <= limit / 10 => Paint::Notice,
            _ => Paint::None,
        };
        let number = |number: u64| match number {
            0 => "-".to_owned(),
            some => amount(self.what, some),
        };
        let limit = self.limit.map_or_else(|| "no limit".to_owned(), |n| amount(self.what, n));
        let left = self.left().map_or_else(|| "-".to_owned(), |n| amount(self.what, n));
        let over = self.overrun().map(|over| format!(" overrun by {}", amount(self.what, over)));
        let bar = |of| Bar { used: self.spent, reserved: self.reserved, of, cells: CELLS };
        let bar = self.limit.map(|limit| Text::bar(paint, bar(limit)));
        let bar = bar.map(|bar| bar.and(paint, over.unwrap_or_default()));
        vec![
            self.what.to_string().into(),
            number(self.spent).into(),
            number(self.reserved).into(),
            number(self.estimated).into(),
            limit.into(),
            Text::painted(paint, left),
            bar.unwrap_or_default(),
        ]
    }
}

/// Cells of a bar.
const CELLS: u64 = 16;

/// An amount of a part as text.
fn amount(part: BudgetPart, number: u64) -> String {
    match part {
        BudgetPart::Money => money_text(number),
        BudgetPart::Tokens | BudgetPart::Attempts => count(number),
        BudgetPart::Wall => format!("{} s", count(number)),
    }
}

/// A part of a budget.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct BudgetLine {
    /// The part of `spent` that no receipt confirmed.
    estimated: u64,
    /// The remaining amount; null without a limit.
    left: Option<u64>,
    /// The limit; null without a limit.
    limit: Option<u64>,
    /// The part: money in millionths, wall time in seconds.
    part: BudgetPart,
    /// The amount reserved for attempts in flight.
    reserved: u64,
    /// The run; null for the whole ledger.
    run: Option<RunId>,
    /// The spent amount.
    spent: u64,
}

/// The progress of a run at a record.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct MilestoneLine {
    /// The attempts dispatched until then.
    attempts: u64,
    /// The number of accepted or skipped steps.
    closed: u64,
    /// The run.
    run: RunId,
    /// The record.
    seq: u64,
    /// The cost until then.
    spent: Cost,
    /// The number of steps in the active version.
    steps: u64,
    /// The time of the record.
    time: UtcTime,
}

impl MilestoneLine {
    /// The progress of a run at that point.
    #[must_use]
    pub fn of(run: RunId, point: &ProgressPoint) -> Self {
        let ProgressPoint { seq, time, spent, attempts, closed, steps } = *point;
        Self { attempts, closed, run, seq, spent, steps, time: time.into() }
    }
}

/// The budget of a run, or of the ledger over all runs.
#[derive(Debug)]
pub struct Budget<'a> {
    parts: Vec<BudgetRow>,
    /// `None`: of the ledger.
    run: Option<&'a Run>,
}

impl<'a> Budget<'a> {
    /// The budget of a run at that time.
    #[must_use]
    pub fn of_run(run: &'a Run, now: Timestamp) -> Self {
        let parts = BudgetRow::all(run.account(), run.limits(), Some(run.elapsed(now)));
        Self { parts, run: Some(run) }
    }

    /// The budget of the ledger, over all runs.
    #[must_use]
    pub fn of_ledger(state: &State) -> Self {
        let account = state.account();
        let parts = BudgetRow::all(account, account.limits.unwrap_or_default(), None);
        Self { parts, run: None }
    }

    /// A line for each part.
    pub fn lines(&self) -> impl Iterator<Item = BudgetLine> {
        self.parts.iter().map(|part| part.line(self.run.map(|run| run.id)))
    }

    /// Its document; that of a run has no heading.
    #[must_use]
    pub fn document(&self) -> Document {
        let mut document = Document::default();
        match self.run {
            None => document.painted(Paint::Heading, "budget of the ledger, over all runs"),
            Some(run) => {
                if let Some(cause) = &run.pause {
                    document.indented(2, (Paint::Notice, paused_text(cause)));
                }
            }
        }
        let headings = ["part", "spent", "reserved", "estimated", "limit", "left", ""];
        let mut table = Table::with_headings(&headings);
        // The views of a run show its time.
        let is_shown = |part: &&BudgetRow| part.what != BudgetPart::Wall || part.limit.is_some();
        self.parts.iter().filter(is_shown).for_each(|part| table.row(part.cells()));
        document.table(2, table);
        match self.run {
            None => document.cut(0, (Paint::Faint, LEGEND)),
            Some(_) => document.gap(),
        }
        document
    }
}

const LEGEND: &str = "# spent  + reserved for attempts in flight  - left; estimated: charged for lost \
                      attempts, not confirmed";

/// The runs that are paused for a budget of their own, each with the command that shows its budget.
#[must_use]
pub fn runs_out_of_budget(state: &State, dir: &Path) -> Document {
    let mut document = Document::default();
    for (_, overview) in state.runs.overviews() {
        let Some(cause @ PauseCause::RunBudget { .. }) = &overview.pause else { continue };
        let text = format!("run {} is {}", overview.name, paused_text(cause));
        document.painted(Paint::Notice, text);
        document.command(2, shell_command("budget", dir, &[&overview.name]));
    }
    document
}

/// A part, its limit, and its value at a point of progress.
type ChartedPart = (BudgetPart, Option<u64>, fn(&ProgressPoint) -> u64);

/// What is left of each limited part of a run's budget over time. `is_whole`: the points are all that there were.
#[must_use]
pub fn budget_charts(
    run: &Run,
    points: &[ProgressPoint],
    is_whole: bool,
    now: Timestamp,
) -> Document {
    let limits = run.limits();
    let parts: [ChartedPart; 3] = [
        (BudgetPart::Money, limits.money_micros, |each| each.spent.money_micros),
        (BudgetPart::Tokens, limits.tokens, |each| each.spent.tokens),
        (BudgetPart::Attempts, limits.attempts, |each| each.attempts),
    ];
    let until = run.ended_at().unwrap_or(now).max(run.started + 1);
    let first = points.first().map_or(run.started, |first| first.time);
    let from = if is_whole { run.started } else { first };
    let mut document = Document::default();
    for (part, limit, spent) in parts {
        let Some(limit) = limit else { continue };
        let left = points.iter().map(|each| (each.time, limit.saturating_sub(spent(each))));
        let points = std::iter::once((run.started, limit)).chain(left).collect();
        let series = Series { points, from, until, top: limit };
        document.gap();
        document.painted(Paint::Heading, format!("remaining {part}"));
        document.push(Block::Chart { series, labels: (amount(part, limit), "0".to_owned()) });
    }
    if document.is_empty() {
        document.line("no part of the budget has a limit: there is no chart");
    }
    document
}
