//! `ledger run --wait`: a run that waits for people lets go of the ledger, so that they can answer
//! with any command, and goes on when something has changed or a deadline has come.
//!
//! Invariant: while it waits it holds nothing and writes nothing.

use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::runner::{Observer, StopRequest};
use plan_ledger::error::ErrorKind;
use plan_ledger::ledger::{Environment, Ledger, OpenReport, root};
use plan_ledger::plan::{Micros, RunId, Timer};

use super::exit::Failure;

/// Between two looks at the ledger.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// When the next thing falls due in a run by itself.
pub(super) fn due(ledger: &Ledger, run: RunId) -> Result<Option<Micros>, Failure> {
    let state = ledger.state()?;
    let timers = state.runs.get(&run).map(|run| run.timers.clone()).unwrap_or_default();
    Ok(timers.into_iter().find(|(_, timer)| *timer != Timer::Wall).map(|(until, _)| until))
}

/// Wait until the ledger has another last record than `seq`, or that time has come, and open it
/// again; `None` if it was asked to stop.
///
/// `seq` is from before it was last looked what there is to do: who acted since then may have made work.
pub(super) fn wait(
    dir: &Path,
    environment: &Environment,
    (seq, until): (u64, Option<Micros>),
    observer: &mut dyn Observer,
) -> Result<Option<(Ledger, OpenReport)>, Failure> {
    let mut is_over = false;
    while observer.stop_request() == StopRequest::None {
        let is_due = until.is_some_and(|until| environment.clock.now() >= until);
        is_over = is_over || is_due || root(dir, environment)?.seq != seq;
        if is_over {
            match Ledger::open(dir, environment) {
                // Whoever answers may still have it, and so may another runner.
                Err(error) if error.kind() == ErrorKind::Locked => {}
                opened => return Ok(Some(opened?)),
            }
        }
        thread::sleep(LOOK_AGAIN);
    }
    Ok(None)
}
