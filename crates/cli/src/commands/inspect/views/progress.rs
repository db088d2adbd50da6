//! `ledger inspect DIR progress`: the progress of a run, by phase and over time.

use clap::Args;

use plan_ledger_views::ProgressView;

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::output::Output;
use crate::options::RunArg;
use crate::output::{Code, Failure};

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger progress
  ledger inspect .ledger progress my-plan --at 900
  ledger inspect .ledger progress --json | jq 'select(.type == \"milestone\") | .closed'";

/// The progress of a run: by phase, and the remaining steps over time
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ProgressArgs {
    #[command(flatten)]
    run: RunArg,
    #[command(flatten)]
    at: AtArg,
}

pub(crate) fn progress(
    args: &ProgressArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let (mut ledger, id) = LedgerAt::of_run(context, args.at, args.run.name())?;
    let course = ledger.run_history(id)?.progress(ledger.run(id)?);
    let run = ledger.run(id)?;
    let view = ProgressView::of(run, &ledger.activity(run), &course, ledger.now);
    match context.form {
        Form::Json => {
            out.json(&view.line)?;
            view.milestones.iter().try_for_each(|line| out.json(line))?;
        }
        Form::Text => {
            ledger.heading("progress", run, out)?;
            out.document(&view.document())?;
            ledger.print_first_record(out)?;
            out.document(&view.chart())?;
        }
    }
    ledger.finish(out)
}
