//! Signals that ask a command to end: once to stop, twice to stop at once.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

use crate::runner::StopRequest;
use plan_ledger::error::{Error, Result};

/// Who asked to end, and how firmly.
#[derive(Debug)]
pub(super) struct Signals {
    interrupted: Arc<AtomicBool>,
    request: Cell<StopRequest>,
}

impl Signals {
    /// Takes over SIGINT, SIGTERM and SIGHUP of this process: a terminal that goes away must not
    /// leave workers without a runner. What was ignored from the start (`nohup`) stays ignored.
    pub(super) fn heeded(about: &Path) -> Result<Self> {
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in not_ignored([SIGINT, SIGTERM, SIGHUP]) {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))
                .map_err(|error| Error::io("watch for signals", about, error))?;
        }
        Ok(Self { interrupted, request: Cell::new(StopRequest::None) })
    }

    /// What is asked for so far.
    pub(super) fn request(&self) -> StopRequest {
        if self.interrupted.swap(false, Ordering::Relaxed) {
            self.request.set(match self.request.get() {
                StopRequest::None => StopRequest::Drain,
                StopRequest::Drain | StopRequest::Kill => StopRequest::Kill,
            });
        }
        self.request.get()
    }
}

/// Lets a file that may not grow any further (`ulimit -f`) be an error of whoever writes it, and not the
/// end of this process. Whoever is started gets the signal as it was.
pub(super) fn outlive_full_files() {
    for signal in not_ignored([SIGXFSZ]) {
        // A handler that nobody asks is gone in what is started; that the signal is ignored would not be.
        // Where there can be none, the process ends as it did before.
        let _ = signal_hook::flag::register(signal, Arc::default());
    }
}

/// Those of some signals that this process was not started to ignore.
pub(super) fn not_ignored<const N: usize>(signals: [i32; N]) -> impl Iterator<Item = i32> {
    let ignored = ignored_signals();
    signals.into_iter().filter(move |signal| ignored >> (signal - 1) & 1 == 0)
}

/// The signals that whoever started this process let it ignore, as a mask; none where the system
/// does not say.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
