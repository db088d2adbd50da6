//! Watches a loop for people (a bar, or plain lines) or for programs (JSON Lines), passes on
//! Ctrl-C, and ends this very process where a drill asks for it.
//!
//! Invariant: the loop does not wait for whoever reads what is printed.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use crate::runner::{Observer, Pending, Progress, StopRequest};
use plan_ledger::error::Result;
use plan_ledger::ledger::time_text;
use plan_ledger::plan::{Finding, Micros, Ruling, StepNumber, StepStatus};

use super::args::RunArgs;
use super::printer::Printer;
use super::signals::Signals;
use super::{json, text};

/// Who is told what happens.
#[derive(Debug)]
enum Audience {
    Nobody,
    Lines,
    Bar(ProgressBar),
    Program,
}

/// The observer of `ledger run`.
#[derive(Debug)]
pub(super) struct Reporter {
    audience: Audience,
    printer: Printer,
    kill_at: Option<StepNumber>,
    signals: Signals,
    /// What was waited for when it was told last.
    waits: Vec<Pending>,
}

impl Reporter {
    /// Takes over the signals that ask this process to end.
    pub(super) fn new(args: &RunArgs) -> Result<Self> {
        Ok(Self {
            audience: audience(args),
            printer: Printer::new(&args.ledger)?,
            kill_at: args.kill_at.map(StepNumber),
            signals: Signals::heeded(&args.ledger)?,
            waits: Vec::new(),
        })
    }

    /// A line that only programs get.
    pub(super) fn note_for_programs(&self, value: &Value) {
        if matches!(self.audience, Audience::Program) {
            let value = value.clone();
            self.printer.print(move || emit(&value));
        }
    }

    /// What a run waits for that goes on when somebody has answered. It is told once.
    pub(super) fn waits(
        &mut self,
        run: &str,
        items: &[Pending],
        until: Option<Micros>,
        ledger: &Path,
    ) {
        if std::mem::replace(&mut self.waits, items.to_vec()) == items {
            return;
        }
        self.note_for_programs(&json!({
            "type": "waits", "run": run, "until_micros": until,
            "waiting_for": items.iter().map(json::pending).collect::<Vec<_>>(),
        }));
        let lines: Vec<String> =
            items.iter().map(|item| text::pending(item, run, ledger)).collect();
        let say = move || lines.iter().for_each(|line| super::say(line));
        match &self.audience {
            Audience::Program => {}
            Audience::Bar(bar) => {
                let bar = bar.clone();
                self.printer.print(move || bar.suspend(say));
            }
            Audience::Nobody | Audience::Lines => self.printer.print(say),
        }
    }

    /// All is printed, and the bar goes, so that the summary stands alone.
    pub(super) fn finish(&self) {
        self.printer.flush();
        if let Audience::Bar(bar) = &self.audience {
            bar.finish_and_clear();
        }
    }

    fn show(&self, progress: &Progress) {
        match &self.audience {
            Audience::Nobody => {}
            Audience::Program => {
                if let Some(value) = json::progress(progress) {
                    self.printer.print(move || emit(&value));
                }
            }
            Audience::Lines => {
                if let Some(line) = line(progress) {
                    self.printer.print(move || super::say(&line));
                }
            }
            Audience::Bar(bar) => {
                let (bar, progress) = (bar.clone(), progress.clone());
                self.printer.print(move || show_on(&bar, &progress));
            }
        }
    }
}

impl Observer for Reporter {
    fn progress(&mut self, progress: &Progress) {
        self.show(progress);
        if let Progress::Started { step } = progress
            && self.kill_at == Some(step.number)
        {
            self.printer.flush();
            end_this_process();
        }
    }

    fn stop_request(&mut self) -> StopRequest {
        self.signals.request()
    }
}

/// A bar for something that can be counted; hidden where nobody looks.
pub(super) fn bar(length: usize) -> ProgressBar {
    let length = u64::try_from(length).unwrap_or(u64::MAX);
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed}") {
        bar.set_style(style);
    }
    bar
}

