//! `ledger budget`: the limits and the spending of a run, and the spending over time.

use clap::{Arg, Args};

use plan_ledger_views::{Budget, MilestoneLine, budget_charts, runs_out_of_budget};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::output::Output;
use crate::options::{LedgerArgs, RunOption, without_environment};
use crate::output::{Code, Failure};

use super::view::report_rollback;

/// The budget that is shown: of a run, or of the ledger.
#[derive(Debug, Args)]
#[command(mut_arg("run", of_budget))]
pub(crate) struct BudgetViewArgs {
    #[command(flatten)]
    pub(crate) ledger: LedgerArgs,
    #[command(flatten)]
    pub(crate) run: RunOption,
    /// Show the remainder of each limited part of a run's budget over time
    #[arg(long)]
    chart: bool,
    #[command(flatten)]
    at: AtArg,
}

fn of_budget(run: Arg) -> Arg {
    let help = "The run's name, as an option; `LEDGER_RUN` is not used here, since a budget may be the ledger's";
    without_environment(run).help(help)
}

/// Shows the budget of the named run and of the ledger, or that of the ledger alone.
pub(crate) fn budget(
    args: &BudgetViewArgs,
    run: Option<&str>,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    report_rollback(context, out)?;
    let Some(name) = run else {
        if args.chart {
            let message = "`--chart` needs a run\nhint: `ledger budget RUN --chart`";
            return Err(Failure::Usage(message.to_owned()));
        }
        let mut ledger = LedgerAt::of(context, args.at)?;
        ledger.announce_problems(out)?;
        print(&Budget::of_ledger(&ledger.state), context.form, out)?;
        if context.form == Form::Text {
            out.document(&runs_out_of_budget(&ledger.state, context.dir))?;
        }
        return ledger.finish(out);
    };
    let (mut ledger, id) = LedgerAt::of_run(context, args.at, Some(name))?;
    ledger.announce_problems(out)?;
    let run = ledger.run(id)?.clone();
    if context.form == Form::Text {
        ledger.heading("budget", &run, out)?;
    }
    print(&Budget::of_run(&run, ledger.now), context.form, out)?;
    print(&Budget::of_ledger(&ledger.state), context.form, out)?;
    if args.chart {
        let points = ledger.run_history(id)?.progress(&run);
        match context.form {
            Form::Json => {
                let mut points = points.iter();
                points.try_for_each(|point| out.json(&MilestoneLine::of(id, point)))?;
            }
            Form::Text => {
                ledger.print_first_record(out)?;
                let is_whole = ledger.view.log().first_seq() == 1;
                out.document(&budget_charts(&run, &points, is_whole, ledger.now))?;
            }
        }
    }
    ledger.finish(out)
}

fn print(view: &Budget<'_>, form: Form, out: &mut Output<'_>) -> Result<(), Failure> {
    match form {
        Form::Json => view.lines().try_for_each(|line| out.json(&line)),
        Form::Text => out.document(&view.document()),
    }
}
