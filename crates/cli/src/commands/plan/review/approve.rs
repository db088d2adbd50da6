//! `ledger plan approve` and `ledger plan reject`: the review of a plan version.

use std::path::Path;

use plan_ledger::plan::Review;
use plan_ledger_views::{approval_of, approve_version};

use crate::commands::inspect::read_state;
use crate::options::RequestArgs;
use crate::output::{Code, Failure, print_message};
use crate::requests::{ReviewAnswer, ReviewRequest, line_of, run_of};
use crate::runner::folder_here;

use crate::commands::plan::planned_files::execute_and_note;

pub(crate) fn approve(args: &RequestArgs<ReviewRequest>) -> Result<Code, Failure> {
    review(args, Review::Approved)
}

pub(crate) fn reject(args: &RequestArgs<ReviewRequest>) -> Result<Code, Failure> {
    review(args, Review::Rejected)
}

fn review(args: &RequestArgs<ReviewRequest>, review: Review) -> Result<Code, Failure> {
    let RequestArgs { ledger, request } = args;
    let (code, answer) = execute_and_note(ledger, ReviewRequest { review, ..request.clone() })?;
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
