//! `ledger decide`: the decision of an external decider about a failed step.

use clap::Args;

use crate::options::LedgerArgs;
use crate::output::{Code, Failure};
use crate::requests::DecideRequest;

const EXAMPLES: &str = "\
Examples:
  ledger decide my-plan build retry --reason 'policy 7: the network was down'
  ledger decide my-plan build retry --after 60
  ledger decide build fallback                    the only run that is active

For plans that leave failures to an external decider (`failure.decider: external`). Decisions:
retry, fail, fallback, replan, escalate, abort, outcome_unknown.";

// The command has the doc comment of the request.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DecideArgs {
    #[command(flatten)]
    ledger: LedgerArgs,
    /// The step's id or number (37 or #37), after the run's name if several runs are active; then the
    /// decision about the failure
    #[arg(required = true, num_args = 2..=3, value_name = "[RUN] STEP DECISION")]
    words: Vec<String>,
    #[command(flatten)]
    request: DecideRequest,
}

pub(crate) fn decide(args: &DecideArgs) -> Result<Code, Failure> {
    let mut request = args.request.clone();
    let (step, decision) = match args.words.as_slice() {
        [run, step, decision] => {
            request.run = run.clone().into();
            (step, decision)
        }
        [step, decision] => (step, decision),
        _ => return Err(Failure::Usage("expected a step and a decision".to_owned())),
    };
    (request.step, request.decision) = (step.clone(), decision.clone());
    args.ledger.execute(request)
}
