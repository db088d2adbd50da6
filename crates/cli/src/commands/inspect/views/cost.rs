//! `ledger inspect DIR cost`: the cost of each step of a run, most expensive first.

use clap::Args;

use plan_ledger_views::Costs;

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::output::Output;
use crate::options::RunArg;
use crate::output::{Code, Failure};

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger cost                      the steps, most expensive first, and the cost of owners
  ledger inspect .ledger cost my-plan --at 900
  ledger inspect .ledger cost --json | jq 'select(.type == \"step_cost\") | .spent.tokens'";

/// The cost of each step and each owner of a run, most expensive first
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CostArgs {
    #[command(flatten)]
    run: RunArg,
    #[command(flatten)]
    at: AtArg,
}

pub(crate) fn cost(
    args: &CostArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let (mut ledger, id) = LedgerAt::of_run(context, args.at, args.run.name())?;
    let costs = ledger.run_history(id)?.costs();
    let run = ledger.run(id)?;
    let view = Costs::of(run, costs);
    match context.form {
        Form::Json => {
            view.steps.iter().try_for_each(|line| out.json(line))?;
            out.json(&view.whole)?;
        }
        Form::Text => {
            ledger.heading("cost", run, out)?;
            ledger.print_first_record(out)?;
            out.document(&view.document())?;
        }
    }
    ledger.finish(out)
}
