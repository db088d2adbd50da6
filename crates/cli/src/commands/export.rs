//! `ledger export`: a ledger as JSON Lines.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use plan_ledger::error::Error;
use plan_ledger::ledger::{Environment, ExportReport, LedgerView};
use plan_ledger::log::LoggedRecord;

use super::exit::{Code, Failure};
use super::folder::Folder;
use super::inspect::meaning;
use super::part::Part;
use super::say;
use super::watch::{Unit, Watch};

const EXAMPLES: &str = "\
Examples:
  ledger export .ledger -o backup.jsonl            all of it, blobs included
  ledger export .ledger | jq -c 'select(.type == \"record\") | .event'
  ledger export .ledger --from 100 --to 200        a part, which cannot be imported

It takes no lock and writes nothing to the ledger, and may be used while a run goes on. The lines
are described in format/export.md; `ledger import` makes a ledger of them again. So it is the way to
make a backup of a ledger that is in use; a copy of its files may be refused for writing. With -o the
file has its name only when it is complete; Ctrl-C leaves nothing behind (exit code 3).";

/// `ledger export`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ExportArgs {
    #[command(flatten)]
    folder: Folder,
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
    let dir = args.folder.dir()?;
    let view = LedgerView::open(&dir, &super::at(&dir, &Environment::system())?)?;
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
    let watch = Watch::new(Unit::Records, view.log().dir())?;
    let exported = match output {
        None => exported(view, range, io::stdout().lock(), &watch),
        Some(path) => to_file(view, range, path, &watch),
    };
    watch.finish();
    let done = match exported? {
        Outcome::Done(done) => done,
        Outcome::ReaderGone => return Ok(Code::Fine),
        Outcome::Stopped => {
            let left = if output.is_some() { "nothing was written" } else { "it is not complete" };
            say(&format!("stopped: {left}"));
            return Ok(Code::Waiting);
        }
    };
    for missing in &done.missing {
        say(&format!("left out: {missing}"));
    }
    if let Some(behind) = done.unexported {
        say(&format!(
            "left out: records {} to {}, which are whole; as far as HEAD says nobody was told of them",
            behind.first, behind.last
        ));
    }
    if let Some(path) = output {
        let ExportReport { first_seq, last_seq, chain, blobs, .. } = &done;
        say(&format!(
            "records {first_seq} to {last_seq} (chain {}) and {blobs} blobs are in {}",
            chain.short(),
            path.display()
        ));
    }
    Ok(Code::Fine)
}

/// What became of an export.
enum Outcome {
    Done(ExportReport),
    /// Whoever read it went away, which is no error.
    ReaderGone,
    /// Somebody wanted it to stop.
    Stopped,
}

fn to_file(
    view: &LedgerView,
    range: (u64, Option<u64>),
    path: &Path,
    watch: &Watch,
) -> Result<Outcome, Failure> {
    let part = Part::beside(path)?;
    let cannot = |error| Failure::Ledger(Error::io("write the export", path, error));
    let file = File::create_new(part.path()).map_err(cannot)?;
    let outcome = exported(view, range, file, watch)?;
    if let Outcome::Done(_) = outcome {
        part.name(path)?;
    }
    Ok(outcome)
}

fn exported(
    view: &LedgerView,
    (from, to): (u64, Option<u64>),
    out: impl Write,
    watch: &Watch,
) -> Result<Outcome, Failure> {
    let last = to.or_else(|| Some(view.log().head()?.durable_seq)).unwrap_or(from);
    let describe = |record: &LoggedRecord| {
        let done = record.seq.saturating_sub(from);
        watch.show("exporting", done, last.saturating_sub(from).saturating_add(1));
        meaning(record)
    };
    let mut out = BufWriter::new(Watched { out, watch, end: None });
    let done = view.export(from, to, &describe, &mut out);
    let (watched, rest) = out.into_parts();
    match (watched.end, done) {
        (Some(End::ReaderGone), _) => Ok(Outcome::ReaderGone),
        (Some(End::Stopped), _) => Ok(Outcome::Stopped),
        (None, done) => {
            debug_assert!(done.is_err() || rest.is_ok_and(|rest| rest.is_empty()), "it is flushed");
            Ok(Outcome::Done(done?))
        }
    }
}

/// Why nothing more can be written, or is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    ReaderGone,
    Stopped,
}

/// Where an export goes, and what ends it early.
struct Watched<'a, W: Write> {
    out: W,
    watch: &'a Watch,
    end: Option<End>,
}

impl<W: Write> Watched<'_, W> {
    fn watch<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        if result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
            self.end = Some(End::ReaderGone);
        }
        result
    }
}

impl<W: Write> Write for Watched<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.watch.is_stopped() {
            self.end = Some(End::Stopped);
            return Err(io::Error::other("stopped"));
        }
        let result = self.out.write(bytes);
        self.watch(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.out.flush();
        self.watch(result)
    }
}
