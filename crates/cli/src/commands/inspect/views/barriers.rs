//! `ledger inspect DIR barriers`: the barriers of a run, and their missing members.

use clap::Args;

use plan_ledger::Run;
use plan_ledger::plan::{BarrierState, BarrierStatus};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::json::state::BarrierLine;
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::lookup::{barrier_word, step_name};
use crate::commands::inspect::output::Output;
use crate::commands::inspect::text::status::barrier_paint;
use crate::commands::inspect::text::units::{moment, words};
use crate::options::RunArg;
use crate::output::render::{Paint, Table};
use crate::output::{Code, Failure, escape_control};

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
    match context.form {
        Form::Json => {
            let mut all = run.barriers.iter();
            all.try_for_each(|(id, each)| out.json(&BarrierLine::of(run, id, each)))?;
        }
        Form::Text => {
            ledger.heading("barriers", run, out)?;
            if run.barriers.is_empty() {
                out.line("the active version has none")?;
            }
            for (id, barrier) in &run.barriers {
                print(&ledger, run, id, barrier, out)?;
            }
        }
    }
    ledger.finish(out)
}

fn print(
    ledger: &LedgerAt<'_>,
    run: &Run,
    id: &str,
    barrier: &BarrierState,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let (arrived, needed) = (barrier.arrived.len(), barrier.needed);
    let status = out.style.paint(barrier_paint(barrier.status), barrier_word(barrier.status));
    let name = out.style.paint(Paint::Heading, &escape_control(id));
    let late = if barrier.is_late { ", its deadline has passed" } else { "" };
    let of = barrier.members.len();
    out.line(&format!(
        "  {name}: {status}, {arrived} of {needed} needed arrived ({of} members){late}"
    ))?;
    if barrier.status == BarrierStatus::Closed {
        let on_break = words(&barrier.on_break, ' ');
        let until = barrier.deadline.map(|at| format!("due {}; ", moment(at, ledger.now)));
        let until = until.unwrap_or_default();
        out.line(&format!("    {until}if it breaks: {on_break}"))?;
    }
    if let Some(question) = barrier.question {
        out.line(&format!("    question {} is open about it", question.0))?;
    }
    let mut table = Table::default();
    for number in barrier.members.iter().filter(|number| !barrier.arrived.contains(number)) {
        let status = run.step(*number).map(|step| step.status);
        let paint = if barrier.failed.contains(number) { Paint::Bad } else { Paint::None };
        table.row([
            (Paint::Faint, "missing".to_owned()),
            (Paint::None, step_name(run, *number)),
            (paint, status.map_or_else(String::new, |status| status.to_string())),
        ]);
    }
    out.table(&table, 4)
}
