//! Signals that ask a command to end: the first one to stop, the second one to stop at once. SIGTERM
//! asks to stop at once, since a system that shuts down does not wait for long.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

use plan_ledger::{Error, Result};

use crate::runner::StopRequest;
pub(crate) use crate::runner::not_ignored;

/// Counts the signals that ask this process to end.
#[derive(Debug)]
pub(crate) struct StopSignals {
    interrupted: Arc<AtomicBool>,
    terminated: Arc<AtomicBool>,
    request: Cell<StopRequest>,
}

impl StopSignals {
    /// Handles SIGINT, SIGTERM and SIGHUP: closing the terminal must not leave workers without a
    /// runner. Signals that were ignored from the start (`nohup`) stay ignored. An error names
    /// `about`, the ledger that is worked on.
    pub(crate) fn register(about: &Path) -> Result<Self> {
        let (interrupted, terminated) = (Arc::default(), Arc::default());
        for signal in not_ignored([SIGINT, SIGTERM, SIGHUP]) {
            let flag = if signal == SIGTERM { &terminated } else { &interrupted };
            signal_hook::flag::register(signal, Arc::clone(flag))
                .map_err(|error| Error::io("watch for signals", about, error))?;
        }
        Ok(Self { interrupted, terminated, request: Cell::new(StopRequest::None) })
    }

    /// The request of the signals so far.
    pub(crate) fn request(&self) -> StopRequest {
        if self.interrupted.swap(false, Ordering::Relaxed) {
            self.request.set(match self.request.get() {
                StopRequest::None => StopRequest::Drain,
                StopRequest::Drain | StopRequest::Kill => StopRequest::Kill,
            });
        }
        if self.terminated.load(Ordering::Relaxed) {
            self.request.set(StopRequest::Kill);
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
