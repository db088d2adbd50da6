//! `ledger decide`: the decision of an external decider about a failed step.

use clap::Args;

use crate::options::{LedgerArgs, parse_seconds};
use crate::output::{Code, Failure};
use crate::requests::DecideRequest;

const EXAMPLES: &str = "\
Examples:
  ledger decide my-plan build retry --rule policy-7 --reason 'the network was down'
  ledger decide my-plan build retry --after 60 --rule backoff
  ledger decide my-plan build fallback --rule second-try

For plans that leave failures to an external decider (`failure.decider: external`). Decisions:
retry, fail, fallback, replan, escalate, abort, outcome_unknown.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DecideArgs {
    #[command(flatten)]
    ledger: LedgerArgs,
    /// The run's name
    run: String,
    /// The step's id or number (#37)
    step: String,
    /// The decision about the failure
    decision: String,
    /// The delay before the retry: `90s`, `5m`, or seconds
    #[arg(long, value_name = "DURATION", value_parser = parse_seconds)]
    after: Option<u64>,
    /// The rule that decided, for the record
    #[arg(long, value_name = "NAME", default_value = "decider")]
    rule: String,
    /// The reason, for people
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

pub(crate) fn decide(args: &DecideArgs) -> Result<Code, Failure> {
    args.ledger.execute(DecideRequest {
        run: args.run.clone(),
        step: args.step.clone(),
        decision: args.decision.clone(),
        after_seconds: args.after,
        rule: args.rule.clone(),
        reason: args.reason.clone(),
    })
}