fn audience(args: &RunArgs) -> Audience {
    if args.json {
        Audience::Program
    } else if args.quiet {
        Audience::Nobody
    } else if io::stderr().is_terminal() {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        // No colour, so that there is nothing to switch off.
        let style = "{bar:30} {pos}/{len} {elapsed} {msg}";
        bar.set_style(ProgressStyle::with_template(style).unwrap_or_else(|_| {
            // The template is a constant that parses; a plain bar is as good.
            ProgressStyle::default_bar()
        }));
        Audience::Bar(bar)
    } else {
        Audience::Lines
    }
}

/// One JSON line on standard output about what goes on. When its reader went away, the work goes on in silence.
fn emit(value: &Value) {
    let _ = writeln!(io::stdout().lock(), "{value}");
}

fn show_on(bar: &ProgressBar, progress: &Progress) {
    match progress {
        Progress::Counted { settled, steps } => {
            bar.set_length(u64::from(*steps));
            bar.set_position(u64::from(*settled));
        }
        Progress::Dispatched { step, title, .. } => {
            bar.set_message(super::harmless(&format!("{step} {title}")));
        }
        _ if is_worth_a_line(progress) => {
            if let Some(line) = line(progress) {
                bar.suspend(|| super::say(&line));
            }
        }
        _ => {}
    }
}

/// Whether people should see it even where a bar shows how far the run is.
fn is_worth_a_line(progress: &Progress) -> bool {
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
        | Progress::Draining { .. } => true,
        Progress::Dispatched { .. } | Progress::Started { .. } | Progress::Counted { .. } => false,
    }
}

/// What happened, for people.
fn line(progress: &Progress) -> Option<String> {
    Some(match progress {
        Progress::Lost { step, detail, status, .. } => {
            format!("{step}: attempt lost: {detail}; the step is {status}")
        }
        Progress::Dispatched { step, title, attempt, .. } => match attempt {
            1 => format!("{step}: dealt: {title}"),
            _ => format!("{step}: dealt, attempt {attempt}: {title}"),
        },
        Progress::Receipt { step, outcome, message, status, .. } => match *outcome {
            "succeeded" => format!("{step}: {status}"),
            _ => format!("{step}: {}: {message}; the step is {status}", outcome.replace('_', " ")),
        },
        Progress::Refused { step, reason, .. } => format!("{step}: receipt refused: {reason}"),
        Progress::Verdict { step, criterion, ruling, by, evidence, status } => {
            let who = step.as_ref().map_or_else(|| "plan".to_owned(), ToString::to_string);
            let evidence = evidence.lines().next().unwrap_or_default();
            let ruling = match ruling {
                Ruling::Pass => "holds",
                Ruling::Fail => "does not hold",
            };
            let status = status.map(|status| format!("; the step is {status}")).unwrap_or_default();
            let by = by.strip_prefix("judge:").map(|_| format!(", says {by}")).unwrap_or_default();
            format!("{who}: criterion {} {ruling}{by}: {evidence}{status}", criterion + 1)
        }
        Progress::Probed { step, finding, evidence, status } => {
            let found = match finding {
                Some(Finding::Landed) => "the lost attempt did its work",
                Some(Finding::DidNotHappen) => "the lost attempt did nothing",
                None => "the probe cannot tell what the lost attempt did",
            };
            let evidence = evidence.lines().next().unwrap_or_default();
            format!("{step}: {found}: {evidence}; the step is {status}")
        }
        Progress::Proposed { version, by, is_active } => {
            let how = if *is_active { "is active" } else { "waits for somebody's yes" };
            format!("{by} made version {version} of the plan, which {how}")
        }
        Progress::Noted { step, note } => match step {
            Some(step) => format!("{step}: {note}"),
            None => note.clone(),
        },
        Progress::Waiting { until, reason } => {
            format!("waiting until {}: {reason}", time_text(*until))
        }
        Progress::Draining { reason, running } => {
            format!("{reason}: nothing more is dealt; waiting for {running} at work")
        }
        Progress::Started { .. } | Progress::Counted { .. } => return None,
    })
}

/// SIGKILL to this process: nothing of it runs any further, no destructor, no flush.
fn end_this_process() {
    let own = rustix::process::getpid();
    // It cannot fail: a process may always signal itself.
    let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
}
