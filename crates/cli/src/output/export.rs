//! Writes a range of records as JSON Lines, to a file or to standard output.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde_json::Value;

use plan_ledger::internals::ledger::ExportReport;
use plan_ledger::internals::log::LoggedRecord;
use plan_ledger::{Error, LedgerView};

use crate::protocol::{Code, Failure};

use super::atomic_file::AtomicFile;
use super::print::print_message;
use super::progress_bar::{LongTask, ProgressUnit};

/// The decoded form of a record, which the export adds to its line.
pub(crate) type Describe<'a> = &'a dyn Fn(&LoggedRecord) -> Option<Value>;

/// Writes the records from `from` to `to`, or to the last durable one, into a new file or to
/// standard output.
pub(crate) fn write_export(
    view: &LedgerView,
    from: u64,
    to: Option<u64>,
    output: Option<&Path>,
    describe: Describe<'_>,
) -> Result<Code, Failure> {
    let first = view.log().first_seq();
    if first > 1 {
        let before = first - 1;
        print_message(&format!(
            "records 1 to {before} were pruned: this export cannot be imported"
        ));
    }
    let task = LongTask::start(ProgressUnit::Records, view.log().dir())?;
    let job = ExportJob { view, from, to, describe, task: &task };
    let outcome = match output {
        None => job.write(io::stdout().lock()),
        Some(path) => job.write_file(path),
    };
    task.finish();
    match outcome? {
        ExportOutcome::Done(exported) => {
            report(&exported, output);
            Ok(Code::Success)
        }
        ExportOutcome::ReaderClosed => Ok(Code::Success),
        ExportOutcome::Stopped => {
            let rest = if output.is_some() { "nothing was written" } else { "it is incomplete" };
            print_message(&format!("export stopped: {rest}"));
            Ok(Code::Waiting)
        }
    }
}

fn report(exported: &ExportReport, output: Option<&Path>) {
    for missing in &exported.missing {
        print_message(&format!("left out: {missing}"));
    }
    if let Some(tail) = exported.unexported {
        print_message(&format!(
            "left out: records {} to {}, which are intact but, according to HEAD, not acknowledged",
            tail.first, tail.last
        ));
    }
    if let Some(path) = output {
        let ExportReport { first_seq, last_seq, chain, blobs, .. } = exported;
        print_message(&format!(
            "wrote records {first_seq} to {last_seq} (chain {}) and {blobs} blobs to {}",
            chain.short(),
            path.display()
        ));
    }
}

enum ExportOutcome {
    Done(ExportReport),
    ReaderClosed,
    /// A signal stopped the export.
    Stopped,
}

struct ExportJob<'a> {
    view: &'a LedgerView,
    from: u64,
    to: Option<u64>,
    describe: Describe<'a>,
    task: &'a LongTask,
}

impl ExportJob<'_> {
    fn write_file(&self, path: &Path) -> Result<ExportOutcome, Failure> {
        let target = AtomicFile::beside(path)?;
        let failed = |error| Failure::Ledger(Error::io("write the export", path, error));
        let file = File::create_new(target.temporary_path()).map_err(failed)?;
        let outcome = self.write(file)?;
        if let ExportOutcome::Done(_) = outcome {
            target.publish(path)?;
        }
        Ok(outcome)
    }

    fn write(&self, out: impl Write) -> Result<ExportOutcome, Failure> {
        let Self { view, from, to, task, .. } = *self;
        let last = to.or_else(|| Some(view.log().head()?.durable_seq)).unwrap_or(from);
        let describe = |record: &LoggedRecord| {
            let done = record.seq.saturating_sub(from);
            task.show("exporting", done, last.saturating_sub(from).saturating_add(1));
            (self.describe)(record)
        };
        let mut out = BufWriter::new(StoppableWriter { out, task, early_end: None });
        let exported = view.export(from, to, &describe, &mut out);
        let (writer, rest) = out.into_parts();
        match (writer.early_end, exported) {
            (Some(EarlyEnd::ReaderClosed), _) => Ok(ExportOutcome::ReaderClosed),
            (Some(EarlyEnd::Stopped), _) => Ok(ExportOutcome::Stopped),
            (None, exported) => {
                debug_assert!(
                    exported.is_err() || rest.is_ok_and(|rest| rest.is_empty()),
                    "it is flushed"
                );
                Ok(ExportOutcome::Done(exported?))
            }
        }
    }
}

/// The reason why an export ended before its last record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EarlyEnd {
    ReaderClosed,
    Stopped,
}

/// A writer that fails once the task is stopped, and notes why the export ended early.
struct StoppableWriter<'a, W: Write> {
    out: W,
    task: &'a LongTask,
    early_end: Option<EarlyEnd>,
}

impl<W: Write> StoppableWriter<'_, W> {
    fn note<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        if result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
            self.early_end = Some(EarlyEnd::ReaderClosed);
        }
        result
    }
}

impl<W: Write> Write for StoppableWriter<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.task.is_stopped() {
            self.early_end = Some(EarlyEnd::Stopped);
            return Err(io::Error::other("stopped"));
        }
        let result = self.out.write(bytes);
        self.note(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.out.flush();
        self.note(result)
    }
}
