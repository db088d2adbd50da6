//! `ledger inspect DIR metrics`: metrics of the plan, the policies and the failure classes.

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::RunId;
use plan_ledger::internals::ledger::{Ratio, RunMetrics};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::output::Output;
use crate::options::RunArg;
use crate::output::render::{Paint, Table};
use crate::output::{Code, Failure};

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger metrics
  ledger inspect .ledger metrics my-plan --json | jq .retry_exhaustion";

/// Metrics of a run: replans, retries, failure classes, trust, budget, estimates
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MetricsArgs {
    #[command(flatten)]
    run: RunArg,
}

pub(crate) fn metrics(
    args: &MetricsArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let (ledger, id) = LedgerAt::of_run(context, AtArg::default(), args.run.name())?;
    let run = ledger.run(id)?;
    let found = ledger.view.metrics(id)?;
    let RunMetrics {
        replan_frequency,
        retry_exhaustion,
        first_classification,
        replan_precision,
        state_trust,
        budget_use,
        step_time,
    } = &found;
    let rows = [
        ("replan_frequency", *replan_frequency, "later versions that became active / attempts"),
        ("retry_exhaustion", *retry_exhaustion, "steps out of attempts / steps with a failure"),
        (
            "first_classification",
            *first_classification,
            "first classes not contradicted / first classes",
        ),
        ("replan_precision", *replan_precision, "changed outputs / repeated steps"),
        ("state_trust", *state_trust, "trusted variables / variables"),
        ("step_time", *step_time, "microseconds taken / estimated"),
    ];
    match context.form {
        Form::Json => out.json(&MetricsLine { metrics: &found, run: id })?,
        Form::Text => {
            ledger.heading("metrics", run, out)?;
            let mut table = Table::with_headings(&["metric", "share", "counts", "what is counted"]);
            for (name, ratio, what) in rows {
                table.row(cells(name.replace('_', " "), ratio, what));
            }
            for (part, ratio) in budget_use {
                table.row(cells(format!("budget of {part}"), *ratio, "spent / limit"));
            }
            out.table(&table, 2)?;
        }
    }
    ledger.finish(out)
}

/// The metrics of a run.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MetricsLine<'a> {
    #[serde(flatten)]
    metrics: &'a RunMetrics,
    /// The run.
    run: RunId,
}

fn cells(name: String, ratio: Ratio, what: &str) -> [(Paint, String); 4] {
    let share = ratio.per_mille().map(|share| format!("{}.{} %", share / 10, share % 10));
    [
        (Paint::None, name),
        (Paint::Heading, share.unwrap_or_else(|| "-".to_owned())),
        (Paint::None, ratio.to_string()),
        (Paint::Faint, what.to_owned()),
    ]
}
