//! Signals that ask a command to end: the first one to stop, the second one to stop at once.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

use plan_ledger::{Error, Result};

use crate::runner::StopRequest;

/// Counts the signals that ask this process to end.
#[derive(Debug)]
pub(crate) struct StopSignals {
    interrupted: Arc<AtomicBool>,
    request: Cell<StopRequest>,
}

impl StopSignals {
    /// Handles SIGINT, SIGTERM and SIGHUP: closing the terminal must not leave workers without a
    /// runner. Signals that were ignored from the start (`nohup`) stay ignored. An error names
    /// `about`, the ledger that is worked on.
    pub(crate) fn register(about: &Path) -> Result<Self> {
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in not_ignored([SIGINT, SIGTERM, SIGHUP]) {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))
                .map_err(|error| Error::io("watch for signals", about, error))?;
        }
        Ok(Self { interrupted, request: Cell::new(StopRequest::None) })
    }

    /// The request of the signals so far.
    pub(crate) fn request(&self) -> StopRequest {
        if self.interrupted.swap(false, Ordering::Relaxed) {
            self.request.set(match self.request.get() {
                StopRequest::None => StopRequest::Drain,
                StopRequest::Drain | StopRequest::Kill => StopRequest::Kill,
            });
        }
        self.request.get()
    }
}

/// Makes a file that reaches its size limit (`ulimit -f`) an error of the write, instead of the end
/// of this process. Child processes get the default action.
pub(crate) fn survive_file_size_limit() {
    for signal in not_ignored([SIGXFSZ]) {
        // A handler is reset in child processes; an ignored signal would stay ignored. If it cannot
        // be registered, the process ends as it would have before.
        let _ = signal_hook::flag::register(signal, Arc::default());
    }
}

/// The signals that this process did not ignore at its start.
pub(crate) fn not_ignored<const N: usize>(signals: [i32; N]) -> impl Iterator<Item = i32> {
    let ignored = ignored_signals();
    signals.into_iter().filter(move |signal| ignored >> (signal - 1) & 1 == 0)
}

/// The signals that this process ignores, as a mask; empty if the system does not report it.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
