//! `ledger inspect DIR why RUN STEP`: why a step is not dispatched, down to the root causes.

use clap::Args;

use plan_ledger::plan::{Explanation, StepEvent, StepRecord, explain};
use plan_ledger::{Event, Run, StepNumber, StepStatus};
use plan_ledger_views::{RecordContent, WhyView};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::output::Output;
use crate::options::StepArg;
use crate::output::{Code, Failure};

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger why my-plan deploy        what it waits for, down to the root causes
  ledger inspect .ledger why my-plan '#37' --at 900 what it waited for after record 900
  ledger inspect .ledger why my-plan deploy --json | jq .roots";

/// Why a step is not dispatched: the reasons, down to the root causes, and the commands that help
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WhyArgs {
    #[command(flatten)]
    of: StepArg,
    #[command(flatten)]
    at: AtArg,
}

pub(crate) fn why(
    args: &WhyArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let (ledger, id) = LedgerAt::of_run(context, args.at, args.of.run())?;
    let run = ledger.run(id)?;
    let number = ledger.step(run, args.of.step())?;
    let found = explained(&ledger, run, number)?;
    let known = ledger.known(run);
    let view = WhyView::of(&known, &found, ledger.repeats(run), skipped_by(&ledger, run, number));
    match context.form {
        Form::Json => out.json(&view.line())?,
        Form::Text => {
            ledger.heading(&format!("why #{number}"), run, out)?;
            out.document(&view.document())?;
        }
    }
    ledger.finish(out)
}

pub(crate) fn explained(
    ledger: &LedgerAt<'_>,
    run: &Run,
    number: StepNumber,
) -> Result<Explanation, Failure> {
    explain(&ledger.state, run.id, number, ledger.now)
        .map_err(|rejection| Failure::Ledger(plan_ledger::Error::from(rejection)))
}

/// The author and the reason of a skip, from its last record; `None` if it cannot be read.
fn skipped_by(ledger: &LedgerAt<'_>, run: &Run, number: StepNumber) -> Option<(String, String)> {
    run.step(number).filter(|step| step.status == StepStatus::Skipped)?;
    let records = ledger.view.step_records(run, number).ok()?;
    records.iter().rev().find_map(|record| match RecordContent::of(record) {
        RecordContent::Event(Event::Step(StepRecord {
            event: StepEvent::Skipped(event), ..
        })) => Some((event.by, event.reason.to_string())),
        _ => None,
    })
}
