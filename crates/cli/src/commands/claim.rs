//! `ledger claim`: dispatches a step to a worker.

use clap::Args;

use crate::options::{
    LeaseOption, RouteArgs, RunArg, WaitLimit, WorkerLedgerArgs, WorkerOption, claim_with_wait,
    environment, parse_wait_limit,
};
use crate::output::{Code, Failure};
use crate::protocol::{named_process, this_machine};
use crate::requests::{BoundTo, ClaimRequest};

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
    run: RunArg,
    /// Claim only this step, by id or number (#37)
    #[arg(long, value_name = "STEP", conflicts_with = "tag")]
    step: Option<String>,
    #[command(flatten)]
    worker: WorkerOption,
    #[command(flatten)]
    route: RouteArgs,
    #[command(flatten)]
    lease: LeaseOption,
    /// Wait until a step is ready, at most this long: `90s`, `5m`, or seconds
    #[arg(long, value_name = "DURATION", num_args = 0..=1, default_missing_value = "forever")]
    #[arg(value_parser = parse_wait_limit)]
    wait: Option<WaitLimit>,
    /// The process that does the step (`$$` in a shell): when it is gone, another worker gets the step
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
}

pub(crate) fn claim(args: &ClaimArgs) -> Result<Code, Failure> {
    let (run, step) = (args.run.name().map(str::to_owned), args.step.clone());
    let (worker, lease_seconds) = (args.worker.worker.clone(), args.lease.lease);
    let (owners, tags) = args.route.lists();
    let new = ClaimRequest::new(environment().new_secret());
    let named = ClaimRequest { run, step, worker, lease_seconds, ..new };
    args.ledger.expect_folder_for_pid(args.pid)?;
    args.route.expect_permitted(args.ledger.dir())?;
    let bound_to = bound_to(args.pid)?;
    let request = ClaimRequest { owners, tags, bound_to, ..named }.into();
    let mut client = args.ledger.client()?;
    let answer = claim_with_wait(&args.ledger, &mut client, &request, args.wait)?;
    args.ledger.print(&answer)
}

/// The process that a claim of this command is bound to: the named one, never this process, which
/// ends at once.
pub(super) fn bound_to(pid: Option<u32>) -> Result<BoundTo, Failure> {
    if plan_ledger::mutant!(ClaimBoundToCommand) {
        return Ok(BoundTo::Peer);
    }
    let Some(pid) = pid else { return Ok(BoundTo::Lease) };
    if this_machine().is_none() {
        let message = "no processes are shown here, so the end of --pid would not be noticed\nhint: leave it \
                       out; the step is free again when its lease expires";
        return Err(Failure::Usage(message.to_owned()));
    }
    let gone = || Failure::Usage(format!("--pid {pid}: there is no such process"));
    named_process(pid).map(BoundTo::Process).ok_or_else(gone)
}
