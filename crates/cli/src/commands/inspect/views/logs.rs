//! `ledger logs`: the output of workers, during their work and afterwards.
//!
//! While an attempt is in flight, its output is read from the files that its process writes. When it
//! has ended, its receipt has the output, and the end of its standard error.
//!
//! Invariant: a file that is removed when its attempt ends is still read to its end, because it stays
//! open.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use plan_ledger::log::{LogItem, RecordStatus};
use plan_ledger::plan::{StepEvent, StepRecord};
use plan_ledger::{AttemptToken, Event, LedgerView, Receipt, Run, RunId, RunStatus, StepNumber};
use plan_ledger_views::{
    AttemptLine, Document, KnownBlobs, LogSource, RecordContent, Stream, event_among_logs,
    value_text,
};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::output::Output;
use crate::options::{AsJson, LedgerOption, RunOption};
use crate::output::{Code, Failure, time_of_day};
use crate::runner::{claimed_files, scratch_folder};

use super::step::history;

const EXAMPLES: &str = "\
Examples:
  ledger logs                                      all attempts of the active run
  ledger logs build                                the attempts at one step
  ledger logs my-plan '#37'
  ledger logs -f                                   what the workers print from now on

A line of a worker's standard output begins with `|`, one of its standard error with `!`. While an
attempt runs, its output is shown as far as it is written; afterwards, the receipt has the output, and
the last 4 KiB of standard error. One word is the name of a run, if there is such a run, else a step.";

/// The output of workers
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LogsArgs {
    #[command(flatten)]
    place: LedgerOption,
    /// The run's name [default: the only run that is active]
    #[arg(id = "log_run", value_name = "RUN|STEP")]
    first: Option<String>,
    /// The step's id or number (37 or #37) [default: all steps]
    #[arg(id = "log_step", value_name = "STEP")]
    second: Option<String>,
    #[command(flatten)]
    option: RunOption,
    /// Wait for more output, until the run ends
    #[arg(long, short)]
    pub(crate) follow: bool,
    #[command(flatten)]
    pub(crate) json: AsJson,
}

impl LogsArgs {
    /// The ledger's folder.
    pub(crate) fn dir(&self) -> &Path {
        &self.place.dir
    }

    /// Whether the view continues until the run ends.
    pub(crate) fn is_endless(&self) -> bool {
        self.follow
    }

    /// The run and the step, as they were given.
    fn names(&self, ledger: &LedgerAt<'_>) -> (Option<&str>, Option<&str>) {
        let option = self.option.run.as_deref();
        match (self.first.as_deref(), self.second.as_deref()) {
            (Some(run), Some(step)) => (Some(run), Some(step)),
            (Some(word), None) if option.is_none() && ledger.find_run(word).is_ok() => {
                (Some(word), None)
            }
            (step, _) => (option, step),
        }
    }
}

pub(crate) fn logs(
    args: &LogsArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let named = LedgerAt::of(context, AtArg::default())?;
    let (run, step) = args.names(&named);
    let (mut ledger, id) = LedgerAt::of_run(context, AtArg::default(), run)?;
    let step = step.map(|step| ledger.step(ledger.run(id)?, step)).transpose()?;
    if args.follow {
        return Follower::new(&ledger, id, step)?.follow(out);
    }
    let numbers: Vec<StepNumber> = match step {
        Some(number) => vec![number],
        None => {
            let steps = ledger.run(id)?.numbered_steps();
            steps.filter(|it| it.1.attempts > 0).map(|it| it.0).collect()
        }
    };
    let mut is_empty = true;
    for number in numbers {
        let entries = history(&mut ledger, id, number)?;
        let run = ledger.run(id)?;
        let blobs = KnownBlobs::new();
        for attempt in AttemptLine::all(run, number, &entries, &blobs, ledger.has_losses()) {
            is_empty = false;
            print_attempt(&ledger, run, number, &attempt, out)?;
        }
    }
    if is_empty && context.form == Form::Text {
        out.document(&Document::of_line("no attempt yet"))?;
    }
    ledger.finish(out)
}

fn print_attempt(
    ledger: &LedgerAt<'_>,
    run: &Run,
    number: StepNumber,
    attempt: &AttemptLine<'_>,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let source = LogSource::of(run, number, attempt.token, attempt.dispatch);
    if ledger.context.form == Form::Text {
        out.document(&source.heading_of(run, attempt, ledger.now))?;
    }
    let form = (ledger.context.form, LineStyle::Plain);
    if let Some(receipt) = attempt.receipt {
        return print_receipt(&source, receipt, &ledger.view, form, out);
    }
    // The files of a lost attempt stay until the next runner starts.
    Streams::of(ledger.context.dir, &source).print(&source, form, Reading::Whole, out)
}

/// Prints the output in a receipt.
fn print_receipt(
    source: &LogSource,
    receipt: &Receipt,
    view: &LedgerView,
    form: (Form, LineStyle),
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let output = match view.output(&receipt.output) {
        Ok(output) if output.as_str() == "null" => String::new(),
        Ok(output) => value_text(&output),
        Err(error) => format!("[the output cannot be read: {error}]"),
    };
    print(source, Stream::Output, output, form, false, out)?;
    print(source, Stream::Error, receipt.log_tail.to_string(), form, false, out)
}

