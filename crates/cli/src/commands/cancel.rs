//! `ledger cancel`: ends a run.

use clap::Args;

use crate::options::AuthorArgs;
use crate::output::{Code, Failure};
use crate::requests::CancelRequest;

use super::read_state::run_name;

const EXAMPLES: &str = "\
Examples:
  ledger cancel my-plan --by ana --reason 'no longer needed'

Attempts in flight are cancelled, and their receipts are rejected. A cancelled run cannot be
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
    ledger.execute(CancelRequest { run, by, reason })
}
