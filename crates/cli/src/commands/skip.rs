//! `ledger skip`: marks a step as not needed.

use clap::Args;

use crate::options::LedgerArgs;
use crate::output::{Code, Failure};
use crate::requests::SkipRequest;

const EXAMPLES: &str = "\
Examples:
  ledger skip my-plan docs --reason 'already written'

Steps that depend on it continue as if it were done. A step in flight cannot be skipped.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SkipArgs {
    #[command(flatten)]
    ledger: LedgerArgs,
    /// The run's name
    run: String,
    /// The step's id or number (#37)
    step: String,
    /// The reason
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Your name, for the record
    #[arg(long, value_name = "WHO", default_value = "operator")]
    by: String,
}

pub(crate) fn skip(args: &SkipArgs) -> Result<Code, Failure> {
    let (run, step) = (args.run.clone(), args.step.clone());
    args.ledger.execute(SkipRequest { run, step, by: args.by.clone(), reason: args.reason.clone() })
}
