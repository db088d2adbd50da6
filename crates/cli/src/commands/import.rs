//! `ledger import`: creates a ledger from an export.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use clap::Args;

use plan_ledger::internals::ledger;
use plan_ledger::{Error, ErrorKind};

use crate::options::{create_parents, environment};
use crate::output::{Code, Failure, print_message, print_text};
use crate::protocol::counted;

const EXAMPLES: &str = "\
Examples:
  ledger import backup.jsonl --ledger restored
  ssh host ledger export .ledger | ledger import - --ledger copy

The new ledger has its own identifier and the same chain value at every record. Every record is
checked against the chain; an export that was changed or truncated leaves nothing behind. (Only the
member `event` of a record, its text for readers, is not read.) The export of a pruned ledger has the
state before its first record, and is imported with it.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ImportArgs {
    /// The output of `ledger export`; `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The new ledger's folder, which must not exist or be empty
    #[arg(long, value_name = "NEW")]
    ledger: PathBuf,
}

pub(crate) fn import(args: &ImportArgs) -> Result<Code, Failure> {
    let environment = environment();
    create_parents(&args.ledger)?;
    let imported = if args.file == Path::new("-") {
        ledger::import(&args.ledger, &mut io::stdin().lock(), &environment)
    } else {
        let file = File::open(&args.file)
            .map_err(|error| Failure::of_input(Error::io("read", &args.file, error)))?;
        ledger::import(&args.ledger, &mut BufReader::new(file), &environment)
    };
    // An invalid line is the fault of the file: no ledger is damaged.
    let imported = imported.map_err(|error| match error.kind() {
        ErrorKind::Corrupt => Failure::of_input(error),
        _ => error.into(),
    })?;
    if imported.blobs_missing > 0 {
        let missing = counted(imported.blobs_missing, "blob");
        print_message(&format!("{missing} missing: the exported ledger did not have them"));
    }
    print_text(&format!(
        "{}: {} records and {} blobs, head {}:{}\n",
        args.ledger.display(),
        imported.records,
        imported.blobs,
        imported.ack.seq,
        imported.ack.chain
    ))?;
    Ok(Code::Success)
}
