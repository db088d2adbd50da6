//! `ledger plan diff`: compares two plan files, or a plan file with the plan of a run.

use std::path::{Path, PathBuf};

use clap::Args;

use plan_ledger::Plan;
use plan_ledger::internals::ledger::plan_draft;
use plan_ledger::plan::diff;
use plan_ledger_files::ReadOptions;

use crate::commands::inspect::read_state;
use crate::options::plan_file::reading_of;
use crate::options::{AsJson, LedgerOption};
use crate::output::{
    Code, Failure, PlanDiffJson, PlanDiffLine, plan_diff_text, print_result, redone_steps,
    redone_text,
};
use crate::requests::run_or_only;

use super::forms::read;

const EXAMPLES: &str = "\
Examples:
  ledger plan diff plan.yaml                       what would change in the active run
  ledger plan diff plan.yaml release               the same for this run, before it is proposed
  ledger plan diff old.yaml new.yaml               two files
  ledger plan diff old.yaml new.yaml --json | jq .reordered

With one plan file, the old plan is the active version of the run, and the last line names the steps
that the run would do again. A second word is a plan file if that file exists, else a run.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct PlanDiffArgs {
    #[command(flatten)]
    place: LedgerOption,
    /// The plan; with a second file, the old plan
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The new plan, or the run that has the old plan [default: the only active run]
    #[arg(value_name = "NEW|RUN")]
    other: Option<PathBuf>,
    #[command(flatten)]
    json: AsJson,
}

pub(super) fn diff_files(args: &PlanDiffArgs) -> Result<Code, Failure> {
    let Compared { heading, old, new, redone } = match &args.other {
        Some(new) if is_file(new) => Compared {
            heading: String::new(),
            old: read(&args.file, None)?.plan,
            new: read(new, None)?.plan,
            redone: None,
        },
        run => of_run(args, run.as_deref())?,
    };
    let difference = diff(&old, &new);
    let mut text = format!("{heading}{}", plan_diff_text(&difference));
    let again = redone_text(redone.as_deref().unwrap_or_default());
    if !again.is_empty() {
        text = format!("{text}\n{again}");
    }
    let line = PlanDiffLine { differences: PlanDiffJson::from(&difference), redone };
    print_result(args.json.0, &line, &text)?;
    Ok(Code::Success)
}

/// Two plans.
struct Compared {
    /// The run and the file, if one of the plans is that of a run.
    heading: String,
    old: Plan,
    new: Plan,
    /// The steps of the run that the new plan would redo.
    redone: Option<Vec<String>>,
}

/// Whether a word means a file: the file exists, or the word is written as a path.
fn is_file(word: &Path) -> bool {
    word.exists() || word.extension().is_some() || word.components().count() > 1
}

/// The plan of a run, and that of the file as the run would get it.
fn of_run(args: &PlanDiffArgs, run: Option<&Path>) -> Result<Compared, Failure> {
    let name = run.map(|run| run.to_string_lossy().into_owned());
    let mut file = read(&args.file, None)?;
    read_state(&args.place.dir, |state| {
        let run = run_or_only(state, name.as_deref())?;
        let plan = run
            .plan()
            .ok_or_else(|| Failure::Usage(format!("run {} has no active plan yet", run.name)))?;
        let old = plan.decode();
        if let Some(reading) = reading_of(run, &file) {
            let options = ReadOptions { reading: Some(reading), ..ReadOptions::default() };
            file = options.read(&args.file).map_err(Failure::of_input)?;
        }
        file.keep_ids(&old);
        // A plan that cannot be proposed has differences, too.
        let draft = plan_draft(&file.plan).ok();
        let redone = draft.map(|draft| redone_steps(run, &run.preview_draft(&draft)));
        let heading =
            format!("run {}, version {} -> {}\n", run.name, run.active, args.file.display());
        Ok(Compared { heading, old, new: file.plan, redone })
    })
}
