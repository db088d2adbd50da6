//! `ledger release`: releases an attempt.

use clap::Args;

use crate::options::{LedgerArgs, TokenArg};
use crate::output::{Code, Failure};
use crate::requests::{ReleaseRequest, Work};

const EXAMPLES: &str = "\
Examples:
  ledger release 412 --reason 'no tool for this step'
  ledger release 412 --begun --reason 'out of memory'
  ledger release --reason 'shutting down'          in a worker: $LEDGER_TOKEN

Without --begun the step can be dispatched again at once. With --begun the attempt is lost: if the
step must not be done twice, a person has to say what it did.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    ledger: LedgerArgs,
    #[command(flatten)]
    token: TokenArg,
    /// The work has begun and may have had side effects
    #[arg(long)]
    begun: bool,
    /// The reason
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

pub(crate) fn release(args: &ReleaseArgs) -> Result<Code, Failure> {
    let work = if args.begun { Work::Begun } else { Work::NotBegun };
    let (token, reason) = (args.token.token, args.reason.clone());
    args.ledger.execute(ReleaseRequest { token, work, reason })
}
