//! `ledger inspect DIR timeline`: the attempts and waits of every step, as bars over time.

use clap::Args;

use plan_ledger_views::StepTimelines;

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::output::Output;
use crate::options::RunArg;
use crate::output::{Code, Failure};

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger timeline
  ledger inspect .ledger timeline my-plan --at 900     as it stood after record 900
  ledger inspect .ledger timeline --json | jq 'select(.kind == \"lost\") | .worker'";

/// The attempts and waits of every step, as bars over time
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TimelineArgs {
    #[command(flatten)]
    run: RunArg,
    #[command(flatten)]
    at: AtArg,
}

pub(crate) fn timeline(
    args: &TimelineArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let (mut ledger, id) = LedgerAt::of_run(context, args.at, args.run.name())?;
    let timelines = ledger.run_history(id)?.timelines();
    let run = ledger.run(id)?;
    let view = StepTimelines::of(run, timelines, ledger.now);
    match context.form {
        Form::Json => view.lines().try_for_each(|line| out.json(&line))?,
        Form::Text => {
            ledger.heading("timeline", run, out)?;
            ledger.print_first_record(out)?;
            out.document(&view.document())?;
        }
    }
    ledger.finish(out)
}
