//! Submitted transactions: a value, and the records that must be durable before it is revealed.
//!
//! A thread can submit the transactions of many requests and then wait for all of them, so that they
//! share one sync.
//!
//! Invariants:
//! - No result, not even a rejection, is revealed before [`Submitted::wait`]: the state that it was
//!   decided on is ahead of the durable records.
//! - A record that names a blob is never deferred: the blob is reserved until the record is durable.

use crate::error::{Error, Result};
use crate::log::{Ack, Ticket};
use crate::plan::Event;

use super::commit::Commit;
use super::engine::Engine;

/// A result that may depend on records that are not durable yet.
#[derive(Debug)]
#[must_use = "the result is revealed by `wait`, after everything that it depends on is durable"]
pub struct Submitted<'a, T, E = Error> {
    engine: &'a Engine,
    result: std::result::Result<T, E>,
    events: Vec<(u64, Event)>,
    depends_on: DependsOn,
}

/// The records that a result depends on.
#[derive(Debug, Default)]
pub(super) struct DependsOn {
    /// Its own records, and so all earlier ones.
    records: Option<Ticket>,
    /// The records of an earlier commit, which are durable.
    durable: Option<Ack>,
    /// All records that were submitted before it.
    state: bool,
}

impl DependsOn {
    /// The result was read from the state.
    pub(super) const STATE: Self = Self { records: None, durable: None, state: true };

    pub(super) fn records(ticket: Ticket) -> Self {
        Self { records: Some(ticket), ..Self::default() }
    }

    pub(super) fn durable(ack: Ack) -> Self {
        Self { durable: Some(ack), ..Self::default() }
    }

    /// Wait until everything is durable; returns the acknowledgement of the result's own records.
    pub(super) fn wait(&mut self, engine: &Engine) -> Result<Option<Ack>> {
        if let Some(ticket) = self.records.take() {
            self.durable = Some(engine.wait_durable(ticket)?);
        }
        if std::mem::take(&mut self.state) && !mutant!(RejectionBeforeDurable) {
            engine.flush()?;
        }
        Ok(self.durable)
    }
}

impl<'a, T, E> Submitted<'a, T, E> {
    pub(super) fn new(
        engine: &'a Engine,
        result: std::result::Result<T, E>,
        events: Vec<(u64, Event)>,
        depends_on: DependsOn,
    ) -> Self {
        Self { engine, result, events, depends_on }
    }

    /// An error that depends on no record.
    pub(crate) fn failed(engine: &'a Engine, error: E) -> Self {
        Self::settled(engine, Err(error))
    }

    /// A result that depends on no record.
    pub(crate) fn settled(engine: &'a Engine, result: std::result::Result<T, E>) -> Self {
        Self::new(engine, result, Vec::new(), DependsOn::default())
    }

    /// The value, after everything that it depends on is durable. If no other thread does so, this
    /// thread writes and syncs everything that was submitted.
    ///
    /// # Errors
    /// The write errors of [`crate::Ledger::execute`], else the error of the transaction.
    pub fn wait(mut self) -> std::result::Result<T, E>
    where
        E: From<Error>,
    {
        self.depends_on.wait(self.engine)?;
        self.result
    }

    /// The commit and the value, after everything is durable.
    pub(crate) fn wait_commit(mut self) -> std::result::Result<(Commit, T), E>
    where
        E: From<Error>,
    {
        let ack = self.depends_on.wait(self.engine)?;
        let value = self.result?;
        let ack = ack.unwrap_or_else(|| self.engine.log.last_durable());
        Ok((Commit { ack, events: self.events }, value))
    }

    /// Depend on another result, too. The returned result must not be revealed before
    /// [`Submitted::wait`] on this one.
    pub fn include<U, F>(&mut self, other: Submitted<'a, U, F>) -> std::result::Result<U, F> {
        let DependsOn { records, durable, state } = other.depends_on;
        let own = &mut self.depends_on;
        // The records of the later one are durable only after those of the earlier one.
        own.records = records.or(own.records.take());
        own.durable = durable.or(own.durable);
        own.state |= state;
        other.result
    }

    /// The same dependencies with another result.
    pub fn with<U, F>(self, result: std::result::Result<U, F>) -> Submitted<'a, U, F> {
        Submitted::new(self.engine, result, self.events, self.depends_on)
    }

    /// As [`Submitted::wait`], without revealing the result.
    pub(super) fn settle(mut self) -> Self
    where
        E: From<Error>,
    {
        if let Err(error) = self.depends_on.wait(self.engine) {
            self.result = Err(error.into());
        }
        self
    }
}

