//! `ledger retry`: retries failed steps.

use clap::Args;

use crate::options::{ByOption, LedgerArgs};
use crate::output::{Code, Failure};
use crate::requests::RetryRequest;

use super::read_state::run_name;

const EXAMPLES: &str = "\
Examples:
  ledger retry my-plan build --by ana              one step that failed
  ledger retry my-plan --by ana                    all steps that failed

A run that failed because of them continues.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RetryArgs {
    #[command(flatten)]
    ledger: LedgerArgs,
    /// The run's name [default: the only run that is active]
    run: Option<String>,
    /// The step's id or number (#37) [default: all failed steps]
    step: Option<String>,
    #[command(flatten)]
    author: ByOption,
}

pub(crate) fn retry(args: &RetryArgs) -> Result<Code, Failure> {
    let (run, step, by) =
        (run_name(&args.ledger, args.run.as_deref())?, args.step.clone(), args.author.by.clone());
    args.ledger.execute(RetryRequest { run, step, by })
}
