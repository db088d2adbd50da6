//! `ledger plan approve` and `ledger plan reject`: the review of a plan version.

use std::path::Path;

use clap::Args;

use plan_ledger::plan::Review;
use plan_ledger_views::{approval_of, approve_version};

use crate::commands::inspect::read_state;
use crate::options::{Author, LedgerArgs, RunArg};
use crate::output::{Code, Failure, print_message};
use crate::requests::{ReviewAnswer, ReviewRequest, line_of, run_of};
use crate::runner::folder_here;

use crate::commands::plan::planned_files::execute_and_note;

const EXAMPLES: &str = "\
Examples:
  ledger plan review my-plan                       show the version that waits, and how it differs
  ledger plan approve my-plan --by ana             make it active
  ledger plan approve my-plan --by ana --shown 1f3a9c04d2b7   only if it is what was shown
  ledger plan reject my-plan --by ana --note 'step 3 is too risky'";

/// `ledger plan approve` and `ledger plan reject`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PlanApproveArgs {
    #[command(flatten)]
    ledger: LedgerArgs,
    #[command(flatten)]
    run: RunArg,
    #[command(flatten)]
    author: Author,
    /// The reason
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
    /// The hash that the review showed, or a prefix of it: if it has changed, the review is
    /// rejected
    #[arg(long, value_name = "HASH")]
    shown: Option<String>,
}

pub(crate) fn approve(args: &PlanApproveArgs) -> Result<Code, Failure> {
    review(args, Review::Approved)
}

pub(crate) fn reject(args: &PlanApproveArgs) -> Result<Code, Failure> {
    review(args, Review::Rejected)
}

fn review(args: &PlanApproveArgs, review: Review) -> Result<Code, Failure> {
    let PlanApproveArgs { ledger, run, author, note, shown } = args;
    let (run, by, note, shown) = (run.clone(), author.clone(), note.clone(), shown.clone());
    let (code, answer) = execute_and_note(ledger, ReviewRequest { run, review, by, note, shown })?;
    if let Some(ReviewAnswer { run, review: Review::Approved, .. }) = line_of(&answer) {
        warn_of_folder(ledger.dir(), &run)?;
    }
    Ok(code)
}

/// Warns if a judge runs the commands that were approved in a folder that seems to have nothing to do with the run.
fn warn_of_folder(dir: &Path, run: &str) -> Result<(), Failure> {
    let Some(here) = folder_here() else { return Ok(()) };
    let ledger = dir.canonicalize().ok();
    let Some(beside) =
        ledger.as_deref().and_then(Path::parent).filter(|it| *it != Path::new(&here))
    else {
        return Ok(());
    };
    let found = read_state(dir, |state| {
        let run = run_of(state, run)?;
        let is_here = approval_of(run).is_some_and(|it| it.folder.as_ref() == Some(&here));
        let claims = run.steps.iter().filter_map(|step| step.attempt()?.process.as_ref());
        let mut folders = claims.filter_map(|process| process.folder.as_ref());
        let is_claimed = folders.any(|folder| Path::new(folder).starts_with(&here));
        let hash = run.active_version().map(|version| version.hash);
        Ok(hash.filter(|_| is_here && !is_claimed).map(|hash| (run.name.clone(), hash)))
    })?;
    let (Some((run, hash)), Some(ledger)) = (found, &ledger) else { return Ok(()) };
    let again = approve_version(&run, ledger, hash).in_folder(&beside.display().to_string());
    print_message(&format!(
        "warning: a judge runs the commands in {here}, but neither is the ledger there nor was a step claimed there; \
         beside the ledger: `{again}`"
    ));
    Ok(())
}
