//! Reports the progress of `ledger run`: to people as a progress bar or lines, to programs as JSON
//! Lines.
//!
//! It also forwards stop signals to the run, and kills this process and its workers at the step that
//! `--kill-at` names. The run never waits for a reader of the output: a printer thread prints.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use plan_ledger::{Result, Ruling, StepNumber, StepStatus, Timestamp};

use crate::json::{JsonLine, line_text};
use crate::runner::{Observer, Progress, StopRequest, end_all_workers};
use crate::signals::StopSignals;
use plan_ledger_views::{WaitingItem, waiting_texts};

use super::print::print_message;
use super::printer::Printer;
use super::progress_bar::{WorkingSteps, run_bar};
use super::reader::reader;
use super::render::time_of_day_now;
use super::run_json::{WaitsLine, progress_line};
use super::run_text::progress_text;

/// The destination of progress reports.
#[derive(Debug)]
pub(crate) enum Audience {
    /// Nowhere; only the summary is printed.
    Quiet,
    /// Lines on standard error.
    Lines,
    /// A bar on a terminal, with the steps at work.
    Bar(ProgressBar, WorkingSteps),
    /// JSON Lines on standard output.
    Json,
}

impl Audience {
    /// The audience that the options select.
    pub(crate) fn new(as_json: bool, is_quiet: bool) -> Self {
        if as_json {
            Self::Json
        } else if is_quiet {
            Self::Quiet
        } else if io::stderr().is_terminal() {
            let steps = WorkingSteps::default();
            // The bar has no color, so there is no option to disable it.
            Self::Bar(run_bar(&steps), steps)
        } else {
            Self::Lines
        }
    }
}

/// The observer of `ledger run`.
#[derive(Debug)]
pub(crate) struct RunReporter {
    audience: Audience,
    printer: Printer,
    kill_at: Option<StepNumber>,
    ledger: PathBuf,
    signals: StopSignals,
    /// The items of the last report of [`Self::report_waiting`].
    waits: Vec<WaitingItem>,
    /// The notes that were shown: with `--wait`, each session has those about conditions again.
    notes: BTreeSet<(Option<StepNumber>, String)>,
}

impl RunReporter {
    /// Handles the signals that ask this process to end.
    pub(crate) fn new(
        audience: Audience,
        kill_at: Option<StepNumber>,
        ledger: &Path,
    ) -> Result<Self> {
        let (printer, signals) = (Printer::new(ledger)?, StopSignals::register(ledger)?);
        let (ledger, waits, notes) = (ledger.to_owned(), Vec::new(), BTreeSet::new());
        Ok(Self { audience, printer, kill_at, ledger, signals, waits, notes })
    }

    /// Prints a line if the audience is a program.
    pub(crate) fn print_if_json<L: JsonLine>(&self, line: &L) {
        if matches!(self.audience, Audience::Json) {
            let text = line_text(line);
            self.printer.print(move || print_line(&text));
        }
    }

    /// Prints a message for people, unless the audience is a program or wants only the summary.
    #[cfg(feature = "store")]
    pub(crate) fn message_unless_json(&self, text: &str) {
        let text = text.to_owned();
        let print = move || print_message(&text);
        match &self.audience {
            Audience::Json | Audience::Quiet => {}
            Audience::Bar(bar, _) => {
                let bar = bar.clone();
                self.printer.print(move || bar.suspend(print));
            }
            Audience::Lines => self.printer.print(print),
        }
    }