#[cfg(test)]
mod tests {
    //! Goal: no response depends on records that are not durable, and deferred commits share one
    //! sync.

    use std::path::Path;

    use super::*;
    use crate::error::ErrorKind;
    use crate::ledger::{Ledger, state_hash};
    use crate::log::BatchKey;
    use crate::plan::{CapScope, Command, RunId};
    use crate::sim::environment;
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

    fn submit<'a>(ledger: &'a Ledger, command: &Command) -> Submitted<'a, u64> {
        ledger.transact(None, |transaction| {
            transaction.run(command)?;
            Ok(transaction.state().seq)
        })
    }

    fn fail_next_sync(disk: &SimDisk) {
        let failure = FaultAction::Error(OsError::Io, FaultEffect::Nothing);
        disk.inject(FaultRule::next(failure).of(Operation::Sync));
    }

    #[test]
    fn read_after_a_failed_write_is_rejected() {
        let (disk, ledger) = ledger();
        let read = || ledger.read(|state| state.seq).wait();
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
        for (seq, submitted) in (1..).zip(submitted) {
            assert_eq!(submitted.wait().unwrap(), seq, "each sees those before it");
            assert_eq!(ledger.head().seq, 5, "the first wait covers all");
        }
    }

    #[test]
    fn failed_sync_is_reported_to_every_pending_commit() {
        let (disk, ledger) = ledger();
        let written: Vec<_> = (1..=3).map(|limit| submit(&ledger, &cap(limit))).collect();
        let unknown_run =
            Command::CancelRun { run: RunId(9), by: "ana".to_owned(), reason: String::new() };
        let rejected = submit(&ledger, &unknown_run);
        fail_next_sync(&disk);
        for submitted in written {
            let error = submitted.wait().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
        }
        // The rejected command wrote nothing, but the state that it was decided on is not durable.
        let error = rejected.wait().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
    }

    #[test]
    fn included_result_depends_on_both() {
        let (disk, ledger) = ledger();
        let mut both = ledger.settled(Ok::<_, Error>(()));
        assert_eq!(both.include(submit(&ledger, &cap(1))).unwrap(), 1);
        assert_eq!(both.include(ledger.read(|state| state.seq)).unwrap(), 1);
        fail_next_sync(&disk);
        let error = both.wait().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "its own record counts first: {error}");
    }

    #[test]
    fn second_rejected_command_keeps_the_first() {
        let (_, ledger) = ledger();
        let unknown_run = Command::Unpause { run: RunId(9), by: "ana".to_owned() };
        let both = ledger.transact(None, |transaction| {
            transaction.run(&cap(1))?;
            assert_eq!(transaction.run(&unknown_run).unwrap_err().kind(), ErrorKind::Rejected);
            transaction.run(&cap(2))?;
            Ok(transaction.events().iter().map(|(seq, _)| *seq).collect::<Vec<_>>())
        });
        assert_eq!(both.wait().unwrap(), [1, 2]);
        assert_eq!(ledger.state_hash().unwrap(), state_hash(&ledger.state_at(2).unwrap()));
    }

    #[test]
    fn abandoned_transaction_writes_nothing() {
        let (_, ledger) = ledger();
        let before = ledger.state_hash().unwrap();
        let abandoned = ledger.transact(None, |transaction| {
            transaction.run(&cap(1))?;
            Err::<(), _>(Error::new(ErrorKind::Conflict, "changed my mind"))
        });
        assert_eq!(abandoned.wait().unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!((ledger.head().seq, ledger.state_hash().unwrap()), (0, before));
        ledger.execute(&cap(2)).unwrap();
        assert_eq!(ledger.state_hash().unwrap(), state_hash(&ledger.state_at(1).unwrap()));
    }

    /// Regression: a transaction that was repeated under its key read its value from a state that
    /// was ahead of the durable records.
    #[test]
    fn repeated_transaction_reads_a_durable_state() {
        let (disk, ledger) = ledger();
        let key = BatchKey::new(b"once").unwrap();
        let repeat = || {
            ledger.transact(Some(&key), |transaction| {
                transaction.run(&cap(1))?;
                Ok((transaction.state().seq, transaction.events().len()))
            })
        };
        assert_eq!(repeat().wait().unwrap(), (2, 1));
        let later = submit(&ledger, &cap(2));
        fail_next_sync(&disk);
        assert_eq!(repeat().wait().unwrap(), (2, 1), "the later record is not durable");
        assert_eq!(later.wait().unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    }
}
