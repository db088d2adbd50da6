//! `ledger unpause`: unpauses a run.

use clap::Args;

use crate::options::{ByOption, LedgerArgs, RunArg};
use crate::output::{Code, Failure};
use crate::requests::UnpauseRequest;

use super::inspect::run_name;

const EXAMPLES: &str = "\
Examples:
  ledger pause my-plan --by ana --reason 'the network is down'
  ledger unpause my-plan --by ana";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UnpauseArgs {
    #[command(flatten)]
    ledger: LedgerArgs,
    #[command(flatten)]
    run: RunArg,
    #[command(flatten)]
    author: ByOption,
}

pub(crate) fn unpause(args: &UnpauseArgs) -> Result<Code, Failure> {
    let run = run_name(&args.ledger, args.run.name())?;
    args.ledger.execute(UnpauseRequest { run, by: args.author.by.clone() })
}
