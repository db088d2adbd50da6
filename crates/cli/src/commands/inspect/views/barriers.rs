//! `ledger inspect DIR barriers`: the barriers of a run, and their missing members.

use clap::Args;

use plan_ledger_views::Barriers;

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::output::Output;
use crate::options::RunArg;
use crate::output::{Code, Failure};

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger barriers
  ledger inspect .ledger barriers my-plan --json | jq 'select(.status == \"closed\") | .missing'";

/// The barriers of a run: status, arrived and missing members, deadline
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BarriersArgs {
    #[command(flatten)]
    run: RunArg,
    #[command(flatten)]
    at: AtArg,
}

pub(crate) fn barriers(
    args: &BarriersArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let (ledger, id) = LedgerAt::of_run(context, args.at, args.run.name())?;
    let run = ledger.run(id)?;
    let view = Barriers::of(run);
    match context.form {
        Form::Json => view.lines.iter().try_for_each(|line| out.json(line))?,
        Form::Text => {
            ledger.heading("barriers", run, out)?;
            out.document(&view.document(ledger.now))?;
        }
    }
    ledger.finish(out)
}
