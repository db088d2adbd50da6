//! `ledger export`: a ledger as JSON Lines, tables or traces.
//!
//! Invariants:
//! - The file is written under a temporary name and renamed when it is complete. If the export
//!   fails or is interrupted, the temporary file is removed.
//! - One record is in memory at a time, besides the state.
//! - Damage does not stop an export: all readable records are exported, together with the damage.

mod database;
mod open_attempts;
mod otlp;
mod rows;
mod table;
mod value;

use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::output::{AtomicFile, ExportRange, LongTask, ProgressUnit, print_message, write_export};
use crate::output::{Code, Failure, output_file};
use plan_ledger::internals::ledger::Fold;
use plan_ledger::log::RecordStatus;
use plan_ledger::{Environment, Error, LedgerView};

use crate::commands::inspect::health::Health;
use crate::commands::inspect::health::overtaken::print_beside_prune;
use crate::commands::store::source::environment_for;
use crate::options::LedgerFolder;
use otlp::OtlpExporter;
use plan_ledger_views::meaning;
use rows::TableExporter;
use table::TableWriter;

const EXAMPLES: &str = "\
Examples:
  ledger export .ledger -o backup.jsonl            all of it, blobs included
  ledger export .ledger | jq -c 'select(.type == \"record\") | .event'
  ledger export .ledger --from 100 --to 200        a part, which cannot be imported
  ledger export --format sqlite -o run.sqlite      a file for SQLite:
  sqlite3 run.sqlite 'select id, status, attempts from steps where attempts > 1'
  ledger export --format otlp -o spans.json        traces: send them to a collector

It takes no lock, writes nothing to the ledger, and may be used while a run is active. JSON Lines are
described in format/export.md; `ledger import` creates a ledger from them. This is how to back up a
ledger that is in use: a copy of its files may be rejected for writing. Tables and traces are described in
format/export-forms.md. With -o, the file appears under its name only when it is complete; Ctrl-C leaves nothing
behind (exit code 3).";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    folder: LedgerFolder,
    /// The form of the export
    #[arg(long, value_name = "FORMAT", default_value = "jsonl")]
    format: Format,
    /// The first record of JSON Lines [default: the first one in the ledger]
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    from: Option<u64>,
    /// The last record of JSON Lines [default: the last durable one]
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    to: Option<u64>,
    /// Write to this file, which must not exist, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The forms of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Records, blobs and chain as JSON Lines, which `ledger import` reads
    Jsonl,
    /// A file that SQLite opens
    Sqlite,
    /// OpenTelemetry's spans as OTLP/JSON: a trace for each run
    Otlp,
}

/// The exporter and its destination.
enum Exporter<'a> {
    Tables(TableExporter, TableWriter),
    Otlp(Box<OtlpExporter>, &'a mut dyn Write),
}

