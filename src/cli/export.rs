//! `ledger export`: a ledger as JSON Lines.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::error::Error;
use crate::ledger::{Environment, Exported, LedgerView};

use super::exit::{Code, Failure};
use super::inspect::meaning;
use super::say;

const EXAMPLES: &str = "\
Examples:
  ledger export .ledger -o backup.jsonl            all of it, blobs included
  ledger export .ledger | jq -c 'select(.type == \"record\") | .event'
  ledger export .ledger --from 100 --to 200        a part, which cannot be imported

It takes no lock and writes nothing to the ledger, and may be used while a run goes on. The lines
are described in format/export.md; `ledger import` makes a ledger of them again.";

/// `ledger export`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ExportArgs {
    /// The ledger's folder
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The first record [default: the first one that there is]
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    from: Option<u64>,
    /// The last record [default: the last durable one]
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    to: Option<u64>,
    /// Write to this file, which is not there yet, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn export(args: &ExportArgs) -> Result<Code, Failure> {
    let view = LedgerView::open(&args.dir, &Environment::system())?;
    let first = view.log().first_seq();
    let from = args.from.unwrap_or(first);
    if let Some(to) = args.to.filter(|to| *to < from) {
        let message = format!("--to {to} is before --from {from}: nothing lies between");
        return Err(Failure::Usage(message));
    }
    write_range(&view, (from, args.to), args.output.as_deref())
}

/// All of a ledger, into a file that is not there yet or to standard output.
pub(super) fn write(
    dir: &Path,
    output: Option<&Path>,
    environment: &Environment,
) -> Result<Code, Failure> {
    let view = LedgerView::open(dir, environment)?;
    let first = view.log().first_seq();
    write_range(&view, (first, None), output)
}

fn write_range(
    view: &LedgerView,
    range: (u64, Option<u64>),
    output: Option<&Path>,
) -> Result<Code, Failure> {
    let first = view.log().first_seq();
    if first > 1 {
        let before = first - 1;
        say(&format!("records 1 to {before} were pruned: this export cannot be imported"));
    }
    let done = match output {
        None => to_stdout(view, range)?,
        Some(path) => Some(to_file(view, range, path)?),
    };
    let Some(done) = done else { return Ok(Code::Fine) };
    for missing in &done.missing {
        say(&format!("left out: {missing}"));
    }
    if let Some(path) = output {
        let Exported { first_seq, last_seq, chain, blobs, .. } = &done;
        say(&format!(
            "records {first_seq} to {last_seq} (chain {}) and {blobs} blobs are in {}",
            chain.short(),
            path.display()
        ));
    }
    Ok(Code::Fine)
}

fn to_file(
    view: &LedgerView,
    (from, to): (u64, Option<u64>),
    path: &Path,
) -> Result<Exported, Failure> {
    let cannot = |error| Failure::Ledger(Error::io("write the export", path, error));
    let file = File::create_new(path).map_err(cannot)?;
    let mut out = BufWriter::new(file);
    let done = view.export(from, to, &meaning, &mut out);
    let done = done.map_err(Failure::from).and_then(|done| {
        out.into_inner().map_err(io::IntoInnerError::into_error).map_err(cannot)?;
        File::open(path).and_then(|file| file.sync_all()).map_err(cannot)?;
        Ok(done)
    });
    if done.is_err() {
        // Half an export is of no use, and the name may be wanted for the next try.
        let _ = std::fs::remove_file(path);
    }
    done
}

/// `None` if whoever read it went away.
fn to_stdout(
    view: &LedgerView,
    (from, to): (u64, Option<u64>),
) -> Result<Option<Exported>, Failure> {
    let mut out = Watched { out: BufWriter::new(io::stdout().lock()), is_gone: Reader::There };
    match view.export(from, to, &meaning, &mut out) {
        Err(_) if out.is_gone == Reader::Gone => Ok(None),
        done => Ok(Some(done?)),
    }
}

/// Whether somebody still reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reader {
    There,
    Gone,
}

/// Standard output, and whether its reader went away.
struct Watched<W: Write> {
    out: W,
    is_gone: Reader,
}

impl<W: Write> Watched<W> {
    fn watch<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        if result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
            self.is_gone = Reader::Gone;
        }
        result
    }
}

impl<W: Write> Write for Watched<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.out.write(bytes);
        self.watch(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.out.flush();
        self.watch(result)
    }
}
