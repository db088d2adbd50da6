//! `ledger note`: attaches a note to a ledger, a run or a step.

use clap::Args;

use crate::options::{ByOption, RunOption, WorkerLedgerArgs};
use crate::output::{Code, Failure};
use crate::requests::NoteRequest;

const EXAMPLES: &str = "\
Examples:
  ledger note 'the network was down from 3 to 4' --by ana
  ledger note 'took the small model' --step build  in a worker: $LEDGER_RUN, $LEDGER_STEP

A note is a separate record and changes nothing: `ledger inspect DIR records --kind note`.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct NoteArgs {
    #[command(flatten)]
    ledger: WorkerLedgerArgs,
    #[command(flatten)]
    run: RunOption,
    /// The step that it is about, by id or number (#37)
    #[arg(long, value_name = "STEP", env = "LEDGER_STEP", hide_env_values = true)]
    step: Option<String>,
    /// The text of the note
    text: String,
    #[command(flatten)]
    author: ByOption,
}

pub(crate) fn note(args: &NoteArgs) -> Result<Code, Failure> {
    let (run, step) = (args.run.run.clone(), args.step.clone());
    args.ledger.execute_for_worker(NoteRequest {
        run,
        step,
        text: args.text.clone(),
        by: args.author.by.clone(),
    })
}
