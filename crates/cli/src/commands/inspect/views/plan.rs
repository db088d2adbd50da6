//! `ledger inspect DIR plan RUN`: the plan of a run, its versions, and their differences.

use clap::Args;

use plan_ledger::plan::{PlanVersion, diff};
use plan_ledger::{Run, RunId, StepNumber};
use plan_ledger_views::{PlanView, Replans, VersionDiffLine, plan_diff_document};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::output::Output;
use crate::commands::inspect::views::status::stale_files;
use crate::options::RunArg;
use crate::output::{Code, Failure};

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger plan my-plan              the active version, and the status of its steps
  ledger inspect .ledger plan my-plan --version 1  the text of the first version
  ledger inspect .ledger plan --json | jq .versions   where each version comes from, and its review
  ledger inspect .ledger plan my-plan --diff 1 2   what the second version changed
  ledger inspect .ledger plan my-plan --replans    why it changed, and what stayed trusted";

/// The plan of a run: its text, its steps and their status, its versions and their changes
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    run: RunArg,
    /// Show this version instead of the active one
    #[arg(long, value_name = "N")]
    version: Option<u32>,
    /// The differences between two versions, as in `ledger plan diff`
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with = "version")]
    diff: Vec<u32>,
    /// Why each version replaced the one before it, which work it discarded and kept
    #[arg(long, conflicts_with_all = ["version", "diff"])]
    replans: bool,
    #[command(flatten)]
    at: AtArg,
}

pub(crate) fn plan(
    args: &PlanArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let (mut ledger, id) = LedgerAt::of_run(context, args.at, args.run.name())?;
    if args.replans {
        replans(&mut ledger, id, out)?;
        return ledger.finish(out);
    }
    let run = ledger.run(id)?;
    if let [old, new] = args.diff.as_slice() {
        differences(&ledger, run, (*old, *new), out)?;
        return ledger.finish(out);
    }
    let newest = || run.newest_proposal().map_or(run.active, |(number, _)| number);
    let number = args.version.unwrap_or(if run.active == 0 { newest() } else { run.active });
    let version = version_of(run, number)?;
    let view = PlanView::of(run, number, version, stale_of(&ledger, run, number));
    match context.form {
        Form::Json => {
            out.json(&view.version)?;
            view.steps.iter().try_for_each(|step| out.json(step))?;
        }
        Form::Text => {
            ledger.heading("plan", run, out)?;
            out.document(&view.document())?;
        }
    }
    ledger.finish(out)
}

fn replans(ledger: &mut LedgerAt<'_>, id: RunId, out: &mut Output<'_>) -> Result<(), Failure> {
    let history = ledger.run_history(id)?;
    let run = ledger.run(id)?;
    let view = Replans::of(run, &history.records);
    if ledger.context.form == Form::Json {
        return view.lines.iter().try_for_each(|line| out.json(line));
    }
    ledger.heading("replans", run, out)?;
    out.document(&view.document())
}

fn version_of(run: &Run, number: u32) -> Result<&PlanVersion, Failure> {
    run.version(number).ok_or_else(|| {
        let (name, count) = (&run.name, run.versions.len());
        Failure::Usage(format!("run {name} has no version {number} of its plan; it has {count}"))
    })
}

fn differences(
    ledger: &LedgerAt<'_>,
    run: &Run,
    (old, new): (u32, u32),
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let decoded = |number| version_of(run, number).map(|version| version.plan.decode());
    let found = diff(&decoded(old)?, &decoded(new)?);
    match ledger.context.form {
        Form::Json => {
            let differences = (&found).into();
            out.json(&VersionDiffLine { differences, new, old, run: run.id })
        }
        Form::Text => {
            ledger.heading(&format!("plan version {old} compared with {new}"), run, out)?;
            out.document(&plan_diff_document(&found))
        }
    }
}

/// The files of steps that changed since the plan was made, if this is the version that counts.
fn stale_of(
    ledger: &LedgerAt<'_>,
    run: &Run,
    number: u32,
) -> Option<Vec<(StepNumber, Vec<String>)>> {
    if number == run.active { stale_files(ledger, run) } else { None }
}
