//! `ledger run --store`: the ledger is held in a store while its run is driven, and while the run waits for people.
//!
//! Invariants:
//! - Once another process may hold the ledger, because it took over or because the store gave no answer for the lease,
//!   no worker of this process runs: a thread ends them, even while the loop waits for the store.
//! - If the loop cannot record a result at that time, the next runner dispatches the step again, as after a crash.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::{Duration, Instant};

use plan_ledger::{Environment, Error, ErrorKind, Ledger, RunId, Timestamp};

use crate::commands::serve::stopped_early;
use crate::commands::store::held::{Held, HeldLog, HoldDoubt, StoreView};
use crate::commands::store::lines::StoreNewsLine;
use crate::commands::store::{Before, HoldOptions, hold};
use crate::output::{Code, Failure, RunReporter, print_message};
use crate::runner::{Fence, Observer as _, StopRequest, end_workers, take_over_dead_claims};
use crate::server::while_serving;
use crate::signals::StopSignals;

/// The pause between two checks whether another process may hold the ledger.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How often it looks for claims of processes that are gone while it waits.
const DEAD_CLAIMS_EVERY: Duration = Duration::from_secs(2);

/// A ledger that this process holds in a store.
pub(super) struct Holding {
    dir: PathBuf,
    log: Box<dyn HeldLog>,
    watched: Watched,
    guard: Option<Guard>,
    /// Why this process must end.
    failure: Option<Failure>,
}

/// The state that the thread and the loop share.
#[derive(Clone)]
struct Watched {
    view: Arc<dyn StoreView>,
    fence: Fence,
    /// The first doubt that either found.
    first: Arc<OnceLock<HoldDoubt>>,
}

/// A run that waits for people or timers.
pub(super) struct Wait {
    /// The last record before the last look for work.
    pub(super) seen: u64,
    /// When its next timer is due.
    pub(super) until: Option<Timestamp>,
}

/// The thread that ends the workers of a run. It ends with this.
struct Guard {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Guard {
    fn start(watched: Watched, ledger: PathBuf, run: RunId) -> Result<Self, Error> {
        let (stop, stopped) = channel();
        let watch = move || {
            while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                if watched.doubt().is_some() {
                    watched.fence.close();
                    let _ = end_workers(&ledger, run);
                    return;
                }
            }
        };
        let started = Builder::new().name("fence".to_owned()).spawn(watch);
        let failed = |error| Error::new(ErrorKind::Io, format!("cannot start a thread: {error}"));
        Ok(Self { stop: Some(stop), thread: Some(started.map_err(failed)?) })
    }
}

