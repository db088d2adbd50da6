//! `ledger release`: releases an attempt.

use clap::Args;

use plan_ledger::plan::Token;

use crate::options::{Author, WorkerLedgerArgs, parse_name};
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
    /// The run of that step [default: the only active run]
    #[arg(long, value_name = "RUN", requires = "step", value_parser = parse_name)]
    run: Option<String>,
    #[command(flatten)]
    author: Author,
    #[command(flatten)]
    request: ReleaseRequest,
}

pub(crate) fn release(args: &ReleaseArgs) -> Result<Code, Failure> {
    let request = args.request.clone();
    match (&args.step, args.token) {
        (Some(step), _) => args.ledger.execute(ReleaseStepRequest {
            run: args.run.clone(),
            step: step.clone(),
            by: args.author.clone(),
            reason: request.reason,
            is_of_agent: false,
        }),
        (None, Some(token)) => args.ledger.execute(ReleaseRequest { token, ..request }),
        // The command line has one of them.
        (None, None) => Err(Failure::Usage("expected a token or --step".to_owned())),
    }
}
