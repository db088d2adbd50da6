//! `ledger release`: releases an attempt.

use clap::Args;

use plan_ledger::plan::Token;

use crate::options::{Author, WorkerLedgerArgs, parse_name, parse_token};
use crate::output::{Code, Failure};
use crate::requests::{ReleaseRequest, ReleaseStepRequest, Work};

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
    #[arg(value_parser = parse_token, required_unless_present = "step")]
    token: Option<Token>,
    /// The step whose worker is gone, by id or number (#37)
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
    /// The run of that step [default: the only active run]
    #[arg(long, value_name = "RUN", requires = "step", value_parser = parse_name)]
    run: Option<String>,
    #[command(flatten)]
    author: Author,
    /// The work has begun and may have had side effects
    #[arg(long)]
    begun: bool,
    /// The reason
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

pub(crate) fn release(args: &ReleaseArgs) -> Result<Code, Failure> {
    let reason = args.reason.clone();
    let token = match (&args.step, args.token) {
        (Some(step), _) => {
            let (run, step, by) = (args.run.clone(), step.clone(), args.author.clone());
            let is_of_agent = false;
            let request = ReleaseStepRequest { run, step, by, reason, is_of_agent };
            return args.ledger.execute(request);
        }
        (None, Some(token)) => token,
        // The command line has one of them.
        (None, None) => return Err(Failure::Usage("expected a token or --step".to_owned())),
    };
    let work = if args.begun { Work::Begun } else { Work::NotBegun };
    args.ledger.execute(ReleaseRequest { token, work, reason })
}
