//! `ledger plan approve` and `ledger plan reject`: the review of a plan version.

use clap::Args;

use plan_ledger::plan::Review;

use crate::commands::inspect::run_name;
use crate::options::{ByOption, LedgerArgs, RunArg};
use crate::output::{Code, Failure};
use crate::requests::ReviewRequest;

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
    author: ByOption,
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
    let (run, by, note, shown) =
        (run_name(ledger, run.name())?, author.by.clone(), note.clone(), shown.clone());
    execute_and_note(ledger, ReviewRequest { run, review, by, note, shown })
}