/// Whether lines name their step: several steps print at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineStyle {
    Plain,
    Named,
}

/// Prints whole lines of a stream.
fn print(
    source: &LogSource,
    stream: Stream,
    text: String,
    (form, style): (Form, LineStyle),
    is_live: bool,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    if text.is_empty() {
        return Ok(());
    }
    let line = source.line(stream, text, is_live);
    match form {
        Form::Json => out.json(&line),
        Form::Text => out.document(&line.document(style == LineStyle::Named)),
    }
}

/// How much of the files is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// Whole lines; more may be written.
    Lines,
    /// All that is there.
    Whole,
}

/// The output files of an attempt's process.
#[derive(Debug)]
struct Streams {
    streams: [OpenStream; 2],
}

#[derive(Debug)]
struct OpenStream {
    stream: Stream,
    /// The place where a runner keeps it.
    path: PathBuf,
    /// The ledger and the attempt; its claim names the files of `ledger work`.
    claimed: Option<(PathBuf, AttemptToken)>,
    /// `None` until it exists.
    file: Option<File>,
    /// The beginning of an incomplete line.
    begun: Vec<u8>,
    has_printed: bool,
}

/// How much is read of a file at once.
const CHUNK_LENGTH: u64 = 1 << 16;

impl Streams {
    fn of(dir: &Path, source: &LogSource) -> Self {
        let folder = scratch_folder(dir, source.run);
        let open = |stream, suffix| OpenStream {
            stream,
            path: folder.join(format!("{}.{suffix}", source.token)),
            claimed: Some((dir.to_owned(), source.token)),
            file: None,
            begun: Vec::new(),
            has_printed: false,
        };
        Self { streams: [open(Stream::Output, "out"), open(Stream::Error, "err")] }
    }

    fn has_printed(&self) -> bool {
        self.streams.iter().any(|stream| stream.has_printed)
    }

    /// Prints the text that was written since the last call.
    fn print(
        &mut self,
        source: &LogSource,
        form: (Form, LineStyle),
        reading: Reading,
        out: &mut Output<'_>,
    ) -> Result<(), Failure> {
        for stream in &mut self.streams {
            while let Some(text) = stream.read(reading) {
                print(source, stream.stream, text, form, true, out)?;
            }
        }
        Ok(())
    }
}

impl OpenStream {
    /// The file of an attempt of `ledger work`, which keeps its files elsewhere.
    fn open_claimed(&self) -> Option<File> {
        let (ledger, token) = self.claimed.as_ref()?;
        File::open(claimed_files(ledger, *token)?.join(self.path.file_name()?)).ok()
    }

    /// The next whole lines; `None` at the end of the file.
    fn read(&mut self, reading: Reading) -> Option<String> {
        if self.file.is_none() {
            self.file = File::open(&self.path).ok().or_else(|| self.open_claimed());
        }
        let mut chunk = std::mem::take(&mut self.begun);
        let begun = chunk.len();
        // A file that cannot be read has no lines.
        let read = self.file.as_mut().map(|file| file.take(CHUNK_LENGTH).read_to_end(&mut chunk));
        let is_at_end = !matches!(read, Some(Ok(1..)));
        let lines = match (reading, is_at_end) {
            (Reading::Whole, true) => chunk.len(),
            // A line without end is printed when it is too long to wait for its end.
            _ => match chunk.iter().rposition(|byte| *byte == b'\n') {
                Some(end) => end + 1,
                None if begun >= usize::try_from(CHUNK_LENGTH).unwrap_or(usize::MAX) => chunk.len(),
                None => 0,
            },
        };
        self.begun = chunk.split_off(lines);
        if chunk.is_empty() && is_at_end {
            return None;
        }
        self.has_printed |= !chunk.is_empty();
        Some(String::from_utf8_lossy(&chunk).into_owned())
    }
}

/// How often `--follow` looks for more.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(250);

/// Prints the output of a run's workers as it arrives.
#[derive(Debug)]
struct Follower<'a> {
    context: InspectContext<'a>,
    run: Run,
    /// The step, or all of them.
    step: Option<StepNumber>,
    /// The last record that was looked at.
    seq: u64,
    live: BTreeMap<AttemptToken, (LogSource, Streams)>,
}

impl<'a> Follower<'a> {
    fn new(ledger: &LedgerAt<'a>, id: RunId, step: Option<StepNumber>) -> Result<Self, Failure> {
        let (context, run) = (ledger.context, ledger.run(id)?);
        let steps = ledger.state.steps_in_flight(id);
        let steps = steps.filter(|number| step.is_none_or(|it| it == *number));
        let live = steps.filter_map(|number| {
            let source = LogSource::in_flight(run, number)?;
            let streams = Streams::of(context.dir, &source);
            Some((source.token, (source, streams)))
        });
        let live = live.collect();
        Ok(Self { context, run: run.clone(), step, seq: ledger.state.seq, live })
    }

