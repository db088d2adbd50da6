//! `ledger inspect DIR export`: exports a ledger as JSON Lines, tables or traces.
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
use plan_ledger::{Error, LedgerView};

use crate::commands::inspect::context::InspectContext;
use crate::commands::inspect::health::Health;
use crate::commands::inspect::output::Output;
use otlp::OtlpExporter;
use plan_ledger_views::meaning;
use rows::TableExporter;
use table::TableWriter;

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger export --format sqlite --to run.sqlite
  sqlite3 run.sqlite 'select id, status, attempts from steps where attempts > 1'
  ledger inspect .ledger export --format otlp --to spans.json    send it to a collector
  ledger inspect .ledger export --to backup.jsonl                as `ledger export DIR`

The tables and the spans are described in format/inspect-export.md. Ctrl-C leaves no file
(exit code 3).";

/// A ledger for other programs: JSON Lines, a SQLite file, traces
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ExportArgs {
    /// The output format
    #[arg(long, value_name = "FORMAT", default_value = "jsonl")]
    format: Format,
    /// Write to this file, which must not exist, instead of standard output
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
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

pub(super) fn export(
    args: &ExportArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let InspectContext { dir, environment, .. } = context;
    let out = out.writer();
    let to = output_file(args.to.as_ref());
    if args.format == Format::Jsonl {
        let open = || LedgerView::open(dir, environment);
        let range = ExportRange { from: None, to: None };
        return write_export(&open, range, to, &meaning);
    }
    let view = LedgerView::open(dir, environment)?;
    let health = Health::of(view.log(), dir, environment)?;
    let watch = LongTask::start(ProgressUnit::Records, to.unwrap_or(dir))?;
    let Some(to) = to else {
        if args.format == Format::Sqlite {
            let message = "a SQLite file cannot go to standard output: name it with --to FILE";
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
    let code = match args.format {
        Format::Sqlite => {
            // The library that writes it would leave the file mode to the umask.
            part.create().map_err(|error| Error::io("write the export", to, error))?;
            export_to(&view, &health, Target::Database(part.temporary_path()), &watch)?
        }
        _ => {
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
