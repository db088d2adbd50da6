//! `ledger inspect DIR metrics`: metrics of the plan, the policies and the failure classes.

use std::collections::BTreeMap;

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::RunId;
use plan_ledger::internals::ledger::{Ratio, RunMetrics};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::output::Output;
use crate::commands::inspect::text::units::span;
use crate::options::RunArg;
use crate::output::render::{Paint, Table};
use crate::output::{Code, Failure};

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger metrics
  ledger inspect .ledger metrics --all             all runs together
  ledger inspect .ledger metrics my-plan --json | jq .retry_exhaustion";

/// Metrics of a run: replans, retries, failure classes, trust, budget, estimates
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MetricsArgs {
    #[command(flatten)]
    run: RunArg,
    /// All runs together
    #[arg(long, conflicts_with = "run_name")]
    all: bool,
}

/// How well the plan and the policies work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mark {
    /// As it should be.
    Healthy,
    /// A first sign of trouble.
    Degrading,
    /// It does not work.
    Broken,
}

/// A metric: its name, its value, what is counted, and the limits of its mark, in thousandths.
struct Row {
    name: String,
    ratio: Ratio,
    what: &'static str,
    mark: Option<Mark>,
}

/// The mark of a share that should be low, or high: it is healthy up to the first limit, and degrading up
/// to the second.
fn mark(ratio: Ratio, healthy: u64, degrading: u64) -> Option<Mark> {
    let share = ratio.per_mille()?;
    let is_within = |limit: u64| if healthy <= degrading { share <= limit } else { share >= limit };
    Some(match share {
        _ if is_within(healthy) => Mark::Healthy,
        _ if is_within(degrading) => Mark::Degrading,
        _ => Mark::Broken,
    })
}

fn rows(found: &RunMetrics) -> Vec<Row> {
    let row = |name: &str, ratio: Ratio, what, (healthy, degrading)| Row {
        name: name.to_owned(),
        ratio,
        what,
        mark: mark(ratio, healthy, degrading),
    };
    let mut rows = vec![
        row(
            "plan_generation",
            found.plan_generation,
            "microseconds of planners / plans",
            (2_000_000_000, 10_000_000_000),
        ),
        row(
            "replan_frequency",
            found.replan_frequency,
            "later versions that became active / runs",
            (200, 1000),
        ),
        row(
            "retry_exhaustion",
            found.retry_exhaustion,
            "steps out of attempts / steps with a failure",
            (200, 500),
        ),
        row(
            "first_classification",
            found.first_classification,
            "first classes not contradicted / first classes",
            (800, 500),
        ),
        row(
            "replan_precision",
            found.replan_precision,
            "replans that solved their problem / replans for one",
            (800, 500),
        ),
        row(
            "state_trust",
            found.state_trust,
            "variables that replans trusted / variables",
            (500, 250),
        ),
        row("step_time", found.step_time, "microseconds taken / estimated", (2000, 4000)),
    ];
    rows.extend(found.budget_use.iter().map(|(part, ratio)| Row {
        name: format!("budget of {part}"),
        ratio: *ratio,
        what: "spent / limit",
        mark: mark(*ratio, 800, 1000),
    }));
    rows
}

pub(crate) fn metrics(
    args: &MetricsArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    if args.all {
        let ledger = LedgerAt::of(context, AtArg::default())?;
        let found = ledger.view.metrics_of_all(&ledger.state)?;
        print(&found, None, context.form, out)?;
        return ledger.finish(out);
    }
    let (ledger, id) = LedgerAt::of_run(context, AtArg::default(), args.run.name())?;
    let run = ledger.run(id)?;
    let found = ledger.view.metrics(id)?;
    if context.form == Form::Text {
        ledger.heading("metrics", run, out)?;
    }
    print(&found, Some(id), context.form, out)?;
    ledger.finish(out)
}

fn print(
    found: &RunMetrics,
    run: Option<RunId>,
    form: Form,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let rows = rows(found);
    if form == Form::Json {
        let mark = |row: &Row| Some((row.name.replace("budget of ", "budget_"), row.mark?));
        let marks = rows.iter().filter_map(mark).collect();
        return out.json(&MetricsLine { metrics: found, run, marks });
    }
    let mut table = Table::with_headings(&["metric", "share", "mark", "counts", "what is counted"]);
    for row in rows {
        table.row(cells(&row));
    }
    out.table(&table, 2)
}

/// The metrics of a run, or of all.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct MetricsLine<'a> {
    #[serde(flatten)]
    metrics: &'a RunMetrics,
    /// The run; null for all runs together.
    run: Option<RunId>,
    /// The marks, by metric; those of budgets by `budget_` and their part.
    marks: BTreeMap<String, Mark>,
}

fn cells(row: &Row) -> [(Paint, String); 5] {
    let share = row.ratio.per_mille().map(|share| match row.name.as_str() {
        // Its whole is a number, and its part a time.
        "plan_generation" => span(share / 1000),
        _ => format!("{}.{} %", share / 10, share % 10),
    });
    let (paint, mark) = match row.mark {
        None => (Paint::None, "-"),
        Some(Mark::Healthy) => (Paint::Good, "healthy"),
        Some(Mark::Degrading) => (Paint::Notice, "degrading"),
        Some(Mark::Broken) => (Paint::Bad, "broken"),
    };
    [
        (Paint::None, row.name.replace('_', " ")),
        (Paint::Heading, share.unwrap_or_else(|| "-".to_owned())),
        (paint, mark.to_owned()),
        (Paint::None, row.ratio.to_string()),
        (Paint::Faint, row.what.to_owned()),
    ]
}