    fn follow(mut self, out: &mut Output<'_>) -> Result<Code, Failure> {
        for (source, _) in self.live.values() {
            self.tell(&source.heading(&self.run), out)?;
        }
        let form = (self.context.form, LineStyle::Named);
        loop {
            for (source, streams) in self.live.values_mut() {
                streams.print(source, form, Reading::Lines, out)?;
            }
            out.flush()?;
            if matches!(self.run.status, RunStatus::Ended(_)) {
                return Ok(Code::Success);
            }
            std::thread::sleep(FOLLOW_INTERVAL);
            self.read_records(out)?;
        }
    }

    /// Looks at the new records.
    fn read_records(&mut self, out: &mut Output<'_>) -> Result<(), Failure> {
        let view = LedgerView::open(self.context.dir, self.context.environment)?;
        let mut events = Vec::new();
        for item in view.log().walk(self.seq + 1) {
            let LogItem::Record(record, RecordStatus::Durable) = item? else { continue };
            self.seq = record.seq;
            if let RecordContent::Event(event) = RecordContent::of(&record) {
                events.push((record.seq, record.time, event));
            }
        }
        if events.is_empty() {
            return Ok(());
        }
        let state = view.fold_recent()?.state;
        match state.runs.get(&self.run.id) {
            Some(run) => self.run = run.clone(),
            None => return Err(Failure::Usage("the run ended long ago".to_owned())),
        }
        for (seq, time, event) in events {
            let Event::Step(StepRecord { run, step, event, .. }) = event else { continue };
            if run == self.run.id && self.step.is_none_or(|only| only == step) {
                let time = time_of_day(time);
                self.on_event(AttemptToken(seq), step, &time, &event, &view, out)?;
            }
        }
        Ok(())
    }

    fn on_event(
        &mut self,
        token: AttemptToken,
        step: StepNumber,
        time: &str,
        event: &StepEvent,
        view: &LedgerView,
        out: &mut Output<'_>,
    ) -> Result<(), Failure> {
        match event {
            StepEvent::Dispatched(dispatch) => {
                let source = LogSource::of(&self.run, step, token, Some(dispatch));
                let streams = Streams::of(self.context.dir, &source);
                self.live.insert(token, (source, streams));
            }
            StepEvent::ReceiptRecorded(event) => {
                let has_printed = self.end(event.token, out)?;
                if !has_printed {
                    let source = LogSource::of(&self.run, step, event.token, None);
                    let form = (self.context.form, LineStyle::Named);
                    print_receipt(&source, &event.receipt, view, form, out)?;
                }
            }
            StepEvent::AttemptLost(event) => {
                self.end(event.token, out)?;
            }
            _ => {}
        }
        match event_among_logs(&self.run, step, event, time) {
            Some(document) => self.tell(&document, out),
            None => Ok(()),
        }
    }

    /// Prints the rest of an attempt that has ended. Returns whether it printed anything at all.
    fn end(&mut self, token: AttemptToken, out: &mut Output<'_>) -> Result<bool, Failure> {
        let Some((source, mut streams)) = self.live.remove(&token) else { return Ok(false) };
        streams.print(&source, (self.context.form, LineStyle::Named), Reading::Whole, out)?;
        Ok(streams.has_printed())
    }

    /// Prints what is not output of a worker, for people.
    fn tell(&self, document: &Document, out: &mut Output<'_>) -> Result<(), Failure> {
        if self.context.form == Form::Json { Ok(()) } else { out.document(document) }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: nothing that a worker prints is lost or repeated.

    use std::io::Write as _;

    use super::*;

    fn stream(path: PathBuf) -> OpenStream {
        let (claimed, file, begun) = (None, None, Vec::new());
        OpenStream { stream: Stream::Output, path, claimed, file, begun, has_printed: false }
    }

    fn all(stream: &mut OpenStream, reading: Reading) -> String {
        std::iter::from_fn(|| stream.read(reading)).collect()
    }

    #[test]
    fn removed_file_is_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("7.out");
        let mut stream = stream(path.clone());
        assert_eq!(all(&mut stream, Reading::Lines), "");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"one\ntw").unwrap();
        assert_eq!(all(&mut stream, Reading::Lines), "one\n");
        assert_eq!(all(&mut stream, Reading::Lines), "");
        file.write_all(b"o\nthree").unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(all(&mut stream, Reading::Whole), "two\nthree");
        assert_eq!(all(&mut stream, Reading::Whole), "");
        assert!(stream.has_printed);
    }

    #[test]
    fn long_output_is_read_in_parts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("7.err");
        for text in ["x".repeat(300_000), "a line\n".repeat(50_000)] {
            std::fs::write(&path, &text).unwrap();
            assert_eq!(all(&mut stream(path.clone()), Reading::Whole), text);
            let lines = all(&mut stream(path.clone()), Reading::Lines);
            assert!(text.starts_with(&lines) && lines.len() > 200_000, "{}", lines.len());
        }
    }
}
