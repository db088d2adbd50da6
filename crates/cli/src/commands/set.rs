//! `ledger set`: sets a variable of a run.

use clap::Args;

use crate::options::{ByOption, RunOption, WorkerLedgerArgs, read_json_value};
use crate::output::{Code, Failure};
use crate::requests::SetRequest;

const EXAMPLES: &str = "\
Examples:
  ledger set region '\"eu\"' --run my-plan
  ledger set count 12 --if-version 3               only if unchanged since: else exit code 6
  ledger set flag true --if-version 0              only if it is not set
  ledger get count --json";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SetArgs {
    #[command(flatten)]
    ledger: WorkerLedgerArgs,
    #[command(flatten)]
    run: RunOption,
    /// The variable's name
    name: String,
    /// Its value: JSON, or else text; @FILE for a file's content, - for standard input
    #[arg(allow_hyphen_values = true)]
    value: String,
    /// Only if the variable has this version; 0 if it is not set
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,
    #[command(flatten)]
    author: ByOption,
}

pub(crate) fn set(args: &SetArgs) -> Result<Code, Failure> {
    args.ledger.execute_for_worker(SetRequest {
        run: args.run.run.clone(),
        name: args.name.clone(),
        value: read_json_value(&args.value)?,
        if_version: args.if_version,
        by: args.author.by.clone(),
    })
}
