//! `ledger inspect DIR metrics`: metrics of the plan, the policies and the failure classes.

use clap::Args;

use plan_ledger_views::MetricsLine;

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::output::Output;
use crate::options::RunArg;
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

pub(crate) fn metrics(
    args: &MetricsArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    if args.all {
        let ledger = LedgerAt::of(context, AtArg::default())?;
        let found = ledger.view.metrics_of_all(&ledger.state)?;
        show(&MetricsLine::of(&found, None), context.form, out)?;
        return ledger.finish(out);
    }
    let (ledger, id) = LedgerAt::of_run(context, AtArg::default(), args.run.name())?;
    let run = ledger.run(id)?;
    let found = ledger.view.metrics(id)?;
    if context.form == Form::Text {
        ledger.heading("metrics", run, out)?;
    }
    show(&MetricsLine::of(&found, Some(id)), context.form, out)?;
    ledger.finish(out)
}

fn show(view: &MetricsLine<'_>, form: Form, out: &mut Output<'_>) -> Result<(), Failure> {
    match form {
        Form::Json => out.json(view),
        Form::Text => out.document(&view.document()),
    }
}
