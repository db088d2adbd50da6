//! `ledger import`: a new ledger out of an export.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use clap::Args;

use plan_ledger::error::Error;
use plan_ledger::ledger::{Environment, import};

use super::exit::{Code, Failure};
use super::{answer_with, say};

const EXAMPLES: &str = "\
Examples:
  ledger import backup.jsonl --ledger restored
  ssh host ledger export .ledger | ledger import - --ledger copy

The new ledger has an identifier of its own and the same chain at every record. Every record is
checked against the chain; an export that was changed, or cut short, leaves nothing behind.";

/// `ledger import`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ImportArgs {
    /// What `ledger export` wrote; `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The new ledger's folder, which is not there yet
    #[arg(long, value_name = "NEW")]
    ledger: PathBuf,
}

pub(super) fn import_ledger(args: &ImportArgs) -> Result<Code, Failure> {
    let environment = Environment::system();
    let imported = if args.file == Path::new("-") {
        import(&args.ledger, &mut io::stdin().lock(), &environment)?
    } else {
        let file = File::open(&args.file)
            .map_err(|error| Failure::Usage(Error::io("read", &args.file, error).to_string()))?;
        import(&args.ledger, &mut BufReader::new(file), &environment)?
    };
    if imported.blobs_missing > 0 {
        say(&format!("{} blobs were missing when it was exported", imported.blobs_missing));
    }
    answer_with(&format!(
        "{}: {} records and {} blobs, head {}:{}\n",
        args.ledger.display(),
        imported.ack.seq,
        imported.blobs,
        imported.ack.seq,
        imported.ack.chain
    ))?;
    Ok(Code::Fine)
}
