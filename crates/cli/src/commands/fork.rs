//! `ledger fork`: starts a run from an earlier state of another one.

use clap::{ArgGroup, Args};

use crate::options::{ByOption, LedgerArgs, RunArg};
use crate::output::{Code, Failure};
use crate::requests::ForkRequest;

use super::inspect::run_name;

const EXAMPLES: &str = "\
Examples:
  ledger fork my-plan --at 120 --name what-if             as it was after record 120
  ledger fork my-plan --step deploy --name again          before that step was first dispatched

The new run has the same plan versions, finished work and variables. Steps that were in flight start
again, and the costs of the other run do not count against its budget. Your files stay as they are: a
fork does not rewind them. Continue it with `ledger run PLAN --run NEW`.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(group = ArgGroup::new("place").args(["at", "step"]).required(true))]
pub(crate) struct ForkArgs {
    #[command(flatten)]
    ledger: LedgerArgs,
    #[command(flatten)]
    run: RunArg,
    /// The last record of the run to keep
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    at: Option<u64>,
    /// Fork before the first dispatch of this step, by id or number (#37)
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
    /// The new run's name
    #[arg(long, value_name = "NEW")]
    name: String,
    #[command(flatten)]
    author: ByOption,
}

pub(crate) fn fork(args: &ForkArgs) -> Result<Code, Failure> {
    let (run, name, step) =
        (run_name(&args.ledger, args.run.name())?, args.name.clone(), args.step.clone());
    args.ledger.execute(ForkRequest {
        run,
        name,
        at: args.at,
        step,
        by: args.author.by.clone(),
        is_of_agent: false,
    })
}
