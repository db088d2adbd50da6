//! `ledger cancel`: ends a run.

use clap::Args;

use std::path::Path;

use plan_ledger::LedgerView;

use crate::options::{AuthorArgs, environment};
use crate::output::{Code, Failure, print_message};
use crate::requests::{CancelRequest, run_of};
use crate::runner::end_workers;

use super::inspect::{read_state, run_name};
use crate::server::RunnerStatus;

const EXAMPLES: &str = "\
Examples:
  ledger cancel my-plan --by ana --reason 'no longer needed'

Attempts in flight are cancelled, and their receipts are rejected. Their workers are ended: by the
runner that is at work, else by this command, if they are on this machine. A cancelled run cannot be
continued: fork it, or start another one.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    author: AuthorArgs,
}

pub(crate) fn cancel(args: &CancelArgs) -> Result<Code, Failure> {
    let AuthorArgs { ledger, run, author, reason } = &args.author;
    let (run, by, reason) = (run_name(ledger, run.name())?, author.by.clone(), reason.clone());
    let code = ledger.execute(CancelRequest { run: run.clone(), by, reason })?;
    if code == Code::Success {
        end_left_workers(ledger.dir(), &run)?;
    }
    Ok(code)
}

/// Ends the workers that the last runner of a cancelled run left at work. A runner that is at work does so itself.
fn end_left_workers(dir: &Path, run: &str) -> Result<(), Failure> {
    let view = LedgerView::open(dir, &environment())?;
    if !RunnerStatus::of(dir, view.log()).is_absent() {
        return Ok(());
    }
    let run = read_state(dir, |state| Ok(run_of(state, run)?.id))?;
    let Ok(folder) = dir.canonicalize() else { return Ok(()) };
    if let Some(note) = end_workers(&folder, run) {
        print_message(&format!("the last runner {note}"));
    }
    Ok(())
}
