//! `ledger claim`: dispatches a step to a worker.

use clap::Args;

use crate::options::{
    WaitLimit, WorkerLedgerArgs, WorkerOption, claim_with_wait, environment,
    expect_owners_permitted, parse_wait_limit,
};
use crate::output::{Code, Failure};
use crate::requests::ClaimRequest;

/// The examples, with that of servers on other machines where the program can ask them.
macro_rules! examples {
    ($example:literal) => {
        concat!(
            "\
Examples:
  ledger claim --worker me --json                  the next step of the only run, as its hand-off
  ledger claim my-plan --wait                      wait until a step is ready
  ledger claim my-plan --step deploy --wait 60     that step; wait up to a minute
  ledger claim --owner reviewer                    the next step of that owner, or of no owner
  ledger claim --step sign --owner human --worker ana   a person does it
  ledger claim --lease 2h                          the lease lasts two hours without a renewal
  ledger claim --pid $$                            the step is free again when this shell is gone
",
            $example,
            "
Exit code 1: there is no more work. 3: no step is ready now, or this step is not ready yet.
6: the step is claimed (the message names the worker and the expiry of its lease), or it is
already accepted, skipped or failed."
        )
    };
}

#[cfg(not(feature = "store"))]
const EXAMPLES: &str = examples!("");

#[cfg(feature = "store")]
const EXAMPLES: &str = examples!(
    "  ledger claim --server https://a.example.org:8443,https://b.example.org:8443
"
);

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ClaimArgs {
    #[command(flatten)]
    ledger: WorkerLedgerArgs,
    #[command(flatten)]
    worker: WorkerOption,
    /// Wait until a step is ready, at most this long: `90s`, `5m`, or seconds
    #[arg(long, value_name = "DURATION", num_args = 0..=1, default_missing_value = "forever")]
    #[arg(value_parser = parse_wait_limit)]
    wait: Option<WaitLimit>,
    #[command(flatten)]
    request: ClaimRequest,
}

pub(crate) fn claim(args: &ClaimArgs) -> Result<Code, Failure> {
    let (worker, secret) = (args.worker.worker.clone(), environment().new_secret());
    let request = ClaimRequest { worker, secret, ..args.request.clone() };
    args.ledger.expect_folder_for_pid(&request.bound_to)?;
    expect_owners_permitted(&request.owners, args.ledger.dir())?;
    let mut client = args.ledger.client()?;
    let answer = claim_with_wait(&args.ledger, &mut client, &request.into(), args.wait)?;
    args.ledger.print(&answer)
}
