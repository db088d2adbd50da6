//! Writes a range of records as JSON Lines, to a file or to standard output.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde_json::Value;

use plan_ledger::internals::ledger::ExportReport;
use plan_ledger::log::{LoggedRecord, is_missing};
use plan_ledger::{Error, ErrorKind, LedgerView};

use crate::protocol::{Code, Failure};

use super::atomic_file::AtomicFile;
use super::print::print_message;
use super::progress_bar::{LongTask, ProgressUnit};

/// The decoded form of a record, which the export adds to its line.
pub(crate) type Describe<'a> = &'a dyn Fn(&LoggedRecord) -> Option<Value>;

/// The records of an export.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExportRange {
    /// The first one; by default the first one of the ledger.
    pub(crate) from: Option<u64>,
    /// The last one; by default the last durable one.
    pub(crate) to: Option<u64>,
}

/// How often an export begins again after a prune removed files during the read.
const ATTEMPTS_MAX: u32 = 16;

/// Writes records into a new file or to standard output. `open` opens the ledger, again if a prune
/// removes a file before it was read: then the export begins again, as long as nothing of it has left
/// the process.
pub(crate) fn write_export(
    open: &dyn Fn() -> Result<LedgerView, Error>,
    range: ExportRange,
    output: Option<&Path>,
    describe: Describe<'_>,
) -> Result<Code, Failure> {
    let task = LongTask::start(ProgressUnit::Records, output.unwrap_or(Path::new("-")))?;
    let mut attempts_left = ATTEMPTS_MAX;
    let outcome = loop {
        attempts_left -= 1;
        let view = open()?;
        let (from, to) = (range.from.unwrap_or(view.first_exported()), range.to);
        if let Some(to) = to.filter(|to| *to < from) {
            let message = format!("--to {to} is before --from {from}: the range is empty");
            return Err(Failure::Usage(message));
        }
        report_pruned(&view, range);
        let job = ExportJob { view: &view, from, range, describe, task: &task };
        let outcome = match output {
            None => job.write_stdout(),
            Some(path) => job.write_file(path),
        };
        match outcome {
            Err(Failure::Ledger(error)) if is_missing(&error) && attempts_left > 0 => {
                plan_ledger::mutant!(PrunedFileEndsExport => break Err(Failure::Ledger(error)));
            }
            outcome => break outcome,
        }
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

fn report_pruned(view: &LedgerView, range: ExportRange) {
    let log = view.log();
    let before = range.from.unwrap_or(view.first_exported()).saturating_sub(1);
    if log.first_seq() == 1 {
        return;
    }
    let is_noted = |seq: u64| range.to.is_none_or(|to| to >= seq);
    print_message(&match log.retention() {
        Some(pruned) if range.from.is_none() && is_noted(pruned.seq) => {
            format!(
                "records 1 to {before} were pruned: the export has the state after them instead"
            )
        }
        _ => format!("the export begins after record {before}: it cannot be imported"),
    });
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
    /// The first record.
    from: u64,
    range: ExportRange,
    describe: Describe<'a>,
    task: &'a LongTask,
}

impl ExportJob<'_> {
    fn write_stdout(&self) -> Result<ExportOutcome, Failure> {
        let mut out = CountingWriter { out: io::stdout().lock(), count: 0 };
        let outcome = self.write(&mut out);
        match outcome {
            Err(Failure::Ledger(error)) if is_missing(&error) && out.count > 0 => {
                let message = "a prune removed records before they were exported";
                let pruned = Error::new(ErrorKind::Pruned, message)
                    .with_hint("export again; with -o FILE the export begins again by itself");
                Err(pruned.at_path(self.view.log().dir()).into())
            }
            outcome => outcome,
        }
    }

    fn write_file(&self, path: &Path) -> Result<ExportOutcome, Failure> {
        let target = AtomicFile::beside(path, self.task)?;
        let failed = |error| Failure::Ledger(Error::io("write the export", path, error));
        let file = target.create().map_err(failed)?;
        // An incomplete file is removed.
        let outcome = self.write(file)?;
        if let ExportOutcome::Done(_) = outcome {
            target.publish(path)?;
        }
        Ok(outcome)
    }

    fn write(&self, out: impl Write) -> Result<ExportOutcome, Failure> {
        let Self { view, from, range, task, .. } = *self;
        let last = range.to.or_else(|| Some(view.log().head()?.durable_seq)).unwrap_or(from);
        let describe = |record: &LoggedRecord| {
            let done = record.seq.saturating_sub(from);
            task.show("exporting", done, last.saturating_sub(from).saturating_add(1));
            (self.describe)(record)
        };
        let mut out = BufWriter::new(StoppableWriter { out, task, early_end: None });
        let exported = view.export(range.from, range.to, &describe, &mut out);
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

/// A writer that knows whether anything has left the process.
struct CountingWriter<W: Write> {
    out: W,
    count: usize,
}

impl<W: Write> Write for CountingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.count = self.count.saturating_add(count);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use plan_ledger::internals::sim::environment;
    use plan_ledger::internals::sim::{
        FaultAction, FaultEffect, FaultRule, Operation, OsError, SimDisk,
    };
    use plan_ledger::{Ledger, RunPolicy};

    /// Story: two of 861 exports beside a prune ended with an error about a file that was gone.
    /// Method: each file of the log in turn is gone when it is opened for the n-th time, once.
    #[test]
    fn file_that_a_prune_removed_restarts_the_export() {
        let disk = SimDisk::new();
        let dir = Path::new("/l");
        let ledger = Ledger::create(dir, &environment(&disk)).unwrap();
        let plan = serde_json::from_value(json!({ "steps": [{ "id": "a" }] })).unwrap();
        let run = ledger.start_run("r", &plan, RunPolicy::default()).unwrap();
        for number in 0..4 {
            // A segment for each.
            let value = "x".repeat(6_000);
            ledger.set_variable(run, &format!("v{number}"), json!(value), None, "me").unwrap();
        }
        ledger.close().unwrap();
        let files = disk.files(&dir.join("log"));
        assert!(files.len() > 1, "{files:?}");
        let folder = tempfile::tempdir().unwrap();
        let exported = |disk: &SimDisk, name: &str| {
            let target = folder.path().join(name);
            let environment = environment(disk);
            let range = ExportRange { from: None, to: None };
            let open = || LedgerView::open(dir, &environment);
            let code = write_export(&open, range, Some(&target), &|_| None);
            assert_eq!(code.unwrap(), Code::Success, "{name}");
            std::fs::read(&target).unwrap()
        };
        let undisturbed = exported(&disk, "undisturbed");
        let mut struck = 0;
        for (index, path) in files.iter().enumerate() {
            for nth in 1..5 {
                let disk = disk.fork();
                let gone = OsError::Other(io::ErrorKind::NotFound);
                let rule = FaultRule::next(FaultAction::Error(gone, FaultEffect::Nothing));
                disk.inject(rule.of(Operation::Open).on(path.clone()).nth(nth));
                assert!(exported(&disk, &format!("{index}-{nth}")) == undisturbed, "{index} {nth}");
                struck += usize::from(disk.pending_rules() == 0);
            }
        }
        assert!(struck > files.len(), "{struck}");
    }
}
