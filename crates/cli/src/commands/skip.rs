//! `ledger skip`: marks a step as not needed.

use clap::Args;

use crate::options::{ByOption, LedgerArgs, StepArg};
use crate::output::{Code, Failure};
use crate::requests::SkipRequest;

use super::inspect::run_name;

const EXAMPLES: &str = "\
Examples:
  ledger skip my-plan docs --reason 'already written'

Steps that depend on it continue as if it were done. A step in flight cannot be skipped.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SkipArgs {
    #[command(flatten)]
    ledger: LedgerArgs,
    #[command(flatten)]
    step: StepArg,
    /// The reason
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    author: ByOption,
}

pub(crate) fn skip(args: &SkipArgs) -> Result<Code, Failure> {
    let (run, step) = (run_name(&args.ledger, args.step.run())?, args.step.step().to_owned());
    args.ledger.execute(SkipRequest {
        run,
        step,
        by: args.author.by.clone(),
        reason: args.reason.clone(),
    })
}
