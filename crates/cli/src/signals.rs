//! Signals that ask a command to end: the first one to stop, the second one to stop at once. SIGTERM
//! asks to stop at once, since a system that shuts down does not wait for long.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, sleep};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

use plan_ledger::{Error, Result};

use crate::protocol::not_ignored;
use crate::runner::StopRequest;

/// How long a process that only waits may take to end in order after a signal.
const ORDERLY_END: Duration = Duration::from_secs(1);

/// How often a process that only waits looks for signals.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Counts the signals that ask this process to end. Its clones count together.
#[derive(Debug, Clone)]
pub(crate) struct StopSignals {
    interrupted: Arc<AtomicBool>,
    terminated: Arc<AtomicBool>,
    request: Arc<Mutex<StopRequest>>,
}

/// A wait during which nothing is at risk; it ends with this.
#[derive(Debug)]
pub(crate) struct EndedWait(Arc<Mutex<bool>>);

impl Drop for EndedWait {
    fn drop(&mut self) {
        // The thread no longer ends the process.
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }
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
        Ok(Self { interrupted, terminated, request: Arc::default() })
    }

    /// The end of standard input asks to stop at once, too: if the program at its other end is killed, the kernel
    /// closes the pipe.
    pub(crate) fn stop_when_input_ends(&self, about: &Path) -> Result<()> {
        let flag = Arc::clone(&self.terminated);
        let wait = move || {
            // An input that cannot be read has ended, too.
            let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
            flag.store(true, Ordering::Relaxed);
        };
        let started = Builder::new().name("stdin".to_owned()).spawn(wait);
        started.map_err(|error| Error::io("watch standard input of", about, error))?;
        Ok(())
    }

    /// The request of the signals so far.
    pub(crate) fn request(&self) -> StopRequest {
        let mut request = self.request.lock().unwrap_or_else(PoisonError::into_inner);
        if self.interrupted.swap(false, Ordering::Relaxed) {
            *request = match *request {
                StopRequest::None => StopRequest::Drain,
                StopRequest::Drain | StopRequest::Kill => StopRequest::Kill,
            };
        }
        if self.terminated.load(Ordering::Relaxed) {
            *request = StopRequest::Kill;
        }
        *request
    }

    /// After a signal and while the value lives, runs `ending` and ends the process with its exit
    /// code. It is for waits in calls that no signal interrupts, in a process without unsaved
    /// state: a crash would do no harm.
    pub(crate) fn end_waits(
        &self,
        about: &Path,
        ending: impl FnOnce() -> u8 + Send + 'static,
    ) -> Result<EndedWait> {
        let is_over = Arc::new(Mutex::new(false));
        let (signals, over) = (self.clone(), Arc::clone(&is_over));
        let watch = move || {
            let mut asked: Option<Instant> = None;
            loop {
                // While it ends the process, the wait cannot end.
                let over = over.lock().unwrap_or_else(PoisonError::into_inner);
                if *over {
                    return;
                }
                if asked.is_none() && signals.request() != StopRequest::None {
                    asked = Some(Instant::now());
                }
                if asked.is_some_and(|asked| asked.elapsed() >= ORDERLY_END) {
                    std::process::exit(i32::from(ending()));
                }
                drop(over);
                sleep(LOOK_INTERVAL);
            }
        };
        let started = Builder::new().name("signals".to_owned()).spawn(watch);
        started.map_err(|error| Error::io("watch for signals", about, error))?;
        Ok(EndedWait(is_over))
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
