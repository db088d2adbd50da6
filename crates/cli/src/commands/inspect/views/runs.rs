//! `ledger inspect DIR runs`: every run of the ledger, one line each, or one run in full.

use clap::Args;

use plan_ledger_views::{Runs, StateLine};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::output::Output;
use crate::options::OneRunArg;
use crate::output::{Code, Failure};

use super::run_state::run_state;

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger runs
  ledger inspect .ledger runs my-plan              one run in full: steps, variables, barriers, questions
  ledger inspect .ledger runs --at 5000            which runs there were then
  ledger inspect .ledger runs --after 200 --limit 100   one page of a long list
  ledger inspect .ledger runs --json | jq 'select(.status == \"failed\") | .name'";

/// Every run: status, progress, cost; with RUN its whole state: steps, variables, barriers, questions
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunsArgs {
    #[command(flatten)]
    run: OneRunArg,
    /// Only runs after the one with this number
    #[arg(long, value_name = "NUMBER")]
    after: Option<u32>,
    /// At most this many runs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    #[command(flatten)]
    at: AtArg,
}

pub(crate) fn runs(
    args: &RunsArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    if let Some(name) = args.run.name() {
        if args.after.is_some() || args.limit.is_some() {
            return Err(Failure::Usage("--after and --limit are for the list of runs".to_owned()));
        }
        let (ledger, id) = LedgerAt::of_run(context, args.at, Some(name))?;
        run_state(&ledger, id, out)?;
        return ledger.finish(out);
    }
    let ledger = LedgerAt::of(context, args.at)?;
    let max = args.limit.and_then(|limit| limit.try_into().ok()).unwrap_or(usize::MAX);
    let page = (args.after.unwrap_or(0), max);
    let runs = Runs::of(&ledger.state, page, |run| ledger.activity(run));
    let state = StateLine::of(&ledger.state);
    match context.form {
        Form::Json => {
            runs.lines.iter().try_for_each(|line| out.json(line))?;
            out.json(&state)?;
        }
        Form::Text => {
            ledger.print_past(out)?;
            let is_page = !ledger.state.names.is_empty();
            let none = if is_page { "no further run" } else { ledger.no_run_text() };
            out.document(&runs.document(none, ledger.now))?;
            out.document(&state.document())?;
        }
    }
    ledger.finish(out)
}