    /// Reports the items that the run waits for, unless the last report was the same. Returns whether
    /// it was another one.
    pub(crate) fn report_waiting(
        &mut self,
        run: &str,
        items: &[WaitingItem],
        until: Option<Timestamp>,
        ledger: &Path,
    ) -> bool {
        if std::mem::replace(&mut self.waits, items.to_vec()) == items {
            return false;
        }
        self.print_if_json(&WaitsLine { run, until_micros: until, waiting_for: items });
        let lines: Vec<String> =
            waiting_texts(items, run, ledger, reader()).iter().map(|it| timed(it)).collect();
        let print = move || lines.iter().for_each(|line| print_message(line));
        match &self.audience {
            Audience::Json => {}
            Audience::Bar(bar, _) => {
                let bar = bar.clone();
                self.printer.print(move || bar.suspend(print));
            }
            Audience::Quiet | Audience::Lines => self.printer.print(print),
        }
        true
    }

    /// Waits until everything is printed and clears the bar, so that the summary starts on a clean line.
    pub(crate) fn finish(&self) {
        self.printer.flush();
        if let Audience::Bar(bar, _) = &self.audience {
            bar.finish_and_clear();
        }
    }

    fn show(&self, progress: &Progress) {
        match &self.audience {
            Audience::Quiet => {}
            Audience::Json => {
                if let Some(line) = progress_line(progress) {
                    self.print_if_json(&*line);
                }
            }
            Audience::Lines => {
                if let Some(line) = progress_text(progress) {
                    let line = timed(&line);
                    self.printer.print(move || print_message(&line));
                }
            }
            Audience::Bar(bar, steps) => {
                let (bar, steps, progress) = (bar.clone(), steps.clone(), progress.clone());
                self.printer.print(move || show_on_bar(&bar, &steps, &progress));
            }
        }
    }
}

impl Observer for RunReporter {
    fn progress(&mut self, progress: &Progress) {
        if let Progress::Noted { step, note } = progress {
            let step = step.as_ref().map(|step| step.number);
            if !self.notes.insert((step, note.clone())) {
                return;
            }
        }
        self.show(progress);
        if let Progress::Started { step } = progress
            && self.kill_at == Some(step.number)
        {
            self.printer.flush();
            // A worker that outlived this process would leave a result, which a machine without power does not.
            end_all_workers(&self.ledger);
            kill_this_process();
        }
    }

    fn stop_request(&mut self) -> StopRequest {
        self.signals.request()
    }
}

/// Prints one JSON line on standard output. If the reader has closed the pipe, the run continues
/// without output.
fn print_line(text: &str) {
    let _ = io::stdout().lock().write_all(text.as_bytes());
}

/// A line with the time of day in front of it.
fn timed(line: &str) -> String {
    format!("{} {line}", time_of_day_now())
}

fn show_on_bar(bar: &ProgressBar, steps: &WorkingSteps, progress: &Progress) {
    steps.follow(progress);
    match progress {
        Progress::Counted { settled, steps } => {
            bar.set_length(u64::from(*steps));
            bar.set_position(u64::from(*settled));
        }
        _ if needs_a_line(progress) => {
            if let Some(line) = progress_text(progress) {
                bar.suspend(|| print_message(&timed(&line)));
            }
        }
        _ => {}
    }
}

/// Whether an event gets a line of text even if a bar shows the progress.
fn needs_a_line(progress: &Progress) -> bool {
    match progress {
        Progress::Receipt { outcome, status, .. } => {
            *outcome != "succeeded" || *status == StepStatus::Failed
        }
        Progress::Verdict { ruling, .. } => *ruling == Ruling::Fail,
        Progress::Lost { .. }
        | Progress::Refused { .. }
        | Progress::Probed { .. }
        | Progress::Proposed { .. }
        | Progress::Noted { .. }
        | Progress::Waiting { .. }
        | Progress::Disk { .. }
        | Progress::Held { .. }
        | Progress::BudgetUsed(_)
        | Progress::Draining { .. } => true,
        Progress::Dispatched { .. } | Progress::Started { .. } | Progress::Counted { .. } => false,
    }
}

/// Sends SIGKILL to this process, so that no destructor runs and no buffer is flushed.
fn kill_this_process() {
    let own = rustix::process::getpid();
    // A process may always signal itself.
    let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
}
