//! `ledger claim`: dispatches a step to a worker.

use std::path::Path;

use clap::Args;
use serde_json::Value;

use crate::options::{
    LeaseOption, RouteArgs, RunArg, WaitLimit, WorkerLedgerArgs, WorkerOption, claim_with_wait,
    environment, parse_wait_limit,
};
use crate::output::{Code, Failure, print_message};
use crate::protocol::Answer;
use crate::requests::ClaimRequest;
use crate::runner::keep_claim_of;

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
    let request = ClaimRequest { owners, tags, ..named }.into();
    args.ledger.expect_folder_for_pid(args.pid)?;
    let mut client = args.ledger.client()?;
    let answer = claim_with_wait(&args.ledger, &mut client, &request, args.wait)?;
    watch_process(args.ledger.dir(), &answer, args.pid);
    args.ledger.print(&answer)
}

/// The task in an answer, which may follow a receipt.
fn task_of(answer: &Answer) -> Option<&Value> {
    answer.lines.iter().find(|line| line.get("type").is_some_and(|word| word == "task"))
}

/// Keeps a record of the process that does the claimed step, if there are both.
pub(super) fn watch_process(dir: &Path, answer: &Answer, process: Option<u32>) {
    if let (Some(process), Some(task)) = (process, task_of(answer))
        && let Err(error) = keep_claim_of(dir, task, process)
    {
        print_message(&format!(
            "the end of process {process} will not be noticed before the lease expires: {error}"
        ));
    }
}
