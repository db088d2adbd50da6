//! `ledger retry`: retries failed steps.

use clap::Args;

use crate::options::LedgerArgs;
use crate::output::{Code, Failure};
use crate::requests::RetryRequest;

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
    /// The run's name
    run: String,
    /// The step's id or number (#37) [default: all failed steps]
    step: Option<String>,
    /// Your name, for the record
    #[arg(long, value_name = "WHO", default_value = "operator")]
    by: String,
}

pub(crate) fn retry(args: &RetryArgs) -> Result<Code, Failure> {
    let (run, step, by) = (args.run.clone(), args.step.clone(), args.by.clone());
    args.ledger.execute(RetryRequest { run, step, by })
}
