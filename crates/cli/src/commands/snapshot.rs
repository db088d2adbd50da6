//! `ledger snapshot`: writes a snapshot of the current state.

use clap::Args;

use crate::options::{LedgerFolder, environment};
use crate::output::{Code, Failure, print_answer};
use crate::requests::SnapshotRequest;
use crate::server::Client;

const EXAMPLES: &str = "\
Examples:
  ledger snapshot                                  of .ledger, or of $LEDGER_DIR
  ledger snapshot work.ledger --json | jq -r .file

The program also writes snapshots automatically. Write one yourself before you prune a ledger, or to
make it open faster.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SnapshotArgs {
    #[command(flatten)]
    folder: LedgerFolder,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn snapshot(args: &SnapshotArgs) -> Result<Code, Failure> {
    let answer =
        Client::new(&args.folder.dir()?, &environment()).call(&SnapshotRequest {}.into())?;
    print_answer(args.json, &answer)
}
