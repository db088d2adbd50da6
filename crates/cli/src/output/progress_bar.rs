//! Progress bars on standard error, and long tasks that Ctrl-C stops.

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM};

use plan_ledger::{Error, Result};

use crate::signals::not_ignored;

/// A bar over `length` items; hidden if standard error is not a terminal.
pub(crate) fn progress_bar(length: usize) -> ProgressBar {
    let length = u64::try_from(length).unwrap_or(u64::MAX);
    let bar = bar("{bar:30} {pos}/{len} {elapsed}");
    bar.set_length(length);
    bar
}

/// A bar of unknown length with that template; hidden if standard error is not a terminal.
pub(super) fn bar(template: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    // The templates are constants that parse. If one did not parse, the default bar would be used.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

/// A task that shows its progress and that a signal stops.
///
/// The first SIGINT or SIGTERM asks the task to stop at the next record, so that nothing is left
/// half-written. The second one ends the process, in case the task is blocked on a reader.
#[derive(Debug)]
pub(crate) struct LongTask {
    bar: ProgressBar,
    stop: Arc<AtomicBool>,
}

/// The unit of a task's progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgressUnit {
    Bytes,
    Records,
}

impl LongTask {
    /// Takes over SIGINT and SIGTERM. Signals that were ignored from the start, as in the
    /// background of a script, stay ignored. An error names `about`, the file or folder of the
    /// task.
    pub(crate) fn start(unit: ProgressUnit, about: &Path) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in not_ignored([SIGINT, SIGTERM]) {
            // The order matters: the same signal must not both set the flag and end the process.
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
                .map_err(|error| Error::io("watch for signals", about, error))?;
        }
        let bar = bar(match unit {
            ProgressUnit::Bytes => "{msg} {bar:30} {bytes}/{total_bytes} {elapsed}",
            ProgressUnit::Records => "{msg} {bar:30} {human_pos}/{human_len} {elapsed}",
        });
        Ok(Self { bar, stop })
    }

    /// Shows the progress.
    pub(crate) fn show(&self, message: &'static str, done: u64, total: u64) {
        self.bar.set_message(message);
        self.bar.set_length(total);
        self.bar.set_position(done);
    }

    /// Whether a signal asked the task to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Clears the bar.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
