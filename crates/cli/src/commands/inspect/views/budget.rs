//! `ledger budget`: the limits and the spending of a run, and the spending over time.

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::ledger::ProgressPoint;
use plan_ledger::plan::{Account, BudgetPart, Micros, PauseCause};
use plan_ledger::{Cost, Limits, Run, RunId, Timestamp};

use plan_ledger_views::{Bar, Block, Document, Series, Text};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::output::Output;
use crate::json::TimeJson;
use crate::options::LedgerArgs;
use crate::output::render::{Paint, Table};
use crate::output::{Code, Failure, escape_control, money_text, paused_text};
use crate::protocol::{count, shell_command};

use super::view::report_rollback;

/// The budget that is shown: of a run, or of the ledger.
#[derive(Debug, Args)]
pub(crate) struct BudgetViewArgs {
    #[command(flatten)]
    pub(crate) ledger: LedgerArgs,
    /// The run's name, as an option; `LEDGER_RUN` is not used here, since a budget may be the ledger's
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Option<String>,
    /// Show the remainder of each limited part of a run's budget over time
    #[arg(long)]
    chart: bool,
    #[command(flatten)]
    at: AtArg,
}

/// A part of a budget, and how much of it is used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BudgetRow {
    what: BudgetPart,
    limit: Option<u64>,
    spent: u64,
    reserved: u64,
    estimated: u64,
}

