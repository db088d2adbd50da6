//! `ledger renew`: renews the lease of an attempt.

use clap::Args;

use crate::options::{LeaseOption, TokenArg, WorkerLedgerArgs};
use crate::output::{Code, Failure};
use crate::requests::RenewRequest;

const EXAMPLES: &str = "\
Examples:
  ledger renew $TOKEN                              the lease starts again
  ledger renew $TOKEN --lease 2h                   with another length
  ledger renew                                     in a worker: $LEDGER_TOKEN

Renew when half of the lease is over. When a lease expires, the step is dispatched again.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RenewArgs {
    #[command(flatten)]
    ledger: WorkerLedgerArgs,
    #[command(flatten)]
    token: TokenArg,
    #[command(flatten)]
    lease: LeaseOption,
}

pub(crate) fn renew(args: &RenewArgs) -> Result<Code, Failure> {
    args.ledger.execute_for_worker(RenewRequest {
        token: args.token.token,
        lease_seconds: args.lease.lease,
    })
}
