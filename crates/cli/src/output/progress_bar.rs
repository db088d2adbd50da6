//! Progress bars on standard error, and long tasks that Ctrl-C stops.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM};

use plan_ledger::{Error, Result, StepNumber};

use crate::protocol::not_ignored;
use crate::runner::Progress;

use super::render::{cut, escape_control, stderr_style};

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

/// The steps that workers have now, in the order of dispatch, each with the time since then.
#[derive(Debug, Clone, Default)]
pub(crate) struct WorkingSteps(Arc<Mutex<Vec<(StepNumber, String, Instant)>>>);

impl WorkingSteps {
    /// Adds the dispatched step, or removes it after its worker is done.
    pub(super) fn follow(&self, progress: &Progress) {
        let mut steps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match progress {
            Progress::Dispatched { step, .. } => {
                steps.retain(|(number, ..)| *number != step.number);
                steps.push((step.number, escape_control(&step.to_string()), Instant::now()));
            }
            Progress::Receipt { step, .. }
            | Progress::Refused { step, .. }
            | Progress::Lost { step, .. } => steps.retain(|(number, ..)| *number != step.number),
            _ => {}
        }
    }

    /// The steps and their times, each on a line of its own.
    fn text(&self, now: Instant, columns: usize) -> String {
        let steps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = |(_, name, since): &(StepNumber, String, Instant)| {
            let time = short_duration(now.saturating_duration_since(*since));
            format!("\n  {} {time}", cut(name, columns.saturating_sub(time.len() + 3)))
        };
        let mut lines: String = steps.iter().take(LINES_MAX).map(text).collect();
        let more = steps.len().saturating_sub(LINES_MAX);
        if more > 0 {
            let _ = write!(lines, "\n  and {more} more");
        }
        lines
    }
}

/// `12s`, `3m05s`, `2h07m`.
fn short_duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

/// How often the times of the steps at work are refreshed.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// The most steps at work that are shown.
const LINES_MAX: usize = 8;

/// The bar of a run: how much of it is done, and the steps at work with their times; hidden if
/// standard error is not a terminal.
pub(super) fn run_bar(steps: &WorkingSteps) -> ProgressBar {
    let bar = bar("");
    let steps = steps.clone();
    let working = move |_: &ProgressState, out: &mut dyn std::fmt::Write| {
        let columns = stderr_style().columns.unwrap_or(usize::MAX);
        let _ = out.write_str(&steps.text(Instant::now(), columns));
    };
    let template = "{bar:20} {pos}/{len} {elapsed}{working}";
    // The template is a constant that parses.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.with_key("working", working));
        bar.enable_steady_tick(REFRESH_INTERVAL);
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

#[cfg(test)]
mod tests {
    //! Goal: the bar shows each step at work, with its time.

    use super::*;
    use crate::protocol::StepName;
    use plan_ledger::{AttemptToken, StepStatus};

    fn name(number: u32, id: &str) -> StepName {
        StepName { number: StepNumber(number), id: id.to_owned() }
    }

    fn dispatched(number: u32, id: &str) -> Progress {
        Progress::Dispatched {
            step: name(number, id),
            title: String::new(),
            attempt: 1,
            token: AttemptToken(7),
            worker: String::new(),
            second_owner: None,
        }
    }

    #[test]
    fn steps_at_work_are_shown_with_their_times() {
        let steps = WorkingSteps::default();
        steps.follow(&dispatched(1, "a"));
        steps.follow(&dispatched(2, "b"));
        let later = Instant::now() + Duration::from_secs(125);
        assert_eq!(steps.text(later, 80), "\n  step 1 (a) 2m05s\n  step 2 (b) 2m05s");
        assert!(steps.text(later, 14).lines().all(|line| line.chars().count() <= 14));
        let (step, detail) = (name(1, "a"), String::new());
        let lost =
            Progress::Lost { step, token: AttemptToken(7), detail, status: StepStatus::Ready };
        steps.follow(&lost);
        assert_eq!(steps.text(later, 80), "\n  step 2 (b) 2m05s");
        for number in 3..=12 {
            steps.follow(&dispatched(number, "c"));
        }
        let text = steps.text(later, 80);
        assert!(text.ends_with("\n  and 3 more") && text.lines().count() == 10, "{text}");
    }

    #[test]
    fn durations_are_short() {
        let text = |seconds| short_duration(Duration::from_secs(seconds));
        assert_eq!([text(0), text(59), text(60), text(3599)], ["0s", "59s", "1m00s", "59m59s"]);
        assert_eq!(text(3600 * 9 + 7 * 60), "9h07m");
    }
}