impl BudgetRow {
    /// The parts of a budget. The ledger as a whole has no limit of elapsed time.
    pub(crate) fn all(account: &Account, limits: Limits, elapsed: Option<Micros>) -> Vec<Self> {
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

    pub(crate) fn line(&self, run: Option<RunId>) -> BudgetLine {
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

/// The duration of a run, or its time so far.
pub(crate) fn elapsed(run: &Run, now: Timestamp) -> Micros {
    run.end_record.map_or(now, |(_, time)| time).saturating_sub(run.started)
}

/// Shows the budget of the named run and of the ledger, or that of the ledger alone.
pub(crate) fn budget(
    args: &BudgetViewArgs,
    run: Option<&str>,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    report_rollback(context, out)?;
    let Some(name) = run else {
        if args.chart {
            let message = "`--chart` needs a run\nhint: `ledger budget RUN --chart`";
            return Err(Failure::Usage(message.to_owned()));
        }
        let mut ledger = LedgerAt::of(context, args.at)?;
        ledger.announce_problems(out)?;
        of_ledger(&ledger, out)?;
        if context.form == Form::Text {
            point_to_runs(&ledger, out)?;
        }
        return ledger.finish(out);
    };
    let (mut ledger, id) = LedgerAt::of_run(context, args.at, Some(name))?;
    ledger.announce_problems(out)?;
    let run = ledger.run(id)?.clone();
    of_run(&ledger, &run, out)?;
    of_ledger(&ledger, out)?;
    if args.chart {
        let points = ledger.run_history(id)?.progress(&run);
        match context.form {
            Form::Json => milestones(id, &points, out)?,
            Form::Text => charts(&ledger, &run, &points, out)?,
        }
    }
    ledger.finish(out)
}

fn of_run(ledger: &LedgerAt<'_>, run: &Run, out: &mut Output<'_>) -> Result<(), Failure> {
    let parts = BudgetRow::all(&run.account, run.limits(), Some(elapsed(run, ledger.now)));
    if ledger.context.form == Form::Json {
        return parts.iter().try_for_each(|part| out.json(&part.line(Some(run.id))));
    }
    ledger.heading("budget", run, out)?;
    if let Some(cause) = &run.pause {
        out.painted(Paint::Notice, &format!("  {}", escape_control(&paused_text(cause))))?;
    }
    print(&parts, out)?;
    out.line("")
}

fn of_ledger(ledger: &LedgerAt<'_>, out: &mut Output<'_>) -> Result<(), Failure> {
    let account = ledger.state.account;
    let parts = BudgetRow::all(&account, account.limits.unwrap_or_default(), None);
    if ledger.context.form == Form::Json {
        return parts.iter().try_for_each(|part| out.json(&part.line(None)));
    }
    out.painted(Paint::Heading, "budget of the ledger, over all runs")?;
    print(&parts, out)?;
    let legend = "# spent  + reserved for attempts in flight  - left; estimated: charged for lost \
                  attempts, not confirmed";
    out.painted(Paint::Faint, &out.style.fit(legend, 0))
}

/// Names the runs that are paused for a budget of their own, which is not shown.
fn point_to_runs(ledger: &LedgerAt<'_>, out: &mut Output<'_>) -> Result<(), Failure> {
    for (_, overview) in ledger.state.runs.overviews() {
        let Some(cause @ PauseCause::RunBudget { .. }) = &overview.pause else { continue };
        let text = format!("run {} is {}", overview.name, paused_text(cause));
        out.painted(Paint::Notice, &escape_control(&text))?;
        let command = shell_command("budget", ledger.context.dir, &[&overview.name]);
        out.line(&format!("  {}", escape_control(&command)))?;
    }
    Ok(())
}

fn print(parts: &[BudgetRow], out: &mut Output<'_>) -> Result<(), Failure> {
    let headings = ["part", "spent", "reserved", "estimated", "limit", "left", ""];
    let mut table = Table::with_headings(&headings);
    // The views of a run show its time.
    let is_shown = |part: &&BudgetRow| part.what != BudgetPart::Wall || part.limit.is_some();
    for part in parts.iter().filter(is_shown) {
        table.row(part.cells());
    }
    out.table(&table, 2)
}

/// Prints the progress of a run, record by record, as JSON.
pub(crate) fn milestones(
    run: RunId,
    points: &[ProgressPoint],
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    points.iter().try_for_each(|milestone| {
        let ProgressPoint { seq, time, spent, attempts, closed, steps } = milestone;
        out.json(&MilestoneLine {
            attempts: *attempts,
            closed: *closed,
            run,
            seq: *seq,
            spent: *spent,
            steps: *steps,
            time: (*time).into(),
        })
    })
}

/// A part of a budget.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct BudgetLine {
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
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct MilestoneLine {
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
    time: TimeJson,
}

/// A part, its limit, and its value at a point of progress.
type ChartedPart = (BudgetPart, Option<u64>, fn(&ProgressPoint) -> u64);

fn charts(
    ledger: &LedgerAt<'_>,
    run: &Run,
    points: &[ProgressPoint],
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    ledger.print_first_record(out)?;
    let limits = run.limits();
    let parts: [ChartedPart; 3] = [
        (BudgetPart::Money, limits.money_micros, |each| each.spent.money_micros),
        (BudgetPart::Tokens, limits.tokens, |each| each.spent.tokens),
        (BudgetPart::Attempts, limits.attempts, |each| each.attempts),
    ];
    let until = run.end_record.map_or(ledger.now, |(_, time)| time).max(run.started + 1);
    let mut has_any = false;
    for (part, limit, spent) in parts {
        let Some(limit) = limit else { continue };
        has_any = true;
        let left = points.iter().map(|each| (each.time, limit.saturating_sub(spent(each))));
        let start = std::iter::once((run.started, limit));
        let samples: Vec<_> = start.chain(left).collect();
        let from = if ledger.view.log().first_seq() == 1 {
            run.started
        } else {
            points.first().map_or(run.started, |first| first.time)
        };
        let series = Series { points: samples, from, until, top: limit };
        out.line("")?;
        out.painted(Paint::Heading, &format!("remaining {part}"))?;
        let mut document = Document::default();
        document.push(Block::Chart { series, labels: (amount(part, limit), "0".to_owned()) });
        out.document(&document)?;
    }
    if has_any { Ok(()) } else { out.line("no part of the budget has a limit: there is no chart") }
}
