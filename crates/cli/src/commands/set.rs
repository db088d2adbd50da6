//! `ledger set`: sets a variable of a run.

use clap::Args;

use crate::options::{Author, RunOption, WorkerLedgerArgs, read_json_value};
use crate::output::{Code, Failure};
use crate::requests::SetRequest;

const EXAMPLES: &str = "\
Examples:
  ledger set my-plan region '\"eu\"'                in this run
  ledger set count 12 --if-version 3               only if unchanged since: else exit code 6
  ledger set flag true --if-version 0              only if it is not set
  ledger get count --json";

/// How the names of the program's own variables begin.
const OWN_NAMES: &str = "ledger.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SetArgs {
    #[command(flatten)]
    ledger: WorkerLedgerArgs,
    #[command(flatten)]
    run: RunOption,
    /// The variable's name, after the run's name if several runs are active
    name: String,
    /// Its value: JSON, or else text; @FILE for a file's content, - for standard input
    #[arg(allow_hyphen_values = true)]
    value: String,
    /// The value, if the first of three words is the run's name
    #[arg(allow_hyphen_values = true, hide = true)]
    value_after_run: Option<String>,
    /// Only if the variable has this version; 0 if it is not set
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,
    #[command(flatten)]
    author: Author,
}

pub(crate) fn set(args: &SetArgs) -> Result<Code, Failure> {
    let (run, name, value) = match &args.value_after_run {
        None => (args.run.name().map(str::to_owned), &args.name, &args.value),
        Some(value) => (Some(args.name.clone()), &args.value, value),
    };
    if name.starts_with(OWN_NAMES) {
        let message = format!(
            "the variable {name} is set by the program itself\nhint: choose a name that does not begin with `{OWN_NAMES}`"
        );
        return Err(Failure::Usage(message));
    }
    args.ledger.execute_for_worker(SetRequest {
        run,
        name: name.clone(),
        value: read_json_value(value)?,
        if_version: args.if_version,
        by: args.author.clone(),
    })
}
