//! `ledger run --wait`: releases the ledger while the run waits for people, and reopens it after a
//! new record, a deadline, or the end of a process that had claimed a step.
//!
//! While it waits, the process has no lock and writes nothing, so that people can answer with any
//! command.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use plan_ledger::log::root;
use plan_ledger::plan::{Timer, WorkerProcess};
use plan_ledger::{Environment, ErrorKind, Ledger, OpenReport, RunId, State, Timestamp};

use crate::commands::inspect::read_state;
use crate::output::Failure;
use crate::protocol::is_gone;
use crate::runner::{DeadClaim, Observer, StopRequest};

/// The pause between two reads of the ledger.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How often it looks for claims of processes that are gone.
const DEAD_CLAIMS_EVERY: Duration = Duration::from_secs(2);

/// When the next timer of a run is due.
pub(super) fn next_due(ledger: &Ledger, run: RunId) -> Result<Option<Timestamp>, Failure> {
    let state = ledger.state()?;
    let timers = state.runs.get(&run).map(|run| run.timers.clone()).unwrap_or_default();
    Ok(timers.into_iter().find(|(_, timer)| *timer != Timer::Wall).map(|(until, _)| until))
}

/// The processes of the workers at work.
fn claimants(state: &State) -> Vec<WorkerProcess> {
    let attempt = |(run, step): &(_, _)| state.runs.get(run)?.step(*step)?.attempt();
    let attempts = state.in_flight.values().filter_map(attempt);
    attempts.filter_map(|attempt| attempt.process.clone()).collect()
}

/// Waits until the ledger has a record after `seq`, or until that time, and opens it. Returns `None`
/// if a signal asked the process to stop.
///
/// `seq` must be read before the last check for work: a later record may have made a step ready.
pub(super) fn wait_for_change(
    dir: &Path,
    environment: &Environment,
    seq: u64,
    until: Option<Timestamp>,
    observer: &mut dyn Observer,
) -> Result<Option<(Ledger, OpenReport)>, Failure> {
    // Until the ledger has another record, no other claims are in flight.
    let claimants = read_state(dir, |state| Ok(claimants(state)))?;
    let mut is_over = false;
    let mut looked = Instant::now();
    while observer.stop_request() == StopRequest::None {
        let is_due = match until {
            Some(until) => environment.time_of(dir, 0)? >= until,
            None => false,
        };
        if looked.elapsed() >= DEAD_CLAIMS_EVERY {
            looked = Instant::now();
            // The runner takes them over once it has the lock.
            is_over = is_over || !DeadClaim::all(dir).is_empty() || claimants.iter().any(is_gone);
        }
        is_over = is_over || is_due || root(&environment.storage, dir)?.seq != seq;
        if is_over {
            match Ledger::open_with(dir, environment) {
                // The process that answered, or another runner, still has the lock.
                Err(error) if error.kind() == ErrorKind::Locked => {}
                opened => return Ok(Some(opened?)),
            }
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(None)
}
