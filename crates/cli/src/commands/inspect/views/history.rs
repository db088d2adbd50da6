//! `ledger inspect DIR history RUN STEP`: the history of a step, one line for each record.

use clap::Args;

use plan_ledger_views::History;

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::output::Output;
use crate::options::StepArg;
use crate::output::{Code, Failure};

use super::step::history as step_entries;

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger history my-plan deploy    every record of it, and how long it took
  ledger inspect .ledger history my-plan 37 --at 900
  ledger inspect .ledger history my-plan 37 --json | jq -c .event";

/// The history of a step: one line for each record, and the time between them
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    of: StepArg,
    #[command(flatten)]
    at: AtArg,
}

pub(crate) fn history(
    args: &HistoryArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let (mut ledger, id) = LedgerAt::of_run(context, args.at, args.of.run())?;
    let number = ledger.step(ledger.run(id)?, args.of.step())?;
    let found = step_entries(&mut ledger, id, number)?;
    let run = ledger.run(id)?;
    let view = History::of(run, number, &found);
    match context.form {
        Form::Json => {
            view.records().try_for_each(|line| out.json(&line))?;
            out.json(&view.line)?;
        }
        Form::Text => {
            ledger.heading(&format!("history of #{number}"), run, out)?;
            ledger.print_first_record(out)?;
            out.document(&view.document())?;
        }
    }
    ledger.finish(out)
}