/// Exports a ledger.
///
/// # Errors
/// `Usage` for options that exclude each other, and the errors of opening and reading the ledger. Damage is not an error:
/// it has an exit code.
pub(crate) fn export(
    args: &ExportArgs,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<Code, Failure> {
    let dir = args.folder.dir()?;
    let environment = environment_for(&dir, environment)?;
    let open = || LedgerView::open(&dir, &environment);
    let (range, to) =
        (ExportRange { from: args.from, to: args.to }, output_file(args.output.as_ref()));
    if args.format == Format::Jsonl {
        return write_export(&open, range, to, &meaning);
    }
    if range.from.is_some() || range.to.is_some() {
        let message = "--from and --to select records of JSON Lines: tables and traces have all runs in full\n\
                       hint: leave them out, or leave --format out";
        return Err(Failure::Usage(message.to_owned()));
    }
    print_beside_prune(out, |out| write_form(args.format, &dir, &environment, (to, out)))
}

/// Writes tables or traces to a file, else to `out`.
fn write_form(
    format: Format,
    dir: &Path,
    environment: &Environment,
    (to, out): (Option<&Path>, &mut dyn Write),
) -> Result<Code, Failure> {
    let view = LedgerView::open(dir, environment)?;
    let health = Health::of(view.log(), dir, environment)?;
    let watch = LongTask::start(ProgressUnit::Records, to.unwrap_or(dir))?;
    let Some(to) = to else {
        if format == Format::Sqlite {
            let message = "a SQLite file cannot go to standard output: name it with -o FILE";
            return Err(Failure::Usage(message.to_owned()));
        }
        let mut out = BufWriter::new(out);
        return match export_to(&view, &health, Target::Stream(&mut out), &watch) {
            Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                Ok(Code::Success)
            }
            done => done,
        };
    };
    let part = AtomicFile::beside(to, &watch)?;
    let code = match format {
        Format::Sqlite => {
            // The library that writes it would leave the file mode to the umask.
            part.create().map_err(|error| Error::io("write the export", to, error))?;
            export_to(&view, &health, Target::Database(part.temporary_path()), &watch)?
        }
        Format::Jsonl | Format::Otlp => {
            let cannot = |error| Error::io("write the export", to, error);
            let mut out = BufWriter::new(part.create().map_err(cannot)?);
            let code = export_to(&view, &health, Target::Stream(&mut out), &watch)?;
            out.flush().map_err(cannot)?;
            code
        }
    };
    if code != Code::Waiting {
        part.publish(to)?;
        print_message(&format!("{} is written", to.display()));
    }
    Ok(code)
}

/// The destination of an export.
enum Target<'a> {
    Stream(&'a mut dyn Write),
    Database(&'a Path),
}

fn export_to(
    view: &LedgerView,
    health: &Health,
    target: Target<'_>,
    watch: &LongTask,
) -> Result<Code, Failure> {
    let mut exporter = match target {
        Target::Stream(out) => {
            let uid = view.log().uids().map_or([0; 16], |(uid, _)| uid);
            Exporter::Otlp(Box::new(OtlpExporter::new(uid)), out)
        }
        Target::Database(path) => {
            Exporter::Tables(TableExporter::default(), TableWriter::create(path)?)
        }
    };
    exporter.begin()?;
    let last = view.log().head().map_or(0, |head| head.durable_seq);
    let mut failure = None;
    let fold = view.fold_with(u64::MAX, &mut |fold, status| {
        watch.show("exporting", fold.records, last);
        match exporter.record(fold, status) {
            Err(error) => failure = Some(error),
            Ok(()) if watch.is_stopped() => {}
            Ok(()) => return ControlFlow::Continue(()),
        }
        ControlFlow::Break(())
    })?;
    watch.finish();
    if let Some(failure) = failure {
        return Err(failure);
    }
    if watch.is_stopped() {
        print_message("stopped: nothing was written");
        return Ok(Code::Waiting);
    }
    let is_good = fold.damage.is_empty() && fold.unreadable.is_none() && health.is_good();
    exporter.end(view, &fold)?;
    Ok(if is_good { Code::Success } else { Code::Damaged })
}

impl Exporter<'_> {
    fn begin(&mut self) -> Result<(), Failure> {
        match self {
            Self::Tables(_, sink) => sink.begin(),
            Self::Otlp(_, out) => OtlpExporter::begin(out).map_err(Failure::Output),
        }
    }

    fn record(&mut self, fold: &Fold, status: RecordStatus) -> Result<(), Failure> {
        let Some(record) = &fold.last else { return Ok(()) };
        match self {
            Self::Tables(rows, sink) => rows.record(record, status, fold, sink),
            Self::Otlp(spans, out) => spans.record(record, fold, out).map_err(Failure::Output),
        }
    }

    fn end(self, view: &LedgerView, fold: &Fold) -> Result<(), Failure> {
        match self {
            Self::Tables(_, mut sink) => {
                TableExporter::end(view, fold, &mut sink)?;
                sink.end()
            }
            Self::Otlp(spans, out) => spans.end(fold, out).map_err(Failure::Output),
        }
    }
}
