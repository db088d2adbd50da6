//! `ledger plan withdraw`: withdraws a request for a new plan version or for more steps.

use clap::Args;

use crate::commands::inspect::run_name;
use crate::options::AuthorArgs;
use crate::output::{Code, Failure};
use crate::requests::WithdrawRequest;

const EXAMPLES: &str = "\
Examples:
  ledger plan withdraw my-plan --by ana --reason 'it works after all'
  ledger plan withdraw my-plan --by planner --reason 'no more steps'";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PlanWithdrawArgs {
    #[command(flatten)]
    author: AuthorArgs,
}

pub(crate) fn withdraw(args: &PlanWithdrawArgs) -> Result<Code, Failure> {
    let AuthorArgs { ledger, run, author, reason } = &args.author;
    let (run, by, reason) = (run_name(ledger, run.name())?, author.by.clone(), reason.clone());
    ledger.execute(WithdrawRequest { run, by, reason })
}
