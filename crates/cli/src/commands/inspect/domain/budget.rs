//! `ledger inspect DIR budget`: what a run may spend, what it did, and how that went.

use clap::Args;
use serde_json::{Value, json};

use crate::output::{Code, Failure};
use plan_ledger::ledger::ProgressPoint;
use plan_ledger::plan::{Account, BudgetPart, Limits, Micros, Run, RunId};

use super::super::Form;
use super::super::page::{Page, time_json};
use super::super::text::{Paint, Table, count, words};
use super::Look;
use super::chart::{Course, bar, columns};
use super::scene::{At, Scene};

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger budget                    limits, what is spent, what is left
  ledger inspect .ledger budget my-plan --chart    how what is left went down over time
  ledger inspect .ledger budget --json | jq 'select(.left == 0)'";

/// The budget of a run and of the ledger: spent, set aside, estimated, left; how it burnt down
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::commands::inspect) struct BudgetArgs {
    /// The run, by name or number (#3); may be left out where there is only one
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// How what is left of each part with a limit went down over time
    #[arg(long)]
    chart: bool,
    #[command(flatten)]
    at: At,
}

/// A part of a budget, and how much of it is used.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    what: BudgetPart,
    limit: Option<u64>,
    spent: u64,
    reserved: u64,
    estimated: u64,
}

impl Part {
    /// The parts of a budget. How long the whole ledger has worked is nobody's budget.
    pub(super) fn all(account: &Account, limits: Limits, elapsed: Option<Micros>) -> Vec<Self> {
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

    pub(super) fn json(&self, run: Option<RunId>) -> Value {
        let Self { what, limit, spent, reserved, estimated } = self;
        json!({
            "run": run, "part": words(what, '_'), "limit": limit, "spent": spent,
            "reserved": reserved, "estimated": estimated, "left": self.left(),
        })
    }

    fn cells(&self) -> Vec<(Paint, String)> {
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
        let bar = self.limit.map(|limit| bar(self.spent, self.reserved, limit, CELLS));
        vec![
            (Paint::None, self.what.to_string()),
            (Paint::None, number(self.spent)),
            (Paint::None, number(self.reserved)),
            (Paint::None, number(self.estimated)),
            (Paint::None, limit),
            (paint, left),
            (paint, bar.unwrap_or_default()),
        ]
    }
}

/// Cells of a bar.
const CELLS: u64 = 16;

/// How much of a part, as people write it; money has no currency here.
fn amount(part: BudgetPart, number: u64) -> String {
    match part {
        BudgetPart::Money => format!("{}.{:06}", number / 1_000_000, number % 1_000_000),
        BudgetPart::Tokens | BudgetPart::Attempts => count(number),
        BudgetPart::Wall => format!("{} s", count(number)),
    }
}

/// For how long a run has gone on, or did.
pub(super) fn elapsed(run: &Run, now: Micros) -> Micros {
    run.ended.map_or(now, |(_, time)| time).saturating_sub(run.started)
}

pub(super) fn budget(
    args: &BudgetArgs,
    look: Look<'_>,
    page: &mut Page<'_>,
) -> Result<Code, Failure> {
    let (mut scene, id) = Scene::of_run(look, args.at, args.run.as_deref())?;
    let run = scene.run(id)?.clone();
    let parts = Part::all(&run.account, run.limits(), Some(elapsed(&run, scene.now)));
    let account = scene.state.account;
    let of_ledger = Part::all(&account, account.limits.unwrap_or_default(), None);
    match look.form {
        Form::Json => {
            parts.iter().try_for_each(|part| page.json("budget", &part.json(Some(id))))?;
            of_ledger.iter().try_for_each(|part| page.json("budget", &part.json(None)))?;
        }
        Form::Text => {
            scene.heading("budget", &run, page)?;
            print(&parts, page)?;
            page.line("")?;
            page.painted(Paint::Heading, "budget of the ledger, all runs together")?;
            print(&of_ledger, page)?;
            let legend = "# spent  + set aside for attempts in flight  - left; estimated: charged \
                          for lost attempts, nobody vouched for it";
            page.painted(Paint::Faint, &page.style.fit(legend, 0))?;
        }
    }
    if args.chart {
        let course = scene.chronicle(id)?.progress(&run);
        match look.form {
            Form::Json => milestones(id, &course, page)?,
            Form::Text => charts(&scene, &run, &course, page)?,
        }
    }
    scene.end(page)
}

fn print(parts: &[Part], page: &mut Page<'_>) -> Result<(), Failure> {
    let headings = ["part", "spent", "set aside", "estimated", "limit", "left", ""];
    let mut table = Table::with_headings(&headings);
    for part in parts {
        table.row(part.cells());
    }
    page.table(&table, 2)
}

/// How far a run was, record by record, for programs.
pub(super) fn milestones(
    run: RunId,
    course: &[ProgressPoint],
    page: &mut Page<'_>,
) -> Result<(), Failure> {
    course.iter().try_for_each(|milestone| {
        let ProgressPoint { seq, time, spent, attempts, closed, steps } = milestone;
        let fields = json!({
            "run": run, "seq": seq, "time": time_json(*time), "attempts": attempts,
            "spent": super::super::event_json::cost_json(*spent), "closed": closed, "steps": steps,
        });
        page.json("milestone", &fields)
    })
}

/// A part, its limit, and what a milestone says of it.
type Drawn = (BudgetPart, Option<u64>, fn(&ProgressPoint) -> u64);

fn charts(
    scene: &Scene<'_>,
    run: &Run,
    course: &[ProgressPoint],
    page: &mut Page<'_>,
) -> Result<(), Failure> {
    scene.since(page)?;
    let limits = run.limits();
    let parts: [Drawn; 3] = [
        (BudgetPart::Money, limits.money_micros, |each| each.spent.money_micros),
        (BudgetPart::Tokens, limits.tokens, |each| each.spent.tokens),
        (BudgetPart::Attempts, limits.attempts, |each| each.attempts),
    ];
    let until = run.ended.map_or(scene.now, |(_, time)| time).max(run.started + 1);
    let mut has_any = false;
    for (part, limit, spent) in parts {
        let Some(limit) = limit else { continue };
        has_any = true;
        let left = course.iter().map(|each| (each.time, limit.saturating_sub(spent(each))));
        let start = std::iter::once((run.started, limit));
        let points: Vec<_> = start.chain(left).collect();
        let from = if scene.view.log().first_seq() == 1 {
            run.started
        } else {
            course.first().map_or(run.started, |first| first.time)
        };
        let drawn = Course { points: &points, from, until, top: limit };
        page.line("")?;
        page.painted(Paint::Heading, &format!("what is left of {part}"))?;
        let lines = drawn.chart(columns(page.style).saturating_sub(2), (&amount(part, limit), "0"));
        lines.iter().try_for_each(|line| page.line(&format!("  {line}")))?;
    }
    if has_any { Ok(()) } else { page.line("no part of the budget has a limit: there is no chart") }
}
