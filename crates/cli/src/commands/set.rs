//! `ledger set`: sets a variable of a run.

use clap::Args;

use crate::options::{WorkerLedgerArgs, read_json_value};
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
    /// The variable's name, after the run's name if several runs are active
    name: String,
    /// Its value: JSON, or else text; @FILE for a file's content, - for standard input
    #[arg(allow_hyphen_values = true)]
    value: String,
    /// The value, if the first of three words is the run's name
    #[arg(allow_hyphen_values = true, hide = true)]
    value_after_run: Option<String>,
    #[command(flatten)]
    request: SetRequest,
}

pub(crate) fn set(args: &SetArgs) -> Result<Code, Failure> {
    let mut request = args.request.clone();
    let (name, value) = match &args.value_after_run {
        None => (&args.name, &args.value),
        Some(value) => {
            request.run = args.name.clone().into();
            (&args.value, value)
        }
    };
    if name.starts_with(OWN_NAMES) {
        let message = format!(
            "the variable {name} is set by the program itself\nhint: choose a name that does not begin with `{OWN_NAMES}`"
        );
        return Err(Failure::Usage(message));
    }
    (request.name, request.value) = (name.clone(), read_json_value(value)?);
    args.ledger.execute_for_worker(request)
}
