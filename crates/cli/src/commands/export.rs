//! `ledger export`: a ledger as JSON Lines.

use std::path::PathBuf;

use clap::Args;

use plan_ledger::{Environment, LedgerView};

use crate::options::LedgerFolder;
use crate::output::{Code, ExportRange, Failure, output_file, write_export};

use super::inspect::meaning;
use super::store::source::environment_for;

const EXAMPLES: &str = "\
Examples:
  ledger export .ledger -o backup.jsonl            all of it, blobs included
  ledger export .ledger | jq -c 'select(.type == \"record\") | .event'
  ledger export .ledger --from 100 --to 200        a part, which cannot be imported

It takes no lock, writes nothing to the ledger, and may be used while a run is active. The lines are
described in format/export.md; `ledger import` creates a ledger from them. This is how to back up a
ledger that is in use: a copy of its files may be rejected for writing. With -o, the file appears
under its name only when it is complete; Ctrl-C leaves nothing behind (exit code 3).";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    folder: LedgerFolder,
    /// The first record [default: the first one in the ledger]
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    from: Option<u64>,
    /// The last record [default: the last durable one]
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    to: Option<u64>,
    /// Write to this file, which must not exist, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn export(args: &ExportArgs) -> Result<Code, Failure> {
    let dir = args.folder.dir()?;
    let environment = environment_for(&dir, &Environment::system())?;
    let open = || LedgerView::open(&dir, &environment);
    let range = ExportRange { from: args.from, to: args.to };
    write_export(&open, range, output_file(args.output.as_ref()), &meaning)
}
