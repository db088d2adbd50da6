//! `ledger inspect DIR queue`: the ready steps in the order of dispatch, and their blockers.

use clap::Args;

use plan_ledger_views::QueueView;

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::output::Output;
use crate::options::RunArg;
use crate::output::{Code, Failure};

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger queue                     the next steps, and what a cap blocks
  ledger inspect .ledger queue my-plan --at 900
  ledger inspect .ledger queue --json | jq -r 'select(.type == \"ready\") | .id'";

/// Number of steps listed in text.
const SHOWN: usize = 40;

/// The ready steps in the order of dispatch, and the reasons that still block them
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct QueueArgs {
    #[command(flatten)]
    run: RunArg,
    #[command(flatten)]
    at: AtArg,
}

pub(crate) fn queue(
    args: &QueueArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let (ledger, id) = LedgerAt::of_run(context, args.at, args.run.name())?;
    let run = ledger.run(id)?;
    let ready_max = if context.form == Form::Text { SHOWN } else { usize::MAX };
    let view = QueueView::of(&ledger.state, run, ledger.now, ready_max);
    match context.form {
        Form::Json => {
            view.ready.iter().try_for_each(|line| out.json(line))?;
            view.delayed.iter().try_for_each(|line| out.json(line))?;
        }
        Form::Text => {
            ledger.heading("queue", run, out)?;
            out.document(&view.document())?;
        }
    }
    ledger.finish(out)
}
