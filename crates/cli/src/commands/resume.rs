//! `ledger resume`: unpauses a run.

use clap::Args;

use crate::options::LedgerArgs;
use crate::output::{Code, Failure};
use crate::requests::ResumeRequest;

const EXAMPLES: &str = "\
Examples:
  ledger pause my-plan --by ana --reason 'the network is down'
  ledger resume my-plan --by ana";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    ledger: LedgerArgs,
    /// The run's name
    run: String,
    /// Your name, for the record
    #[arg(long, value_name = "WHO")]
    by: String,
}

pub(crate) fn resume(args: &ResumeArgs) -> Result<Code, Failure> {
    args.ledger.execute(ResumeRequest { run: args.run.clone(), by: args.by.clone() })
}