impl Watched {
    /// Why another process may hold the ledger. Once there was a reason, it stays: the workers were ended.
    fn doubt(&self) -> Option<HoldDoubt> {
        if let Some(known) = self.first.get() {
            return Some(*known);
        }
        let found = self.view.doubt()?;
        Some(*self.first.get_or_init(|| found))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Hold the ledger of a store, and create it if there is none. `None` if a signal asks this process
/// to stop first.
pub(super) fn open(
    options: &HoldOptions,
    dir: &Path,
    environment: &Environment,
) -> Result<Option<Held>, Failure> {
    let signals = StopSignals::register(dir)?;
    let is_stopped = || signals.request() != StopRequest::None;
    // A store that gives no answer must not hold up the end.
    let _wait = signals.end_waits(dir, stopped_early(dir, Code::Waiting))?;
    hold((options, Before::Create), dir, environment, &is_stopped, &mut |_, _| Ok(()))
}

impl Holding {
    /// Show signs of life from now on.
    pub(super) fn start(mut log: Box<dyn HeldLog>, dir: &Path) -> Result<Self, Failure> {
        log.start(None)?;
        let watched = Watched { view: log.view(), fence: Fence::default(), first: Arc::default() };
        Ok(Self { dir: dir.to_owned(), log, watched, guard: None, failure: None })
    }

    /// The line that is printed about it.
    pub(super) fn log(&self) -> &dyn HeldLog {
        &*self.log
    }

    /// Ends the workers of the run from now on once another process may hold the ledger.
    pub(super) fn guard(&mut self, ledger: &Path, run: RunId) -> Result<Fence, Failure> {
        if self.guard.is_none() {
            self.guard = Some(Guard::start(self.watched.clone(), ledger.to_owned(), run)?);
        }
        Ok(self.watched.fence.clone())
    }

    /// Whether this process must end; prints news about the store.
    pub(super) fn must_end(&mut self, reporter: &RunReporter) -> bool {
        if self.failure.is_some() {
            return true;
        }
        let checked = match self.watched.doubt() {
            Some(HoldDoubt::NoContact(age)) => Err(no_contact(age, &self.log.view().health().url)),
            Some(HoldDoubt::Replaced) | None => self.log.check(),
        };
        match checked {
            Ok(all) => {
                for news in all {
                    match news {
                        StoreNewsLine::Lag(lag) => {
                            reporter.print_if_json(&lag);
                            reporter.message_unless_json(&lag.text());
                        }
                        StoreNewsLine::Damage(damage) => {
                            reporter.print_if_json(&damage);
                            reporter.message_unless_json(&damage.text());
                        }
                    }
                }
            }
            Err(failure) => {
                self.watched.fence.close();
                self.failure = Some(failure);
            }
        }
        self.failure.is_some()
    }

    /// Serve the ledger until the run may continue; `false` if a signal ends the wait.
    pub(super) fn wait(
        &mut self,
        ledger: &Ledger,
        wait: &Wait,
        reporter: &mut RunReporter,
    ) -> Result<bool, Failure> {
        let dir = self.dir.clone();
        let mut looked = Instant::now();
        while_serving(ledger, &dir, print_message, || {
            loop {
                if self.must_end(reporter) {
                    return Ok(false);
                }
                if reporter.stop_request() != StopRequest::None {
                    return Ok(false);
                }
                if looked.elapsed() >= DEAD_CLAIMS_EVERY {
                    looked = Instant::now();
                    take_over_dead_claims(ledger, &dir)?
                        .iter()
                        .for_each(|note| print_message(note));
                }
                ledger.tick()?;
                let is_due = wait.until.is_some_and(|until| ledger.now() >= until);
                if is_due || ledger.head().seq != wait.seen {
                    return Ok(true);
                }
                sleep(LOOK_EVERY);
            }
        })
    }

    /// The failure after another process took over, if it did. A process that stood still may first
    /// notice that the store gave no answer.
    fn replaced(&self) -> Option<Failure> {
        let fenced = Error::new(ErrorKind::Fenced, "another process may hold the ledger");
        match self.log.explain(fenced.into()) {
            Failure::Ledger(_) => None,
            replaced => Some(replaced),
        }
    }

    /// Bring everything to the store, close the ledger and say that it is free. The outcome is that of the run, unless
    /// this process had to end.
    pub(super) fn finish(
        mut self,
        ledger: Ledger,
        driven: Result<Code, Failure>,
    ) -> Result<Code, Failure> {
        self.guard = None;
        let (driven, is_lost) = match self.failure.take() {
            Some(failure) => (Err(self.replaced().unwrap_or(failure)), true),
            None => {
                let is_lost = |failure: &Failure| matches!(failure.code(), Code::Io | Code::Locked);
                let is_lost = driven.as_ref().is_err_and(is_lost);
                (driven.map_err(|failure| self.log.explain(failure)), is_lost)
            }
        };
        let finished = self.log.finish(is_lost);
        let driven = driven.and_then(|code| finished.map(|()| code));
        match ledger.close() {
            Ok(()) => {
                self.log.release();
                driven
            }
            // After a failed write the close also fails; that failure was reported.
            Err(error) => {
                driven.and_then(|code| if code == Code::Io { Ok(code) } else { Err(error.into()) })
            }
        }
    }
}

fn no_contact(age: Duration, url: &str) -> Failure {
    let message = format!(
        "the store gave no answer for {} s: the workers were ended, since another machine may have taken over",
        age.as_secs()
    );
    let hint = "`ledger resume` continues the run once the store answers; nothing that was acknowledged is lost";
    Error::new(ErrorKind::Io, message).with_hint(hint).at_path(Path::new(url)).into()
}
