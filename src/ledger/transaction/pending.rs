//! Deferred commits: one thread submits the transactions of many requests and then waits for all of
//! them, so that they share one sync.
//!
//! Invariants:
//! - No result, not even a rejection, may be revealed before [`PendingCommits::wait`]: the state
//!   that it was decided on is ahead of the durable records.
//! - A record that names a blob is never deferred: the blob is reserved until the record is durable.

use std::cell::{Cell, RefCell};

use crate::error::{Error, Result};
use crate::ledger::snapshot::load::expect_valid;
use crate::log::Ticket;
use crate::plan::{Command, Event, Output, State};

use super::definition::Transaction;
use super::engine::{Engine, SubmitError, SubmitOutcome};
use super::tick;

/// The commits that must be durable before the response to a request is sent.
#[derive(Debug, Default)]
#[doc(hidden)]
pub struct PendingCommits {
    /// The request's own commits.
    tickets: RefCell<Vec<Ticket>>,
    depends_on: Cell<DependsOn>,
}

/// The dependency of the response, besides the request's own records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum DependsOn {
    #[default]
    Nothing,
    /// The state at the time of the read.
    State,
}

impl PendingCommits {
    fn add(&self, ticket: Ticket) {
        self.tickets.borrow_mut().push(ticket);
    }

    fn depend_on_state(&self) {
        self.depends_on.set(DependsOn::State);
    }

    /// Wait until everything is durable.
    ///
    /// # Errors
    /// The write errors of [`crate::Ledger::execute`]. The server then responds with this error.
    pub(crate) fn wait(&self, engine: &Engine) -> Result<()> {
        let tickets = self.tickets.take();
        tickets.into_iter().try_for_each(|ticket| engine.wait_durable(ticket).map(drop))?;
        let depends_on = self.depends_on.take();
        mutant!(RejectionBeforeDurable => return Ok(()));
        if depends_on == DependsOn::State { engine.flush() } else { Ok(()) }
    }
}

/// As [`Engine::transact`], without the wait.
///
/// # Errors
/// Those of building the command; `Rejected`, `DiskFull` and `TooLarge`.
pub(crate) fn transact_deferred<T, E: From<Error>>(
    engine: &Engine,
    transaction: &Transaction<'_, E>,
    read: impl FnOnce(&State, &[(u64, Event)]) -> T,
    pending: &PendingCommits,
) -> std::result::Result<T, E> {
    engine.log.check_process()?;
    let reservation = engine.outputs.reserve();
    let command = engine.prepare(transaction)?;
    let reservation = command.as_deref().is_some_and(names_blob).then_some(reservation);
    let submitted = match engine.submit(transaction, command.as_deref(), read) {
        SubmitOutcome::Submitted(submitted) => submitted,
        SubmitOutcome::AlreadySubmitted(ticket, read) => {
            return engine.wait_for_earlier(ticket, read).map(|(_, value)| value);
        }
        SubmitOutcome::NotSubmitted(SubmitError::Failed(error)) => return Err(error),
        SubmitOutcome::NotSubmitted(SubmitError::Rejected(error)) => {
            pending.depend_on_state();
            return Err(error);
        }
    };
    if reservation.is_some() {
        engine.wait_durable(submitted.ticket)?;
    } else {
        pending.add(submitted.ticket);
    }
    Ok(submitted.value)
}

/// One batch of [`tick::tick`], without the wait.
///
/// # Errors
/// As [`tick::tick`], except for the wait.
pub(crate) fn tick_deferred(engine: &Engine, pending: &PendingCommits) -> Result<()> {
    match tick::submit(engine) {
        None => {}
        Some(Ok(submitted)) => pending.add(submitted.ticket),
        Some(Err(SubmitError::Failed(error) | SubmitError::Rejected(error))) => return Err(error),
    }
    Ok(())
}

/// Read from the state without copying it. The result depends on the pending commits.
///
/// # Errors
/// `Corrupt` if a run that was read is invalid.
pub(crate) fn read_deferred<T>(
    engine: &Engine,
    read: impl FnOnce(&State) -> T,
    pending: &PendingCommits,
) -> Result<T> {
    let mut shared = engine.lock()?;
    shared.refresh(&engine.log)?;
    let value = read(&shared.state);
    expect_valid(&shared.state)?;
    pending.depend_on_state();
    Ok(value)
}

fn names_blob(command: &Command) -> bool {
    matches!(command, Command::RecordReceipt { receipt, .. }
        if matches!(receipt.output, Output::Blob(_)))
}

#[cfg(test)]
mod tests {
    //! Goal: no response depends on records that are not durable, and deferred commits share one
    //! sync.

    use std::path::Path;

    use super::*;
    use crate::error::ErrorKind;
    use crate::ledger::Ledger;
    use crate::plan::{CapScope, RunId};
    use crate::sim::lab::environment;
    use crate::sim::{FaultAction, FaultEffect, FaultRule, Operation, OsError, SimDisk};

    fn ledger() -> (SimDisk, Ledger) {
        let disk = SimDisk::new();
        let ledger = Ledger::create(Path::new("/l"), &environment(&disk)).unwrap();
        (disk, ledger)
    }

    fn cap(limit: u32) -> Command {
        let (scope, limit) = (CapScope::Ledger, Some(limit));
        Command::SetCap { scope, limit, by: "ana".to_owned() }
    }

    fn submit(ledger: &Ledger, command: &Command) -> (PendingCommits, Result<u64>) {
        let pending = PendingCommits::default();
        let transaction = Transaction::of(command);
        let seq = ledger.transact_deferred(&transaction, |state, _| state.seq, &pending);
        (pending, seq)
    }

    fn fail_next_sync(disk: &SimDisk) {
        let failure = FaultAction::Error(OsError::Io, FaultEffect::Nothing);
        disk.inject(FaultRule::next(failure).of(Operation::Sync));
    }

    #[test]
    fn read_after_a_failed_write_is_rejected() {
        let (disk, ledger) = ledger();
        let read = || {
            let pending = PendingCommits::default();
            let seq = ledger.read_deferred(|state| state.seq, &pending)?;
            ledger.wait_pending(&pending).map(|()| seq)
        };
        assert_eq!(read().unwrap(), 0);
        fail_next_sync(&disk);
        ledger.execute(&cap(1)).unwrap_err();
        let error = read().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
    }

    #[test]
    fn deferred_commits_become_durable_together() {
        let (_, ledger) = ledger();
        let submitted: Vec<_> = (1..=5).map(|limit| submit(&ledger, &cap(limit))).collect();
        assert_eq!(ledger.head().seq, 0, "nothing waited for the disk");
        for (seq, (pending, found)) in (1..).zip(&submitted) {
            assert_eq!(*found.as_ref().unwrap(), seq, "each sees those before it");
            ledger.wait_pending(pending).unwrap();
            assert_eq!(ledger.head().seq, 5, "the first wait covers all");
        }
    }

    #[test]
    fn failed_sync_is_reported_to_every_pending_commit() {
        let (disk, ledger) = ledger();
        let written: Vec<_> = (1..=3).map(|limit| submit(&ledger, &cap(limit)).0).collect();
        let unknown_run =
            Command::CancelRun { run: RunId(9), by: "ana".to_owned(), reason: String::new() };
        let (rejected, error) = submit(&ledger, &unknown_run);
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Rejected);
        fail_next_sync(&disk);
        for pending in &written {
            let error = ledger.wait_pending(pending).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
        }
        // The rejected command wrote nothing, but the state that it was decided on is not durable.
        let error = ledger.wait_pending(&rejected).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
    }
}
