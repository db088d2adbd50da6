//! `ledger pause`: stops dispatching the steps of a run.

use clap::Args;

use crate::options::AuthorArgs;
use crate::output::{Code, Failure};
use crate::requests::PauseRequest;

use super::inspect::run_name;

const EXAMPLES: &str = "\
Examples:
  ledger pause my-plan --by ana --reason 'the network is down'
  ledger unpause my-plan --by ana

Attempts in flight continue.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    author: AuthorArgs,
}

pub(crate) fn pause(args: &PauseArgs) -> Result<Code, Failure> {
    let AuthorArgs { ledger, run, author, reason } = &args.author;
    let (run, by, reason) = (run_name(ledger, run.name())?, author.by.clone(), reason.clone());
    ledger.execute(PauseRequest { run, by, reason, by_runner: false })
}
