//! `ledger release`: releases an attempt.

use clap::Args;

use plan_ledger::plan::Token;

use crate::options::{WorkerLedgerArgs, without_environment};
use crate::output::{Code, Failure};
use crate::requests::{ReleaseRequest, ReleaseStepRequest};

const EXAMPLES: &str = "\
Examples:
  ledger release $TOKEN --reason 'no tool for this step'
  ledger release $TOKEN --begun --reason 'out of memory'
  ledger release --reason 'shutting down'          in a worker: $LEDGER_TOKEN
  ledger release --step deploy --by ana            if its worker is gone: without its token

Without --begun the step can be dispatched again at once. With --begun the attempt is lost: if the
step must not be done twice, a person must find out whether it did its work. --step always means that it has begun.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("run", |run| without_environment(run).requires("step")))]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    ledger: WorkerLedgerArgs,
    /// The attempt's token, as `claim` printed it
    #[arg(value_name = "TOKEN", env = "LEDGER_TOKEN", hide_env_values = true)]
    #[arg(required_unless_present = "step")]
    token: Option<Token>,
    /// The step whose worker is gone, by id or number (#37)
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
    #[command(flatten)]
    of_step: ReleaseStepRequest,
    #[command(flatten)]
    request: ReleaseRequest,
}

pub(crate) fn release(args: &ReleaseArgs) -> Result<Code, Failure> {
    let request = args.request.clone();
    match (&args.step, args.token) {
        (Some(step), _) => {
            let (step, reason) = (step.clone(), request.reason);
            args.ledger.execute(ReleaseStepRequest { step, reason, ..args.of_step.clone() })
        }
        (None, Some(token)) => args.ledger.execute(ReleaseRequest { token, ..request }),
        // The command line has one of them.
        (None, None) => Err(Failure::Usage("expected a token or --step".to_owned())),
    }
}
