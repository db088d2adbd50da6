//! `ledger plan diff`: compares two plan files, or a plan file with the plan of a run.

use std::path::{Path, PathBuf};

use clap::Args;

use plan_ledger::Plan;
use plan_ledger::internals::plan::diff;

use crate::commands::read_report::keep_ids;
use crate::commands::read_state::read_state;
use crate::options::LedgerOption;
use crate::output::{Code, Failure, PlanDiffJson, escape_control, plan_diff_text, print_result};
use crate::requests::run_or_only;

use super::forms::read;

const EXAMPLES: &str = "\
Examples:
  ledger plan diff plan.yaml                       what would change in the active run
  ledger plan diff plan.yaml release               the same for this run, before it is proposed
  ledger plan diff old.yaml new.yaml               two files
  ledger plan diff old.yaml new.yaml --json | jq .reordered

With one plan file, the old plan is the active version of the run. A second word is a plan file if
there is such a file, else a run.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct PlanDiffArgs {
    #[command(flatten)]
    place: LedgerOption,
    /// The plan; with a second file, the old plan
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The new plan, or the run whose plan is the old one [default: the only active run]
    #[arg(value_name = "NEW|RUN")]
    other: Option<PathBuf>,
    /// Print the differences as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn diff_files(args: &PlanDiffArgs) -> Result<Code, Failure> {
    let (heading, old, new) = match &args.other {
        Some(new) if is_file(new) => {
            (String::new(), read(&args.file, None)?.plan, read(new, None)?.plan)
        }
        run => of_run(args, run.as_deref())?,
    };
    let difference = diff(&old, &new);
    let line = PlanDiffJson::from(&difference);
    print_result(args.json, &line, &format!("{heading}{}", plan_diff_text(&difference)))?;
    Ok(Code::Success)
}

/// Whether a word is meant as a file: there is one, or it is written as a path.
fn is_file(word: &Path) -> bool {
    word.exists() || word.extension().is_some() || word.components().count() > 1
}

/// The plan of a run, and that of the file as the run would get it.
fn of_run(args: &PlanDiffArgs, run: Option<&Path>) -> Result<(String, Plan, Plan), Failure> {
    let dir = &args.place.dir;
    let name = run.map(|run| run.to_string_lossy().into_owned());
    let (run, version, old) = read_state(dir, |state| {
        let run = run_or_only(state, name.as_deref())?;
        let plan = run.plan().ok_or_else(|| {
            Failure::Usage(format!("run {} has no active plan yet", escape_control(&run.name)))
        })?;
        Ok((run.name.clone(), run.active, plan.decode()))
    })?;
    let mut file = read(&args.file, None)?;
    keep_ids(&mut file, dir, &run);
    let heading = format!(
        "run {}, version {version} -> {}\n",
        escape_control(&run),
        escape_control(&args.file.display().to_string())
    );
    Ok((heading, old, file.plan))
}
