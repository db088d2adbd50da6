//! `ledger accept` and `ledger reject`: verdicts of a person on text criteria.

use clap::Args;

use plan_ledger::Ruling;

use crate::options::{Author, LedgerArgs, StepArg};
use crate::output::{Code, Failure};
use crate::requests::JudgeRequest;

const EXAMPLES: &str = "\
Examples:
  ledger accept my-plan build --by ana --evidence 'read the diff'
  ledger accept my-plan '#37' --by ana             a step by its number
  ledger reject my-plan plan --by ana              the plan's own criteria";

/// `ledger accept` and `ledger reject`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct JudgeArgs {
    #[command(flatten)]
    ledger: LedgerArgs,
    #[command(flatten)]
    step: StepArg,
    #[command(flatten)]
    author: Author,
    /// The grounds for the verdict
    #[arg(long, value_name = "TEXT", default_value = "")]
    evidence: String,
}

pub(crate) fn accept(args: &JudgeArgs) -> Result<Code, Failure> {
    judge(args, Ruling::Pass)
}

pub(crate) fn reject(args: &JudgeArgs) -> Result<Code, Failure> {
    judge(args, Ruling::Fail)
}

fn judge(args: &JudgeArgs, ruling: Ruling) -> Result<Code, Failure> {
    args.ledger.execute(JudgeRequest {
        run: args.step.run().map(str::to_owned).into(),
        step: args.step.step().to_owned(),
        ruling,
        by: args.author.clone(),
        evidence: args.evidence.clone(),
    })
}
