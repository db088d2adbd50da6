//! `ledger accept` and `ledger reject`: verdicts of a person on text criteria.

use clap::Args;

use plan_ledger::Ruling;

use crate::options::{ByOption, LedgerArgs, StepArg};
use crate::output::{Code, Failure};
use crate::requests::JudgeRequest;

use super::inspect::run_name;

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
    author: ByOption,
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
        run: run_name(&args.ledger, args.step.run())?,
        step: args.step.step().to_owned(),
        ruling,
        by: args.author.by.clone(),
        evidence: args.evidence.clone(),
    })
}
