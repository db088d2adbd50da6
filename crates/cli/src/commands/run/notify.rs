//! `ledger run --notify CMD`: runs a command when a person should know something.
//!
//! The runner waits for the command only at its own end, and never for long.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::output::{
    RunReporter, disk_text, escape_lines, held_text, print_message, reader, summary_text,
};
use crate::runner::{Observer, Progress, RunOutcome, RunSummary, StopRequest};
use plan_ledger::Ledger;
use plan_ledger_views::{WaitingItem, waiting_texts};

#[cfg(feature = "store")]
use super::holding::Holding;
use super::ticks::Ticks;

/// How long the runner waits at its end for the commands to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// The time between two checks whether a command has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The command that tells a person.
#[derive(Debug)]
pub(super) struct Notifier {
    command: String,
    run: String,
    ledger: PathBuf,
    running: Vec<Child>,
}

impl Notifier {
    pub(super) fn new(command: &str, run: &str, ledger: &Path) -> Self {
        let ledger = ledger.canonicalize().unwrap_or_else(|_| ledger.to_owned());
        Self { command: command.to_owned(), run: run.to_owned(), ledger, running: Vec::new() }
    }

    /// Start the command for an event. A failure to start it is reported, and changes nothing.
    fn notify(&mut self, event: &str, message: &str) {
        let mut command = Command::new("sh");
        command.arg("-c").arg(&self.command);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.env("LEDGER_EVENT", event).env("LEDGER_MESSAGE", escape_lines(message));
        command.env("LEDGER_RUN", &self.run).env("LEDGER_DIR", &self.ledger);
        match command.spawn() {
            Ok(child) => self.running.push(child),
            Err(error) => print_message(&format!("--notify cannot start: {error}")),
        }
    }
}

impl Drop for Notifier {
    /// Let the commands end, so that the end of the runner does not end them in a container.
    fn drop(&mut self) {
        let give_up = Instant::now() + PATIENCE;
        let is_over = |child: &mut Child| !matches!(child.try_wait(), Ok(None));
        while !self.running.iter_mut().all(is_over) && Instant::now() < give_up {
            thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Notifier {
    /// Notify about the end of a loop, unless it waits for no person.
    pub(super) fn ended(&mut self, summary: &RunSummary) {
        let event = match &summary.outcome {
            RunOutcome::Done => "done",
            RunOutcome::Failed => "failed",
            RunOutcome::Cancelled => "cancelled",
            RunOutcome::Aborted => "aborted",
            RunOutcome::Interrupted => "interrupted",
            RunOutcome::Stopped { .. } => "stopped",
            RunOutcome::Waiting(items) => return self.waits(items),
        };
        self.notify(event, &summary_text(summary, &self.ledger));
    }

    /// Notify about the items that a run waits for, if a person resolves one of them.
    fn waits(&mut self, items: &[WaitingItem]) {
        if items.iter().any(WaitingItem::needs_person) {
            let lines = waiting_texts(items, &self.run, &self.ledger, reader());
            self.notify("waiting", &lines.join("\n"));
        }
    }
}

/// The observer of a run that also notifies a person.
pub(super) struct NotifyingObserver<'a> {
    pub(super) reporter: &'a mut RunReporter,
    pub(super) notifier: Option<&'a mut Notifier>,
    /// The marks of the plan file.
    pub(super) ticks: Option<Ticking<'a>>,
    /// The ledger in a store.
    #[cfg(feature = "store")]
    pub(super) holding: Option<&'a mut Holding>,
}

/// The marks of a plan file, and the ledger with the statuses.
pub(super) struct Ticking<'a> {
    pub(super) ticks: &'a mut Ticks,
    pub(super) ledger: &'a Ledger,
}

impl NotifyingObserver<'_> {
    /// Writes the marks of the run into the plan file.
    pub(super) fn tick(&mut self) {
        if let Some(Ticking { ticks, ledger }) = &mut self.ticks
            && !ticks.update(ledger)
        {
            self.ticks = None;
        }
    }
}

impl Observer for NotifyingObserver<'_> {
    fn progress(&mut self, progress: &Progress) {
        self.reporter.progress(progress);
        if matches!(progress, Progress::Counted { .. }) {
            self.tick();
        }
        let Some(notifier) = &mut self.notifier else { return };
        match progress {
            Progress::BudgetUsed(used) => notifier.notify("budget", &used.to_string()),
            Progress::Held { owner, second_owner, until, reason, is_news: true } => {
                let whose = (owner.as_deref(), second_owner.as_deref());
                let text = held_text(whose, *until, reason);
                notifier.notify("held", &text);
            }
            Progress::Disk { problem: Some(problem) } => {
                notifier.notify("held", &disk_text(Some(problem)));
            }
            _ => {}
        }
    }

    fn stop_request(&mut self) -> StopRequest {
        #[cfg(feature = "store")]
        if let Some(holding) = &mut self.holding
            && holding.must_end(self.reporter)
        {
            return StopRequest::Kill;
        }
        self.reporter.stop_request()
    }
}
