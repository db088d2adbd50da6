//! `ledger budget`: the limits and the spending of a run, and the spending over time.

use clap::Args;

use plan_ledger::Run;
use plan_ledger::plan::PauseCause;
use plan_ledger_views::{BudgetRow, MilestoneLine, budget_charts, budget_document, elapsed};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::output::Output;
use crate::options::LedgerArgs;
use crate::output::render::Paint;
use crate::output::{Code, Failure, escape_control, paused_text};
use crate::protocol::shell_command;

use super::view::report_rollback;

/// The budget that is shown: of a run, or of the ledger.
#[derive(Debug, Args)]
pub(crate) struct BudgetViewArgs {
    #[command(flatten)]
    pub(crate) ledger: LedgerArgs,
    /// The run's name, as an option; `LEDGER_RUN` is not used here, since a budget may be the ledger's
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Option<String>,
    /// Show the remainder of each limited part of a run's budget over time
    #[arg(long)]
    chart: bool,
    #[command(flatten)]
    at: AtArg,
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
        of_ledger(&ledger, out)?;
        if context.form == Form::Text {
            point_to_runs(&ledger, out)?;
        }
        return ledger.finish(out);
    };
    let (mut ledger, id) = LedgerAt::of_run(context, args.at, Some(name))?;
    ledger.announce_problems(out)?;
    let run = ledger.run(id)?.clone();
    of_run(&ledger, &run, out)?;
    of_ledger(&ledger, out)?;
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

fn of_run(ledger: &LedgerAt<'_>, run: &Run, out: &mut Output<'_>) -> Result<(), Failure> {
    let parts = BudgetRow::all(&run.account, run.limits(), Some(elapsed(run, ledger.now)));
    if ledger.context.form == Form::Json {
        return parts.iter().try_for_each(|part| out.json(&part.line(Some(run.id))));
    }
    ledger.heading("budget", run, out)?;
    if let Some(cause) = &run.pause {
        out.painted(Paint::Notice, &format!("  {}", escape_control(&paused_text(cause))))?;
    }
    out.document(&budget_document(&parts))?;
    out.line("")
}

fn of_ledger(ledger: &LedgerAt<'_>, out: &mut Output<'_>) -> Result<(), Failure> {
    let account = ledger.state.account;
    let parts = BudgetRow::all(&account, account.limits.unwrap_or_default(), None);
    if ledger.context.form == Form::Json {
        return parts.iter().try_for_each(|part| out.json(&part.line(None)));
    }
    out.painted(Paint::Heading, "budget of the ledger, over all runs")?;
    out.document(&budget_document(&parts))?;
    let legend = "# spent  + reserved for attempts in flight  - left; estimated: charged for lost \
                  attempts, not confirmed";
    out.painted(Paint::Faint, &out.style.fit(legend, 0))
}

/// Names the runs that are paused for a budget of their own, which is not shown.
fn point_to_runs(ledger: &LedgerAt<'_>, out: &mut Output<'_>) -> Result<(), Failure> {
    for (_, overview) in ledger.state.runs.overviews() {
        let Some(cause @ PauseCause::RunBudget { .. }) = &overview.pause else { continue };
        let text = format!("run {} is {}", overview.name, paused_text(cause));
        out.painted(Paint::Notice, &escape_control(&text))?;
        let command = shell_command("budget", ledger.context.dir, &[&overview.name]);
        out.line(&format!("  {}", escape_control(&command)))?;
    }
    Ok(())
}
