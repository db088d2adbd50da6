//! `ledger tick`: records everything that is due.

use clap::Args;

use crate::options::LedgerArgs;
use crate::output::{Code, Failure};
use crate::requests::TickRequest;

const EXAMPLES: &str = "\
Examples:
  ledger tick                                      record expired leases, delays and deadlines
  ledger tick --json | jq .next_due_micros";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TickArgs {
    #[command(flatten)]
    ledger: LedgerArgs,
}

pub(crate) fn tick(args: &TickArgs) -> Result<Code, Failure> {
    args.ledger.execute(TickRequest {})
}
