//! `ledger decide`: the decision of an external decider about a failed step.

use clap::Args;

use crate::options::{Author, LedgerArgs, RunOption, parse_seconds};
use crate::output::{Code, Failure};
use crate::requests::DecideRequest;

const EXAMPLES: &str = "\
Examples:
  ledger decide my-plan build retry --reason 'policy 7: the network was down'
  ledger decide my-plan build retry --after 60
  ledger decide build fallback                    the only run that is active

For plans that leave failures to an external decider (`failure.decider: external`). Decisions:
retry, fail, fallback, replan, escalate, abort, outcome_unknown.";

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
    run: RunOption,
    /// The delay before the retry: `90s`, `5m`, or seconds
    #[arg(long, value_name = "DURATION", value_parser = parse_seconds)]
    after: Option<u64>,
    /// For a replan: the first step to do again, by id or number [default: the failed one]
    #[arg(long, value_name = "STEP")]
    from: Option<String>,
    /// The reason, for people
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    #[command(flatten)]
    author: Author,
}

pub(crate) fn decide(args: &DecideArgs) -> Result<Code, Failure> {
    let (run, step, decision) = match args.words.as_slice() {
        [run, step, decision] => (Some(run.as_str()), step, decision),
        [step, decision] => (args.run.name(), step, decision),
        _ => return Err(Failure::Usage("expected a step and a decision".to_owned())),
    };
    args.ledger.execute(DecideRequest {
        run: run.map(str::to_owned).into(),
        step: step.clone(),
        decision: decision.clone(),
        after_seconds: args.after,
        from: args.from.clone(),
        rule: "decider".to_owned(),
        reason: args.reason.clone(),
        by: args.author.clone(),
    })
}
