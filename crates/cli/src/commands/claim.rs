//! `ledger claim`: dispatches a step to a worker.

use clap::Args;

use crate::options::{
    LeaseOption, LedgerArgs, RunArg, WaitLimit, WorkerOption, claim_with_wait, parse_wait_limit,
};
use crate::output::{Code, Failure};
use crate::requests::ClaimRequest;

const EXAMPLES: &str = "\
Examples:
  ledger claim --worker me --json                  the next step of the only run, as its hand-off
  ledger claim my-plan --wait                      wait until a step is ready
  ledger claim my-plan --step deploy --wait 60     that step; wait up to a minute
  ledger claim --lease 2h                          the lease lasts two hours without a renewal

Exit code 1: there is no more work. 3: no step is ready now, or this step is not ready yet.
6: the step is claimed (the message names the worker and the expiry of its lease), or it is
already accepted, skipped or failed.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ClaimArgs {
    #[command(flatten)]
    ledger: LedgerArgs,
    #[command(flatten)]
    run: RunArg,
    /// Claim only this step, by id or number (#37)
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
    #[command(flatten)]
    worker: WorkerOption,
    #[command(flatten)]
    lease: LeaseOption,
    /// Wait until a step is ready, at most this long: `90s`, `5m`, or seconds
    #[arg(long, value_name = "DURATION", num_args = 0..=1, default_missing_value = "forever")]
    #[arg(value_parser = parse_wait_limit)]
    wait: Option<WaitLimit>,
}

pub(crate) fn claim(args: &ClaimArgs) -> Result<Code, Failure> {
    let (run, step) = (args.run.name().map(str::to_owned), args.step.clone());
    let (worker, lease_seconds) = (args.worker.worker.clone(), args.lease.lease);
    let request = ClaimRequest { run, step, worker, lease_seconds }.into();
    let answer = claim_with_wait(&mut args.ledger.client(), &request, args.wait)?;
    args.ledger.print(&answer)
}
